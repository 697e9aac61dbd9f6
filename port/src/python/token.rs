//! The tokens of Python.

/// A token and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    /// The line, counted from 1.
    pub(super) line: usize,
    /// The column in characters, counted from 1.
    pub(super) column: usize,
    /// The line on which the token ends.
    pub(super) end_line: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    Name(String),
    /// A number as written, without underscores.
    Number(String),
    Text(TextToken),
    /// An operator or a delimiter.
    Op(&'static str),
    Newline,
    Indent,
    Dedent,
    End,
}

/// A text literal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TextToken {
    /// The characters between the quotes, as written.
    pub(super) raw: String,
    pub(super) is_raw: bool,
    pub(super) is_bytes: bool,
    pub(super) is_format: bool,
}

impl TokenKind {
    /// Returns the token as error messages show it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Name(name) => format!("`{name}`"),
            Self::Number(number) => format!("`{number}`"),
            Self::Text(_) => "a text".to_owned(),
            Self::Op(op) => format!("`{op}`"),
            Self::Newline => "the end of the line".to_owned(),
            Self::Indent => "an indented line".to_owned(),
            Self::Dedent => "the end of the indented lines".to_owned(),
            Self::End => "the end of the file".to_owned(),
        }
    }
}
