//! Results with the content blocks of MCP, as mounted servers, scripts and Rust tools return them.

use super::result::{ToolError, ToolResult};
use crate::chat::{media, message, tool_results};
use std::borrow::Cow;
use std::collections::HashSet;
use valvehouse_json::{Json, Object};

/// The fields of a result. A map with other fields is data.
const RESULT: [&str; 4] = ["content", "structuredContent", "isError", "_meta"];
/// The fields of a block. A map with other fields is data.
const BLOCK: [&str; 14] = [
    "type",
    "text",
    "data",
    "mimeType",
    "resource",
    "uri",
    "name",
    "title",
    "description",
    "size",
    "icons",
    "annotations",
    "_meta",
    "blob",
];

/// The content of a result, in parts of a chat message.
///
/// ```
/// use valvehouse_core::tool::ToolContent;
/// use valvehouse_json::Json;
/// let result = Json::parse(br#"{"content": [{"type": "text", "text": "no space left"}], "isError": true}"#).unwrap();
/// let content = ToolContent::of(&result).unwrap();
/// assert_eq!((&*content.text(), content.is_error), ("no space left", true));
/// assert!(ToolContent::of(&Json::from("a text")).is_none());
/// ```
#[derive(Debug, Clone)]
pub struct ToolContent {
    parts: Vec<Json>,
    /// Set if the result reports a failure of the tool.
    pub is_error: bool,
}

impl ToolContent {
    /// Reads a result: `{content: [block, …], structuredContent?, isError?}`, or one block of the type `text`, `image`,
    /// `audio`, `resource` or `resource_link`. Returns `None` for any other value, which is data.
    ///
    /// Resources that are text in base64 are decoded, and structured content that no text contains is added as JSON.
    pub fn of(value: &Json) -> Option<Self> {
        let fields = value.as_object()?;
        if fields.contains("type") {
            return Some(Self { parts: vec![part(value)?], is_error: false });
        }
        let is_result = fields.contains("content") || fields.contains("structuredContent");
        if !is_result || !fields.keys().iter().all(|key| RESULT.contains(&&**key)) {
            return None;
        }
        let blocks = match fields.get("content") {
            Some(Json::Array(blocks)) => blocks.items(),
            None => Vec::new(),
            Some(_) => return None,
        };
        let is_error = value.is_true("isError");
        let structured = value.given("structuredContent");
        if blocks.is_empty() && structured.is_none() && !is_error {
            return None;
        }
        let mut parts = blocks.iter().map(part).collect::<Option<Vec<_>>>()?;
        let texts: Vec<String> =
            parts.iter().filter_map(|part| part.text("text").map(String::from)).collect();
        if let Some(structured) = structured.filter(|own| !is_said(own, &texts)) {
            parts.push(message::text_part(&structured.to_string()));
        }
        Some(Self { parts, is_error })
    }

    /// Returns the value that scripts and filters read of `{content: [block, …], structuredContent?}`: the structured
    /// content if it contains all texts, the text if there is nothing else, and otherwise the same value.
    pub fn value_of(content: &Json) -> Json {
        let blocks = content.list("content");
        let texts: Option<Vec<String>> = blocks.iter().map(plain_text).collect();
        match (texts, content.given("structuredContent")) {
            (Some(texts), Some(structured)) if holds(&structured, &texts) => structured,
            (Some(texts), None) => texts.join("\n").into(),
            _ => content.clone(),
        }
    }

    /// Returns a result whose resources are texts where they encode a text in base64, so that filters can read them.
    /// Borrowed if there are none.
    pub fn readable(value: &Json) -> Cow<'_, Json> {
        let blob = |block: &Json| {
            let resource = block.field("resource");
            media::decoded(&resource.text("blob")?, &resource.text_or_empty("mimeType"))
        };
        let blocks = value.list("content");
        if Self::of(value).is_none() || !blocks.iter().chain([value]).any(|block| blob(block).is_some()) {
            return Cow::Borrowed(value);
        }
        let copy = value.deep_clone();
        for block in copy.list("content").iter().chain([&copy]) {
            if let Some(text) = blob(block) {
                let resource = block.field("resource");
                resource.remove("blob");
                // The value is a copy, so the write cannot fail.
                resource.edit("text", text);
            }
        }
        Cow::Owned(copy)
    }

    /// Returns the texts, each in a line of its own.
    pub fn text(&self) -> String {
        tool_results::text_of(&Json::from([("content", self.parts.clone().into())]))
    }

    /// Returns the parts that are not text.
    pub(crate) fn media(&self) -> impl Iterator<Item = Json> {
        self.parts.iter().filter(|part| part.get("text").is_none()).cloned()
    }

    /// Returns the content of the tool's message to the model: a text, or the parts with those that are not text.
    pub(crate) fn into_message(self) -> Json {
        let text = self.text();
        let has_media = self.media().next().is_some();
        match (self.is_error, has_media) {
            (true, _) => failure(&text, self.media()),
            (false, true) => self.parts.into(),
            (false, false) => text.into(),
        }
    }
}

impl ToolResult {
    /// Creates a result of `{content: [block, …], structuredContent?, isError?}` with the blocks of MCP.
    ///
    /// The value is the structured content if it contains all texts, the text if there is nothing else, and otherwise
    /// all of it.
    ///
    /// # Errors
    /// Returns the texts as an error if `isError` is set.
    pub fn of_content(whole: Json) -> Result<Self, ToolError> {
        let blocks = whole.list("content");
        let texts: Option<Vec<String>> = blocks.iter().map(plain_text).collect();
        let structured = whole.given("structuredContent");
        if whole.is_true("isError") {
            let text = ToolContent::of(&whole).map(|content| content.text()).filter(|text| !text.is_empty());
            let error = ToolError::from(text.unwrap_or_else(|| NO_REASON.into())).answer();
            let is_text = structured.is_none() && blocks.len() <= 1 && texts.is_some();
            return Err(ToolError { content: (!is_text).then_some(whole), ..error });
        }
        let value = ToolContent::value_of(&whole);
        let is_text = value.as_str().is_some() && blocks.len() <= 1;
        let content =
            texts.filter(|texts| !value.ptr_eq(&whole) && !is_text && !texts.is_empty()).map(|texts| {
                // Filters read the value, so there is nothing else beside its texts.
                let blocks: Vec<_> = texts.iter().map(|text| message::text_part(text)).collect();
                let content = Json::from([("content", blocks.into())]);
                if let Some(structured) = structured {
                    content.edit("structuredContent", structured);
                }
                content
            });
        Ok(Self { content, ..value.into() })
    }
}

/// Returns the content of a tool's message for a failure: `{"error": message}` as text, and the other parts.
pub(crate) fn failure(message: &str, media: impl Iterator<Item = Json>) -> Json {
    // A script may give the model a map as the reason.
    let reason = Json::parse(message.as_bytes()).ok().filter(|reason| reason.as_object().is_some());
    let text = Json::from([("error", reason.unwrap_or_else(|| message.into()))]).to_string();
    let mut media = media.peekable();
    match media.peek() {
        None => text.into(),
        Some(_) => [message::text_part(&text)].into_iter().chain(media).collect::<Vec<_>>().into(),
    }
}

/// Converts a block to a part of a chat message; `None` if it is not a valid block.
fn part(block: &Json) -> Option<Json> {
    let fields = block.as_object()?;
    if !fields.keys().iter().all(|key| BLOCK.contains(&&**key)) {
        return None;
    }
    Some(match &*block.text("type")? {
        "text" => message::text_part(&block.text("text")?),
        "image" | "audio" => media::part(&block.text("data")?, &block.text("mimeType")?, None),
        "resource" => resource(block.get("resource")?.as_object()?)?,
        "resource_link" => link(block, &block.text("uri")?),
        _ => return None,
    })
}

fn resource(resource: &Object) -> Option<Json> {
    let text = |key: &str| resource.get(key).and_then(|value| value.as_str().map(str::to_owned));
    if let Some(text) = text("text") {
        return Some(message::text_part(&text));
    }
    let uri = text("uri").unwrap_or_else(String::new);
    let name = uri.rsplit('/').next().filter(|name| !name.is_empty());
    Some(media::part(&text("blob")?, &text("mimeType").unwrap_or_else(String::new), name))
}

fn link(block: &Json, uri: &str) -> Json {
    let described = ["title", "name", "description", "mimeType"].map(|key| block.text(key));
    let described: Vec<_> = described.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    message::text_part(&format!("[Link to a resource: {uri} ({})]", described.join(", ")))
}

/// Returns `true` if the texts say all of a structured content: one is its JSON, or its only field contains the texts, as
/// SDKs wrap results that are not objects.
fn is_said(structured: &Json, texts: &[String]) -> bool {
    let is_equal = |text: &String| Json::parse(text.as_bytes()).is_ok_and(|own| own == *structured);
    let wrapped = match structured.entries().as_slice() {
        [(_, Json::Array(items))] => items.len() == texts.len(),
        [(_, Json::Object(_))] | [] => false,
        [_] => texts.len() == 1,
        _ => false,
    };
    texts.iter().any(is_equal) || wrapped && !texts.is_empty() && holds(structured, texts)
}

/// Returns `true` if a structured content is one of these texts as JSON, or contains each of them within two levels, as a
/// text or as JSON.
fn holds(structured: &Json, texts: &[String]) -> bool {
    let parsed = |text: &String| Json::parse(text.as_bytes()).ok();
    if let [text] = texts
        && parsed(text).is_some_and(|own| own == *structured)
    {
        return true;
    }
    let inside = |value: Json| {
        let fields = value.entries().into_iter().map(|(_, field)| field);
        fields.chain(value.items()).collect::<Vec<_>>()
    };
    let near = inside(structured.clone());
    let all = near.iter().cloned().flat_map(inside).chain(near.iter().cloned());
    let all: HashSet<String> = all.map(|value| value.to_string()).collect();
    let encoded = |text: &String| Json::from(text.as_str()).to_string();
    texts.iter().all(|text| {
        all.contains(&encoded(text)) || parsed(text).is_some_and(|own| all.contains(&own.to_string()))
    })
}

/// The message of a failure without a text.
const NO_REASON: &str = "the tool failed without a reason";

/// Returns the text of a text block; `None` for other blocks.
fn plain_text(block: &Json) -> Option<String> {
    block.text("type").filter(|kind| kind == "text")?;
    block.text("text").map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn message(value: &str) -> String {
        ToolContent::of(&json(value))
            .map_or_else(|| "data".into(), |content| content.into_message().to_string())
    }

    const IMAGE: &str = r#"{"type":"image","data":"aGk=","mimeType":"image/png"}"#;
    const SHOWN: &str = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}"#;

    #[test]
    fn blocks_become_texts_and_parts() {
        let content = |blocks: &str, more: &str| message(&format!(r#"{{"content":[{blocks}]{more}}}"#));
        let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
        assert_eq!(content(&text("a"), ""), r#""a""#);
        assert_eq!(content(&format!("{},{}", text("a"), text("b")), ""), r#""a\nb""#);
        assert_eq!(content(&format!("{},{IMAGE}", text("a")), ""), format!("[{},{SHOWN}]", text("a")));
        assert_eq!(message(IMAGE), format!("[{SHOWN}]"));
        // Structured content is added once.
        assert_eq!(content(&text("a"), r#","structuredContent":{"n":1}"#), r#""a\n{\"n\":1}""#);
        assert_eq!(content(&text(r#"{ \"n\": 1 }"#), r#","structuredContent":{"n":1}"#), r#""{ \"n\": 1 }""#);
        assert_eq!(content("", r#","structuredContent":{"n":1}"#), r#""{\"n\":1}""#);
        assert_eq!(content(&text("a"), r#","structuredContent":{"result":"a"}"#), r#""a""#);
        let failed = content(&format!("{},{IMAGE}", text("why")), r#","isError":true"#);
        assert_eq!(failed, format!(r#"[{{"type":"text","text":"{{\"error\":\"why\"}}"}},{SHOWN}]"#));
    }

    #[test]
    fn resources_are_text_or_named() {
        let resource = |fields: &str| {
            message(&format!(r#"{{"type":"resource","resource":{{"uri":"f://a/b.txt",{fields}}}}}"#))
        };
        assert_eq!(resource(r#""text":"hi""#), r#""hi""#);
        for kind in ["text/plain", "application/json", "image/svg+xml", ""] {
            assert_eq!(resource(&format!(r#""blob":"w7xi","mimeType":"{kind}""#)), r#""üb""#, "{kind}");
        }
        let other = resource(r#""blob":"AAEC","mimeType":"application/zip""#);
        assert!(
            other.contains("b.txt") && other.contains("application/zip") && !other.contains("AAEC"),
            "{other}"
        );
        assert!(
            resource(r#""blob":"aGk=","mimeType":"application/pdf""#)
                .contains("data:application/pdf;base64,aGk=")
        );
        let link = r#"{"type":"resource_link","uri":"f://b","name":"b","description":"The second"}"#;
        assert!(message(link).contains("f://b (b, The second)"), "{}", message(link));
    }

    #[test]
    fn maps_with_other_fields_are_data() {
        for value in [
            r#"{"content":[{"type":"text","text":"a"}],"usage":1}"#,
            r#"{"content":["a"]}"#,
            r#"{"content":[]}"#,
            r#"{"content":"a"}"#,
            r#"{"type":"image","url":"x"}"#,
            r#"{"type":"text","text":"a","score":1}"#,
            r#"{"n":1}"#,
            "[1]",
        ] {
            assert_eq!(message(value), "data", "{value}");
        }
    }

    /// Returns the value of a result, and whether its content is stored as well.
    fn value(result: &str) -> (String, bool) {
        let result = ToolResult::of_content(json(result)).unwrap();
        (result.value.to_string(), result.content.is_some())
    }

    #[test]
    fn the_value_contains_all_texts() {
        let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
        let of = |blocks: &str, structured: &str| {
            let more = if structured.is_empty() {
                String::new()
            } else {
                format!(r#","structuredContent":{structured}"#)
            };
            value(&format!(r#"{{"content":[{blocks}]{more}}}"#))
        };
        assert_eq!(of(&text("a"), ""), (r#""a""#.into(), false));
        assert_eq!(of(&format!("{},{}", text("a"), text("b")), ""), (r#""a\nb""#.into(), true));
        assert_eq!(of(&text(r#"{\"n\": 1}"#), r#"{"n":1}"#), (r#"{"n":1}"#.into(), true));
        assert_eq!(of(&text("a"), r#"{"result":"a"}"#), (r#"{"result":"a"}"#.into(), true));
        assert_eq!(
            of(&format!("{},{}", text("1"), text("b")), r#"{"result":[1,"b"]}"#).0,
            r#"{"result":[1,"b"]}"#
        );
        assert_eq!(of("", r#"{"n":1}"#), (r#"{"n":1}"#.into(), false));
        let (whole, _) = of(&text("more"), r#"{"n":1}"#);
        assert!(whole.contains("more") && whole.contains("structuredContent"), "{whole}");
        assert!(of(&format!("{},{IMAGE}", text("a")), "").0.contains("aGk="));
    }

    #[test]
    fn failures_keep_all_reasons() {
        let error = |result: &str| ToolResult::of_content(json(result)).unwrap_err();
        let plain = error(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#);
        assert_eq!((&*plain.message, plain.content.is_none(), plain.is_answer), ("no", true, true));
        let both = error(&format!(
            r#"{{"content":[{{"type":"text","text":"no"}},{IMAGE}],"structuredContent":{{"n":1}},"isError":true}}"#
        ));
        assert_eq!((&*both.message, both.content.is_some()), ("no\n{\"n\":1}", true));
        assert_eq!(error(r#"{"content":[],"isError":true}"#).message, NO_REASON);
    }

    #[test]
    fn filters_read_the_texts_of_resources() {
        let value = json(
            r#"{"content":[{"type":"resource","resource":{"uri":"a","mimeType":"text/plain","blob":"aGk="}}]}"#,
        );
        let readable = ToolContent::readable(&value);
        assert_eq!(readable.at_path("content.0.resource.text"), Json::from("hi"));
        assert!(readable.at_path("content.0.resource.blob").is_null());
        assert!(matches!(ToolContent::readable(&json(IMAGE)), Cow::Borrowed(_)));
    }
}
