//! The rules of calls to services: time limits and retries.

use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::time::Duration;

/// The first steps of the routes beside chats.
pub const ROUTES: [&str; 9] =
    ["embeddings", "completions", "moderations", "audio", "images", "files", "batches", "rerank", "messages"];

/// The time limits of calls to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Timeouts {
    /// The timeout for a connection.
    #[serde(rename = "connect_ms", with = "Millis")]
    #[schemars(extend("default" = 10_000, "examples" = [3000]))]
    pub connect: Duration,
    /// The timeout for the first byte of an answer.
    #[serde(rename = "response_ms", with = "Millis")]
    #[schemars(extend("default" = 300_000, "examples" = [60_000]))]
    pub answer: Duration,
    /// The timeout between chunks of a streamed answer.
    #[serde(rename = "idle_ms", with = "Millis")]
    #[schemars(extend("default" = 120_000, "examples" = [30_000]))]
    pub idle: Duration,
    /// The timeout for a whole answer, including retries.
    #[serde(rename = "total_ms", default, deserialize_with = "Millis::optional")]
    #[schemars(with = "Option<Millis>", extend("examples" = [600_000]))]
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        usual()
    }
}

/// The rules for retries of a service that failed before anything of its answer was passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct RetrySettings {
    /// The maximum number of attempts, including the first. A request is retried only until the first byte of its
    /// answer.
    #[serde(rename = "max_attempts", deserialize_with = "retries")]
    #[schemars(range(min = 1, max = 21), extend("default" = 3, "examples" = [1]))]
    pub max_retries: u32,
    /// The maximum delay before the first retry; it doubles with each retry.
    #[serde(rename = "initial_delay_ms", with = "Millis")]
    #[schemars(range(min = 1, max = 3_600_000), extend("default" = 500, "examples" = [100]))]
    pub initial_delay: Duration,
    /// The maximum delay; if a service demands a longer one, the request is not retried.
    #[serde(rename = "max_delay_ms", with = "Millis")]
    #[schemars(range(min = 1, max = 3_600_000), extend("default" = 10_000, "examples" = [30_000]))]
    pub max_delay: Duration,
    /// Retry even if the connection was lost after the request was sent: the work may be done, and charged, twice.
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub after_send: bool,
}

/// The number of attempts without the first.
fn retries<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    u32::deserialize(from).map(|attempts| attempts.saturating_sub(1))
}

impl Default for RetrySettings {
    fn default() -> Self {
        usual()
    }
}

/// A time that is written in milliseconds.
#[derive(Deserialize, JsonSchema)]
pub struct Millis(#[schemars(range(min = 1, max = 86_400_000))] u64);

impl Millis {
    /// Reads a time.
    ///
    /// # Errors
    /// Returns an error unless it is a whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let Self(time) = Deserialize::deserialize(from)?;
        Ok(Duration::from_millis(time))
    }

    /// Reads a time that may be missing.
    ///
    /// # Errors
    /// Returns an error unless it is a whole number.
    pub fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Self::deserialize(from).map(Some)
    }
}

/// Returns a table of settings with the default of each.
pub fn usual<T: JsonSchema + DeserializeOwned>() -> T {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let defaults = properties.map(|(name, inner)| (name.clone(), inner["default"].clone()));
    serde_json::from_value(defaults.filter(|(_, default)| !default.is_null()).collect())
        .expect("each key has a default or can be missing")
}
