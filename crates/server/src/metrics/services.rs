//! The metrics of providers.

use super::families::Families;
use valvehouse_core::metrics::{Service, TargetReport};
use valvehouse_host::Snapshot;
use valvehouse_host::usage::Usage;
use valvehouse_store::UsageCount;

pub(super) fn collect(snapshot: &Snapshot, families: &mut Families) {
    let providers = snapshot.plan().providers.iter().map(|plan| &plan.provider);
    let services: Vec<(&str, &Service)> =
        providers.clone().filter_map(|provider| Some((provider.name(), provider.metrics()?))).collect();
    let mut open =
        families.gauge("provider_breaker_open", "1 while the circuit breaker of a provider is open, else 0.");
    for provider in providers {
        let open_breaker = u8::from(!provider.open_breakers().is_empty());
        open.add(&[("provider", provider.name())], open_breaker.into());
    }
    let targets: Vec<(&str, Vec<TargetReport>)> =
        services.iter().map(|(name, service)| (*name, service.targets().reports())).collect();
    let mut keys = families.gauge(
        "provider_keys",
        "Keys and deployments of a provider with several, by state: ready or resting.",
    );
    for (name, own) in targets.iter().filter(|(_, own)| !own.is_empty()) {
        let resting = own.iter().filter(|target| target.rest.is_some()).count();
        for (state, count) in [("ready", own.len() - resting), ("resting", resting)] {
            keys.add(&[("provider", name), ("state", state)], count as f64);
        }
    }
    let each = || targets.iter().flat_map(|(name, own)| own.iter().map(move |target| (*name, target)));
    let mut resting = families.gauge(
        "provider_deployment_resting",
        "1 while a key or deployment of a provider with several rests, else 0.",
    );
    for (name, target) in each() {
        let labels = [("provider", name), ("deployment", &*target.name)];
        resting.add(&labels, u8::from(target.rest.is_some()).into());
    }
    let mut sent = families.counter(
        "provider_deployment_calls_total",
        "Calls that were sent to a key or deployment of a provider with several.",
    );
    for (name, target) in each() {
        sent.add(&[("provider", name), ("deployment", &*target.name)], target.calls as f64);
    }
    let mut calls = families.counter(
        "model_calls_total",
        "Calls of models by outcome, including retries; breaker_open: not sent, since the circuit breaker was open; canceled: the client disconnected.",
    );
    for (name, service) in &services {
        for (outcome, count) in service.outcomes() {
            calls.add(&[("provider", name), ("outcome", outcome)], count as f64);
        }
    }
    let mut running = families.gauge("model_calls_running", "Calls of models in progress.");
    services.iter().for_each(|(name, own)| running.add(&[("provider", name)], own.running() as f64));
    let mut retries = families.counter("model_retries_total", "Retries of requests to a provider.");
    services.iter().for_each(|(name, own)| retries.add(&[("provider", name)], own.retries() as f64));
    let mut fallbacks =
        families.counter("model_fallbacks_total", "Requests of a provider that a fallback answered.");
    services.iter().for_each(|(name, own)| fallbacks.add(&[("provider", name)], own.fallbacks() as f64));
    let mut tokens = families.counter("model_tokens_total", "Tokens, as reported by the provider.");
    for (name, service) in &services {
        for (direction, count) in ["input", "output"].into_iter().zip(service.tokens()) {
            tokens.add(&[("provider", name), ("direction", direction)], count as f64);
        }
    }
    let mut times = families.histogram(
        "model_call_duration_seconds",
        "Time from a request to the end of its response in seconds, of successful calls.",
    );
    services.iter().for_each(|(name, own)| times.spread(&[("provider", name)], &own.times()));
    let mut first = families.histogram(
        "model_time_to_first_chunk_seconds",
        "Time from a request to the first chunk of its response, in seconds.",
    );
    services.iter().for_each(|(name, own)| first.spread(&[("provider", name)], &own.first()));
}

/// Collects what clients used of each configured model.
pub(super) fn collect_models(usage: &Usage, families: &mut Families) {
    let models = usage.of_models();
    let mut requests = families.counter(
        "requests_total",
        "Requests for a configured model by outcome: answered, or with a status from 400 or 500.",
    );
    for (model, counts) in &models {
        let failed = [("client_error", UsageCount::ClientErrors), ("server_error", UsageCount::ServerErrors)];
        let failed = failed.map(|(outcome, count)| (outcome, counts[count]));
        let answered = counts[UsageCount::Requests]
            - counts[UsageCount::ClientErrors]
            - counts[UsageCount::ServerErrors];
        for (outcome, count) in [("answered", answered)].into_iter().chain(failed) {
            requests.add(&[("model", model), ("outcome", outcome)], count as f64);
        }
    }
    let mut refusals =
        families.counter("request_refusals_total", "Requests for a configured model that a filter refused.");
    models
        .iter()
        .for_each(|(model, counts)| refusals.add(&[("model", model)], counts[UsageCount::Refusals] as f64));
    let mut tokens = families.counter("tokens_total", "Tokens of requests for a configured model.");
    for (model, counts) in &models {
        for (direction, count) in
            [("input", UsageCount::PromptTokens), ("output", UsageCount::CompletionTokens)]
        {
            tokens.add(&[("model", model), ("direction", direction)], counts[count] as f64);
        }
    }
    let mut cost = families
        .counter("cost_total", "Cost of requests for a configured model, in the currency of its price.");
    models.iter().for_each(|(model, counts)| cost.add(&[("model", model)], counts.cost()));
}
