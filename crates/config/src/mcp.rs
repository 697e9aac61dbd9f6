//! Other MCP servers, whose tools the host offers.

use crate::secret::SecretSource;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// `[[mcp]]`: one server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    /// The name; its tools appear as `NAME_tool`.
    pub name: String,
    /// The way to it.
    pub transport: McpTransport,
    /// The tools that are offered: names, with `*` for any text.
    pub tools: Vec<String>,
    /// The tools that are offered without approval.
    pub trust: McpTrust,
    /// The time one call may take.
    pub timeout: Duration,
    /// The most calls at once.
    pub concurrency: usize,
    /// The most bytes of one result.
    pub max_result: usize,
}

impl McpServer {
    /// The secrets of its settings, each with its dotted key.
    pub(crate) fn secrets(&self) -> Vec<(String, &SecretSource)> {
        let key = |name: &str| format!("mcp.{}.{name}", self.name);
        match &self.transport {
            McpTransport::Http { auth: McpAuth::None, .. } => Vec::new(),
            McpTransport::Http { auth: McpAuth::Bearer(source), .. } => vec![(key("auth"), source)],
            McpTransport::Http { auth: McpAuth::OAuth(oauth), .. } => {
                oauth.client_secret.iter().map(|source| (key("oauth.client_secret"), source)).collect()
            }
            McpTransport::Command { env, .. } => {
                env.iter().map(|(name, source)| (key(&format!("env.{name}")), source)).collect()
            }
        }
    }
}

/// The way to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum McpTransport {
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: Url,
        /// The credential of requests.
        auth: McpAuth,
    },
    /// A program that speaks over its standard input and output.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
        /// Its environment: nothing else is in it but `PATH`.
        env: Vec<(String, SecretSource)>,
        /// The folder it runs in.
        cwd: PathBuf,
    },
}

/// The credential that a server is sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum McpAuth {
    /// No credential.
    #[default]
    None,
    /// A bearer token of the settings.
    Bearer(SecretSource),
    /// An access token of OAuth 2.1, which `valvehouse mcp login` gets and hosts refresh.
    OAuth(McpOAuth),
}

/// The client that this host is for the authorization server of an MCP server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpOAuth {
    /// The id under which an operator registered it; without one it registers itself.
    pub client_id: Option<String>,
    /// The secret that belongs to the id.
    pub client_secret: Option<SecretSource>,
    /// The address of a document about the client, which is its id where the authorization server reads such documents.
    pub client_metadata_url: Option<Url>,
    /// The scopes that are requested, in place of those that the server names.
    pub scopes: Vec<String>,
    /// The port of this machine that a browser is sent back to; 0 for any free one.
    pub redirect_port: u16,
}

/// The tools of a server that are offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum McpTrust {
    /// Those whose name, description and schema an operator approved.
    #[default]
    Pin,
    /// All, as the server has them at the time.
    Always,
}

impl McpTrust {
    /// Returns the word of the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pin => "pin",
            Self::Always => "always",
        }
    }
}

/// `[interceptors.ID]`: a filter that other hosts may call at `/mcp`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interceptor {
    /// The type as other hosts see it.
    pub kind: InterceptorKind,
    /// The mode as other hosts see it.
    pub mode: InterceptorMode,
}

/// The type of an interceptor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InterceptorKind {
    /// Returns the payload, changed or not.
    #[default]
    Mutation,
    /// Returns a decision alone.
    Validation,
}

impl InterceptorKind {
    /// Returns the word of the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mutation => "mutation",
            Self::Validation => "validation",
        }
    }
}

/// The mode of an interceptor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InterceptorMode {
    /// Its caller blocks what it refuses, and takes what it changes.
    #[default]
    Enforce,
    /// Its caller records what it decides, and does nothing else about it.
    Audit,
}

impl InterceptorMode {
    /// Returns the word of the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Audit => "audit",
        }
    }
}

/// `[oauth]`: the authorization servers whose tokens `/mcp` takes beside the host's own keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceServer {
    /// Their issuers, exactly as their tokens name them.
    pub authorization_servers: Vec<String>,
    /// The public address of `/mcp`, for which tokens are made.
    pub resource: Url,
    /// The scopes that a token needs.
    pub scopes: Vec<String>,
    /// The claim that names the user.
    pub user_claim: String,
    /// The tools that holders of tokens see, where they are others than those of `server.mcp_tools`.
    pub mcp_tools: Option<Vec<String>>,
    /// The endpoint that checks tokens which are not JSON web tokens.
    pub introspection: Option<Introspection>,
}

impl ResourceServer {
    /// The secret of its settings, with its dotted key.
    pub(crate) fn secrets(&self) -> Option<(String, &SecretSource)> {
        let introspection = self.introspection.as_ref()?;
        Some(("oauth.client_secret".to_owned(), &introspection.client_secret))
    }
}

/// The introspection endpoint of an authorization server (RFC 7662), and the client that this host is for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introspection {
    /// Its address.
    pub url: Url,
    /// The id under which this host is registered.
    pub client_id: String,
    /// The secret that belongs to the id.
    pub client_secret: SecretSource,
}
