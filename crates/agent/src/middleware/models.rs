//! The `model_retry` and `model_fallback` middleware, which retry a failed model call or call another model.
//!
//! Both use the host's own retries and fallback with the options of the agent. The retries of one model call
//! are counted over all layers, so this middleware adds only those that the configured provider does not make.

use super::definition::{Middleware, Parts};
use super::options::Options;
use super::typed::{ModelFallback, ModelRetry};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::provider::Provider;
use valvehouse_core::text::did_you_mean;
use valvehouse_grants::RetrySettings;
use valvehouse_json::Json;
use valvehouse_providers::{Choice, Fallback, RetryingProvider};

pub(super) const RETRY: &str = ModelRetry::NAME;
pub(super) const FALLBACK: &str = ModelFallback::NAME;

/// Creates `model_retry`, with exponential backoff and jitter.
pub(super) fn retry(options: &Json, _: &Parts) -> Result<Middleware, String> {
    const DAY: u64 = 86_400_000;
    let (mut options, default) = (Options::of(RETRY, options), ModelRetry::default());
    let mut delay = |key, default: Duration| {
        Duration::from_millis(options.number(key, default.as_millis() as u64, 0..=DAY))
    };
    let initial_delay = delay("initial_delay_ms", default.initial_delay);
    let max_delay = delay("max_delay_ms", default.max_delay);
    let retry = RetrySettings {
        max_retries: options.number("max_retries", default.max_retries.into(), 0..=100) as u32,
        initial_delay,
        max_delay,
        after_send: options.flag("after_send", default.after_send),
    };
    options.done()?;
    Ok(Middleware::of_provider(RETRY, move |provider: Arc<dyn Provider>| {
        Arc::new(RetryingProvider::new(provider, retry))
    }))
}

/// Creates `model_fallback`: if the agent's model fails, the same request is sent to each of `models` in order.
pub(super) fn fallback(options: &Json, parts: &Parts) -> Result<Middleware, String> {
    let mut options = Options::of(FALLBACK, options);
    let names = options.texts("models").unwrap_or_default();
    let mut others = Vec::new();
    for name in &names {
        match parts.others.iter().find(|(known, _)| known == name) {
            Some((_, choice)) => others.push(choice.clone()),
            None => options.problem(unknown(name, parts)),
        }
    }
    if names.is_empty() {
        options.problem("has no `models`: list the models to use if the agent's own model fails");
    }
    options.done()?;
    let model = parts.model.as_ref().map(|choice| choice.model.clone()).unwrap_or_default();
    Ok(Middleware::of_provider(FALLBACK, move |provider: Arc<dyn Provider>| {
        Arc::new(Fallback::new(Choice { provider, model: model.clone() }, others.clone()))
    }))
}

fn unknown(name: &str, parts: &Parts) -> String {
    let known: Vec<&str> = parts.others.iter().map(|(known, _)| known.as_str()).collect();
    let hint = did_you_mean(name, known.iter().copied());
    let there_are = if known.is_empty() {
        "no models are known".into()
    } else {
        format!("known names: {}", known.join(", "))
    };
    format!("names the unknown model {name:?} in `models`{hint}; {there_are}")
}
