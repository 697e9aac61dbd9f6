//! Conversion of complete (not streamed) responses between the Anthropic and the OpenAI format.

use super::blocks::{self, check_call};
use super::cite::Citations;
use super::part::{others, with_others};
use super::stop_reason;
use super::stream::MessagesReader;
use crate::answer_error::{AnswerError, is_error};
use valvehouse_core::chat::{CONTENT_BLOCKS, Fold, response};
use valvehouse_json::Json;

/// Reads a service's answer.
///
/// # Errors
/// Returns an error if the service sent one, or if a call has no name.
pub fn read(message: &Json) -> Result<Json, AnswerError> {
    if message.get("content").is_some_and(|content| content.is_array()) {
        message.list("content").iter().try_for_each(check_call)?;
        return Ok(completion(message));
    }
    match is_error(message) {
        true => Err(AnswerError::Sent(message.clone())),
        false => Err(AnswerError::Lacks("content", message.clone())),
    }
}

/// Converts an Anthropic message to a `chat.completion`. The result equals what its stream would fold to.
pub fn completion(message: &Json) -> Json {
    let mut reader = MessagesReader::default().with_usage(message.get("usage").is_some());
    let mut fold = Fold::default();
    for event in events(message) {
        reader.read(&event).iter().for_each(|chunk| fold.push(chunk));
    }
    fold.finish()
}

/// Returns the stream events that are equivalent to a complete message.
fn events(message: &Json) -> Vec<Json> {
    let start = Json::from([("type", "message_start".into()), ("message", message.clone())]);
    let mut events = vec![start];
    for (index, block) in message.list("content").into_iter().enumerate() {
        let index = Json::from(index);
        events.push(Json::from([
            ("type", "content_block_start".into()),
            ("index", index.clone()),
            ("content_block", block),
        ]));
        events.push(Json::from([("type", "content_block_stop".into()), ("index", index)]));
    }
    let stop = ["stop_reason", "stop_sequence", "stop_details"];
    let delta = stop.into_iter().filter_map(|key| Some((key.into(), message.given(key)?.deep_clone())));
    let delta: valvehouse_json::Object = delta.collect();
    events.push(Json::from([("type", "message_delta".into()), ("delta", delta.into())]));
    events
}

/// Attaches a message's citations to the last of its text blocks.
fn cite(message: &Json, blocks: &[Json]) {
    let mut citations = Citations::default();
    message.list(CONTENT_BLOCKS).iter().for_each(|item| citations.remember(item));
    citations.add(message);
    let new = citations.take();
    let is_text = |block: &&Json| block.is_text("type", "text");
    if let (false, Some(text)) = (new.is_empty(), blocks.iter().rfind(is_text)) {
        let all: Vec<Json> = text.list("citations").into_iter().chain(new).collect();
        // The block was created above, so the write cannot fail.
        text.edit("citations", all);
    }
}

/// Converts the first choice of a `chat.completion` to an Anthropic message. An Anthropic message cannot hold
/// further choices.
pub fn write(completion: &Json) -> Json {
    let choice = Json::from(response::first_choice(completion));
    let chat_message = choice.field("message");
    let blocks = blocks::of_message(&chat_message);
    cite(&chat_message, &blocks);
    let has_calls = !chat_message.field("tool_calls").is_empty();
    let refuses = chat_message.text("refusal").is_some_and(|text| !text.is_empty());
    let known = ["id", "object", "created", "model", "choices", "usage"];
    let message = with_others(
        [
            ("id", completion.field("id")),
            ("type", "message".into()),
            ("role", "assistant".into()),
            ("model", completion.field("model")),
            ("content", blocks.into()),
        ],
        others(&stop_reason::stop(&choice, has_calls, refuses), &[]),
    );
    // Clients take an answer without a reason for an incomplete one.
    if message.given("stop_reason").is_none() {
        message.put("stop_reason", if has_calls { "tool_use" } else { "end_turn" });
    }
    if message.get("stop_sequence").is_none() {
        message.put("stop_sequence", Json::Null);
    }
    message.put("usage", stop_reason::counts(&Json::from(response::usage_of(completion))));
    for (key, value) in others(completion, &known) {
        message.put(&key, value);
    }
    message
}
