//! A project whose host is a process that can be killed, with its client requests.

use crate::host::{TIMEOUT, client, streaming, until};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use valvehouse::store::Store;

/// A tool that must not run twice without approval. It waits before and after its effect.
const PAY: &str = r#"/*
requirements: files
*/
const parameters = #{ what: #{ type: "string", required: true } };
fn handler(args) {
    for turn in 0..50_000 {}
    files::write("paid", args.what + "\n", #{ append: true });
    for turn in 0..50_000 {}
    `paid ${args.what}`
}
"#;

/// A tool that may run twice.
const NOTE: &str = r#"/*
requirements: files
idempotent: true
*/
const parameters = #{ what: #{ type: "string", required: true } };
fn handler(args) {
    files::write("noted", args.what + "\n", #{ append: true });
    `noted ${args.what}`
}
"#;

/// A project folder with its store.
pub(super) struct Project(TempDir);

impl Project {
    pub(super) fn new(upstream: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "[[providers]]\nname = \"mock\"\nkind = \"openai\"\nbase_url = \"{upstream}\"\napi_key = \"sk\"\n\
             retry = {{ max_attempts = 1 }}\nbreaker = {{ failure_threshold = 0 }}\n\
             [[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true\ntools = [\"*\"]\n\
             [grants.pay]\nfiles = [\"work\"]\n[grants.note]\nfiles = [\"work\"]\n"
        );
        for (name, text) in
            [("valvehouse.toml", config.as_str()), ("tools/pay.rhai", PAY), ("tools/note.rhai", NOTE)]
        {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(folder.path().join("work")).unwrap();
        Self(folder)
    }

    /// Returns the folder.
    pub(super) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Appends to the configuration.
    pub(super) fn configure(&self, toml: &str) {
        let file = self.folder().join("valvehouse.toml");
        let settings = std::fs::read_to_string(&file).unwrap() + toml;
        std::fs::write(file, settings).unwrap();
    }

    /// Writes a tool.
    pub(super) fn tool(&self, name: &str, text: &str) {
        std::fs::write(self.folder().join(format!("tools/{name}.rhai")), text).unwrap();
    }

    /// Adds a filter.
    pub(super) fn filter(&self, id: &str, text: &str) {
        std::fs::create_dir_all(self.folder().join("filters")).unwrap();
        std::fs::write(self.folder().join(format!("filters/{id}.rhai")), text).unwrap();
    }

    /// Returns the values that a script has stored, by key.
    pub(super) async fn stored(&self, plugin: &str) -> HashMap<String, valvehouse::json::Json> {
        let store = Store::sqlite(&self.0.path().join(".valvehouse/state.db")).await.unwrap();
        let rows = store.kv_all().await.unwrap();
        store.close().await;
        rows.into_iter().filter(|row| row.plugin == plugin).map(|row| (row.key, row.value)).collect()
    }

    /// Starts a host with a limit on the size of its files, in blocks of 512 bytes.
    pub(super) async fn serve_within(&self, blocks: u64) -> Server {
        let mut command = Command::new("sh");
        // A write beyond the limit fails and does not end the process.
        command.args(["-c", "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\"", &blocks.to_string()]);
        command.arg(env!("CARGO_BIN_EXE_valvehouse"));
        self.started(command, &[]).await
    }

    /// Starts a host.
    pub(super) async fn serve(&self) -> Server {
        self.serve_with(&[]).await
    }

    /// Starts a host with additional environment variables.
    pub(super) async fn serve_with(&self, env: &[(&str, &Path)]) -> Server {
        self.started(Command::new(env!("CARGO_BIN_EXE_valvehouse")), env).await
    }

    /// Starts a host by a command of a test's own, to which the words of a command line are added.
    pub(super) async fn serve_by(&self, command: Command, env: &[(&str, &Path)]) -> Server {
        self.started(command, env).await
    }

    async fn started(&self, mut command: Command, env: &[(&str, &Path)]) -> Server {
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("VALVEHOUSE")) {
            command.env_remove(name);
        }
        command.envs(env.iter().copied());
        command.args(["serve", "--port", "0"]).current_dir(self.0.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let output_lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let shared_lines = output_lines.clone();
        let address = tokio::task::spawn_blocking(move || {
            let mut startup_lines = Vec::new();
            for line in lines.by_ref() {
                if let Some((_, rest)) = line.split_once("http://") {
                    let address: String =
                        rest.chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect();
                    // Keeps reading, or the host would block on a full pipe.
                    std::thread::spawn(move || {
                        lines.for_each(|line| shared_lines.lock().unwrap().push(line))
                    });
                    return address;
                }
                startup_lines.push(line);
            }
            panic!("the host does not start:\n{}", startup_lines.join("\n"));
        })
        .await
        .unwrap();
        Server { child, url: format!("http://{address}"), client: client(), output_lines }
    }

    /// Returns the messages of a conversation.
    pub(super) async fn messages_of(&self, chat: &str) -> Vec<Value> {
        let store = Store::sqlite(&self.0.path().join(".valvehouse/state.db")).await.unwrap();
        let messages = store.messages(chat, 0, u64::MAX).await.unwrap();
        messages.iter().map(|message| serde_json::from_str(&message.to_string()).unwrap()).collect()
    }

    /// Returns the lines that a tool wrote.
    pub(super) fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.path().join("work").join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the lines that a tool wrote for one conversation.
    pub(super) fn lines_of(&self, file: &str, chat: &str) -> Vec<String> {
        let own = format!("{chat}/");
        self.lines(file).into_iter().filter(|line| line.starts_with(&own)).collect()
    }
}

/// A running host.
pub(super) struct Server {
    child: Child,
    url: String,
    client: reqwest::Client,
    /// The log lines since it began to listen.
    output_lines: Arc<Mutex<Vec<String>>>,
}

/// Sends chats to a host that may be killed at any time.
pub(super) struct Chats {
    url: String,
    client: reqwest::Client,
    /// The key, if one is sent.
    key: Option<String>,
}

impl Chats {
    /// Returns `true` if the turn was acknowledged: answered completely with a success status. Returns `None`
    /// if the host is gone.
    pub(super) async fn answers(&self, text: &str, stream: bool) -> Option<bool> {
        let body =
            json!({"model": "assistant", "stream": stream, "messages": [{"role": "user", "content": text}]});
        let response = self.post(&body).send().await.ok()?;
        let status = response.status();
        let text = response.text().await.ok()?;
        if stream && !text.ends_with("data: [DONE]\n\n") {
            return None;
        }
        Some(status.is_success())
    }

    /// Returns the status and the response of one turn.
    pub(super) async fn asks(&self, text: &str) -> (u16, Value) {
        self.asks_model("assistant", text).await
    }

    /// Returns the status and the response of one turn with this model.
    pub(super) async fn asks_model(&self, model: &str, text: &str) -> (u16, Value) {
        let body = json!({"model": model, "messages": [{"role": "user", "content": text}]});
        let response = self.post(&body).send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default())
    }

    /// Returns the status of one turn with this model.
    ///
    /// # Errors
    /// Returns an error if the host is gone.
    pub(super) async fn tries_model(&self, model: &str, text: &str) -> reqwest::Result<u16> {
        let body = json!({"model": model, "messages": [{"role": "user", "content": text}]});
        Ok(self.post(&body).send().await?.status().as_u16())
    }

    fn post(&self, body: &Value) -> reqwest::RequestBuilder {
        let request = self.client.post(format!("{}/v1/chat/completions", self.url)).timeout(TIMEOUT);
        let request = match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        request.header("content-type", "application/json").body(body.to_string())
    }
}

impl Server {
    /// Returns a chat client that outlives the host.
    pub(super) fn chats(&self) -> Chats {
        Chats { url: self.url.clone(), client: client(), key: None }
    }

    /// Returns a chat client with a key.
    pub(super) fn chats_with(&self, key: &str) -> Chats {
        Chats { key: Some(key.to_owned()), ..self.chats() }
    }

    /// Returns the URL of the host.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `TERM` or `HUP`.
    pub(super) fn signal(&self, name: &str) {
        Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
    }

    /// Waits until the host has logged a text `times` times.
    pub(super) async fn logs(&self, text: &str, times: usize) {
        until(&format!("{text:?} is logged {times} times"), || async {
            let output_lines = self.output_lines.lock().unwrap();
            output_lines.iter().filter(|line| line.contains(text)).count() >= times
        })
        .await;
    }

    /// Waits for the end of the process.
    pub(super) async fn ends(&mut self) -> std::process::ExitStatus {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts a streamed chat.
    pub(super) async fn begins(&self, text: &str) -> reqwest::Response {
        let body = streaming("assistant", text);
        let request = self.client.post(format!("{}/v1/chat/completions", self.url)).timeout(TIMEOUT);
        request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap()
    }

    /// Returns `true` if the host reports that it is ready.
    pub(super) async fn is_ready(&self) -> bool {
        let response = client().get(format!("{}/readyz", self.url)).timeout(TIMEOUT).send().await;
        response.is_ok_and(|answer| answer.status().is_success())
    }

    /// Returns the names of the models.
    pub(super) async fn models(&self) -> Vec<String> {
        let (_, list) = self.ask("GET", "/v1/models", None).await;
        let data = list["data"].as_array().unwrap().iter();
        data.map(|model| model["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Sends SIGKILL.
    pub(super) fn dies(&self) {
        Command::new("kill").args(["-KILL", &self.child.id().to_string()]).status().unwrap();
    }

    /// Kills the process and waits for its end.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        // Afterwards the process id no longer exists.
        self.child.wait().unwrap();
    }

    /// Returns the problems that the page shows.
    pub(super) async fn problems(&self) -> String {
        let (status, overview) = self.ask("GET", "/api/v1/overview", None).await;
        assert_eq!(status, 200, "{overview}");
        overview["problems"].to_string()
    }

    pub(super) async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.client.request(method, format!("{}{path}", self.url)).timeout(TIMEOUT);
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        };
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Sends a message in a conversation and returns the response.
    pub(super) async fn send(&self, chat: &str, text: &str) -> Value {
        self.tries(chat, text).await.1
    }

    /// Sends a message in a conversation. Returns the status and the response.
    pub(super) async fn tries(&self, chat: &str, text: &str) -> (u16, Value) {
        let body = json!({"model": "assistant", "chat_id": chat, "user": chat,
            "messages": [{"role": "user", "content": text}]});
        self.ask("POST", "/v1/chat/completions", Some(&body)).await
    }

    /// Returns the runs of a conversation, newest first.
    pub(super) async fn runs(&self, chat: &str) -> Vec<Value> {
        let (status, list) =
            self.ask("GET", &format!("/api/v1/agents/assistant/runs?chat_id={chat}"), None).await;
        assert_eq!(status, 200, "{list}");
        list["data"].as_array().unwrap_or_else(|| panic!("{list}")).clone()
    }

    /// Returns the action that a run waits for.
    pub(super) async fn pending(&self, run: &str) -> Value {
        let (status, pending) = self.ask("GET", &format!("/api/v1/agents/runs/{run}/pending"), None).await;
        assert_eq!(status, 200, "{pending}");
        pending["pending_action"].clone()
    }

    /// Sends a decision on a run.
    pub(super) async fn decides(&self, run: &str, decision: &Value) -> (u16, Value) {
        self.ask("POST", &format!("/api/v1/agents/runs/{run}/resume"), Some(decision)).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
