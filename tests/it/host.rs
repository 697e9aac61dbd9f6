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
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use valvehouse::Fault;
use valvehouse::agent::Decision;
use valvehouse::app::App;
use valvehouse::config::Config;
use valvehouse::host::Snapshot;
use valvehouse::json::Json;
use valvehouse::kernel::{RunOptions, TurnAnswer};
use valvehouse::script::Problem;
use valvehouse::store::Store;

/// Nothing a test waits for may take longer. Generous: machines are slow at times.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A host that is not started yet.
pub(crate) struct Setup {
    folder: TempDir,
    /// Folder, name and text.
    scripts: Vec<(&'static str, String, Vec<u8>)>,
    config: String,
    provider: String,
}

/// A host that runs.
pub(crate) struct TestHost {
    folder: TempDir,
    running: Option<Running>,
    config: Config,
    /// The service behind the model `mock-1`.
    pub(crate) upstream: Upstream,
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
    pub(crate) fn new() -> Setup {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Setup { folder, scripts: Vec::new(), config: String::new(), provider: String::new() }
    }
}

impl Setup {
    /// Puts a file into `filters/` before the start.
    pub(crate) fn filter(mut self, id: &str, source: impl AsRef<[u8]>) -> Self {
        self.scripts.push(("filters", format!("{id}.rhai"), source.as_ref().to_vec()));
        self
    }

    /// Puts a file into `tools/` before the start.
    pub(crate) fn tool(mut self, id: &str, source: impl AsRef<[u8]>) -> Self {
        self.scripts.push(("tools", format!("{id}.rhai"), source.as_ref().to_vec()));
        self
    }

    /// Adds to `valvehouse.toml`.
    pub(crate) fn config(mut self, toml: &str) -> Self {
        self.config.push_str(toml);
        self.config.push('\n');
        self
    }

    /// Adds to what is configured of the provider `mock`.
    pub(crate) fn provider(mut self, toml: &str) -> Self {
        self.provider.push_str(toml);
        self.provider.push('\n');
        self
    }

    pub(crate) async fn start(self) -> TestHost {
        let upstream = Upstream::start().await;
        // Failures come at once and each by itself, unless a test is about that.
        let mut provider = self.provider;
        for (key, off) in [("retry", "{ times = 0 }"), ("breaker", "{ breaks = 0 }")] {
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
        let config = Config::load_with(project, [], &[]).unwrap_or_else(|error| panic!("{error}"));
        let running = Some(Running::start(&config).await);
        TestHost { folder: self.folder, running, config, upstream, client: client() }
    }
}

impl Running {
    async fn start(config: &Config) -> Self {
        let app = App::open(config.clone()).await.unwrap_or_else(|error| panic!("{error}"));
        app.follow();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
        let address = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let (shutdown, stopped) = oneshot::channel();
        let serve = valvehouse::server::serve(listener, app.clone(), async { drop(stopped.await) });
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

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.running().app
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.app().host.store()
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.app().host.snapshot()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path_of(&self, id: &str) -> PathBuf {
        self.folder().join("filters").join(format!("{id}.rhai"))
    }

    /// Saves as `echo >` does: in place.
    pub(crate) fn save(&self, id: &str, source: impl AsRef<[u8]>) {
        let path = self.path_of(id);
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the filters' folder");
        std::fs::write(path, source).expect("a filter's file");
    }

    /// Saves a tool's file in place.
    pub(crate) fn save_tool(&self, id: &str, source: &str) {
        let folder = self.folder().join("tools");
        std::fs::create_dir_all(&folder).expect("the tools' folder");
        std::fs::write(folder.join(format!("{id}.rhai")), source).expect("a tool's file");
    }

    /// Saves as editors do: another file, then a rename over the first.
    pub(crate) fn save_by_rename(&self, id: &str, source: &str) {
        let path = self.path_of(id);
        let beside = path.with_extension("rhai~");
        std::fs::write(&beside, source).expect("a file beside the filter's");
        std::fs::rename(&beside, &path).expect("a rename");
    }

    pub(crate) fn delete(&self, id: &str) {
        std::fs::remove_file(self.path_of(id)).expect("a file to delete");
    }

    /// Takes up other settings while it runs; a restart has them, too.
    pub(crate) async fn reconfigure(&mut self, toml: &str) {
        std::fs::write(self.folder().join("valvehouse.toml"), toml).expect("the settings' file");
        let config = Config::load_with(self.folder(), [], &[]).unwrap_or_else(|error| panic!("{error}"));
        self.app().reconfigure(config.clone()).await.unwrap_or_else(|error| panic!("{error}"));
        self.config = config;
    }

    /// The same with settings that may not be ones.
    pub(crate) async fn try_reconfigure(&mut self, toml: &str) -> Result<(), String> {
        let before = self.settings();
        std::fs::write(self.folder().join("valvehouse.toml"), toml).expect("the settings' file");
        let config = match Config::load_with(self.folder(), [], &[]) {
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
    pub(crate) fn settings(&self) -> String {
        std::fs::read_to_string(self.folder().join("valvehouse.toml")).expect("the settings' file")
    }

    /// Ends the host and starts another one on the same folder.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.running = Some(Running::start(&self.config).await);
    }

    /// The same where it may not start.
    pub(crate) async fn try_restart(&mut self) -> Result<(), String> {
        self.stop().await;
        let app = App::open(self.config.clone()).await.map_err(|error| error.to_string())?;
        app.close().await;
        self.running = Some(Running::start(&self.config).await);
        Ok(())
    }

    /// Another host on the same folder and store, without a socket.
    pub(crate) async fn another(&self) -> Arc<App> {
        let app = App::open(self.config.clone()).await.unwrap_or_else(|error| panic!("{error}"));
        app.follow();
        app
    }

    /// Goes on with a run, and waits for its end.
    pub(crate) async fn resume_run(&self, run: &str, decision: Decision) -> Result<TurnAnswer, Fault> {
        self.app().resume(run.to_owned(), decision, None, RunOptions::default()).answer().await
    }

    /// Tells it to stop, and lets it finish what is under way.
    pub(crate) fn shut_down(&mut self) {
        self.running.as_mut().expect("the host runs").shut_down();
    }

    pub(crate) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            self.client = client();
            running.stop().await;
        }
    }

    /// Returns the body of `/readyz`.
    pub(crate) async fn ready(&self) -> Value {
        let answer = self.get("/readyz").await;
        assert_eq!(answer.status, 200, "{}", answer.body());
        answer.json()
    }

    pub(crate) async fn generation(&self) -> u64 {
        self.ready().await["generation"].as_u64().expect("a generation is a number")
    }

    /// Waits until a plugin stands like this: `live`, `stale`, `broken`, `missing`, `gone`.
    pub(crate) async fn stands(&self, id: &str, word: &str) {
        let what = format!("{id} is {word}");
        until(&what, || async {
            self.ready().await["plugins"].get(id).map_or(word == "gone", |state| state == word)
        })
        .await;
    }

    /// Waits for a generation after this one in which a plugin is live.
    pub(crate) async fn live_after(&self, generation: u64, id: &str) {
        until(&format!("{id} is live after generation {generation}"), || async {
            let ready = self.ready().await;
            ready["generation"].as_u64() > Some(generation) && ready["plugins"][id] == "live"
        })
        .await;
    }

    /// Saves a filter that loads, and waits until it is live.
    pub(crate) async fn update(&self, id: &str, source: &str) {
        let generation = self.generation().await;
        self.save(id, source);
        self.live_after(generation, id).await;
    }

    /// Waits until what was stored up to this generation of the store is obeyed.
    pub(crate) async fn obeys(&self, stored: u64) {
        until("the store is obeyed", || async {
            let hosts = self.store().hosts().await.expect("the store answers");
            hosts.iter().any(|host| host.applied_generation >= stored)
        })
        .await;
    }

    /// Stores valves, of everybody or of one user, and waits until they are obeyed.
    pub(crate) async fn set_valves(&self, id: &str, user: Option<&str>, values: Value) {
        let values = Json::parse(values.to_string().as_bytes()).expect("JSON");
        let stored =
            self.store().replace_valves(id, user, &values, "test").await.expect("the store takes valves");
        self.obeys(stored).await;
    }

    /// All that is wrong with a plugin: why it does not load, or what it warns of.
    pub(crate) fn problems(&self, id: &str) -> Vec<Problem> {
        let snapshot = self.snapshot();
        let of_files = snapshot.problems.iter().filter(|problem| problem.id == id);
        let mut problems: Vec<Problem> = of_files.cloned().collect();
        if let Some(plugin) = snapshot.plugins.get(id) {
            problems.extend_from_slice(plugin.state.problems());
            problems.extend(plugin.script.iter().flat_map(|script| script.warnings.clone()));
        }
        problems
    }
}

/// The requests of tests.
impl TestHost {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.running().address)
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        self.client.request(method, self.url(path)).timeout(PATIENCE)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request("GET", path)).await
    }

    /// A chat with the model behind the upstream.
    pub(crate) async fn ask(&self, text: &str) -> Answer {
        self.chat(&saying(MODEL, text)).await
    }

    pub(crate) async fn chat(&self, body: &Value) -> Answer {
        self.post(body.to_string()).await
    }

    /// The same as bytes.
    pub(crate) async fn post(&self, body: impl Into<reqwest::Body>) -> Answer {
        Answer::of(self.posting(body)).await
    }

    pub(crate) fn posting(&self, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        let request = self.request("POST", "/v1/chat/completions");
        request.header("content-type", "application/json").body(body)
    }

    /// A streamed chat with the model behind the upstream, read to its end.
    pub(crate) async fn stream(&self, text: &str) -> Answer {
        self.chat(&streaming(MODEL, text)).await
    }

    /// A streamed chat that has begun.
    pub(crate) async fn begin(&self, text: &str) -> reqwest::Response {
        let request = self.posting(streaming(MODEL, text).to_string());
        request.send().await.unwrap_or_else(|error| panic!("{error:?}"))
    }
}

/// The body of a chat of one message.
pub(crate) fn saying(model: &str, text: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": text}]})
}

/// The same, streamed.
pub(crate) fn streaming(model: &str, text: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": text}], "stream": true})
}

/// The whole of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    bytes: Bytes,
}

impl Answer {
    pub(crate) async fn of(request: reqwest::RequestBuilder) -> Self {
        Self::tried(request).await.unwrap_or_else(|error| panic!("no answer: {error:?}"))
    }

    pub(crate) async fn tried(request: reqwest::RequestBuilder) -> reqwest::Result<Self> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Self { status, headers, bytes: response.bytes().await? })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a header is text"))
    }

    pub(crate) fn generation(&self) -> u64 {
        let value = self.header("x-valvehouse-generation").expect("every answer names its generation");
        value.parse().expect("a generation is a number")
    }

    pub(crate) fn body(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("a body is text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {}", self.body()))
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// Returns the model's text, streamed or not.
    pub(crate) fn text(&self) -> String {
        assert_eq!(self.status, 200, "{}", self.body());
        if self.is_stream() {
            let events = self.events();
            let words = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
            return words.collect();
        }
        self.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the finish reasons of a streamed answer, each as often as it comes.
    pub(crate) fn finishes(&self) -> Vec<String> {
        let events = self.events();
        let reasons = events.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str());
        reasons.map(str::to_owned).collect()
    }

    /// The events of a stream, which has to be well formed.
    pub(crate) fn events(&self) -> Vec<Value> {
        assert!(self.is_stream(), "no stream: {} {}", self.status, self.body());
        well_formed::events_of(self.body())
    }

    /// The error of an answer that is one, or that ends in one.
    pub(crate) fn error(&self) -> Value {
        let body = if self.is_stream() { self.events().pop().unwrap_or_default() } else { self.json() };
        let error = body["error"].clone();
        let keys: Vec<&str> = error.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        assert!(keys.contains(&"message"), "no error in OpenAI's shape: {} {}", self.status, self.body());
        error
    }

    pub(crate) fn message(&self) -> String {
        self.error()["message"].as_str().expect("an error says what is wrong").to_owned()
    }

    /// Checks that an answer is a refusal of ours in OpenAI's shape.
    pub(crate) fn refused(&self, status: u16, message: &str) {
        assert_eq!(self.status, status, "{}", self.body());
        let error = self.error();
        let keys: Vec<&str> = error.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["message", "type", "param", "code"], "{}", self.body());
        assert!(self.message().contains(message), "{message:?} is not in {}", self.body());
        self.generation();
    }
}

/// Looks again and again until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let end = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < end, "waited {} s in vain: {what}", PATIENCE.as_secs());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A client of its own; works on a machine without CA certificates too.
pub(crate) fn client() -> reqwest::Client {
    static TRUST_NOBODY: LazyLock<rustls::ClientConfig> = LazyLock::new(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
        rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth()
    });
    let builder = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(TRUST_NOBODY.clone());
    builder.build().expect("a client")
}
