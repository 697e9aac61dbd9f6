//! The errors of the parser as facts: the one place that reads its words.

use rhai::{LexError, ParseError, ParseErrorType as E};

/// An error of the parser.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParseFault<'e> {
    /// A variable that is not declared.
    UnknownVariable(&'e str),
    /// A word before `::` that is not a module.
    UnknownModule(&'e str),
    /// A word that cannot be a name here.
    Reserved(&'e str),
    /// A token that cannot stand here.
    Unexpected(&'e str),
    /// Signs that the language does not have.
    UnknownSign(&'e str),
    /// A token that must stand here.
    MissingToken(&'e str, Within),
    /// A value is assigned to something that cannot hold one.
    NotAssignable,
    /// A value is assigned to a constant.
    AssignedConstant,
    /// A function, parameter, key or variable is declared twice.
    Twice,
    /// A part of the file exceeds a limit.
    TooComplex,
    /// The constants of the file are too large.
    TooLarge,
    /// The file ends within a construct.
    EndOfFile,
    /// A text has no end.
    UnterminatedString,
    /// A text has an unknown escape sequence.
    MalformedEscape,
    /// No name follows a `.`.
    MissingProperty,
    /// A declaration has no name.
    MissingVariable,
    /// A function has no body.
    MissingBody,
    /// A function that is not at the top level.
    NestedFunction,
    /// `break` or `continue` outside of a loop.
    OutsideLoop,
    /// A literal map where a list or range is needed.
    UnexpectedMap,
    /// An expression or a parameter is missing, or has another type.
    MissingExpression,
    /// Anything else.
    Other,
}

/// The place at which a token is missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Within {
    /// The arguments of a call.
    Arguments,
    /// The parameters of a function.
    Parameters,
    /// `( … )` around an expression.
    Brackets,
    /// Anything else.
    Other,
}

impl<'e> From<&'e ParseError> for ParseFault<'e> {
    fn from(error: &'e ParseError) -> Self {
        match error.err_type() {
            E::VariableUndefined(name) => Self::UnknownVariable(name),
            E::ModuleUndefined(name) => Self::UnknownModule(name),
            E::Reserved(word) => Self::Reserved(word),
            E::ForbiddenVariable(_) | E::FnMissingName => Self::Reserved(""),
            E::BadInput(LexError::ImproperSymbol(_, why)) if why.starts_with("more than") => Self::TooComplex,
            E::BadInput(LexError::ImproperSymbol(sign, _)) | E::UnknownOperator(sign) => {
                Self::UnknownSign(sign)
            }
            E::BadInput(LexError::UnexpectedInput(token)) => Self::Unexpected(token),
            E::BadInput(LexError::MalformedChar(_)) => Self::UnknownSign("'"),
            E::BadInput(LexError::UnterminatedString) => Self::UnterminatedString,
            E::BadInput(LexError::MalformedEscapeSequence(_)) => Self::MalformedEscape,
            E::MissingToken(token, why) => Self::MissingToken(token, Within::of(token, why)),
            E::AssignmentToInvalidLHS(_) => Self::NotAssignable,
            E::AssignmentToConstant(_) => Self::AssignedConstant,
            E::FnDuplicatedDefinition(..)
            | E::FnDuplicatedParam(..)
            | E::DuplicatedProperty(_)
            | E::DuplicatedVariable(_)
            | E::VariableExists(_) => Self::Twice,
            E::ExprTooDeep | E::TooManyFunctions => Self::TooComplex,
            E::LiteralTooLarge(..) => Self::TooLarge,
            E::UnexpectedEOF => Self::EndOfFile,
            E::PropertyExpected => Self::MissingProperty,
            E::VariableExpected => Self::MissingVariable,
            E::FnMissingBody(_) => Self::MissingBody,
            E::WrongFnDefinition => Self::NestedFunction,
            E::LoopBreak => Self::OutsideLoop,
            E::MismatchedType(_, given) if given == "an object map" => Self::UnexpectedMap,
            E::MismatchedType(..) | E::ExprExpected(_) | E::FnMissingParams(_) => Self::MissingExpression,
            _ => Self::Other,
        }
    }
}

impl Within {
    fn of(token: &str, why: &str) -> Self {
        let places = [
            (",", "to separate the arguments", Self::Arguments),
            (",", "to separate the parameters", Self::Parameters),
            (")", "for a matching (", Self::Brackets),
        ];
        let place = places.into_iter().find(|(sign, words, _)| *sign == token && why.starts_with(words));
        place.map_or(Self::Other, |(.., place)| place)
    }
}

/// Returns `true` if a literal is an operand of `||` or `&&`.
pub(super) fn is_literal_operand(error: &ParseError) -> bool {
    matches!(error.err_type(), E::MismatchedType(wanted, _) if wanted.contains("boolean"))
}
