//! Sandboxed generations, and turns without a client.

use crate::builtin;
use crate::catalog::Catalog;
use crate::plugin::{Plugin, State};
use crate::snapshot::Snapshot;
use std::sync::Arc;
use valvehouse_config::Grants;
use valvehouse_core::context::TurnFacts;
use valvehouse_json::Json;
use valvehouse_script::Sandbox;

impl Snapshot {
    /// Returns this generation with all scripts in a sandbox, and native tools without grants. Models are
    /// called as usual.
    pub fn within(&self, sandbox: &Sandbox) -> Self {
        let plugins = self.plugins.iter();
        let plugins = plugins.map(|(id, plugin)| (id.clone(), Arc::new(entered(plugin, sandbox)))).collect();
        let empty = Arc::default();
        let native = builtin::tools(&|_| Grants::default(), sandbox.kv().unwrap_or(&empty));
        let plan = self.served.plan.clone();
        let catalog = Catalog::new(&native, &plugins, &plan);
        Self::new(self.generation, plugins, self.problems.clone(), catalog.tools, plan)
            .offering(catalog.offered)
    }

    /// Returns the facts of a turn that a command runs for its user, whom the host trusts: `valvehouse run`.
    pub fn facts_of_command(&self, command: &str, user: Option<&str>) -> TurnFacts {
        let request = Json::from([
            ("method", command.to_uppercase().into()),
            ("path", format!("valvehouse {command}").into()),
            ("headers", Json::object()),
            ("client", Json::Null),
        ]);
        TurnFacts {
            user: user.map_or_else(Json::object, |id| Json::from([("id", id.into())])),
            verified_user: user.map(str::to_owned),
            models: self.listed().clone(),
            request: request.freeze(),
            ..TurnFacts::default()
        }
    }
}

fn entered(plugin: &Plugin, sandbox: &Sandbox) -> Plugin {
    match plugin.script.as_ref().map(|script| sandbox.script(script)) {
        Some(Ok(script)) => Plugin { script: Some(Arc::new(script)), ..plugin.clone() },
        // The script loaded before with the same text and valves, so this is unexpected.
        Some(Err(problems)) => Plugin { script: None, state: State::Broken(problems), ..plugin.clone() },
        None => plugin.clone(),
    }
}
