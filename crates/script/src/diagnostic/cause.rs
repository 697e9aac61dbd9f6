//! The causes of problems, for code: messages and hints are for people.

/// The cause of a problem, with the facts that a fix needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Cause {
    /// Only the message says it.
    #[default]
    Other,
    /// The name at the position is misspelt, or belongs to another language; this one is meant.
    Name(String),
    /// A word or sign near the position is written otherwise.
    Written {
        /// The written text, such as `elif`.
        found: String,
        /// The right text, such as `else if`.
        instead: String,
    },
    /// A function of a module is called with a dot, or has another name; this is its path.
    Path(String),
    /// A key of a declaration is misspelt.
    Key {
        /// The written key.
        found: String,
        /// The key that is meant.
        instead: String,
    },
    /// This text near the position is not needed, such as `await `.
    Needless(&'static str),
    /// The line of the position, a statement with this name, is not needed.
    NeedlessLine(&'static str),
    /// This token is missing at the position.
    Missing(String),
    /// The variable is assigned and not declared.
    NewVariable,
    /// The name is a parameter that the function does not declare.
    Parameter(String),
    /// The called name is a variable that holds a function.
    HeldFunction,
    /// The capability is not declared in the opening comment.
    Capability(String),
    /// The value must be returned.
    NotReturned,
    /// Syntax of another language.
    Foreign(Syntax),
}

impl Cause {
    pub(crate) fn written(found: &str, instead: &str) -> Self {
        Self::Written { found: found.into(), instead: instead.into() }
    }
}

/// Syntax of Python or JavaScript whose fix needs more than another word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Syntax {
    Arrow,
    AssignedCondition,
    BraceMap,
    Comprehension,
    Conditional,
    Declaration,
    Decrement,
    Divisor,
    Filled,
    Increment,
    Is,
    Lambda,
    Raise,
    Signature,
    SingleQuotes,
    Slice,
    Ternary,
    ThreeQuotes,
    TwoVariables,
    Type,
}

impl Syntax {
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Arrow => "invalid closure: `=>` is only for `switch`",
            Self::AssignedCondition => "`=` assigns and is not a condition",
            Self::BraceMap => "`{` starts a block, not a map",
            Self::Comprehension => "list comprehensions are not supported",
            Self::Conditional => "the condition must precede the values",
            Self::Declaration => "invalid declaration of a variable",
            Self::Decrement => "unknown operator `--`",
            Self::Divisor => "`//` begins a comment",
            Self::Filled => "unknown prefix `f` of a text",
            Self::Increment => "unknown operator `++`",
            Self::Is => "unknown keyword `is`",
            Self::Lambda => "unknown keyword `lambda`",
            Self::Raise => "unknown keyword `raise`",
            Self::Signature => "a parameter has no type or default",
            Self::SingleQuotes => "single quotes are for one character",
            Self::Slice => "`:` is not a range",
            Self::Ternary => "unknown operator `?`",
            Self::ThreeQuotes => "three quotes do not begin a text of several lines",
            Self::TwoVariables => "`for` needs brackets around two variables",
            Self::Type => "a variable has no declared type",
        }
    }
}
