//! What is known of requests while they run and for a while after: who asked, each step that was taken
//! for them, what it cost and, where somebody asked for that, what it made of its value.
//!
//! A [`Trace`] travels along with the facts of its turn. Without contents it keeps names and numbers, and
//! why something failed, as the log does; nothing of what anybody said.

mod json;
mod step;
#[cfg(test)]
mod tests;
mod traces;

pub use step::{Cost, Details, End, Record, Step, Tokens, What};
pub use traces::{News, Recording, Traces};

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};
use step::Taken;
use tokio::sync::broadcast;
use valvehouse_json::Json;

/// Characters that are kept of a name or a reason: clients and scripts may make them as long as they like.
const LONGEST: usize = 2_000;
/// What is kept of the facts of a turn, in bytes; of larger ones nothing.
const MOST_FACTS: usize = 1 << 20;

/// A text as far as it is kept.
fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}… ({} bytes)", &text[..cut], text.len()),
        None => text.to_owned(),
    }
}

/// What a door knows of a request when it begins.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// `chat`, `messages`, `agents`, `inlet`, `outlet`, `try`.
    pub door: &'static str,
    /// The model that is asked.
    pub model: String,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// The user's id, "" where nobody knows.
    pub user: String,
    /// The conversation, "" where there is none.
    pub chat_id: String,
    /// The generation that answers.
    pub generation: u64,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The status of its answer; 0 where the client went away before there was one.
    pub status: u16,
    /// Why it failed, where it did.
    pub error: Option<String>,
    /// Whether the client had all of the answer.
    pub whole: bool,
    /// From its begin.
    pub took: Duration,
}

/// Whose values are kept.
#[derive(Debug, Clone, Default)]
pub enum Contents {
    /// Nobody's.
    #[default]
    None,
    /// Those of these plugins.
    Of(Arc<BTreeSet<String>>),
    /// Everybody's.
    All,
}

impl Contents {
    fn keeps(&self, plugin: Option<&str>) -> bool {
        match self {
            Self::None => false,
            Self::Of(plugins) => plugin.is_some_and(|plugin| plugins.contains(plugin)),
            Self::All => true,
        }
    }
}

/// A line that a script wrote to the log.
#[derive(Debug, Clone)]
pub struct Line {
    /// From the begin of the request.
    pub at: Duration,
    /// Who wrote it.
    pub plugin: String,
    /// `debug info warn error`
    pub level: &'static str,
    /// What; None without contents.
    pub text: Option<String>,
}

/// An event that a script emitted.
#[derive(Debug, Clone)]
pub struct Emitted {
    /// From the begin of the request.
    pub at: Duration,
    /// Who emitted it.
    pub plugin: String,
    /// Its type.
    pub kind: String,
    /// All of it; None without contents.
    pub event: Option<Json>,
}

/// One request.
#[derive(Debug)]
pub struct Trace {
    /// Its name as long as this host runs.
    pub id: String,
    /// What its door knows.
    pub asked: Asked,
    /// When it began.
    pub begun: SystemTime,
    started: Instant,
    contents: Contents,
    facts: OnceLock<Json>,
    parent: OnceLock<(String, String)>,
    taken: Mutex<Taken>,
    ended: OnceLock<Ended>,
    news: broadcast::Sender<News>,
}

impl Trace {
    /// How it ended; None while it runs.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.get()
    }

    /// Whether the values of this plugin are kept; of none, those of the models.
    pub fn keeps(&self, plugin: Option<&str>) -> bool {
        self.contents.keeps(plugin)
    }

    /// Remembers what its turn was begun with, where anything is kept that was said.
    pub fn remember(&self, facts: impl FnOnce() -> Json) {
        if !matches!(self.contents, Contents::None) {
            let facts = facts();
            if facts.weight() <= MOST_FACTS {
                // A request has one turn, and its door says it once.
                let _ = self.facts.set(facts);
            }
        }
    }

    /// What its turn was begun with, where that is kept.
    pub fn facts(&self) -> Option<&Json> {
        self.facts.get()
    }

    /// Remembers what it is part of elsewhere: a `traceparent` as W3C writes it; anything else is nothing.
    pub fn belongs_to(&self, traceparent: &str) {
        let is_hex = |text: &str, length| {
            text.len() == length
                && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
                && text.bytes().any(|byte| byte != b'0')
        };
        let parts: Vec<&str> = traceparent.trim().split('-').collect();
        if let [_, id, parent, ..] = parts[..]
            && is_hex(id, 32)
            && is_hex(parent, 16)
        {
            // A request says it once.
            let _ = self.parent.set((id.to_owned(), parent.to_owned()));
        }
    }

    /// The trace elsewhere that it is part of, and the span there.
    pub fn parent(&self) -> Option<(&str, &str)> {
        self.parent.get().map(|(id, parent)| (id.as_str(), parent.as_str()))
    }

    /// The request fails, before its answer begins or in the middle of it.
    pub fn fail(&self, error: &str) {
        self.taken.lock().error = Some(short(error));
    }

    /// Why it fails, where it does.
    pub fn error(&self) -> Option<String> {
        self.taken.lock().error.clone()
    }

    /// Whether a plugin has had a part in it.
    pub fn has_called(&self, plugin: &str) -> bool {
        self.with_records(|records| records.iter().any(|record| record.plugin() == Some(plugin)))
    }

    /// A script emits an event.
    pub fn emitted(&self, plugin: &str, event: &Json) {
        let kind = short(&event.text("type").unwrap_or_default());
        let event = self.keeps(Some(plugin)).then(|| event.copy());
        traces::tell(&self.news, || News::Emitted {
            trace: self.id.clone(),
            plugin: plugin.to_owned(),
            kind: kind.clone(),
            event: event.clone(),
        });
        self.remember_event(Emitted { at: self.elapsed(), plugin: plugin.to_owned(), kind, event });
    }

    /// The time since it began.
    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
