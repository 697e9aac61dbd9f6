//! Actions: the buttons that users press under a model's answers.

use crate::plan::ModelPlan;
use crate::plugin::Plugin;
use crate::snapshot::Snapshot;
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::text::did_you_mean;
use valvehouse_json::Json;
use valvehouse_script::{Button, Kind, ScriptAction};

impl Plugin {
    /// Returns the action; `None` if it is disabled, does not load, or the plugin is not an action.
    pub fn action(&self) -> Option<ScriptAction> {
        let script = self.script.as_ref().filter(|_| self.kind == Kind::Action && self.enabled)?;
        script.clone().into_action(self.users.clone())
    }

    /// Returns the ids of the action's buttons.
    pub fn button_ids(&self) -> Vec<&str> {
        let buttons = self.script.iter().flat_map(|script| script.buttons());
        buttons.map(|button| button.id.as_str()).collect()
    }

    /// Returns the reason why a model's answers have none of the action's buttons; `None` if they have
    /// them.
    fn absence_under(&self, model: &str, listed: &[String]) -> Option<String> {
        let id = &self.id;
        if !self.enabled {
            return Some("is switched off".to_owned());
        }
        if self.script.is_none() {
            return Some(format!("does not load; an operator has to fix it: valvehouse check {id}"));
        }
        if !self.global && !listed.iter().any(|known| **known == **id) {
            return Some(format!("is not global, and the model `{model}` does not list it"));
        }
        if self.is_idle() {
            let needs = self.needs();
            let first = needs.first().map_or("VALVE", |name| name.as_str());
            return Some(format!(
                "does nothing until it is configured: set {} with valvehouse valves set {id} {first}=…",
                needs.join(" or ")
            ));
        }
        None
    }
}

/// An action in relation to the answers of a model.
#[derive(Debug, Clone)]
pub struct ActionPart {
    /// The action.
    pub plugin: Arc<Plugin>,
    /// `true` if its buttons are shown.
    pub shown: bool,
    /// The reason for showing or hiding them.
    pub reason: String,
}

impl Snapshot {
    /// Returns the actions in the order of their buttons: by priority, then by id.
    pub fn actions(&self) -> Vec<&Arc<Plugin>> {
        let mut all: Vec<&Arc<Plugin>> =
            self.plugins.values().filter(|plugin| plugin.kind == Kind::Action).collect();
        let place = |plugin: &Plugin| plugin.script.as_ref().map_or(0.0, |script| script.priority());
        all.sort_by(|a, b| place(a).total_cmp(&place(b)).then_with(|| a.id.cmp(&b.id)));
        all
    }

    /// Returns all actions in relation to the answers of a model, in the order of their buttons.
    pub fn action_parts(&self, model: &str) -> Vec<ActionPart> {
        let listed = self.actions_listed_by(model);
        let part = |plugin: &Arc<Plugin>| {
            let absence = plugin.absence_under(model, listed);
            let (plugin, shown) = (plugin.clone(), absence.is_none());
            let reason = match absence {
                Some(why) => why,
                None if plugin.global => "shown for every model".to_owned(),
                None => format!("listed by the model `{model}`"),
            };
            ActionPart { plugin, shown, reason }
        };
        self.actions().into_iter().map(part).collect()
    }

    /// Returns the buttons under the answers of a model, each as `{id, name, description, icon}`.
    pub fn buttons_of(&self, model: &str) -> Vec<Json> {
        let shown = self.action_parts(model).into_iter().filter(|part| part.shown);
        shown.flat_map(|part| described(&part.plugin)).collect()
    }

    /// Returns the action of a button that was pressed under an answer of a model, and the button.
    ///
    /// # Errors
    /// Returns a request error if the answers of the model do not have this button.
    pub fn pressed(&self, id: &str, model: &str) -> Result<(ScriptAction, Button), Error> {
        let unknown = |message: String, code| Error::Request {
            message,
            param: None,
            code: Some(code),
            kind: RequestErrorKind::NotFound,
        };
        let file = id.split_once('.').map_or(id, |(file, _)| file);
        let plugin = self.plugins.get(file).filter(|plugin| plugin.kind == Kind::Action);
        let Some(plugin) = plugin else {
            let known = self.action_parts(model).into_iter().filter(|part| part.shown);
            let known: Vec<String> = known.map(|part| part.plugin.id.to_string()).collect();
            let near = did_you_mean(file, known.iter().map(String::as_str));
            return Err(unknown(format!("unknown action `{id}`{near}"), "action_not_found"));
        };
        if let Some(why) = plugin.absence_under(model, self.actions_listed_by(model)) {
            return Err(unknown(format!("the action `{file}` {why}"), "action_not_available"));
        }
        let action = plugin.action();
        let pressed = action.and_then(|action| action.button(id).cloned().map(|button| (action, button)));
        pressed.ok_or_else(|| {
            let buttons = plugin.button_ids().join(", ");
            unknown(
                format!("unknown button `{id}`; the buttons of `{file}` are {buttons}"),
                "action_not_found",
            )
        })
    }

    /// The actions with `global: false` that a model lists.
    fn actions_listed_by(&self, model: &str) -> &[String] {
        let plan: Option<&ModelPlan> = self.plan().model(model);
        plan.map_or(&[], |plan| &plan.actions)
    }
}

/// Returns the buttons of an action in the format of Open WebUI.
fn described(plugin: &Plugin) -> Vec<Json> {
    let Some(script) = &plugin.script else { return Vec::new() };
    let description = script.manifest.get("description").unwrap_or("");
    let buttons = script.buttons().iter().map(|button| {
        Json::from([
            ("id", button.id.as_str().into()),
            ("name", button.name.as_str().into()),
            ("description", description.into()),
            ("icon", button.icon.clone().into()),
        ])
    });
    buttons.collect()
}
