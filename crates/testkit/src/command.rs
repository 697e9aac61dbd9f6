//! The command line as a user meets it: the real binary in folders of its own.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use valvehouse_json::Json;

/// The time that a command of a test may take.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the path of the `valvehouse` binary: the one that Cargo names, or that beside the test program's folder.
pub fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("CARGO_BIN_EXE_valvehouse") {
        return named.into();
    }
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    folder.join(format!("valvehouse{}", std::env::consts::EXE_SUFFIX))
}

/// A project folder that goes away with the test, and the environment of what runs in it.
pub struct Project(tempfile::TempDir, Vec<(String, String)>);

impl Project {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap(), Vec::new())
    }

    pub fn with(self, file: &str, text: &str) -> Self {
        self.write(file, text);
        self
    }

    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.1.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn filter(self, id: &str, text: &str) -> Self {
        self.with(&format!("filters/{id}.rhai"), text)
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    pub fn write(&self, file: &str, text: &str) {
        save(self.0.path(), file, text);
    }

    pub fn run(&self, words: &str) -> CommandOutput {
        self.run_with(&words.split_whitespace().collect::<Vec<_>>(), "")
    }

    pub fn run_with(&self, words: &[&str], stdin: &str) -> CommandOutput {
        self.runs(valvehouse(self.0.path(), words), stdin)
    }

    /// A line as one would type it: `valvehouse` is ours, and stdout shows stderr as well.
    #[cfg(unix)]
    pub fn types(&self, line: &str) -> CommandOutput {
        let ours = program().parent().unwrap().to_owned();
        let known = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(ours).chain(std::env::split_paths(&known))).unwrap();
        let mut command = Command::new("sh");
        without_settings(&mut command);
        command.args(["-c", &format!("exec 2>&1\n{line}")]).env("PATH", path).current_dir(self.0.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.runs(command, "")
    }

    fn runs(&self, mut command: Command, stdin: &str) -> CommandOutput {
        let mut child = command.envs(self.1.iter().cloned()).stdin(Stdio::piped()).spawn().unwrap();
        // A command that does not read has closed it.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let id = child.id();
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        let Ok(output) = ended.recv_timeout(TIMEOUT / crate::slowness()) else {
            signal(id, "-KILL");
            panic!("{command:?} did not end");
        };
        let output = output.unwrap();
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            talk: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// A command to be started here.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = valvehouse(self.0.path(), words);
        command.envs(self.1.iter().cloned());
        command
    }

    pub fn serve(&self, words: &str) -> Server {
        let words: Vec<&str> = ["serve", "--port", "0"].into_iter().chain(words.split_whitespace()).collect();
        let mut command = valvehouse(self.0.path(), &words);
        command.envs(self.1.iter().cloned());
        Self::listens(command)
    }

    /// A host for those who write scripts; its output is read.
    pub fn dev(&self, words: &str) -> Server {
        let words: Vec<&str> = ["dev", "--port", "0"].into_iter().chain(words.split_whitespace()).collect();
        let mut command = valvehouse(self.0.path(), &words);
        command.envs(self.1.iter().cloned()).stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let shown = child.stdout.take().unwrap();
        Self::server_of(child, shown)
    }

    /// Starts a host by a command of a test's own.
    pub fn listens(mut serve: Command) -> Server {
        let mut child = serve.stdin(Stdio::null()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        Self::server_of(child, stderr)
    }

    fn server_of(child: Child, says: impl Read + Send + 'static) -> Server {
        let (sender, talk) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(says).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut server = Server { child, talk, lines: RefCell::default(), address: String::new() };
        let line = server.wait_for_line("http://");
        let address = line.split("http://").nth(1).unwrap();
        server.address =
            address.chars().take_while(|letter| !matches!(letter, '"' | ' ' | '\u{1b}')).collect();
        server
    }
}

fn valvehouse(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program());
    without_settings(&mut command);
    command.args(words).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Saves a file of a project as editors do: whole, by a rename. A host never reads half of it.
pub fn save(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let beside = folder.join(format!("{file}~"));
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}

/// Sends a request as it is and reads until the connection ends: the head of the answer and its body.
///
/// # Errors
///
/// Returns why the connection failed, or that it ended within the head.
pub fn exchange(address: &str, request: &str, timeout: Duration) -> io::Result<(String, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((head.to_owned(), body.to_owned()))
}

/// The status in the head of an answer.
pub fn status_in(head: &str) -> Option<u16> {
    head.split(' ').nth(1)?.parse().ok()
}

/// Nothing in the environment of the tests decides what comes of them, except `VALVEHOUSE_SLOW`.
fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("VALVEHOUSE")) {
        command.env_remove(name);
    }
    command.envs(crate::slow_variables());
}

/// Sends a signal to a process.
pub fn signal(id: u32, name: &str) {
    Command::new("kill").args([name, &id.to_string()]).status().unwrap();
}

/// The end of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: i32,
    pub out: String,
    pub talk: String,
}

impl CommandOutput {
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.talk);
        self
    }

    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.out.contains(text), "{text:?} is missing in:\n{}", self.out);
        self
    }

    #[track_caller]
    pub fn stderr_has(self, text: &str) -> Self {
        assert!(self.talk.contains(text), "{text:?} is missing in:\n{}", self.talk);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Json {
        Json::parse(self.out.as_bytes()).unwrap_or_else(|error| panic!("{error} in {:?}", self.out))
    }
}

/// A host that runs, and ends with the test.
pub struct Server {
    child: Child,
    talk: Receiver<String>,
    lines: RefCell<Vec<String>>,
    address: String,
}

impl Server {
    /// The next line with this text.
    #[track_caller]
    pub fn wait_for_line(&self, text: &str) -> String {
        let end = Instant::now() + TIMEOUT / crate::slowness();
        while let Ok(line) = self.talk.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.lines.borrow_mut().push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
        panic!("{text:?} is not in the output:\n{}", self.lines.borrow().join("\n"));
    }

    /// A past or future line of its output, counted from 0.
    #[cfg(unix)]
    pub fn line(&self, number: usize) -> String {
        while self.lines.borrow().len() <= number {
            self.wait_for_line("");
        }
        self.lines.borrow()[number].clone()
    }

    /// Ends it, and returns its stderr.
    #[cfg(unix)]
    pub fn last_words(mut self) -> String {
        signal(self.child.id(), "-TERM");
        signal(self.child.id(), "-TERM");
        self.ends();
        let mut lines = self.lines.take();
        lines.extend(self.talk.iter());
        lines.join("\n")
    }

    /// Returns the URL it listens at.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the address it listens at.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a message, and returns the status and body of the response.
    pub fn send(&self, text: &str) -> (u16, String) {
        let body = format!(r#"{{"model":"demo","messages":[{{"role":"user","content":"{text}"}}]}}"#);
        self.post("/v1/chat/completions", &body)
    }

    /// Sends a POST request, and returns the status and body of the response.
    pub fn post(&self, path: &str, body: &str) -> (u16, String) {
        self.ask(&format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// Sends a chat of this number of messages, and returns the status and body of the response.
    pub fn chat(&self, turns: usize) -> (u16, String) {
        let messages = vec![r#"{"role":"user","content":"hello"}"#; turns].join(",");
        let body = format!(r#"{{"model":"demo","messages":[{messages}]}}"#);
        self.post("/v1/chat/completions", &body)
    }

    /// Sends a GET request that succeeds, and returns the body of the response.
    pub fn get(&self, path: &str) -> String {
        let (status, body) =
            self.ask(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"));
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Sends raw bytes, and returns the status and body of the response.
    pub fn ask(&self, request: &str) -> (u16, String) {
        let (head, body) = exchange(&self.address, request, TIMEOUT / crate::slowness()).unwrap();
        (status_in(&head).unwrap(), body)
    }

    /// Returns the id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its exit status; `None` while it runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// The exit code, once it ends.
    pub fn ends(&mut self) -> Option<i32> {
        let end = Instant::now() + TIMEOUT / crate::slowness();
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server did not end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
