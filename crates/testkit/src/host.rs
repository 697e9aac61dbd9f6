//! `TestHost`: a whole host in a folder of its own, on a port of its own.
//!
//! ```ignore
//! let host = TestHost::new().filter("shout", r#"fn outlet(body) { … }"#).start().await;
//! assert_eq!(host.ask("hi").await.text(), "HI");
//! ```

use crate::upstream::{MODEL, Upstream};
use crate::well_formed;
use bytes::Bytes;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use valvehouse_agent::Decision;
use valvehouse_config::{Config, ConfigError};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::{RunOptions, TurnAnswer};
use valvehouse_host::Snapshot;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_script::Diagnostic;
use valvehouse_server::NewConnections;
use valvehouse_store::Store;

pub use crate::wait::{TIMEOUT, until};

/// A host that is not started yet.
pub struct Setup {
    folder: TempDir,
    /// Folder, name and text.
    scripts: Vec<(&'static str, String, Vec<u8>)>,
    config: String,
    provider: String,
}

/// A host that runs.
pub struct TestHost {
    folder: TempDir,
    running: Option<Running>,
    config: Config,
    /// The service behind the model `mock-1`.
    pub upstream: Upstream,
    client: reqwest::Client,
}

struct Running {
    app: Arc<App>,
    address: String,
    shutdown: Option<oneshot::Sender<()>>,
    server: JoinHandle<std::io::Result<()>>,
}

impl TestHost {
    /// Two providers: `demo` with its model, and `mock`, which passes any name to the upstream.
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> Setup {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Setup { folder, scripts: Vec::new(), config: String::new(), provider: String::new() }
    }
}

impl Setup {
    /// Puts a file into `filters/` before the start.
    pub fn filter(mut self, id: &str, source: impl AsRef<[u8]>) -> Self {
        self.scripts.push(("filters", format!("{id}.rhai"), source.as_ref().to_vec()));
        self
    }

    /// Puts a file into `tools/` before the start.
    pub fn tool(mut self, id: &str, source: impl AsRef<[u8]>) -> Self {
        self.scripts.push(("tools", format!("{id}.rhai"), source.as_ref().to_vec()));
        self
    }

    /// Puts a file into another folder before the start.
    pub fn script(mut self, folder: &'static str, id: &str, source: impl AsRef<[u8]>) -> Self {
        self.scripts.push((folder, format!("{id}.rhai"), source.as_ref().to_vec()));
        self
    }

    /// Adds to `valvehouse.toml`.
    pub fn config(mut self, toml: &str) -> Self {
        self.config.push_str(toml);
        self.config.push('\n');
        self
    }

    /// Adds to what is configured of the provider `mock`.
    pub fn provider(mut self, toml: &str) -> Self {
        self.provider.push_str(toml);
        self.provider.push('\n');
        self
    }

    pub async fn start(self) -> TestHost {
        let upstream = Upstream::start().await;
        // Failures come at once and each by itself, unless a test is about that.
        let mut provider = self.provider;
        for (key, off) in [("retry", "{ max_attempts = 1 }"), ("breaker", "{ failure_threshold = 0 }")] {
            if !provider.contains(key) {
                provider.push_str(&format!("{key} = {off}\n"));
            }
        }
        let kind = if provider.contains("kind =") { "" } else { "kind = \"openai\"\n" };
        let toml = format!(
            "[[providers]]\nname = \"demo\"\nkind = \"demo\"\n\
             [[providers]]\nname = \"mock\"\n{kind}base_url = \"{}\"\napi_key = \"sk-upstream\"\n\
             models = \"*\"\n{}\n[[models]]\nname = \"demo\"\nprovider = \"demo\"\n{}",
            upstream.url(),
            provider,
            self.config
        );
        let project = self.folder.path();
        std::fs::write(project.join("valvehouse.toml"), toml).expect("the settings' file");
        for (folder, name, source) in &self.scripts {
            let path = project.join(folder).join(name);
            let folder = path.parent().expect("a script stands in a folder");
            std::fs::create_dir_all(folder).expect("the scripts' folder");
            std::fs::write(&path, source).expect("a script's file");
        }
        if !self.config.contains("[store]") {
            put_store(project);
        }
        let config = load(project).unwrap_or_else(|error| panic!("{error}"));
        let running = Some(Running::start(&config).await);
        TestHost { folder: self.folder, running, config, upstream, client: client() }
    }
}

/// The files of a new store. Migrating one takes longer than the rest of a start, so it is done once for all hosts.
static NEW_STORE: LazyLock<[(&str, Vec<u8>); 2]> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("state.db");
    let migrate = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async { Store::sqlite(&file).await.expect("a new store").close().await });
    };
    // A runtime of its own, beside that of the test.
    std::thread::scope(|scope| scope.spawn(migrate).join()).expect("a new store");
    ["state.db", "state.key"]
        .map(|name| (name, std::fs::read(folder.path().join(name)).expect("a file of it")))
});

/// Puts a new store into the folder of a project, for this user only, as a host would make it.
fn put_store(project: &Path) {
    let folder = project.join(".valvehouse");
    std::fs::create_dir(&folder).expect("the store's folder");
    let only_ours = |path: &Path, mode: u32| {
        #[cfg(unix)]
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
            .expect("its rights");
        #[cfg(not(unix))]
        let _ = (path, mode);
    };
    only_ours(&folder, 0o700);
    for (name, bytes) in &*NEW_STORE {
        let file = folder.join(name);
        std::fs::write(&file, bytes).expect("a file of the store");
        only_ours(&file, 0o600);
    }
}

/// Reads the settings of a folder; nothing in the environment of the tests decides what comes of them.
fn load(project: &Path) -> Result<Config, ConfigError> {
    let slow = crate::slow_variables().map(|(name, value)| (name.into(), value.into()));
    Config::load_with(project, slow, &[])
}

impl Running {
    async fn start(config: &Config) -> Self {
        let app = App::open(config.clone()).await.unwrap_or_else(|error| panic!("{error}"));
        app.follow();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
        let address = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let (shutdown, stopped) = oneshot::channel();
        let until = async {
            drop(stopped.await);
            NewConnections::Rejected
        };
        let serve = valvehouse_server::serve(listener, app.clone(), until);
        Self { app, address, shutdown: Some(shutdown), server: tokio::spawn(serve) }
    }

    fn shut_down(&mut self) {
        if let Some(shutdown) = self.shutdown.take() {
            // A host that ended by itself takes no more signals.
            let _ = shutdown.send(());
        }
    }

    async fn stop(mut self) {
        self.shut_down();
        let aborted = self.server.abort_handle();
        // Clients that keep a connection keep the server.
        if tokio::time::timeout(Duration::from_secs(1), self.server).await.is_err() {
            aborted.abort();
        }
        self.app.close().await;
    }
}

/// The files of the folder, and their state in the host.
impl TestHost {
    fn running(&self) -> &Running {
        self.running.as_ref().expect("the host runs")
    }

    pub fn app(&self) -> &Arc<App> {
        &self.running().app
    }

    pub fn store(&self) -> &Arc<Store> {
        self.app().host.store()
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.app().host.snapshot()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn path_of(&self, id: &str) -> PathBuf {
        self.folder().join("filters").join(format!("{id}.rhai"))
    }

    /// Saves as `echo >` does: in place.
    pub fn save(&self, id: &str, source: impl AsRef<[u8]>) {
        let path = self.path_of(id);
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the filters' folder");
        std::fs::write(path, source).expect("a filter's file");
    }

    /// Saves a tool's file in place.
    pub fn save_tool(&self, id: &str, source: &str) {
        let folder = self.folder().join("tools");
        std::fs::create_dir_all(&folder).expect("the tools' folder");
        std::fs::write(folder.join(format!("{id}.rhai")), source).expect("a tool's file");
    }

    /// Saves as editors do: another file, then a rename over the first.
    pub fn save_by_rename(&self, id: &str, source: &str) {
        let path = self.path_of(id);
        let beside = path.with_extension("rhai~");
        std::fs::write(&beside, source).expect("a file beside the filter's");
        std::fs::rename(&beside, &path).expect("a rename");
    }

    pub fn delete(&self, id: &str) {
        std::fs::remove_file(self.path_of(id)).expect("a file to delete");
    }

    /// Takes up other settings while it runs; a restart has them, too.
    pub async fn reconfigure(&mut self, toml: &str) {
        std::fs::write(self.folder().join("valvehouse.toml"), toml).expect("the settings' file");
        let config = load(self.folder()).unwrap_or_else(|error| panic!("{error}"));
        self.app().reconfigure(config.clone()).await.unwrap_or_else(|error| panic!("{error}"));
        self.config = config;
    }

    /// The same with settings that may not be ones.
    pub async fn try_reconfigure(&mut self, toml: &str) -> Result<(), String> {
        let before = self.settings();
        std::fs::write(self.folder().join("valvehouse.toml"), toml).expect("the settings' file");
        let config = match load(self.folder()) {
            Ok(config) => config,
            Err(error) => {
                std::fs::write(self.folder().join("valvehouse.toml"), before).expect("the settings' file");
                return Err(error.to_string());
            }
        };
        self.app().reconfigure(config.clone()).await.map_err(|error| error.to_string())?;
        self.config = config;
        Ok(())
    }

    /// The settings' file as it is now.
    pub fn settings(&self) -> String {
        std::fs::read_to_string(self.folder().join("valvehouse.toml")).expect("the settings' file")
    }

    /// Ends the host and starts another one on the same folder.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.running = Some(Running::start(&self.config).await);
    }

    /// The same where it may not start.
    pub async fn try_restart(&mut self) -> Result<(), String> {
        self.stop().await;
        let app = App::open(self.config.clone()).await.map_err(|error| error.to_string())?;
        app.close().await;
        self.running = Some(Running::start(&self.config).await);
        Ok(())
    }

    /// Another host on the same folder and store, without a socket.
    pub async fn another(&self) -> Arc<App> {
        let app = App::open(self.config.clone()).await.unwrap_or_else(|error| panic!("{error}"));
        app.follow();
        app
    }

    /// Goes on with a run, and waits for its end.
    pub async fn resume_run(&self, run: &str, decision: Decision) -> Result<TurnAnswer, Error> {
        self.app().resume(run.to_owned(), decision, None, RunOptions::default()).answer().await
    }

    /// Tells it to stop, and lets it finish what is in progress.
    pub fn shut_down(&mut self) {
        self.running.as_mut().expect("the host runs").shut_down();
    }

    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            self.client = client();
            running.stop().await;
        }
    }

    /// Returns the body of `/readyz` of a host that is ready, or that only refuses the requests to a model.
    pub async fn ready(&self) -> Value {
        let answer = self.get("/readyz").await;
        let refuses = || answer.json()["reason"].as_str().is_some_and(|why| why.starts_with("All requests"));
        if answer.status != 200 && !refuses() {
            panic!("{}, and then {}", answer.body(), self.get("/readyz?verbose").await.body());
        }
        answer.json()
    }

    pub async fn generation(&self) -> u64 {
        self.ready().await["generation"].as_u64().expect("a generation is a number")
    }

    /// Waits until a plugin stands like this: `live`, `stale`, `broken`, `missing`, `gone`.
    pub async fn stands(&self, id: &str, word: &str) {
        let what = format!("{id} is {word}");
        until(&what, || async {
            self.ready().await["plugins"].get(id).map_or(word == "gone", |state| state == word)
        })
        .await;
    }

    /// Waits for a generation after this one in which a plugin is live.
    pub async fn live_after(&self, generation: u64, id: &str) {
        until(&format!("{id} is live after generation {generation}"), || async {
            let ready = self.ready().await;
            ready["generation"].as_u64() > Some(generation) && ready["plugins"][id] == "live"
        })
        .await;
    }

    /// Saves a filter that loads, and waits until it is live.
    pub async fn update(&self, id: &str, source: &str) {
        let generation = self.generation().await;
        self.save(id, source);
        self.live_after(generation, id).await;
    }

    /// Waits until this generation of the store is applied.
    pub async fn obeys(&self, stored: u64) {
        until("the store is obeyed", || async {
            let hosts = self.store().hosts().await.expect("the store answers");
            hosts.iter().any(|host| host.applied_generation >= stored)
        })
        .await;
    }

    /// Stores valves, of everybody or of one user, and waits until they are obeyed.
    pub async fn set_valves(&self, id: &str, user: Option<&str>, values: Value) {
        let values = Json::parse(values.to_string().as_bytes()).expect("JSON");
        let stored =
            self.store().replace_valves(id, user, &values, "test").await.expect("the store takes valves");
        self.obeys(stored).await;
    }

    /// All that is wrong with a plugin: why it does not load, or what it warns of.
    pub fn problems(&self, id: &str) -> Vec<Diagnostic> {
        let snapshot = self.snapshot();
        let of_files = snapshot.problems.iter().filter(|problem| problem.id == id);
        let mut problems: Vec<Diagnostic> = of_files.cloned().collect();
        if let Some(plugin) = snapshot.plugins.get(id) {
            problems.extend_from_slice(plugin.state.problems());
            problems.extend(plugin.script.iter().flat_map(|script| script.warnings.clone()));
        }
        problems
    }
}

/// The requests of tests.
impl TestHost {
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.running().address)
    }

    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        self.client.request(method, self.url(path)).timeout(TIMEOUT / crate::slowness())
    }

    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request("GET", path)).await
    }

    /// A chat with the model behind the upstream.
    pub async fn ask(&self, text: &str) -> Answer {
        self.chat(&chat_body(MODEL, text)).await
    }

    pub async fn chat(&self, body: &Value) -> Answer {
        self.post(body.to_string()).await
    }

    /// The same as bytes.
    pub async fn post(&self, body: impl Into<reqwest::Body>) -> Answer {
        Answer::of(self.posting(body)).await
    }

    pub fn posting(&self, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        let request = self.request("POST", "/v1/chat/completions");
        request.header("content-type", "application/json").body(body)
    }

    /// A streamed chat with the model behind the upstream, read to its end.
    pub async fn stream(&self, text: &str) -> Answer {
        self.chat(&streaming(MODEL, text)).await
    }

    /// A streamed chat that has begun.
    pub async fn begin(&self, text: &str) -> reqwest::Response {
        let request = self.posting(streaming(MODEL, text).to_string());
        request.send().await.unwrap_or_else(|error| panic!("{error:?}"))
    }
}

/// The requests of protocols and APIs.
impl TestHost {
    /// Asks `/v1/responses`.
    pub async fn respond(&self, body: &Value) -> Answer {
        let request = self.request("POST", "/v1/responses").header("content-type", "application/json");
        Answer::of(request.body(body.to_string())).await
    }

    /// Asks `/v1/messages`.
    pub async fn message(&self, body: &Value) -> Answer {
        let request = self.request("POST", "/v1/messages").header("anthropic-version", "2023-06-01");
        Answer::of(request.header("content-type", "application/json").body(body.to_string())).await
    }

    /// Asks a route of the Functions API.
    pub async fn api(&self, method: &str, path: &str, body: &Value) -> Answer {
        let request = self.request(method, &format!("/api/v1/functions{path}"));
        Answer::of(if body.is_null() { request } else { request.body(body.to_string()) }).await
    }

    /// Looks at one that answers.
    pub async fn api_get(&self, path: &str) -> Value {
        self.api("GET", path, &Value::Null).await.ok()
    }

    /// Changes something, which is done.
    pub async fn api_post(&self, path: &str, body: &Value) -> Value {
        self.api("POST", path, body).await.ok()
    }

    /// The history of a plugin: number, who, what; the newest first.
    pub async fn api_history(&self, id: &str) -> Vec<(u64, String, String)> {
        let all = self.api_get(&format!("/id/{id}/history")).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let one =
            |entry: &Value| (entry["version"].as_u64().unwrap(), text(&entry["by"]), text(&entry["action"]));
        all.as_array().unwrap().iter().map(one).collect()
    }

    /// Asks a route of the Functions API with a key.
    pub async fn api_with(&self, key: &str, method: &str, path: &str, body: &Value) -> Answer {
        let request = self.request(method, &format!("/api/v1/functions{path}"));
        let request = if key.is_empty() { request } else { request.bearer_auth(key) };
        Answer::of(if body.is_null() { request } else { request.body(body.to_string()) }).await
    }

    /// Rolls a plugin back to a version.
    pub async fn back_to(&self, id: &str, version: u64) -> Value {
        self.api_post(&format!("/id/{id}/rollback"), &json!({"version": version})).await
    }
}

/// The body of a chat of one message.
pub fn chat_body(model: &str, text: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": text}]})
}

/// The same, streamed.
pub fn streaming(model: &str, text: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": text}], "stream": true})
}

/// The whole of an answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: HeaderMap,
    bytes: Bytes,
}

impl Answer {
    pub async fn of(request: reqwest::RequestBuilder) -> Self {
        Self::tried(request).await.unwrap_or_else(|error| panic!("no answer: {error:?}"))
    }

    pub async fn tried(request: reqwest::RequestBuilder) -> reqwest::Result<Self> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Self { status, headers, bytes: response.bytes().await? })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a header is text"))
    }

    pub fn generation(&self) -> u64 {
        let value = self.header("x-valvehouse-generation").expect("every answer names its generation");
        value.parse().expect("a generation is a number")
    }

    pub fn body(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("a body is text")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {}", self.body()))
    }

    pub fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// Returns the model's text, streamed or not.
    pub fn text(&self) -> String {
        assert_eq!(self.status, 200, "{}", self.body());
        if self.is_stream() {
            let events = self.events();
            let words = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
            return words.collect();
        }
        self.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the finish reasons of a streamed answer, each as often as it comes.
    pub fn finishes(&self) -> Vec<String> {
        let events = self.events();
        let reasons = events.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str());
        reasons.map(str::to_owned).collect()
    }

    /// The events of a stream, which has to be well formed.
    pub fn events(&self) -> Vec<Value> {
        assert!(self.is_stream(), "no stream: {} {}", self.status, self.body());
        well_formed::events_of(self.body())
    }

    /// Returns the name and the data of each server-sent event, without `[DONE]`. The name is empty if there is none.
    pub fn named_events(&self) -> Vec<(String, Value)> {
        well_formed::named_events(self.body())
    }

    /// Returns the events of a stream in which each is named after its type.
    #[track_caller]
    pub fn typed_events(&self) -> Vec<Value> {
        assert!(self.is_stream(), "no stream: {} {}", self.status, self.body());
        let events = self.named_events().into_iter();
        let event = |(name, event): (String, Value)| {
            assert_eq!(event["type"], name, "{}", self.body());
            event
        };
        events.map(event).collect()
    }

    /// The error of an answer that is one, or that ends in one.
    pub fn error(&self) -> Value {
        let body = if self.is_stream() { self.events().pop().unwrap_or_default() } else { self.json() };
        let error = body["error"].clone();
        let keys: Vec<&str> = error.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        assert!(keys.contains(&"message"), "no error in OpenAI's shape: {} {}", self.status, self.body());
        error
    }

    pub fn message(&self) -> String {
        self.error()["message"].as_str().expect("an error says what is wrong").to_owned()
    }

    /// Checks that an answer is a refusal of ours in OpenAI's shape.
    pub fn refused(&self, status: u16, message: &str) {
        assert_eq!(self.status, status, "{}", self.body());
        let error = self.error();
        let keys: Vec<&str> = error.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["message", "type", "param", "code"], "{}", self.body());
        assert!(self.message().contains(message), "{message:?} is not in {}", self.body());
        self.generation();
    }
}

impl Answer {
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body());
        self.json()
    }

    /// Checks that an answer is a refusal in Open WebUI's shape.
    #[track_caller]
    pub fn denied(&self, status: u16, detail: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.body());
        let body = self.json();
        assert!(
            body["detail"].as_str().is_some_and(|text| text.contains(detail)),
            "{detail:?} is not in {body}"
        );
        body
    }
}

/// A client of its own; works on a machine without CA certificates too.
pub fn client() -> reqwest::Client {
    static TRUST_NOBODY: LazyLock<rustls::ClientConfig> = LazyLock::new(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
        rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth()
    });
    let builder = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(TRUST_NOBODY.clone());
    builder.build().expect("a client")
}
