//! All protocols behind the same functions.

use valvehouse_core::ChatRequest;
use valvehouse_core::error::Error;
use valvehouse_json::Json;
use valvehouse_wire::ollama::request::OllamaRoute;
use valvehouse_wire::service::{KnownService, Protocol};
use valvehouse_wire::{messages, ollama, openai, responses};

pub(crate) const ALL: [Protocol; 4] =
    [Protocol::Chat, Protocol::Messages, Protocol::Responses, Protocol::Ollama];

/// Writes a chat request for a service.
pub(crate) fn write_request(protocol: Protocol, chat: &Json) -> Result<Json, Error> {
    Ok(match protocol {
        Protocol::Chat => openai::request::write(chat, false, KnownService::of("", ""))?.body,
        Protocol::Messages => messages::request::write(chat, false)?.body,
        Protocol::Responses => responses::request::write(chat, false, KnownService::of("", ""))?,
        Protocol::Ollama => ollama::request::write(chat, false)?,
    })
}

/// Reads what a client sends.
pub(crate) fn read_request(protocol: Protocol, body: &Json) -> Result<Json, Error> {
    let body = body.deep_clone();
    Ok(match protocol {
        Protocol::Chat => ChatRequest::new(body)?.body().clone(),
        Protocol::Messages => messages::request::read(&body, None)?,
        Protocol::Responses => {
            responses::request::check(&body)?;
            responses::request::read(body, Vec::new())?.chat
        }
        Protocol::Ollama => ollama::request::read(&body, OllamaRoute::Chat)?.body,
    })
}

/// Returns a chat in one form: without the marks of the protocol by which it came, and with one name for each field.
pub(crate) fn settled(chat: &Json) -> Json {
    let chat = chat.deep_clone();
    for mark in ["anthropic", "responses", "ollama", "stream_options"] {
        chat.remove(mark);
    }
    if chat.get("stream") == Some(false.into()) {
        chat.remove("stream");
    }
    if let Some(limit) = chat.remove("max_tokens") {
        chat.put("max_completion_tokens", limit);
    }
    // The default.
    if chat.text("tool_choice").is_some_and(|choice| choice == "auto") {
        chat.remove("tool_choice");
    }
    if let Some(stop @ Json::Text(_)) = chat.get("stop") {
        chat.put("stop", vec![stop]);
    }
    for message in chat.list("messages") {
        settle_message(&message);
    }
    let mut fields = chat.entries();
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    Json::from_fields(fields)
}

fn settle_message(message: &Json) {
    let parts = message.list("content");
    match parts.as_slice() {
        [only] if only.text("type").is_some_and(|kind| kind == "text") && only.len() == 2 => {
            message.put("content", only.field("text"));
        }
        _ => {}
    }
    // The default.
    for image in parts.iter().map(|part| part.field("image_url")) {
        if image.text("detail").is_some_and(|detail| detail == "auto") {
            image.remove("detail");
        }
    }
    if message.get("content").is_some_and(|content| content.is_null()) {
        message.put("content", "");
    }
    for call in message.list("tool_calls") {
        let function = call.field("function");
        if let Ok(arguments) = Json::parse(function.text_or_empty("arguments").as_bytes()) {
            function.edit("arguments", arguments.to_string());
        }
    }
    let fields = message.entries();
    for (key, _) in &fields {
        message.remove(key);
    }
    let mut fields = fields;
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields.into_iter().for_each(|(key, value)| message.put(&key, value));
}
