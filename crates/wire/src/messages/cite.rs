//! Citations of Anthropic's text blocks and `annotations` of chat messages.

use compact_str::CompactString;
use std::collections::HashSet;
use std::ops::Range;
use valvehouse_json::Json;

/// The type of an annotation that cites a web page.
const URL_CITATION: &str = "url_citation";

/// Returns the annotations of a text block that covers these characters of the whole text. Citations of
/// documents have no equivalent in chats.
pub(super) fn annotations(block: &Json, letters: Range<usize>) -> Vec<Json> {
    let annotation = |citation: &Json| {
        let source = Json::from([
            ("start_index", letters.start.into()),
            ("end_index", letters.end.into()),
            ("url", citation.given("url")?.deep_clone()),
            ("title", citation.field("title").deep_clone()),
        ]);
        Some(Json::from([("type", URL_CITATION.into()), (URL_CITATION, source)]))
    };
    block.list("citations").iter().filter_map(annotation).collect()
}

/// The citations made from annotations, without those of remembered blocks.
#[derive(Debug, Default)]
pub(super) struct Citations {
    /// The URLs that remembered blocks cite.
    known: HashSet<CompactString>,
    waiting: Vec<Json>,
}

impl Citations {
    /// Records the citations of a remembered block.
    pub(super) fn remember(&mut self, block: &Json) {
        self.known.extend(block.list("citations").iter().filter_map(|citation| citation.text("url")));
    }

    /// Adds the annotations of a message or of a delta.
    pub(super) fn add(&mut self, message: &Json) {
        for given in message.list("annotations") {
            let source = given.field(URL_CITATION);
            let Some(url) = source.text("url") else { continue };
            self.waiting.push(Json::from([
                ("type", "web_search_result_location".into()),
                ("url", url.into()),
                ("title", source.field("title").deep_clone()),
                // Annotations have neither field.
                ("cited_text", "".into()),
                ("encrypted_index", "".into()),
            ]));
        }
    }

    /// Returns the citations added since the last call.
    pub(super) fn take(&mut self) -> Vec<Json> {
        let is_new = |citation: &Json| citation.text("url").is_some_and(|url| !self.known.contains(&url));
        std::mem::take(&mut self.waiting).into_iter().filter(is_new).collect()
    }
}

/// Removes the citations in a client's message that come from another provider's annotations, because Anthropic
/// would reject them.
pub(super) fn without_foreign(content: &Json) -> Json {
    let is_foreign = |citation: &Json| citation.text("encrypted_index").is_some_and(|index| index.is_empty());
    let content = content.deep_clone();
    for block in content.items() {
        let citations = block.list("citations");
        if citations.iter().any(is_foreign) {
            let own: Vec<Json> = citations.into_iter().filter(|citation| !is_foreign(citation)).collect();
            // The block is a copy, so the write cannot fail.
            block.edit("citations", own);
        }
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::answer::{completion, write};
    use crate::messages::request::read;
    use crate::messages::stream::MessagesReader;

    const CITED: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"It is cold.","annotations":[
        {"type":"url_citation","url_citation":{"url":"https://x.example","title":"X","start_index":0,"end_index":2}}]},
        "finish_reason":"stop"}]}"#;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn page_citations_become_annotations_with_character_offsets() {
        let blocks = r#"{"content":[{"type":"text","text":"Süß: "},{"type":"text","text":"cold.","citations":[
            {"type":"web_search_result_location","url":"https://x.example","title":"X","cited_text":"c","encrypted_index":"e"},
            {"type":"char_location","document_index":0,"cited_text":"c"}]}],"stop_reason":"end_turn"}"#;
        let chat_message = completion(&json(blocks)).at_path("choices.0.message");
        let expected = r#"[{"type":"url_citation","url_citation":
            {"start_index":5,"end_index":10,"url":"https://x.example","title":"X"}}]"#;
        assert_eq!(chat_message.field("annotations"), json(expected));
        // Anthropic's own citation is there once.
        let back = write(&completion(&json(blocks)));
        assert_eq!(back.at_path("content.1.citations"), json(blocks).at_path("content.1.citations"));
    }

    #[test]
    fn citations_of_other_services_are_shown_but_not_sent_to_anthropic() {
        let answer = write(&json(CITED));
        assert_eq!(
            answer.at_path("content.0.citations.0.url").as_str(),
            Some("https://x.example"),
            "{answer}"
        );
        let turn = Json::from([("role", "assistant".into()), ("content", answer.field("content"))]);
        let request = Json::from([
            ("model", "m".into()),
            ("max_tokens", 9_i64.into()),
            ("messages", vec![turn].into()),
        ]);
        let chat = read(&request, None).unwrap().at_path("messages.0");
        assert_eq!(chat.text_or_empty("content"), "It is cold.");
        assert!(!chat.to_string().contains("x.example"), "{chat}");
    }

    #[test]
    fn a_streamed_citation_becomes_an_annotation() {
        let mut reader = MessagesReader::default();
        let chunks: Vec<Json> = [
            r#"{"type":"message_start","message":{"id":"m","model":"c"}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"cold"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://x.example","title":"X"}}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
        ]
        .iter()
        .flat_map(|event| reader.read(&json(event)))
        .collect();
        let source = chunks.last().unwrap().at_path("choices.0.delta.annotations.0.url_citation");
        assert_eq!((source.field("end_index"), source.text_or_empty("title")), (4_i64.into(), "X".into()));
    }
}
