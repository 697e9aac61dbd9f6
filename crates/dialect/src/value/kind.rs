//! The kinds of values, with the names that scripts use.

/// The type of a parameter or of a function's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// Any value, including `()`.
    Any,
    /// The unit value `()`.
    Nothing,
    /// A string.
    Text,
    /// An integer or a float.
    Number,
    /// An integer.
    Integer,
    /// A bool.
    Boolean,
    /// A list.
    Array,
    /// A map.
    Map,
    /// A closure or a function pointer.
    Closure,
    /// A range such as `1..5`, or another value that a loop accepts.
    Range,
    /// A sequence of bytes.
    Blob,
    /// The result of `timestamp()`.
    Instant,
    /// A value with its own properties, by its name in the reference.
    Handle(&'static str),
    /// A list of such values.
    ListOf(&'static str),
}

impl Type {
    /// Returns the display name.
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
