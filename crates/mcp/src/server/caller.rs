//! The sender of a request, as the entry layer identified it.

use std::fmt;
use std::sync::Arc;
use valvehouse_core::context::TurnFacts;
use valvehouse_core::trace::{RequestFacts, TraceGuard};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The name of this endpoint in metrics and traces.
const ENDPOINT: &str = "mcp";

/// The sender of a request. Sessions and the state of unanswered questions belong to one owner.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// An identifier for comparisons; empty if no key is required.
    pub owner: String,
    /// The facts for its turns.
    pub facts: TurnFacts,
    /// The configured variables for its turns.
    pub variables: Json,
    /// The visible tools: names, scripts, `tag:x`, and `*` for all except the guarded tools of the host.
    pub tools: Vec<String>,
    /// `true` to list `find_tools` instead of all tools.
    pub tool_search: bool,
    /// The count of what its calls use.
    pub counting: CallCounting,
}

/// Sets up the count of one call.
type Count = dyn Fn(&mut TraceGuard) + Send + Sync;

/// Counts what calls use, for the limits of their key and the usage.
#[derive(Clone, Default)]
pub struct CallCounting(Option<Arc<Count>>);

impl CallCounting {
    /// Creates a count, which is set up by this function for each call.
    pub fn new(count: impl Fn(&mut TraceGuard) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(count)))
    }
}

impl fmt::Debug for CallCounting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallCounting({})", self.0.is_some())
    }
}

impl Caller {
    /// Starts the trace of a call.
    pub(super) fn begin(&self, app: &App, generation: u64) -> TraceGuard {
        let mut recording = app.traces.begin(self.request_facts(generation), false);
        if let Some(exchange) = &self.facts.exchange {
            exchange.count_in(recording.trace());
        }
        if let Some(count) = &self.counting.0 {
            count(&mut recording);
        }
        recording
    }

    /// Returns the head of the trace of a call, which uses no model.
    fn request_facts(&self, generation: u64) -> RequestFacts {
        RequestFacts {
            endpoint: ENDPOINT,
            model: String::new(),
            stream: false,
            user: self.facts.user.string("id"),
            chat_id: self.facts.chat_id.clone(),
            generation,
        }
    }
}
