//! A connection to an MCP server, with or without sessions.

use super::ask;
use super::child::Program;
use super::link::{Link, Remote, is_stateless};
use super::oauth;
use super::repair::{RepairingClient, repaired_lines};
use http::StatusCode;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability,
    FormElicitationCapability, Implementation, ProgressNotificationParam, ProtocolVersion,
    ResourceUpdatedNotificationParam, SubscriptionFilter, UrlElicitationCapability,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, NotificationContext, RequestContext,
    RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{AuthClient, StreamableHttpClientTransport};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_config::{McpAuth, McpTransport};
use valvehouse_core::text::shortened;
use valvehouse_json::Json;

/// The time limit for a server's first response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The minimum size limit of a response in bytes, because lists are larger than results.
const MIN_ANSWER: usize = 4 << 20;
/// The maximum length of an answer in an error, in bytes.
const MAX_WORDS: usize = 300;

/// A connection, closed when it is dropped.
pub(super) struct Connection {
    running: RunningService<RoleClient, Client>,
    program: Option<Program>,
    /// The id of the login whose tokens it uses.
    login: Option<String>,
}

/// The reason why a server cannot be used.
#[derive(Debug)]
pub(super) struct Unavailable {
    /// The reason as a text.
    pub(super) why: String,
    /// The `WWW-Authenticate` header of its rejection, if it requires a token or rejects the given one.
    pub(super) challenge: Option<String>,
    /// `true` if the server did not respond in time.
    pub(super) is_silent: bool,
}

impl From<String> for Unavailable {
    fn from(why: String) -> Self {
        Self { why, challenge: None, is_silent: false }
    }
}

/// The host as a client of MCP servers.
#[derive(Clone)]
pub(super) struct Client(Arc<Link>);

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("valvehouse", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::new())
                .with_url(UrlElicitationCapability::default()),
        );
        ClientConfig::new(capabilities, own)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let server = &self.0.server;
        // A server with sessions does not say which call its question belongs to.
        let Some(call) = self.0.only_call() else {
            let why =
                "cannot pass a question of the server on: it does not belong to exactly one running call";
            tracing::warn!(server = server.name, "{why}");
            return Err(ErrorData::invalid_request(why, None));
        };
        let answer = ask::elicit(&server.name, &call, &request, server.timeout).await;
        answer.map_err(|why| ErrorData::invalid_request(why, None))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.look_again.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.look_again.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.look_again.notify_one();
    }

    async fn on_resource_updated(
        &self,
        param: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Some(subscriptions) = &self.0.subscriptions {
            subscriptions.updated(&self.0.server.name, &param.uri);
        }
    }

    async fn on_progress(&self, param: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let call = self.0.progress.lock().get(&param.progress_token).cloned();
        let Some(call) = call else { return };
        // A text that a guard refuses is dropped; the progress itself is a number.
        let message = match param.message {
            Some(message) => call.shown(message.into()).await.ok(),
            None => None,
        };
        let data = Json::from([
            ("description", message.filter(|message| message.as_str().is_some()).into()),
            ("progress", Json::from(serde_json::json!(param.progress))),
            ("total", Json::from(serde_json::json!(param.total))),
            ("done", false.into()),
        ]);
        // A turn that has emitted too many events continues without this one.
        let _ = call.turn.emit(&self.0.server.name, Json::from([("type", "status".into()), ("data", data)]));
    }
}

impl Connection {
    /// Connects to a server.
    ///
    /// # Errors
    /// Returns the reason.
    pub(super) async fn open(link: &Arc<Link>) -> Result<Self, Unavailable> {
        let is_program = matches!(link.server.transport, McpTransport::Command { .. });
        let opened = match Self::open_as(link, true).await {
            // A program that starts slowly responds to the request for its version only after the time limit.
            Err(_) if is_program => Self::open_as(link, false).await,
            // Some servers with sessions respond to unknown requests with an empty result.
            Err(error) if !error.is_silent && error.challenge.is_none() => Self::open_as(link, false).await,
            opened => opened,
        }?;
        // Lists must not be cached as long as the server allows: an unreachable server or a changed tool
        // would go unnoticed.
        opened.running.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        Ok(opened)
    }

    /// Connects. With `asks`, the protocol version without sessions is tried first.
    async fn open_as(link: &Arc<Link>, asks: bool) -> Result<Self, Unavailable> {
        let client = Client(link.clone());
        let lifecycle = match asks {
            true => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: None,
            },
            false => ClientLifecycleMode::Initialize,
        };
        let max_answer = link.server.max_result.saturating_mul(2).max(MIN_ANSWER);
        let opening = async {
            match &link.server.transport {
                McpTransport::Http { url, auth } => {
                    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                    config.max_json_response_size = max_answer;
                    config.max_sse_event_size = max_answer;
                    if let McpAuth::Bearer(source) = auth {
                        let token = source.read().map_err(|error| error.to_string())?;
                        config.auth_header = Some(token.expose().to_owned());
                    }
                    let http =
                        valvehouse_net::following_nobody(url).await.map_err(|error| error.to_string())?;
                    let http = RepairingClient(http);
                    let (running, login) = match (auth, &link.vault) {
                        (McpAuth::OAuth(_), Some(vault)) => {
                            let (manager, login) = oauth::manager(&link.server.name, url, vault)
                                .await
                                .map_err(|error| error.to_string())?;
                            let transport = StreamableHttpClientTransport::with_client(
                                AuthClient::new(http, manager),
                                config,
                            );
                            (serve_client_with_lifecycle(client, transport, lifecycle).await, Some(login))
                        }
                        _ => {
                            let transport = StreamableHttpClientTransport::with_client(http, config);
                            (serve_client_with_lifecycle(client, transport, lifecycle).await, None)
                        }
                    };
                    let running = running.map_err(|error| refused(&error, &link.server.name, auth))?;
                    Ok(Self { running, program: None, login })
                }
                McpTransport::Command { command, env, cwd } => {
                    let (program, output, input) = Program::start(&link.server.name, command, env, cwd)?;
                    let output = repaired_lines(output);
                    match serve_client_with_lifecycle(client, (output, input), lifecycle).await {
                        Ok(running) => Ok(Self { running, program: Some(program), login: None }),
                        Err(error) => Err(with_last_words(plain(&error.to_string()), &program).into()),
                    }
                }
            }
        };
        let opened = tokio::time::timeout(TIMEOUT, opening).await;
        opened.unwrap_or_else(|_| {
            let why = format!("it did not answer within {} s", TIMEOUT.as_secs());
            Err(Unavailable { why, challenge: None, is_silent: true })
        })
    }

    /// Returns the id of the login whose tokens it uses.
    pub(super) fn login(&self) -> Option<&str> {
        self.login.as_deref()
    }

    /// Returns the handle for requests to the server.
    pub(super) fn remote(&self) -> Remote {
        self.running.peer().clone()
    }

    /// Waits for the end of the connection, and returns the reason.
    pub(super) async fn ended(&self) -> String {
        // The interval is short, so that calls rarely find the connection closed.
        while !self.running.is_closed() && !self.running.peer().is_transport_closed() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let cause = "its connection ended".to_owned();
        match &self.program {
            Some(program) => with_last_words(cause, program),
            None => cause,
        }
    }

    /// Closes the connection. A program gets a moment to end by itself.
    pub(super) async fn close(self) {
        let Self { mut running, program, .. } = self;
        let _ = running.close_with_timeout(Duration::from_secs(2)).await;
        drop(running);
        if let Some(program) = program {
            program.end().await;
        }
    }
}

/// Returns the reason why a server rejected the connection.
fn refused(error: &ClientInitializeError, server: &str, auth: &McpAuth) -> Unavailable {
    let Some(challenge) = error.auth_challenge() else { return plain(&error.to_string()).into() };
    let why = match auth {
        McpAuth::None => {
            "it needs a token: set `auth` to the token, or to \"oauth\" for a login in the browser".to_owned()
        }
        McpAuth::Bearer(_) => "it rejected the token of `auth`".to_owned(),
        McpAuth::OAuth(_) => format!("it rejected the token of the login; {}", oauth::login_help(server)),
    };
    Unavailable { challenge: Some(challenge.to_owned()), ..Unavailable::from(why) }
}

/// Returns the text of an error without the Rust type in brackets, and with the status of an answer over HTTP in
/// words.
pub(super) fn plain(error: &str) -> String {
    let cause = error.split_once("Transport [").and_then(|(_, rest)| rest.split_once("] error: "));
    let cause = cause.map_or(error, |(_, cause)| cause);
    match cause.strip_prefix("unexpected server response: ").unwrap_or(cause).strip_prefix("HTTP ") {
        Some(answer) => {
            let status = answer.parse::<StatusCode>().map(|status| status.to_string());
            format!("it answered {}", shortened(status.unwrap_or_else(|_| answer.to_owned()), MAX_WORDS))
        }
        None => cause.to_owned(),
    }
}

fn with_last_words(cause: String, program: &Program) -> String {
    let words = program.last_words();
    if words.is_empty() { cause } else { format!("{cause}; its error output: {words}") }
}

/// Follows the lists of a server without sessions. Servers with sessions send notifications by themselves.
pub(super) async fn follow(remote: &Remote, link: &Link) {
    if !is_stateless(remote) {
        return std::future::pending().await;
    }
    loop {
        let lists = SubscriptionFilter::builder().tools_list_changed().prompts_list_changed();
        let filter = lists.resources_list_changed().build();
        let Ok(mut subscription) = remote.listen(filter).await else {
            // The server sends no notifications; its lists are read again after the next connection.
            return std::future::pending().await;
        };
        while let Ok(Some(_)) = subscription.next().await {
            link.look_again.notify_one();
        }
        // Notifications may have been lost with the stream.
        link.look_again.notify_one();
        tokio::time::sleep(Duration::from_millis(1_000 + fastrand::u64(0..4_000))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn connection_errors_name_no_rust_types() {
        let error =
            "Send message error Transport [rmcp::worker::Worker<Client>] error: Client error: refused";
        assert_eq!(plain(error), "Client error: refused");
        assert_eq!(plain("connection closed"), "connection closed");
        let status = "Transport send error: Transport [rmcp::transport::worker::WorkerTransport<Client>] error: HTTP 500";
        assert_eq!(plain(status), "it answered 500 Internal Server Error");
        let body = "Transport [Worker] error: unexpected server response: HTTP 400 Bad Request: no session";
        assert_eq!(plain(body), "it answered 400 Bad Request: no session");
    }
}
