//! The table of what a chat loses in a protocol: fields without an equivalent there.

use crate::service::Protocol::{self, Messages, Ollama, Responses};
use std::fmt::Write;

/// The fate of a field of a chat in a protocol that has no equivalent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The field is left out.
    LeftOut,
    /// The request is refused, because the answer would be another one.
    Refused,
    /// Only services with this protocol receive the field.
    Own,
    /// The field is replaced by this.
    Becomes(&'static str),
}

/// A row of the table.
#[derive(Debug)]
pub struct LostField {
    /// The field of a chat, and its value where that matters.
    pub field: &'static str,
    /// The protocols that have no equivalent.
    pub protocols: &'static [Protocol],
    /// The fate of the field.
    pub loss: Loss,
}

const fn row(field: &'static str, protocols: &'static [Protocol], loss: Loss) -> LostField {
    LostField { field, protocols, loss }
}

use Loss::{Becomes, LeftOut, Own, Refused};

/// All rows. A field that no row names is kept by all protocols.
pub const LOST_FIELDS: &[LostField] = &[
    row("top_k", &[Messages, Responses], Own),
    row("min_p", &[Messages, Responses], Own),
    row("repeat_penalty", &[Messages, Responses], Own),
    row("num_ctx", &[Messages, Responses], Own),
    row("seed", &[Messages, Responses], LeftOut),
    row("stop", &[Responses], LeftOut),
    row("presence_penalty", &[Messages], Refused),
    row("frequency_penalty", &[Messages], Refused),
    row("logit_bias", &[Messages, Responses], Refused),
    row("logit_bias", &[Ollama], LeftOut),
    row("n", &[Messages, Responses], Refused),
    row("n", &[Ollama], LeftOut),
    row("logprobs", &[Messages], Refused),
    row("top_logprobs", &[Messages], Refused),
    row("user", &[Ollama], LeftOut),
    row("safety_identifier", &[Messages], Becomes("`user`")),
    row("safety_identifier", &[Ollama], LeftOut),
    row("prompt_cache_key", &[Messages, Ollama], LeftOut),
    row("prompt_cache_retention", &[Messages, Ollama], LeftOut),
    row("prompt_cache_retention", &[Responses], Own),
    row("service_tier", &[Messages], Own),
    row("service_tier", &[Ollama], LeftOut),
    row("store", &[Messages, Responses, Ollama], LeftOut),
    row("metadata", &[Messages, Responses, Ollama], LeftOut),
    row("verbosity", &[Messages, Ollama], LeftOut),
    row(
        "reasoning_effort: \"low\"",
        &[Ollama],
        Becomes("thinking without a level, except for models that take levels"),
    ),
    row("reasoning_effort: \"none\"", &[Messages], Own),
    row("modalities", &[Messages], Refused),
    row("modalities", &[Responses], Own),
    row("modalities", &[Ollama], LeftOut),
    row("prediction", &[Messages, Ollama], LeftOut),
    row("prediction", &[Responses], Own),
    row("web_search_options", &[Messages], Refused),
    row("web_search_options", &[Responses], Own),
    row("web_search_options", &[Ollama], LeftOut),
    row("response_format: json_object", &[Messages], Becomes("an instruction in the system prompt")),
    row("response_format.json_schema.name", &[Messages, Ollama], Becomes("`answer`")),
    row("response_format.json_schema.description", &[Messages, Ollama], LeftOut),
    row("response_format.json_schema", &[Messages], Becomes("a schema with `strict: true`")),
    row("response_format.json_schema.strict: true", &[Ollama], LeftOut),
    row("tools[].custom", &[Messages], Refused),
    row("tool_choice: \"none\"", &[Ollama], Becomes("a request without tools")),
    row("tool_choice: \"required\"", &[Ollama], LeftOut),
    row("tool_choice: a function", &[Ollama], LeftOut),
    row("parallel_tool_calls", &[Ollama], LeftOut),
    row("message: system, in the middle", &[Messages], Becomes("a part of the system prompt")),
    row("message: developer", &[Messages, Responses, Ollama], Becomes("a system message")),
    row("messages[].name", &[Messages, Responses, Ollama], LeftOut),
    row("messages[].content: texts", &[Ollama], Becomes("one text")),
    row("messages[].content[].image_url, an address", &[Ollama], Refused),
    row("messages[].content[].image_url.detail", &[Messages, Ollama], LeftOut),
    row("messages[].content[].file, a PDF", &[Ollama], Refused),
    row("messages[].content[].file, a text", &[Ollama], Refused),
    row("messages[].content[].file, a text", &[Messages], Becomes("a `document` with the text")),
    row("messages[].content[].file.file_id", &[Ollama], Refused),
    row("messages[].content[].input_audio", &[Messages, Ollama], Refused),
    row("messages[].refusal", &[Messages, Ollama], Becomes("the text of the message")),
    row("messages[].reasoning_content", &[Messages], LeftOut),
    row(
        "messages[].tool_calls, no object as arguments",
        &[Messages, Ollama],
        Becomes("an object with the text"),
    ),
    row("messages[].tool_calls[].custom", &[Messages, Ollama], Becomes("a call with `{input}`")),
    row("message: tool, with texts", &[Ollama], Becomes("one text")),
];

/// Returns what becomes of a field in a protocol; `None` if it is kept.
pub fn loss(field: &str, protocol: Protocol) -> Option<Loss> {
    let row = LOST_FIELDS.iter().find(|row| row.field == field && row.protocols.contains(&protocol));
    row.map(|row| row.loss)
}

/// Returns the table as Markdown, for the documentation.
pub fn markdown() -> String {
    let mut out = String::from("| field of a chat | in the API | becomes |\n| --- | --- | --- |\n");
    for LostField { field, protocols, loss } in LOST_FIELDS {
        let protocols: Vec<&str> = protocols.iter().map(|protocol| protocol.as_str()).collect();
        let loss = match loss {
            LeftOut => "left out",
            Refused => "400",
            Own => "sent to services with this API only",
            Becomes(what) => what,
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| `{field}` | {} | {loss} |", protocols.join(" "));
    }
    out
}
