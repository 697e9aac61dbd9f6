//! Kinds of values as the engine and the tables of handles know them.

use super::keys::{HANDLES, Keys};
use crate::value::Type;

impl Type {
    /// From what the engine calls it; None for numbers of sizes that scripts never have.
    pub(super) fn of_engine(name: &str) -> Option<Self> {
        let name = name.trim();
        let name =
            name.strip_prefix("RhaiResultOf<").map_or(name, |inner| inner.trim_end_matches('>').trim());
        let name = name.strip_prefix("&mut").unwrap_or(name).trim();
        Some(match name {
            "" | "?" | "any" | "TextOrBytes" | "Dynamic" | "RhaiResult" => Self::Any,
            "()" | "nothing" => Self::Nothing,
            "text" | "&str" | "String" | "ImmutableString" | "char" => Self::Text,
            "number" | "AnyNumber" | "f64" | "FLOAT" => Self::Number,
            "integer" | "i64" | "INT" => Self::Integer,
            "boolean" | "bool" => Self::Boolean,
            "array" | "Array" | "AnyArray" => Self::Array,
            "map" | "Map" | "AnyMap" => Self::Map,
            "closure" | "FnPtr" => Self::Closure,
            "Blob" | "blob" | "Bytes" => Self::Blob,
            "Reading" => Self::Handle("stream"),
            "Instant" => Self::Instant,
            "CharsStream" => Self::Range,
            range if range.contains("Range") => {
                let of_other = ["i8", "i16", "i32", "u8", "u16", "u32", "u64", "i128", "u128", "f32"];
                let of_other = of_other.iter().any(|other| range.contains(&format!("<{other}")));
                return (!of_other).then_some(Self::Range);
            }
            handle => Self::Handle(named(handle)?.name),
        })
    }

    /// Returns the type of an element, in a loop over it or at a place in it.
    pub fn element(self) -> Self {
        match self {
            Self::ListOf(name) => Self::Handle(name),
            Self::Handle(name) => named(name).map_or(Self::Any, |handle| handle.element),
            Self::Map => Self::Text,
            Self::Range => Self::Integer,
            _ => Self::Any,
        }
    }

    /// Returns `true` if it behaves as a list.
    pub fn is_list(self) -> bool {
        match self {
            Self::Array | Self::ListOf(_) => true,
            Self::Handle(name) => named(name).is_some_and(|handle| handle.is_list),
            _ => false,
        }
    }

    /// Returns `true` if it behaves as a map.
    pub fn is_map(self) -> bool {
        matches!(self, Self::Map) || matches!(self, Self::Handle(_)) && !self.is_list()
    }
}

/// The one of that name. Only the names are looked at, so that kinds can be told before all is read.
fn named(name: &str) -> Option<&'static Keys> {
    HANDLES.iter().find(|handle| handle.name == name)
}
