//! Lists of models in Anthropic's format.

use axum::http::HeaderMap;
use valvehouse_json::Json;

/// Returns `true` if a client uses Anthropic's API, whose requests name its version in a header.
pub(crate) fn is_anthropic_client(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

/// Returns all models on one page.
pub(crate) fn list(models: &[Json]) -> Json {
    let models: Vec<Json> = models.iter().map(entry).collect();
    let id = |model: Option<&Json>| Json::from(model.and_then(|model| model.get("id")));
    Json::from([
        ("first_id", id(models.first())),
        ("last_id", id(models.last())),
        ("has_more", false.into()),
        ("data", models.into()),
    ])
}

/// Converts one model from OpenAI's format.
pub(crate) fn entry(model: &Json) -> Json {
    let id = model.field("id");
    let created = model.get("created").and_then(|time| time.as_i64()).unwrap_or(0);
    let created = jiff::Timestamp::from_second(created).unwrap_or_default();
    Json::from([
        ("type", "model".into()),
        ("id", id.clone()),
        ("display_name", model.get("display_name").unwrap_or(id)),
        ("created_at", model.get("created_at").unwrap_or_else(|| created.to_string().into())),
        ("lifecycle", model.get("lifecycle").unwrap_or_else(|| "active".into())),
    ])
}
