//! Who may ask, and who that is.

use crate::app::App;
use crate::fault::{Fault, RequestFault};
use crate::json::Json;
use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

/// The user bound to the key of a request; null where the key is nobody's, or none is needed.
pub(crate) fn user_of_key(app: &App, headers: &HeaderMap) -> Result<Json, Fault> {
    let keys = &app.config.server.keys;
    if keys.is_empty() {
        return Ok(Json::Null);
    }
    let refused = |message: &str| {
        Err(Fault::Request {
            message: message.into(),
            param: None,
            code: Some("invalid_api_key"),
            kind: RequestFault::Unauthenticated,
        })
    };
    let Some(given) = given_key(headers) else {
        return refused("no API key: send `Authorization: Bearer KEY` with a key of [server] keys");
    };
    for key in keys {
        // A key that cannot be read opens nothing.
        let Ok(secret) = key.key.read() else { continue };
        if secret.expose().as_bytes().ct_eq(given.as_bytes()).into() {
            return Ok(key.user.clone().unwrap_or_default());
        }
    }
    refused("this API key is not one of [server] keys")
}

fn given_key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    bearer.or_else(|| headers.get("x-api-key").and_then(|value| value.to_str().ok()))
}
