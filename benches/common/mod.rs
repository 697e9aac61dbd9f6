//! Shared parts of benches: a temporary project, a host in a separate process, chats, and measurements.

#![allow(dead_code)] // each bench uses its part

pub(crate) mod bare;
pub(crate) mod load;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The settings with the offline model.
pub(crate) const DEMO: &str = "[[providers]]\nname = \"demo\"\nkind = \"demo\"\n\
    [[models]]\nname = \"demo\"\nprovider = \"demo\"\n";

/// Creates a runtime with two threads whose stacks suffice for scripts.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .thread_stack_size(64 * 1024 * 1024)
        .build()
        .unwrap()
}

/// A temporary project folder.
pub(crate) struct Project(tempfile::TempDir);

impl Project {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Adds a file.
    #[must_use]
    pub(crate) fn with(self, path: &str, text: &str) -> Self {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

/// Returns the program of the host: that of `VALVEHOUSE`, otherwise the one built with this bench.
pub(crate) fn binary() -> std::path::PathBuf {
    std::env::var_os("VALVEHOUSE").map_or(env!("CARGO_BIN_EXE_valvehouse").into(), Into::into)
}

/// A server process that is killed on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    /// The project, which is deleted with the process.
    project: Option<Project>,
}

impl Server {
    /// Starts a host on a project.
    pub(crate) fn host(project: Project) -> Self {
        let mut server = Self::host_in(project.path());
        server.project = Some(project);
        server
    }

    /// Starts a host on a project that remains afterwards.
    pub(crate) fn host_in(project: &std::path::Path) -> Self {
        Self::start(Command::new(binary()).args(["serve", "--port", "0", "--project"]).arg(project))
    }

    /// Starts a program that listens at a known address.
    pub(crate) fn at(command: &mut Command, address: &str) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < end, "nothing listens on {address}");
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { child, url: format!("http://{address}"), project: None }
    }

    /// Starts a program that prints its address `http://…` to stderr.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            let address = rest.split(|c: char| c == '/' || c.is_whitespace()).next()?;
            Some(format!("http://{address}"))
        });
        // Keeps reading, because a full pipe would block the program.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url: url.expect("a server says where it listens"), project: None }
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the processor time of all threads, including ended ones, in hundredths of a second.
    pub(crate) fn processor_time(&self) -> Duration {
        processor_time(&self.child.id().to_string())
    }

    /// Returns the peak resident memory, in bytes.
    pub(crate) fn most_resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap_or(0) * 1024
    }

    /// Returns the resident memory, in bytes.
    pub(crate) fn resident(&self) -> usize {
        resident(&self.child.id().to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the resident memory of a process (`self` or its id), in bytes.
pub(crate) fn resident(process: &str) -> usize {
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096
}

/// Returns the processor time of all threads of a process (`self` or its id), in hundredths of a second.
pub(crate) fn processor_time(process: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The twelfth and thirteenth field after the name, which may contain spaces.
    let (_, numbers) = stat.rsplit_once(')').unwrap_or_default();
    let ticks = numbers.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(10 * ticks.sum::<u64>())
}

/// Sends a chat of one message, and returns the status and the body.
pub(crate) async fn chat(client: &reqwest::Client, url: &str, model: &str, text: &str) -> (u16, String) {
    let body = format!(r#"{{"model": "{model}", "messages": [{{"role": "user", "content": "{text}"}}]}}"#);
    let answer = client.post(format!("{url}/v1/chat/completions")).body(body).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// Returns the quantile of the samples.
pub(crate) fn quantile<T: Ord + Copy + Default>(samples: &mut [T], part: f64) -> T {
    samples.sort();
    let place = (samples.len() as f64 * part) as usize;
    samples.get(place).or(samples.last()).copied().unwrap_or_default()
}

/// Pins this thread and the threads that it starts to one core, if supported.
pub(crate) fn use_core(core: usize) {
    #[cfg(target_os = "linux")]
    {
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(core);
        // A machine with one core is not pinned.
        let _ = rustix::thread::sched_setaffinity(None, &cores);
    }
}

/// Starts this program in another role.
pub(crate) fn plays(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("PLAYS", part);
    command
}

/// Runs the role named by the arguments (service or bare proxy), or the measurements.
pub(crate) fn play(service: impl Future<Output = ()>, measure: impl Future<Output = ()>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    match std::env::var("PLAYS").as_deref() {
        Ok("service") => return on_one_thread(service),
        Ok("proxy") => return on_all_threads(bare::proxy(std::env::var("SERVICE").unwrap())),
        _ => {}
    }
    // `cargo test` builds benches and runs them too: they measure nothing then.
    if std::env::args().any(|word| word == "--bench") {
        on_one_thread(measure);
    }
}

fn on_one_thread(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

fn on_all_threads(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work);
}

pub(crate) fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}
