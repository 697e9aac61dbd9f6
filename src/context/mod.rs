//! What travels along a turn: variables, history, the turn's own facts, and what plugins emit.

mod event;
mod turn;

pub use event::{Event, Events, NobodyAnswers, Questions};
pub use turn::{Turn, TurnFacts};

use crate::json::Json;

/// Variables, history and trace of one turn. A clone shares them; [`Context::fork`] does not.
#[derive(Clone, Debug)]
pub struct Context {
    variables: Json,
    history: Json,
    trace: Json,
    metadata: Json,
}

impl Default for Context {
    fn default() -> Self {
        Self::new(Json::object())
    }
}

impl Context {
    /// A context with these variables; anything but an object starts empty.
    pub fn new(variables: impl Into<Json>) -> Self {
        let variables = match variables.into() {
            object @ Json::Object(_) => object,
            _ => Json::object(),
        };
        Self { variables, history: Json::array(), trace: Json::array(), metadata: Json::object() }
    }

    /// A variable, when it is there.
    pub fn get(&self, key: &str) -> Option<Json> {
        self.variables.get(key)
    }

    /// A variable, or something else when it is not there.
    pub fn get_or(&self, key: &str, fallback: impl Into<Json>) -> Json {
        self.get(key).unwrap_or_else(|| fallback.into())
    }

    /// Sets a variable for everybody who shares this context, and hands the context back.
    pub fn set(&self, key: &str, value: impl Into<Json>) -> Self {
        let value: Json = value.into();
        // A value that holds the variables themselves is put in as a copy of that moment.
        if self.variables.set(key, value.clone()).is_err() {
            let _ = self.variables.set(key, value.copy());
        }
        self.clone()
    }

    /// All variables, live.
    pub fn variables(&self) -> &Json {
        &self.variables
    }

    /// The messages said so far, live.
    pub fn history(&self) -> &Json {
        &self.history
    }

    /// What happened, an entry a call, live.
    pub fn trace(&self) -> &Json {
        &self.trace
    }

    /// The turn's metadata map, live.
    pub fn metadata(&self) -> &Json {
        &self.metadata
    }

    /// The whole context as one live object: `variables history trace metadata`.
    pub fn as_json(&self) -> Json {
        let parts = [
            ("variables", &self.variables),
            ("history", &self.history),
            ("trace", &self.trace),
            ("metadata", &self.metadata),
        ];
        Json::Object(parts.into_iter().map(|(name, part)| (name.into(), part.clone())).collect())
    }

    /// Takes another context's variables in place of its own.
    pub fn take(&self, other: &Self) {
        if let (Json::Object(own), Json::Object(new)) = (&self.variables, &other.variables)
            && !own.is_same(new)
        {
            // Variables of another context never hold this one's.
            let _ = own.replace(new.entries());
        }
    }

    /// An independent context with the same content.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            variables: self.variables.copy(),
            history: self.history.copy(),
            trace: self.trace.copy(),
            metadata: self.metadata.copy(),
        }
    }
}
