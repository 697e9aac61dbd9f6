//! Complete answers of OpenAI's chat API.

use super::correct::correct;
use crate::answer_error::{AnswerError, is_error};
use valvehouse_core::chat::call;
use valvehouse_json::Json;

/// Reads a service's answer, corrects it, and adds what its tool calls lack.
///
/// # Errors
/// Returns an error if the service sent one, and for a tool call without a name.
pub fn read(answer: &Json) -> Result<Json, AnswerError> {
    correct(answer, &mut false);
    if answer.get("choices").is_some_and(|choices| !choices.is_empty()) {
        answer.list("choices").iter().try_for_each(|choice| call::tidy_all(&choice.field("message")))?;
        return Ok(answer.clone());
    }
    if is_error(answer) {
        return Err(AnswerError::Sent(answer.clone()));
    }
    match answer.get("choices") {
        Some(Json::Array(_)) => Ok(answer.clone()),
        _ => Err(AnswerError::Lacks("choices", answer.clone())),
    }
}

/// Reads a complete answer to a request for a stream, which must contain a choice.
///
/// # Errors
/// Returns the errors of [`read`], and an error for an answer without choices.
pub fn read_choices(answer: &Json) -> Result<Json, AnswerError> {
    let answer = read(answer)?;
    match answer.get("choices").is_some_and(|choices| !choices.is_empty()) {
        true => Ok(answer),
        false => Err(AnswerError::Cut("it has no choices".into())),
    }
}

/// Returns `true` if a request has functions of the first version of the API, and expects a call as `function_call`.
pub fn expects_function_call(request: &Json) -> bool {
    request.field("tools").is_empty() && !request.field("functions").is_empty()
}

/// Writes the first call in each choice's message or delta as its `function_call`, which has no others. Returns `true` if
/// the answer was changed.
pub fn write_function_calls(answer: &Json, key: &str) -> bool {
    let mut is_changed = false;
    for choice in answer.list("choices") {
        let message = choice.field(key);
        let calls = message.list("tool_calls");
        if let Some(first) = calls.iter().find(|call| call.integer("index").is_none_or(|index| index == 0)) {
            message.edit("function_call", first.field("function"));
        }
        let is_end = choice.is_text("finish_reason", "tool_calls");
        if is_end {
            choice.edit("finish_reason", "function_call");
        }
        is_changed |= message.remove("tool_calls").is_some() || is_end;
    }
    is_changed
}
