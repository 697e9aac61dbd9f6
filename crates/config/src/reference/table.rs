//! All settings in the order of the document. Parts in capitals are placeholders for names.
//!
//! A setting is declared here once. Its row determines how it is read, its default, the document, the JSON Schema and
//! `valvehouse config`.

use super::form::Form;
use crate::origin::Origin;
use crate::provider::ROUTES;
use crate::tree::{self, Setting};

/// A setting.
#[derive(Debug)]
pub(crate) struct SettingRow {
    /// The dotted key.
    pub(crate) key: &'static str,
    /// The form of the value.
    pub(crate) form: Form,
    /// The default value as TOML; a word in italics if there is none.
    pub(crate) usual: &'static str,
    /// The effect of the setting.
    pub(crate) about: &'static str,
    /// An example value as TOML.
    pub(crate) example: &'static str,
}

impl SettingRow {
    /// Returns `true` if the setting is required in its table.
    pub(super) fn is_required(&self) -> bool {
        self.usual == REQUIRED
    }

    /// Returns the default value; `None` if there is none.
    pub(crate) fn default(&self) -> Option<Setting> {
        if self.usual.starts_with('*') {
            return None;
        }
        let mut table = tree::parse(&format!("value = {}", self.usual), "").ok()?;
        let node = table.shift_remove("value")?.node;
        Some(Setting::new(node, &Origin::Default))
    }
}

/// Returns the row of a dotted key, with `NAME` and `ID` in place of names.
pub(crate) fn row(key: &str) -> Option<&'static SettingRow> {
    SECTIONS.iter().flat_map(|section| section.settings).find(|row| row.key == key)
}

/// A table of the file.
#[derive(Debug)]
pub(crate) struct Section {
    /// The header as TOML.
    pub(crate) header: &'static str,
    /// The purpose of the section.
    pub(crate) about: &'static str,
    /// Set if a change takes effect at the next start, not when the file is reloaded.
    pub(crate) waits: bool,
    /// Its settings.
    pub(crate) settings: &'static [SettingRow],
}

const fn it(
    key: &'static str,
    form: Form,
    usual: &'static str,
    about: &'static str,
    example: &'static str,
) -> SettingRow {
    SettingRow { key, form, usual, about, example }
}

/// The text of an empty cell that means none.
const NONE: &str = "*none*";
/// The text in place of the default of a required setting.
const REQUIRED: &str = "*required*";

/// All settings.
pub(crate) const SECTIONS: &[Section] = &[
    Section {
        header: "[server]",
        about: "The address for clients, their keys and limits.",
        waits: true,
        settings: &[
            it(
                "server.listen",
                Form::Text("address and port"),
                "\"127.0.0.1:9099\"",
                "The listen address; port 0 selects a free port. Other machines are rejected unless keys are configured.",
                "\"0.0.0.0:9099\"",
            ),
            it(
                "server.keys",
                Form::Keys,
                "[]",
                "The keys of clients; without any, only this machine is served. A key is a text, or a table with its user.",
                "[\"env:CHAT_KEY\", { key = \"file:ann.key\", user = { id = \"ann\", role = \"user\" } }]",
            ),
            it(
                "server.keys[0].key",
                Form::Secret,
                REQUIRED,
                "The key itself, `env:NAME`, `file:PATH`, or its digest `sha256:…`.",
                "\"env:ANNS_KEY\"",
            ),
            it(
                "server.keys[0].user",
                Form::Table("table with an `id`"),
                NONE,
                "The user of the key. Scripts see it as `__user__`; requests cannot override it. Its `variables`, a table, are context variables that requests cannot change.",
                "{ id = \"ann\", name = \"Ann\", role = \"admin\" }",
            ),
            it(
                "server.keys[0].mcp_tools",
                Form::Texts("names, scripts and `tag:x`"),
                "*those of `server.mcp_tools`*",
                "The tools, prompts and resources that are visible with this key at `/mcp`.",
                "[\"tag:reading\"]",
            ),
            it(
                "server.mcp_tools",
                Form::Texts("names, scripts and `tag:x`"),
                "[\"*\"]",
                "The tools, prompts and resources that MCP clients see at `/mcp`; `*` is all except the host's own restricted tools (`file_…`, `shell_exec`), which must be named. An empty list closes the endpoint.",
                "[\"calculator\", \"tag:reading\"]",
            ),
            it(
                "server.mcp_tool_search",
                Form::Truth,
                "false",
                "List `find_tools` and `run_script` at `/mcp` instead of all visible tools; clients can still call all of them ([MCP](mcp.md#many-tools-in-few-tokens)).",
                "true",
            ),
            it(
                "server.trust_user_headers",
                Form::Truth,
                "false",
                "Trust the `X-OpenWebUI-User-…` headers of clients with a key without a user.",
                "true",
            ),
            it(
                "server.trust_body_user",
                Form::Truth,
                "true",
                "Let the body of a request name its user (`user`) if its key has none. With `true`, any client with such a key can name any user, and scripts then see that user's `kv::user` entries and user valves. The role of a user (`__user__.role`) is only taken from the body if the host has no keys or the request has the operators' key. With `false`, only requests with the operators' key can, such as those of an Open WebUI that uses this host as its pipelines server; in others `__user__` has no `id`. Memories, conversations and vectors of users need a verified user either way.",
                "false",
            ),
            it(
                "server.trusted_proxies",
                Form::Texts("list of addresses and networks"),
                "[]",
                "Proxies in front of this host, whose `X-Forwarded-For` or `Forwarded` header is trusted for the client's address.",
                "[\"127.0.0.1\", \"10.0.0.0/8\"]",
            ),
            it(
                "server.pipelines",
                Form::Truth,
                "true",
                "Include filters in lists of models, so that Open WebUI treats this host as a pipelines server.",
                "false",
            ),
            it(
                "server.client_variables",
                Form::Texts("names"),
                "[]",
                "The variables that requests can set with `metadata.variables`. Their other variables are under `ctx.context.client`. Requests cannot change variables that are set by `variables` of a model or of a key's `user`.",
                "[\"locale\"]",
            ),
            it(
                "server.render_events",
                Form::ListOf(&["message", "replace", "status", "files", "citation"]),
                "[]",
                "The events of plugins that become text of the answer for clients that take no events ([clients](clients.md#events-of-plugins)).",
                "[\"message\", \"status\", \"citation\"]",
            ),
            it(
                "server.request_headers",
                Form::Texts("names of headers"),
                "[\"openai-organization\", \"openai-project\", \"openai-beta\", \"idempotency-key\", \"http-referer\", \"x-title\", \"traceparent\", \"tracestate\", \"anthropic-beta\", \"anthropic-version\"]",
                "The client headers that are passed to the model's service; `x-mine-*` matches a prefix. Headers that begin with `openai-` are not sent to services with Anthropic's API, and those with `anthropic-` only to such services.",
                "[\"traceparent\", \"x-team-*\"]",
            ),
            it(
                "server.response_headers",
                Form::Texts("names of headers"),
                "[\"x-request-id\", \"request-id\", \"x-ratelimit-*\", \"anthropic-ratelimit-*\", \"retry-after\", \"openai-processing-ms\"]",
                "The headers of a service's response that are passed to the client.",
                "[\"x-request-id\"]",
            ),
            it(
                "server.max_body_mb",
                Form::Whole(1, 4096),
                "32",
                "The maximum size of a request, in megabytes.",
                "64",
            ),
            it(
                "server.max_memory_mb",
                Form::Whole(0, 1_048_576),
                "0",
                "The maximum memory of the bodies and answers of all running requests together, in megabytes; 0 is half of the memory of the machine or its container. Bodies and complete responses of services of more than 16 KiB count twice, the values of bodies 128 bytes each, collected streams of more than 64 KiB four times their size, and stored conversations that a request continues twice. Requests that exceed it are rejected with 503; requests that hold up to 512 KiB may exceed it by a quarter, so that small ones are answered beside large ones.",
                "4096",
            ),
            it(
                "server.max_text_mb",
                Form::Whole(1, 64),
                "4",
                "The maximum length of a text that a script reads or builds, in megabytes. A request with a longer text is rejected with 413 when a script reads the text.",
                "16",
            ),
            it(
                "server.keep_alive_ms",
                Form::Whole(0, 3_600_000),
                "15000",
                "The interval of keep-alive comments in an idle stream, in milliseconds; 0 disables them.",
                "5000",
            ),
            it(
                "server.body_timeout_ms",
                Form::Whole(0, 3_600_000),
                "60000",
                "The maximum time for which the host waits for the body of a request or the rest of a WebSocket message, in milliseconds; 0 disables it. Each KiB that arrives extends it by a second, up to this time again, so that slow clients with at least 1 KiB per second finish. Others receive 408, and their connection is closed.",
                "20000",
            ),
            it(
                "server.hosts",
                Form::Texts("list of names"),
                "[]",
                "Accepted host names besides the listen address and the names of loopback (`localhost`, `127.0.0.1`, `[::1]`). If empty, all names are accepted when keys are configured.",
                "[\"chat.example.com\"]",
            ),
            it(
                "server.origins",
                Form::Texts("list of sites"),
                "[]",
                "The sites whose pages can use the inference endpoints from a browser.",
                "[\"https://chat.example.com\"]",
            ),
            it(
                "server.max_sockets",
                Form::Whole(1, 1_000_000),
                "1000",
                "The maximum number of open WebSockets of all clients together. More are rejected with 503.",
                "200",
            ),
            it(
                "server.max_sockets_each",
                Form::Whole(1, 1_000_000),
                "100",
                "The maximum number of open WebSockets for each key or, without keys, each address. More are rejected with 429.",
                "20",
            ),
            it(
                "server.max_stored_mb_each",
                Form::Whole(1, 1_000_000),
                "1024",
                "The maximum size of the stored responses and conversations of each key or, without keys, of all clients together, in megabytes. What exceeds it is rejected with 413, or answered with `store: false` if nothing asked for it to be stored.",
                "64",
            ),
            it(
                "server.requests_per_minute",
                Form::Whole(0, 1_000_000),
                "0",
                "The maximum number of model requests per minute for each key or, without keys, each address; 0 disables the limit. Hosts on one Postgres database share it. A change is applied at once.",
                "60",
            ),
        ],
    },
    Section {
        header: "[admin]",
        about: "Access to the admin page and to all routes that change something.",
        waits: true,
        settings: &[it(
            "admin.key",
            Form::Secret,
            NONE,
            "The operators' key; without one, only this machine and the admin page have access.",
            "\"env:VALVEHOUSE_ADMIN_KEY\"",
        )],
    },
    Section {
        header: "[folders]",
        about: "The folders of scripts, relative to the project.",
        waits: true,
        settings: &[
            it(
                "folders.filters",
                Form::Text("folder"),
                "\"filters\"",
                "The folder of filters.",
                "\"plugins/filters\"",
            ),
            it(
                "folders.tools",
                Form::Text("folder"),
                "\"tools\"",
                "The folder of tools.",
                "\"plugins/tools\"",
            ),
            it(
                "folders.actions",
                Form::Text("folder"),
                "\"actions\"",
                "The folder of actions.",
                "\"plugins/actions\"",
            ),
            it(
                "folders.source",
                Form::OneOf(&["folder", "store"]),
                "\"folder\"",
                "The source of scripts: these folders, or the store, to which `valvehouse apply` uploads them.",
                "\"store\"",
            ),
            it(
                "folders.public_key",
                Form::Matching("public key of minisign", "^RW.{54}$"),
                NONE,
                "The public key for scripts in the store; scripts without a valid signature are rejected.",
                "\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"",
            ),
            it(
                "folders.strict",
                Form::Truth,
                "false",
                "Treat the warnings of `valvehouse check` as errors: a script with warnings is not loaded, and its last good version keeps running. `serve --strict` sets it.",
                "true",
            ),
        ],
    },
    Section {
        header: "[store]",
        about: "The store of valves, switches, grants, histories and conversations.",
        waits: true,
        settings: &[
            it(
                "store.url",
                Form::StoreUrl,
                "\"sqlite://.valvehouse/state.db\"",
                "An SQLite file, relative to the project; or a Postgres database, `postgres://USER@HOST/NAME`, for [several hosts](several-hosts.md).",
                "\"sqlite:///var/lib/valvehouse/state.db\"",
            ),
            it(
                "store.key",
                Form::Secret,
                NONE,
                "The key that encrypts values set by operators and users; by default a key file that is created next to the store.",
                "\"env:VALVEHOUSE_STORE_KEY\"",
            ),
            it(
                "store.listen_url",
                Form::DatabaseUrl,
                NONE,
                "The address of the database without a pooler such as pgbouncer, for the connection that receives notifications of changes; default: `store.url`.",
                "\"postgres://valvehouse@db.internal:5432/valvehouse\"",
            ),
            it(
                "store.migrate_url",
                Form::DatabaseUrl,
                NONE,
                "The URL of the database with the role that owns the tables, used to create and update them; default: `store.url`.",
                "\"postgres://owner@db.internal:5432/valvehouse\"",
            ),
            it(
                "store.migrate",
                Form::OneOf(&["auto", "wait"]),
                "\"auto\"",
                "`auto`: a host creates and updates the tables. `wait`: it waits for `valvehouse migrate`.",
                "\"wait\"",
            ),
            it(
                "store.snapshot",
                Form::PathOrFalse,
                "\".valvehouse/snapshot\"",
                "The encrypted file from which a host starts [while its Postgres database is unavailable](several-hosts.md#when-the-database-is-unavailable). `false`: it does not start then. Not used with SQLite.",
                "\"/var/lib/valvehouse/snapshot\"",
            ),
            it(
                "store.connect_ms",
                Form::Whole(100, 600_000),
                "3000",
                "The timeout, in milliseconds, after which a Postgres database counts as unavailable.",
                "1000",
            ),
        ],
    },
    Section {
        header: "[breaker]",
        about: "The circuit breaker of plugins: a plugin that fails repeatedly is not called for a while.",
        waits: false,
        settings: &[
            it(
                "breaker.failure_threshold",
                Form::Whole(0, 1000),
                "5",
                "The number of failures that opens the breaker; 0 disables it.",
                "3",
            ),
            it(
                "breaker.window_ms",
                Form::Milliseconds(1, 86_400_000),
                "60000",
                "The time window in which failures are counted.",
                "10000",
            ),
            it(
                "breaker.cool_down_ms",
                Form::Milliseconds(1, 86_400_000),
                "10000",
                "The time until one call is tried again.",
                "60000",
            ),
        ],
    },
    Section {
        header: "[limits]",
        about: "The limits of scripts.",
        waits: false,
        settings: &[it(
            "limits.time_scale",
            Form::Number(0.01, 100.0),
            "1.0",
            "The factor on the [CPU time of scripts](sandbox.md#budgets), for a machine that is so slow that ordinary scripts exceed it. A plugin's own `budget.ms` is not multiplied.",
            "3.0",
        )],
    },
    Section {
        header: "[trace]",
        about: "The stored traces of finished requests.",
        waits: false,
        settings: &[
            it(
                "trace.turns",
                Form::Whole(0, 10_000),
                "100",
                "The number of requests; a change needs a restart.",
                "1000",
            ),
            it(
                "trace.contents",
                Form::Texts("list of ids"),
                "[]",
                "The plugins whose values are stored in addition to names and numbers.",
                "[\"redact\"]",
            ),
        ],
    },
    Section {
        header: "[otlp]",
        about: "The export of finished requests as OpenTelemetry traces over HTTP. Needs the feature `otlp`, which is on by default.",
        waits: true,
        settings: &[
            it(
                "otlp.endpoint",
                Form::Url("URL"),
                NONE,
                "The collector's address; `/v1/traces` is appended. Without it, nothing is sent.",
                "\"http://127.0.0.1:4318\"",
            ),
            it(
                "otlp.headers",
                Form::Secrets,
                "{}",
                "Additional headers of each batch.",
                "{ authorization = \"env:COLLECTOR_TOKEN\" }",
            ),
            it(
                "otlp.service",
                Form::Text("text"),
                "\"valvehouse\"",
                "The name of this host (`service.name`).",
                "\"gateway\"",
            ),
        ],
    },
    Section {
        header: "[[providers]]",
        about: "Services with models. Without providers and models, there is the provider `demo`: offline and deterministic.",
        waits: false,
        settings: &[
            it(
                "providers.NAME.name",
                Form::Text("text"),
                REQUIRED,
                "The provider's name in models and logs.",
                "\"openai\"",
            ),
            it(
                "providers.NAME.kind",
                Form::Text("kind"),
                "*its name*",
                "`openai`, `anthropic`, `ollama`, `demo`, or a service with a known address ([Providers](providers.md)).",
                "\"openrouter\"",
            ),
            it(
                "providers.NAME.base_url",
                Form::Url("URL"),
                "*its kind's*",
                "The address of its API.",
                "\"https://api.example.com/v1\"",
            ),
            it(
                "providers.NAME.api",
                Form::OneOf(&["chat", "responses"]),
                "\"chat\"",
                "The API used for chats with an OpenAI-compatible service: chat completions, or Responses.",
                "\"responses\"",
            ),
            it(
                "providers.NAME.api_key",
                Form::SecretOr("client"),
                "*the usual variable of its kind*",
                "The service's key: `env:NAME`, `file:PATH`, or the key itself. A file is read again when it changes. `client`: each client's own key from the request.",
                "\"env:OPENAI_API_KEY\"",
            ),
            it(
                "providers.NAME.models",
                Form::TextOrTexts("`\"*\"` or list of names"),
                "[]",
                "The models that clients can request by the service's names, as `provider/model`, or without the provider if unique.",
                "\"*\"",
            ),
            it(
                "providers.NAME.unlisted",
                Form::OneOf(&["pass", "refuse"]),
                "\"pass\"",
                "`refuse`: with `models = \"*\"`, only the models of `[[models]]` can be requested by the service's names, and requests of other routes must name one. Recommended if one of them has guards of its own.",
                "\"refuse\"",
            ),
            it(
                "providers.NAME.routes",
                Form::ListOf(&ROUTES),
                "*all that its kind may have*",
                "Its routes other than chats, by first path segment: `embeddings`, `completions`, `moderations`, `audio`, `images`, `files`, `batches`, `rerank`, `messages`.",
                "[\"embeddings\", \"files\"]",
            ),
            it(
                "providers.NAME.timeouts.connect_ms",
                Form::Milliseconds(1, 86_400_000),
                "10000",
                "The timeout for a connection.",
                "3000",
            ),
            it(
                "providers.NAME.timeouts.response_ms",
                Form::Milliseconds(1, 86_400_000),
                "300000",
                "The timeout for the first byte of an answer.",
                "60000",
            ),
            it(
                "providers.NAME.timeouts.idle_ms",
                Form::Milliseconds(1, 86_400_000),
                "120000",
                "The timeout between chunks of a streamed answer.",
                "30000",
            ),
            it(
                "providers.NAME.timeouts.total_ms",
                Form::Milliseconds(1, 86_400_000),
                NONE,
                "The timeout for a whole answer, including retries.",
                "600000",
            ),
            it(
                "providers.NAME.retry.max_attempts",
                Form::Whole(1, 21),
                "3",
                "The maximum number of attempts, including the first. A request is retried only until the first byte of its answer.",
                "1",
            ),
            it(
                "providers.NAME.retry.initial_delay_ms",
                Form::Milliseconds(1, 3_600_000),
                "500",
                "The maximum delay before the first retry; it doubles with each retry.",
                "100",
            ),
            it(
                "providers.NAME.retry.max_delay_ms",
                Form::Milliseconds(1, 3_600_000),
                "10000",
                "The maximum delay; if a service demands a longer one, the request is not retried.",
                "30000",
            ),
            it(
                "providers.NAME.retry.after_send",
                Form::Truth,
                "false",
                "Retry even if the connection was lost after the request was sent: the work may be done, and charged, twice.",
                "true",
            ),
            it(
                "providers.NAME.breaker.failure_threshold",
                Form::Whole(0, 1000),
                "5",
                "The number of failures that opens the breaker of a model; 0 disables it.",
                "10",
            ),
            it(
                "providers.NAME.breaker.window_ms",
                Form::Milliseconds(1, 86_400_000),
                "60000",
                "The time window in which failures are counted.",
                "30000",
            ),
            it(
                "providers.NAME.breaker.cool_down_ms",
                Form::Milliseconds(1, 86_400_000),
                "10000",
                "The time until one call is tried again.",
                "5000",
            ),
        ],
    },
    Section {
        header: "[[models]]",
        about: "Models with your own names and settings.",
        waits: false,
        settings: &[
            it("models.NAME.name", Form::Text("text"), REQUIRED, "The name for clients.", "\"assistant\""),
            it(
                "models.NAME.provider",
                Form::Text("text"),
                "*the only provider*",
                "The model's provider, or `pipes` for a model that a script provides.",
                "\"openai\"",
            ),
            it(
                "models.NAME.model",
                Form::Text("text"),
                "*its name*",
                "The provider's name for the model.",
                "\"gpt-5\"",
            ),
            it(
                "models.NAME.fallbacks",
                Form::Texts("list of models"),
                "[]",
                "The models that answer if it cannot, in order: other models, or `provider/model`.",
                "[\"small\", \"other/large\"]",
            ),
            it(
                "models.NAME.system_prompt",
                Form::Text("text"),
                NONE,
                "The system prompt of each conversation; never stored.",
                "\"Be brief.\"",
            ),
            it(
                "models.NAME.filters",
                Form::Texts("list of ids"),
                "[]",
                "The filters with `global: false` that run in addition to the global ones. Guards among them also run for requests that use the provider's own name for the model.",
                "[\"turn_limit\"]",
            ),
            it(
                "models.NAME.without",
                Form::Texts("list of ids"),
                "[]",
                "The global filters that do not run for this model. Guards always run.",
                "[\"answer_stats\"]",
            ),
            it(
                "models.NAME.tools",
                Form::Texts("list of names"),
                "[]",
                "The tools that the model is offered: names, `tag:NAME`, or `*`.",
                "[\"tag:weather\", \"todo_add\"]",
            ),
            it(
                "models.NAME.actions",
                Form::Texts("list of ids"),
                "[]",
                "The actions with `global: false` that its answers have in addition to the global ones.",
                "[\"table_to_csv\"]",
            ),
            it(
                "models.NAME.tool_search",
                Form::Truth,
                "false",
                "Offer `find_tools`, `run_script` and the tools found in the turn instead of all tools ([MCP](mcp.md#many-tools-in-few-tokens)).",
                "true",
            ),
            it(
                "models.NAME.max_tool_iterations",
                Form::Whole(1, 1000),
                "10",
                "The maximum number of model calls in one turn.",
                "5",
            ),
            it(
                "models.NAME.variables",
                Form::Table("table"),
                "{}",
                "Context variables of its turns, which requests cannot change; `variables` of a key's `user` override them.",
                "{ permissions = [\"chat\"] }",
            ),
            it(
                "models.NAME.memory",
                Form::Truth,
                "false",
                "Store conversations with a chat id, so that their runs can be resumed.",
                "true",
            ),
            it(
                "models.NAME.check_response_format",
                Form::Truth,
                "*that of `memory`*",
                "Check complete answers against the `response_format` of their requests and request a mismatch again, up to two times ([providers](providers.md)).",
                "true",
            ),
            it(
                "models.NAME.description",
                Form::Text("text"),
                NONE,
                "The description, for scripts and people.",
                "\"Answers questions about orders.\"",
            ),
            it(
                "models.NAME.abilities",
                Form::Texts("list of words"),
                "[]",
                "The abilities of the model, in your own words, for scripts that choose a model.",
                "[\"vision\", \"tools\"]",
            ),
            it(
                "models.NAME.context_length",
                Form::Whole(1, 1_000_000_000),
                NONE,
                "The maximum number of tokens of a request with its answer.",
                "128000",
            ),
            it(
                "models.NAME.price",
                Form::Numbers,
                "{}",
                "The price of a million tokens by their kind, for scripts that choose a model or count costs.",
                "{ input = 0.5, output = 1.5 }",
            ),
            it(
                "models.NAME.preset",
                Form::Text("name"),
                NONE,
                "A predefined set of middleware.",
                "\"production\"",
            ),
            it(
                "models.NAME.middleware",
                Form::Table("table of tables"),
                "{}",
                "Middleware by name, with its options.",
                "{ call_limit = { max_model_calls = 5 } }",
            ),
        ],
    },
    Section {
        header: "[embeddings]",
        about: "The vectors of texts that scripts embed and of memories.",
        waits: false,
        settings: &[it(
            "embeddings.model",
            Form::Text("name of a model"),
            NONE,
            "The model whose provider serves `/v1/embeddings`. Without it, the host computes vectors that compare words, not meanings. Memories are embedded again when it changes.",
            "\"text-embedding-3-small\"",
        )],
    },
    Section {
        header: "[oauth]",
        about: "The authorization servers whose access tokens `/mcp` accepts in addition to the keys of `[server]` ([MCP](mcp.md)).",
        waits: true,
        settings: &[
            it(
                "oauth.authorization_servers",
                Form::Texts("list of issuers"),
                REQUIRED,
                "Their issuers, exactly as in their tokens. Their keys come from their metadata (RFC 8414, or OpenID Connect).",
                "[\"https://login.example.com\"]",
            ),
            it(
                "oauth.resource",
                Form::Url("URL that ends in `/mcp`"),
                REQUIRED,
                "The public address of this endpoint: the audience that a token needs.",
                "\"https://example.com/mcp\"",
            ),
            it(
                "oauth.scopes",
                Form::Texts("list of texts"),
                "[]",
                "The scopes that a token must have.",
                "[\"tools\"]",
            ),
            it(
                "oauth.user_claim",
                Form::Text("name of a claim"),
                "\"sub\"",
                "The token claim with the user's id; with several issuers, the id is prefixed by the issuer and `#`.",
                "\"email\"",
            ),
            it(
                "oauth.mcp_tools",
                Form::Texts("names, scripts and `tag:x`"),
                "*those of `server.mcp_tools`*",
                "The tools, prompts and resources that are visible with a token.",
                "[\"tag:reading\"]",
            ),
            it(
                "oauth.introspection_url",
                Form::Url("URL"),
                NONE,
                "The authorization server's introspection endpoint (RFC 7662) for tokens that are not JSON web tokens. A response is cached for at most 30 seconds.",
                "\"https://login.example.com/introspect\"",
            ),
            it(
                "oauth.client_id",
                Form::Text("text"),
                "*none*; needed with `introspection_url`",
                "The id of this host at the authorization server.",
                "\"valvehouse\"",
            ),
            it(
                "oauth.client_secret",
                Form::Secret,
                "*none*; needed with `introspection_url`",
                "The secret of `client_id`: the secret itself, `env:NAME` or `file:PATH`.",
                "\"env:INTROSPECTION_SECRET\"",
            ),
        ],
    },
    Section {
        header: "[[mcp]]",
        about: "Other MCP servers. Their tools are offered to models and clients through the same filters ([MCP](mcp.md)).",
        waits: false,
        settings: &[
            it(
                "mcp.NAME.name",
                Form::Matching("1 to 32 of a-z, 0-9, `_` and `-`", "^[a-z0-9_-]{1,32}$"),
                REQUIRED,
                "The server's name; its tools are called `NAME_tool`.",
                "\"github\"",
            ),
            it(
                "mcp.NAME.url",
                Form::Url("URL"),
                NONE,
                "Its address, for Streamable HTTP.",
                "\"https://example.com/mcp\"",
            ),
            it(
                "mcp.NAME.auth",
                Form::SecretOr("oauth"),
                NONE,
                "The bearer token for `url`: the token itself, `env:NAME` or `file:PATH`. `oauth`: a token that `valvehouse mcp login NAME` obtains, encrypted in the store and refreshed by hosts.",
                "\"env:GITHUB_TOKEN\"",
            ),
            it(
                "mcp.NAME.oauth.client_id",
                Form::Text("text"),
                NONE,
                "With `auth = \"oauth\"`: the id of this host at the authorization server. Without one, the host registers itself.",
                "\"valvehouse\"",
            ),
            it(
                "mcp.NAME.oauth.client_secret",
                Form::Secret,
                NONE,
                "The secret of `client_id`.",
                "\"env:GITHUB_CLIENT_SECRET\"",
            ),
            it(
                "mcp.NAME.oauth.client_metadata_url",
                Form::Url("URL"),
                NONE,
                "The address of a client metadata document that you publish, used as the client id if the authorization server supports it.",
                "\"https://example.com/client.json\"",
            ),
            it(
                "mcp.NAME.oauth.scopes",
                Form::Texts("list of texts"),
                "*those that the server names*",
                "The requested scopes.",
                "[\"repo:read\"]",
            ),
            it(
                "mcp.NAME.oauth.redirect_port",
                Form::Whole(0, 65_535),
                "0",
                "The local port for the browser's redirect, for clients with a registered redirect address; 0 selects a free port.",
                "8765",
            ),
            it(
                "mcp.NAME.command",
                Form::Command("program, or list of program and arguments"),
                NONE,
                "The program to start instead of a `url`; it uses standard input and output.",
                "[\"npx\", \"-y\", \"server\"]",
            ),
            it(
                "mcp.NAME.args",
                Form::Arguments("list of texts"),
                "[]",
                "Further arguments of the program.",
                "[\"--read-only\"]",
            ),
            it(
                "mcp.NAME.env",
                Form::Secrets,
                "{}",
                "The environment variables of the program; of the host's own, it only receives `PATH`.",
                "{ TOKEN = \"env:GITHUB_TOKEN\" }",
            ),
            it(
                "mcp.NAME.cwd",
                Form::Text("folder"),
                "\".\"",
                "The working folder of the program.",
                "\"servers\"",
            ),
            it(
                "mcp.NAME.tools",
                Form::Texts("names, with `*` for any text"),
                "[\"*\"]",
                "The tools that are offered.",
                "[\"search_*\"]",
            ),
            it(
                "mcp.NAME.trust",
                Form::OneOf(&["pin", "always"]),
                "\"pin\"",
                "`pin`: only tools whose name, description and schema are as approved by `valvehouse mcp approve NAME` are offered. `always`: all tools of the server.",
                "\"always\"",
            ),
            it(
                "mcp.NAME.timeout_ms",
                Form::Whole(1, 3_600_000),
                "60000",
                "The timeout of a call, in milliseconds.",
                "10000",
            ),
            it(
                "mcp.NAME.concurrency",
                Form::Whole(1, 1000),
                "8",
                "The maximum number of concurrent calls; others wait.",
                "2",
            ),
            it(
                "mcp.NAME.max_result_kb",
                Form::Whole(1, 65_536),
                "1024",
                "The maximum size of a result, in kilobytes.",
                "64",
            ),
        ],
    },
    Section {
        header: "[filters.ID]",
        about: "Settings of one filter.",
        waits: false,
        settings: &[
            it(
                "filters.ID.valves",
                Form::Valves,
                "{}",
                "Values of its valves, of the types that the script declares: an invalid one is reported, and the value below is used. A guard (`security: true`) with an invalid or unknown one, or whose environment variable is not set, does not load. They override the script's defaults; stored values override them. A secret valve can be `\"env:NAME\"`. Texts of environment variables are converted: `no` to false, `5` to a number.",
                "{ max_turns = 8 }",
            ),
            it(
                "filters.ID.enabled",
                Form::Truth,
                "true",
                "Run the filter, unless an operator has switched it.",
                "false",
            ),
            it(
                "filters.ID.budget.ms",
                Form::Milliseconds(1, 86_400_000),
                "*4 µs per operation: 4000; 200 for `stream`*",
                "The CPU time of a call.",
                "200",
            ),
            it(
                "filters.ID.budget.operations",
                Form::Whole(1, 1_000_000_000_000),
                "*1 000 000; 50 000 for `stream`*",
                "The interpreter operations of a call.",
                "5000000",
            ),
            it(
                "filters.ID.budget.memory_mb",
                Form::Whole(1, 1_048_576),
                "*64*",
                "The memory of a call, in megabytes.",
                "128",
            ),
        ],
    },
    Section {
        header: "[tools.ID]",
        about: "Settings of one tool file.",
        waits: false,
        settings: &[
            it(
                "tools.ID.valves",
                Form::Valves,
                "{}",
                "Values of its valves, of the types that the script declares. A secret valve can be `\"env:NAME\"`.",
                "{ unit = \"celsius\" }",
            ),
            it(
                "tools.ID.enabled",
                Form::Truth,
                "true",
                "Enable the tool, unless an operator has switched it.",
                "false",
            ),
            it(
                "tools.ID.budget.ms",
                Form::Milliseconds(1, 86_400_000),
                "*its own timeout*",
                "The elapsed time of a call, including waits.",
                "60000",
            ),
            it(
                "tools.ID.budget.operations",
                Form::Whole(1, 1_000_000_000_000),
                "*10 000 000*",
                "The interpreter operations of a call.",
                "50000000",
            ),
            it(
                "tools.ID.budget.memory_mb",
                Form::Whole(1, 1_048_576),
                "*64*",
                "The memory of a call, in megabytes.",
                "256",
            ),
        ],
    },
    Section {
        header: "[actions.ID]",
        about: "Settings of one action file.",
        waits: false,
        settings: &[
            it(
                "actions.ID.valves",
                Form::Valves,
                "{}",
                "Values of its valves, of the types that the script declares. A secret valve can be `\"env:NAME\"`.",
                "{ separator = \";\" }",
            ),
            it(
                "actions.ID.enabled",
                Form::Truth,
                "true",
                "Enable the action, unless an operator has switched it.",
                "false",
            ),
            it(
                "actions.ID.budget.ms",
                Form::Milliseconds(1, 86_400_000),
                "*its own timeout*",
                "The elapsed time of a call, including waits.",
                "60000",
            ),
            it(
                "actions.ID.budget.operations",
                Form::Whole(1, 1_000_000_000_000),
                "*10 000 000*",
                "The interpreter operations of a call.",
                "50000000",
            ),
            it(
                "actions.ID.budget.memory_mb",
                Form::Whole(1, 1_048_576),
                "*64*",
                "The memory of a call, in megabytes.",
                "256",
            ),
        ],
    },
    Section {
        header: "[interceptors.ID]",
        about: "A filter that other hosts can call at `/mcp`, with an experimental extension of MCP ([MCP](mcp.md#filters-for-other-hosts)). By default no filter can be called.",
        waits: true,
        settings: &[
            it(
                "interceptors.ID.type",
                Form::OneOf(&["mutation", "validation"]),
                "\"mutation\"",
                "`mutation`: the filter returns the payload. `validation`: it returns a decision only.",
                "\"validation\"",
            ),
            it(
                "interceptors.ID.mode",
                Form::OneOf(&["enforce", "audit"]),
                "\"enforce\"",
                "`enforce`: other hosts block rejected payloads and use changed ones. `audit`: they only record them.",
                "\"audit\"",
            ),
        ],
    },
    Section {
        header: "[grants.ID]",
        about: "Access of a plugin or native tool, in addition to grants by `valvehouse grant`.",
        waits: false,
        settings: &[
            it(
                "grants.ID.http",
                Form::Grant("true, false or list of hosts"),
                "false",
                "Hosts; `true` is all public ones. Private addresses must be named literally.",
                "[\"api.example.com\", \"*.example.org\"]",
            ),
            it(
                "grants.ID.files",
                Form::Texts("list of folders"),
                "[]",
                "Folders, relative to the project or absolute.",
                "[\"data\"]",
            ),
            it(
                "grants.ID.shell",
                Form::Grant("true, false or list of programs"),
                "false",
                "Programs.",
                "[\"git\"]",
            ),
            it(
                "grants.ID.env",
                Form::Grant("true, false or list of names"),
                "false",
                "Environment variables.",
                "[\"LANG\"]",
            ),
            it(
                "grants.ID.kv",
                Form::Truth,
                "false",
                "A durable key-value store; the declaration in the script grants it.",
                "true",
            ),
            it(
                "grants.ID.llm",
                Form::Truth,
                "false",
                "Models of this host; the declaration in the script grants them.",
                "true",
            ),
            it(
                "grants.ID.tools",
                Form::Grant("true, false or list of tools"),
                "false",
                "Tools of this host in addition to those of the turn: names, scripts, `tag:x`.",
                "[\"weather\"]",
            ),
            it(
                "grants.ID.vectors",
                Form::Truth,
                "false",
                "Stored vectors of its own; the declaration in the script grants them.",
                "true",
            ),
            it("grants.ID.memories", Form::Truth, "false", "The memories of the user of a request.", "true"),
            it(
                "grants.ID.chats",
                Form::Truth,
                "false",
                "The stored conversations of the user of a request, read only.",
                "true",
            ),
        ],
    },
];
