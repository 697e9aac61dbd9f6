//! Tool results for services of the chat API, which accept only texts in them.

use super::media::{file_text, missing};
use super::plain::part as plain_part;
use super::{ModelCall, message};
use compact_str::CompactString;
use std::collections::HashMap;
use valvehouse_json::{Json, Object};

/// The text of a result without a text of its own.
const BELOW: &str = "The content of this result is in the next message of the user.";

/// Returns messages whose tool results are texts: their images, audio and files are in a user message after the last
/// result of the round. `hears` is set for a model that hears audio. The given messages are not changed; `None` if there
/// is nothing to move.
pub fn as_texts<'a>(messages: impl Iterator<Item = &'a Json> + Clone, hears: bool) -> Option<Vec<Json>> {
    if !messages.clone().any(is_affected) {
        return None;
    }
    let mut writer = Writer { hears, ..Writer::default() };
    messages.for_each(|message| writer.add(message));
    Some(writer.finish())
}

/// Returns the text of a tool message for a service that accepts only texts: its text parts, each in a line of its own.
pub fn text_of(message: &Json) -> String {
    let parts = message.list("content");
    match message.get("content") {
        Some(Json::Array(_)) => joined(&parts),
        _ => message::text_of(message).into(),
    }
}

fn joined(parts: &[Json]) -> String {
    let texts = parts.iter().map(|part| part.text("text").unwrap_or_else(|| part.str_or_empty().into()));
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

fn is_tool(message: &Json) -> bool {
    message.is_text("role", "tool")
}

fn is_text(part: &Json) -> bool {
    part.as_str().is_some() || part.is_text("type", "text")
}

/// Returns `true` for `detail: "original"`, which the Responses API has and the chat API does not.
fn is_original(part: &Json) -> bool {
    part.at_path("image_url.detail").as_str() == Some("original")
}

/// Returns `true` if a message has a part that a chat service does not accept in it. Messages without a list of parts
/// are not parsed further.
fn is_affected(message: &Json) -> bool {
    let Json::Object(fields) = message else { return false };
    if !fields.has_containers() {
        return false;
    }
    // The content is not read while the message is locked.
    match fields.get("content") {
        Some(Json::Array(parts)) if is_tool(message) => parts.with(|parts| !parts.iter().all(is_text)),
        Some(Json::Array(parts)) => parts.with(|parts| parts.iter().any(is_original)),
        _ => false,
    }
}

#[derive(Default)]
struct Writer {
    out: Vec<Json>,
    /// The parts for the user message after the results of this round.
    apart: Vec<Json>,
    /// The names of the called tools by the ids of their calls.
    names: HashMap<CompactString, CompactString>,
    /// Set if the request is for a model that hears.
    hears: bool,
}

impl Writer {
    fn add(&mut self, message: &Json) {
        if !is_tool(message) {
            self.end_round();
            self.names.extend(ModelCall::all(message).into_iter().map(|call| (call.id, call.name)));
        }
        if !is_affected(message) {
            self.out.push(message.clone());
            return;
        }
        let parts = message.list("content");
        let content = match is_tool(message) {
            true => self.result(&message.text_or_empty("tool_call_id"), &parts).into(),
            false => parts.iter().map(with_detail).collect::<Vec<_>>().into(),
        };
        self.out.push(with_field(message, "content", content));
    }

    /// Returns the text of a result, and takes its other parts for the message after it.
    fn result(&mut self, id: &CompactString, parts: &[Json]) -> String {
        let (mut texts, mut apart) = (Vec::new(), Vec::new());
        for part in parts.iter().map(plain_part) {
            match part.text("type").as_deref() {
                Some("image_url") => apart.push(with_detail(&part)),
                Some("video_url") => apart.push(part),
                Some("input_audio") if self.hears => apart.push(part),
                Some("file") => match file_text(&part) {
                    text if is_text(&text) => texts.push(text),
                    file => apart.push(file),
                },
                _ if is_text(&part) => texts.push(part),
                _ => texts.push(missing(&part)),
            }
        }
        if !apart.is_empty() {
            let name = self.names.get(id).map_or_else(String::new, |name| format!(" of `{name}`"));
            self.apart.push(message::text_part(&format!("From the result{name} ({id}):")));
        }
        self.apart.extend(apart);
        let text = joined(&texts);
        if text.is_empty() { BELOW.into() } else { text }
    }

    fn end_round(&mut self) {
        if !self.apart.is_empty() {
            self.out.push(message::user(std::mem::take(&mut self.apart)));
        }
    }

    fn finish(mut self) -> Vec<Json> {
        self.end_round();
        self.out
    }
}

/// Replaces `detail: "original"` by the most that a chat service accepts.
fn with_detail(part: &Json) -> Json {
    if !is_original(part) {
        return part.clone();
    }
    with_field(part, "image_url", with_field(&part.field("image_url"), "detail", "high".into()))
}

/// Returns a shallow copy of an object with another value of an existing field.
fn with_field(object: &Json, name: &str, value: Json) -> Json {
    let entries = object.entries().into_iter();
    let entries = entries.map(|(key, old)| if key == name { (key, value.clone()) } else { (key, old) });
    entries.collect::<Object>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(messages: &str, hears: bool) -> Json {
        let messages = Json::parse(format!("[{messages}]").as_bytes()).unwrap().items();
        Json::from([("messages", as_texts(messages.iter(), hears).unwrap().into())])
    }

    const CALLS: &str = r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"see","arguments":"{}"}}]}"#;
    const IMAGE: &str =
        r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk=","detail":"original"}}"#;
    const AUDIO: &str = r#"{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}}"#;

    fn result(id: &str, parts: &str) -> String {
        format!(r#"{{"role":"tool","tool_call_id":"{id}","content":[{parts}]}}"#)
    }

    fn text(text: &str) -> String {
        format!(r#"{{"type":"text","text":"{text}"}}"#)
    }

    fn roles(request: &Json) -> Vec<CompactString> {
        request.list("messages").iter().map(message::role_of).collect()
    }

    #[test]
    fn media_follow_the_last_result_of_their_round() {
        let first = result("a", &format!("{},{IMAGE},{}", text("one"), text("two")));
        let second = result("b", IMAGE);
        let round = format!("{CALLS},{first},{second}");
        let request = sent(&format!(r#"{round},{{"role":"user","content":"and?"}},{round}"#), false);
        let expected = ["assistant", "tool", "tool", "user", "user", "assistant", "tool", "tool", "user"];
        assert_eq!(roles(&request), expected);
        assert_eq!(request.at_path("messages.1.content"), Json::from("one\ntwo"));
        assert_eq!(request.at_path("messages.2.content"), Json::from(BELOW));
        let apart = request.at_path("messages.3.content").to_string();
        assert_eq!(apart.matches("data:image/png").count(), 2, "{apart}");
        assert!(apart.contains("`look` (a)") && apart.contains("`see` (b)"), "{apart}");
        assert!(!request.to_string().contains("original"), "{request}");
    }

    #[test]
    fn other_parts_are_named_or_become_text() {
        let pdf =
            r#"{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}}"#;
        let note = r#"{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGk="}}"#;
        let address = r#"{"type":"file","file":{"file_url":"https://x.example/a.pdf"}}"#;
        let found = r#"{"type":"search_result","title":"T","source":"https://y.example","content":[{"type":"text","text":"found"}]}"#;
        let request = sent(&result("a", &[AUDIO, pdf, note, address, found].join(",")), false);
        let text = request.at_path("messages.0.content").to_string();
        assert!(text.contains("Audio of this result is missing") && text.contains("a.txt:\\nhi"), "{text}");
        assert!(text.contains("https://x.example/a.pdf") && !text.contains("aGk="), "{text}");
        assert!(text.contains(r"T\n\nhttps://y.example\n\nfound"), "{text}");
        assert_eq!(request.at_path("messages.1.content.1.type"), Json::from("file"));
        // A request for an audio model.
        let request = sent(&result("a", AUDIO), true);
        assert_eq!(request.at_path("messages.1.content.1.type"), Json::from("input_audio"));
    }

    #[test]
    fn messages_without_media_in_results_stay_the_same() {
        let plain = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}"#;
        let messages = format!(
            r#"{{"role":"user","content":[{plain}]}},{CALLS},{},{{"role":"tool","tool_call_id":"b","content":"x"}}"#,
            result("a", &text("one"))
        );
        let messages = Json::parse(format!("[{messages}]").as_bytes()).unwrap().items();
        assert_eq!(as_texts(messages.iter(), false), None);
    }
}
