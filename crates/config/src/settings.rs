//! The settings, typed and checked.

use crate::grants::Grants;
use crate::mcp::{Interceptor, McpServer, ResourceServer};
use crate::network::Network;
use crate::origin::Origin;
use crate::provider::ProviderSettings;
use crate::reference::Values;
use crate::secret::{Secret, SecretSource};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use url::Url;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_json::Json;

/// All settings of a host. Paths in it are whole: relative ones were relative to the project.
#[derive(Debug, Clone)]
pub struct Config {
    /// The project folder.
    pub project: PathBuf,
    /// `[server]`
    pub server: Server,
    /// `[admin]`
    pub admin: AdminSettings,
    /// `[folders]`
    pub folders: FolderSettings,
    /// `[store]`
    pub store: StoreSettings,
    /// `[breaker]`
    pub breaker: BreakerSettings,
    /// `[limits] time_scale`; the factor on the limits of processor time.
    pub time_scale: f64,
    /// `[trace]`
    pub trace: TraceSettings,
    /// `[otlp]`; None where nobody collects traces.
    pub otlp: Option<OtlpSettings>,
    /// `[[providers]]`; the demo where there are none.
    pub providers: Vec<ProviderSettings>,
    /// `[[models]]`; the demo where there are neither these nor providers.
    pub models: Vec<ModelSettings>,
    /// `[embeddings] model`: embeds texts of scripts that name no model, and memories.
    pub embedding_model: Option<String>,
    /// `[[mcp]]`; other servers whose tools are offered.
    pub mcp: Vec<McpServer>,
    /// `[oauth]`; None where `/mcp` takes the host's own keys alone.
    pub oauth: Option<ResourceServer>,
    /// `[filters.ID]`
    pub filters: IndexMap<String, PluginSettings>,
    /// `[tools.ID]`
    pub tools: IndexMap<String, PluginSettings>,
    /// `[actions.ID]`
    pub actions: IndexMap<String, PluginSettings>,
    /// `[interceptors.ID]`; filters that other hosts may call.
    pub interceptors: IndexMap<String, Interceptor>,
    /// `[grants.ID]`
    pub grants: IndexMap<String, Grants>,
    pub(super) origins: BTreeMap<String, Origin>,
    pub(super) values: Values,
}

impl Config {
    /// Returns `true` if the settings say that an Open WebUI calls the filters of this host one by one; by default one
    /// may, and few do.
    pub fn is_pipelines_server(&self) -> bool {
        self.server.pipelines && self.origin("server.pipelines") != Origin::Default
    }

    /// The origin of a setting, by its dotted key: `server.listen`, `providers.openai.base_url`.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or_default()
    }

    /// Returns the keys of other settings that a host that was opened with these applies only after a restart.
    pub fn waiting(&self, other: &Self) -> Vec<&'static str> {
        let (now, next) = (&self.server, &other.server);
        let keys = [
            ("server.listen", now.listen != next.listen),
            ("server.keys", now.keys != next.keys),
            ("server.trust_user_headers", now.trust_user_headers != next.trust_user_headers),
            ("server.trust_body_user", now.trust_body_user != next.trust_body_user),
            ("server.trusted_proxies", now.trusted_proxies != next.trusted_proxies),
            ("server.pipelines", now.pipelines != next.pipelines),
            ("server.render_events", now.render_events != next.render_events),
            ("server.client_variables", now.client_variables != next.client_variables),
            ("server.request_headers", now.request_headers != next.request_headers),
            ("server.response_headers", now.response_headers != next.response_headers),
            ("server.max_body_mb", now.max_body_mb != next.max_body_mb),
            ("server.max_memory_mb", now.max_memory_mb != next.max_memory_mb),
            ("server.max_text_mb", now.max_text_mb != next.max_text_mb),
            ("server.max_sockets", now.max_sockets != next.max_sockets),
            ("server.max_sockets_each", now.max_sockets_each != next.max_sockets_each),
            ("server.max_stored_mb_each", now.max_stored_mb_each != next.max_stored_mb_each),
            ("server.keep_alive_ms", now.keep_alive_ms != next.keep_alive_ms),
            ("server.body_timeout_ms", now.body_timeout_ms != next.body_timeout_ms),
            ("server.mcp_tools", now.mcp_tools != next.mcp_tools),
            ("server.mcp_tool_search", now.mcp_tool_search != next.mcp_tool_search),
            ("oauth", self.oauth != other.oauth),
            ("interceptors", self.interceptors != other.interceptors),
            ("server.hosts", now.hosts != next.hosts),
            ("server.origins", now.origins != next.origins),
            ("admin.key", self.admin != other.admin),
            ("folders.filters", self.folders.filters != other.folders.filters),
            ("folders.tools", self.folders.tools != other.folders.tools),
            ("folders.actions", self.folders.actions != other.folders.actions),
            ("folders.source", self.folders.source != other.folders.source),
            ("folders.public_key", self.folders.public_key != other.folders.public_key),
            ("folders.strict", self.folders.strict != other.folders.strict),
            ("store.url", self.store.address != other.store.address),
            ("store.key", self.store.key != other.store.key),
            ("store.listen_url", self.store.listen_url != other.store.listen_url),
            ("store.migrate_url", self.store.migrate_url != other.store.migrate_url),
            ("store.migrate", self.store.migrate != other.store.migrate),
            ("store.snapshot", self.store.snapshot != other.store.snapshot),
            ("store.connect_ms", self.store.connect_ms != other.store.connect_ms),
            ("trace.turns", self.trace.turns != other.trace.turns),
            ("[otlp]", self.otlp != other.otlp),
        ];
        keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }
}

/// The server that clients connect to.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// The address to listen on.
    pub listen: Listen,
    /// The keys of users; with none, only this machine may ask.
    pub keys: Vec<InferenceKey>,
    /// Trusts `X-OpenWebUI-User-…` headers.
    pub trust_user_headers: bool,
    /// Lets bodies of requests name the user where the key has none; otherwise only those with the operators' key do.
    pub trust_body_user: bool,
    /// Proxies that say truly where a request comes from.
    pub trusted_proxies: Vec<Network>,
    /// Offers filters to an Open WebUI that uses this host as its pipelines server.
    pub pipelines: bool,
    /// The variables that requests may set; others of theirs are under `client`.
    pub client_variables: Vec<String>,
    /// The kinds of events that become text of the answer for clients that take no events.
    pub render_events: Vec<String>,
    /// The headers of a client that reach the service; one that ends in `*` stands for all that begin so.
    pub request_headers: Vec<String>,
    /// The headers of a service that reach its client, likewise.
    pub response_headers: Vec<String>,
    /// The largest request, in megabytes.
    pub max_body_mb: u64,
    /// The most memory of the bodies and answers of all running requests, in megabytes; 0 for half of what there is.
    pub max_memory_mb: u64,
    /// The longest text that a script may read or build, in megabytes.
    pub max_text_mb: u64,
    /// The maximum number of open WebSockets of all clients.
    pub max_sockets: usize,
    /// The maximum number of open WebSockets of one client.
    pub max_sockets_each: usize,
    /// The maximum size of the stored responses and conversations of one client, in megabytes.
    pub max_stored_mb_each: u64,
    /// After so many milliseconds of silence a stream says that it is still there; 0: never.
    pub keep_alive_ms: u64,
    /// The milliseconds for which a body or message may arrive slower than 1 KiB per second; 0: no limit.
    pub body_timeout_ms: u64,
    /// Other names than the listen address and this machine's own under which clients find us; with none, any
    /// name where there are keys.
    pub hosts: Vec<String>,
    /// The sites whose pages may use the inference endpoints: `https://chat.example.com`.
    pub origins: Vec<String>,
    /// The tools that clients of MCP see at `/mcp`: names, scripts, `tag:x`, and `*` for all but the guarded tools of
    /// the host. With none there is no such endpoint.
    pub mcp_tools: Vec<String>,
    /// Lists `find_tools` at `/mcp` instead of all tools that a client may use.
    pub mcp_tool_search: bool,
    /// The most requests to models per minute of each key or, without keys, of each address; 0 disables the limit.
    pub requests_per_minute: u32,
}

/// The address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// A key that opens the inference endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct InferenceKey {
    /// The key.
    pub key: SecretSource,
    /// The user: an object with at least `id`.
    pub user: Option<Json>,
    /// The tools that its holder sees at `/mcp`, where they are others than those of `mcp_tools`.
    pub mcp_tools: Option<Vec<String>>,
}

/// The access of operators.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminSettings {
    /// Their key; without one, only this machine and our own page.
    pub key: Option<SecretSource>,
}

/// The records of requests that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSettings {
    /// Of how many.
    pub turns: usize,
    /// The plugins whose values are kept as well, by id.
    pub contents: Vec<String>,
}

/// The collector to which requests that ended are sent, as OpenTelemetry's collectors take them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpSettings {
    /// The collector's address, without `/v1/traces`.
    pub endpoint: Url,
    /// Headers of every batch; they may be keys.
    pub headers: Vec<(String, SecretSource)>,
    /// The name of this host there.
    pub service: String,
}

/// The folders of scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderSettings {
    /// The filters.
    pub filters: PathBuf,
    /// The tools.
    pub tools: PathBuf,
    /// The actions.
    pub actions: PathBuf,
    /// The place that hosts load scripts from.
    pub source: ScriptSource,
    /// The key of minisign that scripts in the store have to be signed with.
    pub public_key: Option<String>,
    /// Set if a script with warnings of `check` is not loaded.
    pub strict: bool,
}

/// The place that hosts load scripts from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScriptSource {
    /// The folders on disk, which are followed.
    #[default]
    Folder,
    /// The latest set of scripts in the store, which `valvehouse apply` uploads.
    Store,
}

impl ScriptSource {
    /// Returns the form in which it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Store => "store",
        }
    }
}

/// The place of the state, and the key that keeps it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// The address.
    pub address: StoreAddress,
    /// The key that seals what people set; none: one in a file beside the store, made with it.
    pub key: Option<SecretSource>,
    /// The URL of the connection that listens for changes, where it is another one than the address: past a pooler.
    pub listen_url: Option<Secret>,
    /// The URL with which the schema is migrated, where it is another one than the address: of the tables' owner.
    pub migrate_url: Option<Secret>,
    /// The one that migrates the schema.
    pub migrate: SchemaMigration,
    /// The file that a host starts from while a shared store is away; none: it does not start then.
    pub snapshot: Option<PathBuf>,
    /// The time that a database on a server has to answer in before it counts as away, in milliseconds.
    pub connect_ms: u64,
}

impl StoreSettings {
    /// The time that a database has to answer in, unless the settings say otherwise.
    pub const CONNECT_MS: u64 = 3_000;

    /// The settings of a store at an address, without a snapshot and with all else as it usually is.
    pub fn at(address: StoreAddress, key: Option<SecretSource>) -> Self {
        Self {
            address,
            key,
            listen_url: None,
            migrate_url: None,
            migrate: SchemaMigration::default(),
            snapshot: None,
            connect_ms: Self::CONNECT_MS,
        }
    }
}

/// The one that migrates the schema of a shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SchemaMigration {
    /// The first host that needs it.
    #[default]
    Auto,
    /// `valvehouse migrate`: hosts wait for it.
    Wait,
}

impl SchemaMigration {
    /// Returns the form in which it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Wait => "wait",
        }
    }
}

/// The error of a store's URL, which is not part of its text because it may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreAddressError {
    /// The URL of an SQLite store names no file.
    #[error("must name a file, such as \"sqlite://.valvehouse/state.db\"")]
    File,
    /// The scheme is not supported.
    #[error("must begin with sqlite:// or postgres://")]
    Scheme,
}

/// The place of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// In this file.
    Sqlite(PathBuf),
    /// At this URL, which may hold a password.
    Postgres(Secret),
}

impl StoreAddress {
    /// Reads a URL: `sqlite://FILE`, relative to the project, or `postgres://…`.
    ///
    /// # Errors
    /// Returns the form that the URL must have, without the URL, which may contain a password.
    pub fn parse(url: &str, project: &Path) -> Result<Self, StoreAddressError> {
        match url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")) {
            Some(file) if !file.is_empty() && !file.contains(['?', ':']) => {
                Ok(Self::Sqlite(project.join(file)))
            }
            Some(_) => Err(StoreAddressError::File),
            None if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Ok(Self::Postgres(Secret::new(url)))
            }
            None => Err(StoreAddressError::Scheme),
        }
    }

    /// Returns `true` if opening the store would create it: its file does not exist.
    pub fn is_new(&self) -> bool {
        let Self::Sqlite(file) = self else { return false };
        // An inaccessible path is not new: opening it returns the error.
        file.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }
}

/// A model under a name of our own.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSettings {
    /// The name for clients.
    pub name: String,
    /// The provider that has it.
    pub provider: String,
    /// The provider's name for it.
    pub model: String,
    /// The models that answer where it cannot, in order: other models, or `provider/model`.
    pub fallbacks: Vec<String>,
    /// The instructions before each conversation.
    pub system_prompt: Option<String>,
    /// Filters it uses beside the global ones.
    pub filters: Vec<String>,
    /// Global filters it does not use; guards always run.
    pub without: Vec<String>,
    /// The tools it is offered: names, or `tag:NAME`.
    pub tools: Vec<String>,
    /// Actions with `global: false` that its answers have.
    pub actions: Vec<String>,
    /// Offers the model `find_tools` and the tools found in the turn, instead of all tools.
    pub tool_search: bool,
    /// The most model calls of one turn.
    pub max_tool_iterations: usize,
    /// Stores conversations that have a chat id.
    pub memory: bool,
    /// Checks complete answers against the `response_format` of their requests.
    pub check_response_format: bool,
    /// The description for people and scripts.
    pub description: Option<String>,
    /// The abilities of the model, in words of the operator: `vision`, `tools`.
    pub abilities: Vec<String>,
    /// The most tokens of a request and its answer.
    pub context_length: Option<u64>,
    /// The price of a million tokens by their kind, in a currency of the operator: an object of numbers.
    pub price: Json,
    /// Variables of its turns, which no request can change: an object.
    pub variables: Json,
    /// Middleware that goes well together, by its name.
    pub preset: Option<String>,
    /// Middleware by name, each with its options, unchecked: an object of objects.
    pub middleware: Json,
}

/// The settings of one plugin.
#[derive(Clone)]
pub struct PluginSettings {
    /// Set if the plugin runs, unless an operator switched it off.
    pub enabled: bool,
    /// Values of its valves, unchecked: only the script declares them.
    pub valves: Json,
    /// The names of the values that are text of the environment or the command line, which has no types.
    pub untyped_valves: BTreeSet<String>,
    /// Limits other than the usual ones.
    pub budget: BudgetSettings,
}

impl Default for PluginSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            valves: Json::object(),
            untyped_valves: BTreeSet::new(),
            budget: BudgetSettings::default(),
        }
    }
}

impl fmt::Debug for PluginSettings {
    /// Only the valves' names: values may be secrets, which only the script declares.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginSettings")
            .field("enabled", &self.enabled)
            .field("valves", &self.valves.keys())
            .field("budget", &self.budget)
            .finish()
    }
}

/// Limits of a plugin's calls, where they are not the usual ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetSettings {
    /// Own running time, in milliseconds.
    pub ms: Option<u64>,
    /// Operations of the interpreter.
    pub operations: Option<u64>,
    /// Memory, in megabytes.
    pub memory_mb: Option<u64>,
}
