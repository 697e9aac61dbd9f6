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
