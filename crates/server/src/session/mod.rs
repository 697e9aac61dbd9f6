//! `/api/v1/session`: who sits at the page.
//!
//! Operators sign in with their key once; from then on a cookie that no script can read stands for it.
//! Where there is no key, whoever opens the page on this machine has a session from the start: it carries
//! the token by which we know that a change comes from our page.

mod cookie;

use super::auth;
use super::reply::{OpenAiError, json_response};
use crate::body::{parsed, read};
use crate::headers::CSRF;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use valvehouse_core::fault::{Fault, RequestFault};
use valvehouse_host::access::{Begun, Session};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The routes.
pub(super) fn routes(_app: &Arc<App>) -> Router<Arc<App>> {
    Router::new().route("/api/v1/session", get(look).post(sign_in).delete(sign_out))
}

/// The session that a request belongs to.
pub(super) fn of(app: &App, parts: &Parts) -> Option<Session> {
    let session = app.access.sessions.of(cookie::token(parts)?)?;
    // A key that was changed, set or taken away ends the sessions of before.
    let same = match (session.key, app.access.keys.admin()) {
        (Some(then), Some(now)) => then.is(&now),
        (then, _) => then.is_none() && !app.access.keys.has_admin(),
    };
    same.then_some(session)
}

async fn look(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if let Some(session) = of(&app, &parts)
        && (app.access.keys.has_admin() || auth::at_this_machine(&parts).is_ok())
    {
        return told(&app, Some(&session));
    }
    // With the key itself no session is needed.
    if app.access.keys.has_admin() || auth::at_this_machine(&parts).is_err() {
        let operator = auth::operator(&app, &parts).ok();
        return json_response(StatusCode::OK, &shape(&app, operator.map(|operator| operator.0), None));
    }
    let begun = app.access.sessions.begin(auth::named("local", &parts.headers).0, None);
    begins(&app, &parts, &begun)
}

async fn sign_in(State(app): State<Arc<App>>, request: Request) -> Response {
    match signed_in(&app, request).await {
        Ok(response) => response,
        Err(fault) => OpenAiError(fault).into_response(),
    }
}

async fn signed_in(app: &App, request: Request) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    let asked = parsed(&read(body, app.config.server.max_body_mb).await?)?;
    let text = |name: &str| asked.text(name).map(String::from).unwrap_or_default();
    let role = if app.access.keys.has_admin() {
        auth::with_key(app, text("key").trim())?;
        "admin"
    } else {
        auth::at_this_machine(&parts)?;
        "local"
    };
    // Whoever signs in anew leaves the old session.
    if let Some(token) = cookie::token(&parts) {
        app.access.sessions.end(token);
    }
    let by = match text("by") {
        name if name.trim().is_empty() => auth::named(role, &parts.headers).0,
        name => auth::with_name(role, &name),
    };
    let begun = app.access.sessions.begin(by, app.access.keys.admin());
    Ok(begins(app, &parts, &begun))
}

async fn sign_out(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let given = parts.headers.get(CSRF).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match of(&app, &parts) {
        Some(session) if !session.has_csrf(given) => OpenAiError(Fault::Request {
            message: "signing out needs the header `x-valvehouse-csrf`: load the page again".into(),
            param: None,
            code: Some("csrf_token_needed"),
            kind: RequestFault::Forbidden,
        })
        .into_response(),
        _ => {
            cookie::token(&parts).inspect(|token| app.access.sessions.end(token));
            let mut response = told(&app, None);
            response.headers_mut().insert(header::SET_COOKIE, cookie::none(&parts));
            response
        }
    }
}

fn begins(app: &App, parts: &Parts, begun: &Begun) -> Response {
    let mut response = told(app, Some(&begun.session));
    response.headers_mut().insert(header::SET_COOKIE, cookie::of(parts, &begun.token));
    response
}

fn told(app: &App, session: Option<&Session>) -> Response {
    let by = session.map(|session| session.by.clone());
    json_response(StatusCode::OK, &shape(app, by, session.map(Session::csrf)))
}

/// `{operator, needs_key, csrf, by}`
fn shape(app: &App, by: Option<String>, csrf: Option<&str>) -> Json {
    Json::from([
        ("operator", by.is_some().into()),
        ("needs_key", app.access.keys.has_admin().into()),
        ("csrf", csrf.into()),
        ("by", by.into()),
    ])
}
