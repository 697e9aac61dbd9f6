//! One turn: who asks, with what, since when; and the scratch space of its scripts.

use super::{Context, Events};
use crate::json::Json;
use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// What a door knows about a request before anything runs.
#[derive(Debug, Clone, Default)]
pub struct TurnFacts {
    /// `id name email role` and whatever else came along.
    pub user: Json,
    /// `id name provider` and the configuration's words, null for an unknown model.
    pub model: Json,
    /// The models there are, a list of the same.
    pub models: Json,
    /// `method path headers client`, credentials removed.
    pub request: Json,
    /// The conversation, "" where there is none.
    pub chat_id: String,
    /// The message that is being answered.
    pub message_id: String,
    /// Features the client asked for.
    pub features: Json,
    /// Uploaded files.
    pub files: Json,
    /// The toggle filters the request asked for.
    pub filter_ids: Vec<String>,
}

/// A turn in progress; a clone is the same turn.
#[derive(Clone, Debug)]
pub struct Turn(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    facts: TurnFacts,
    context: Context,
    states: Mutex<HashMap<String, Json>>,
    locals: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    events: Events,
    started: Instant,
}

impl Default for Turn {
    fn default() -> Self {
        Self::new(TurnFacts::default(), Context::default(), Events::default())
    }
}

impl Turn {
    /// A turn that starts now.
    pub fn new(facts: TurnFacts, context: Context, events: Events) -> Self {
        Self(Arc::new(Inner {
            facts,
            context,
            states: Mutex::default(),
            locals: Mutex::default(),
            events,
            started: Instant::now(),
        }))
    }

    /// What the door knew.
    pub fn facts(&self) -> &TurnFacts {
        &self.0.facts
    }

    /// The variables that travel along.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// The one live map all hooks share.
    pub fn metadata(&self) -> &Json {
        self.0.context.metadata()
    }

    /// The scratch map of one plugin, shared by its hooks.
    pub fn state(&self, plugin: &str) -> Json {
        let mut states = self.0.states.lock();
        match states.get(plugin) {
            Some(state) => state.clone(),
            None => states.entry(plugin.to_owned()).or_insert_with(Json::object).clone(),
        }
    }

    /// The one value of this type that lasts as long as this turn; made when it is first asked for.
    /// For what later floors keep for a turn and this one need not know.
    pub fn local<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut locals = self.0.locals.lock();
        let local = locals.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        drop(locals);
        local.downcast().unwrap_or_default()
    }

    /// Where plugins emit to.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.0.started
    }
}
