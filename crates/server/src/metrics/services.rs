//! Models' services.

use super::families::Families;
use valvehouse_core::figures::Service;
use valvehouse_host::Snapshot;

pub(super) fn collect(snapshot: &Snapshot, families: &mut Families) {
    let providers = snapshot.plan().providers.iter().map(|plan| &plan.provider);
    let services: Vec<(&str, &Service)> =
        providers.clone().filter_map(|provider| Some((provider.name(), provider.figures()?))).collect();
    let mut resting = families
        .gauge("provider_resting", "1 while a provider is left alone since it failed again and again.");
    for provider in providers {
        let rests = u8::from(provider.rests().is_some());
        resting.add(&[("provider", provider.name())], rests.into());
    }
    let mut calls = families.counter(
        "model_calls_total",
        "Calls of models by how they ended, further tries included: rests: it was not asked; left: the client \
         went away.",
    );
    for (name, service) in &services {
        for (outcome, count) in service.outcomes() {
            calls.add(&[("provider", name), ("outcome", outcome)], count as f64);
        }
    }
    let mut running = families.gauge("model_calls_running", "Calls of models under way.");
    services.iter().for_each(|(name, own)| running.add(&[("provider", name)], own.running() as f64));
    let mut retries =
        families.counter("model_retries_total", "How often a provider was asked again after it failed.");
    services.iter().for_each(|(name, own)| retries.add(&[("provider", name)], own.retries() as f64));
    let mut fallbacks =
        families.counter("model_fallbacks_total", "How often another model answered in a provider's place.");
    services.iter().for_each(|(name, own)| fallbacks.add(&[("provider", name)], own.fallbacks() as f64));
    let mut tokens = families.counter("model_tokens_total", "Tokens, as far as the provider told them.");
    for (name, service) in &services {
        for (direction, count) in ["input", "output"].into_iter().zip(service.tokens()) {
            tokens.add(&[("provider", name), ("direction", direction)], count as f64);
        }
    }
    let mut times = families.histogram(
        "model_call_duration_seconds",
        "From a question to the end of its answer, of calls that were answered.",
    );
    services.iter().for_each(|(name, own)| times.spread(&[("provider", name)], &own.times()));
    let mut first = families.histogram(
        "model_time_to_first_chunk_seconds",
        "From a question to the first that came of its answer.",
    );
    services.iter().for_each(|(name, own)| first.spread(&[("provider", name)], &own.first()));
}
