//! The results of configuring the host, well or badly.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use tempfile::TempDir;
use valvehouse_config::*;

struct Project(TempDir);

impl Project {
    fn new(file: &str) -> Self {
        let project = Self::empty();
        std::fs::write(project.path().join("valvehouse.toml"), file).unwrap();
        project
    }

    fn empty() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn load(&self, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let flags: Vec<_> = flags.iter().map(owned).collect();
        let env = env.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        Config::load_with(self.path(), env, &flags)
    }
}

fn good(file: &str) -> Config {
    Project::new(file).load(&[], &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn bad(file: &str) -> String {
    Project::new(file).load(&[], &[]).unwrap_err().to_string()
}

fn from_env(env: &[(&str, &str)]) -> Config {
    Project::empty().load(env, &[]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_demo_model_exists_without_a_settings_file() {
    let project = Project::empty();
    let config = project.load(&[], &[]).unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:9099");
    assert_eq!((config.server.max_body_mb, config.server.keep_alive_ms), (32, 15_000));
    assert!(config.server.pipelines && !config.server.trust_user_headers && config.server.keys.is_empty());
    assert_eq!(config.folders.filters, project.path().join("filters"));
    assert_eq!(config.store.address, StoreAddress::Sqlite(project.path().join(".valvehouse/state.db")));
    assert_eq!((config.providers[0].name.as_str(), config.providers[0].kind.wire), ("demo", Wire::Demo));
    assert_eq!((config.models[0].name.as_str(), config.models[0].provider.as_str()), ("demo", "demo"));
    assert_eq!(config.origin("server.listen"), Origin::Default);
}

#[test]
fn every_setting_of_a_file_is_parsed() {
    let config = good(
        r#"
        [server]
        listen = "0.0.0.0:80"
        keys = ["sk-1", { key = "env:ANN_KEY", user = { id = "ann", role = "admin", timezone = "UTC" } }]
        trust_user_headers = true
        pipelines = false
        max_body_mb = 8
        [admin]
        key = "file:admin.key"
        [folders]
        filters = "f"
        tools = "/srv/tools"
        [store]
        url = "sqlite:///var/lib/valvehouse/state.db"
        [[providers]]
        name = "work"
        kind = "openai"
        base_url = "https://llm.example.com/v1/"
        api_key = "env:WORK_KEY"
        models = "*"
        timeouts = { connect_ms = 500 }
        [[providers]]
        name = "deepseek"
        models = ["deepseek-chat"]
        [[models]]
        name = "assistant"
        provider = "work"
        model = "gpt-x"
        system_prompt = "Be brief."
        filters = ["turn_limit"]
        tools = ["tag:weather", "todo_add"]
        max_tool_iterations = 3
        memory = true
        [filters.turn_limit]
        valves = { max_turns = 8, words = ["a"], nested = { rate = 0.5 } }
        enabled = false
        budget = { ms = 200, operations = 5_000_000, memory_mb = 32 }
        [tools.weather]
        [grants.weather]
        http = ["api.example.com"]
        files = ["data", "/srv/shared"]
        shell = true
        env = []
        kv = true
        "#,
    );
    assert_eq!(config.server.listen, Listen { host: "0.0.0.0".into(), port: 80 });
    assert_eq!(config.server.keys[0].key, SecretSource::Literal(Secret::new("sk-1")));
    assert_eq!(config.server.keys[1].key, SecretSource::Env("ANN_KEY".into()));
    let ann = config.server.keys[1].user.as_ref().unwrap();
    assert_eq!(ann.to_string(), r#"{"id":"ann","role":"admin","timezone":"UTC"}"#);
    assert_eq!(config.admin.key, Some(SecretSource::File(config.project.join("admin.key"))));
    assert_eq!(config.folders.tools, Path::new("/srv/tools"));
    assert_eq!(config.store.address, StoreAddress::Sqlite("/var/lib/valvehouse/state.db".into()));
    let [work, deepseek] = &config.providers[..] else { panic!() };
    assert_eq!((work.base_url.as_str(), &work.models), ("https://llm.example.com/v1", &ExposedModels::All));
    assert_eq!(work.timeouts.connect.as_millis(), 500);
    assert_eq!(work.timeouts.idle, Timeouts::default().idle);
    assert_eq!(
        (deepseek.kind.wire, deepseek.base_url.as_str()),
        (Wire::OpenAi, "https://api.deepseek.com/v1")
    );
    assert_eq!(deepseek.models, ExposedModels::Listed(vec!["deepseek-chat".into()]));
    let [model] = &config.models[..] else { panic!() };
    assert_eq!((model.model.as_str(), model.max_tool_iterations, model.memory), ("gpt-x", 3, true));
    assert_eq!(model.tools, ["tag:weather", "todo_add"]);
    let turn_limit = &config.filters["turn_limit"];
    assert_eq!(turn_limit.valves.to_string(), r#"{"max_turns":8,"words":["a"],"nested":{"rate":0.5}}"#);
    assert_eq!(
        turn_limit.budget,
        BudgetSettings { ms: Some(200), operations: Some(5_000_000), memory_mb: Some(32) }
    );
    assert!(!turn_limit.enabled && config.tools["weather"].enabled);
    let grants = &config.grants["weather"];
    assert_eq!(grants.http, Grant::Only(vec!["api.example.com".into()]));
    assert_eq!(grants.files, [config.project.join("data"), "/srv/shared".into()]);
    assert_eq!(
        (&grants.shell, &grants.env, grants.kv, grants.llm),
        (&Grant::Everything, &Grant::Nothing, true, false)
    );
    assert_eq!(config.origin("server.listen").to_string(), "in valvehouse.toml:3:9");
    assert_eq!(config.origin("filters.turn_limit.budget.ms").to_string(), "in valvehouse.toml:37:20");
}

#[test]
fn flags_override_environment_which_overrides_file_and_defaults() {
    let project = Project::new("[server]\nlisten = '127.0.0.1:1'\nmax_body_mb = 1\npipelines = false\n");
    let env = [("VALVEHOUSE__SERVER__LISTEN", "127.0.0.1:2"), ("VALVEHOUSE__SERVER__MAX_BODY_MB", "2")];
    let config = project.load(&env, &[("server.listen", "127.0.0.1:3")]).unwrap();
    assert_eq!((config.server.listen.port, config.server.max_body_mb), (3, 2));
    assert!(!config.server.pipelines && !config.server.trust_user_headers);
    assert_eq!(config.origin("server.listen").to_string(), "from the command line (server.listen)");
    assert_eq!(config.origin("server.max_body_mb").to_string(), "from VALVEHOUSE__SERVER__MAX_BODY_MB");
}

#[test]
fn json_of_a_table_sets_the_keys_in_it_and_leaves_the_others() {
    let project = Project::new(
        "[server]\nkeys = ['sk-file']\nmax_body_mb = 1\n[filters.turn_limit]\nenabled = false\nvalves = { max_turns = 8, on = true }\n[[providers]]\nname = 'a'\nkind = 'vllm'\n",
    );
    let keys = |config: &Config| config.server.keys.len();
    let same = project.load(&[("VALVEHOUSE__SERVER", "{}")], &[]).unwrap();
    assert_eq!((keys(&same), same.server.max_body_mb), (1, 1));
    let env = [
        ("VALVEHOUSE__SERVER", r#"{"max_body_mb": 2, "pipelines": false}"#),
        ("VALVEHOUSE__FILTERS", r#"{"turn_limit": {"valves": {"max_turns": 9}}, "other": {}}"#),
        ("VALVEHOUSE__FILTERS__TURN_LIMIT__VALVES", r#"{"word": "x"}"#),
    ];
    let config = project.load(&env, &[("server", r#"{"pipelines": true}"#)]).unwrap();
    assert_eq!((keys(&config), config.server.max_body_mb, config.server.pipelines), (1, 2, true));
    let filter = &config.filters["turn_limit"];
    assert!(!filter.enabled && config.filters.contains_key("other"));
    assert_eq!(filter.valves.to_string(), r#"{"max_turns":9,"on":true,"word":"x"}"#);
    assert_eq!(filter.untyped_valves.iter().collect::<Vec<_>>(), ["max_turns", "word"]);
    assert_eq!(config.origin("server.keys").to_string(), "in valvehouse.toml:2:1");
    assert_eq!(config.origin("server.max_body_mb").to_string(), "from VALVEHOUSE__SERVER");
    // A list is one value.
    let config = project.load(&[("VALVEHOUSE__SERVER__KEYS", r#"["b", "c"]"#)], &[]).unwrap();
    assert_eq!(keys(&config), 2);
    let refused = project.load(&[("VALVEHOUSE__PROVIDERS", "{}")], &[]).unwrap_err().to_string();
    assert!(refused.contains("providers must be a list in brackets, not a table"), "{refused}");
    let refused = project.load(&[("VALVEHOUSE__SERVER", r#"{"max_body_mb": 2,}"#)], &[]).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("server must be a table, and its JSON is invalid: ") && refused.contains("column"),
        "{refused}"
    );
    // A number that JSON cannot hold is not the absence of a value.
    let infinite = project.load(&[("VALVEHOUSE__FILTERS__A__VALVES", r#"{"x": 1e999}"#)], &[]).unwrap();
    assert_eq!(infinite.filters["a"].valves.to_string(), r#"{"x":"inf"}"#);
}

#[test]
fn every_setting_can_come_from_the_environment() {
    let config = from_env(&[
        ("VALVEHOUSE__SERVER__KEYS", "a, b"),
        ("VALVEHOUSE__SERVER__PIPELINES", "off"),
        ("VALVEHOUSE__PROVIDERS", r#"[{"name": "work", "kind": "vllm", "models": ["m"]}]"#),
        ("VALVEHOUSE__PROVIDERS__WORK__API_KEY", "env:WORK_KEY"),
        ("VALVEHOUSE__PROVIDERS__OPENAI__MODELS", "*"),
        ("VALVEHOUSE__MODELS__FAST__PROVIDER", "work"),
        ("VALVEHOUSE__MCP__SHOP__URL", "https://shop.example.com/mcp"),
        ("VALVEHOUSE__MODELS__FAST__TOOLS", "one,tag:two"),
        ("VALVEHOUSE__FILTERS__TURN_LIMIT__VALVES__MAX_TURNS", "8"),
        ("VALVEHOUSE__FILTERS__OTHER__VALVES", r#"{"a": 1}"#),
        ("VALVEHOUSE__FILTERS__OTHER__VALVES__B", "2"),
        ("VALVEHOUSE__GRANTS__WEATHER__HTTP", "a.example.com,b.example.com"),
        ("VALVEHOUSE__GRANTS__WEATHER__SHELL", "true"),
        ("VALVEHOUSE_UNRELATED", "x"),
    ]);
    assert_eq!(config.server.keys.len(), 2);
    assert!(!config.server.pipelines);
    assert_eq!(config.providers[0].api_key, Some(SecretSource::Env("WORK_KEY".into())));
    assert_eq!((config.providers[1].kind.name, &config.providers[1].models), ("openai", &ExposedModels::All));
    assert_eq!((config.models[0].name.as_str(), config.models[0].model.as_str()), ("fast", "fast"));
    assert_eq!(config.models[0].tools, ["one", "tag:two"]);
    assert!(matches!(&config.mcp[0].transport, McpTransport::Http { url, .. } if url.path() == "/mcp"));
    assert_eq!(config.filters["turn_limit"].valves.to_string(), r#"{"max_turns":"8"}"#);
    assert_eq!(config.filters["other"].valves.to_string(), r#"{"a":1,"b":"2"}"#);
    assert_eq!(
        config.grants["weather"].http,
        Grant::Only(vec!["a.example.com".into(), "b.example.com".into()])
    );
    assert_eq!(config.grants["weather"].shell, Grant::Everything);
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf_8_is_refused_and_never_shown() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;
    let bytes = |text: &[u8]| OsString::from_vec(text.to_vec());
    let load = |name: &[u8], value: &[u8]| {
        Config::load_with(Project::empty().path(), [(bytes(name), bytes(value))], &[])
    };
    let refused = load(b"VALVEHOUSE__ADMIN__KEY", b"hunter2\xff").unwrap_err().to_string();
    assert!(refused.contains("from VALVEHOUSE__ADMIN__KEY: this value is not valid UTF-8"), "{refused}");
    assert!(!refused.contains("hunter2"), "{refused}");
    let refused = load(b"VALVEHOUSE__ADMIN\xff__KEY", b"x").unwrap_err().to_string();
    assert!(refused.contains("this name is not valid UTF-8"), "{refused}");
    load(b"OTHER\xff", b"\xff").unwrap();
}

#[test]
fn the_environment_finds_names_whatever_their_case_and_hyphens() {
    let project = Project::new("[[providers]]\nname = 'My-LLM'\nkind = 'vllm'\n[filters.turn-limit]\n");
    let env = [
        ("VALVEHOUSE__PROVIDERS__MY_LLM__BASE_URL", "http://h:1"),
        ("VALVEHOUSE__FILTERS__TURN_LIMIT__ENABLED", "no"),
    ];
    let config = project.load(&env, &[]).unwrap();
    assert_eq!((config.providers.len(), config.providers[0].base_url.as_str()), (1, "http://h:1"));
    assert!(!config.filters["turn-limit"].enabled);
}

#[test]
fn every_invalid_setting_is_reported_with_place_and_help() {
    let mut wrong = Vec::new();
    let one = "[[providers]]\nname='a'\nkind='vllm'\n";
    for (file, expected) in [
        (
            "[server]\nlisen = '127.0.0.1:1'",
            "in valvehouse.toml:2:1: unknown setting server.lisen; did you mean `listen`?",
        ),
        ("[sever]\n", "in valvehouse.toml:1:2: unknown setting sever; did you mean `server`?"),
        ("colour = 1", "unknown setting colour; settings of this table: server, admin, folders"),
        ("[server]\nlisten = 9099", ":2:1: server.listen must be text in quotes, not a whole number"),
        (
            "[server]\nlisten = 'localhost'",
            "server.listen must be an address and a port, such as \"127.0.0.1:9099\", not \"localhost\"",
        ),
        ("[server]\nlisten = '::1:80'", "must be an address and a port"),
        ("[server]\nlisten = '127.0.0.1:99999'", "must be an address and a port"),
        (
            "[server]\nlisten = '0.0.0.0:80'",
            ":2:1: server.listen 0.0.0.0:80 accepts other machines, but server.keys is empty",
        ),
        ("[server]\nkeys = 'sk'", "server.keys must be a list in brackets, not text"),
        ("[server]\nkeys = ['a',\n ' ']", ":3:2: server.keys[1] is empty"),
        ("[server]\nkeys = [1]", "server.keys[0] must be text in quotes or a table, not a whole number"),
        ("[server]\nkeys = ['a', 'a']", "contains the same key twice"),
        ("[server]\nkeys = [{ user = { id = 'a' } }]", "server.keys[0].key is missing"),
        (
            "[server]\nkeys = [{ key = 'k', user = { name = 'a' } }]",
            "server.keys[0].user must be a table with an id",
        ),
        ("[server]\nkeys = [{ kez = 'k' }]", "unknown setting server.keys[0].kez; did you mean `key`?"),
        ("[server]\npipelines = 'yes'", "server.pipelines must be true or false, not text"),
        (
            "[breaker]\nfailure_threshold = -1",
            "breaker.failure_threshold must be a whole number from 0 to 1000",
        ),
        ("[breaker]\ncool_down_m = 5", "did you mean `cool_down_ms`?"),
        ("[store]\nmigrate = ''", ":2:1: store.migrate must be \"auto\" or \"wait\", not \"\""),
        ("[store]\nmigrate = 'autp'", "not \"autp\"; did you mean `auto`?"),
        ("[server]\nkeep_alive_ms = -1", "must be a whole number from 0 to 3600000"),
        ("[server]\nmax_body_mb = 0", "server.max_body_mb must be a whole number from 1 to 4096"),
        ("server = 1", "server must be a table, not a whole number"),
        ("[admin]\nkey = ''", ":2:1: admin.key is empty"),
        ("[admin]\nkey = 'env:'", "admin.key is empty"),
        (
            "[admin]\nkey = 'ENV:ADMIN_KEY'",
            ":2:1: admin.key is not a source of a secret: write \"env:ADMIN_KEY\"",
        ),
        (
            "[server]\nkeys = ['$CHAT_KEY']",
            "server.keys[0] is not a source of a secret: write \"env:CHAT_KEY\"",
        ),
        ("[server]\nkeys = [{ key = '${CHAT_KEY}' }]", "server.keys[0].key is not a source of a secret"),
        (
            "[[mcp]]\nname = 'm'\ncommand = 'x'\nenv = { TOKEN = 'Env:TOKEN' }",
            "mcp.m.env.TOKEN is not a source of a secret: write \"env:TOKEN\"",
        ),
        ("[folders]\nfilters = ''", "folders.filters is empty"),
        ("[store]\nurl = 'mysql://u:hunter2@h'", "store.url must begin with sqlite:// or postgres://"),
        ("[store]\nurl = 'sqlite::memory:'", "store.url must name a file"),
        ("[[providers]]\nkind = 'openai'", "in valvehouse.toml:1:1: providers[0].name is missing"),
        ("[[providers]]\nname = ''\nkind = 'openai'", "is empty"),
        ("[[providers]]\nname = 'a'", "providers.a.kind is missing; known kinds: openai, anthropic"),
        (
            "[[providers]]\nname = 'a'\nkind = 'antropic'",
            ":3:1: providers.a.kind names the unknown kind \"antropic\"; did you mean `anthropic`?",
        ),
        ("[[providers]]\nname = 'a'\nkind = 'vllm'\nbase_url = 'h:1'", "must begin with http:// or https://"),
        ("[[providers]]\nname = 'a'\nkind = 'vllm'\nbase_url = '/v1'", "providers.a.base_url must be a URL"),
        (
            "[server.proxy_sign_in]\nusers = { 'a@b' = 'admin' }",
            "server.proxy_sign_in.users has no effect without `proxies`",
        ),
        (
            "[server.proxy_sign_in]\nproxies = ['10.0.0.7']\nusers = { 'a@b' = 'owner' }",
            "server.proxy_sign_in.users.a@b must be \"read\" or \"tune\" or \"write\" or \"admin\", not \"owner\"",
        ),
        (
            "[server.proxy_sign_in]\nproxies = ['10.0.0.7']\ngroups = { ops = '' }",
            "server.proxy_sign_in.groups.ops must be \"read\"",
        ),
        ("[server.proxy_sign_in]\nproxies = ['::/0']", "server.proxy_sign_in.proxies contains all addresses"),
        (
            "[server.proxy_sign_in]\nproxies = ['proxy']",
            "server.proxy_sign_in.proxies must be an IP address or a network",
        ),
        (
            "[server.proxy_sign_in]\nuser_header = 'X_User'",
            "server.proxy_sign_in.user_header must be the name of a header",
        ),
        (
            "[server.proxy_sign_in]\nsign_out = '//evil.example'",
            "server.proxy_sign_in.sign_out must be a path or a URL",
        ),
        ("[tools.weather]\nmode = 'audit'", "tools.weather.mode has no effect: only filters have a mode"),
        ("[actions.save]\nmode = 'enforce'", "actions.save.mode has no effect: only filters have a mode"),
        (
            "[[providers]]\nname = 'openai'\napi_key = 'client'\napi_keys = ['k']",
            "providers.openai.api_keys has no effect with api_key = \"client\"",
        ),
        (
            "[[providers]]\nname = 'openai'\napi_key = 'client'\ndeployments = [{ name = 'e', base_url = 'http://e', api_key = 'k' }]",
            "providers.openai.deployments have keys, which have no effect with api_key = \"client\"",
        ),
        (
            "[[providers]]\nname = 'vllm'\nbase_url = 'http://h'\ndeployments = [{ name = 'e', base_url = 'http://e' }]",
            "providers.vllm.base_url has no effect with `deployments`",
        ),
        (
            "[[providers]]\nname = 'vllm'\ndeployments = [{ name = 'e', base_url = 'http://e', weight = 0 }]",
            "providers.vllm.deployments.e.weight must be a whole number from 1 to 1000",
        ),
        (
            "[[providers]]\nname = 'vllm'\ndeployments = [{ name = 'e', base_url = 'http://e' }, { name = 'e', base_url = 'http://f' }]",
            "providers.vllm.deployments contains the name \"e\" twice",
        ),
        (
            "[[providers]]\nname = 'openai'\napi_keys = [{ key = 'k', weight = 1001 }]",
            "providers.openai.api_keys[0].weight must be a whole number from 1 to 1000",
        ),
        (
            "[[providers]]\nname = 'a'\nkind = 'vllm'\nbase_url = 'http://u:hunter2@h'",
            "contains a user name or password: set api_key instead",
        ),
        ("[[providers]]\nname = 'a'\nkind = 'vllm'\nbase_url = 'http://h/?k=v'", "must not contain `?`"),
        ("[[providers]]\nname = 'a'\nkind = 'vllm'\napikey = 'x'", "did you mean `api_key`?"),
        (
            "[[providers]]\nname = 'a'\nkind = 'vllm'\nmodels = 1",
            "providers.a.models must be `\"*\"` or list of names, not a whole number",
        ),
        (
            "[[providers]]\nname = 'a'\nkind = 'vllm'\ntimeouts = { idle_ms = -1 }",
            "providers.a.timeouts.idle_ms must be a whole number",
        ),
        (
            &format!("{one}{one}"),
            "in valvehouse.toml:5:1: providers contains the name \"a\" twice: rename one of the two",
        ),
        ("providers = 1", "providers must be a list in brackets"),
        ("providers = ['a']", "providers[0] must be a table, not text"),
        ("[filters.a]\nvalves = { x = inf }", ":2:16: invalid number: expected a finite one"),
        ("[filters.a]\nvalves = { x = 1e999 }", ":2:16: invalid number: expected a finite one"),
        (
            &format!("{one}[[models]]\nname = 'm'\n[[models]]\nname = 'm'"),
            "models contains the name \"m\" twice",
        ),
        (
            &format!("{one}[[models]]\nname = 'm'\nprovider = 'b'"),
            ":6:1: models.m.provider names the unknown provider \"b\"",
        ),
        (
            &format!("{one}[[providers]]\nname='b'\nkind='vllm'\n[[models]]\nname = 'm'"),
            "models.m.provider is missing: name the provider that serves it, \"a\" or \"b\"",
        ),
        (
            &format!("{one}[[models]]\nname = 'm'\nmax_tool_iterations = 0"),
            "models.m.max_tool_iterations must be",
        ),
        (&format!("{one}[[models]]\nname = 'm'\ntools = 'all'"), "models.m.tools must be a list"),
        (
            &format!("{one}[[models]]\nname = 'm'\nmax_iterations = 3"),
            "unknown setting models.m.max_iterations",
        ),
        ("[filters.Turn]\n", ":1:10: filters.Turn is not a valid plugin id: expected the name of its file"),
        ("[filters.a]\nvalves = 1", "filters.a.valves must be a table, such as { max_turns = 8 }"),
        ("[filters.a]\nenable = false", "did you mean `enabled`?"),
        ("[filters.a]\nbudget = { mss = 1 }", "unknown setting filters.a.budget.mss; did you mean `ms`?"),
        ("[tools.a]\nbudget = { memory_mb = 0 }", "tools.a.budget.memory_mb must be a whole number"),
        ("[grants.a]\nhtpp = ['h']", "unknown setting grants.a.htpp; did you mean `http`?"),
        ("[grants.a]\nhttp = 'h'", "grants.a.http must be true, false or list of hosts, not text"),
        (
            "[oauth]\nauthorization_servers = ['https://h']\nresource = 'https://h/x/mcp'",
            ":3:1: oauth.resource must be the public URL of this endpoint, which ends in `/mcp`, such as",
        ),
        (
            "[oauth]\nauthorization_servers = []\nresource = 'https://h/mcp'",
            "oauth.authorization_servers is empty",
        ),
        (
            "[otlp]\nendpoint = 'collector'",
            "otlp.endpoint must be an http or https URL, such as \"http://127.0.0.1:4318\"",
        ),
        ("[server]\norigins = ['a://b://c']", "server.origins must be origins without a path"),
        (
            &format!("{one}[[models]]\nname = 'm'\nprice = {{ input = '' }}"),
            "models.m.price.input must be a number from 0 up",
        ),
        ("[server]\nrequest_headers = ['Auth*']", "\"Auth*\", but authorization cannot be passed on"),
        (
            "[[mcp]]\nname = 'm'\nurl = 'https://h/mcp'\ncommand = 'x'",
            "mcp.m.url cannot be combined with `command`",
        ),
        ("[[mcp]]\nname = 'm'\nurl = ''", "mcp.m.url must be an http or https URL"),
        ("[[providers]]\nname='a'\nkind='anthropic'\napi='responses'", "providers.a.api must be `chat`"),
        ("[grants.a]\nfiles = true", "grants.a.files must be a list in brackets"),
        ("[server\n", "in valvehouse.toml:1:8: invalid TOML"),
        ("[server]\nlisten = \n", "in valvehouse.toml:2:"),
        ("[server]\n[server]\n", "invalid TOML: duplicate key"),
        (
            "[server]\nmax_body_mb = 99999999999999999999",
            "the number is too large: at most 9223372036854775807",
        ),
    ] {
        let found = bad(file);
        if !found.contains(expected) {
            wrong.push(format!("{file}\n  found: {found}\n  want:  {expected}"));
        }
        assert!(!found.contains("hunter2"), "{found}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = Project::new("[server]\nlisten = 1\n[admin]\nkey = ''\n[[providers]]\nname = 'x'\n")
        .load(
            &[("VALVEHOUSE__SERVER__PIPELINES", "maybe"), ("VALVEHOUSE__NOTHING", "1")],
            &[("store.ur", "x")],
        )
        .unwrap_err();
    assert_eq!(found.problems.len(), 6, "{found}");
    let text = found.to_string();
    assert!(
        text.contains("from VALVEHOUSE__SERVER__PIPELINES: server.pipelines must be true or false"),
        "{text}"
    );
    assert!(text.contains("from VALVEHOUSE__NOTHING: unknown setting nothing"), "{text}");
    assert!(
        text.contains("from the command line (store.ur): unknown setting store.ur; did you mean `url`?"),
        "{text}"
    );
}

#[test]
fn an_invalid_provider_is_not_reported_again_for_its_models() {
    let found = bad("[[providers]]\nname = 'a'\nkind = 'nonsense'\n[[models]]\nname = 'm'\nprovider = 'a'\n");
    assert_eq!(found.lines().count(), 1, "{found}");
}

#[test]
fn a_variable_for_a_key_inside_a_plain_value_is_an_error() {
    let project = Project::new("[server]\nlisten = '127.0.0.1:1'\n");
    let found = project.load(&[("VALVEHOUSE__SERVER__LISTEN__PORT", "1")], &[]).unwrap_err().to_string();
    assert_eq!(
        found,
        "from VALVEHOUSE__SERVER__LISTEN__PORT: this needs listen to be a table, and listen is text"
    );
}

#[test]
fn a_missing_project_folder_is_an_error() {
    let found = Config::load_with(Path::new("/nowhere/at/all"), [], &[]).unwrap_err().to_string();
    assert!(found.contains("cannot find the project folder /nowhere/at/all; create it"), "{found}");
}

#[test]
fn only_a_public_address_requires_keys() {
    for listen in ["127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(Project::empty().load(&[], &[("server.listen", listen)]).is_ok(), "{listen}");
    }
    for listen in ["0.0.0.0:1", "[::]:1", "192.168.0.1:1", "example.com:1", "localhost.example.com:1"] {
        let flags = [("server.listen", listen)];
        assert!(Project::empty().load(&[], &flags).is_err(), "{listen}");
        assert!(Project::empty().load(&[("VALVEHOUSE__SERVER__KEYS", "k")], &flags).is_ok(), "{listen}");
    }
}

#[test]
fn a_list_is_emptied_by_brackets_and_not_by_an_empty_variable() {
    let project = Project::new("[server]\nkeys = ['plain-key-0123456789']\n");
    let named = ("VALVEHOUSE__SERVER__KEYS", "");
    let wrong = project.load(&[named], &[]).unwrap_err().to_string();
    assert!(wrong.contains("server.keys is empty: unset it, or write [] for an empty list"), "{wrong}");
    assert!(project.load(&[], &[("server.keys", " ")]).is_err());
    let emptied = project.load(&[("VALVEHOUSE__SERVER__KEYS", "[]")], &[]).unwrap();
    assert!(emptied.server.keys.is_empty());
}

#[cfg(unix)]
#[test]
fn settings_and_secrets_come_from_regular_files_of_bounded_size() {
    use std::os::unix::fs::symlink;
    for (target, why) in
        [("nowhere", "a symbolic link to a file that cannot be read"), ("/dev/zero", "a device")]
    {
        let project = Project::empty();
        symlink(target, project.path().join("valvehouse.toml")).unwrap();
        let wrong = project.load(&[], &[]).unwrap_err().to_string();
        assert!(wrong.contains(why), "{wrong}");
    }
    let project = Project::new("[admin]\nkey = 'file:key'\n");
    symlink("/dev/zero", project.path().join("key")).unwrap();
    let config = project.load(&[], &[]).unwrap();
    let unread = config.unread_secrets();
    assert!(unread[0].why.contains("a regular file is needed"), "{unread:?}");
}

#[test]
fn secrets_are_never_printed() {
    let config = good(
        "[server]\nkeys = ['hunter2']\n[admin]\nkey = 'hunter2'\n[store]\nurl = 'postgres://u:hunter2@h/d'\n\
         [[providers]]\nname = 'a'\nkind = 'vllm'\napi_key = 'hunter2'\n[filters.f]\nvalves = { key = 'hunter2' }\n",
    );
    let printed = format!("{config:?}");
    assert!(!printed.contains("hunter2") && printed.contains("***"), "{printed}");
}

#[test]
fn a_secret_is_read_from_each_source() {
    let project = Project::new("[admin]\nkey = 'file:admin.key'\n");
    let source = project.load(&[], &[]).unwrap().admin.key.unwrap();
    let missing = source.read().unwrap_err().to_string();
    assert!(missing.contains("cannot read the secret from") && missing.contains("admin.key"), "{missing}");
    std::fs::write(project.path().join("admin.key"), "  s3cret\n").unwrap();
    assert_eq!(source.read().unwrap().expose(), "s3cret");

    let source = SecretSource::Env("A_KEY".into());
    assert_eq!(source.read_with(|_| Some("k".into())).unwrap().expose(), "k");
    let unset = source.read_with(|_| None).unwrap_err().to_string();
    assert_eq!(
        unset,
        "the environment variable A_KEY is not set; set it before the host starts, or change `env:A_KEY`"
    );
    assert!(source.read_with(|_| Some(" ".into())).is_err(), "an empty key opens every endpoint");
}

#[test]
fn fallbacks_name_configured_or_provider_models_and_are_followed_transitively() {
    let file = r#"
        [[providers]]
        name = "openai"
        [[providers]]
        name = "groq"
        [[models]]
        name = "big"
        provider = "openai"
        fallbacks = ["small", "groq/meta/llama", "big-copy"]
        [[models]]
        name = "small"
        provider = "groq"
        model = "small-1"
        fallbacks = ["openai/nano"]
        [[models]]
        name = "big-copy"
        provider = "openai"
        model = "big"
    "#;
    let config = good(file);
    let all = [("groq", "small-1"), ("openai", "nano"), ("groq", "meta/llama")];
    assert_eq!(config.fallbacks(&config.models[0]), all);
    assert_eq!(config.fallbacks(&config.models[1]), [("openai", "nano")]);
    assert_eq!(config.fallbacks(&config.models[2]), []);
    let env = [("VALVEHOUSE__MODELS__BIG_COPY__FALLBACKS", "small, groq/x")];
    let config = Project::new(file).load(&env, &[]).unwrap();
    assert_eq!(config.models[2].fallbacks, ["small", "groq/x"]);
}

#[test]
fn unknown_and_circular_fallbacks_are_errors() {
    let models = |a: &str, b: &str| {
        bad(&format!(
            "[[providers]]\nname = 'openai'\n[[models]]\nname = 'assistant'\nfallbacks = [{a}]\n\
             [[models]]\nname = 'backup'\nfallbacks = [{b}]"
        ))
    };
    for (a, b, expected) in [
        (
            "'backp'",
            "",
            "5:1: models.assistant.fallbacks names the unknown model \"backp\"; did you mean `backup`?",
        ),
        ("'opnai/x'", "", "names the unknown model \"opnai/x\"; did you mean `openai/x`?"),
        (
            "'nobody'",
            "",
            "name a model of this file, or PROVIDER/MODEL; known names: assistant, backup, openai",
        ),
        (
            "'assistant'",
            "",
            "5:1: models.assistant.fallbacks leads back to itself, from `assistant` to `assistant`",
        ),
        ("'openai/assistant'", "", "leads back to itself, from `assistant` to `openai/assistant`"),
        (
            "'backup'",
            "'openai/x', 'assistant'",
            "leads back to itself, from `assistant` to `backup` to `assistant`",
        ),
    ] {
        let message = models(a, b);
        assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
    }
}

#[test]
fn timeouts_and_retries_of_a_provider_come_from_file_and_environment() {
    let project = Project::new(
        r#"
        [[providers]]
        name = "openai"
        timeouts = { connect_ms = 1, response_ms = 2, idle_ms = 3, total_ms = 4 }
        retry = { max_attempts = 6, initial_delay_ms = 6, max_delay_ms = 7, after_send = true }
        breaker = { failure_threshold = 8, window_ms = 9, cool_down_ms = 10 }
        "#,
    );
    let ms = std::time::Duration::from_millis;
    let provider = &project.load(&[], &[]).unwrap().providers[0];
    let Timeouts { connect, answer, idle, total } = provider.timeouts;
    assert_eq!((connect, answer, idle, total), (ms(1), ms(2), ms(3), Some(ms(4))));
    assert_eq!(
        provider.retry,
        RetrySettings { max_retries: 5, initial_delay: ms(6), max_delay: ms(7), after_send: true }
    );
    assert_eq!(
        (provider.breaker.failure_threshold, provider.breaker.window, provider.breaker.cool_down),
        (8, ms(9), ms(10))
    );

    let env = [
        ("VALVEHOUSE__PROVIDERS__OPENAI__RETRY__MAX_ATTEMPTS", "1"),
        ("VALVEHOUSE__PROVIDERS__OPENAI__RETRY__AFTER_SEND", "no"),
        ("VALVEHOUSE__PROVIDERS__OPENAI__TIMEOUTS__TOTAL_MS", "44"),
        ("VALVEHOUSE__PROVIDERS__OPENAI__BREAKER__FAILURE_THRESHOLD", "0"),
    ];
    let provider = &project.load(&env, &[]).unwrap().providers[0];
    assert_eq!(
        (provider.retry.max_retries, provider.retry.after_send, provider.retry.initial_delay),
        (0, false, ms(6))
    );
    assert_eq!((provider.timeouts.total, provider.breaker.failure_threshold), (Some(ms(44)), 0));

    let usual = &good("[[providers]]\nname = 'openai'").providers[0];
    assert_eq!((usual.retry, usual.timeouts), (RetrySettings::default(), Timeouts::default()));
    for (text, expected) in [
        (
            "retry = { max_attempt = 1 }",
            "unknown setting providers.openai.retry.max_attempt; did you mean `max_attempts`?",
        ),
        ("retry = { max_attempts = 0 }", "retry.max_attempts must be a whole number from 1 to 21"),
        ("timeouts = { total = 1 }", "settings of this table: connect_ms, response_ms, idle_ms, total_ms"),
        ("breaker = { failure_threshold = -1 }", "breaker.failure_threshold must be a whole number"),
    ] {
        let message = bad(&format!("[[providers]]\nname = 'openai'\n{text}"));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_provider_key_comes_from_the_variable_of_its_kind_alone() {
    let usual = |lines: &str| good(&format!("[[providers]]\n{lines}")).providers[0].usual_key();
    assert_eq!(usual("name = 'groq'"), Some("GROQ_API_KEY"));
    assert_eq!(usual("name = 'x'\nkind = 'openai'"), Some("OPENAI_API_KEY"));
    assert_eq!(usual("name = 'openai'\nbase_url = 'https://api.openai.com/v1/'"), Some("OPENAI_API_KEY"));
    assert_eq!(usual("name = 'openai'\nbase_url = 'http://127.0.0.1:8000/v1'"), None);
    assert_eq!(usual("name = 'openai'\nbase_url = 'https://api.openai.com.example.com/v1'"), None);
    assert_eq!(usual("name = 'vllm'"), None);
    let azure = "name = 'azure'\nbase_url = 'https://team.openai.azure.com/openai/v1'";
    assert_eq!(usual(azure), Some("AZURE_OPENAI_API_KEY"));
    assert_eq!(usual("name = 'azure'\nbase_url = 'https://example.com/openai/v1'"), None);
    assert!(bad("[[providers]]\nname = 'azure'").contains("base_url is missing"));
    let help = |lines: &str| good(&format!("[[providers]]\n{lines}")).providers[0].key_help();
    assert!(help("name = 'groq'").starts_with("set the environment variable GROQ_API_KEY"));
    assert_eq!(help("name = 'vllm'"), "set api_key = \"env:NAME\" for provider vllm");
}

#[test]
fn every_provider_kind_has_a_unique_name_and_a_valid_address() {
    for (place, kind) in KINDS.iter().enumerate() {
        assert!(KINDS[..place].iter().all(|other| other.name != kind.name), "{}", kind.name);
        if !kind.base_url.is_empty() {
            let provider = &good(&format!("[[providers]]\nname = '{}'", kind.name)).providers[0];
            assert_eq!((provider.kind, provider.base_url.as_str()), (*kind, kind.base_url));
        }
    }
}

#[test]
fn empty_texts_stand_for_no_value_where_one_can_be_missing() {
    let config = good(
        "[folders]\npublic_key = ' RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3 '\n\
         [otlp]\nendpoint = ' '\nheaders = { x-tenant = '' }\n\
         [[mcp]]\nname = 'm'\ncommand = ['x']\nenv = { EMPTY = '' }\n",
    );
    assert_eq!(config.otlp.endpoint, None);
    assert_eq!(config.otlp.headers["x-tenant"], SecretSource::Literal("".into()));
    let McpTransport::Command { env, .. } = &config.mcp[0].transport else { panic!() };
    assert_eq!(env[0], ("EMPTY".to_owned(), SecretSource::Literal("".into())));
    assert!(config.folders.public_key.unwrap().starts_with("RWQf"));
}
