//! The settings, declared once: a field is read, checked, described and shown by what is written at it.
//!
//! Its type and `range`, `length` or `regex` determine which values are valid, its comment is its text in the reference.
//! `extend` adds keywords of JSON Schema (`default`, `examples`, and `format`, which `check.rs` checks) and our own:
//! `x-form`, the form in words; `x-default`, the default in words; `x-word`, a value of a secret that is shown;
//! `x-restart`, set if a change takes effect at the next start, which is inherited from the section. A field that has no
//! default and is not an `Option` is required.

use crate::forms::{WebUrl, hosts, length, lower};
use crate::mcp::{Interceptor, McpServer, ResourceServer};
use crate::model::{ModelSettings, PluginSettings};
use crate::network::Network;
use crate::origin::Origin;
use crate::provider::{Breaker, ProviderSettings};
use crate::proxy_sign_in::ProxySignIn;
use crate::schema;
use crate::tree::Setting;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;
use url::Url;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_grants::{Grants, SecretSource, StoreSettings};
use valvehouse_json::Json;

/// All settings of a host. Paths in it are whole: relative ones were relative to the project.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Config {
    /// The project folder.
    #[serde(skip)]
    pub project: PathBuf,
    /// The address for clients, their keys and limits.
    #[schemars(extend("x-restart" = true))]
    pub server: Server,
    /// Access to the admin page and to all routes that change something.
    #[schemars(extend("x-restart" = true))]
    pub admin: AdminSettings,
    /// The folders of scripts, relative to the project.
    #[schemars(extend("x-restart" = true))]
    pub folders: FolderSettings,
    /// The store of valves, switches, grants, histories and conversations.
    #[schemars(extend("x-restart" = true))]
    pub store: StoreSettings,
    /// The circuit breaker of plugins: a plugin that fails repeatedly is not called for a while.
    #[serde(with = "Breaker")]
    pub breaker: BreakerSettings,
    /// The limits of scripts.
    pub limits: ScriptLimits,
    /// The traces of finished requests.
    pub trace: TraceSettings,
    /// The export of finished requests as OpenTelemetry traces over HTTP. Needs the feature `otlp`, which is on by
    /// default.
    #[schemars(extend("x-restart" = true))]
    pub otlp: OtlpSettings,
    /// Services with models. Without providers and models, there is the provider `demo`: offline and deterministic.
    pub providers: Vec<ProviderSettings>,
    /// Models with your own names and settings.
    pub models: Vec<ModelSettings>,
    /// The vectors of texts that scripts embed and of memories.
    pub embeddings: EmbeddingSettings,
    /// The authorization servers whose access tokens `/mcp` accepts in addition to the keys of `[server]`
    /// ([MCP](mcp.md)).
    #[schemars(extend("x-restart" = true))]
    pub oauth: Option<ResourceServer>,
    /// Other MCP servers. Their tools are offered to models and clients through the same filters ([MCP](mcp.md)).
    pub mcp: Vec<McpServer>,
    /// Settings of one filter.
    #[schemars(with = "BTreeMap<String, PluginSettings>")]
    pub filters: IndexMap<String, PluginSettings>,
    /// Settings of one tool file.
    #[schemars(with = "BTreeMap<String, PluginSettings>")]
    pub tools: IndexMap<String, PluginSettings>,
    /// Settings of one action file.
    #[schemars(with = "BTreeMap<String, PluginSettings>")]
    pub actions: IndexMap<String, PluginSettings>,
    /// A filter that other hosts can call at `/mcp`, with an experimental extension of MCP
    /// ([MCP](mcp.md#filters-for-other-hosts)). By default no filter can be called.
    #[schemars(with = "BTreeMap<String, Interceptor>", extend("x-restart" = true))]
    pub interceptors: IndexMap<String, Interceptor>,
    /// Access of a plugin or native tool, in addition to grants by `valvehouse grant`.
    #[schemars(with = "BTreeMap<String, Grants>")]
    pub grants: IndexMap<String, Grants>,
    /// The settings as they were read, each with its origin.
    #[serde(skip)]
    pub(crate) tree: Setting,
}

/// The server that clients connect to.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct Server {
    /// The listen address; port 0 selects a free port. Other machines are rejected unless keys are configured.
    #[schemars(extend("x-form" = "an address and a port", "default" = "127.0.0.1:9099", "examples" = ["0.0.0.0:9099"]))]
    pub listen: Listen,
    /// The keys of clients, beside those of `valvehouse key create`; without any, only this machine is served. A key is
    /// a text, or a table with its user.
    #[schemars(extend("x-form" = "list of keys", "x-restart" = false, "default" = [], "examples" = [["env:CHAT_KEY", {"key": "file:ann.key", "user": {"id": "ann", "role": "user"}}]]))]
    pub keys: Vec<InferenceKey>,
    /// Require a key even while there is none, so that other machines are served before the first key is created.
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub require_key: bool,
    /// The tools, prompts and resources that MCP clients see at `/mcp`; `*` is all except the host's own restricted
    /// tools (`file_…`, `shell_exec`), which must be named. An empty list closes the endpoint.
    #[schemars(extend("x-form" = "names, scripts and `tag:x`", "default" = ["*"], "examples" = [["calculator", "tag:reading"]]))]
    pub mcp_tools: Vec<String>,
    /// List `find_tools` and `run_script` at `/mcp` instead of all visible tools; clients can still call all of
    /// them ([MCP](mcp.md#many-tools-in-few-tokens)).
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub mcp_tool_search: bool,
    /// Trust the `X-OpenWebUI-User-…` headers of clients with a key without a user.
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub trust_user_headers: bool,
    /// Let the body of a request name its user (`user`) if its key has none. With `true`, any client with such a
    /// key can name any user, and scripts then see that user's `kv::user` entries and user valves. The role of a
    /// user (`__user__.role`) is only taken from the body if the host has no keys or the request has the operators'
    /// key. With `false`, only requests with the operators' key can, such as those of an Open WebUI that uses this
    /// host as its pipelines server; in others `__user__` has no `id`. Memories, conversations and vectors of users
    /// need a verified user either way.
    #[schemars(extend("default" = true, "examples" = [false]))]
    pub trust_body_user: bool,
    /// Proxies in front of this host, whose `X-Forwarded-For` or `Forwarded` header is trusted for the client's
    /// address.
    #[schemars(extend("x-form" = "list of addresses and networks", "default" = [], "examples" = [["127.0.0.1", "10.0.0.0/8"]]))]
    pub trusted_proxies: Vec<Network>,
    /// The sign-in of operators at a proxy in front of the host, such as oauth2-proxy
    /// ([operating](operating.md#sign-in-at-a-proxy)). While it is on, operators of this machine need a key, too.
    #[schemars(extend("x-restart" = false))]
    pub proxy_sign_in: ProxySignIn,
    /// Include filters in lists of models, so that Open WebUI treats this host as a pipelines server. If it is not set,
    /// `/v1/models` includes them only for Open WebUI.
    #[schemars(extend("default" = true, "examples" = [false]))]
    pub pipelines: bool,
    /// The variables that requests can set with `metadata.variables`. Their other variables are under
    /// `ctx.context.client`. Requests cannot change variables that are set by `variables` of a model or of a key's
    /// `user`.
    #[schemars(extend("x-form" = "names", "default" = [], "examples" = [["locale"]]))]
    pub client_variables: Vec<String>,
    /// The events of plugins that become text of the answer for clients that take no events
    /// ([clients](clients.md#events-of-plugins)).
    #[schemars(extend("items" = {"type": "string", "enum": ["message", "replace", "status", "files", "citation"]}, "default" = [], "examples" = [["message", "status", "citation"]]))]
    pub render_events: Vec<String>,
    /// The client headers that are passed to the model's service; `x-mine-*` matches a prefix. Headers that begin
    /// with `openai-` are not sent to services with Anthropic's API, and those with `anthropic-` only to such
    /// services.
    #[serde(deserialize_with = "lower")]
    #[schemars(extend("items" = {"type": "string", "format": "header", "pattern": r"^[A-Za-z0-9._-]+\*?$"}, "x-form" = "names of headers", "default" = ["openai-organization", "openai-project", "openai-beta", "idempotency-key", "http-referer", "x-title", "traceparent", "tracestate", "anthropic-beta", "anthropic-version"], "examples" = [["traceparent", "x-team-*"]]))]
    pub request_headers: Vec<String>,
    /// The headers of a service's response that are passed to the client.
    #[serde(deserialize_with = "lower")]
    #[schemars(extend("items" = {"type": "string", "format": "header", "pattern": r"^[A-Za-z0-9._-]+\*?$"}, "x-form" = "names of headers", "default" = ["x-request-id", "request-id", "x-ratelimit-*", "anthropic-ratelimit-*", "retry-after", "openai-processing-ms"], "examples" = [["x-request-id"]]))]
    pub response_headers: Vec<String>,
    /// The maximum size of a request, in megabytes.
    #[schemars(range(min = 1, max = 4096), extend("default" = 32, "examples" = [64]))]
    pub max_body_mb: u64,
    /// The maximum memory of the bodies and answers of all running requests together, in megabytes; 0 is half of
    /// the memory of the machine or its container. Bodies and complete responses of services of more than 16 KiB
    /// count twice, the values of bodies 128 bytes each, collected streams of more than 64 KiB four times their
    /// size, and stored conversations that a request continues twice. Requests that exceed it are rejected with
    /// 503; requests that hold up to 512 KiB may exceed it by a quarter, so that small ones are answered beside
    /// large ones.
    #[schemars(range(min = 0, max = 1_048_576), extend("default" = 0, "examples" = [4096]))]
    pub max_memory_mb: u64,
    /// The maximum length of a text that a script reads or builds, in megabytes. A request with a longer text is
    /// rejected with 413 when a script reads the text.
    #[schemars(range(min = 1, max = 64), extend("default" = 4, "examples" = [16]))]
    pub max_text_mb: u64,
    /// The interval of keep-alive comments in an idle stream; 0 disables them.
    #[schemars(range(min = 0, max = 3_600_000), extend("default" = 15_000, "examples" = [5000]))]
    pub keep_alive_ms: u64,
    /// The maximum time for which the host waits for the body of a request or the rest of a WebSocket message; 0
    /// disables it. Each KiB that arrives extends it by a second, up to this time again, so that slow clients with
    /// at least 1 KiB per second finish. Others receive 408, and their connection is closed.
    #[schemars(range(min = 0, max = 3_600_000), extend("default" = 60_000, "examples" = [20_000]))]
    pub body_timeout_ms: u64,
    /// Accepted host names besides the listen address and the names of loopback (`localhost`, `127.0.0.1`,
    /// `[::1]`). If empty, all names are accepted when keys are configured.
    #[serde(deserialize_with = "hosts")]
    #[schemars(extend("items" = {"type": "string", "format": "host"}, "x-form" = "host names without scheme and port", "default" = [], "examples" = [["chat.example.com"]]))]
    pub hosts: Vec<String>,
    /// The sites whose pages can use the inference endpoints from a browser.
    #[serde(deserialize_with = "lower")]
    #[schemars(extend("items" = {"type": "string", "pattern": r"^[^/]+://[^/* ,]+$"}, "x-form" = "origins without a path", "default" = [], "examples" = [["https://chat.example.com"]]))]
    pub origins: Vec<String>,
    /// The maximum number of open WebSockets of all clients together. More are rejected with 503.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 1000, "examples" = [200]))]
    pub max_sockets: usize,
    /// The maximum number of open WebSockets for each key or, without keys, each address. More are rejected with
    /// 429.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 100, "examples" = [20]))]
    pub max_sockets_each: usize,
    /// The maximum size of the stored responses and conversations of each key or, without keys, of all clients
    /// together, in megabytes. What exceeds it is rejected with 413, or answered with `store: false` if nothing
    /// asked for it to be stored.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 1024, "examples" = [64]))]
    pub max_stored_mb_each: u64,
    /// The maximum number of model requests per minute for each key or, without keys, each address; 0 disables the
    /// limit. Hosts on one Postgres database share it.
    #[schemars(range(min = 0, max = 1_000_000), extend("default" = 0, "examples" = [60], "x-restart" = false))]
    pub requests_per_minute: u32,
}

/// The address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend("format" = "address"))]
pub struct Listen {
    /// A name or address, without brackets.
    pub host: String,
    /// The port; 0 for any free one.
    pub port: u16,
}

impl Listen {
    /// Returns `true` if only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }
}

/// Returns `true` if a host, without brackets and port, is this machine by name or number: a name of somebody else's
/// may point here too.
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl TryFrom<String> for Listen {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parts = || {
            let (host, port) = text.trim().rsplit_once(':')?;
            let host = match host.strip_prefix('[') {
                Some(inner) => inner.strip_suffix(']')?,
                None if host.contains(':') => return None,
                None => host,
            };
            let is_plain = !host.is_empty() && !host.contains(['/', ' ', '@']);
            is_plain.then_some(Self { host: host.to_owned(), port: port.parse().ok()? })
        };
        parts().ok_or("expected an address and a port")
    }
}

/// A key that opens the inference endpoints.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(transform = schema::or_key)]
pub struct InferenceKey {
    /// The key itself, `env:NAME`, `file:PATH`, or its digest `sha256:…`.
    #[schemars(extend("format" = "key", "examples" = ["env:ANNS_KEY"]))]
    pub key: SecretSource,
    /// The user of the key. Scripts see it as `__user__`; requests cannot override it. Its `variables`, a table,
    /// are context variables that requests cannot change.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    #[schemars(extend("format" = "user", "x-form" = "table with an `id`", "examples" = [{"id": "ann", "name": "Ann", "role": "admin"}]))]
    pub user: Option<Json>,
    /// The tools, prompts and resources that are visible with this key at `/mcp`.
    #[schemars(extend("x-form" = "names, scripts and `tag:x`", "x-default" = "*those of `server.mcp_tools`*", "examples" = [["tag:reading"]]))]
    pub mcp_tools: Option<Vec<String>>,
}

/// The access of operators.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct AdminSettings {
    /// The operators' key; without one, only this machine and the admin page have access.
    #[schemars(extend("format" = "key", "examples" = ["env:VALVEHOUSE_ADMIN_KEY"]))]
    pub key: Option<SecretSource>,
}

/// The folders of scripts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct FolderSettings {
    /// The folder of filters.
    #[schemars(length(min = 1), extend("format" = "path", "x-form" = "folder", "default" = "filters", "examples" = ["plugins/filters"]))]
    pub filters: PathBuf,
    /// The folder of tools.
    #[schemars(length(min = 1), extend("format" = "path", "x-form" = "folder", "default" = "tools", "examples" = ["plugins/tools"]))]
    pub tools: PathBuf,
    /// The folder of actions.
    #[schemars(length(min = 1), extend("format" = "path", "x-form" = "folder", "default" = "actions", "examples" = ["plugins/actions"]))]
    pub actions: PathBuf,
    /// The source of scripts: these folders, or the store, to which `valvehouse apply` uploads them.
    #[schemars(extend("default" = "folder", "examples" = ["store"]))]
    pub source: ScriptSource,
    /// The public key for scripts in the store; scripts without a valid signature are rejected.
    #[schemars(regex(pattern = r"^\s*RW.{54}\s*$"))]
    #[schemars(extend("x-form" = "the line of a minisign .pub file that begins with RW", "examples" = ["RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"]))]
    pub public_key: Option<String>,
    /// Treat the warnings of `valvehouse check` as errors: a script with warnings is not loaded, and its last good
    /// version keeps running. `serve --strict` sets it.
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub strict: bool,
}

/// The place that hosts load scripts from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScriptSource {
    /// The folders on disk, which are followed.
    #[default]
    Folder,
    /// The latest set of scripts in the store, which `valvehouse apply` uploads.
    Store,
}

/// The limits of scripts.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct ScriptLimits {
    /// The factor on the [CPU time of scripts](sandbox.md#budgets), for a machine that is so slow that ordinary
    /// scripts exceed it. A plugin's own `budget.ms` is not multiplied.
    #[schemars(range(min = 0.01, max = 100.0), extend("default" = 1.0, "examples" = [3.0]))]
    pub time_scale: f64,
}

/// The records of requests that ended, in memory and in the store.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct TraceSettings {
    /// The number of requests in memory.
    #[schemars(range(min = 0, max = 10_000), extend("default" = 100, "examples" = [1000], "x-restart" = true))]
    pub turns: usize,
    /// The plugins whose values are stored in addition to names and numbers.
    #[schemars(extend("x-form" = "list of ids", "default" = [], "examples" = [["redact"]]))]
    pub contents: Vec<String>,
    /// The time for which requests are stored over restarts, [with those of all hosts of the
    /// store](operating.md#traces); by default they are in memory only.
    #[serde(default, deserialize_with = "length")]
    #[schemars(with = "Option<String>", regex(pattern = r"^[1-9][0-9]{0,4}[mhd]$"))]
    #[schemars(extend("x-form" = "a number and m, h or d", "examples" = ["7d"], "x-restart" = true))]
    pub store: Option<Duration>,
    /// The maximum size of all stored requests, in megabytes; beyond it, the oldest of the keys with the most are
    /// deleted.
    #[schemars(range(min = 1, max = 1_048_576), extend("default" = 512, "examples" = [4096], "x-restart" = true))]
    pub store_max_mb: u64,
}

/// The collector to which requests that ended are sent, as OpenTelemetry's collectors take them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct OtlpSettings {
    /// The collector's address; `/v1/traces` is appended. Without it, nothing is sent.
    #[schemars(with = "Option<WebUrl>", extend("format" = "uri-or-empty", "examples" = ["http://127.0.0.1:4318"]))]
    pub endpoint: Option<Url>,
    /// Additional headers of each batch.
    #[schemars(with = "BTreeMap<String, SecretSource>", extend("default" = {}, "examples" = [{"authorization": "env:COLLECTOR_TOKEN"}]))]
    pub headers: IndexMap<String, SecretSource>,
    /// The name of this host (`service.name`).
    #[schemars(extend("default" = "valvehouse", "examples" = ["gateway"]))]
    pub service: String,
}

/// The model that embeds texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct EmbeddingSettings {
    /// The model whose provider serves `/v1/embeddings`. Without it, the host computes vectors that compare words,
    /// not meanings. Memories are embedded again when it changes.
    #[schemars(extend("x-form" = "name of a model", "examples" = ["text-embedding-3-small"]))]
    pub model: Option<String>,
}

/// Returns the schema of all settings.
pub(crate) fn root() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let mut schema = schema::of::<Config>();
        schema["title"] = "valvehouse.toml".into();
        schema
    });
    &SCHEMA
}

impl Config {
    /// Returns `true` if the settings say that an Open WebUI calls the filters of this host one by one; by default one
    /// may, and few do.
    pub fn is_pipelines_server(&self) -> bool {
        self.server.pipelines && self.origin("server.pipelines") != Origin::Default
    }

    /// The origin of a setting, by its dotted key: `server.listen`, `providers.openai.base_url`.
    pub fn origin(&self, key: &str) -> Origin {
        Setting::origin(self.tree.find(key))
    }
}
