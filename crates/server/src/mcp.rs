//! `/mcp`: the host's tools over the Model Context Protocol, with the keys and limits of the other endpoints,
//! and with access tokens of authorization servers.

use crate::body::{self, BodyLimits};
use crate::credentials::{API_KEY, HOST_KEY, X_API_KEY};
use crate::reply::{json_response, unlogged};
use crate::{address, auth, credentials, facts, recording};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;
use valvehouse_config::ResourceServer;
use valvehouse_core::context::HeldMemory;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::app::App;
use valvehouse_json::{Json, Object};
use valvehouse_mcp::{Caller, Endpoint, HeldToken, Lapse, TokenChecker, TokenRejection};

/// Returns the routes; none if no tool is served.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let server = &app.config.server;
    let serves = |tools: &Vec<String>| !tools.is_empty();
    if !serves(&server.mcp_tools) && !app.access.keys.any_mcp_tools(serves) {
        return Router::new();
    }
    let endpoint = Arc::new(Endpoint::new(app.clone()));
    let tokens = match app.config.oauth.as_ref().map(TokenChecker::new).transpose() {
        Ok(tokens) => tokens.map(Arc::new),
        Err(error) => {
            // Without verified tokens, a host without keys would serve every caller.
            tracing::error!("cannot serve /mcp, since access tokens cannot be verified: {error}");
            return Router::new();
        }
    };
    let metadata = Arc::new(tokens.as_ref().map(|tokens| metadata(tokens.settings())));
    let app = app.clone();
    let serve = move |request: Request| answer(app.clone(), endpoint.clone(), tokens.clone(), request);
    let describe = move || std::future::ready(described(metadata.as_ref().as_ref()));
    Router::new()
        .route("/mcp", get(serve.clone()).post(serve.clone()).delete(serve))
        .route("/.well-known/oauth-protected-resource", get(describe.clone()))
        .route("/.well-known/oauth-protected-resource/mcp", get(describe))
}

/// Handles `GET /.well-known/oauth-protected-resource`: returns the authorization servers of this host (RFC
/// 9728).
fn described(metadata: Option<&Json>) -> Response {
    match metadata {
        Some(metadata) => json_response(StatusCode::OK, metadata),
        None => {
            let message =
                "this host does not accept access tokens; send a key of [server] keys, or set [oauth]";
            let (code, kind) = (Some("no_authorization_server"), RequestErrorKind::NotFound);
            unlogged(&Error::Request { message: message.into(), param: None, code, kind })
        }
    }
}

/// Returns the metadata of the protected resource.
fn metadata(oauth: &ResourceServer) -> Json {
    let list = |texts: &[String]| texts.iter().map(|text| Json::from(text.as_str())).collect::<Vec<_>>();
    Json::from([
        ("resource", oauth.resource.as_str().into()),
        ("authorization_servers", list(&oauth.authorization_servers).into()),
        ("scopes_supported", list(&oauth.scopes).into()),
        ("bearer_methods_supported", vec![Json::from("header")].into()),
        ("resource_name", "Valvehouse".into()),
    ])
}

async fn answer(
    app: Arc<App>,
    endpoint: Arc<Endpoint>,
    tokens: Option<Arc<TokenChecker>>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let caller = match &tokens {
        Some(tokens) if !has_key(&app, &parts) => match bearer(&app, tokens, &parts).await {
            Ok((caller, token)) => {
                let lapse: Lapse = Box::pin(async move { token.lapsed().await });
                Ok((caller, Some(lapse)))
            }
            Err(rejection) => return refused(&app, tokens.settings(), &parts, rejection),
        },
        _ => caller(&app, &parts).map(|caller| (caller, Some(lapse_of_key(app.clone(), parts.clone())))),
    };
    let memory = Arc::new(app.memory.share());
    let read = async { Ok((caller?, counted(&app, body, &memory).await?)) };
    match read.await {
        Ok(((caller, lapse), body)) => {
            let answer = endpoint.answer(Request::from_parts(parts, body), caller, lapse).await;
            held(answer.map(Body::new), memory)
        }
        Err(error) => unlogged(&error),
    }
}

/// Waits until a request with the same key would be rejected.
fn lapse_of_key(app: Arc<App>, parts: Parts) -> Lapse {
    Box::pin(async move {
        while auth::user_of_key(&app, &parts).is_ok() {
            tokio::time::sleep(auth::RECHECK).await;
        }
    })
}

/// The size from which the values of a message are counted, in bytes.
const COUNTED: usize = 256 << 10;

/// Reads a message completely, and counts its values toward the memory of the host. The library reports a message
/// that is not JSON.
///
/// # Errors
/// Returns a request error if the message is too large or has too many values, and an error if the requests of the
/// host hold too much memory.
async fn counted(app: &App, body: Body, memory: &HeldMemory) -> Result<Body, Error> {
    let bytes = body::read(body, &BodyLimits::of(app)).await?;
    if bytes.len() > COUNTED {
        // The texts that the library copies, and its values.
        memory.grow(bytes.len())?;
        if let Err(
            error @ (Error::TooBusy { .. } | Error::Request { kind: RequestErrorKind::TooLarge, .. }),
        ) = body::parsed_within(&bytes, memory)
        {
            return Err(error);
        }
    }
    Ok(Body::from(bytes))
}

/// Returns the response. The memory of its request counts until the connection has received all of it.
fn held(response: Response, memory: Arc<HeldMemory>) -> Response {
    match memory.is_empty() {
        true => response,
        false => recording::followed_to_the_wire(response, memory),
    }
}

/// Returns `true` if a request contains a key of this host.
fn has_key(app: &App, parts: &Parts) -> bool {
    credentials::given_key(&parts.headers).is_some_and(|given| app.access.keys.holder(given).is_some())
}

/// Returns the caller that an access token identifies; the error `None` if the request contains no token.
async fn bearer(
    app: &App,
    tokens: &Arc<TokenChecker>,
    parts: &Parts,
) -> Result<(Caller, HeldToken), Option<TokenRejection>> {
    let token = credentials::given_key(&parts.headers).ok_or(None)?;
    let bearer = tokens.check(token).await.map_err(Some)?;
    let held = HeldToken::new(tokens.clone(), token, &bearer);
    let tools = tokens.settings().mcp_tools.as_ref().unwrap_or(&app.config.server.mcp_tools).clone();
    // The token is for this host only, so it is never forwarded to a provider.
    let mut parts = parts.clone();
    for name in [header::AUTHORIZATION, X_API_KEY, API_KEY, HOST_KEY] {
        parts.headers.remove(name);
    }
    Ok((caller_of(app, &parts, &bearer.user, bearer.owner, tools), held))
}

/// Returns a rejection with a challenge that names the authorization servers (RFC 6750, RFC 9728).
fn refused(app: &App, oauth: &ResourceServer, parts: &Parts, rejection: Option<TokenRejection>) -> Response {
    let error = |message: String, code, kind| Error::Request { message, param: None, code: Some(code), kind };
    let does_not_count = |why: &str| format!("invalid access token: {why}; log in again");
    let (error, reason) = match rejection {
        None => {
            let message = "missing access token: log in at an authorization server from the header www-authenticate, or send a key of [server] keys";
            (error(message.into(), "invalid_api_key", RequestErrorKind::Unauthenticated), None)
        }
        Some(TokenRejection::Foreign(why)) => {
            // The token may be a guess at a key.
            let given = credentials::given_key(&parts.headers).unwrap_or("");
            let error = auth::wrong_key(app, address::client(parts), given, &does_not_count(&why));
            (error, Some("invalid_token"))
        }
        Some(TokenRejection::Invalid(why)) => {
            let error = error(does_not_count(&why), "invalid_token", RequestErrorKind::Unauthenticated);
            (error, Some("invalid_token"))
        }
        Some(TokenRejection::Scopes(missing)) => {
            let message = format!(
                "this access token does not have the scopes `{}`; log in with them",
                missing.join(" ")
            );
            let code = "insufficient_scope";
            (error(message, code, RequestErrorKind::Forbidden), Some(code))
        }
        Some(TokenRejection::Unavailable(why)) => {
            tracing::warn!("cannot verify an access token: {why}");
            let message =
                "cannot verify this access token: its authorization server does not answer; try again later";
            let mut response = unlogged(&Error::Host(message.into()));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return response;
        }
    };
    let mut url = oauth.resource.clone();
    url.set_path("/.well-known/oauth-protected-resource/mcp");
    url.set_query(None);
    let mut challenge = format!("Bearer resource_metadata=\"{url}\"");
    if !oauth.scopes.is_empty() {
        challenge.push_str(&format!(", scope=\"{}\"", oauth.scopes.join(" ")));
    }
    if let Some(reason) = reason {
        challenge.push_str(&format!(", error=\"{reason}\""));
    }
    let mut response = unlogged(&error);
    if let Ok(value) = HeaderValue::from_str(&challenge) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
    }
    response
}

/// Returns the caller that a key identifies.
fn caller(app: &Arc<App>, parts: &Parts) -> Result<Caller, Error> {
    let key_user = auth::user_of_key(app, parts)?;
    let own = credentials::given_key(&parts.headers).and_then(|given| app.access.keys.mcp_tools(given));
    let tools = own.unwrap_or_else(|| app.config.server.mcp_tools.clone());
    let caller = caller_of(app, parts, &key_user, auth::asker(app, &parts.headers), tools);
    if let Some(exchange) = &caller.facts.exchange {
        exchange.count_by(recording::counting(app, parts));
    }
    Ok(caller)
}

fn caller_of(app: &App, parts: &Parts, user: &Json, owner: String, tools: Vec<String>) -> Caller {
    let body = Json::object();
    let listed = app.host.snapshot().listed().clone();
    let facts = facts::of_body(app, parts, &body, user, Json::Null, listed);
    let variables: Object = facts.variables.entries().into_iter().collect();
    let tool_search = app.config.server.mcp_tool_search;
    Caller { owner, facts, variables: variables.into(), tools, tool_search }
}
