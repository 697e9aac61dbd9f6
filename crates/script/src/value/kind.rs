//! Kinds of values, in words that scripts know.

/// The type of a parameter or of a function's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// Any value, `()` too.
    Any,
    /// `()`
    Nothing,
    /// A string.
    Text,
    /// A whole number or one with a point.
    Number,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// A list.
    Array,
    /// A map.
    Map,
    /// A closure, or a function by its name.
    Closure,
    /// `1..5`, and what else a loop runs over.
    Range,
    /// A list of bytes.
    Blob,
    /// The result of `timestamp()`.
    Instant,
    /// A value with words of its own, by the name in [`handles`](crate::reference::handles).
    Handle(&'static str),
    /// A list of such values.
    ListOf(&'static str),
}

impl Type {
    /// Returns the name for people.
    pub fn name(self) -> String {
        let plain = match self {
            Self::Any => "any",
            Self::Nothing => "nothing",
            Self::Text => "text",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Map => "map",
            Self::Closure => "closure",
            Self::Range => "range",
            Self::Blob => "blob",
            Self::Instant => "instant",
            Self::Handle(name) => name,
            Self::ListOf(name) => return format!("array of {name}"),
        };
        plain.to_owned()
    }

    /// Returns the name in Rhai's definition files.
    pub fn in_definitions(self) -> &'static str {
        match self {
            Self::Any => "?",
            Self::Nothing => "()",
            Self::Text => "String",
            Self::Number => "float",
            Self::Integer => "int",
            Self::Boolean => "bool",
            Self::Array | Self::ListOf(_) => "Array",
            Self::Map => "Map",
            Self::Closure => "FnPtr",
            Self::Range => "Range<int>",
            Self::Blob => "Blob",
            Self::Instant => "Instant",
            Self::Handle(name) => name,
        }
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}
