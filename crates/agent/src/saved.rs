//! The stored state of a run between two steps.

use valvehouse_core::context::{Context, Events, Pauses, Turn, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::Progress;
use valvehouse_json::Json;

/// The state of a run, without the messages stored in its conversation.
#[derive(Debug, Clone)]
pub struct RunSnapshot {
    /// The progress of its turn.
    pub progress: Progress,
    /// The facts at the start of its turn, except about the model, which are read again.
    pub facts: Json,
    /// The variables after the last step.
    pub variables: Json,
    /// The metadata shared by the hooks.
    pub metadata: Json,
    /// The events of the turn, one entry for each call.
    pub scratchpad: Json,
    /// The scratch maps of the plugins.
    pub states: Json,
    /// The answers to questions of the next step, by hash.
    pub answers: Json,
    /// The sealed results of the host calls that the next step made before it paused, or null.
    pub host_calls: Json,
    /// The pending action, or null.
    pub pending: Json,
    /// The tool call in progress, `{id, name, arguments}`, or null.
    pub in_flight: Json,
    /// The number of messages of the conversation.
    pub length: u64,
}

impl RunSnapshot {
    /// Creates the state of a new run in a conversation with `length` messages.
    pub fn new(progress: Progress, facts: &TurnFacts, variables: Json, states: Json, length: u64) -> Self {
        Self {
            progress,
            facts: facts.to_json(),
            variables,
            metadata: Json::object(),
            scratchpad: Json::array(),
            states,
            answers: Json::object(),
            host_calls: Json::Null,
            pending: Json::Null,
            in_flight: Json::Null,
            length,
        }
    }

    /// Returns a snapshot of the turn.
    pub(super) fn of(&self, progress: &Progress, turn: &Turn, length: u64) -> Self {
        Self {
            // Live values keep changing, so they are copied.
            progress: progress.deep_clone(),
            facts: self.facts.clone(),
            variables: turn.context().variables().deep_clone(),
            metadata: turn.metadata().deep_clone(),
            scratchpad: turn.context().trace().deep_clone(),
            states: turn.states(),
            answers: Json::object(),
            host_calls: Json::Null,
            pending: Json::Null,
            in_flight: Json::Null,
            length,
        }
    }

    /// Creates the turn to resume, with the current facts about models and request, and with the results of
    /// host calls from before the pause.
    pub(super) fn turn(&self, now: TurnFacts, host_calls: &Json, events: Events) -> Turn {
        let TurnFacts { model, models, trace, exchange, .. } = now;
        let facts = TurnFacts { model, models, trace, exchange, ..TurnFacts::from_json(&self.facts) };
        let turn = Turn::new(facts, Context::new(self.variables.deep_clone()), events);
        for (own, kept) in [(turn.metadata(), &self.metadata), (turn.context().trace(), &self.scratchpad)] {
            // The containers are new and hold only copies, so the writes cannot fail.
            let _ = match (own, kept) {
                (Json::Object(own), Json::Object(kept)) => own.replace(kept.entries()),
                (Json::Array(own), Json::Array(kept)) => own.replace(kept.items()),
                _ => Ok(()),
            };
        }
        turn.restore_states(&self.states);
        let pauses = Pauses::default();
        pauses.restore_host_calls(host_calls);
        for (hash, answer) in self.answers.entries() {
            pauses.answer(hash, answer.deep_clone());
        }
        turn.pausing(pauses)
    }

    /// Returns the requested model.
    pub fn model(&self) -> String {
        self.progress.model.str_or_empty().to_owned()
    }

    /// Returns the toggle filters that the request enabled.
    pub fn filter_ids(&self) -> Vec<String> {
        TurnFacts::from_json(&self.facts).filter_ids
    }

    /// Converts the state to an object.
    pub fn to_json(&self) -> Json {
        Json::from([
            ("version", 1i64.into()),
            ("progress", self.progress.to_json()),
            ("facts", self.facts.deep_clone()),
            ("variables", self.variables.deep_clone()),
            ("metadata", self.metadata.deep_clone()),
            ("scratchpad", self.scratchpad.deep_clone()),
            ("states", self.states.deep_clone()),
            ("answers", self.answers.deep_clone()),
            ("host_calls", self.host_calls.deep_clone()),
            ("pending", self.pending.deep_clone()),
            ("in_flight", self.in_flight.deep_clone()),
            ("length", i64::try_from(self.length).unwrap_or(i64::MAX).into()),
        ])
    }

    /// Reads an object created by [`RunSnapshot::to_json`].
    ///
    /// # Errors
    /// Returns an error if a part is missing or damaged.
    pub fn from_json(json: &Json) -> Result<Self, Error> {
        let broken = |part: &str| {
            Error::Host(format!(
                "cannot read a checkpoint: its `{part}` is missing or damaged; restore an earlier one"
            ))
        };
        if json.get("version").and_then(|version| version.as_i64()) != Some(1) {
            return Err(broken("version"));
        }
        let part = |name: &str| json.get(name).map(|part| part.deep_clone()).ok_or_else(|| broken(name));
        let progress = json.get("progress").as_ref().and_then(Progress::from_json);
        let length = json.get("length").and_then(|length| length.as_i64());
        Ok(Self {
            progress: progress.ok_or_else(|| broken("progress"))?,
            facts: part("facts")?,
            variables: part("variables")?,
            metadata: part("metadata")?,
            scratchpad: part("scratchpad")?,
            states: part("states")?,
            answers: part("answers")?,
            // Earlier versions have no recorded host calls.
            host_calls: json.field("host_calls").deep_clone(),
            pending: part("pending")?,
            in_flight: part("in_flight")?,
            length: length.and_then(|length| u64::try_from(length).ok()).ok_or_else(|| broken("length"))?,
        })
    }
}
