//! The interceptors of a host, which are the filters in its settings, and the events of the draft
//! specification at which they run.

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use std::sync::Arc;
use valvehouse_config::{Config, Interceptor};
use valvehouse_core::filter::{FailurePolicy, Hook};
use valvehouse_host::{Plugin, Snapshot};

/// An interceptor.
pub(super) struct ListedInterceptor<'a> {
    /// The id of the filter.
    pub(super) name: &'a str,
    /// Its settings.
    pub(super) settings: &'a Interceptor,
    /// The filter; `None` if the settings name an unknown one.
    pub(super) plugin: Option<Arc<Plugin>>,
}

impl ListedInterceptor<'_> {
    /// Returns `true` if it runs at a phase of an event. A filter that cannot run is called for every event
    /// and fails, because the caller must not continue without it.
    pub(super) fn acts_at(&self, event: InterceptionEvent, phase: Phase) -> bool {
        let plugin = self.plugin.as_ref().filter(|plugin| plugin.refusal().is_none());
        let Some(script) = plugin.and_then(|plugin| plugin.script.as_ref()) else { return true };
        script.hooks().any(|hook| event.hooks(phase).contains(&hook))
    }

    fn described(&self) -> Value {
        let hooks = Phase::ALL.map(|phase| {
            let events = InterceptionEvent::ALL.into_iter().filter(|event| self.acts_at(*event, phase));
            let events: Vec<&str> = events.map(InterceptionEvent::as_str).collect();
            json!({ "events": events, "phase": phase.as_str() })
        });
        let hooks: Vec<Value> = hooks.into_iter().filter(|hook| hook["events"] != json!([])).collect();
        let mut described = json!({
            "name": self.name,
            "type": self.settings.kind,
            "hooks": hooks,
            "mode": self.settings.mode,
        });
        let Some(script) = self.plugin.as_ref().and_then(|plugin| plugin.script.as_ref()) else {
            return described;
        };
        let manifest = &script.manifest;
        if let Some(description) = manifest.get("description").filter(|text| !text.is_empty()) {
            described["description"] = description.into();
        }
        described["failOpen"] = (manifest.failure_policy == FailurePolicy::FailOpen).into();
        let priority = script.priority().clamp(f64::from(i32::MIN), f64::from(i32::MAX));
        #[allow(clippy::cast_possible_truncation, reason = "it is within the range")]
        let priority = priority as i32;
        if priority != 0 {
            described["priorityHint"] = priority.into();
        }
        described
    }
}

/// Returns the interceptors in the order of the settings, without those that an operator disabled.
pub(super) fn offered<'a>(
    config: &'a Config,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = ListedInterceptor<'a>> {
    let all = config.interceptors.iter().map(|(name, settings)| ListedInterceptor {
        name,
        settings,
        plugin: snapshot.filters().find(|plugin| *plugin.id == **name).cloned(),
    });
    all.filter(|one| one.plugin.as_ref().is_none_or(|plugin| plugin.enabled))
}

/// Returns the declaration of the extension; `None` if the settings name no filter.
pub(in crate::server) fn capability(config: &Config) -> Option<JsonObject> {
    if config.interceptors.is_empty() {
        return None;
    }
    let events: Vec<Value> = InterceptionEvent::ALL.map(|event| event.as_str().into()).to_vec();
    Some(JsonObject::from_iter([("supportedEvents".to_owned(), events.into())]))
}

/// Handles `interceptors/list`; `event` selects the interceptors of one event.
pub(in crate::server) fn list(config: &Config, snapshot: &Snapshot, event: Option<&str>) -> Value {
    let is_of = |one: &ListedInterceptor<'_>| {
        let is_at = |event: InterceptionEvent| Phase::ALL.into_iter().any(|phase| one.acts_at(event, phase));
        match event {
            None => InterceptionEvent::ALL.into_iter().any(is_at),
            Some(name) => InterceptionEvent::from_name(name).is_some_and(is_at),
        }
    };
    let listed: Vec<Value> = offered(config, snapshot).filter(is_of).map(|one| one.described()).collect();
    json!({ "interceptors": listed })
}

/// The name of the extension in the capabilities of a server.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/interceptors";

/// An event at which an interceptor is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterceptionEvent {
    ToolCall,
    Prompt,
    Resource,
    Completion,
}

/// The phase of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Request,
    Response,
}

impl InterceptionEvent {
    /// All values, in the order of lists.
    pub(super) const ALL: [Self; 4] = [Self::ToolCall, Self::Prompt, Self::Resource, Self::Completion];

    /// Returns the event with this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }

    /// Returns the name of the event.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ToolCall => "tools/call",
            Self::Prompt => "prompts/get",
            Self::Resource => "resources/read",
            Self::Completion => "llm/completion",
        }
    }

    /// Returns the hooks that run at the event, in order.
    pub(super) fn hooks(self, phase: Phase) -> &'static [Hook] {
        match (self, phase) {
            (Self::Completion, Phase::Request) => &[Hook::Inlet, Hook::PreChat],
            (Self::Completion, Phase::Response) => &[Hook::PostChat, Hook::Outlet],
            (_, Phase::Request) => &[Hook::PreInvocation],
            (_, Phase::Response) => &[Hook::PostInvocation],
        }
    }
}

impl Phase {
    /// All values.
    pub(super) const ALL: [Self; 2] = [Self::Request, Self::Response];

    /// Returns the phase with this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name)
    }

    /// Returns the name of the phase.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }
}
