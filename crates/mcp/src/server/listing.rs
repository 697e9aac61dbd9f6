//! Lists for MCP clients, in a stable order and page by page.

use super::limits::check_cursor;
use rmcp::ErrorData;
use rmcp::model::{Cursor, PaginatedRequestParams};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use valvehouse_core::text::hex;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;

/// The maximum number of entries per page.
pub(super) const PAGE: usize = 250;
/// The time for which a client may cache a list, in milliseconds.
pub(super) const TTL_MS: u64 = 5_000;

/// Returns a tool in the form of MCP. The `metadata` of its declaration may contain `title`, `annotations`,
/// `output_schema`, `icons` and `meta`.
pub(super) fn tool(tool: &Tool) -> Value {
    let spec = &tool.spec;
    let mut described = json!({
        "name": spec.name,
        "description": spec.description,
        "inputSchema": Value::from(&spec.parameters.schema()),
    });
    for (own, key) in [
        ("title", "title"),
        ("annotations", "annotations"),
        ("output_schema", "outputSchema"),
        ("icons", "icons"),
        ("meta", "_meta"),
    ] {
        if let Some(value) = spec.metadata.get(own).filter(|value| !value.is_null()) {
            described[key] = Value::from(&value);
        }
    }
    if spec.idempotent && described.get("annotations").is_none() {
        described["annotations"] = json!({ "idempotentHint": true });
    }
    described
}

/// Returns the declared schema of a tool's results.
pub(super) fn output_schema(tool: &Tool) -> Option<Json> {
    tool.spec.metadata.get("output_schema").filter(|schema| schema.as_object().is_some())
}

/// Returns a page of a list, and the cursor of the next page. A cursor names the last entry of its page, so
/// that an entry is neither repeated nor skipped if the list changes.
pub(super) fn page<T: DeserializeOwned>(
    entries: Vec<(String, Value)>,
    params: Option<PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<Cursor>), ErrorData> {
    let after = match params.and_then(|params| params.cursor) {
        Some(cursor) => {
            check_cursor(&cursor)?;
            Some(opened(&cursor).ok_or_else(|| {
                ErrorData::invalid_params("unknown cursor: use the nextCursor of the previous page", None)
            })?)
        }
        None => None,
    };
    let mut entries = entries;
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut rest = entries.into_iter().filter(|(name, _)| after.as_ref().is_none_or(|after| name > after));
    let page: Vec<(String, Value)> = rest.by_ref().take(PAGE).collect();
    let next = rest.next().and_then(|_| page.last()).map(|(name, _)| hex(name.as_bytes()));
    let entries = page.into_iter().filter_map(|(name, value)| entry(&name, value)).collect();
    Ok((entries, next))
}

/// Returns an entry; without its annotations and icons if those are invalid in MCP.
fn entry<T: DeserializeOwned>(name: &str, value: Value) -> Option<T> {
    if let Ok(entry) = serde_json::from_value(value.clone()) {
        return Some(entry);
    }
    let mut plain: Map<String, Value> = value.as_object().cloned().unwrap_or_default();
    for key in ["annotations", "icons", "_meta", "title", "size"] {
        plain.remove(key);
    }
    match serde_json::from_value(Value::Object(plain)) {
        Ok(entry) => {
            tracing::warn!(
                "`{name}` is listed to MCP clients without its annotations, icons and title: their form is not valid in MCP"
            );
            Some(entry)
        }
        Err(error) => {
            tracing::warn!("cannot list `{name}` to MCP clients: {error}");
            None
        }
    }
}

fn opened(cursor: &str) -> Option<String> {
    let digits: Vec<u32> = cursor.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let bytes = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    });
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

/// Returns a digest of a list; if it changes, clients have to read the list again.
pub(super) fn digest<'a>(entries: impl Iterator<Item = &'a Value>) -> String {
    let mut digest = Sha256::new();
    for entry in entries {
        digest.update(entry.to_string());
        digest.update([0]);
    }
    hex(&digest.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_no_gaps_while_the_list_changes() {
        let named = |numbers: std::ops::Range<usize>| -> Vec<(String, Value)> {
            numbers
                .map(|number| {
                    (format!("t{number:04}"), json!({ "uri": "t://x", "name": format!("t{number:04}") }))
                })
                .collect()
        };
        let (first, next) = page::<rmcp::model::Resource>(named(0..PAGE + 5), None).unwrap();
        assert_eq!(first.len(), PAGE);
        let params = PaginatedRequestParams::default().with_cursor(next);
        let (second, next) = page::<rmcp::model::Resource>(named(10..PAGE + 5), Some(params)).unwrap();
        assert_eq!((second[0].name.as_str(), second.len(), next), (format!("t{PAGE:04}").as_str(), 5, None));
        let params = PaginatedRequestParams::default().with_cursor(Some("zz".into()));
        assert!(page::<rmcp::model::Resource>(Vec::new(), Some(params)).is_err());
    }
}
