//! Kinds of values, in words that scripts know.

/// What a parameter takes or a function gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// Whatever there is, `()` too.
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
    /// Bytes.
    Blob,
    /// What `timestamp()` gives.
    Instant,
    /// A value with words of its own, by the name in [`super::handles`].
    Handle(&'static str),
    /// A list of such values.
    ListOf(&'static str),
}

impl Type {
    /// From what the engine calls it; None for numbers of sizes that scripts never have.
    pub(super) fn of_engine(name: &str) -> Option<Self> {
        let name = name.trim();
        let name =
            name.strip_prefix("RhaiResultOf<").map_or(name, |inner| inner.trim_end_matches('>').trim());
        let name = name.strip_prefix("&mut").unwrap_or(name).trim();
        Some(match name {
            "" | "?" | "any" | "Dynamic" | "RhaiResult" => Self::Any,
            "()" | "nothing" => Self::Nothing,
            "text" | "&str" | "String" | "ImmutableString" | "char" => Self::Text,
            "number" | "AnyNumber" | "f64" | "FLOAT" => Self::Number,
            "integer" | "i64" | "INT" => Self::Integer,
            "boolean" | "bool" => Self::Boolean,
            "array" | "Array" | "AnyArray" => Self::Array,
            "map" | "Map" | "AnyMap" => Self::Map,
            "closure" | "FnPtr" => Self::Closure,
            "Blob" => Self::Blob,
            "Instant" => Self::Instant,
            "CharsStream" => Self::Range,
            range if range.contains("Range") => {
                let of_other = ["i8", "i16", "i32", "u8", "u16", "u32", "u64", "i128", "u128", "f32"];
                let of_other = of_other.iter().any(|other| range.contains(&format!("<{other}")));
                return (!of_other).then_some(Self::Range);
            }
            handle => Self::Handle(super::handle::named(handle)?.name),
        })
    }

    /// What people read.
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

    /// What Rhai's definition files call it.
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

    /// What a loop over it, or a place in it, gives.
    pub fn element(self) -> Self {
        match self {
            Self::ListOf(name) => Self::Handle(name),
            Self::Handle(name) => super::handle(name).map_or(Self::Any, |handle| handle.element),
            Self::Map => Self::Text,
            Self::Range => Self::Integer,
            _ => Self::Any,
        }
    }

    /// Whether it behaves as a list.
    pub fn is_list(self) -> bool {
        match self {
            Self::Array | Self::ListOf(_) => true,
            Self::Handle(name) => super::handle(name).is_some_and(|handle| handle.is_list),
            _ => false,
        }
    }

    /// Whether it behaves as a map.
    pub fn is_map(self) -> bool {
        matches!(self, Self::Map) || matches!(self, Self::Handle(_)) && !self.is_list()
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}
