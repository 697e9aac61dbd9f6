//! Models in lists of Ollama's API.

use valvehouse_json::Json;

/// Reads a model of a service, with Ollama's further details; `None` without a name.
pub fn read(known: &Json) -> Option<Json> {
    let name = known.text("name").or_else(|| known.text("model"))?;
    let modified = known.text("modified_at").and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let model = Json::from([
        ("id", name.into()),
        ("object", "model".into()),
        ("created", modified.map_or(0, |moment| moment.as_second()).into()),
        ("owned_by", "library".into()),
    ]);
    for key in ["size", "details"] {
        if let Some(value) = known.get(key) {
            // A new object accepts any value.
            model.put(key, value);
        }
    }
    Some(model)
}

/// Writes a model for a client. Unknown fields are empty. As in Ollama's lists, each name has a tag.
pub fn write(model: &Json) -> Json {
    let id = model.string("id");
    let id: Json = if id.contains(':') { id.into() } else { format!("{id}:latest").into() };
    let created = model.integer("created").unwrap_or(0);
    Json::from([
        ("name", id.clone()),
        ("model", id),
        ("modified_at", modified_at(created)),
        ("size", model.get("size").unwrap_or_else(|| 0_i64.into())),
        ("digest", "".into()),
        ("details", model.get("details").unwrap_or_else(details)),
    ])
}

/// Returns the time of a model, which is given in Unix seconds.
pub fn modified_at(seconds: i64) -> Json {
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string().into()
}

/// Returns empty details.
pub fn details() -> Json {
    let empty = ["parent_model", "format", "family", "parameter_size", "quantization_level"];
    let details = empty.into_iter().map(|key| (key, Json::from("")));
    Json::from_fields(details.chain([("families", Json::array())]))
}
