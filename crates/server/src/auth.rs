//! Authentication of callers by key, and their identity.

use crate::address::{self, at_this_machine};
use crate::credentials::{given_key, is_operators_key};
use crate::facts;
use crate::headers::CSRF;
use crate::proxy_sign_in;
use crate::reply::ErrorForm;
use crate::session::cookie;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::trace::RequestScope;
use valvehouse_host::access::{Digest, Holder, OperatorRole};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The interval at which the key of a caller who follows a stream is checked again.
pub(crate) const RECHECK: Duration = Duration::from_secs(2);

/// Returns the user bound to the key of a request; null if the key has none, or no key is required.
///
/// # Errors
/// Returns a request error for a missing or wrong key. A wrong key counts as an attempt of the client's
/// address.
pub(crate) fn user_of_key(app: &App, parts: &Parts) -> Result<Json, Error> {
    let keys = &app.access.keys;
    if !keys.are_required() {
        return Ok(Json::Null);
    }
    let Some(given) = given_key(&parts.headers) else {
        return Err(unauthenticated(
            "missing API key: send `Authorization: Bearer KEY` with a key of [server] keys or of `valvehouse key create`",
        ));
    };
    match keys.holder(given) {
        Some(Holder::User(user)) => Ok(user),
        Some(Holder::Admin) => Ok(Json::Null),
        Some(Holder::Issued(key)) => match key.record.rights.role {
            None => Ok(key.user.clone()),
            Some(OperatorRole::Admin) => Ok(Json::Null),
            Some(role) => {
                RequestScope::set_key(&key.name);
                let message = format!(
                    "the key `{}` is for operators with the role `{role}`: use a key for models",
                    key.name
                );
                Err(forbidden(message, "wrong_key_role"))
            }
        },
        None => {
            let why = keys.refusal(given).map(|(key, why)| {
                RequestScope::set_key(&key.name);
                format!("invalid API key: {why}; ask the operator for a new one")
            });
            let usual = "invalid API key: expected one of [server] keys or of `valvehouse key create`";
            Err(wrong_key(app, address::client(parts), given, why.as_deref().unwrap_or(usual)))
        }
    }
}

/// Runs a request whose caller is admitted, with the caller as an extension, or refuses it in this form.
pub(crate) async fn admitted<T: Clone + Send + Sync + 'static>(
    caller: Result<T, Error>,
    form: ErrorForm,
    mut parts: Parts,
    body: Body,
    next: Next,
) -> Response {
    match caller {
        Ok(caller) => {
            parts.extensions.insert(caller);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(error) => form.refuse(error),
    }
}

/// The recorded author of a change. Handlers of routes for operators receive it as an extension.
#[derive(Debug, Clone)]
pub(crate) struct Operator(pub(crate) String);

/// Returns the operator that sent a request: a caller with the key of `[admin]` or a session, one whom a trusted proxy
/// names or, without such a key and proxy, a local caller.
pub(crate) fn operator(app: &App, parts: &Parts) -> Result<Operator, Error> {
    let headers = &parts.headers;
    if !app.access.keys.has_admin() {
        at_this_machine(parts)?;
        if changes(&parts.method) && is_of_page(headers) {
            from_our_page(app, parts)?;
        }
        let session = cookie::session(app, parts).map(|session| Operator(session.by));
        return Ok(session.unwrap_or_else(|| named("local", headers)));
    }
    match given_key(headers) {
        Some(given) => with_key(app, parts, given, needed(app, parts)),
        None => signed_in(app, parts),
    }
}

/// Returns `true` if a program has the operators' key or, without such a key, runs on this machine. A wrong
/// key does not count as an attempt, because nothing is rejected.
pub(crate) fn may_operate(app: &App, parts: &Parts) -> bool {
    match app.access.keys.has_admin() {
        true => given_key(&parts.headers).is_some_and(|given| app.access.keys.role(given).is_some()),
        false => at_this_machine(parts).is_ok(),
    }
}

/// Returns the operator of a request that contains no key of this host; `None` if the request may use its key
/// at another endpoint.
pub(crate) fn operator_without_key(app: &App, parts: &Parts) -> Option<Result<Operator, Error>> {
    let is_open = !app.access.keys.are_required() && !app.access.keys.has_admin();
    (is_open || given_key(&parts.headers).is_none()).then(|| operator(app, parts))
}

/// Returns `true` if a request contains the operators' key.
pub(crate) fn may_operate_by_key(app: &App, parts: &Parts) -> bool {
    is_operators_key(app, &parts.headers)
}

/// Returns the operator with this key, whose role must be sufficient.
pub(crate) fn with_key(
    app: &App,
    parts: &Parts,
    given: &str,
    needed: OperatorRole,
) -> Result<Operator, Error> {
    match app.access.keys.operator(&Digest::of(given)) {
        Some((_, None)) => Ok(named("admin", &parts.headers)),
        Some((role, Some(name))) => {
            sufficient(role, needed, &format!("the key `{name}`")).map(|()| Operator(name))
        }
        None => {
            let message = "this route is for operators: send `Authorization: Bearer KEY` with the key of [admin] or an operator's own";
            Err(wrong_key(app, address::client(parts), given, message))
        }
    }
}

/// Rejects an operator whose role does not allow a change.
fn sufficient(role: OperatorRole, needed: OperatorRole, holder: &str) -> Result<(), Error> {
    if role >= needed {
        return Ok(());
    }
    let message =
        format!("{holder} has the role `{role}`, and this needs `{needed}`: ask an operator with that role");
    Err(forbidden(message, "role_not_sufficient"))
}

/// The role that operators need for a change, as its route declares it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) role: OperatorRole,
    /// Set if plugins that are guards need the role `admin`.
    pub(crate) guards_need_admin: bool,
}

/// The declared roles by method and template of the path (`PUT /api/v1/keys/{name}`), an extension of requests.
pub(crate) type DeclaredRoles = Arc<HashMap<String, Needs>>;

/// Returns the role that a request of an operator needs: for a change, the declared one, or else `admin`.
fn needed(app: &App, parts: &Parts) -> OperatorRole {
    if !changes(&parts.method) {
        return OperatorRole::Read;
    }
    let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let roles = parts.extensions.get::<DeclaredRoles>();
    let is_guard = || {
        let place = path.split('/').position(|word| word == "{id}");
        let id = place.and_then(|place| parts.uri.path().split('/').nth(place));
        id.and_then(|id| app.host.snapshot().plugins.get(id).cloned()).is_none_or(|plugin| plugin.security)
    };
    match roles.and_then(|roles| roles.get(&format!("{} {path}", parts.method))) {
        Some(needs) if !((needs.guards_need_admin || confirms(parts)) && is_guard()) => needs.role,
        _ => OperatorRole::Admin,
    }
}

/// Returns `true` if a request confirms the change of a guard that it makes.
fn confirms(parts: &Parts) -> bool {
    let query = url::form_urlencoded::parse(parts.uri.query().unwrap_or("").as_bytes());
    query.into_iter().any(|(key, _)| key == "confirm")
}

/// Returns the operator that a proxy names, or else that of a session of the page.
fn signed_in(app: &App, parts: &Parts) -> Result<Operator, Error> {
    let refusal = match proxy_sign_in::operator(app, parts) {
        Some(Ok((by, role))) => {
            // Browsers send the cookie of the proxy with requests of other sites, too.
            if changes(&parts.method) {
                from_our_page(app, parts)?;
            }
            return sufficient(role, needed(app, parts), &by).map(|()| Operator(by));
        }
        Some(Err(refusal)) => refusal,
        None => unauthenticated(
            "this route is for operators: send `Authorization: Bearer KEY` with the key of [admin] or an operator's own, or sign in at the page",
        ),
    };
    let session = cookie::session(app, parts).ok_or(refusal)?;
    if changes(&parts.method) {
        from_our_page(app, parts)?;
    }
    if let Some((role, Some(name))) = session.key.and_then(|key| app.access.keys.operator(&key)) {
        sufficient(role, needed(app, parts), &format!("the key `{name}`"))?;
    }
    Ok(Operator(session.by))
}

/// Checks that the host's own page sent a request: the CSRF token, which a page of another site cannot know, and
/// the sender that the browser names.
fn from_our_page(app: &App, parts: &Parts) -> Result<(), Error> {
    let given = parts.headers.get(CSRF).and_then(|value| value.to_str().ok());
    let session = cookie::session(app, parts);
    let has_token = session.zip(given).is_some_and(|(session, given)| session.has_csrf(given));
    if has_token && is_of_our_page(parts) {
        return Ok(());
    }
    let message =
        "missing header `x-valvehouse-csrf` with the token of GET /api/v1/session: load the page again";
    Err(forbidden(message, "csrf_token_needed"))
}

/// Returns `true` if no header says that anything but the host's own page sent a request. Browsers send
/// `Sec-Fetch-Site` over TLS and on this machine, and otherwise `Origin` with changes. Sandboxed content has the
/// origin `null`.
pub(crate) fn is_of_our_page(parts: &Parts) -> bool {
    let headers = &parts.headers;
    let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or("?"));
    match headers.get("sec-fetch-site") {
        Some(site) => site == "same-origin" && origin != Some("null"),
        None => match origin {
            Some(origin) => address::host_of(parts).is_some_and(|host| address::is_own(origin, host)),
            None => !changes(&parts.method),
        },
    }
}

/// Returns `true` if a request with this method may change something.
pub(crate) fn changes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Returns `true` if a browser sent the request for a page.
pub(crate) fn is_of_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site")
}

/// Returns the operator with this role and the name in the request's header, if any.
pub(crate) fn named(role: &str, headers: &HeaderMap) -> Operator {
    let given = headers.get("x-valvehouse-by").and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    Operator(with_name(role, given.unwrap_or("")))
}

/// The maximum length of a recorded name, in characters.
const MAX_NAME: usize = 64;

/// Joins a role and a name: `admin (Ann)`.
pub(crate) fn with_name(role: &str, name: &str) -> String {
    let name: String = name.trim().chars().filter(|letter| !letter.is_control()).take(MAX_NAME).collect();
    if name.is_empty() { role.to_owned() } else { format!("{role} ({name})") }
}

/// Returns the error for a wrong key and records the attempt. After many attempts an address has to wait; a
/// request with a valid key never waits, even from the same address. A key that is valid for another endpoint
/// does not count as an attempt.
pub(crate) fn wrong_key(app: &App, client: Option<IpAddr>, key: &str, message: &str) -> Error {
    if app.access.keys.holder(key).is_some() {
        return unauthenticated(message);
    }
    // Requests without a socket come from this program itself.
    let wait = client.and_then(|client| {
        let wait = app.access.attempts.wait(client);
        if wait.is_none() {
            app.access.attempts.failed(client, key);
        }
        wait
    });
    match wait {
        Some(wait) => too_often("too many wrong keys came from this address", "too_many_wrong_keys", wait),
        None => unauthenticated(message),
    }
}

/// Returns the error for a caller that exceeded a limit.
pub(crate) fn too_often(what: &str, code: &'static str, wait: Duration) -> Error {
    let seconds = wait.as_secs_f64().ceil();
    Error::TooOften { message: format!("{what}; try again in {seconds} s"), code, wait }
}

/// Returns an identifier of the caller for comparisons: the id of the user, or the digest of a known key, or
/// an empty string.
pub(crate) fn asker(app: &App, headers: &HeaderMap) -> String {
    let key = given_key(headers);
    let holder = key.and_then(|key| app.access.keys.holder(key));
    let is_known = !app.access.keys.are_required() || holder.is_some();
    let of_key = match &holder {
        Some(Holder::User(user)) => user.clone(),
        Some(Holder::Issued(issued)) => issued.user.clone(),
        _ => Json::Null,
    };
    match (is_known.then(|| id_of(app, headers, &of_key)).flatten(), key) {
        (Some(user), _) => format!("user {user}"),
        (None, Some(key)) => match holder {
            // A rotated key has the records of the old one; one that was revoked and created again has not.
            Some(Holder::Issued(issued)) => {
                format!("key of {} {}", issued.name, issued.record.created_at.as_millisecond())
            }
            Some(_) => format!("key {}", Digest::of(key)),
            None => String::new(),
        },
        _ => String::new(),
    }
}

/// Returns the authenticated user id: that of the key or, if user headers are trusted, that of the headers.
pub(crate) fn user_id(app: &App, parts: &Parts) -> Option<String> {
    id_of(app, &parts.headers, &user_of_key(app, parts).ok()?)
}

/// Returns the user id of the key or, if user headers are trusted, that of the headers.
fn id_of(app: &App, headers: &HeaderMap, of_key: &Json) -> Option<String> {
    if let Some(id) = of_key.text("id").filter(|id| !id.is_empty()) {
        return Some(id.to_string());
    }
    facts::trusted_user(app, headers)?.text("id").filter(|id| !id.is_empty()).map(String::from)
}

pub(crate) fn forbidden(message: impl Into<String>, code: &'static str) -> Error {
    Error::Request {
        message: message.into(),
        param: None,
        code: Some(code),
        kind: RequestErrorKind::Forbidden,
    }
}

fn unauthenticated(message: &str) -> Error {
    Error::Request {
        message: message.into(),
        param: None,
        code: Some("invalid_api_key"),
        kind: RequestErrorKind::Unauthenticated,
    }
}
