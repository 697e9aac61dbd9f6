//! The scope of the key of a request: its models and routes, its limits, and the headers that report them.

use crate::auth::{forbidden, too_often};
use crate::credentials::issued;
use crate::reply::OVER_BUDGET;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::text::nearest;
use valvehouse_core::trace::RequestScope;
use valvehouse_host::Snapshot;
use valvehouse_host::access::{IssuedKey, LeftOver};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// Returns `true` if the key of a request can use only some models.
pub(crate) fn limits_models(app: &App, parts: &Parts) -> bool {
    issued(app, parts).is_some_and(|key| key.limits_models())
}

/// Returns `true` if the key of a request limits its models or its use, so that the request and its answer must be read.
pub(crate) fn is_limited(app: &App, parts: &Parts) -> bool {
    limits_models(app, parts) || issued(app, parts).is_some_and(|key| key.is_metered())
}

/// Counts a request of a key that has limits.
///
/// # Errors
/// Returns an error with the time of the reset if a limit is reached.
pub(crate) fn admit(app: &App, parts: &Parts) -> Result<(), Error> {
    let Some(key) = issued(app, parts) else { return Ok(()) };
    key.admit(app.host.kv()).map_err(|reached| {
        let what = format!("{} has reached its limit of {}", reached.holder, reached.limit);
        let code = if reached.is_budget { OVER_BUDGET } else { "rate_limit_exceeded" };
        too_often(&what, code, reached.wait)
    })
}

/// The maximum length of a name that an error repeats, in bytes.
const MAX_SHOWN: usize = 100;

/// Rejects a model that the key of a request cannot use, also one that a field beside `model` selects.
///
/// # Errors
/// Returns the error for a model that does not exist, or a refusal of a model whose costs cannot be counted.
pub(crate) fn check_model(
    app: &App,
    parts: &Parts,
    snapshot: &Snapshot,
    name: &str,
    body: &Json,
) -> Result<(), Error> {
    RequestScope::set_named_model(name);
    let Some(key) = issued(app, parts) else { return Ok(()) };
    let selected = if key.limits_models() { Snapshot::models_beside(body) } else { Vec::new() };
    let names = std::iter::once(Some(name.to_owned())).chain(selected);
    if let Some(wrong) =
        names.into_iter().find(|name| name.as_deref().is_none_or(|name| !key.allows_model(name)))
    {
        let known: Vec<String> =
            snapshot.model_names().into_iter().filter(|name| key.allows_model(name)).collect();
        let wrong = wrong.unwrap_or_else(|| "preset".to_owned());
        let hint = match nearest(&wrong, known.iter().map(String::as_str)) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; its models are {}", known.join(", ")),
        };
        let shown =
            if wrong.len() <= MAX_SHOWN { wrong.escape_debug().to_string() } else { "…".to_owned() };
        return Err(Error::Request {
            message: format!("the model `{shown}` does not exist for the key `{}`{hint}", key.name),
            param: Some("model"),
            code: Some("model_not_found"),
            kind: RequestErrorKind::NotFound,
        });
    }
    let has_price = || {
        let model = snapshot.plan().model(name);
        model.is_some_and(|model| !model.facts.field("price").is_empty())
    };
    if key.limits_costs() && !has_price() {
        let message = format!(
            "the key `{}` limits its costs, and the model has no price: an operator has to set `price` of [[models]]",
            key.name
        );
        return Err(forbidden(message, "model_without_price"));
    }
    Ok(())
}

/// Rejects a route of a service whose models or costs nobody can tell, for a key that limits them.
///
/// # Errors
/// Returns a refusal for such a key.
pub(crate) fn check_unmodelled(app: &App, parts: &Parts, path: &str) -> Result<(), Error> {
    match issued(app, parts).filter(|_| is_limited(app, parts)) {
        Some(key) => {
            let message =
                format!("the key `{}` limits its models or its use, and /v1/{path} names no model", key.name);
            Err(forbidden(message, "model_not_named"))
        }
        None => Ok(()),
    }
}

/// Keeps the models that the key of a request can use.
pub(crate) fn visible(app: &App, parts: &Parts, mut models: Vec<Json>) -> Vec<Json> {
    if let Some(key) = issued(app, parts) {
        models.retain(|model| key.allows_model(&model.text_or_empty("id")));
    }
    models
}

/// Adds what is left of the limits of a key to the headers of a response, in the form of the client's protocol.
pub(crate) fn name_limits(app: &App, key: &IssuedKey, is_anthropic: bool, response: &mut HeaderMap) {
    let limits = [("requests", key.requests_left()), ("tokens", key.tokens_left(app.host.kv()))];
    for (what, left) in limits {
        let Some(LeftOver { limit, remaining, reset }) = left else { continue };
        let at = jiff::Timestamp::now() + reset;
        let (prefix, reset) = match is_anthropic {
            true => ("anthropic-ratelimit-", at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            false => ("x-ratelimit-", format!("{}s", reset.as_secs_f64().ceil())),
        };
        for (part, value) in
            [("limit", limit.to_string()), ("remaining", remaining.to_string()), ("reset", reset)]
        {
            let name = match is_anthropic {
                true => format!("{prefix}{what}-{part}"),
                false => format!("{prefix}{part}-{what}"),
            };
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
                response.insert(name, value);
            }
        }
    }
}
