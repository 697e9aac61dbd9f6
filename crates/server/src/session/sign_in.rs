//! Signing in and out at the page.

use super::cookie;
use crate::address::at_this_machine;
use crate::api::{Body, Callers, Reply, Routes, delete, get, post};
use crate::auth;
use crate::headers::CSRF;
use crate::proxy_sign_in;
use crate::reply::OpenAiError;
use axum::extract::State;
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::access::{Digest, NewSession, OperatorRole, Session};
use valvehouse_host::app::App;

/// Returns the routes.
pub(crate) fn routes() -> Routes {
    Routes::new("Session", Callers::Visitors)
        .route("/api/v1/session", get("Returns the session of the page.", look).returns::<PageSession>())
        .route(
            "/api/v1/session",
            post(OperatorRole::Read, "Signs in with the key of [admin].", sign_in).returns::<PageSession>(),
        )
        .route(
            "/api/v1/session",
            delete(OperatorRole::Read, "Signs out.", sign_out)
                .returns::<PageSession>()
                .takes_header("x-valvehouse-csrf", "The token of the session."),
        )
}

/// The session of the page.
#[derive(Serialize, JsonSchema)]
struct PageSession {
    /// Set if the session has the permissions of operators.
    operator: bool,
    /// Set if signing in requires a key.
    needs_key: bool,
    /// The token for the header `x-valvehouse-csrf` of changes; null without a session.
    csrf: Option<String>,
    /// The name that is recorded with changes.
    by: Option<String>,
    /// Set if the operator signed in at a proxy.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_proxy: bool,
    /// The address at which the proxy signs the operator out, if it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    sign_out: Option<String>,
    /// The reason why the operator whom a proxy names has no access.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
}

/// A key, and a name for the record of changes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SignIn {
    key: Option<String>,
    by: Option<String>,
}

async fn look(State(app): State<Arc<App>>, parts: Parts) -> Response {
    // The token is for the page; an address that a person opens shows none.
    let is_of_page = auth::is_of_our_page(&parts);
    if let Some(session) = cookie::session(&app, &parts).filter(|_| is_of_page)
        && (app.access.keys.has_admin() || at_this_machine(&parts).is_ok())
    {
        return session_response(&app, &parts, Some(&session));
    }
    if let Some(Ok((by, _))) = proxy_sign_in::operator(&app, &parts)
        && is_of_page
    {
        return begins(&app, &parts, &app.sessions.begin_at_proxy(by));
    }
    // A request with the key needs no session.
    if app.access.keys.has_admin() || at_this_machine(&parts).is_err() || !is_of_page {
        let operator = auth::operator(&app, &parts).ok();
        return shape(&app, &parts, operator.map(|operator| operator.0), None).into_response();
    }
    let begun = app.sessions.begin(auth::named("local", &parts.headers).0, None);
    begins(&app, &parts, &begun)
}

async fn sign_in(
    State(app): State<Arc<App>>,
    parts: Parts,
    Body(SignIn { key, by }): Body<SignIn>,
) -> Result<Response, OpenAiError> {
    let (role, own_key) = if app.access.keys.has_admin() {
        let key = key.as_deref().unwrap_or("").trim();
        auth::with_key(&app, &parts, key, OperatorRole::Read)?;
        let digest = Digest::of(key);
        match app.access.keys.operator(&digest) {
            Some((_, Some(name))) => (name, Some(digest)),
            _ => ("admin".to_owned(), None),
        }
    } else {
        at_this_machine(&parts)?;
        ("local".to_owned(), None)
    };
    // A new sign-in ends the earlier session.
    if let Some(session) = cookie::session(&app, &parts) {
        app.sessions.end(&session);
    }
    let by = match by.filter(|name| !name.trim().is_empty()) {
        None => auth::named(&role, &parts.headers).0,
        Some(name) => auth::with_name(&role, &name),
    };
    let begun = match own_key {
        Some(key) => app.sessions.begin_issued(by, key),
        None => app.sessions.begin(by, app.access.keys.admin()),
    };
    Ok(begins(&app, &parts, &begun))
}

async fn sign_out(State(app): State<Arc<App>>, parts: Parts) -> Result<Response, OpenAiError> {
    let given = parts.headers.get(CSRF).and_then(|value| value.to_str().ok()).unwrap_or("");
    match cookie::session(&app, &parts) {
        Some(session) if !session.has_csrf(given) || !auth::is_of_our_page(&parts) => {
            Err(OpenAiError::from(Error::Request {
                message: "cannot sign out: missing header `x-valvehouse-csrf`; load the page again".into(),
                param: None,
                code: Some("csrf_token_needed"),
                kind: RequestErrorKind::Forbidden,
            }))
        }
        session => {
            session.inspect(|session| app.sessions.end(session));
            let mut response = session_response(&app, &parts, None);
            response.headers_mut().insert(header::SET_COOKIE, cookie::none(&parts));
            Ok(response)
        }
    }
}

fn begins(app: &App, parts: &Parts, begun: &NewSession) -> Response {
    let mut response = session_response(app, parts, Some(&begun.session));
    response.headers_mut().insert(header::SET_COOKIE, cookie::of(parts, &begun.token));
    response
}

fn session_response(app: &App, parts: &Parts, session: Option<&Session>) -> Response {
    let by = session.map(|session| session.by.clone());
    shape(app, parts, by, session.map(Session::csrf)).into_response()
}

fn shape(app: &App, parts: &Parts, by: Option<String>, csrf: Option<&str>) -> Reply<PageSession> {
    let (at_proxy, refusal) = match proxy_sign_in::operator(app, parts) {
        Some(Ok(_)) => (true, None),
        Some(Err(refusal)) if by.is_none() => (false, Some(refusal.to_string())),
        _ => (false, None),
    };
    let keys = &app.access.keys;
    Reply(PageSession {
        operator: by.is_some(),
        needs_key: keys.has_admin() && !at_proxy,
        csrf: csrf.map(str::to_owned),
        by,
        at_proxy,
        sign_out: keys.proxy_sign_in().sign_out.clone().filter(|_| at_proxy),
        refusal,
    })
}
