//! The values that a function's parameters receive by name.

use crate::declare::hooks::Param;
use crate::script::Script;
use rhai::{Dynamic, FnPtr};
use std::collections::HashMap;
use valvehouse_core::context::Turn;
use valvehouse_dialect::call::redaction;
use valvehouse_dialect::value::{Shape, live};
use valvehouse_json::{Json, Object};
use valvehouse_script_std::functions;

/// The effective user valves of one plugin: per user id, and the default.
#[derive(Debug, Clone, Default)]
pub struct UserValves {
    /// The values by user id; read-only.
    pub by_user: HashMap<String, Json>,
    /// The values of all other users.
    pub default: Json,
}

impl UserValves {
    /// Adds the script's own user valves to a user. Other scripts never see them.
    fn join(&self, user: &Json) -> Json {
        let own = user.text("id").and_then(|id| self.by_user.get(id.as_str())).unwrap_or(&self.default);
        let entries = user.entries();
        let valves = match own {
            Json::Null => Json::object(),
            there => there.clone(),
        };
        entries.into_iter().chain([("valves".into(), valves)]).collect::<Object>().into()
    }
}

impl Script {
    /// Returns the value of a parameter that is the same in every function.
    pub(crate) fn argument(&self, param: Param, turn: &Turn, users: &UserValves) -> Dynamic {
        let facts = turn.facts();
        let plain = |json: &Json| live(json, Shape::Plain);
        match param {
            // The caller supplies the subject and the button.
            Param::Subject | Param::ActionId => Dynamic::UNIT,
            Param::Context => live(&turn.context().as_json(), Shape::Context),
            Param::Valves => plain(&self.valves),
            Param::State => plain(&turn.state(self.id())),
            Param::Id => self.id().to_owned().into(),
            Param::User => {
                let user = users.join(&facts.user);
                if let Some(schema) = &self.manifest.user_valves {
                    let own = user.field("valves");
                    redaction::redact_for_user(turn, &self.caller.plugin, schema, &own);
                }
                plain(&user)
            }
            Param::Metadata => plain(turn.metadata()),
            Param::Model => plain(&facts.model),
            Param::Request if facts.request.is_null() => plain(&Json::from([("headers", Json::object())])),
            Param::Request => plain(&facts.request),
            Param::ChatId => facts.chat_id.clone().into(),
            Param::MessageId => facts.message_id.clone().into(),
            Param::Features => plain(&facts.features),
            Param::Files => plain(&facts.files),
            Param::EventEmitter => function_value("emit"),
            Param::EventCall => function_value("ask"),
            // A copy: tools only read the conversation.
            Param::Messages => live(&turn.context().history().deep_clone(), Shape::Messages),
            Param::Tools => {
                functions::offered_tools(self.caller.plugin.clone(), self.resources.clone(), turn)
            }
        }
    }
}

fn function_value(name: &str) -> Dynamic {
    FnPtr::new(name).map_or(Dynamic::UNIT, Dynamic::from)
}
