//! The service that a request is passed on to: by its model, or the one that has the route.

use axum::http::{HeaderMap, HeaderName};
use std::sync::Arc;
use valvehouse_core::fault::{Fault, RequestFault};
use valvehouse_core::provider::Provider;
use valvehouse_core::words::did_you_mean;
use valvehouse_host::ProviderPlan;
use valvehouse_host::Snapshot;
use valvehouse_json::Json;

/// Names the provider, where a route names no model and several have it.
const PROVIDER: HeaderName = HeaderName::from_static("x-valvehouse-provider");

/// A service, and what it calls the model.
pub(super) struct Target {
    pub(super) provider: Arc<dyn Provider>,
    /// Empty where the request names none.
    pub(super) model: String,
    /// The model as scripts and traces see it.
    pub(super) facts: Json,
    /// Is `true` if the operator lists the route for it.
    pub(super) is_listed: bool,
}

impl Target {
    /// Finds the service for a route. `anthropic` tells the two APIs with `/v1/files` apart.
    pub(super) fn find(
        snapshot: &Snapshot,
        headers: &HeaderMap,
        path: &str,
        model: Option<&str>,
        anthropic: bool,
    ) -> Result<Self, Fault> {
        let plans = &snapshot.plan().providers;
        let having: Vec<&ProviderPlan> = plans.iter().filter(|plan| has(plan, path, anthropic)).collect();
        let named = headers.get(&PROVIDER).and_then(|name| name.to_str().ok());
        if let Some(name) = named {
            let Some(plan) = plans.iter().find(|plan| plan.provider.name() == name) else {
                let near = did_you_mean(name, plans.iter().map(|plan| plan.provider.name()));
                return Err(Fault::invalid(format!("unknown provider `{name}` in {PROVIDER}{near}"), None));
            };
            if !has(plan, path, anthropic) {
                return Err(without(path, &[name], &having));
            }
        }
        if let Some(model) = model {
            return Self::of_model(snapshot, path, model, named, &having);
        }
        match having.as_slice() {
            all if named.is_some() => {
                let found = all.iter().find(|plan| Some(plan.provider.name()) == named);
                found.map(|plan| Self::of(plan)).ok_or_else(|| without(path, &[], &having))
            }
            [only] => Ok(Self::of(only)),
            [] => Err(without(path, &[], &having)),
            several => {
                let names: Vec<&str> = several.iter().map(|plan| plan.provider.name()).collect();
                let takes_model = !matches!(path.split('/').next(), Some("files" | "batches"));
                let message = format!(
                    "several providers may have /v1/{path}: {}; {}name one of them in the header {PROVIDER}, or let \
                     the operator say with `routes` which have it",
                    names.join(", "),
                    if takes_model { "name a `model`, " } else { "" },
                );
                Err(Fault::invalid(message, takes_model.then_some("model")))
            }
        }
    }

    fn of(plan: &ProviderPlan) -> Self {
        let facts = Json::from([("provider", plan.provider.name().into())]);
        Self {
            provider: plan.provider.clone(),
            model: String::new(),
            facts,
            is_listed: plan.routes.is_some(),
        }
    }

    fn of_model(
        snapshot: &Snapshot,
        path: &str,
        model: &str,
        named: Option<&str>,
        having: &[&ProviderPlan],
    ) -> Result<Self, Fault> {
        let ready = snapshot.ready(model, &[])?;
        let provider = ready.kernel.provider().map(|provider| provider.name().to_owned()).unwrap_or_default();
        if let Some(named) = named.filter(|named| *named != provider) {
            let message = format!("the model `{model}` is of provider {provider}, not of {named}");
            return Err(Fault::invalid(message, Some("model")));
        }
        let Some(plan) = having.iter().find(|plan| plan.provider.name() == provider) else {
            return Err(without(path, &[&provider], having));
        };
        let upstream = ready.kernel.settings().model.clone().unwrap_or_else(|| model.to_owned());
        let is_listed = plan.routes.is_some();
        Ok(Self { provider: plan.provider.clone(), model: upstream, facts: ready.facts, is_listed })
    }
}

/// Returns `true` if a provider may have a route.
fn has(plan: &ProviderPlan, path: &str, anthropic: bool) -> bool {
    let first = path.split_once('/').map_or(path, |(first, _)| first);
    let speaks_anthropic = plan.provider.has_route("messages/count_tokens");
    plan.provider.has_route(path)
        && plan.routes.as_ref().is_none_or(|routes| routes.iter().any(|route| route == first))
        && (first != "files" || speaks_anthropic == anthropic)
}

/// The refusal of a route that the provider, or nobody, has.
fn without(path: &str, provider: &[&str], having: &[&ProviderPlan]) -> Fault {
    let names: Vec<&str> = having.iter().map(|plan| plan.provider.name()).collect();
    let who = match provider {
        [name] => format!("provider {name} has no /v1/{path}"),
        _ => format!("no provider of this host has /v1/{path}"),
    };
    let how = match names.as_slice() {
        [] => "; the operator adds one whose kind has it, such as `kind = \"openai\"`".to_owned(),
        names => format!("; those that may have it: {}", names.join(", ")),
    };
    Fault::Request {
        message: format!("{who}{how}"),
        param: None,
        code: Some("route_not_found"),
        kind: RequestFault::NotFound,
    }
}
