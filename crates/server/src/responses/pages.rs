//! Pages of items, and items as stored.

use schemars::JsonSchema;
use serde::Deserialize;
use valvehouse_core::error::Error;
use valvehouse_json::Json;

/// Parses stored JSON.
///
/// # Errors
/// Returns a host error if the text is not valid JSON: the row is damaged or was changed by another program.
pub(super) fn read_stored(text: &str, of: &str) -> Result<Json, Error> {
    let damaged = |error| Error::Host(format!("cannot read {of} from the store: {error}; delete it"));
    Json::parse(text.as_bytes()).map_err(damaged)
}

/// The query of a list of items.
#[derive(Default, Deserialize, JsonSchema)]
pub(super) struct PageQuery {
    /// The maximum number of items of a page: 1 to 100, by default 20.
    pub(super) limit: Option<u64>,
    /// `asc`, or the latest first, as in OpenAI's API.
    pub(super) order: Option<String>,
    /// The id of the item before the page.
    pub(super) after: Option<String>,
}

impl PageQuery {
    pub(super) fn limit(&self) -> usize {
        self.limit.map_or(20, |limit| limit.clamp(1, 100) as usize)
    }
}

/// Returns a page of a list of items.
pub(super) fn page_of(mut items: Vec<Json>, page: &PageQuery, limit: usize) -> Json {
    if page.order.as_deref() != Some("asc") {
        items.reverse();
    }
    let after = page.after.as_deref();
    let is_it = |item: &Json| after.is_some() && item.text("id").as_deref() == after;
    let from = items.iter().position(is_it).map_or(0, |at| at + 1);
    let has_more = items.len() > from + limit;
    let items: Vec<Json> = items.into_iter().skip(from).take(limit).collect();
    let id_of = |item: Option<&Json>| Json::from(item.and_then(|item| item.get("id")));
    Json::from([
        ("object", "list".into()),
        ("first_id", id_of(items.first())),
        ("last_id", id_of(items.last())),
        ("has_more", has_more.into()),
        ("data", items.into()),
    ])
}
