//! Pages of items, and items as stored.

use crate::extract::Words;
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

/// Returns the maximum number of items of a page: 1 to 100, by default 20.
///
/// # Errors
/// Returns a request error if `limit` is not a number.
pub(super) fn limit_of(page: &Words) -> Result<usize, Error> {
    let limit = page.number("limit")?.unwrap_or(20).clamp(1, 100);
    Ok(usize::try_from(limit).unwrap_or(100))
}

/// Returns a page of a list of items, the latest first unless `order` is `asc`.
pub(super) fn page_of(mut items: Vec<Json>, page: &Words, limit: usize) -> Json {
    // OpenAI's API lists the latest first.
    if page.text("order").as_deref() != Some("asc") {
        items.reverse();
    }
    let after = page.text("after");
    let is_it = |item: &Json| after.is_some() && item.text("id").as_deref() == after.as_deref();
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
