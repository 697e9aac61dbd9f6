//! Answers that the host creates: complete answers, chunks and usage.

use super::{event, message};
use compact_str::CompactString;
use std::time::{SystemTime, UNIX_EPOCH};
use valvehouse_json::Json;

/// The fields that all objects of one answer share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The id, `chatcmpl-…`.
    pub id: CompactString,
    /// The model name that the client requested.
    pub model: CompactString,
    /// The creation time in seconds since 1970.
    pub created: u64,
}

impl Head {
    /// Creates the head of a new answer: a random id and the current time.
    pub fn new(model: impl Into<CompactString>) -> Self {
        Self::with_id(format!("chatcmpl-{}", uuid::Uuid::new_v4().simple()), model)
    }

    /// Creates the head of a new answer with the given id.
    pub fn with_id(id: impl Into<CompactString>, model: impl Into<CompactString>) -> Self {
        // A clock before 1970 counts as 1970.
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self { id: id.into(), model: model.into(), created }
    }

    /// Creates a `chat.completion` with one message.
    pub fn completion(&self, message: Json, finish_reason: &str) -> Json {
        let choice = Json::from([
            ("index", 0_u64.into()),
            ("message", message),
            ("finish_reason", finish_reason.into()),
        ]);
        self.object("chat.completion", vec![choice])
    }

    /// Creates a `chat.completion` with this text and the finish reason `stop`.
    pub fn text(&self, text: &str) -> Json {
        self.completion(message::assistant(text), "stop")
    }

    /// Creates a `chat.completion.chunk` for the first choice.
    pub fn chunk(&self, delta: Json, finish_reason: Option<&str>) -> Json {
        let choice = Json::from([
            ("index", 0_u64.into()),
            ("delta", delta),
            ("finish_reason", Json::from(finish_reason)),
        ]);
        self.object("chat.completion.chunk", vec![choice])
    }

    /// Creates the chunk with the usage, which has no choices.
    pub fn usage_chunk(&self, usage: Json) -> Json {
        let chunk = self.object("chat.completion.chunk", Vec::new());
        // A new object accepts any value.
        chunk.put("usage", usage);
        chunk
    }

    pub(super) fn object(&self, kind: &str, choices: Vec<Json>) -> Json {
        Json::from([
            ("id", self.id.clone().into()),
            ("object", kind.into()),
            ("created", self.created.into()),
            ("model", self.model.clone().into()),
            ("choices", choices.into()),
        ])
    }
}

/// The key under which a summed usage stores the usage of the last model call.
pub const LAST_CALL: &str = "last_call";

/// Returns the tokens of the prompt that came from a cache of the service, from any of the fields that services use:
/// those of OpenAI, DeepSeek and Moonshot.
pub fn cached_tokens(usage: &Json) -> Option<i64> {
    const FIELDS: [&str; 3] =
        ["prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cached_tokens"];
    FIELDS.iter().find_map(|path| usage.at_path(path).as_i64())
}

/// Returns the usage of an answer or of a chunk: its own, or else that in the first choice, where Kimi streams it, or that
/// of Groq.
pub fn usage_of(answer: &Json) -> Option<Json> {
    let usage = |of: &Json| match of {
        Json::Object(own) => own.with("usage", |usage| usage.filter(|usage| usage.is_object()).cloned()),
        _ => None,
    };
    let Json::Object(fields) = answer else { return None };
    let of_choice = || {
        fields.with("choices", |choices| match choices {
            Some(Json::Array(choices)) => choices.with(|choices| usage(choices.first()?)),
            _ => None,
        })
    };
    usage(answer).or_else(of_choice).or_else(|| fields.with("x_groq", |own| usage(own?)))
}

/// Returns the length of all texts of an answer's choices, in bytes.
pub fn text_size(answer: &Json) -> usize {
    fn size(value: &Json) -> usize {
        match value {
            Json::Text(text) => text.len(),
            Json::Array(items) => items.with(|items| items.iter().map(size).sum()),
            Json::Object(fields) => {
                let mut sum = 0;
                fields.for_each(|_, value| sum += size(value));
                sum
            }
            _ => 0,
        }
    }
    size(&answer.field("choices"))
}

/// Returns the completion tokens of a usage, with those of thoughts, which some services count in the total only.
pub fn completion_tokens(usage: &Json) -> i64 {
    let count = |name: &str| usage.integer(name).unwrap_or(0);
    count("completion_tokens").max(count("total_tokens").saturating_sub(count("prompt_tokens")))
}

/// Creates a usage: `{prompt_tokens, completion_tokens, total_tokens}`.
pub fn usage(prompt: usize, completion: usize) -> Json {
    Json::from([
        ("prompt_tokens", prompt.into()),
        ("completion_tokens", completion.into()),
        ("total_tokens", (prompt + completion).into()),
    ])
}

/// Adds two usages: counts are added, other values are those of `more`.
pub fn add_usage(sum: &Json, more: &Json) -> Json {
    match (sum, more) {
        (Json::Number(sum), Json::Number(more)) => match (sum.as_i64(), more.as_i64()) {
            (Some(sum), Some(more)) => sum.saturating_add(more).into(),
            _ => (sum.as_f64() + more.as_f64()).into(),
        },
        (Json::Object(sum), Json::Object(more)) => {
            let total = sum.entries().into_iter().map(|(key, value)| match more.get(&key) {
                Some(more) => (key, add_usage(&value, &more)),
                None => (key, value.deep_clone()),
            });
            let total: valvehouse_json::Object = total.collect();
            for (key, value) in more.entries().into_iter().filter(|(key, _)| !sum.contains(key)) {
                // The object is new and the value is a copy, so the write cannot fail.
                total.put(&key, value.deep_clone());
            }
            total.into()
        }
        (sum, Json::Null) => sum.deep_clone(),
        (_, more) => more.deep_clone(),
    }
}

/// Returns a usage that counts words instead of tokens, for answers that no model generated.
pub fn word_usage(messages: &[Json], answer: &Json) -> Json {
    let words = |message: &Json| message::text_of(message).split_whitespace().count();
    usage(messages.iter().map(words).sum(), words(answer))
}

/// Returns the message of the first choice as a live value; null if there is none.
pub fn message_of(completion: &Json) -> Json {
    event::choice(completion).map_or(Json::Null, |choice| choice.field("message"))
}

/// Returns choice 0 of an answer or event, at any position in the list. A choice without an index has that of
/// its position.
pub fn first_choice(of: &Json) -> Option<Json> {
    let mut choices = of.list("choices").into_iter().enumerate();
    let first =
        choices.find(|(place, choice)| choice.integer("index").map_or(*place == 0, |index| index == 0));
    first.map(|(_, choice)| choice)
}

/// Returns the finish reason of the first choice; `None` if the provider sent none.
pub fn finish_reason_of(completion: &Json) -> Option<CompactString> {
    event::choice(completion)?.text("finish_reason")
}

/// Returns the finish reason for a message: `tool_calls` if it has any, otherwise `stop`.
pub fn natural_finish(message: &Json) -> &'static str {
    if message.get("tool_calls").is_some_and(|calls| !calls.is_empty()) { "tool_calls" } else { "stop" }
}

/// Joins consecutive text parts in the messages of a complete answer, as most clients do, so that filters see each text
/// whole.
pub fn join_texts(answer: &Json) {
    for choice in answer.list("choices") {
        let message = choice.field("message");
        let Some(Json::Array(parts)) = message.get("content") else { continue };
        let parts = parts.items();
        let is_plain = |part: &Json| {
            let mut is_plain = matches!(part.text("type").as_deref(), Some("text" | "output_text"));
            if let Json::Object(part) = part {
                part.for_each(|key, value| is_plain &= matches!(key, "type" | "text") || value.is_empty());
            }
            is_plain
        };
        if !parts.windows(2).any(|pair| pair.iter().all(is_plain)) {
            continue;
        }
        let mut joined: Vec<Json> = Vec::with_capacity(parts.len());
        for part in &parts {
            match joined.last().filter(|last| is_plain(last) && is_plain(part)) {
                Some(last) => {
                    let text = [last.text_or_empty("text"), part.text_or_empty("text")].concat();
                    last.edit("text", text);
                }
                None => joined.push(part.deep_clone()),
            }
        }
        // The parts are copies, so the write cannot fail.
        message.edit("content", joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_with_index_0_is_found_at_any_position() {
        let first = |choices: &str| {
            let answer = Json::parse(format!(r#"{{"choices":{choices}}}"#).as_bytes()).unwrap();
            first_choice(&answer).map(|choice| choice.at_path("is").to_string())
        };
        for (choices, is) in [
            (r#"[{"index":1,"is":1},{"index":0,"is":2}]"#, Some("2")),
            (r#"[{"is":1},{"is":2}]"#, Some("1")),
            (r#"[{"index":null,"is":1}]"#, Some("1")),
            (r#"[{"index":1,"is":1},{"is":2}]"#, None),
            ("[]", None),
            ("null", None),
        ] {
            assert_eq!(first(choices).as_deref(), is, "{choices}");
        }
    }

    #[test]
    fn answers_have_the_shape_of_chat_completions() {
        let head = Head { id: "c".into(), model: "m".into(), created: 7 };
        assert_eq!(
            head.text("hi").to_string(),
            concat!(
                r#"{"id":"c","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"#,
                r#""message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#
            )
        );
        assert_eq!(
            head.chunk(Json::object(), None).at_path("choices.0").to_string(),
            r#"{"index":0,"delta":{},"finish_reason":null}"#
        );
        let chunk = head.usage_chunk(usage(1, 2));
        assert_eq!(chunk.at_path("usage.total_tokens").as_i64(), Some(3));
        assert_eq!(message::text_of(&message_of(&head.text("hi"))), "hi");
        assert_eq!(finish_reason_of(&head.text("hi")).as_deref(), Some("stop"));
    }
}
