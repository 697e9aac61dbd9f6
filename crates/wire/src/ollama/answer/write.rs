//! Answers in Ollama's format, complete or line by line.

use crate::calls;
use crate::ollama::request::{OllamaRoute, call};
use compact_str::CompactString;
use std::time::Instant;
use valvehouse_core::chat::message::TEXT_BREAK;
use valvehouse_core::chat::{Ending, Fold, event, message, response};
use valvehouse_json::{Json, Object};

/// Writes one answer, complete or line by line.
#[derive(Debug)]
pub struct OllamaWriter {
    kind: OllamaRoute,
    model: CompactString,
    began: Instant,
    fold: Fold,
    /// The place of the last thinking.
    reasoning: Option<(&'static str, i64)>,
    /// Set if the last text was a refusal; `None` before the first text.
    was_refusal: Option<bool>,
    has_first: bool,
    has_others: bool,
}

impl OllamaWriter {
    /// Starts an answer of a route for a model.
    pub fn new(kind: OllamaRoute, model: CompactString) -> Self {
        let fold = Fold::default();
        Self {
            kind,
            model,
            began: Instant::now(),
            fold,
            reasoning: None,
            was_refusal: None,
            has_first: false,
            has_others: false,
        }
    }

    /// Returns the line for a chunk if it contains text. Tool calls are sent complete, before the end.
    pub fn write(&mut self, chunk: &Json) -> Option<Json> {
        self.fold.push(chunk);
        // An answer of Ollama's API has one choice.
        let Some(choice) = response::first_choice(chunk) else {
            self.has_others |= chunk.get("choices").is_some_and(|choices| !choices.is_empty());
            return None;
        };
        self.has_first = true;
        let refusal = choice.at_path("delta.refusal");
        let own = event::with_choice(chunk, choice);
        let delta = Json::from(event::delta(&own));
        let thinking = event::joined_reasoning(&delta, &mut self.reasoning);
        let content = event::text(&own);
        // Ollama's format has no field for a refusal. Filters have judged it by itself, so it is another paragraph.
        let mut text = CompactString::default();
        for (is_refusal, part) in [(false, content.as_str()), (true, refusal.str_or_empty())] {
            if !part.is_empty() {
                if self.was_refusal.replace(is_refusal).is_some_and(|was| was != is_refusal) {
                    text.push_str(TEXT_BREAK);
                }
                text.push_str(part);
            }
        }
        if text.is_empty() && thinking.is_empty() {
            return None;
        }
        Some(self.line(self.message_fields(&text, &thinking, Vec::new()), Vec::new(), false))
    }

    /// Returns `true` if all chunks so far belong to choices other than the first. They cannot become an
    /// answer.
    pub fn lacks_first_choice(&self) -> bool {
        self.has_others && !self.has_first
    }

    /// Returns the lines of the end.
    pub fn end(mut self) -> Vec<Json> {
        let answer = std::mem::take(&mut self.fold).finish();
        let calls = calls(&answer);
        let calls =
            (!calls.is_empty()).then(|| self.line(self.message_fields("", "", calls), Vec::new(), false));
        let last = self.line(self.message_fields("", "", Vec::new()), self.metrics(&answer), true);
        calls.into_iter().chain([last]).collect()
    }

    /// Returns a complete answer.
    pub fn whole(&self, answer: &Json) -> Json {
        let own = message_of(answer);
        let (text, thinking) = (message::text_with_refusal(&own), event::thinking_of(&own));
        let fields = self.message_fields(&text, thinking.as_deref().unwrap_or(""), calls(answer));
        self.line(fields, self.metrics(answer), true)
    }

    /// Returns the answer to a request that only loads a model.
    pub fn loaded(&self) -> Json {
        let why = vec![("done_reason".into(), "load".into())];
        self.line(self.message_fields("", "", Vec::new()), why, true)
    }

    fn message_fields(&self, text: &str, thinking: &str, calls: Vec<Json>) -> Vec<(CompactString, Json)> {
        let thinking = (!thinking.is_empty()).then(|| ("thinking".into(), thinking.into()));
        match self.kind {
            OllamaRoute::Generate => [("response".into(), text.into())].into_iter().chain(thinking).collect(),
            OllamaRoute::Chat => {
                let own = [("role".into(), "assistant".into()), ("content".into(), text.into())];
                let calls = (!calls.is_empty()).then(|| ("tool_calls".into(), calls.into()));
                let message: Object = own.into_iter().chain(thinking).chain(calls).collect();
                vec![("message".into(), message.into())]
            }
        }
    }

    fn line(
        &self,
        fields: Vec<(CompactString, Json)>,
        metrics: Vec<(CompactString, Json)>,
        done: bool,
    ) -> Json {
        let head = [
            ("model".into(), self.model.as_str().into()),
            ("created_at".into(), jiff::Timestamp::now().to_string().into()),
        ];
        let done = [("done".into(), done.into())];
        head.into_iter().chain(fields).chain(done).chain(metrics).collect::<Object>().into()
    }

    fn metrics(&self, answer: &Json) -> Vec<(CompactString, Json)> {
        let usage = Json::from(response::usage_of(answer));
        let count = |key: &str| usage.get(key).and_then(|count| count.as_i64()).unwrap_or(0);
        let choice = Json::from(response::first_choice(answer));
        let ending = Ending::of_choice(&choice).filter(|ending| !ending.is_complete());
        let why = ending.unwrap_or(Ending::Stop).finish_reason();
        let took = i64::try_from(self.began.elapsed().as_nanos()).unwrap_or(i64::MAX);
        vec![
            ("done_reason".into(), why.into()),
            ("total_duration".into(), took.into()),
            ("load_duration".into(), 0_i64.into()),
            ("prompt_eval_count".into(), count("prompt_tokens").into()),
            ("prompt_eval_duration".into(), 0_i64.into()),
            ("eval_count".into(), response::completion_tokens(&usage).into()),
            ("eval_duration".into(), took.into()),
        ]
    }
}

/// Returns the message of the first choice.
fn message_of(answer: &Json) -> Json {
    response::first_choice(answer).and_then(|choice| choice.get("message")).into()
}

/// Returns the tool calls of an answer. A cut or refused answer has none: this API has no word for a call that may be
/// incomplete, and clients would run it.
fn calls(answer: &Json) -> Vec<Json> {
    let ending = Ending::of_choice(&Json::from(response::first_choice(answer)));
    if ending.is_some_and(|ending| !ending.may_run_tools()) {
        return Vec::new();
    }
    let calls = calls::with_objects(&message_of(answer)).into_iter();
    calls.map(|(own, input, _)| call(&own, input)).collect()
}
