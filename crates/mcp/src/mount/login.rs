//! A user's login to an MCP server, in a browser that is redirected to this computer with a code.

use super::connection::Connection;
use super::link::Link;
use super::lists::lists;
use super::oauth::{ClientIdentity, Vault, config, plain};
use crate::error::McpError;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use rmcp::transport::auth::{AuthorizationManager, AuthorizationMetadata};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;
use valvehouse_config::{McpAuth, McpOAuth, McpServer, McpTransport};
use valvehouse_core::error::BoxError;
use valvehouse_store::Store;

/// The time limit of a login.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The time limit for the request of a browser.
const REQUEST: Duration = Duration::from_secs(10);
/// The maximum size of a browser's request, in bytes.
const MAX_REQUEST: usize = 16 << 10;
/// The path that the browser is redirected to.
const CALLBACK: &str = "/callback";

/// Logs a user in, and returns the granted scopes. `announce` is called with the URL to open in a browser.
///
/// The tokens replace those of an earlier login in the store; hosts use them within seconds.
///
/// # Errors
/// Returns [`McpError::Login`] if the server's `auth` is not a login, a server cannot be reached or rejects a
/// request, or no user logged in within ten minutes.
// Boxed, so that the library's login is compiled here and not in the dependent packages.
pub fn login<'a>(
    server: &'a McpServer,
    store: &'a Arc<Store>,
    announce: Box<dyn FnOnce(&str) + Send + 'a>,
) -> BoxFuture<'a, Result<Vec<String>, McpError>> {
    logged_in(server, store, announce).map_err(McpError::Login).boxed()
}

async fn logged_in(
    server: &McpServer,
    store: &Arc<Store>,
    announce: Box<dyn FnOnce(&str) + Send + '_>,
) -> Result<Vec<String>, BoxError> {
    let (url, oauth, vault) = oauth_of(server, store)?;
    let before = vault.login().await?;
    let listener = TcpListener::bind(("127.0.0.1", oauth.redirect_port)).await;
    let port = listener.as_ref().ok().and_then(|listener| listener.local_addr().ok());
    let (Ok(listener), Some(port)) = (listener, port.map(|address| address.port())) else {
        return Err(format!(
            "cannot listen on port {} of this machine: it is in use; change oauth.redirect_port",
            oauth.redirect_port
        )
        .into());
    };
    let redirect_uri = format!("http://127.0.0.1:{port}{CALLBACK}");

    let challenge = challenge(server).await;
    let mut manager = AuthorizationManager::new(url.clone()).await.map_err(|error| plain(&error))?;
    let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await;
    let metadata = found.map_err(|error| plain(&error))?.metadata;
    manager.set_metadata(metadata.clone());

    let mut scopes = match oauth.scopes.is_empty() {
        true => manager.select_initial_scopes(&[]).await,
        false => oauth.scopes.clone(),
    };
    // A new login requests the scopes that an earlier one was granted.
    if let Some(before) = before.filter(|before| before.credentials.issuer == metadata.issuer) {
        let more = before.credentials.granted_scopes.into_iter().chain(before.missing);
        for scope in more {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
    }
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let client = client(&mut manager, &metadata, oauth, redirect_uri, &scopes).await?;
    vault.begin(client);
    manager.set_credential_store(vault.clone());
    let address = manager.get_authorization_url(&scopes).await.map_err(|error| plain(&error))?;
    let state = query(&address, "state").ok_or("the login URL has no `state`")?;
    announce(&address);
    let callback = tokio::time::timeout(TIMEOUT, returned(&listener, &state)).await;
    let callback =
        callback.map_err(|_| format!("no login within {} minutes; try again", TIMEOUT.as_secs() / 60))??;
    manager
        .exchange_code_for_token_with_issuer(&callback.code, &state, callback.issuer.as_deref())
        .await
        .map_err(|error| plain(&error))?;
    let login = vault.login().await?.ok_or("the login was not stored")?;
    Ok(login.credentials.granted_scopes)
}

/// Deletes the tokens of a server. Returns `true` if there were any.
///
/// # Errors
/// Returns [`McpError::Login`] if the server's `auth` is not a login, or the store cannot be written.
pub fn logout<'a>(server: &'a McpServer, store: &'a Arc<Store>) -> BoxFuture<'a, Result<bool, McpError>> {
    async { Ok(oauth_of(server, store)?.2.forget().await?) }.map_err(McpError::Login).boxed()
}

fn oauth_of<'s>(
    server: &'s McpServer,
    store: &Arc<Store>,
) -> Result<(&'s Url, &'s McpOAuth, Vault), BoxError> {
    match (&server.transport, Vault::of(server, store)) {
        (McpTransport::Http { url, auth: McpAuth::OAuth(oauth) }, Some(vault)) => Ok((url, oauth, vault)),
        _ => Err("it does not use a login: set auth = \"oauth\" next to its `url`".into()),
    }
}

/// Returns the challenge of the server to a client without a token. Some servers accept any connection and
/// reject the list of tools.
async fn challenge(server: &McpServer) -> Option<String> {
    let mut without = server.clone();
    if let McpTransport::Http { auth, .. } = &mut without.transport {
        *auth = McpAuth::None;
    }
    let connection = match Connection::open(&Link::new(without, None, None)).await {
        Ok(connection) => connection,
        Err(error) => return error.challenge,
    };
    let listed = lists(&connection.remote()).await;
    connection.close().await;
    listed.err().and_then(|error| error.challenge)
}

/// Returns the configured client, or registers one.
async fn client(
    manager: &mut AuthorizationManager,
    metadata: &AuthorizationMetadata,
    oauth: &McpOAuth,
    redirect_uri: String,
    scopes: &[&str],
) -> Result<ClientIdentity, BoxError> {
    let reads_documents =
        metadata.additional_fields.get("client_id_metadata_document_supported").is_some_and(|it| it == true);
    let document = oauth.client_metadata_url.as_ref().filter(|_| reads_documents);
    let known = match (&oauth.client_id, document) {
        (Some(id), _) => {
            let secret = oauth.client_secret.as_ref().map(|source| source.read()).transpose();
            let secret = secret?.map(|secret| secret.expose().to_owned());
            Some(ClientIdentity { id: id.clone(), secret, redirect_uri: redirect_uri.clone() })
        }
        (None, Some(url)) => {
            Some(ClientIdentity { id: url.to_string(), secret: None, redirect_uri: redirect_uri.clone() })
        }
        (None, None) => None,
    };
    if let Some(client) = known {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        manager.configure_client(config(&client, scopes)).map_err(|error| plain(&error))?;
        return Ok(client);
    }
    let registered = manager
        .register_client("Valvehouse", &redirect_uri, scopes)
        .await
        .map_err(|error| format!("{}; register this host yourself and set oauth.client_id", plain(&error)))?;
    Ok(ClientIdentity { id: registered.client_id, secret: registered.client_secret, redirect_uri })
}

/// The response of an authorization server, delivered by the browser.
struct Callback {
    code: String,
    issuer: Option<String>,
}

/// Waits for the browser. Requests with another state belong to other logins.
async fn returned(listener: &TcpListener, state: &str) -> Result<Callback, BoxError> {
    loop {
        let (mut stream, _) =
            listener.accept().await.map_err(|error| format!("cannot wait for the browser: {error}"))?;
        let path = tokio::time::timeout(REQUEST, path(&mut stream)).await;
        let Ok(Some(path)) = path else { continue };
        let address = format!("http://127.0.0.1{path}");
        if !path.starts_with(CALLBACK) || query(&address, "state").is_none_or(|given| given != state) {
            reply(stream, "404 Not Found", "This link belongs to another login.").await;
            continue;
        }
        if let Some(code) = query(&address, "code") {
            reply(stream, "200 OK", "Logged in. This page can be closed.").await;
            return Ok(Callback { code, issuer: query(&address, "iss") });
        }
        reply(stream, "200 OK", "Not logged in. The terminal shows the reason.").await;
        let why = query(&address, "error_description").or_else(|| query(&address, "error"));
        return Err(match why {
            Some(why) => format!("the authorization server refused the login: {why}").into(),
            None => "the authorization server sent no code".into(),
        });
    }
}

/// Returns the path and query of a request.
async fn path(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 1_024];
        let length = stream.read(&mut part).await.ok().filter(|length| *length > 0)?;
        head.extend_from_slice(&part[..length]);
        if head.len() > MAX_REQUEST {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    (words.next() == Some("GET")).then(|| words.next().map(str::to_owned)).flatten()
}

async fn reply(mut stream: TcpStream, status: &str, text: &str) {
    let page = format!("<!doctype html><meta charset=\"utf-8\"><title>Valvehouse</title><p>{text}</p>");
    let length = page.len();
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\ncache-control: no-store\r\n\r\n{page}"
    );
    // The login does not depend on whether the browser reads the response.
    if stream.write_all(response.as_bytes()).await.is_ok() {
        drop(stream.shutdown().await);
    }
}

fn query(address: &str, name: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
