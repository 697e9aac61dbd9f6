//! The settings in force: every key with its value as it is written, secrets masked, and where it came from.

use crate::grants::{Capability, Grants};
use crate::mcp::{McpAuth, McpServer, McpTransport, ResourceServer};
use crate::origin::Origin;
use crate::provider::{ExposedModels, ProviderSettings};
use crate::secret::SecretSource;
use crate::settings::{Config, ModelSettings, PluginSettings, StoreAddress};
use std::path::Path;
use std::time::Duration;
use url::Url;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_json::Json;

/// One setting in force.
#[derive(Debug, Clone)]
pub struct Effective {
    /// Its dotted key.
    pub key: String,
    /// Its value, as it is written; empty where there is none.
    pub value: String,
    /// The origin of the value.
    pub origin: Origin,
}

/// All of them.
pub fn effective(config: &Config) -> Vec<Effective> {
    let mut all = View { config, all: Vec::new() };
    all.server();
    all.add_given("admin.key", config.admin.key.as_ref().map(secret));
    all.add("folders.filters", path(&config.folders.filters, config));
    all.add("folders.tools", path(&config.folders.tools, config));
    all.add("folders.actions", path(&config.folders.actions, config));
    all.add("folders.source", text(config.folders.source.as_str()));
    all.add_given("folders.public_key", config.folders.public_key.as_deref().map(text));
    all.add("store.url", store(config));
    all.add_given("store.key", config.store.key.as_ref().map(secret));
    let hidden = || text("postgres://***");
    all.add_given("store.listen_url", config.store.listen_url.as_ref().map(|_| hidden()));
    all.add_given("store.migrate_url", config.store.migrate_url.as_ref().map(|_| hidden()));
    all.add("store.migrate", text(config.store.migrate.as_str()));
    let snapshot = config.store.snapshot.as_deref().map(|file| path(file, config));
    all.add("store.snapshot", snapshot.unwrap_or_else(|| "false".to_owned()));
    all.add("store.connect_ms", config.store.connect_ms.to_string());
    all.breaker("breaker", &config.breaker);
    all.add("trace.turns", config.trace.turns.to_string());
    all.add("trace.contents", texts(&config.trace.contents));
    all.otlp();
    config.providers.iter().for_each(|provider| all.provider(provider));
    config.models.iter().for_each(|model| all.model(model));
    config.mcp.iter().for_each(|server| all.mcp(server));
    if let Some(oauth) = &config.oauth {
        all.oauth(oauth);
    }
    for (id, interceptor) in &config.interceptors {
        let place = format!("interceptors.{id}");
        all.add(format!("{place}.type"), text(interceptor.kind.as_str()));
        all.add(format!("{place}.mode"), text(interceptor.mode.as_str()));
    }
    for (kind, plugins) in
        [("filters", &config.filters), ("tools", &config.tools), ("actions", &config.actions)]
    {
        plugins.iter().for_each(|(id, plugin)| all.plugin(&format!("{kind}.{id}"), plugin));
    }
    all.add_given("embeddings.model", config.embedding_model.as_deref().map(text));
    config.grants.iter().for_each(|(id, grants)| all.grants(&format!("grants.{id}"), grants));
    all.all
}

struct View<'c> {
    config: &'c Config,
    all: Vec<Effective>,
}

impl View<'_> {
    fn add(&mut self, key: impl Into<String>, value: impl Into<String>) {
        let key = key.into();
        let origin = self.config.origin(&key);
        self.all.push(Effective { key, value: value.into(), origin });
    }

    /// Adds a setting that may be unset, which shows as nothing.
    fn add_given(&mut self, key: impl Into<String>, value: Option<String>) {
        self.add(key, value.unwrap_or_default());
    }

    fn server(&mut self) {
        let server = &self.config.server;
        self.add("server.listen", text(&server.listen.to_string()));
        let keys: Vec<String> = server
            .keys
            .iter()
            .map(|key| match &key.user {
                None if key.mcp_tools.is_none() => secret(&key.key),
                user => {
                    let mut parts = format!("key = {}", secret(&key.key));
                    if let Some(user) = user {
                        parts.push_str(&format!(", user = {}", value(user)));
                    }
                    if let Some(tools) = &key.mcp_tools {
                        parts.push_str(&format!(", mcp_tools = {}", texts(tools)));
                    }
                    format!("{{ {parts} }}")
                }
            })
            .collect();
        self.add("server.keys", format!("[{}]", keys.join(", ")));
        self.add("server.mcp_tools", texts(&server.mcp_tools));
        self.add("server.mcp_tool_search", server.mcp_tool_search.to_string());
        self.add("server.trust_user_headers", server.trust_user_headers.to_string());
        self.add("server.trust_body_user", server.trust_body_user.to_string());
        let proxies: Vec<String> = server.trusted_proxies.iter().map(ToString::to_string).collect();
        self.add("server.trusted_proxies", texts(&proxies));
        self.add("server.pipelines", server.pipelines.to_string());
        self.add("server.client_variables", texts(&server.client_variables));
        self.add("server.render_events", texts(&server.render_events));
        self.add("server.request_headers", texts(&server.request_headers));
        self.add("server.response_headers", texts(&server.response_headers));
        self.add("server.max_body_mb", server.max_body_mb.to_string());
        self.add("server.max_text_mb", server.max_text_mb.to_string());
        self.add("server.keep_alive_ms", server.keep_alive_ms.to_string());
        self.add("server.hosts", texts(&server.hosts));
        self.add("server.origins", texts(&server.origins));
        self.add("server.requests_per_minute", server.requests_per_minute.to_string());
    }

    fn otlp(&mut self) {
        let otlp = self.config.otlp.as_ref();
        self.add_given("otlp.endpoint", otlp.map(|otlp| text(without_password(&otlp.endpoint).as_str())));
        let headers = otlp.into_iter().flat_map(|otlp| &otlp.headers);
        let headers = headers.map(|(name, value)| format!("{name} = {}", secret(value)));
        let headers: Vec<String> = headers.collect();
        self.add(
            "otlp.headers",
            if headers.is_empty() { "{}".into() } else { format!("{{ {} }}", headers.join(", ")) },
        );
        self.add("otlp.service", text(otlp.map_or("valvehouse", |otlp| &otlp.service)));
    }

    fn oauth(&mut self, it: &ResourceServer) {
        self.add("oauth.authorization_servers", texts(&it.authorization_servers));
        self.add("oauth.resource", text(it.resource.as_str()));
        self.add("oauth.scopes", texts(&it.scopes));
        self.add("oauth.user_claim", text(&it.user_claim));
        self.add_given("oauth.mcp_tools", it.mcp_tools.as_deref().map(texts));
        let introspection = it.introspection.as_ref();
        self.add_given("oauth.introspection_url", introspection.map(|it| text(it.url.as_str())));
        self.add_given("oauth.client_id", introspection.map(|it| text(&it.client_id)));
        self.add_given("oauth.client_secret", introspection.map(|it| secret(&it.client_secret)));
    }

    fn mcp(&mut self, it: &McpServer) {
        let place = format!("mcp.{}", it.name);
        self.add(format!("{place}.name"), text(&it.name));
        let (mut url, mut auth, mut command) = (String::new(), String::new(), String::new());
        let (mut env, mut cwd) = ("{}".to_owned(), text("."));
        let mut oauth = None;
        match &it.transport {
            McpTransport::Http { url: address, auth: token } => {
                url = text(without_password(address).as_str());
                match token {
                    McpAuth::None => {}
                    McpAuth::Bearer(token) => auth = secret(token),
                    McpAuth::OAuth(own) => {
                        auth = text("oauth");
                        oauth = Some(own);
                    }
                }
            }
            McpTransport::Command { command: program, env: variables, cwd: folder } => {
                command = texts(program);
                let own = |(name, value): &(String, SecretSource)| format!("{name} = {}", secret(value));
                if !variables.is_empty() {
                    env = format!("{{ {} }}", variables.iter().map(own).collect::<Vec<_>>().join(", "));
                }
                if *folder != self.config.project {
                    cwd = path(folder, self.config);
                }
            }
        }
        let all = [
            ("url", url),
            ("auth", auth),
            ("command", command),
            ("args", "[]".into()),
            ("env", env),
            ("cwd", cwd),
        ];
        for (key, value) in all {
            self.add(format!("{place}.{key}"), value);
        }
        if let Some(oauth) = oauth {
            let place = format!("{place}.oauth");
            self.add_given(format!("{place}.client_id"), oauth.client_id.as_deref().map(text));
            self.add_given(format!("{place}.client_secret"), oauth.client_secret.as_ref().map(secret));
            let document = oauth.client_metadata_url.as_ref().map(|url| text(url.as_str()));
            self.add_given(format!("{place}.client_metadata_url"), document);
            self.add(format!("{place}.scopes"), texts(&oauth.scopes));
            self.add(format!("{place}.redirect_port"), oauth.redirect_port.to_string());
        }
        self.add(format!("{place}.tools"), texts(&it.tools));
        self.add(format!("{place}.trust"), text(it.trust.as_str()));
        self.add(format!("{place}.timeout_ms"), ms(it.timeout));
        self.add(format!("{place}.concurrency"), it.concurrency.to_string());
        self.add(format!("{place}.max_result_kb"), (it.max_result / 1_024).to_string());
    }

    fn breaker(&mut self, place: &str, breaker: &BreakerSettings) {
        self.add(format!("{place}.failure_threshold"), breaker.failure_threshold.to_string());
        self.add(format!("{place}.window_ms"), ms(breaker.window));
        self.add(format!("{place}.cool_down_ms"), ms(breaker.cool_down));
    }

    fn provider(&mut self, it: &ProviderSettings) {
        let place = format!("providers.{}", it.name);
        self.add(format!("{place}.name"), text(&it.name));
        self.add(format!("{place}.kind"), text(it.kind.name));
        self.add(format!("{place}.base_url"), text(&it.base_url));
        self.add(format!("{place}.api"), text(it.api.as_str()));
        self.add_given(
            format!("{place}.api_key"),
            match it.is_paid_by_callers {
                true => Some(text("client")),
                false => it.api_key.as_ref().map(secret),
            },
        );
        let models = match &it.models {
            ExposedModels::All => text("*"),
            ExposedModels::Listed(names) => texts(names),
        };
        self.add(format!("{place}.models"), models);
        self.add_given(format!("{place}.routes"), it.routes.as_deref().map(texts));
        self.add(format!("{place}.timeouts.connect_ms"), ms(it.timeouts.connect));
        self.add(format!("{place}.timeouts.response_ms"), ms(it.timeouts.answer));
        self.add(format!("{place}.timeouts.idle_ms"), ms(it.timeouts.idle));
        self.add_given(format!("{place}.timeouts.total_ms"), it.timeouts.total.map(ms));
        self.add(format!("{place}.retry.max_attempts"), (it.retry.max_retries + 1).to_string());
        self.add(format!("{place}.retry.initial_delay_ms"), ms(it.retry.initial_delay));
        self.add(format!("{place}.retry.max_delay_ms"), ms(it.retry.max_delay));
        self.add(format!("{place}.retry.after_send"), it.retry.after_send.to_string());
        self.breaker(&format!("{place}.breaker"), &it.breaker);
    }

    fn model(&mut self, it: &ModelSettings) {
        let place = format!("models.{}", it.name);
        self.add(format!("{place}.name"), text(&it.name));
        self.add(format!("{place}.provider"), text(&it.provider));
        self.add(format!("{place}.model"), text(&it.model));
        self.add(format!("{place}.fallbacks"), texts(&it.fallbacks));
        self.add_given(format!("{place}.system_prompt"), it.system_prompt.as_deref().map(text));
        self.add(format!("{place}.filters"), texts(&it.filters));
        self.add(format!("{place}.tools"), texts(&it.tools));
        self.add(format!("{place}.actions"), texts(&it.actions));
        self.add(format!("{place}.tool_search"), it.tool_search.to_string());
        self.add(format!("{place}.max_tool_iterations"), it.max_tool_iterations.to_string());
        self.add(format!("{place}.memory"), it.memory.to_string());
        self.add_given(format!("{place}.description"), it.description.as_deref().map(text));
        self.add(format!("{place}.abilities"), texts(&it.abilities));
        self.add_given(format!("{place}.context_length"), it.context_length.map(|tokens| tokens.to_string()));
        self.add(format!("{place}.price"), value(&it.price));
        self.add(format!("{place}.variables"), value(&it.variables));
        self.add_given(format!("{place}.preset"), it.preset.as_deref().map(text));
        self.add(format!("{place}.middleware"), value(&it.middleware));
    }

    /// Of its valves only the names: values may be secrets, and only the script knows which.
    fn plugin(&mut self, place: &str, it: &PluginSettings) {
        let names = it.valves.keys();
        let valves: Vec<String> = names.iter().map(|name| format!("{name} = …")).collect();
        let valves = if valves.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", valves.join(", ")) };
        self.add(format!("{place}.valves"), valves);
        self.add(format!("{place}.enabled"), it.enabled.to_string());
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        self.add_given(format!("{place}.budget.ms"), number(it.budget.ms));
        self.add_given(format!("{place}.budget.operations"), number(it.budget.operations));
        self.add_given(format!("{place}.budget.memory_mb"), number(it.budget.memory_mb));
    }

    fn grants(&mut self, place: &str, it: &Grants) {
        let granted = it.to_json(&self.config.project);
        for capability in Capability::ALL {
            let name = capability.name();
            let nothing = if name == "files" { "[]" } else { "false" };
            let value = granted.get(name).map_or(nothing.to_owned(), |granted| value(&granted));
            self.add(format!("{place}.{name}"), value);
        }
    }
}

fn text(text: &str) -> String {
    Json::from(text).to_string()
}

fn texts(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|one| text(one)).collect();
    format!("[{}]", texts.join(", "))
}

/// A value as TOML has it within a line.
fn value(json: &Json) -> String {
    match json {
        Json::Object(object) if object.is_empty() => "{}".to_owned(),
        Json::Object(object) => {
            let parts: Vec<String> =
                object.entries().iter().map(|(key, part)| format!("{key} = {}", value(part))).collect();
            format!("{{ {} }}", parts.join(", "))
        }
        Json::Array(array) => {
            let parts: Vec<String> = array.items().iter().map(value).collect();
            format!("[{}]", parts.join(", "))
        }
        other => other.to_string(),
    }
}

/// The source of a secret; one that stands there itself is not shown.
fn secret(source: &SecretSource) -> String {
    match source {
        SecretSource::Literal(_) => text("***"),
        SecretSource::Env(name) => text(&format!("env:{name}")),
        SecretSource::File(file) => text(&format!("file:{}", file.display())),
    }
}

fn ms(time: Duration) -> String {
    time.as_millis().to_string()
}

/// As it is written: relative to the project where it lies in it.
fn path(path: &Path, config: &Config) -> String {
    text(&path.strip_prefix(&config.project).unwrap_or(path).display().to_string())
}

fn store(config: &Config) -> String {
    match &config.store.address {
        StoreAddress::Sqlite(file) => {
            let file = file.strip_prefix(&config.project).unwrap_or(file);
            text(&format!("sqlite://{}", file.display()))
        }
        StoreAddress::Postgres(_) => text("postgres://***"),
    }
}

fn without_password(url: &Url) -> Url {
    let mut url = url.clone();
    if url.password().is_some() {
        // An address with a password can have another one.
        let _ = url.set_password(Some("***"));
    }
    url
}
