//! The record of a model call in the trace of its turn.

use super::contract::{PIPES, PassthroughAnswer, PassthroughBody};
use crate::error::Error;
use crate::trace::{Step, Tokens, Trace, What};
use futures_util::stream::{self, StreamExt};
use std::sync::Arc;
use valvehouse_json::Json;

/// A model call in progress; records nothing if the turn has no trace.
pub struct TracedCall(Option<Step<Arc<Trace>>>);

impl TracedCall {
    /// Starts the record of a model call. `asked` is evaluated only if the trace stores contents.
    pub fn begin(
        trace: Option<&Arc<Trace>>,
        provider: &str,
        model: &str,
        asked: impl FnOnce() -> Json,
    ) -> Self {
        Self(trace.map(|trace| {
            let asked = if trace.keeps(None) { asked() } else { Json::Null };
            trace.begin_lasting(What::Model(&format!("{provider}/{model}")), &asked)
        }))
    }

    /// Records a part of the answer, before any filter.
    pub(crate) fn piece(&mut self, event: &Json) {
        if let Some(step) = &mut self.0 {
            step.first();
            step.hears(event);
        }
    }

    /// Records a complete answer, before any filter.
    pub(crate) fn whole(&self, answer: &Json) {
        if let Some(step) = &self.0 {
            step.hears(answer);
        }
    }

    /// Records the answer or the fault, and returns it.
    pub(crate) fn end(self, answered: Result<Json, Error>) -> Result<Json, Error> {
        if let Some(step) = self.0 {
            match &answered {
                Ok(answer) => {
                    if let Some(tokens) = tokens(answer) {
                        step.used(tokens);
                    }
                    step.end("ended", None, Some(answer));
                }
                Err(fault) => failed(step, fault),
            }
        }
        answered
    }

    /// Records a response that is passed through: the call ends with its bytes.
    ///
    /// # Errors
    /// Returns the fault in `forwarded`.
    pub fn follow(self, forwarded: Result<PassthroughAnswer, Error>) -> Result<PassthroughAnswer, Error> {
        let Some(mut step) = self.0 else { return forwarded };
        let forwarded = match forwarded {
            Ok(forwarded) => forwarded,
            Err(fault) => {
                failed(step, &fault);
                return Err(fault);
            }
        };
        let body = match forwarded.body {
            PassthroughBody::Whole(_) => {
                step.first();
                step.end("ended", None, None);
                return Ok(forwarded);
            }
            PassthroughBody::Stream(body) => body,
        };
        let body = stream::unfold((body, Some(step)), |(mut body, mut step)| async {
            let next = body.next().await;
            match (&next, step.take()) {
                (Some(Ok(_)), Some(mut begun)) => {
                    begun.first();
                    step = Some(begun);
                }
                (Some(Err(fault)), Some(begun)) => failed(begun, fault),
                (None, Some(begun)) => drop(begun.end("ended", None, None)),
                (_, None) => {}
            }
            Some((next?, (body, step)))
        });
        Ok(PassthroughAnswer { body: PassthroughBody::Stream(body.boxed()), ..forwarded })
    }
}

fn failed(step: Step<Arc<Trace>>, fault: &Error) {
    let plugin = match fault {
        Error::Refused(refusal) => Some(&refusal.plugin),
        Error::Broken(failure) => Some(&failure.plugin),
        _ => None,
    };
    let word = match plugin {
        // A filter ended the answer early, unless the model itself is a script.
        Some(_) if !step.name().starts_with(PIPES) => "stopped",
        _ => "failed",
    };
    step.end(word, Some(&fault.to_string()), None);
}

fn tokens(answer: &Json) -> Option<Tokens> {
    let usage = answer.get("usage")?;
    let count =
        |key: &str| usage.get(key).and_then(|count| count.as_i64()).and_then(|it| u64::try_from(it).ok());
    let (prompt, completion) = (count("prompt_tokens"), count("completion_tokens"));
    prompt.or(completion)?;
    Some(Tokens { prompt: prompt.unwrap_or(0), completion: completion.unwrap_or(0) })
}
