//! A host in a separate process with two models: one behind a hostile plugin and one without.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use valvehouse_testkit::command::{exchange, program, save, status_in};
use valvehouse_testkit::slow_variables;

/// The virtual memory of a process in KiB. Each stack reserves 256 MiB, of which only the used pages are
/// resident.
const ADDRESS_SPACE: u64 = 6 << 20;
/// The permitted resident memory beyond that of a host with a harmless plugin, in bytes.
const RESIDENT: u64 = 128 << 20;
/// The time after which a request counts as hung.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The number of bytes of output to keep, from its end.
const TALK: usize = 256 * 1024;

const CONFIG: &str = r#"
[[models]]
name = "hostile"
provider = "demo"
model = "demo"
filters = FILTERS
tools = ["hostile", "todo_list"]
"#;

const CALM_MODEL: &str = r#"
[[models]]
name = "calm"
provider = "demo"
model = "demo"
filters = ["calm"]
"#;

/// Shows that scripts still run.
const CALM: &str = r#"/*
global: false
*/
fn outlet(body) { body.messages[-1].text = "still here"; body }"#;

/// The limits of a host.
pub(super) struct Limits {
    pub(super) resident: u64,
    /// The processor time of a harmless request.
    harmless: Duration,
}

impl Limits {
    /// Measures a host with a harmless script.
    pub(super) fn beside_harmless() -> Self {
        let mut host = Host::start("filters/hostile.rhai", "fn inlet(body) { body }");
        host.ask("calm", "hello", false);
        let before = host.processor_time();
        let answer = host.ask("hostile", "hello", false);
        let harmless = host.processor_time().saturating_sub(before);
        let resident = host.resident() + RESIDENT;
        let log = host.end();
        assert!(answer.is(200), "{answer:?}\n{log}");
        Self { resident, harmless }
    }

    /// Returns the permitted processor time of a request whose script has the given deadline: twice the
    /// deadline in an optimised build. In a debug build it is more, because a host function that started in
    /// time takes many times as long.
    pub(super) fn time(&self, deadline: Duration) -> Duration {
        let slower = if cfg!(debug_assertions) { 10 } else { 1 };
        let of_functions = deadline.min(Duration::from_millis(100)) * 2 * (slower - 1);
        deadline * 2 + of_functions + self.harmless * 2 + Duration::from_millis(20) * slower
    }
}

pub(super) struct Host {
    child: Child,
    address: String,
    talk: Arc<Mutex<Vec<u8>>>,
    listener: JoinHandle<()>,
    folder: Arc<TempDir>,
}

/// Creates the folder of a project with one plugin, the calm filter and additional settings.
pub(super) fn project(settings: &str, file: &str, text: &str) -> Arc<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let filters = if file.starts_with("filters/") { "[\"hostile\"]" } else { "[]" };
    let config = CONFIG.replace("FILTERS", filters);
    save(folder.path(), "valvehouse.toml", &format!("{config}{CALM_MODEL}{settings}"));
    save(folder.path(), "filters/calm.rhai", CALM);
    save(folder.path(), file, text);
    Arc::new(folder)
}

/// The status and the text of a response; the status is 0 if there was none.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn is(&self, status: u16) -> bool {
        self.status == status
    }
}

impl Host {
    /// Starts a host with one plugin and the calm filter.
    pub(super) fn start(file: &str, text: &str) -> Self {
        Self::start_in(&project("", file, text))
    }

    /// Starts a host with the given files, the calm filter and a limit of virtual memory in KiB. The calm
    /// model is appended to the configuration.
    pub(super) fn start_with(
        config: &str,
        address_space: u64,
        files: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), "valvehouse.toml", &format!("{config}{CALM_MODEL}"));
        save(folder.path(), "filters/calm.rhai", CALM);
        files.into_iter().for_each(|(file, text)| save(folder.path(), &file, &text));
        let (sender, address) = mpsc::channel();
        Self::launch(&Arc::new(folder), address_space, sender).listening(&address)
    }

    /// Starts a host in a folder, which remains after the host has ended.
    pub(super) fn start_in(folder: &Arc<TempDir>) -> Self {
        let (sender, address) = mpsc::channel();
        Self::launch_in(folder, sender).listening(&address)
    }

    /// Starts a host without waiting until it listens.
    pub(super) fn launch_in(folder: &Arc<TempDir>, address: mpsc::Sender<String>) -> Self {
        Self::launch(folder, ADDRESS_SPACE, address)
    }

    fn launch(folder: &Arc<TempDir>, address_space: u64, address: mpsc::Sender<String>) -> Self {
        let mut child = spawn(folder.path(), address_space);
        let talk = Arc::default();
        let listener = listen(&mut child, Arc::clone(&talk), address);
        Self { child, address: String::new(), talk, listener, folder: folder.clone() }
    }

    fn listening(mut self, address: &mpsc::Receiver<String>) -> Self {
        self.address = address.recv_timeout(TIMEOUT).unwrap_or_default();
        self
    }

    /// Saves a file while the host runs and waits until the host reports the result of the load. Returns
    /// `false` if the host died or reported nothing.
    pub(super) fn load(&mut self, file: &str, text: &str) -> bool {
        let id = Path::new(file).file_stem().and_then(|id| id.to_str()).unwrap_or_default().to_owned();
        save(self.folder.path(), file, text);
        let began = Instant::now();
        while began.elapsed() < TIMEOUT && !self.is_dead() {
            let talk = self.talk.lock().unwrap();
            // After the time and the level of the line.
            if String::from_utf8_lossy(&talk).lines().any(|line| line.split_whitespace().nth(2) == Some(&*id))
            {
                return true;
            }
            drop(talk);
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    pub(super) fn is_dead(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Resets the peak that [`Self::resident`] returns. Returns the current resident memory in bytes.
    pub(super) fn reset_peak(&self) -> u64 {
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5");
        self.status("VmRSS:")
    }

    /// Returns the id of the process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process ends by itself. Returns its output.
    pub(super) fn ended(mut self) -> String {
        self.child.wait().unwrap();
        self.whole_talk()
    }

    /// Returns the address on which the host listens.
    pub(super) fn address(&self) -> String {
        self.address.clone()
    }

    /// Sends one chat request to a model.
    pub(super) fn ask(&mut self, model: &str, text: &str, stream: bool) -> Answer {
        ask(&self.address, model, text, stream)
    }

    /// Returns the processor time of all threads of the host.
    pub(super) fn processor_time(&self) -> Duration {
        let tasks =
            std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let times = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
        let nanoseconds = times.filter_map(|time| time.split(' ').next()?.parse::<u64>().ok());
        Duration::from_nanos(nanoseconds.sum())
    }

    /// Returns the peak of the host's resident memory in bytes.
    pub(super) fn resident(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Returns a value of the process's status in bytes.
    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
        value.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0) << 10
    }

    /// Returns the last part of the output of a process that has ended.
    fn whole_talk(self) -> String {
        self.listener.join().unwrap();
        String::from_utf8_lossy(&self.talk.lock().unwrap()).into_owned()
    }

    /// Kills the process. Returns the last part of its output.
    pub(super) fn end(mut self) -> String {
        let ended = self.child.try_wait().unwrap();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let talk = self.whole_talk();
        match ended {
            None => talk,
            Some(status) => format!("{talk}\nTHE HOST IS DEAD: {status}"),
        }
    }
}

fn spawn(project: &Path, address_space: u64) -> Child {
    let limited =
        format!("ulimit -v {address_space}; ulimit -c 0; exec \"$0\" --project \"$1\" serve --port 0");
    Command::new("sh")
        .args(["-c", &limited])
        .args([program().as_path(), project])
        .envs(slow_variables())
        .env("NO_COLOR", "1")
        // A panic with a backtrace would read all debug information of the program.
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Keeps the last part of the output, and sends the address on which the host listens.
fn listen(child: &mut Child, talk: Arc<Mutex<Vec<u8>>>, address: mpsc::Sender<String>) -> JoinHandle<()> {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || {
        let mut line = Vec::new();
        while stderr.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if let Some((_, at)) = String::from_utf8_lossy(&line).split_once("http://") {
                let _ = address.send(at.split_whitespace().next().unwrap_or_default().to_owned());
            }
            let mut talk = talk.lock().unwrap();
            talk.append(&mut line);
            let over = talk.len().saturating_sub(TALK);
            talk.drain(..over);
        }
    })
}

/// Sends one chat request to a model of the host at an address.
pub(super) fn ask(address: &str, model: &str, text: &str, stream: bool) -> Answer {
    let body = json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]});
    let body = body.to_string();
    let head = "POST /v1/chat/completions HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (head, body) = exchange(address, &request, TIMEOUT).unwrap_or_default();
    let status = status_in(&head).unwrap_or(0);
    // In a stream, a failure is an event.
    let failed = body.contains("data: {\"error\"");
    let text = match serde_json::from_str::<Value>(&body) {
        Ok(body) => match body["choices"][0]["message"]["content"].as_str() {
            Some(text) => text.to_owned(),
            None => body.to_string(),
        },
        Err(_) => body,
    };
    Answer { status: if failed { 500 } else { status }, text }
}
