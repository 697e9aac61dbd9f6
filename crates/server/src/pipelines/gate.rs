//! The rights at these endpoints: keys for chats, or operators only. A request without a header gets 403 and
//! a wrong key 401, as at pipelines servers.

use crate::reply::Detail;
use crate::{auth, credentials};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::fault::{Fault, RequestFault};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The user bound to the key of a request, null where it is nobody's: handlers take it as an extension.
#[derive(Debug, Clone)]
pub(super) struct KeyUser(pub(super) Json);

/// Lets by whoever may chat, and operators.
pub(super) async fn all(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match user(&app, &parts) {
        Ok(user) => {
            parts.extensions.insert(KeyUser(user));
            next.run(Request::from_parts(parts, body)).await
        }
        Err(fault) => Detail(fault).into_response(),
    }
}

/// Lets operators by.
pub(super) async fn operators(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let operator = user(&app, &parts).and_then(|_| operator(&app, &parts));
    match operator {
        Ok(operator) => {
            parts.extensions.insert(operator);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(fault) => Detail(fault).into_response(),
    }
}

fn operator(app: &App, parts: &Parts) -> Result<auth::Operator, Fault> {
    let opens_less = app.access.keys.has_admin()
        && credentials::given_key(&parts.headers).is_some()
        && !auth::may_operate(app, parts);
    if opens_less {
        // A key that is right elsewhere is not a guess at this one.
        return Err(Fault::Request {
            message: "this is for operators: give Open WebUI the key of [admin] for this connection".into(),
            param: None,
            code: Some("admin_key_needed"),
            kind: RequestFault::Forbidden,
        });
    }
    auth::operator(app, parts)
}

/// The user whose key it is.
fn user(app: &App, parts: &Parts) -> Result<Json, Fault> {
    auth::user_of_key(app, parts).map_err(|fault| match credentials::given_key(&parts.headers) {
        Some(_) => fault,
        None => of_kind(fault, RequestFault::Forbidden),
    })
}

fn of_kind(fault: Fault, kind: RequestFault) -> Fault {
    match fault {
        Fault::Request { message, param, code, .. } => Fault::Request { message, param, code, kind },
        other => other,
    }
}
