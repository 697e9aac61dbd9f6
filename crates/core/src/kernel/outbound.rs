//! A request as a provider may see it: without the fields that are for this host.

use compact_str::CompactString;
use valvehouse_json::{Json, Object};

/// Fields that are ours: no provider knows them.
const OURS: [&str; 8] =
    ["metadata", "features", "files", "tool_ids", "filter_ids", "chat_id", "session_id", "id"];

/// Returns `true` if a field of a body is for this host, and goes to no service. Open WebUI tells a pipeline who asks
/// in all words, in a map.
pub fn is_ours(key: &str, is_map: bool) -> bool {
    OURS.contains(&key) || (key == "user" && is_map)
}

/// The keys of `metadata` that belong to this host or to Open WebUI.
const OUR_METADATA: [&str; 17] = [
    "chat_id",
    "message_id",
    "session_id",
    "variables",
    "features",
    "files",
    "tool_ids",
    "tool_servers",
    "filter_ids",
    "user_id",
    "user_message_id",
    "parent_message_id",
    "task",
    "type",
    "interface",
    "function_calling",
    "direct",
];

/// The client's own `metadata`, which OpenAI takes with answers it stores: texts under names that are none of
/// ours.
fn metadata_for_provider(body: &Json, metadata: &Json) -> Option<Json> {
    let is_stored = body.get("store").is_some_and(|store| !store.is_empty());
    let entries = metadata.as_object().map(Object::entries).filter(|_| is_stored)?;
    let is_theirs = |(key, value): &(_, Json)| {
        !OUR_METADATA.contains(&AsRef::<str>::as_ref(key)) && value.as_str().is_some()
    };
    let own: Object =
        entries.into_iter().filter(is_theirs).collect::<Vec<(CompactString, Json)>>().into_iter().collect();
    (!own.is_empty()).then(|| own.into())
}

/// A body as a provider may see it: without what is ours.
pub(super) fn for_provider(body: &Json, messages: Json, model: Option<&str>) -> Json {
    let entries = body.entries();
    // A message's id comes with its conversation's; alone it is a field of the service.
    let has_chat = ["chat_id", "session_id"].iter().any(|key| body.get(key).is_some())
        || body.at_path("metadata.chat_id").as_str().is_some();
    let mut messages = Some(messages);
    let kept = entries.into_iter().filter_map(|(key, value)| {
        let value = match (key.as_str(), model) {
            ("metadata", _) => metadata_for_provider(body, &value)?,
            ("id", _) if !has_chat => value,
            (key, _) if is_ours(key, value.as_object().is_some()) => return None,
            ("messages", _) => messages.take().unwrap_or(value),
            ("model", Some(model)) => model.into(),
            _ => value,
        };
        Some((key, value))
    });
    kept.collect::<Object>().into()
}
