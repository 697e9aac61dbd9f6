//! Forms of values that several settings have, or that are kept in another way than they are written.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// Reads a length in seconds: `90m`, `24h`, `7d`.
pub fn seconds(text: &str) -> Option<i64> {
    let length = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[length.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    Some(i64::from(length.parse::<u32>().ok()?) * unit)
}

/// A time that is written as a length such as `7d`.
pub(crate) fn length<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    let seconds = seconds(&text).ok_or_else(|| D::Error::custom("expected a length such as 7d"))?;
    Ok(Some(Duration::from_secs(seconds.unsigned_abs())))
}

/// The address of something in the web.
#[derive(JsonSchema)]
#[schemars(extend("format" = "uri", "x-form" = "an http or https URL"))]
pub(crate) struct WebUrl(#[expect(dead_code)] String);

/// Texts in lower case.
pub(crate) fn lower<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    Ok(names.iter().map(|name| name.to_ascii_lowercase()).collect())
}

/// Names of hosts, addresses without brackets.
pub(crate) fn hosts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let hosts = lower(from)?;
    Ok(hosts.iter().map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned()).collect())
}
