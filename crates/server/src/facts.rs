//! The facts about a request that scripts can read.

use crate::address::client_text;
use crate::credentials::{given_key, is_operators_key};
use crate::exchange;
use crate::headers::CHAT;
use axum::http::header::{ACCEPT_LANGUAGE, AsHeaderName};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use valvehouse_core::context::{Context, HeldMemory, TurnFacts, digest};
use valvehouse_core::error::Error;
use valvehouse_host::Ready;
use valvehouse_host::app::App;
use valvehouse_json::{Json, Object};

/// Headers with a word of credentials that are not a credential.
const HARMLESS: [&str; 3] = ["idempotency-key", "x-idempotency-key", "sec-websocket-key"];
/// The prefixes, in lower case, that mark the value of any header as a credential.
const SCHEMES: [&str; 4] = ["bearer ", "basic ", "digest ", "negotiate "];

/// The header with the id of the conversation, which Open WebUI sends if it is configured to forward user
/// information.
const OPEN_WEBUI_CHAT: HeaderName = HeaderName::from_static("x-openwebui-chat-id");
/// The header with the id of the message that Open WebUI waits for.
const OPEN_WEBUI_MESSAGE: HeaderName = HeaderName::from_static("x-openwebui-message-id");
/// The header with the time zone of the user.
const TIME_ZONE: HeaderName = HeaderName::from_static("x-valvehouse-timezone");

/// Returns `true` if a request comes from an Open WebUI. It contains Open WebUI's header or, for a model that
/// Open WebUI takes for a pipeline, the user as an object with an id, which no other client sends.
pub(crate) fn is_open_webui(headers: &HeaderMap, body: &Json) -> bool {
    headers.contains_key(OPEN_WEBUI_CHAT) || body.get("user").is_some_and(|user| user.get("id").is_some())
}

/// Returns the facts about a chat request, whose answers count toward this memory.
pub(crate) fn of_chat(
    app: &App,
    parts: &Parts,
    body: &Json,
    key_user: &Json,
    ready: &Ready,
    memory: Arc<HeldMemory>,
) -> TurnFacts {
    let (model, models) = (ready.facts.clone(), ready.models.clone());
    of_request(app, parts, body, key_user, (model, models), memory)
}

/// Returns the facts about a request with any body, given its model and the list of all models.
pub(crate) fn of_body(
    app: &App,
    parts: &Parts,
    body: &Json,
    key_user: &Json,
    model: Json,
    models: Json,
) -> TurnFacts {
    of_request(app, parts, body, key_user, (model, models), Arc::new(app.memory.share()))
}

fn of_request(
    app: &App,
    parts: &Parts,
    body: &Json,
    key_user: &Json,
    (model, models): (Json, Json),
    memory: Arc<HeldMemory>,
) -> TurnFacts {
    let headers = &parts.headers;
    let text = |value: Option<Json>| value.and_then(|value| value.as_str().map(str::to_owned));
    let header = |name: HeaderName| text_header(headers, name).map(str::to_owned);
    let metadata = body.field("metadata");
    let chat_id = text(body.get("chat_id"))
        .or_else(|| text(metadata.get("chat_id")))
        .or_else(|| header(CHAT))
        .or_else(|| header(OPEN_WEBUI_CHAT))
        .unwrap_or_default();
    let message_id = text(body.get("id"))
        .or_else(|| text(metadata.get("message_id")))
        .or_else(|| header(OPEN_WEBUI_MESSAGE));
    let user = user(app, parts, body, key_user);
    add_place(&user, headers, &metadata);
    TurnFacts {
        user,
        verified_user: verified_user(app, headers, key_user),
        // Without keys, a client could send any.
        key_digest: given_key(headers).filter(|_| app.access.keys.are_required()).map(digest),
        models,
        request: request(parts).freeze(),
        chat_id,
        message_id: message_id.unwrap_or_default(),
        features: body.get("features").or_else(|| metadata.get("features")).into(),
        files: body.get("files").or_else(|| metadata.get("files")).into(),
        filter_ids: filter_ids(body),
        variables: configured_variables(&model, key_user),
        client: client_variables(&metadata),
        model,
        callers: Vec::new(),
        load: None,
        trace: None,
        states: None,
        exchange: Some(Arc::new(exchange::of(app, parts, memory))),
        nesting: None,
        afterwards: None,
    }
}

/// Returns the ids of the toggle filters that a request selects.
pub(crate) fn filter_ids(body: &Json) -> Vec<String> {
    let ids = body.get("filter_ids").unwrap_or_else(|| body.field("metadata").field("filter_ids"));
    ids.items().iter().filter_map(|id| id.as_str().map(str::to_owned)).collect()
}

/// Returns the filters that a request selects.
///
/// # Errors
/// Returns a request error if they are not a list of texts, because an ignored name would go unnoticed.
pub(crate) fn requested_filters(body: &Json) -> Result<Vec<String>, Error> {
    let within = || body.get("metadata")?.get("filter_ids");
    let given = body.get("filter_ids").or_else(within).filter(|given| !given.is_null());
    let is_list = |given: &Json| match given {
        Json::Array(ids) => ids.items().iter().all(|id| id.as_str().is_some()),
        _ => false,
    };
    match given {
        Some(given) if !is_list(&given) => {
            Err(Error::invalid("`filter_ids` must be a list of strings", Some("filter_ids")))
        }
        _ => Ok(filter_ids(body)),
    }
}

/// Returns the variables configured for a model, overridden by those configured for the user of the key.
fn configured_variables(model: &Json, key_user: &Json) -> Json {
    let all: Object = [model, key_user]
        .into_iter()
        .filter_map(|owner| owner.get("variables"))
        .flat_map(|variables| variables.entries())
        .map(|(name, value)| (name, value.deep_clone()))
        .collect();
    if all.is_empty() { Json::Null } else { all.into() }
}

/// Returns the object `variables` of the client's metadata, or null.
fn client_variables(metadata: &Json) -> Json {
    match metadata.get("variables") {
        Some(variables @ Json::Object(_)) => variables.deep_clone(),
        _ => Json::Null,
    }
}

/// Returns the context of a request: the configured variables, the client's variables that the settings
/// allow, and a copy of the request's metadata.
pub(crate) fn context(app: &App, facts: &TurnFacts, body: &Json) -> Context {
    context_with(app, facts, body, Json::object())
}

/// Returns the context of an operator's request, which may set any variable that is not configured.
pub(crate) fn context_of_operator(app: &App, facts: &TurnFacts, body: &Json) -> Context {
    let context = context(app, facts, body);
    let configured = facts.variables.as_object();
    for (name, value) in facts.client.entries() {
        if !configured.is_some_and(|configured| configured.contains(&name)) {
            context.set(&name, value.deep_clone());
        }
    }
    context
}

/// Returns the context of a request. `metadata` was set by earlier parts of the turn and takes precedence.
pub(crate) fn context_with(app: &App, facts: &TurnFacts, body: &Json, metadata: Json) -> Context {
    let given = body.field("metadata");
    let variables = Json::object();
    let entries = |of: &Json| of.entries();
    let is_let_through = |name: &str| app.config.server.client_variables.iter().any(|known| known == name);
    let own = entries(&facts.client).into_iter().filter(|(name, _)| is_let_through(name));
    for (name, value) in own.chain(entries(&facts.variables)) {
        // A copy fits into a new object.
        variables.edit(&name, value.deep_clone());
    }
    let context = Context::with_metadata(variables, metadata);
    if let (Json::Object(given), Json::Object(own)) = (given, context.metadata()) {
        for (key, value) in given.entries().into_iter().filter(|(key, _)| !own.contains(key)) {
            // The copy is independent of the metadata in the body.
            own.edit(&key, value.deep_clone());
        }
    }
    context
}

/// Returns the user of a request: that of the key, else that of trusted headers, else that of a trusted body.
fn user(app: &App, parts: &Parts, body: &Json, key_user: &Json) -> Json {
    if let Json::Object(_) = key_user {
        let user = key_user.deep_clone();
        // The variables belong to the turn instead of the user.
        user.remove("variables");
        return user;
    }
    if let Some(user) = trusted_user(app, &parts.headers) {
        return user;
    }
    if !may_name_user(app, parts) {
        return Json::object();
    }
    match body.get("user") {
        Some(Json::Text(id)) => Json::from([("id", id.into())]),
        Some(user @ Json::Object(_)) if user.get("id").is_some() => named_user(app, parts, &user),
        _ => Json::object(),
    }
}

/// Returns the user that the body of a request names. Its role, which filters trust, is left out unless the host has no
/// keys or the request contains the operators' key.
pub(crate) fn named_user(app: &App, parts: &Parts, user: &Json) -> Json {
    let user = user.deep_clone();
    if app.access.keys.are_required() && !is_operators_key(app, &parts.headers) {
        user.remove("role");
    }
    user
}

/// Returns `true` if the body of a request may name its user: if the settings allow it, or if the request
/// contains the operators' key.
pub(crate) fn may_name_user(app: &App, parts: &Parts) -> bool {
    app.config.server.trust_body_user || is_operators_key(app, &parts.headers)
}

/// Adds the language and the time zone of a user if they are unknown, from the variables of an Open WebUI or
/// else from headers.
fn add_place(user: &Json, headers: &HeaderMap, metadata: &Json) {
    let variables = metadata.field("variables");
    let variable = |name: &str| variables.text(name).map(String::from);
    // The header lists the preferred language first. `*` stands for any language and is ignored.
    let accepted = || text_header(headers, ACCEPT_LANGUAGE)?.split([',', ';']).next().map(str::trim);
    let zone = || text_header(headers, &TIME_ZONE);
    let found = [
        ("locale", variable("{{USER_LANGUAGE}}").or_else(|| accepted().map(str::to_owned))),
        ("timezone", variable("{{CURRENT_TIMEZONE}}").or_else(|| zone().map(str::to_owned))),
    ];
    let is_plain = |word: &String| {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_/+".contains(letter);
        (1..=64).contains(&word.len()) && word.chars().all(fits)
    };
    for (key, value) in found {
        if let Some(value) = value.filter(is_plain)
            && user.get(key).is_none()
        {
            // The turn's own object accepts any value.
            user.edit(key, value);
        }
    }
}

/// Returns the text of a header.
fn text_header(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The maximum length of a user id for which records are stored, in bytes.
const MAX_USER_ID: usize = 512;

/// Returns the id of the user, verified by a key or by trusted headers. A body does not verify a user.
pub(crate) fn verified_user(app: &App, headers: &HeaderMap, key_user: &Json) -> Option<String> {
    match key_user {
        Json::Object(_) => user_id(key_user),
        _ => user_id(&trusted_user(app, headers)?),
    }
}

/// Returns the id of a user if records can be stored for it.
pub(crate) fn user_id(user: &Json) -> Option<String> {
    let id = match user.get("id")? {
        Json::Text(id) => id.to_string(),
        number @ Json::Number(_) => number.to_string(),
        _ => return None,
    };
    (!id.is_empty() && id.len() <= MAX_USER_ID).then_some(id)
}

/// Returns the user in Open WebUI's headers, if they are trusted.
pub(super) fn trusted_user(app: &App, headers: &HeaderMap) -> Option<Json> {
    if !app.config.server.trust_user_headers {
        return None;
    }
    let named = [
        ("id", "x-openwebui-user-id"),
        ("name", "x-openwebui-user-name"),
        ("email", "x-openwebui-user-email"),
        ("role", "x-openwebui-user-role"),
    ];
    let found = named.iter().filter_map(|(key, header)| {
        let value = text_header(headers, *header)?;
        Some(((*key).into(), Json::from(decoded(value))))
    });
    let user: Object = found.collect();
    (!user.is_empty()).then(|| user.into())
}

/// Decodes a header value, in which Open WebUI percent-encodes non-ASCII characters.
fn decoded(value: &str) -> String {
    percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned()
}

fn request(parts: &Parts) -> Json {
    let headers: Object = parts
        .headers
        .iter()
        .filter(|(name, value)| !is_credential(name, value))
        .map(|(name, value)| (name.as_str().into(), (&*String::from_utf8_lossy(value.as_bytes())).into()))
        .collect();
    Json::from([
        ("method", parts.method.as_str().into()),
        ("path", parts.uri.path().into()),
        ("headers", headers.into()),
        ("client", client_text(parts).into()),
    ])
}

/// Returns `true` for a word that marks a header as a credential if its name contains it, such as `x-goog-api-key`.
/// Scripts cannot read these headers.
fn is_of_credentials(word: &[u8]) -> bool {
    matches!(
        word,
        b"authorization"
            | b"authentication"
            | b"auth"
            | b"token"
            | b"accesstoken"
            | b"key"
            | b"apikey"
            | b"secret"
            | b"password"
            | b"passwd"
            | b"cookie"
            | b"cookie2"
            | b"credential"
            | b"credentials"
            | b"jwt"
            | b"assertion"
            | b"signature"
            | b"csrf"
            | b"xsrf"
            | b"otp"
    )
}

/// Returns `true` if a header contains a credential, judged by its name and its value.
fn is_credential(name: &HeaderName, value: &HeaderValue) -> bool {
    let name = name.as_str();
    let mut words = name.as_bytes().split(|byte| matches!(byte, b'-' | b'_' | b'.'));
    let is_named = words.any(is_of_credentials) && !HARMLESS.contains(&name);
    let begins = |scheme: &&str| {
        let beginning = value.as_bytes().get(..scheme.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    is_named || SCHEMES.iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_recognized_by_name_or_value() {
        let is = |name: &str, value: &'static str| {
            is_credential(&name.parse().unwrap(), &HeaderValue::from_static(value))
        };
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "x-api-key",
            "api-key",
            "x-goog-api-key",
            "x-auth-token",
            "x-forwarded-access-token",
            "x-amz-security-token",
            "cf-access-jwt-assertion",
            "x-openwebui-user-jwt",
            "x-valvehouse-csrf",
            "ocp-apim-subscription-key",
            "x-vault-token",
        ] {
            assert!(is(name, "x"), "{name}");
        }
        assert!(is("x-upstream", "Bearer abc") && is("x-upstream", "basic YTpi"));
        for name in ["user-agent", "content-type", "idempotency-key", "x-request-id", "x-openwebui-user-id"] {
            assert!(!is(name, "x"), "{name}");
        }
    }
}
