//! The settings of the summarization: when and how a conversation is shortened.

use crate::middleware::options::Options;
use std::sync::Arc;
use valvehouse_core::provider::Provider;
use valvehouse_json::Json;
use valvehouse_providers::Choice;

/// The name of the filter and of its state, `turn.state("summarization")`.
///
/// The state is `{summary, covers, offset, before?, compressed, failed?, shown_from?, left_out?}`: `covers` is the
/// number of messages of the conversation that the summary covers, and `offset` is the position in the
/// conversation of the first given message other than system messages. `left_out` is `{messages, tokens}` of the
/// messages before `shown_from` that no summary covers. Positions do not count system messages. The store of the
/// conversation sets `offset` and `before`, the `left_out` of the messages it did not read, and persists the other
/// fields between turns.
pub const NAME: &str = "summarization";

/// The settings of the summarization.
#[derive(Clone)]
pub struct Summarization {
    /// The number of newest messages that are sent unchanged, system messages excluded.
    pub window_size: usize,
    /// The maximum number of tokens sent to the model.
    pub max_tokens: usize,
    /// Set if a model summarizes the messages older than the window.
    pub summarize: bool,
    /// The number of messages above which the conversation is shortened.
    pub compress_threshold: usize,
    /// The number of tokens above which the conversation is shortened.
    pub token_threshold: usize,
    /// Set if system messages are always preserved.
    pub preserve_system: bool,
    /// The model that writes summaries; without one, old messages are omitted.
    pub model: Option<Choice>,
}

impl Default for Summarization {
    fn default() -> Self {
        Self {
            window_size: 20,
            max_tokens: 4000,
            summarize: false,
            compress_threshold: 30,
            token_threshold: 3000,
            preserve_system: true,
            model: None,
        }
    }
}

impl Summarization {
    /// Reads the settings from options of the same names.
    ///
    /// # Errors
    /// Returns every problem with the options.
    pub(crate) fn read(options: &Json) -> Result<Self, String> {
        const MAX: u64 = 10_000_000;
        let (mut options, default) = (Options::of(NAME, options), Self::default());
        let read = Self {
            window_size: options.number("window_size", default.window_size as u64, 1..=MAX) as usize,
            max_tokens: options.number("max_tokens", default.max_tokens as u64, 100..=MAX) as usize,
            summarize: options.flag("summarize", default.summarize),
            compress_threshold: options.number(
                "compress_threshold",
                default.compress_threshold as u64,
                1..=MAX,
            ) as usize,
            token_threshold: options.number("token_threshold", default.token_threshold as u64, 1..=MAX)
                as usize,
            preserve_system: options.flag("preserve_system", default.preserve_system),
            model: None,
        };
        options.done().map(|()| read)
    }

    /// Sets the model that writes summaries.
    #[must_use]
    pub fn with_model(self, provider: Arc<dyn Provider>, model: impl Into<String>) -> Self {
        Self { model: Some(Choice { provider, model: model.into() }), ..self }
    }

    /// Returns the model that writes summaries, if enabled.
    pub(super) fn writer(&self) -> Option<&Choice> {
        self.model.as_ref().filter(|_| self.summarize)
    }

    /// Returns the number of new old messages that justify a model call: a third of the window.
    pub(super) fn worth_writing(&self) -> usize {
        (self.window_size / 3).max(1)
    }

    /// Returns the maximum number of tokens of a summary.
    pub(super) fn longest_summary(&self) -> usize {
        self.max_tokens / 4
    }
}

impl std::fmt::Debug for Summarization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summarization")
            .field("window_size", &self.window_size)
            .field("max_tokens", &self.max_tokens)
            .field("summarize", &self.summarize)
            .field("compress_threshold", &self.compress_threshold)
            .field("token_threshold", &self.token_threshold)
            .field("preserve_system", &self.preserve_system)
            .field("model", &self.model.as_ref().map(|choice| &choice.model))
            .finish()
    }
}
