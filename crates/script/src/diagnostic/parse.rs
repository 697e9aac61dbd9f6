//! Parse errors with clear messages, and hints for common mistakes.

use super::cause::{Cause, Syntax};
use super::codes::Code;
use super::finding::Diagnostic;
use super::{foreign, unclosed};
use crate::declare::hooks;
use rhai::{ParseError, Position};
use std::path::Path;
use valvehouse_core::text::nearest;
use valvehouse_dialect::answer::lower_first;
use valvehouse_dialect::syntax::{ParseFault, Within, spans, tokens};

/// The hint where nothing better is known.
const ANYTHING: &str = "check the text right before this place for a missing or an extra character";

/// Describes a parse error, with a hint for common mistakes.
pub(crate) fn of_parse(id: &str, path: &Path, source: &str, error: &ParseError) -> Diagnostic {
    let kind = ParseFault::from(error);
    let message = lower_first(&tokens::as_written(&error.err_type().to_string()));
    let problem = Diagnostic::new(code_of(kind), id, path, message).at(source, error.position());
    if let Some(foreign) = foreign::describe(kind, &problem, source) {
        return foreign;
    }
    if let Some(unbalanced) = unclosed::first(kind, &problem, source) {
        return unbalanced;
    }
    let problem = helped(kind, problem, source);
    match kind {
        ParseFault::MissingToken(token @ (";" | ","), _) => {
            let problem = missing_before(problem, source, token);
            if is_divided(&problem) { problem.divided() } else { problem }
        }
        ParseFault::MissingBody => at_signature(problem, source),
        _ => problem,
    }
}

/// Returns `true` if the rest of the line after a problem is a comment that looks like a divisor: `a // 2;`.
fn is_divided(problem: &Diagnostic) -> bool {
    let Some(column) = problem.column else { return false };
    let rest: String = problem.excerpt.chars().skip(column - 1).collect();
    let Some(divisor) = rest.trim_start().strip_prefix("//") else { return false };
    let divisor = divisor.trim();
    let (operand, is_ended) = match divisor.split_once(';') {
        Some((operand, _)) => (operand.trim(), true),
        None => (divisor.trim_end_matches([')', '}', ' ']), false),
    };
    let is_number = operand.parse::<f64>().is_ok();
    let is_operand = operand.chars().all(|letter| letter.is_alphanumeric() || "_.()[]".contains(letter));
    !operand.is_empty() && (is_number || is_operand && is_ended)
}

impl Diagnostic {
    /// Explains a problem by a comment that is meant as a divisor.
    pub(crate) fn divided(self) -> Self {
        let problem = Diagnostic {
            code: Code::ForeignSyntax,
            message: Syntax::Divisor.message().into(),
            cause: Cause::Foreign(Syntax::Divisor).into(),
            ..self
        };
        problem.help("divide with `/`; the quotient of two integers is an integer")
    }
}

/// Moves the problem of a function without a body to the end of its parameters.
fn at_signature(problem: Diagnostic, source: &str) -> Diagnostic {
    let Some(line) = problem.line else { return problem };
    let end: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let code = spans::code_only(source);
    let Some(begins) = code[..end].rfind("fn ") else { return problem };
    match code[begins..].find(')') {
        Some(close) => problem.at_byte(source, begins + close + 1),
        None => problem,
    }
}

/// Moves the problem of a missing token from the start of the next line to the end of the line it belongs to.
fn missing_before(problem: Diagnostic, source: &str, token: &str) -> Diagnostic {
    let (Some(line), Some(column)) = (problem.line, problem.column) else { return problem };
    let begins_line = problem.excerpt.chars().take(column - 1).all(char::is_whitespace);
    let code = spans::code_only(source);
    let before = code.lines().take(line - 1).enumerate().filter(|(_, line)| !line.trim().is_empty()).last();
    let end = before.filter(|_| begins_line).and_then(|(above, text)| {
        // The code has blanks in place of texts, so the end of the line is found in the source.
        let written = source.lines().nth(above)?;
        let comment = written.find("//").filter(|at| text[*at..].trim().is_empty());
        let column = written[..comment.unwrap_or(written.len())].trim_end().chars().count() + 1;
        Some(Position::new(u16::try_from(above + 1).ok()?, u16::try_from(column).ok()?))
    });
    match end {
        Some(end) => {
            let cause = Cause::Missing(token.to_owned()).into();
            Diagnostic { message: format!("missing `{token}`"), cause, ..problem }.at(source, end)
        }
        None => problem,
    }
}

fn code_of(kind: ParseFault<'_>) -> Code {
    match kind {
        ParseFault::UnknownVariable(_) | ParseFault::UnknownModule(_) => Code::UnknownVariable,
        ParseFault::Reserved(_) => Code::ReservedName,
        ParseFault::NotAssignable => Code::NotAssignable,
        ParseFault::AssignedConstant => Code::ConstantWritten,
        ParseFault::Twice => Code::Twice,
        ParseFault::TooComplex | ParseFault::TooLarge => Code::TooComplex,
        ParseFault::EndOfFile | ParseFault::UnterminatedString => Code::Unclosed,
        _ => Code::Syntax,
    }
}

/// Adds the hint for a mistake that is not syntax of another language.
fn helped(kind: ParseFault<'_>, problem: Diagnostic, source: &str) -> Diagnostic {
    use ParseFault as E;
    let is_doc_comment = problem.excerpt.trim_start().starts_with("///");
    let plain = match (problem.code, kind) {
        (Code::NotAssignable, _) => "assign it to a variable first: `let there = …; there.field = …`",
        (Code::ReservedName, _) => "rename it; the word is reserved by the language or the host",
        (Code::ConstantWritten, _) => {
            "copy it to a variable with `let`, or store changing values in `state` or kv"
        }
        (Code::Twice, _) => "rename or remove one of the two",
        (Code::TooComplex, E::TooLarge) => {
            "move expressions with the constant into a function, or use the constant in fewer places"
        }
        (Code::TooComplex, _) => "move a part of it to a function or a variable",
        (Code::Unclosed, E::UnterminatedString) => {
            match problem.excerpt.chars().nth(problem.column.unwrap_or(1) - 1) {
                Some('`') => "close it with another backtick",
                _ => "close it on the same line, or use backticks for a text of several lines",
            }
        }
        (Code::Unclosed, _) => "close it, or remove its opening character",
        (_, E::UnknownModule(name)) => {
            return problem.help(format!(
                "import the module at the top of the file: `import \"lib/{name}\" as {name};`"
            ));
        }
        (_, E::UnknownVariable(name)) => return undefined(problem, name, source),
        _ if is_doc_comment => "use `//`; `///` is only allowed before `fn`",
        (_, E::MissingToken(";", _)) => {
            "end a statement with `;`, and separate two values with an operator or a `,`"
        }
        (_, E::MissingProperty) => "write a name after the `.`; write any other key as `map[\"key\"]`",
        (_, E::MissingVariable) => "write a name that starts with a letter or `_` and is not a reserved word",
        (_, E::MissingToken(_, Within::Parameters)) => {
            "separate parameters with `,`; remove types and defaults"
        }
        (_, E::NestedFunction) => {
            "move the function to the top level, or write a closure: `let add = |a, b| a + b;`"
        }
        (_, E::OutsideLoop) => "leave a function with `return`",
        (_, E::Unexpected(sign)) => match sign {
            sign if !sign.is_ascii() => {
                "write names with a-z, A-Z, 0-9 and `_`; write any other key as `body[\"größe\"]`"
            }
            ";" | ")" => "add the missing value before it",
            "}" => "add the missing value before it, or remove an extra `}` above",
            _ => ANYTHING,
        },
        (_, E::MalformedEscape) => {
            "write a pattern or a path in backticks, where `\\` is an ordinary character: `\\d+`"
        }
        (_, E::MissingToken("catch", _)) => {
            "write `catch (e) { … }`; there is no `finally`: write its statements after the block"
        }
        (_, E::MissingBody) => "write the body in braces: `fn inlet(body) { … }`",
        (_, E::MissingToken(..) | E::MissingExpression | E::UnexpectedMap) => {
            "insert the expected text at this position"
        }
        _ => ANYTHING,
    };
    problem.help(plain)
}

fn undefined(problem: Diagnostic, name: &str, source: &str) -> Diagnostic {
    let known = hooks::param_names().chain(["body", "event", "ctx"]);
    if known.clone().any(|known| known == name) {
        let help = format!("add `{name}` to the parameters of the function");
        return problem.help(help).because(Cause::Parameter(name.into()));
    }
    if source.lines().any(|line| line.strip_prefix("let ").is_some_and(|rest| first_word(rest) == name)) {
        return problem.help(format!(
            "a `let` outside of functions never runs; store values of a turn in `state`, values of several \
             turns in kv::, and fixed values in a constant: `const {} = …;`",
            name.to_uppercase()
        ));
    }
    if let Some(near) = nearest(name, names_before(&problem, source)).filter(|near| near.len() > 2) {
        return problem.meant(near);
    }
    if is_assigned(&problem, name) {
        let help = format!("declare a new variable: `let {name} = …;`");
        problem.help(help).because(Cause::NewVariable)
    } else {
        problem.help(format!("declare `{name}` as a parameter, with `let`, or as a literal constant"))
    }
}

/// Returns the names that the enclosing function declares before a problem.
fn names_before<'a>(problem: &Diagnostic, source: &'a str) -> Vec<&'a str> {
    let before: Vec<&str> = source.lines().take(problem.line.unwrap_or(0)).collect();
    let begins = before.iter().rposition(|line| line.starts_with("fn ") || line.starts_with("private fn "));
    let mut names = Vec::new();
    for line in &before[begins.unwrap_or(0)..] {
        let code = line.split("//").next().unwrap_or(line);
        if let Some((_, params)) = code.split_once("fn ").and_then(|(_, rest)| rest.split_once('(')) {
            names.extend(params.split(')').next().unwrap_or(params).split(',').map(str::trim));
        }
        for word in ["let ", "for ", "const "] {
            let declared = code.match_indices(word).map(|(at, _)| &code[at + word.len()..]);
            names.extend(declared.map(|rest| first_word(rest.trim_start_matches([' ', '(']))));
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_word(text: &str) -> &str {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split_once(|letter| !is_part(letter)).map_or(text, |(word, _)| word)
}

/// Returns `true` if the line of a problem assigns to the name at its position.
fn is_assigned(problem: &Diagnostic, name: &str) -> bool {
    let rest = problem.excerpt.chars().skip(problem.column.unwrap_or(1) - 1 + name.chars().count());
    let rest: String = rest.collect();
    rest.trim_start().strip_prefix('=').is_some_and(|value| !value.starts_with('='))
}
