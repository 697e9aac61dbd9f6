//! The events passed to callbacks.

use valvehouse_core::callback::Callback;
use valvehouse_json::{Json, Object};
use valvehouse_store as store;

/// The identity of a run: its agent and its id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Who {
    /// The agent's id.
    pub agent_id: String,
    /// The agent's name.
    pub agent_name: String,
    /// The run's id.
    pub run_id: String,
}

/// An event of a run.
#[derive(Debug, Clone)]
pub struct CallbackEvent {
    /// The kind of event.
    pub callback: Callback,
    /// The data of the event, an object.
    pub data: Json,
    /// The id of the agent.
    pub agent_id: String,
    /// The name of the agent.
    pub agent_name: String,
    /// The id of the run.
    pub run_id: String,
    /// The time in milliseconds since 1970.
    pub timestamp: i64,
}

impl CallbackEvent {
    pub(super) fn now(callback: Callback, data: Json, who: &Who) -> Self {
        Self {
            callback,
            data,
            agent_id: who.agent_id.clone(),
            agent_name: who.agent_name.clone(),
            run_id: who.run_id.clone(),
            timestamp: store::now(),
        }
    }

    /// Converts the event to one object: `{event, …, agent_id, agent_name, run_id, timestamp}`, where `…` are
    /// the fields of `data`.
    pub fn to_json(&self) -> Json {
        let data = self.data.entries();
        let data = data.into_iter().map(|(key, value)| (key, value.deep_clone()));
        let whose = [
            ("agent_id".into(), self.agent_id.as_str().into()),
            ("agent_name".into(), self.agent_name.as_str().into()),
            ("run_id".into(), self.run_id.as_str().into()),
            ("timestamp".into(), self.timestamp.into()),
        ];
        let name = ("event".into(), self.callback.name().into());
        [name].into_iter().chain(data).chain(whose).collect::<Object>().into()
    }
}
