//! The turns of a test: the user, the chat, the model and other facts.

use super::environment::TestEnvironment;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};
use valvehouse_core::context::{Context, Events, Questions, Turn, TurnFacts};
use valvehouse_core::text::did_you_mean;
use valvehouse_dialect::call;
use valvehouse_json::{Json, Object};

/// The keys of `turn(…)`.
const FACTS: [&str; 10] = [
    "user",
    "chat_id",
    "message_id",
    "model",
    "request",
    "features",
    "files",
    "metadata",
    "variables",
    "verified",
];

/// The defaults of a request.
const USUAL_REQUEST: [(&str, &str); 3] =
    [("method", "POST"), ("path", "/v1/chat/completions"), ("client", "127.0.0.1")];

/// Stores the environment in the turn, so that the running call finds it.
#[derive(Default)]
struct Here(OnceLock<Weak<TestEnvironment>>);

impl TestEnvironment {
    /// Returns the environment of the test that runs on this thread.
    pub(super) fn current() -> Result<Arc<Self>, String> {
        let call = call::current();
        let environment = call.and_then(|call| call.turn.local::<Here>().0.get().and_then(Weak::upgrade));
        environment.ok_or_else(|| "cannot call this function outside of a test".to_owned())
    }

    /// Begins another turn with these facts.
    pub(super) fn begin_turn(self: &Arc<Self>, facts: &Json) -> Result<(), String> {
        let entries = facts
            .as_object()
            .map(Object::entries)
            .ok_or("invalid turn: expected a map, turn(#{ user: #{ id: \"ann\" } })")?;
        if let Some((wrong, _)) = entries.iter().find(|(name, _)| !FACTS.contains(&name.as_str())) {
            let hint = did_you_mean(wrong, FACTS);
            return Err(format!("unknown key `{wrong}` of a turn{hint}; the keys are {}", FACTS.join(", ")));
        }
        let facts = facts.deep_clone();
        let valves = facts.get("user").and_then(|user| user.remove("valves")).unwrap_or_else(Json::object);
        let schema = &self.declared.manifest.user_valves;
        for (name, value) in valves.entries() {
            let schema = schema.as_ref().ok_or("the script does not declare UserValves")?;
            schema.check(&name, &value).map_err(|wrong| wrong.to_string())?;
        }
        self.skipped.store(false, Relaxed);
        let turn = self.turn_of(&facts);
        self.laid(|laid| {
            laid.user_valves = valves;
            laid.turn = Some(turn.clone());
        });
        call::in_turn(turn);
        Ok(())
    }

    /// Returns the models that the test defines.
    fn models(&self) -> Option<Json> {
        self.laid(|laid| laid.models.as_ref().map(Json::deep_clone))
    }

    /// Sets the models of the host, also for the running turn: maps with an `id`, or ids.
    pub(super) fn set_models(self: &Arc<Self>, list: &Json) -> Result<(), String> {
        let Json::Array(list) = list else {
            return Err(format!("expected a list of models, got {}", list.kind()));
        };
        let model = |given: &Json| match given {
            Json::Text(id) => Ok(Json::from([
                ("id", id.as_str().into()),
                ("name", id.as_str().into()),
                ("provider", "canned".into()),
            ])),
            Json::Object(_) if given.text("id").is_some() => Ok(given.deep_clone()),
            other => Err(format!("expected an id or a map with an `id`, got {other}")),
        };
        let models = list.items().iter().map(model).collect::<Result<Vec<Json>, String>>()?;
        let models = Json::from(models);
        let turn = self.turn();
        let facts = TurnFacts { models: models.deep_clone().freeze(), ..turn.facts().clone() };
        let turn = self.in_turn(facts, turn.context().clone());
        self.laid(|laid| {
            laid.models = Some(models);
            laid.turn = Some(turn.clone());
        });
        call::in_turn(turn);
        Ok(())
    }

    pub(super) fn turn_of(self: &Arc<Self>, facts: &Json) -> Turn {
        let part = |name: &str| facts.field(name);
        let model = match part("model") {
            Json::Null => {
                Json::from([("id", "test".into()), ("name", "test".into()), ("provider", "canned".into())])
            }
            given => given,
        };
        let object = |json: Json| if json.is_null() { Json::object() } else { json };
        let request = object(part("request"));
        for (name, usual) in USUAL_REQUEST {
            if request.get(name).is_none() {
                request.edit(name, usual);
            }
        }
        if request.get("headers").is_none() {
            request.edit("headers", Json::object());
        }
        let own = TurnFacts {
            request: request.freeze(),
            models: self.models().unwrap_or_else(|| Json::from(vec![model.deep_clone()])).freeze(),
            model: model.freeze(),
            trace: Some(self.recording.trace().clone()),
            verified_user: match part("verified") {
                Json::Bool(false) => None,
                _ => part("user").text("id").map(String::from),
            },
            ..TurnFacts::from_json(facts)
        };
        let context = Context::with_metadata(object(part("variables")), object(part("metadata")));
        self.clock.began.store(self.clock.now.load(Relaxed), Relaxed);
        self.in_turn(own, context)
    }

    /// Creates a turn in this environment.
    fn in_turn(self: &Arc<Self>, facts: TurnFacts, context: Context) -> Turn {
        let (people, questions) = (self.people.clone(), Questions::default());
        let open_questions = questions.clone();
        let events = Events::listening(move |event| people.on_event(event, &open_questions), Some(questions));
        let facts = TurnFacts { states: Some(facts.states.clone().unwrap_or_default()), ..facts };
        let turn = Turn::new(facts, context, events);
        let _ = turn.local::<Here>().0.set(Arc::downgrade(self));
        turn
    }

    /// Creates a turn like the running one, for work that ends with it.
    pub(super) fn same_turn(self: &Arc<Self>) -> Turn {
        let turn = self.turn();
        self.in_turn(turn.facts().clone(), turn.context().clone())
    }
}
