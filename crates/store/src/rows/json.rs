//! JSON values in text columns. Errors name the damaged value.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use valvehouse_json::{Json, MAX_DEPTH};

/// The maximum number of rows per statement.
pub(crate) const AT_ONCE: usize = 64;

pub(crate) fn encode(value: &Json) -> sqlx::Result<String> {
    let bytes = value.encode().map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    String::from_utf8(bytes).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}

/// Encodes a value. It is rejected if it could not be parsed again with `around` more nesting levels in an
/// export.
pub(crate) fn stored(value: &Json, around: usize) -> sqlx::Result<String> {
    let text = encode(value)?;
    let most = MAX_DEPTH - around;
    if depth(&text) > most {
        return Err(refused(format!("a value is nested deeper than {most} levels")));
    }
    Ok(text)
}

/// Returns the nesting depth of a JSON text.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Parses a stored value; `what` describes it in the error.
pub(crate) fn read(what: impl FnOnce() -> String, content: &str) -> sqlx::Result<Json> {
    Json::parse(content.as_bytes()).map_err(|error| {
        let cause = format!("{} is no longer valid JSON: {error}", what());
        let cause = format!("{cause}; restore the store from a backup, or forget the conversation");
        sqlx::Error::Decode(cause.into())
    })
}

/// Returns the error for a request that cannot be executed, with its reason.
pub(crate) fn refused(cause: impl Into<String>) -> sqlx::Error {
    sqlx::Error::Encode(cause.into().into())
}

/// Writes a value as a text of JSON, so that the nesting of several does not add up.
pub(crate) mod as_text {
    use super::{Deserialize, Deserializer, Json, Serializer, de, encode, ser};

    pub(crate) fn serialize<S: Serializer>(value: &Json, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode(value).map_err(ser::Error::custom)?)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Writes grants as objects with an id.
pub(crate) mod grants_as_text {
    use super::{Deserialize, Deserializer, Json, Serialize, Serializer, as_text};

    #[derive(Serialize, Deserialize)]
    struct Row {
        id: String,
        #[serde(with = "as_text")]
        grants: Json,
    }

    pub(crate) fn serialize<S: Serializer>(
        grants: &[(String, Json)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let rows = grants.iter().cloned().map(|(id, grants)| Row { id, grants });
        serializer.collect_seq(rows)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, Json)>, D::Error> {
        let rows = Vec::<Row>::deserialize(deserializer)?;
        Ok(rows.into_iter().map(|row| (row.id, row.grants)).collect())
    }
}
