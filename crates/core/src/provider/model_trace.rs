//! The observation of a model call: its step in the trace of its turn, and its `tracing` span.

use super::contract::{PIPES, PassthroughAnswer, PassthroughBody};
use crate::chat::response::completion_tokens;
use crate::error::Error;
use crate::trace::{Step, Tokens, Trace, What, spans};
use futures_util::stream::{self, StreamExt};
use std::sync::Arc;
use tracing::Span;
use valvehouse_json::Json;

/// A model call in progress. Without a trace and a `tracing` subscriber it records nothing.
pub struct TracedCall {
    step: Option<Step<Arc<Trace>>>,
    span: Span,
}

impl TracedCall {
    /// Starts the record of a model call. `request` is evaluated only if the trace stores contents.
    pub fn begin(
        trace: Option<&Arc<Trace>>,
        provider: &str,
        model: &str,
        request: impl FnOnce() -> Json,
    ) -> Self {
        let model = match trace {
            Some(trace) => trace.redact(model),
            None => model.into(),
        };
        let step = trace.map(|trace| {
            let request = if trace.keeps(None) { request() } else { Json::Null };
            trace.begin_lasting(What::Model(&[provider, "/", &model].concat()), &request)
        });
        Self { step, span: spans::model_call(provider, &model) }
    }

    /// Returns the span of the call, in which the provider is called.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// Records a part of the answer, before any filter.
    pub(crate) fn chunk(&mut self, event: &Json) {
        if let Some(step) = &mut self.step {
            step.first();
            step.record_answer(event);
        }
    }

    /// Records a complete answer, before any filter.
    pub(crate) fn whole(&self, answer: &Json) {
        if let Some(step) = &self.step {
            step.record_answer(answer);
        }
    }

    /// Records the answer or the error, and returns it.
    pub(crate) fn end(self, answered: Result<Json, Error>) -> Result<Json, Error> {
        match &answered {
            Err(error) => self.failed(error),
            Ok(_) if self.is_unseen() => {}
            Ok(answer) => {
                let tokens = tokens(answer);
                if let Some(tokens) = tokens {
                    spans::used(&self.span, tokens);
                }
                if let Some(step) = self.step {
                    if let Some(tokens) = tokens {
                        step.used(tokens);
                    }
                    step.end("ended", None, Some(answer));
                }
            }
        }
        answered
    }

    /// Records a response that is passed through: the call ends with its bytes.
    ///
    /// # Errors
    /// Returns the error in `forwarded`.
    pub fn follow(mut self, forwarded: Result<PassthroughAnswer, Error>) -> Result<PassthroughAnswer, Error> {
        if self.is_unseen() {
            return forwarded;
        }
        let forwarded = match forwarded {
            Ok(forwarded) => forwarded,
            Err(error) => {
                self.failed(&error);
                return Err(error);
            }
        };
        let body = match forwarded.body {
            PassthroughBody::Whole(_) => {
                self.first();
                self.ended();
                return Ok(forwarded);
            }
            PassthroughBody::Stream(body) => body,
        };
        let body = stream::unfold((body, Some(self)), |(mut body, mut call)| async {
            let next = body.next().await;
            match (&next, call.take()) {
                (Some(Ok(_)), Some(mut begun)) => {
                    begun.first();
                    call = Some(begun);
                }
                (Some(Err(error)), Some(begun)) => begun.failed(error),
                (None, Some(begun)) => begun.ended(),
                (_, None) => {}
            }
            Some((next?, (body, call)))
        });
        Ok(PassthroughAnswer { body: PassthroughBody::Stream(body.boxed()), ..forwarded })
    }

    fn is_unseen(&self) -> bool {
        self.step.is_none() && self.span.is_disabled()
    }

    fn first(&mut self) {
        if let Some(step) = &mut self.step {
            step.first();
        }
    }

    fn ended(self) {
        if let Some(step) = self.step {
            step.end("ended", None, None);
        }
    }

    fn failed(self, error: &Error) {
        if !matches!(error, Error::Paused) {
            spans::failed(&self.span, error);
        }
        if let Some(step) = self.step {
            failed(step, error);
        }
    }
}

fn failed(step: Step<Arc<Trace>>, error: &Error) {
    let plugin = match error {
        Error::Rejected(rejection) => Some(&rejection.plugin),
        Error::Broken(failure) => Some(&failure.plugin),
        _ => None,
    };
    let word = match plugin {
        // A filter ended the answer early, unless the model itself is a script.
        Some(_) if !step.name().starts_with(PIPES) => "stopped",
        _ => "failed",
    };
    step.end(word, Some(&error.to_string()), None);
}

fn tokens(answer: &Json) -> Option<Tokens> {
    let usage = answer.get("usage")?;
    let count =
        |key: &str| usage.get(key).and_then(|count| count.as_i64()).and_then(|it| u64::try_from(it).ok());
    let (prompt, completion) = (count("prompt_tokens"), count("completion_tokens"));
    prompt.or(completion)?;
    let completion = u64::try_from(completion_tokens(&usage)).unwrap_or(0);
    Some(Tokens { prompt: prompt.unwrap_or(0), completion })
}
