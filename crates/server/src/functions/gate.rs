//! The rights at these routes: operators may use all of them, a user those about themselves.

use crate::auth;
use crate::reply::Detail;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::fault::{Fault, RequestFault};
use valvehouse_host::app::App;

/// Lets operators by.
pub(super) async fn operators(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match auth::operator(&app, &parts) {
        Ok(operator) => {
            parts.extensions.insert(operator);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(fault) => Detail(fault).into_response(),
    }
}

/// The sender of a request about user valves.
pub(super) enum Asker {
    /// An operator, by the name that is written down.
    Operator(String),
    /// The user that a key is bound to.
    User(String),
}

impl Asker {
    /// Returns the sender of this request; nobody where that is not known.
    pub(super) fn of(app: &App, parts: &Parts) -> Result<Self, Fault> {
        // A user's own key is checked first: it does not count as a failed attempt at the operators' key. The
        // operators' key may name any user.
        match auth::user_id(app, parts).filter(|_| !auth::may_operate_by_key(app, parts)) {
            Some(id) => Ok(Self::User(id)),
            None => auth::operator(app, parts).map(|operator| Self::Operator(operator.0)),
        }
    }

    /// The user whose valves are meant, and the sender: operators name a user, users are meant themselves.
    pub(super) fn means(self, named: Option<String>) -> Result<(String, String), Fault> {
        match (self, named) {
            (Self::Operator(by), Some(user)) => Ok((user, by)),
            (Self::Operator(_), None) => {
                let message = "whose valves? name a user: ?user=ID, or use a key that is bound to one";
                Err(Fault::invalid(message, Some("user")))
            }
            (Self::User(own), Some(other)) if other != own => Err(Fault::Request {
                message: format!("this key is {own}'s: the valves of others are for operators"),
                param: Some("user"),
                code: Some("not_your_valves"),
                kind: RequestFault::Forbidden,
            }),
            (Self::User(own), _) => Ok((own.clone(), own)),
        }
    }
}
