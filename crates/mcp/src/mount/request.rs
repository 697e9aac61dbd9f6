//! A request of a turn to a server: its progress, its cancellation with the turn, and its errors.

use super::connection::plain;
use super::guarded_call::GuardedCall;
use super::link::{Link, Remote};
use super::oauth;
use rmcp::ServiceError;
use rmcp::model::{CancelledNotificationParam, ClientRequest, ProgressToken, RequestId, ServerResult};
use rmcp::service::PeerRequestOptions;
use serde::Serialize;
use std::sync::Arc;
use valvehouse_config::McpTransport;
use valvehouse_core::tool::ToolError;

/// The maximum number of questions of a server within one call.
pub(super) const MAX_ROUNDS: usize = 10;
/// The maximum number of content blocks in a result.
const MAX_BLOCKS: usize = 256;

/// Sends a request. Its progress is reported to the turn, and it is canceled when the turn ends.
///
/// # Errors
/// Returns an error for models if the server fails or rejects the request.
pub(super) async fn send(
    link: &Arc<Link>,
    remote: &Remote,
    request: ClientRequest,
    call: &Arc<GuardedCall>,
) -> Result<ServerResult, ToolError> {
    let sent = remote.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let handle = match sent {
        Ok(handle) => handle,
        Err(error) => return Err(failed(link, &error).await),
    };
    let mut following = OpenCall::begin(link, call, handle.progress_token.clone(), handle.id.clone());
    let answered = handle.await_response().await;
    following.is_over = true;
    match answered {
        Ok(result) => Ok(result),
        Err(error) => Err(failed(link, &error).await),
    }
}

/// Checks that a result with this number of parts is within the limits of its server.
///
/// # Errors
/// Returns an error for models if a limit is exceeded.
pub(super) fn check_size(link: &Link, result: &impl Serialize, parts: usize) -> Result<(), ToolError> {
    let length = serde_json::to_vec(result).map_or(usize::MAX, |bytes| bytes.len());
    let max = link.server.max_result;
    if length > max {
        let (length, max) = (length / 1_024, max / 1_024);
        return Err(format!("the result exceeded its limit of {max} KB with {length} KB").into());
    }
    if parts > MAX_BLOCKS {
        return Err(format!("the result exceeded its limit of {MAX_BLOCKS} parts with {parts}").into());
    }
    Ok(())
}

async fn failed(link: &Link, error: &ServiceError) -> ToolError {
    if let Some(why) = refused(link, error).await {
        return why.into();
    }
    if matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_)) {
        link.look_again.notify_one();
    }
    let why = link.showable(plain(&error.to_string()));
    format!("the server `{}` failed: {why}", link.server.name).into()
}

/// Returns the reason of a server that rejected the token, for models and operators.
async fn refused(link: &Link, error: &ServiceError) -> Option<String> {
    let challenge = error.auth_challenge()?;
    let server = &link.server;
    let McpTransport::Http { url, .. } = &server.transport else { return None };
    let Some(vault) = &link.vault else {
        return Some(format!("the server `{}` rejected the token of `auth`", server.name));
    };
    let Some(scopes) = oauth::lacks(challenge, url) else {
        link.look_again.notify_one();
        let help = oauth::login_help(&server.name);
        return Some(format!("the server `{}` rejected the token of the login; {help}", server.name));
    };
    vault.note_missing(&scopes).await;
    let needed = if scopes.is_empty() { "more scopes".to_owned() } else { format!("the scopes `{scopes}`") };
    let help = oauth::login_help(&server.name);
    Some(format!(
        "the server `{}` needs {needed} for this call, which the login does not have; {help}",
        server.name
    ))
}

/// A call in progress. Its progress is reported to its turn, and the server is notified if the turn ends
/// first.
struct OpenCall<'a> {
    link: &'a Arc<Link>,
    token: ProgressToken,
    id: RequestId,
    is_over: bool,
}

impl<'a> OpenCall<'a> {
    fn begin(link: &'a Arc<Link>, call: &Arc<GuardedCall>, token: ProgressToken, id: RequestId) -> Self {
        link.progress.lock().insert(token.clone(), call.clone());
        Self { link, token, id, is_over: false }
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.link.progress.lock().remove(&self.token);
        if self.is_over {
            return;
        }
        if let (Some(remote), Ok(runtime)) = (self.link.connected(), tokio::runtime::Handle::try_current()) {
            let id = self.id.clone();
            runtime.spawn(async move {
                let why = "the caller has canceled the call".to_owned();
                let param = CancelledNotificationParam::new(Some(id), Some(why));
                if let Err(error) = remote.notify_cancelled(param).await {
                    tracing::debug!("cannot cancel a call at its server: {error}");
                }
            });
        }
    }
}
