//! The parts that benches share: a project in a folder of its own, a host in a process of its own, chats, and
//! the reading of measurements.

#![allow(dead_code)] // each bench uses its part

pub(crate) mod bare;
pub(crate) mod load;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The offline model, to build on.
pub(crate) const DEMO: &str = "[[providers]]\nname = \"demo\"\nkind = \"demo\"\n\
    [[models]]\nname = \"demo\"\nprovider = \"demo\"\n";

/// Two threads, deep enough for scripts.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .thread_stack_size(64 * 1024 * 1024)
        .build()
        .unwrap()
}

/// A folder that goes when its bench ends.
pub(crate) struct Project(tempfile::TempDir);

impl Project {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The same with a file.
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

/// The host's program: the one that `VALVEHOUSE` names, or else the one that was built with this.
pub(crate) fn binary() -> std::path::PathBuf {
    std::env::var_os("VALVEHOUSE").map_or(env!("CARGO_BIN_EXE_valvehouse").into(), Into::into)
}

/// A process that serves, and ends when this does.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    /// The project it runs on, which lasts as long as it.
    project: Option<Project>,
}

impl Server {
    /// The host on a project.
    pub(crate) fn host(project: Project) -> Self {
        let mut server = Self::host_in(project.path());
        server.project = Some(project);
        server
    }

    /// The host on a project that outlasts it.
    pub(crate) fn host_in(project: &std::path::Path) -> Self {
        Self::start(Command::new(binary()).args(["serve", "--port", "0", "--project"]).arg(project))
    }

    /// Starts a program that listens at an address without saying so.
    pub(crate) fn at(command: &mut Command, address: &str) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < end, "nothing listens on {address}");
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { child, url: format!("http://{address}"), project: None }
    }

    /// Starts a program that says on stderr at which `http://…` it listens.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            let address = rest.split(|c: char| c == '/' || c.is_whitespace()).next()?;
            Some(format!("http://{address}"))
        });
        // Read on, or it would block at a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url: url.expect("a server says where it listens"), project: None }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the processor time of all its threads, those that are gone included; in hundredths of a
    /// second.
    pub(crate) fn processor_time(&self) -> Duration {
        processor_time(&self.child.id().to_string())
    }

    /// The most that memory backed of it at any time.
    pub(crate) fn most_resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap_or(0) * 1024
    }

    /// Its bytes that memory backs.
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

/// Bytes of a process (`self`, or its number) that memory backs.
pub(crate) fn resident(process: &str) -> usize {
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096
}

/// Returns the processor time of all threads of a process (`self`, or its number), in hundredths of a second.
pub(crate) fn processor_time(process: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // After the name, which may have spaces in it, the twelfth and thirteenth.
    let (_, numbers) = stat.rsplit_once(')').unwrap_or_default();
    let ticks = numbers.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(10 * ticks.sum::<u64>())
}

/// One chat of one message: its status and the answer as it came.
pub(crate) async fn chat(client: &reqwest::Client, url: &str, model: &str, text: &str) -> (u16, String) {
    let body = format!(r#"{{"model": "{model}", "messages": [{{"role": "user", "content": "{text}"}}]}}"#);
    let answer = client.post(format!("{url}/v1/chat/completions")).body(body).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// Returns the value that so large a part of the samples stays below.
pub(crate) fn quantile<T: Ord + Copy + Default>(samples: &mut [T], part: f64) -> T {
    samples.sort();
    let place = (samples.len() as f64 * part) as usize;
    samples.get(place).or(samples.last()).copied().unwrap_or_default()
}

/// From here on this thread, and what it starts, runs on one core, where that can be chosen.
pub(crate) fn use_core(core: usize) {
    #[cfg(target_os = "linux")]
    {
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(core);
        // A machine with one core has no choice.
        let _ = rustix::thread::sched_setaffinity(None, &cores);
    }
}

/// This program in another part.
pub(crate) fn plays(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("PLAYS", part);
    command
}

/// A bench that is also its own service and its own bare proxy: plays the part in its arguments, or measures.
pub(crate) fn play(service: impl Future<Output = ()>, measure: impl Future<Output = ()>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    match std::env::var("PLAYS").as_deref() {
        Ok("service") => return on_one_thread(service),
        Ok("proxy") => return on_all_threads(bare::proxy(std::env::var("SERVICE").unwrap())),
        _ => {}
    }
    // `cargo test` builds benches and runs them too: there is nothing to measure there.
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
