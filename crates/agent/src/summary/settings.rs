//! The limits at which a conversation is shortened, and its length after that.

use crate::middleware::options::Options;
use std::sync::Arc;
use valvehouse_core::provider::Provider;
use valvehouse_json::Json;
use valvehouse_providers::Choice;

/// The filter's name, and whose state it is: `turn.state("summarization")`.
///
/// `{summary, covers, offset, compressed, failed?, shown_from?}`: `covers` is how many messages of the conversation the
/// summary stands for, `offset` the place in the conversation of the first message that is given and no
/// system message. Who keeps a conversation sets `offset` and keeps the rest from turn to turn.
pub const NAME: &str = "summarization";

/// The limits at which a conversation is shortened, and to what.
#[derive(Clone)]
pub struct Summarization {
    /// Messages beside the system's that stay as they are: the newest.
    pub window_size: usize,
    /// Tokens that a model is sent at most.
    pub max_tokens: usize,
    /// Has a model summarize messages that are older than the window.
    pub summarize: bool,
    /// More messages than this are too many.
    pub compress_threshold: usize,
    /// More tokens than this are too many.
    pub token_threshold: usize,
    /// Keeps system messages of any age.
    pub preserve_system: bool,
    /// The model that writes the summaries; without one old messages are left out.
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
    /// From options of the same names. An error says all that is wrong with them.
    pub fn read(options: &Json) -> Result<Self, String> {
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

    /// The same with a model that writes the summaries.
    #[must_use]
    pub fn with_model(self, provider: Arc<dyn Provider>, model: impl Into<String>) -> Self {
        Self { model: Some(Choice { provider, model: model.into() }), ..self }
    }

    /// The model that writes summaries, where they are wanted.
    pub(super) fn writer(&self) -> Option<&Choice> {
        self.model.as_ref().filter(|_| self.summarize)
    }

    /// New old messages that are worth asking a model for: a third of the window.
    pub(super) fn worth_writing(&self) -> usize {
        (self.window_size / 3).max(1)
    }

    /// Tokens that a summary may take.
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
