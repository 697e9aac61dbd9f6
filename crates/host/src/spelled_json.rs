//! JSON in values that are serialized, as it is spelled.

use schemars::JsonSchema;
use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use valvehouse_json::Json;

/// JSON of clients and scripts in an answer. `serde_json` writes it unchanged, such as `1.10` and `"\u00e9"`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct SpelledJson(
    #[serde(serialize_with = "unchanged")]
    #[schemars(with = "serde_json::Value")]
    pub Json,
);

impl<T: Into<Json>> From<T> for SpelledJson {
    fn from(value: T) -> Self {
        Self(value.into())
    }
}

fn unchanged<S: Serializer>(json: &Json, serializer: S) -> Result<S::Ok, S::Error> {
    let text = String::from_utf8(json.encode_raw().map_err(S::Error::custom)?).map_err(S::Error::custom)?;
    RawValue::from_string(text).map_err(S::Error::custom)?.serialize(serializer)
}
