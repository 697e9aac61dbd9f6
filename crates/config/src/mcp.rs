//! Other MCP servers, whose tools the host offers.

use crate::forms::WebUrl;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;
use valvehouse_grants::{Millis, SecretSource};

/// `[[mcp]]`: one server.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct McpServer {
    /// The server's name; its tools are called `NAME_tool`.
    #[schemars(regex(pattern = r"^[a-z0-9_-]{1,32}$"))]
    #[schemars(extend("x-form" = "1 to 32 characters of a-z, 0-9, `_` and `-`", "examples" = ["github"]))]
    pub name: String,
    /// The way to it.
    #[serde(flatten)]
    pub transport: McpTransport,
    /// The tools that are offered.
    #[schemars(extend("x-form" = "names, with `*` for any text", "default" = ["*"], "examples" = [["search_*"]]))]
    pub tools: Vec<String>,
    /// `pin`: only tools whose name, description and schema are as approved by `valvehouse mcp approve NAME` are
    /// offered. `always`: all tools of the server.
    #[schemars(extend("default" = "pin", "examples" = ["always"]))]
    pub trust: McpTrust,
    /// The timeout of a call.
    #[serde(rename = "timeout_ms", with = "Millis")]
    #[schemars(range(min = 1, max = 3_600_000), extend("default" = 60_000, "examples" = [10_000]))]
    pub timeout: Duration,
    /// The maximum number of concurrent calls; others wait.
    #[schemars(range(min = 1, max = 1000), extend("default" = 8, "examples" = [2]))]
    pub concurrency: usize,
    /// The maximum size of a result, in kilobytes.
    #[serde(rename = "max_result_kb", deserialize_with = "kilobytes")]
    #[schemars(range(min = 1, max = 65_536), extend("default" = 1024, "examples" = [64]))]
    pub max_result: usize,
}

/// A number of kilobytes in bytes.
fn kilobytes<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    usize::deserialize(from).map(|size| size * 1_024)
}

/// The way to a server.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(from = "Transport")]
#[schemars(with = "Transport")]
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

impl McpTransport {
    /// Returns the program and its arguments without secrets, as the settings show them; nothing for a URL.
    pub fn shown_command(&self) -> Vec<String> {
        let Self::Command { command, .. } = self else { return Vec::new() };
        crate::reference::redaction::command(&command.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// The keys that say the way to a server.
#[derive(Deserialize, JsonSchema)]
struct Transport {
    /// Its address, for Streamable HTTP.
    #[schemars(with = "Option<WebUrl>", extend("examples" = ["https://example.com/mcp"]))]
    url: Option<Url>,
    /// The bearer token for `url`: the token itself, `env:NAME` or `file:PATH`. `oauth`: a token that
    /// `valvehouse mcp login NAME` obtains, encrypted in the store and refreshed by hosts.
    #[schemars(extend("x-word" = "oauth", "examples" = ["env:GITHUB_TOKEN"]))]
    auth: Option<SecretSource>,
    oauth: Option<McpOAuth>,
    /// The program to start instead of a `url`; it uses standard input and output.
    #[schemars(extend("format" = "command", "x-form" = "program, or list of program and arguments", "examples" = [["npx", "-y", "server"]]))]
    command: Option<Command>,
    /// Further arguments of the program.
    #[schemars(extend("format" = "command", "default" = [], "examples" = [["--read-only"]]))]
    args: Vec<String>,
    /// The environment variables of the program; of the host's own, it only receives `PATH`.
    #[schemars(with = "BTreeMap<String, SecretSource>", extend("default" = {}, "examples" = [{"TOKEN": "env:GITHUB_TOKEN"}]))]
    env: IndexMap<String, SecretSource>,
    /// The working folder of the program.
    #[schemars(extend("format" = "path", "x-form" = "folder", "default" = ".", "examples" = ["servers"]))]
    cwd: PathBuf,
}

/// A program with its arguments, or alone.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Command {
    Words(Vec<String>),
    Program(String),
}

impl From<Transport> for McpTransport {
    fn from(keys: Transport) -> Self {
        let Transport { url, auth, oauth, command, args, env, cwd } = keys;
        let Some(url) = url else {
            let mut command = match command {
                Some(Command::Words(words)) => words,
                Some(Command::Program(program)) => vec![program],
                None => Vec::new(),
            };
            command.extend(args);
            return Self::Command { command, env: env.into_iter().collect(), cwd };
        };
        let auth = match auth {
            Some(SecretSource::Literal(word)) if word.expose() == "oauth" => {
                McpAuth::OAuth(oauth.unwrap_or_default())
            }
            Some(token) => McpAuth::Bearer(token),
            None => McpAuth::None,
        };
        Self::Http { url, auth }
    }
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
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
pub struct McpOAuth {
    /// With `auth = "oauth"`: the id of this host at the authorization server. Without one, the host registers
    /// itself.
    #[schemars(extend("examples" = ["valvehouse"]))]
    pub client_id: Option<String>,
    /// The secret of `client_id`.
    #[schemars(extend("examples" = ["env:GITHUB_CLIENT_SECRET"]))]
    pub client_secret: Option<SecretSource>,
    /// The address of a client metadata document that you publish, used as the client id if the authorization
    /// server supports it.
    #[schemars(with = "Option<WebUrl>", extend("pattern" = r"^[^:]*[sS]://[^/?#]+/[^?#]"))]
    #[schemars(extend("x-form" = "the https URL of a document", "examples" = ["https://example.com/client.json"]))]
    pub client_metadata_url: Option<Url>,
    /// The requested scopes.
    #[serde(default)]
    #[schemars(extend("x-default" = "*those that the server names*", "examples" = [["repo:read"]]))]
    pub scopes: Vec<String>,
    /// The local port for the browser's redirect, for clients with a registered redirect address; 0 selects a free
    /// port.
    #[schemars(range(min = 0, max = 65_535), extend("default" = 0, "examples" = [8765]))]
    pub redirect_port: u16,
}

/// The tools of a server that are offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Interceptor {
    /// `mutation`: the filter returns the payload. `validation`: it returns a decision only.
    #[serde(rename = "type")]
    #[schemars(extend("default" = "mutation", "examples" = ["validation"]))]
    pub kind: InterceptorKind,
    /// `enforce`: other hosts block rejected payloads and use changed ones. `audit`: they only record them.
    #[schemars(extend("default" = "enforce", "examples" = ["audit"]))]
    pub mode: InterceptorMode,
}

/// The type of an interceptor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InterceptorKind {
    /// Returns the payload, changed or not.
    #[default]
    Mutation,
    /// Returns a decision alone.
    Validation,
}

/// The mode of an interceptor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InterceptorMode {
    /// Its caller blocks what it refuses, and takes what it changes.
    #[default]
    Enforce,
    /// Its caller records what it decides, and does nothing else about it.
    Audit,
}

/// `[oauth]`: the authorization servers whose tokens `/mcp` takes beside the host's own keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ResourceServer {
    /// Their issuers, exactly as in their tokens. Their keys come from their metadata (RFC 8414, or OpenID
    /// Connect).
    #[schemars(length(min = 1), extend("items" = {"type": "string", "format": "issuer"}))]
    #[schemars(extend("x-form" = "https URLs of issuers", "examples" = [["https://login.example.com"]]))]
    pub authorization_servers: Vec<String>,
    /// The public address of this endpoint: the audience that a token needs.
    #[schemars(with = "WebUrl", extend("pattern" = r"^[^/?#]+://[^/?#]+/mcp/*(\?[^#]*)?\s*$"))]
    #[schemars(extend("x-form" = "the public URL of this endpoint, which ends in `/mcp`", "examples" = ["https://example.com/mcp"]))]
    pub resource: Url,
    /// The scopes that a token must have.
    #[schemars(extend("default" = [], "examples" = [["tools"]]))]
    pub scopes: Vec<String>,
    /// The token claim with the user's id; with several issuers, the id is prefixed by the issuer and `#`.
    #[schemars(length(min = 1), extend("x-form" = "name of a claim", "default" = "sub", "examples" = ["email"]))]
    pub user_claim: String,
    /// The tools, prompts and resources that are visible with a token.
    #[schemars(extend("x-form" = "names, scripts and `tag:x`", "x-default" = "*those of `server.mcp_tools`*", "examples" = [["tag:reading"]]))]
    pub mcp_tools: Option<Vec<String>>,
    /// The endpoint that checks tokens which are not JSON web tokens.
    #[serde(flatten)]
    pub introspection: Option<Introspection>,
}

/// The introspection endpoint of an authorization server (RFC 7662), and the client that this host is for it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Introspection {
    /// The authorization server's introspection endpoint (RFC 7662) for tokens that are not JSON web tokens. A
    /// response is cached for at most 30 seconds.
    #[serde(rename = "introspection_url")]
    #[schemars(with = "WebUrl", extend("format" = "issuer", "x-form" = "the https URL of an endpoint"))]
    #[schemars(extend("x-default" = "*none*", "examples" = ["https://login.example.com/introspect"]))]
    pub url: Url,
    /// The id of this host at the authorization server.
    #[schemars(extend("x-default" = "*none*; needed with `introspection_url`", "examples" = ["valvehouse"]))]
    pub client_id: String,
    /// The secret of `client_id`: the secret itself, `env:NAME` or `file:PATH`.
    #[schemars(extend("x-default" = "*none*; needed with `introspection_url`", "examples" = ["env:INTROSPECTION_SECRET"]))]
    pub client_secret: SecretSource,
}
