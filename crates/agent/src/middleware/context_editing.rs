//! The `context_editing` middleware, which replaces old tool results in the model's input with a placeholder.
//!
//! The filter has priority -900, after the summarization, which needs the complete results. Results that the
//! model has not answered yet are preserved, regardless of their number.

use super::definition::{Middleware, Parts};
use super::options::Options;
use super::typed::ContextEditing;
use valvehouse_core::chat::history::is_role;
use valvehouse_core::chat::message;
use valvehouse_core::filter::{self, Verdict};
use valvehouse_json::Json;

pub(super) const NAME: &str = ContextEditing::NAME;
const PRIORITY: f64 = -900.0;

pub(super) fn middleware(options: &Json, _: &Parts) -> Result<Middleware, String> {
    const MAX: u64 = 10_000_000;
    let (mut options, default) = (Options::of(NAME, options), ContextEditing::default());
    let mut number = |key, default: usize, least| options.number(key, default as u64, least..=MAX) as usize;
    let settings = ContextEditing {
        keep_tool_results: number("keep_tool_results", default.keep_tool_results, 0),
        min_messages: number("min_messages", default.min_messages, 1),
        max_tokens: number("max_tokens", default.max_tokens, 1),
        placeholder: options.text("placeholder", &default.placeholder),
    };
    options.done()?;
    let filter = filter::pre_chat(NAME, move |chat| {
        settings.edit(&chat.messages().items(), &chat.model());
        Ok(Verdict::Continue)
    });
    Ok(Middleware::of_filters(NAME, [filter.priority(PRIORITY)]))
}

impl ContextEditing {
    /// Edits the messages of one model call in place.
    fn edit(&self, messages: &[Json], model: &str) {
        let is_short = messages.len() < self.min_messages
            && valvehouse_tokens::of_messages(messages, model).tokens <= self.max_tokens;
        if is_short {
            return;
        }
        let answered = messages.iter().rposition(|message| is_role(message, "assistant")).unwrap_or(0);
        let results: Vec<usize> =
            (0..messages.len()).filter(|place| is_role(&messages[*place], "tool")).collect();
        let old = results.len().saturating_sub(self.keep_tool_results);
        for place in results.into_iter().take(old).filter(|place| *place < answered) {
            let result = &messages[place];
            if message::text_of(result).len() > self.placeholder.len() {
                // The text replaces all content, including the images of an old result.
                result.edit("content", self.placeholder.as_str());
            }
        }
    }
}
