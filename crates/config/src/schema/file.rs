//! The file as it is written.

// Nobody builds these types: their form is what is asked for.
#![expect(dead_code)]

use schemars::JsonSchema;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "valvehouse.toml")]
pub(super) struct File {
    server: Server,
    admin: Admin,
    folders: Folders,
    store: Store,
    breaker: Breaker,
    trace: Trace,
    otlp: Otlp,
    providers: Vec<Provider>,
    models: Vec<Model>,
    embeddings: EmbeddingSettings,
    mcp: Vec<Mcp>,
    oauth: OAuth,
    filters: BTreeMap<Id, Plugin>,
    tools: BTreeMap<Id, Plugin>,
    actions: BTreeMap<Id, Plugin>,
    interceptors: BTreeMap<Id, Interceptor>,
    grants: BTreeMap<Id, Grants>,
}

/// The id of a plugin: the name of its file.
type Id = String;
pub(super) type Table = Map<String, Value>;

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Server {
    listen: String,
    keys: Vec<Key>,
    trust_user_headers: bool,
    trust_body_user: bool,
    trusted_proxies: Vec<String>,
    pipelines: bool,
    client_variables: Vec<String>,
    render_events: Vec<String>,
    request_headers: Vec<String>,
    response_headers: Vec<String>,
    #[schemars(range(min = 1, max = 4096))]
    max_body_mb: u64,
    #[schemars(range(min = 1, max = 64))]
    max_text_mb: u64,
    #[schemars(range(min = 0, max = 3_600_000))]
    keep_alive_ms: u64,
    hosts: Vec<String>,
    origins: Vec<String>,
    mcp_tools: Vec<String>,
    mcp_tool_search: bool,
    #[schemars(range(min = 0, max = 1_000_000))]
    requests_per_minute: u32,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum Key {
    Text(String),
    OfUser(UserKey),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct UserKey {
    key: String,
    user: Table,
    mcp_tools: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Admin {
    key: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Folders {
    filters: String,
    tools: String,
    actions: String,
    #[schemars(regex(pattern = "^(folder|store)$"))]
    source: String,
    #[schemars(regex(pattern = "^RW.{54}$"))]
    public_key: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Store {
    #[schemars(regex(pattern = "^(sqlite:|postgres://|postgresql://)"))]
    url: String,
    key: String,
    #[schemars(regex(pattern = "^(postgres://|postgresql://)"))]
    listen_url: String,
    #[schemars(regex(pattern = "^(postgres://|postgresql://)"))]
    migrate_url: String,
    #[schemars(regex(pattern = "^(auto|wait)$"))]
    migrate: String,
    snapshot: SnapshotFile,
    #[schemars(range(min = 100, max = 600_000))]
    connect_ms: u64,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum SnapshotFile {
    Path(String),
    Off(bool),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Breaker {
    #[schemars(range(min = 0, max = 1000))]
    failure_threshold: u64,
    #[schemars(range(min = 1, max = 86_400_000))]
    window_ms: u64,
    #[schemars(range(min = 1, max = 86_400_000))]
    cool_down_ms: u64,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Trace {
    #[schemars(range(min = 0, max = 10_000))]
    turns: u64,
    contents: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Otlp {
    endpoint: String,
    headers: BTreeMap<String, String>,
    service: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Mcp {
    #[schemars(regex(pattern = "^[a-z0-9_-]{1,32}$"))]
    name: String,
    url: String,
    auth: String,
    oauth: McpOAuth,
    command: Command,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: String,
    tools: Vec<String>,
    trust: Trust,
    #[schemars(range(min = 1, max = 3_600_000))]
    timeout_ms: u64,
    #[schemars(range(min = 1, max = 1_000))]
    concurrency: u64,
    #[schemars(range(min = 1, max = 65_536))]
    max_result_kb: u64,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct OAuth {
    authorization_servers: Vec<String>,
    resource: String,
    scopes: Vec<String>,
    user_claim: String,
    mcp_tools: Vec<String>,
    introspection_url: String,
    client_id: String,
    client_secret: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct McpOAuth {
    client_id: String,
    client_secret: String,
    client_metadata_url: String,
    scopes: Vec<String>,
    redirect_port: u16,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum Command {
    Program(String),
    WithArguments(Vec<String>),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Interceptor {
    r#type: InterceptorKind,
    mode: InterceptorMode,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum InterceptorKind {
    Mutation,
    Validation,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum InterceptorMode {
    Enforce,
    Audit,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum Trust {
    Pin,
    Always,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum Api {
    Chat,
    Responses,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Provider {
    name: String,
    kind: String,
    base_url: String,
    api: Api,
    api_key: String,
    models: TextOrTexts,
    routes: Vec<String>,
    timeouts: Timeouts,
    retry: Retry,
    breaker: Breaker,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum TextOrTexts {
    Text(String),
    Texts(Vec<String>),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Timeouts {
    #[schemars(range(min = 1, max = 86_400_000))]
    connect_ms: u64,
    #[schemars(range(min = 1, max = 86_400_000))]
    response_ms: u64,
    #[schemars(range(min = 1, max = 86_400_000))]
    idle_ms: u64,
    #[schemars(range(min = 1, max = 86_400_000))]
    total_ms: u64,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Retry {
    #[schemars(range(min = 1, max = 21))]
    max_attempts: u32,
    #[schemars(range(min = 1, max = 3_600_000))]
    initial_delay_ms: u64,
    #[schemars(range(min = 1, max = 3_600_000))]
    max_delay_ms: u64,
    after_send: bool,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Model {
    name: String,
    provider: String,
    model: String,
    fallbacks: Vec<String>,
    system_prompt: String,
    filters: Vec<String>,
    tools: Vec<String>,
    actions: Vec<String>,
    tool_search: bool,
    #[schemars(range(min = 1, max = 1000))]
    max_tool_iterations: u64,
    variables: Table,
    memory: bool,
    description: String,
    abilities: Vec<String>,
    #[schemars(range(min = 1, max = 1_000_000_000))]
    context_length: u64,
    price: BTreeMap<String, f64>,
    preset: String,
    middleware: BTreeMap<String, Value>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EmbeddingSettings {
    model: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Plugin {
    valves: Table,
    enabled: bool,
    budget: Budget,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Budget {
    #[schemars(range(min = 1, max = 86_400_000))]
    ms: u64,
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    operations: u64,
    #[schemars(range(min = 1, max = 1_048_576))]
    memory_mb: u64,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Grants {
    http: Grant,
    files: Vec<String>,
    shell: Grant,
    env: Grant,
    kv: bool,
    llm: bool,
    tools: Grant,
    vectors: bool,
    memories: bool,
    chats: bool,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum Grant {
    All(bool),
    Named(Vec<String>),
}
