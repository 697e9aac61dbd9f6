//! Every setting there is, in the order of the document. Parts in capitals stand for names of one's own.

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Described {
    /// Its dotted key.
    pub key: &'static str,
    /// The form of the value.
    pub form: &'static str,
    /// The value where nobody sets it, as it is written; a word in italics where there is none.
    pub usual: &'static str,
    /// The effect of the setting.
    pub about: &'static str,
    /// A value, as it is written.
    pub example: &'static str,
}

/// A table of the file.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// As it is written.
    pub header: &'static str,
    /// The purpose of the section.
    pub about: &'static str,
    /// Is `true` if a change waits for the next start; the others are taken up when the file is read again.
    pub waits: bool,
    /// Its settings.
    pub settings: &'static [Described],
}

const fn it(
    key: &'static str,
    form: &'static str,
    usual: &'static str,
    about: &'static str,
    example: &'static str,
) -> Described {
    Described { key, form, usual, about, example }
}

/// Written for: nothing, and that means none.
const NONE: &str = "*none*";
/// It has to be given.
const NEEDED: &str = "*must be given*";

/// All of them.
pub const SECTIONS: &[Section] = &[
    Section {
        header: "[server]",
        about: "What clients connect to.",
        waits: true,
        settings: &[
            it(
                "server.listen",
                "address and port",
                "\"127.0.0.1:9099\"",
                "Where to listen; port 0 is any free one. Other machines are only let in where there are keys.",
                "\"0.0.0.0:9099\"",
            ),
            it(
                "server.keys",
                "list of keys",
                "[]",
                "Who may ask; with none, only this machine. A key is a text, or a table with the user it is bound to.",
                "[\"env:CHAT_KEY\", { key = \"file:ann.key\", user = { id = \"ann\", role = \"user\" } }]",
            ),
            it(
                "server.keys[0].key",
                "secret",
                NEEDED,
                "The key itself, `env:NAME`, `file:PATH`, or its digest `sha256:…`.",
                "\"env:ANNS_KEY\"",
            ),
            it(
                "server.keys[0].user",
                "table with an `id`",
                NONE,
                "Whose key it is: scripts see it as `__user__`, whatever the request says. Its `variables`, a table, are context variables that no request can change.",
                "{ id = \"ann\", name = \"Ann\", role = \"admin\" }",
            ),
            it(
                "server.keys[0].mcp_tools",
                "names, scripts and `tag:x`",
                "*those of `server.mcp_tools`*",
                "The tools, prompts and resources that its holder sees at `/mcp`.",
                "[\"tag:reading\"]",
            ),
            it(
                "server.mcp_tools",
                "names, scripts and `tag:x`",
                "[\"*\"]",
                "The tools, prompts and resources that clients of MCP see at `/mcp`; `*` is all but the host's own guarded tools (`file_…`, `shell_exec`), which are named. An empty list closes the endpoint.",
                "[\"calculator\", \"tag:reading\"]",
            ),
            it(
                "server.trust_user_headers",
                "true or false",
                "false",
                "Whether to believe the `X-OpenWebUI-User-…` headers of whoever has a key bound to nobody.",
                "true",
            ),
            it(
                "server.trusted_proxies",
                "list of addresses and networks",
                "[]",
                "Proxies in front of this host: where they are asked from is read from `X-Forwarded-For` or `Forwarded`.",
                "[\"127.0.0.1\", \"10.0.0.0/8\"]",
            ),
            it(
                "server.pipelines",
                "true or false",
                "true",
                "Whether lists of models show the filters as well, so that an Open WebUI takes this host for its pipelines server.",
                "false",
            ),
            it(
                "server.client_variables",
                "names",
                "[]",
                "The variables that requests may set with `metadata.variables`. Others of theirs are read under `ctx.context.client`; those that `variables` of a model or of a key's `user` sets cannot be changed by any request.",
                "[\"locale\"]",
            ),
            it(
                "server.request_headers",
                "names of headers",
                "[\"openai-organization\", \"openai-project\", \"openai-beta\", \"idempotency-key\", \"http-referer\", \"x-title\", \"traceparent\", \"tracestate\", \"anthropic-beta\", \"anthropic-version\"]",
                "The headers of a client that reach the models' service; `x-mine-*` stands for all that begin so. Those that begin with `openai-` reach no service with Anthropic's API, and those with `anthropic-` no other.",
                "[\"traceparent\", \"x-team-*\"]",
            ),
            it(
                "server.response_headers",
                "names of headers",
                "[\"x-request-id\", \"request-id\", \"x-ratelimit-*\", \"anthropic-ratelimit-*\", \"retry-after\", \"openai-processing-ms\"]",
                "The headers of a service's answer that reach the client.",
                "[\"x-request-id\"]",
            ),
            it("server.max_body_mb", "1 to 4096", "32", "The largest request, in megabytes.", "64"),
            it(
                "server.max_text_mb",
                "1 to 64",
                "4",
                "The longest text that a script may read or build, in megabytes. A request with a longer one is refused with 413 when a script reads it; what no script reads passes.",
                "16",
            ),
            it(
                "server.keep_alive_ms",
                "0 to 3600000",
                "15000",
                "After so many milliseconds of silence a stream says that it is still there; 0: never.",
                "5000",
            ),
            it(
                "server.hosts",
                "list of names",
                "[]",
                "Other names than the listen address and this machine's own under which clients find us; with none, any name where there are keys.",
                "[\"chat.example.com\"]",
            ),
            it(
                "server.origins",
                "list of sites",
                "[]",
                "The sites whose pages may use the inference doors from a browser.",
                "[\"https://chat.example.com\"]",
            ),
            it(
                "server.requests_per_minute",
                "0 to 1000000",
                "0",
                "How often each key or, without keys, each address may ask a model a minute; 0: as often as it likes. A change is applied at once.",
                "60",
            ),
        ],
    },
    Section {
        header: "[admin]",
        about: "What operators use: their page, and all routes that change something.",
        waits: true,
        settings: &[it(
            "admin.key",
            "secret",
            NONE,
            "The operators' key; without one, only this machine and our own page are let in.",
            "\"env:VALVEHOUSE_ADMIN_KEY\"",
        )],
    },
    Section {
        header: "[folders]",
        about: "Where scripts live; relative to the project.",
        waits: true,
        settings: &[
            it("folders.filters", "folder", "\"filters\"", "The filters.", "\"plugins/filters\""),
            it("folders.tools", "folder", "\"tools\"", "The tools.", "\"plugins/tools\""),
        ],
    },
    Section {
        header: "[store]",
        about: "Where valves, switches, grants, histories and conversations live.",
        waits: true,
        settings: &[
            it(
                "store.url",
                "URL",
                "\"sqlite://.valvehouse/state.db\"",
                "A file of SQLite's, relative to the project; or a database of Postgres, `postgres://USER@HOST/NAME`, for [several hosts](several-hosts.md).",
                "\"sqlite:///var/lib/valvehouse/state.db\"",
            ),
            it(
                "store.key",
                "secret",
                NONE,
                "The key that seals what people set; without it one in a file beside the store, made with it.",
                "\"env:VALVEHOUSE_STORE_KEY\"",
            ),
        ],
    },
    Section {
        header: "[breaker]",
        about: "When a plugin that breaks again and again is left alone.",
        waits: false,
        settings: &[
            it("breaker.breaks", "0 to 1000", "5", "After so many breakages; 0: never.", "3"),
            it("breaker.window_ms", "milliseconds", "60000", "Within this time.", "10000"),
            it("breaker.rest_ms", "milliseconds", "10000", "For so long, before it is tried again.", "60000"),
        ],
    },
    Section {
        header: "[trace]",
        about: "What is kept of requests that ended.",
        waits: false,
        settings: &[
            it("trace.turns", "0 to 10000", "100", "Of how many; a change waits for the next start.", "1000"),
            it(
                "trace.contents",
                "list of ids",
                "[]",
                "The plugins whose values are kept as well, not only names and numbers.",
                "[\"redact\"]",
            ),
        ],
    },
    Section {
        header: "[otlp]",
        about: "Where requests that ended are sent as traces, by OpenTelemetry's protocol over HTTP. Needs the feature `otlp`, which is built in unless left out.",
        waits: true,
        settings: &[
            it(
                "otlp.endpoint",
                "URL",
                NONE,
                "The collector; `/v1/traces` is added. None: nothing is sent.",
                "\"http://127.0.0.1:4318\"",
            ),
            it(
                "otlp.headers",
                "table of texts or secrets",
                "{}",
                "What is sent along with each batch.",
                "{ authorization = \"env:COLLECTOR_TOKEN\" }",
            ),
            it(
                "otlp.service",
                "text",
                "\"valvehouse\"",
                "What this host calls itself (`service.name`).",
                "\"gateway\"",
            ),
        ],
    },
    Section {
        header: "[[providers]]",
        about: "Services that serve models, in order. Without any, and without models, there is the provider `demo`: offline, always the same.",
        waits: false,
        settings: &[
            it("providers.NAME.name", "text", NEEDED, "What models and logs call it.", "\"openai\""),
            it(
                "providers.NAME.kind",
                "kind",
                "*its name*",
                "`openai`, `anthropic`, `ollama`, `demo`, or one of the services whose address is known: `valvehouse` names them all when it knows none.",
                "\"openrouter\"",
            ),
            it(
                "providers.NAME.base_url",
                "URL",
                "*its kind's*",
                "Where it is.",
                "\"https://api.example.com/v1\"",
            ),
            it(
                "providers.NAME.api_key",
                "secret",
                "*the usual variable of its kind*",
                "What it is paid with: `env:NAME`, `file:PATH`, or the key itself. A file is read again when it changes. `client`: each caller's own key, as it came with the request.",
                "\"env:OPENAI_API_KEY\"",
            ),
            it(
                "providers.NAME.models",
                "`\"*\"` or list of names",
                "[]",
                "Which of its models may be asked for by their own names, as `provider/model` or bare where unique.",
                "\"*\"",
            ),
            it(
                "providers.NAME.routes",
                "list of routes",
                "*all that its kind may have*",
                "Its routes beside chats, by their first step: `embeddings`, `completions`, `moderations`, `audio`, `images`, `files`, `batches`, `rerank`, `messages`.",
                "[\"embeddings\", \"files\"]",
            ),
            it(
                "providers.NAME.timeouts.connect_ms",
                "milliseconds",
                "10000",
                "How long a connection may take.",
                "3000",
            ),
            it(
                "providers.NAME.timeouts.answer_ms",
                "milliseconds",
                "300000",
                "How long the first byte of an answer may take.",
                "60000",
            ),
            it(
                "providers.NAME.timeouts.idle_ms",
                "milliseconds",
                "120000",
                "How long a streamed answer may be silent.",
                "30000",
            ),
            it(
                "providers.NAME.timeouts.total_ms",
                "milliseconds",
                NONE,
                "How long a whole answer may take, asking again included.",
                "600000",
            ),
            it(
                "providers.NAME.retry.times",
                "0 to 20",
                "2",
                "How often it is asked again when it failed before anything of its answer was passed on.",
                "0",
            ),
            it(
                "providers.NAME.retry.first_ms",
                "milliseconds",
                "500",
                "The longest wait before the first of them; it doubles each time.",
                "100",
            ),
            it(
                "providers.NAME.retry.longest_ms",
                "milliseconds",
                "10000",
                "No wait is longer; a service that asks for a longer one is not asked again.",
                "30000",
            ),
            it(
                "providers.NAME.retry.lost",
                "true or false",
                "false",
                "Also when the connection was lost after the request was sent: the work may be done, and paid for, twice.",
                "true",
            ),
            it(
                "providers.NAME.breaker.breaks",
                "0 to 1000",
                "5",
                "After so many failures it is left alone; 0: never.",
                "10",
            ),
            it("providers.NAME.breaker.window_ms", "milliseconds", "60000", "Within this time.", "30000"),
            it(
                "providers.NAME.breaker.rest_ms",
                "milliseconds",
                "10000",
                "For so long, before it is tried again.",
                "5000",
            ),
        ],
    },
    Section {
        header: "[[models]]",
        about: "Models under names of your own.",
        waits: false,
        settings: &[
            it("models.NAME.name", "text", NEEDED, "What clients call it.", "\"assistant\""),
            it(
                "models.NAME.provider",
                "text",
                "*the only provider*",
                "The provider that has it, or `pipes` for one that a script offers.",
                "\"openai\"",
            ),
            it("models.NAME.model", "text", "*its name*", "What the provider calls it.", "\"gpt-5\""),
            it(
                "models.NAME.fallbacks",
                "list of models",
                "[]",
                "Who answers where it cannot, in order: other models, or `provider/model`.",
                "[\"small\", \"other/large\"]",
            ),
            it(
                "models.NAME.system_prompt",
                "text",
                NONE,
                "What it is told before each conversation; never stored.",
                "\"Be brief.\"",
            ),
            it(
                "models.NAME.filters",
                "list of ids",
                "[]",
                "The filters with `global: false` that it uses beside the global ones. Guards among them also run for requests that name the provider's model itself, where the provider passes its names on.",
                "[\"turn_limit\"]",
            ),
            it(
                "models.NAME.tools",
                "list of names",
                "[]",
                "The tools it is offered: names, `tag:NAME`, or `*`.",
                "[\"tag:weather\", \"todo_add\"]",
            ),
            it(
                "models.NAME.max_tool_iterations",
                "1 to 1000",
                "10",
                "How many model calls one turn may take.",
                "5",
            ),
            it(
                "models.NAME.variables",
                "table",
                "{}",
                "Context variables of its turns, which no request can change; `variables` of a key's `user` lie over them.",
                "{ permissions = [\"chat\"] }",
            ),
            it(
                "models.NAME.memory",
                "true or false",
                "false",
                "Whether conversations with a chat id are kept, and their runs can be gone on with.",
                "true",
            ),
            it("models.NAME.preset", "name", NONE, "Middleware that goes well together.", "\"careful\""),
            it(
                "models.NAME.middleware",
                "table of tables",
                "{}",
                "Middleware by name, each with its options.",
                "{ call_limit = { max_model_calls = 5 } }",
            ),
        ],
    },
    Section {
        header: "[[mcp]]",
        about: "Other MCP servers, whose tools every model and client is offered behind the same filters ([MCP](mcp.md)).",
        waits: false,
        settings: &[
            it(
                "mcp.NAME.name",
                "1 to 32 of a-z, 0-9, `_` and `-`",
                NEEDED,
                "What it is called; its tools are called `NAME_tool`.",
                "\"github\"",
            ),
            it(
                "mcp.NAME.url",
                "URL",
                NONE,
                "Its address, for Streamable HTTP.",
                "\"https://example.com/mcp\"",
            ),
            it(
                "mcp.NAME.auth",
                "secret",
                NONE,
                "The bearer token that is sent to `url`: itself, `env:NAME` or `file:PATH`.",
                "\"env:GITHUB_TOKEN\"",
            ),
            it(
                "mcp.NAME.command",
                "program, or list of program and arguments",
                NONE,
                "The program that is started in place of a `url`, and spoken to over its standard input and output.",
                "[\"npx\", \"-y\", \"server\"]",
            ),
            it(
                "mcp.NAME.args",
                "list of texts",
                "[]",
                "Further arguments of the program.",
                "[\"--read-only\"]",
            ),
            it(
                "mcp.NAME.env",
                "table of texts or secrets",
                "{}",
                "The environment of the program, which sees nothing else of this host's but `PATH`.",
                "{ TOKEN = \"env:GITHUB_TOKEN\" }",
            ),
            it("mcp.NAME.cwd", "folder", "\".\"", "The folder that the program runs in.", "\"servers\""),
            it(
                "mcp.NAME.tools",
                "names, with `*` for any text",
                "[\"*\"]",
                "Which of its tools are offered.",
                "[\"search_*\"]",
            ),
            it(
                "mcp.NAME.trust",
                "`pin` or `always`",
                "\"pin\"",
                "`pin`: a tool is offered once `valvehouse mcp approve NAME` was run, and no longer when its name, description or schema differ from what was approved. `always`: whatever the server has.",
                "\"always\"",
            ),
            it(
                "mcp.NAME.timeout_ms",
                "1 to 3600000",
                "60000",
                "How long one call may take, in milliseconds.",
                "10000",
            ),
            it("mcp.NAME.concurrency", "1 to 1000", "8", "Calls of this server at once; others wait.", "2"),
            it("mcp.NAME.max_result_kb", "1 to 65536", "1024", "The largest result, in kilobytes.", "64"),
        ],
    },
    Section {
        header: "[filters.ID]",
        about: "What is said of one filter beside its own file.",
        waits: false,
        settings: &[
            it(
                "filters.ID.valves",
                "table",
                "{}",
                "Values of its valves, between the script's defaults and what is stored. A secret one may be `\"env:NAME\"`.",
                "{ max_turns = 8 }",
            ),
            it(
                "filters.ID.enabled",
                "true or false",
                "true",
                "Whether it runs, unless an operator switched it.",
                "false",
            ),
            it(
                "filters.ID.budget.ms",
                "milliseconds",
                "*100; 5 for `stream`*",
                "Own running time of a call.",
                "200",
            ),
            it(
                "filters.ID.budget.operations",
                "1 to 10¹²",
                "*1 000 000; 50 000 for `stream`*",
                "Operations of a call.",
                "5000000",
            ),
            it(
                "filters.ID.budget.memory_mb",
                "1 to 1048576",
                "*64*",
                "Memory of a call, in megabytes.",
                "128",
            ),
        ],
    },
    Section {
        header: "[tools.ID]",
        about: "What is said of one tool's file.",
        waits: false,
        settings: &[
            it(
                "tools.ID.valves",
                "table",
                "{}",
                "Values of its valves. A secret one may be `\"env:NAME\"`.",
                "{ unit = \"celsius\" }",
            ),
            it(
                "tools.ID.enabled",
                "true or false",
                "true",
                "Whether it is there, unless an operator switched it.",
                "false",
            ),
            it(
                "tools.ID.budget.ms",
                "milliseconds",
                "*its own timeout*",
                "How long a call may take, waiting included.",
                "60000",
            ),
            it(
                "tools.ID.budget.operations",
                "1 to 10¹²",
                "*10 000 000*",
                "Operations of a call.",
                "50000000",
            ),
            it("tools.ID.budget.memory_mb", "1 to 1048576", "*64*", "Memory of a call, in megabytes.", "256"),
        ],
    },
    Section {
        header: "[grants.ID]",
        about: "What a plugin or a native tool may reach of the world, beside what `valvehouse grant` gave it.",
        waits: false,
        settings: &[
            it(
                "grants.ID.http",
                "true, false or list of hosts",
                "false",
                "Hosts; `true` is every public one. Private addresses only where they are named literally.",
                "[\"api.example.com\", \"*.example.org\"]",
            ),
            it(
                "grants.ID.files",
                "list of folders",
                "[]",
                "Folders, relative to the project or whole.",
                "[\"data\"]",
            ),
            it("grants.ID.shell", "true, false or list of programs", "false", "Programs.", "[\"git\"]"),
            it(
                "grants.ID.env",
                "true, false or list of names",
                "false",
                "Environment variables.",
                "[\"LANG\"]",
            ),
            it(
                "grants.ID.kv",
                "true or false",
                "false",
                "A durable map of its own; declaring it in the script is enough.",
                "true",
            ),
            it(
                "grants.ID.llm",
                "true or false",
                "false",
                "Models of this host; declaring it in the script is enough.",
                "true",
            ),
            it(
                "grants.ID.tools",
                "true, false or list of tools",
                "false",
                "Tools of this host beyond those that a turn offers: names, scripts, `tag:x`.",
                "[\"weather\"]",
            ),
        ],
    },
];
