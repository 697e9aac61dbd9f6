//! Conversion to and from `serde_json`, for configuration, the store and tests.

use crate::number::Number;
use crate::value::{Json, Object};
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

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
