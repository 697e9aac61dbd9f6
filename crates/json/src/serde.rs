//! Conversion to and from `serde_json`, for configuration, the store and tests.

use crate::number::Number;
use crate::parse::ParseError;
use crate::value::{Json, Object};
use serde_core::de::DeserializeOwned;
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::str::FromStr;

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(Number::from_spelling(&number.to_string())),
            Value::String(text) => text.into(),
            Value::Array(items) => items.into_iter().map(Self::from).collect::<Vec<_>>().into(),
            Value::Object(map) => {
                map.into_iter().map(|(key, value)| (key.into(), value.into())).collect::<Object>().into()
            }
        }
    }
}

impl From<&Json> for Value {
    fn from(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(Number::Int(value)) => (*value).into(),
            Json::Number(Number::Unsigned(value)) => (*value).into(),
            Json::Number(number) => number.as_f64().into(),
            Json::Text(text) => Self::String(text.to_string()),
            Json::Array(array) => Self::Array(array.with(|items| items.iter().map(Self::from).collect())),
            Json::Object(object) => {
                let mut map = serde_json::Map::new();
                object.for_each(|key, value| {
                    map.insert(key.to_owned(), Self::from(value));
                });
                Self::Object(map)
            }
        }
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        Self::from(&json)
    }
}

impl Json {
    /// Converts a serializable value.
    ///
    /// # Errors
    /// Returns an error if the value has no form in JSON, such as a map whose keys are not strings.
    pub fn from_serialize(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::to_value(value).map(Self::from)
    }

    /// Converts the value to a deserializable type.
    ///
    /// # Errors
    /// Returns an error if the value does not have the form of the type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(self.into())
    }
}

impl FromStr for Json {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text.as_bytes())
    }
}

/// Creates a [`Json`] from a literal, as `serde_json::json!` does.
///
/// ```
/// use valvehouse_json::json;
/// assert_eq!(json!({ "city": "Oslo", "days": [1, 2] }).at_path("days.1").as_u64(), Some(2));
/// ```
#[macro_export]
macro_rules! json {
    ($($part:tt)+) => {
        $crate::Json::from($crate::__serde_json::json!($($part)+))
    };
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Value::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}
