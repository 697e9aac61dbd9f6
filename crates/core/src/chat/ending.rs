//! The reasons why answers end, in one list for all protocols.

use super::response;
use valvehouse_json::Json;

/// The reason why an answer ended, as far as the host acts on it.
///
/// All protocols read and write their own words through this list. A word that is not in it counts as
/// [`Ending::Stop`], because services invent words for a natural end more often than for a failure; chat clients
/// receive it unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The model finished.
    Stop,
    /// A stop text of the request was generated.
    StopSequence,
    /// The model calls tools.
    ToolCalls,
    /// A limit of tokens cut the answer.
    Length,
    /// A filter of the service, or the model itself, refused the rest of the answer.
    ContentFilter,
    /// The service aborted the answer.
    Canceled,
    /// The service failed while answering.
    Failed,
}

use Ending::{Canceled, ContentFilter, Failed, Length, Stop, StopSequence, ToolCalls};

/// The words of services in lower case.
const WORDS: [(&str, Ending); 61] = [
    ("stop", Stop),
    ("completed", Stop),
    // Anthropic.
    ("end_turn", Stop),
    ("pause_turn", Stop),
    // Together, Text Generation Inference, Cohere.
    ("eos", Stop),
    ("eos_token", Stop),
    ("complete", Stop),
    ("stop_sequence", StopSequence),
    ("tool_calls", ToolCalls),
    ("tool_call", ToolCalls),
    ("function_call", ToolCalls),
    ("tool_use", ToolCalls),
    ("length", Length),
    ("max_tokens", Length),
    ("max_output_tokens", Length),
    // Anthropic and Zhipu; Mistral; Cohere.
    ("model_context_window_exceeded", Length),
    ("model_length", Length),
    ("error_limit", Length),
    ("content_filter", ContentFilter),
    ("refusal", ContentFilter),
    // Bedrock; Zhipu; Cohere.
    ("content_filtered", ContentFilter),
    ("guardrail_intervened", ContentFilter),
    ("sensitive", ContentFilter),
    ("error_toxic", ContentFilter),
    // Gemini, whose OpenAI API passes its own words on: ai.google.dev/api/generate-content#FinishReason.
    ("safety", ContentFilter),
    ("recitation", ContentFilter),
    ("blocklist", ContentFilter),
    ("prohibited_content", ContentFilter),
    ("spii", ContentFilter),
    ("image_safety", ContentFilter),
    ("image_prohibited_content", ContentFilter),
    ("image_recitation", ContentFilter),
    ("malformed_function_call", Failed),
    ("malformed_response", Failed),
    ("function_call_filter", Failed),
    ("unexpected_tool_call", Failed),
    ("too_many_tool_calls", Failed),
    ("missing_thought_signature", Failed),
    ("cancelled", Canceled),
    ("canceled", Canceled),
    // vLLM and SGLang; Cohere.
    ("abort", Canceled),
    ("aborted", Canceled),
    ("user_cancel", Canceled),
    ("interrupted", Canceled),
    // OpenRouter and Mistral; Responses.
    ("error", Failed),
    ("failed", Failed),
    ("failure", Failed),
    // DeepSeek; Zhipu; Bedrock.
    ("insufficient_system_resource", Failed),
    ("network_error", Failed),
    ("malformed_model_output", Failed),
    ("malformed_tool_use", Failed),
    ("server_error", Failed),
    ("internal_error", Failed),
    ("internal_server_error", Failed),
    ("model_error", Failed),
    ("upstream_error", Failed),
    ("api_error", Failed),
    ("overloaded", Failed),
    ("overloaded_error", Failed),
    ("timeout", Failed),
    ("exception", Failed),
];

/// Returns the entry of a word in any case. Gemini adds details after a colon: `content_filter: SAFETY`.
fn known(word: &str) -> Option<&'static (&'static str, Ending)> {
    word.split(':')
        .map(|word| word.trim().replace(['-', ' '], "_"))
        .find_map(|word| WORDS.iter().find(|(own, _)| own.eq_ignore_ascii_case(&word)))
}

/// Returns `true` for a word that services use, without details after it.
pub(super) fn is_known(word: &str) -> bool {
    !word.contains(':') && known(word).is_some()
}

impl Ending {
    /// Returns the ending for a service's word. An unknown word is a natural end.
    pub fn of(word: &str) -> Self {
        known(word).map_or(Stop, |(_, ending)| *ending)
    }

    /// Returns the ending of a choice; `None` if its service sent no reason.
    pub fn of_choice(choice: &Json) -> Option<Self> {
        choice.text("finish_reason").filter(|word| !word.is_empty()).map(|word| Self::of(&word))
    }

    /// Returns `true` if the answer is whole: nothing was cut, refused or lost.
    pub const fn is_complete(self) -> bool {
        matches!(self, Stop | StopSequence | ToolCalls)
    }

    /// Returns `true` if the answer was aborted. It is then an error at every endpoint that has no word for it.
    pub const fn is_failure(self) -> bool {
        matches!(self, Canceled | Failed)
    }

    /// Returns `true` if the tool calls of the answer may run. The arguments of a cut or refused answer may be
    /// incomplete without being invalid.
    pub const fn may_run_tools(self) -> bool {
        self.is_complete()
    }

    /// Returns the `finish_reason` of chats.
    pub const fn finish_reason(self) -> &'static str {
        match self {
            Stop | StopSequence => "stop",
            ToolCalls => "tool_calls",
            Length => "length",
            ContentFilter => "content_filter",
            Canceled | Failed => "error",
        }
    }
}

/// Returns the host's word for the failure with which the first choice of an answer ended; `None` if it did not
/// fail.
pub fn failure_of(answer: &Json) -> Option<&'static str> {
    let reason = response::first_choice(answer)?.text("finish_reason")?;
    known(&reason).filter(|(_, ending)| ending.is_failure()).map(|(word, _)| *word)
}

/// Returns the stop text at which a choice ended naturally. vLLM writes it to `stop_reason` and SGLang to
/// `matched_stop`; both write a number for a token, and others write an ending there.
pub fn matched_stop(choice: &Json) -> Option<Json> {
    let matched = ["stop_reason", "matched_stop"].into_iter().find_map(|key| choice.text(key))?;
    let is_natural = matches!(Ending::of_choice(choice), Some(Stop | StopSequence));
    (is_natural && !matched.is_empty() && known(&matched).is_none()).then(|| matched.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_in_any_case_and_with_details() {
        for (word, ending) in [
            ("STOP", Stop),
            ("a_new_word", Stop),
            ("MAX_TOKENS", Length),
            ("content_filter: PROHIBITED_CONTENT", ContentFilter),
            ("function_call_filter: MALFORMED_FUNCTION_CALL", Failed),
            ("finish: Error", Failed),
            ("cancelled", Canceled),
        ] {
            assert_eq!(Ending::of(word), ending, "{word}");
        }
    }

    #[test]
    fn each_word_is_listed_once_in_lower_case_and_keeps_its_ending_as_a_finish_reason() {
        for (at, (word, ending)) in WORDS.iter().enumerate() {
            assert!(!WORDS[..at].iter().any(|(other, _)| other == word), "{word} is listed twice");
            assert_eq!(*word, word.to_lowercase());
            let again = Ending::of(ending.finish_reason());
            assert_eq!(again.is_complete(), ending.is_complete(), "{word}");
            assert_eq!(again.is_failure(), ending.is_failure(), "{word}");
        }
    }

    #[test]
    fn a_stop_text_is_told_from_a_token_and_from_an_ending() {
        for (fields, stop) in [
            (r#""finish_reason":"stop","stop_reason":"three""#, Some("three")),
            (r#""finish_reason":"stop","matched_stop":"\n\n""#, Some("\n\n")),
            (r#""finish_reason":"stop","stop_reason":128009"#, None),
            (r#""finish_reason":"stop","stop_reason":"end_turn""#, None),
            (r#""finish_reason":"length","stop_reason":"three""#, None),
            (r#""finish_reason":null,"stop_reason":"three""#, None),
        ] {
            let choice = Json::parse(format!("{{{fields}}}").as_bytes()).unwrap();
            assert_eq!(matched_stop(&choice), stop.map(Json::from), "{fields}");
        }
    }
}
