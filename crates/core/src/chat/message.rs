//! Functions that create a message and read or change its text.

use compact_str::CompactString;
use valvehouse_json::{Array, Json, MisplacedValue, REPEATED, Repeats};

/// The separator between the texts of a turn's model calls.
pub const TEXT_BREAK: &str = "\n\n";

/// Creates a user message: `{role: "user", content: text}`.
pub fn user(text: impl Into<Json>) -> Json {
    with_role("user", text.into())
}

/// Creates a system message: `{role: "system", content: text}`.
pub fn system(text: impl Into<Json>) -> Json {
    with_role("system", text.into())
}

/// Creates an assistant message: `{role: "assistant", content: text}`.
pub fn assistant(text: impl Into<Json>) -> Json {
    with_role("assistant", text.into())
}

/// Creates the result of a tool call: `{role: "tool", tool_call_id, content}`, with a text or a list of parts.
pub fn tool(call_id: &str, content: impl Into<Json>) -> Json {
    Json::from([("role", "tool".into()), ("tool_call_id", call_id.into()), ("content", content.into())])
}

fn with_role(role: &str, content: Json) -> Json {
    Json::from([("role", role.into()), ("content", content)])
}

/// Returns the role of a message; "" if it has none.
pub fn role_of(message: &Json) -> CompactString {
    message.text_or_empty("role")
}

/// Returns the text of a message: its `content`, or the text parts of a list.
///
/// Parts are joined without a separator, as models read them, so a filter can match a word that is split over
/// two parts.
pub fn text_of(message: &Json) -> CompactString {
    joined(message, "")
}

fn joined(message: &Json, separator: &str) -> CompactString {
    match message.get("content") {
        Some(Json::Text(text)) => text.into(),
        Some(Json::Array(parts)) => {
            let (mut buffer, mut repeats, mut left) = (String::new(), Repeats::default(), REPEATED);
            parts.with(|parts| {
                for part in parts {
                    let Some(text) = part_text(part) else { continue };
                    if repeats.is_repeated(part) {
                        // Repeated parts take no memory until they are joined, so the length is checked first.
                        let Some(rest) = left.checked_sub(text.len()) else { break };
                        left = rest;
                    }
                    if !buffer.is_empty() && !text.is_empty() {
                        buffer.push_str(separator);
                    }
                    buffer.push_str(&text);
                }
            });
            buffer.into()
        }
        _ => CompactString::default(),
    }
}

/// Returns the refusal of a model's message: a field, or parts of its content.
pub fn refusal_of(message: &Json) -> CompactString {
    let parts = message.list("content").into_iter().filter_map(|part| part.text("refusal"));
    message.text("refusal").into_iter().chain(parts).collect()
}

/// Returns the parts of the text of a model's message, followed by its refusal, as paragraphs: the text for protocols
/// without parts and refusals. Filters have judged each by itself.
pub fn text_with_refusal(message: &Json) -> CompactString {
    let (mut text, refusal) = (joined(message, TEXT_BREAK), refusal_of(message));
    if !text.is_empty() && !refusal.is_empty() {
        text.push_str(TEXT_BREAK);
    }
    text.push_str(&refusal);
    text
}

/// Sets the text of a message. In a list of parts, one text part with the last of the cache marks replaces all
/// text parts; images and other parts are preserved. A message that already has this text is not changed.
pub fn set_text(message: &Json, text: &str) {
    let content = match message.get("content") {
        Some(Json::Array(parts)) => parts,
        _ => {
            // A string can be set on any object; a message that is not an object has no text.
            message.edit("content", text);
            return;
        }
    };
    if text_of(message) == text {
        return;
    }
    let mut parts = content.items();
    let texts = parts.iter().rev().filter(|part| part_text(part).is_some());
    let mark = texts.into_iter().find_map(|part| part.get("cache_control"));
    let place = parts.iter().position(|part| part_text(part).is_some()).unwrap_or(0);
    parts.retain(|part| part_text(part).is_none());
    // No other text part precedes the first one, so its position is unchanged.
    let part = text_part(text);
    if let Some(mark) = mark {
        part.put("cache_control", mark);
    }
    parts.insert(place, part);
    // The list holds its own parts and a new text, so the write cannot fail.
    let _ = content.replace(parts);
}

/// Returns the first system message of a list, under either of its roles.
pub fn system_of(messages: &Array) -> Option<Json> {
    let is_system = |message: &&Json| ["system", "developer"].contains(&&*role_of(message));
    messages.with(|messages| messages.iter().find(is_system).cloned())
}

/// Adds a paragraph at the end of the system message of a list, and creates a missing one.
///
/// If a part of the message ends a prefix that providers cache, the paragraph becomes a separate part: within that
/// part, it would change the cached prefix.
///
/// # Errors
/// Returns an error if the list is read-only.
pub fn append_system(messages: &Array, text: &str) -> Result<(), MisplacedValue> {
    let Some(message) = system_of(messages) else { return messages.insert(0, system(text)) };
    let is_marked = |part: &Json| part.get("cache_control").is_some_and(|mark| !mark.is_null());
    if let Some(Json::Array(parts)) = message.get("content")
        && parts.with(|parts| parts.iter().any(is_marked))
    {
        return parts.push(text_part(text));
    }
    let old = text_of(&message);
    match old.is_empty() {
        true => set_text(&message, text),
        false => set_text(&message, &format!("{old}\n\n{text}")),
    }
    Ok(())
}

/// Creates a text part of a list.
pub fn text_part(text: &str) -> Json {
    Json::from([("type", "text".into()), ("text", text.into())])
}

/// Returns the text of a part; `None` for other parts.
fn part_text(part: &Json) -> Option<CompactString> {
    match part {
        Json::Text(text) => Some(text.as_str().into()),
        _ => match part.text("type").as_deref() {
            Some("text" | "input_text" | "output_text") | None => part.text("text"),
            Some(_) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn changing_a_text_keeps_its_cache_mark_and_an_equal_text_every_byte() {
        let source = r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]}"#;
        let message = json(source);
        set_text(&message, &text_of(&message));
        assert_eq!(message.to_string(), source);
        assert!(!message.is_changed());
        set_text(&message, "c");
        let parts = r#"[{"type":"text","text":"c","cache_control":{"type":"ephemeral"}}]"#;
        assert_eq!(message.field("content"), json(parts));
    }

    #[test]
    fn text_is_read_from_strings_and_content_parts() {
        assert_eq!(text_of(&user("hi")), "hi");
        assert_eq!(role_of(&system("be brief")), "system");
        let parts = json(r#"{"content":["a",{"type":"text","text":"b"},{"type":"image_url"},{"text":"c"}]}"#);
        assert_eq!(text_of(&parts), "abc");
        assert_eq!(text_of(&json(r#"{"content":null}"#)), "");
        assert_eq!(text_of(&Json::Null), "");
        let refuses = json(r#"{"content":null,"refusal":"I will not"}"#);
        assert_eq!((&*text_of(&refuses), &*text_with_refusal(&refuses)), ("", "I will not"));
    }

    #[test]
    fn setting_the_text_keeps_images_where_they_are() {
        let message = json(
            r#"{"content":[{"type":"image_url","n":1},{"type":"text","text":"a"},{"type":"image_url","n":2},{"type":"text","text":"b"}]}"#,
        );
        set_text(&message, "new");
        assert_eq!(
            message.to_string(),
            r#"{"content":[{"type":"image_url","n":1},{"type":"text","text":"new"},{"type":"image_url","n":2}]}"#
        );
        let only_image = json(r#"{"content":[{"type":"image_url"}]}"#);
        set_text(&only_image, "new");
        assert_eq!(text_of(&only_image), "new");
        let message = tool("call_1", "old");
        set_text(&message, "new");
        assert_eq!(message.to_string(), r#"{"role":"tool","tool_call_id":"call_1","content":"new"}"#);
    }

    #[test]
    fn a_paragraph_is_added_to_the_one_system_message() {
        for (before, after) in [
            (r#"[]"#, r#"[{"role":"system","content":"New."}]"#),
            (
                r#"[{"role":"developer","content":"Old."}]"#,
                r#"[{"role":"developer","content":"Old.\n\nNew."}]"#,
            ),
            (r#"[{"role":"system","content":""}]"#, r#"[{"role":"system","content":"New."}]"#),
            (
                r#"[{"role":"system","content":[{"type":"text","text":"Old.","cache_control":{"type":"ephemeral"}}]}]"#,
                r#"[{"role":"system","content":[{"type":"text","text":"Old.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"New."}]}]"#,
            ),
        ] {
            let Json::Array(messages) = Json::parse(before.as_bytes()).unwrap() else { panic!("no list") };
            append_system(&messages, "New.").unwrap();
            assert_eq!(Json::from(messages).to_string(), after);
        }
    }
}
