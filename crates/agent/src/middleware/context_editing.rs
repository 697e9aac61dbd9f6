//! The `context_editing` middleware, which replaces old tool results in the model's input with a placeholder.
//!
//! The filter has priority -900, after the summarization, which needs the complete results. Results that the
//! model has not answered yet are preserved, regardless of their number.

use super::definition::{Middleware, Parts};
use super::options::Options;
use valvehouse_core::chat::history::is_role;
use valvehouse_core::chat::message;
use valvehouse_core::filter::{Filter, Verdict};
use valvehouse_json::Json;

pub(super) const NAME: &str = "context_editing";
const PRIORITY: f64 = -900.0;

struct Settings {
    keep_tool_results: usize,
    min_messages: usize,
    max_tokens: usize,
    placeholder: String,
}

pub(super) fn middleware(options: &Json, _: &Parts) -> Result<Middleware, String> {
    const MAX: u64 = 10_000_000;
    let mut options = Options::of(NAME, options);
    let settings = Settings {
        keep_tool_results: options.number("keep_tool_results", 3, 0..=MAX) as usize,
        min_messages: options.number("min_messages", 10, 1..=MAX) as usize,
        max_tokens: options.number("max_tokens", 4_000, 1..=MAX) as usize,
        placeholder: options.text("placeholder", "[an earlier result, left out here]"),
    };
    options.done()?;
    let filter = Filter::pre_chat(NAME, move |ctx| {
        let model = ctx.value.text_or_empty("model");
        settings.edit(&ctx.messages().items(), &model);
        Ok(Verdict::Continue(ctx))
    });
    Ok(Middleware::of_filters(NAME, [filter.priority(PRIORITY)]))
}

impl Settings {
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
