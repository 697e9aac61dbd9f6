//! The sender of a request, as identified by the entry layer.

use valvehouse_core::context::TurnFacts;
use valvehouse_core::trace::RequestFacts;
use valvehouse_json::Json;

/// The name of this endpoint in metrics and traces.
const ENDPOINT: &str = "mcp";

/// The sender of a request. Sessions and the state of unanswered questions belong to one owner.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// An identifier for comparisons only; empty where no key is needed.
    pub owner: String,
    /// The facts of its turns.
    pub facts: TurnFacts,
    /// Variables that the configuration sets for its turns.
    pub variables: Json,
    /// The tools it sees: names, scripts, `tag:x`, and `*` for all but the guarded tools of the host.
    pub tools: Vec<String>,
    /// Lists `find_tools` instead of all tools.
    pub tool_search: bool,
}

impl Caller {
    /// Returns the head of the trace of a call that needs no model.
    pub(super) fn asked(&self, generation: u64) -> RequestFacts {
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
