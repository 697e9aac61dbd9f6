//! The variables of a turn.

use std::sync::Arc;
use valvehouse_json::Json;

/// Variables, history and trace of one turn. A clone shares them; [`Context::fork`] does not.
#[derive(Clone, Debug)]
pub struct Context(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    variables: Json,
    history: Json,
    trace: Json,
    metadata: Json,
    client: Json,
}

impl Default for Context {
    fn default() -> Self {
        Self::new(Json::object())
    }
}

impl Context {
    /// A context with these variables; anything but an object starts empty.
    pub fn new(variables: impl Into<Json>) -> Self {
        Self::with_metadata(variables, Json::object())
    }

    /// The same with a metadata map that others hold as well.
    pub fn with_metadata(variables: impl Into<Json>, metadata: Json) -> Self {
        let variables = match variables.into() {
            object @ Json::Object(_) => object,
            _ => Json::object(),
        };
        let (history, trace) = (Json::array(), Json::array());
        Self(Arc::new(Parts { variables, history, trace, metadata, client: Json::object() }))
    }

    /// The same with variables of its client, which are nobody's word but the client's.
    #[must_use]
    pub fn with_client(self, client: Json) -> Self {
        let Parts { variables, history, trace, metadata, .. } = &*self.0;
        let [variables, history, trace, metadata] = [variables, history, trace, metadata].map(Json::clone);
        Self(Arc::new(Parts { variables, history, trace, metadata, client: client.freeze() }))
    }

    /// A variable, when it is there.
    pub fn get(&self, key: &str) -> Option<Json> {
        self.0.variables.get(key)
    }

    /// A variable, or something else when it is not there.
    pub fn get_or(&self, key: &str, fallback: impl Into<Json>) -> Json {
        self.get(key).unwrap_or_else(|| fallback.into())
    }

    /// Sets a variable for everybody who shares this context, and hands the context back.
    pub fn set(&self, key: &str, value: impl Into<Json>) -> Self {
        let value: Json = value.into();
        // A value that holds the variables themselves is put in as a copy of that moment.
        if self.0.variables.set(key, value.clone()).is_err() {
            self.0.variables.edit(key, value.copy());
        }
        self.clone()
    }

    /// All variables, live.
    pub fn variables(&self) -> &Json {
        &self.0.variables
    }

    /// The messages said so far, live.
    pub fn history(&self) -> &Json {
        &self.0.history
    }

    /// The events of the turn, an entry a call, live.
    pub fn trace(&self) -> &Json {
        &self.0.trace
    }

    /// The turn's metadata map, live.
    pub fn metadata(&self) -> &Json {
        &self.0.metadata
    }

    /// The variables that the client sent, read-only.
    pub fn client(&self) -> &Json {
        &self.0.client
    }

    /// The whole context as one live object: `variables history trace metadata client`.
    pub fn as_json(&self) -> Json {
        let parts = [
            ("variables", &self.0.variables),
            ("history", &self.0.history),
            ("trace", &self.0.trace),
            ("metadata", &self.0.metadata),
            ("client", &self.0.client),
        ];
        Json::Object(parts.into_iter().map(|(name, part)| (name.into(), part.clone())).collect())
    }

    /// Takes another context's variables and metadata in place of its own.
    pub fn take(&self, other: &Self) {
        for (own, new) in [(&self.0.variables, &other.0.variables), (&self.0.metadata, &other.0.metadata)] {
            if let (Json::Object(own), Json::Object(new)) = (own, new)
                && !own.is_same(new)
            {
                // Values of another context never hold this one's.
                let _ = own.replace(new.entries());
            }
        }
    }

    /// An independent context with the same content.
    #[must_use]
    pub fn fork(&self) -> Self {
        let Parts { variables, history, trace, metadata, client } = &*self.0;
        Self(Arc::new(Parts {
            variables: variables.copy(),
            history: history.copy(),
            trace: trace.copy(),
            metadata: metadata.copy(),
            client: client.clone(),
        }))
    }
}
