//! The first choice of a chat answer, for endpoints whose protocol has only one choice.

use valvehouse_core::chat::response;
use valvehouse_core::error::Error;
use valvehouse_json::Json;

/// Checks that an answer contains the first choice.
pub(crate) fn check(answer: &Json) -> Result<(), Error> {
    if response::first_choice(answer).is_some() {
        return Ok(());
    }
    if answer.get("choices").is_none_or(|choices| choices.is_empty()) {
        return Err(Error::Provider {
            message: "the response of the provider has no choices".into(),
            timeout: false,
        });
    }
    Err(missing())
}

/// Returns the error for an answer that contains only other choices.
pub(crate) fn missing() -> Error {
    let message =
        "the response of the provider has no choice with index 0, the only one that this API returns";
    Error::Provider { message: message.into(), timeout: false }
}
