//! Signing in and out at the page.

use super::cookie;
use crate::address::at_this_machine;
use crate::auth;
use crate::body::{parsed, read};
use crate::headers::CSRF;
use crate::reply::{OpenAiError, json_response};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::access::{NewSession, Session};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The routes.
pub(crate) fn routes(_app: &Arc<App>) -> Router<Arc<App>> {
    Router::new().route("/api/v1/session", get(look).post(sign_in).delete(sign_out))
}

async fn look(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if let Some(session) = cookie::session(&app, &parts)
        && (app.access.keys.has_admin() || at_this_machine(&parts).is_ok())
    {
        return told(&app, Some(&session));
    }
    // With the key itself no session is needed.
    if app.access.keys.has_admin() || at_this_machine(&parts).is_err() {
        let operator = auth::operator(&app, &parts).ok();
        return json_response(StatusCode::OK, &shape(&app, operator.map(|operator| operator.0), None));
    }
    let begun = app.sessions.begin(auth::named("local", &parts.headers).0, None);
    begins(&app, &parts, &begun)
}

async fn sign_in(State(app): State<Arc<App>>, request: Request) -> Response {
    match signed_in(&app, request).await {
        Ok(response) => response,
        Err(fault) => OpenAiError(fault).into_response(),
    }
}

async fn signed_in(app: &App, request: Request) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let asked = parsed(&read(body, app.config.server.max_body_mb).await?)?;
    let text = |name: &str| asked.string(name);
    let role = if app.access.keys.has_admin() {
        auth::with_key(app, &parts, text("key").trim())?;
        "admin"
    } else {
        at_this_machine(&parts)?;
        "local"
    };
    // Whoever signs in anew leaves the old session.
    if let Some(session) = cookie::session(app, &parts) {
        app.sessions.end(&session);
    }
    let by = match text("by") {
        name if name.trim().is_empty() => auth::named(role, &parts.headers).0,
        name => auth::with_name(role, &name),
    };
    let begun = app.sessions.begin(by, app.access.keys.admin());
    Ok(begins(app, &parts, &begun))
}

async fn sign_out(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let given = parts.headers.get(CSRF).and_then(|value| value.to_str().ok()).unwrap_or("");
    match cookie::session(&app, &parts) {
        Some(session) if !session.has_csrf(given) => OpenAiError(Error::Request {
            message: "cannot sign out: missing header `x-valvehouse-csrf`; load the page again".into(),
            param: None,
            code: Some("csrf_token_needed"),
            kind: RequestErrorKind::Forbidden,
        })
        .into_response(),
        session => {
            session.inspect(|session| app.sessions.end(session));
            let mut response = told(&app, None);
            response.headers_mut().insert(header::SET_COOKIE, cookie::none(&parts));
            response
        }
    }
}

fn begins(app: &App, parts: &Parts, begun: &NewSession) -> Response {
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
