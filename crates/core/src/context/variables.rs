//! The variables of a turn.

use std::sync::{Arc, OnceLock};
use valvehouse_json::Json;

/// The variables, history and trace of one turn. Clones share them; [`Context::fork`] copies them.
#[derive(Clone, Debug)]
pub struct Context(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    variables: Json,
    history: Json,
    trace: Json,
    metadata: Json,
    client: Json,
    /// The agent's run that the turn belongs to.
    run: OnceLock<RunIdentity>,
}

/// The run of an agent.
#[derive(Debug, Clone)]
struct RunIdentity {
    agent_id: String,
    run_id: String,
}

impl Default for Context {
    fn default() -> Self {
        Self::new(Json::object())
    }
}

impl Context {
    /// Creates a context with these variables, an object. Any other value starts empty.
    pub fn new(variables: impl Into<Json>) -> Self {
        Self::with_metadata(variables, Json::object())
    }

    /// Creates a context with a shared metadata map.
    pub fn with_metadata(variables: impl Into<Json>, metadata: Json) -> Self {
        let variables = match variables.into() {
            object @ Json::Object(_) => object,
            _ => Json::object(),
        };
        let (history, trace) = (Json::array(), Json::array());
        let client = Json::object();
        Self(Arc::new(Parts { variables, history, trace, metadata, client, run: OnceLock::new() }))
    }

    /// Sets the variables sent by the client, which are untrusted.
    #[must_use]
    pub fn with_client(self, client: Json) -> Self {
        let Parts { variables, history, trace, metadata, run, .. } = &*self.0;
        let [variables, history, trace, metadata] = [variables, history, trace, metadata].map(Json::clone);
        let (client, run) = (client.freeze(), run.clone());
        Self(Arc::new(Parts { variables, history, trace, metadata, client, run }))
    }

    /// Sets the run of an agent that the turn belongs to. A run that is already set stays.
    pub fn set_run(&self, agent_id: &str, run_id: &str) {
        let run = RunIdentity { agent_id: agent_id.to_owned(), run_id: run_id.to_owned() };
        // A turn belongs to one run.
        let _ = self.0.run.set(run);
    }

    /// Returns the id of the agent whose run the turn belongs to.
    pub fn agent_id(&self) -> Option<&str> {
        self.0.run.get().map(|run| run.agent_id.as_str())
    }

    /// Returns the id of the agent's run that the turn belongs to.
    pub fn run_id(&self) -> Option<&str> {
        self.0.run.get().map(|run| run.run_id.as_str())
    }

    /// Returns a variable, if set. In the run of an agent, `run_id` and `agent_id` are its ids, which no variable
    /// replaces.
    pub fn get(&self, key: &str) -> Option<Json> {
        let own = match key {
            "run_id" => self.run_id(),
            "agent_id" => self.agent_id(),
            _ => None,
        };
        own.map(Json::from).or_else(|| self.0.variables.get(key))
    }

    /// Returns a variable, or `fallback` if it is not set.
    pub fn get_or(&self, key: &str, fallback: impl Into<Json>) -> Json {
        self.get(key).unwrap_or_else(|| fallback.into())
    }

    /// Sets a variable for all clones of this context and returns a clone.
    pub fn set(&self, key: &str, value: impl Into<Json>) -> Self {
        let value: Json = value.into();
        // A value that contains the variables themselves is stored as a copy.
        if self.0.variables.set(key, value.clone()).is_err() {
            self.0.variables.edit(key, value.deep_clone());
        }
        self.clone()
    }

    /// Returns all variables, a live object.
    pub fn variables(&self) -> &Json {
        &self.0.variables
    }

    /// Returns the messages of the conversation so far, a live list.
    pub fn history(&self) -> &Json {
        &self.0.history
    }

    /// Returns the events of the turn, a live list with one entry for each call.
    pub fn trace(&self) -> &Json {
        &self.0.trace
    }

    /// Returns the turn's metadata map, live.
    pub fn metadata(&self) -> &Json {
        &self.0.metadata
    }

    /// Returns the variables sent by the client, read-only.
    pub fn client(&self) -> &Json {
        &self.0.client
    }

    /// Returns the context as one live object: `variables history trace metadata client`, with `run_id` and `agent_id`
    /// in the run of an agent.
    pub fn as_json(&self) -> Json {
        let parts = [
            ("variables", &self.0.variables),
            ("history", &self.0.history),
            ("trace", &self.0.trace),
            ("metadata", &self.0.metadata),
            ("client", &self.0.client),
        ];
        let run = self.0.run.get().map(|run| [("run_id", &run.run_id), ("agent_id", &run.agent_id)]);
        let run = run.into_iter().flatten().map(|(name, id)| (name.into(), id.as_str().into()));
        let parts = parts.into_iter().map(|(name, part)| (name.into(), part.clone()));
        Json::Object(parts.chain(run).collect())
    }

    /// Replaces the variables and metadata with those of another context.
    pub fn take(&self, other: &Self) {
        for (own, new) in [(&self.0.variables, &other.0.variables), (&self.0.metadata, &other.0.metadata)] {
            if let (Json::Object(own), Json::Object(new)) = (own, new)
                && !own.ptr_eq(new)
            {
                // The values of another context never contain this one's, so the write cannot fail.
                let _ = own.replace(new.entries());
            }
        }
    }

    /// Appends the entries that a fork has added to its trace, which had `known` entries at first.
    pub fn take_trace(&self, fork: &Self, known: usize) {
        let Json::Array(trace) = &self.0.trace else { return };
        for entry in fork.0.trace.items().into_iter().skip(known) {
            // A list that is full or frozen by a script is not changed.
            let _ = trace.push(entry.deep_clone());
        }
    }

    /// Returns an independent copy of this context.
    #[must_use]
    pub fn fork(&self) -> Self {
        let Parts { variables, history, trace, metadata, client, run } = &*self.0;
        Self(Arc::new(Parts {
            variables: variables.deep_clone(),
            history: history.deep_clone(),
            trace: trace.deep_clone(),
            metadata: metadata.deep_clone(),
            client: client.clone(),
            run: run.clone(),
        }))
    }
}
