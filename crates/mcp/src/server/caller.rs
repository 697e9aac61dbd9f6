//! The sender of a request, as the entry layer identified it.

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
}

impl Caller {
    /// Starts the trace of a call.
    pub(super) fn begin(&self, app: &App, generation: u64) -> TraceGuard {
        let mut recording = app.traces.begin(self.request_facts(generation), false);
        if let Some(exchange) = &self.facts.exchange {
            exchange.count_in(recording.trace());
            exchange.counting().begin(&mut recording);
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
