//! Models in lists of the Messages API.

use valvehouse_json::Json;

/// Reads a model of a service, with all further fields.
pub fn read(model: &Json) -> Json {
    let created = model.text("created_at").and_then(|time| time.parse::<jiff::Timestamp>().ok());
    let entry = Json::from([
        ("id", model.field("id")),
        ("object", "model".into()),
        ("created", created.map_or(0, |time| time.as_second()).into()),
        ("owned_by", "anthropic".into()),
    ]);
    if let Json::Object(fields) = model {
        fields.for_each(|key, value| {
            if !matches!(key, "id" | "type") {
                // Copies fit into a new object.
                entry.put(key, value.deep_clone());
            }
        });
    }
    entry
}

/// Writes a model for a client.
pub fn write(model: &Json) -> Json {
    let id = model.field("id");
    let created = model.integer("created").unwrap_or(0);
    let created = jiff::Timestamp::from_second(created).unwrap_or_default();
    Json::from([
        ("type", "model".into()),
        ("id", id.clone()),
        ("display_name", model.get("display_name").unwrap_or(id)),
        ("created_at", model.get("created_at").unwrap_or_else(|| created.to_string().into())),
        ("lifecycle", model.get("lifecycle").unwrap_or_else(|| "active".into())),
    ])
}
