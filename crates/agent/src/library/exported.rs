//! An agent of the library as JSON, and back.

use super::Agent;
use crate::saved::Saved;
use valvehouse_core::fault::Fault;
use valvehouse_json::Json;

impl Agent {
    /// The whole agent as JSON: [`Agent::import_state`] loses nothing of it.
    pub fn export_state(&self) -> Json {
        let saved = self.latest.as_ref().map(Saved::to_json);
        Json::from([
            ("version", 1i64.into()),
            ("state", self.state.to_json()),
            ("conversation", self.conversation.as_str().into()),
            ("variables", self.variables.copy()),
            ("kept", self.kept.copy()),
            ("saved", saved.unwrap_or_default()),
        ])
    }

    /// Becomes what another agent exported. Tools, callbacks, provider and storage stay this one's own.
    pub fn import_state(&mut self, exported: &Json) -> Result<(), Fault> {
        let broken = |what: &str| {
            Fault::invalid(format!("this is no exported agent: its `{what}` is missing or damaged"), None)
        };
        if exported.get("version").and_then(|version| version.as_i64()) != Some(1) {
            return Err(broken("version"));
        }
        let state = exported.get("state").ok_or_else(|| broken("state"))?;
        let list = |of: &Json, name: &str| match of.get(name) {
            Some(Json::Array(items)) => Ok(items.items().iter().map(Json::copy).collect::<Vec<_>>()),
            _ => Err(broken(name)),
        };
        let (messages, scratchpad) = (list(&state, "messages")?, list(&state, "scratchpad")?);
        let saved = match exported.get("saved") {
            None | Some(Json::Null) => None,
            Some(saved) => Some(Saved::from_json(&saved)?),
        };
        let conversation = exported.text("conversation").ok_or_else(|| broken("conversation"))?;
        let object = |name: &str| {
            exported.get(name).filter(|part| part.as_object().is_some()).ok_or_else(|| broken(name))
        };
        let (variables, kept) = (object("variables")?.copy(), object("kept")?.copy());
        let text = |name: &str| state.text(name).map(String::from);
        let own = &mut self.state;
        own.system_prompt = text("system_prompt").unwrap_or_default();
        own.run_id = text("run_id");
        own.pending_action =
            state.get("pending_action").filter(|pending| !pending.is_null()).map(|it| it.copy());
        (own.messages, own.scratchpad) = (messages, scratchpad);
        self.conversation = conversation.into();
        (self.variables, self.kept, self.latest) = (variables, kept, saved);
        self.assemble()
    }
}
