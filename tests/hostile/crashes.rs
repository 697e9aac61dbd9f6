//! Abnormal ends of the host: the next start names the plugin that caused it, runs the other plugins and
//! blames no wrong one.

use super::host::{Host, ask, project};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use valvehouse_testkit::command::{program, save};

/// A guard that computes on request, for longer than any test takes.
const SPINS: &str = r#"/*
global: false
security: true
*/
fn inlet(body) {
    let n = 0;
    while body.messages[-1].content == "spin" { n += 1; }
    body
}"#;
const PATIENT: &str = "\n[filters.hostile]\nbudget = { ms = 600_000, operations = 1_000_000_000_000 }\n";
/// The maximum time that a test waits for a condition.
const TIMEOUT: Duration = Duration::from_secs(60);

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < TIMEOUT, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn valvehouse(folder: &TempDir, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    let Output { status, stdout, stderr } =
        command.arg("--project").arg(folder.path()).args(words).env("NO_COLOR", "1").output().unwrap();
    let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (status.code(), text)
}

/// Returns the thread id of the slow-script thread if it is computing.
fn spinning(host: &Host) -> Option<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", host.id())).ok()?.flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).find(|task: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{}/task/{task}/stat", host.id()));
        stat.is_ok_and(|stat| stat.contains("(slow-lane") && stat.contains(") R "))
    })
}

/// Makes the guard compute and waits until it does.
fn spin(host: &Host) -> i32 {
    let address = host.address();
    std::thread::spawn(move || ask(&address, "hostile", "spin", false));
    until("a thread that computes", || spinning(host));
    std::thread::sleep(Duration::from_millis(300));
    until("a thread that computes", || spinning(host))
}

fn kill(process: i32, signal: Signal) {
    kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
}

/// Makes a host crash on the thread that runs the guard.
fn crash(folder: &Arc<TempDir>) {
    // Between two time slices the thread runs no script; a crash at that moment is not attributed to a
    // plugin.
    for _ in 0..5 {
        let host = Host::start_in(folder);
        kill(spin(&host), Signal::ABORT);
        let log = host.ended();
        if log.contains("fatal: the plugin `hostile` ended this process") {
            return;
        }
    }
    panic!("no error came while the script ran");
}

#[test]
fn a_script_that_crashes_the_process_is_quarantined_until_released_or_saved() {
    let folder = project(PATIENT, "filters/hostile.rhai", SPINS);
    crash(&folder);

    let mut host = Host::start_in(&folder);
    let refused = host.ask("hostile", "hello", false);
    assert!(refused.is(503) && refused.text.contains("hostile"), "{refused:?}");
    assert!(host.ask("calm", "hello", false).is(200));
    let (code, output) = valvehouse(&folder, &["check"]);
    assert!(code == Some(1) && output.contains("V010") && output.contains("SIGABRT"), "{output}");
    let (_, output) = valvehouse(&folder, &["list"]);
    assert!(output.contains("quarantined") && output.contains("valvehouse release hostile"), "{output}");

    let (code, output) = valvehouse(&folder, &["release", "hostile"]);
    assert!(code == Some(0) && output.contains("1 version released"), "{output}");
    until("the released guard", || host.ask("hostile", "hello", false).is(200).then_some(()));
    assert_eq!(valvehouse(&folder, &["release", "hostile"]).0, Some(65));
    let log = host.end();
    assert!(log.contains("quarantined") && !log.contains("DEAD"), "{log}");

    // A changed source is a different version, which is not quarantined.
    crash(&folder);
    let mut host = Host::start_in(&folder);
    assert!(host.ask("hostile", "hello", false).is(503));
    save(folder.path(), "filters/hostile.rhai", &SPINS.replace("spin", "turn"));
    until("the guard that was saved", || host.ask("hostile", "hello", false).is(200).then_some(()));
    host.end();
}

#[test]
fn killing_a_host_while_scripts_run_quarantines_none() {
    let folder = project(PATIENT, "filters/hostile.rhai", SPINS);
    for _ in 0..3 {
        let mut host = Host::start_in(&folder);
        assert!(host.ask("hostile", "hello", false).is(200));
        spin(&host);
        // The host ends by SIGKILL, as in all of these tests.
        host.end();
    }
    let mut host = Host::start_in(&folder);
    assert!(host.ask("hostile", "hello", false).is(200));
    host.end();
    assert!(!folder.path().join(".valvehouse/quarantine.json").exists());
}

/// Returns `true` if the crash record of a host shows that it is loading a file.
fn is_loading(folder: &Path, process: u32) -> bool {
    let own = format!("running-{process}-");
    let files = std::fs::read_dir(folder.join(".valvehouse")).into_iter().flatten().flatten();
    let mut own = files.filter(|file| file.file_name().to_string_lossy().starts_with(&own));
    let record = own.next().and_then(|file| std::fs::read(file.path()).ok()).unwrap_or_default();
    let mut slots = record.chunks_exact(64).skip(1).take(512);
    slots.any(|slot| slot[4] == 1)
}

#[test]
fn no_script_file_prevents_a_host_from_starting() {
    let hangs = "fn pipes() { loop { } }\nfn pipe(body) { \"x\" }";
    let folder = project(PATIENT, "filters/hostile.rhai", hangs);
    let (address, _) = mpsc::channel();
    let host = Host::launch_in(&folder, address);
    until("the file that is loaded", || is_loading(folder.path(), host.id()).then_some(()));
    // Longer than any harmless file takes to load.
    std::thread::sleep(Duration::from_millis(500));
    host.end();

    let mut host = Host::start_in(&folder);
    assert!(host.ask("calm", "hello", false).is(200));
    let log = host.end();
    assert!(log.contains("V010") && log.contains("while the plugin was being loaded"), "{log}");
}

/// Returns a child process that has computed for some time.
fn computing_child_of(parent: u32) -> Option<i32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut processes = processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
    processes.find(|process| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let words: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        // The parent process, and the processor time in hundredths of a second.
        number(1) == u64::from(parent) && number(11) + number(12) > 150
    })
}

#[test]
fn check_reports_a_file_that_crashes_the_process_on_load() {
    let hangs = "fn pipes() { loop { } }\nfn pipe(body) { \"x\" }";
    let folder = project(PATIENT, "filters/hostile.rhai", hangs);
    save(folder.path(), "filters/later.rhai", "fn inlet(body) { let x = ; }");
    let mut command = Command::new(program());
    command.arg("--project").arg(folder.path()).arg("check").env("NO_COLOR", "1");
    let check = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let loader = until("the process that loads the file", || computing_child_of(check.id()));
    kill(loader, Signal::ABORT);
    let Output { status, stdout, stderr } = check.wait_with_output().unwrap();
    let output = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert_eq!(status.code(), Some(1), "{output}");
    let of_hostile = output.lines().find(|line| line.contains("filters/hostile.rhai")).unwrap_or_default();
    assert!(of_hostile.contains("V010") && output.contains("signal: 6"), "{output}");
    // The other files are still checked.
    assert!(output.contains("filters/later.rhai:1") && output.contains("checked 3 files"), "{output}");
}

/// Requests the creation of a filter. Returns the response as far as it was received.
fn create(address: &str, id: &str, content: &str) -> String {
    let body = serde_json::json!({"id": id, "content": content, "type": "filter"}).to_string();
    let mut answer = String::new();
    let connection = TcpStream::connect(address).and_then(|mut stream| {
        let head =
            "POST /api/v1/functions/create HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json";
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.read_to_string(&mut answer)
    });
    drop(connection);
    answer
}

#[test]
fn a_function_that_hangs_while_it_is_created_is_quarantined_after_the_host_ends() {
    let hangs = "fn pipes() { loop { } }\nfn pipe(body) { \"x\" }";
    let folder = project(PATIENT, "filters/other.rhai", "fn inlet(body) { body }");
    let host = Host::start_in(&folder);
    let address = host.address();
    let created = std::thread::spawn(move || create(&address, "hostile", hangs));
    until("the text that is loaded", || is_loading(folder.path(), host.id()).then_some(()));
    std::thread::sleep(Duration::from_millis(500));
    host.end();
    created.join().unwrap();
    assert!(!folder.path().join("filters/hostile.rhai").exists());

    let mut host = Host::start_in(&folder);
    assert!(host.ask("calm", "hello", false).is(200));
    let refused = create(&host.address(), "hostile", hangs);
    assert!(refused.starts_with("HTTP/1.0 422") && refused.contains("V010"), "{refused}");
    let other = create(&host.address(), "hostile", "fn inlet(body) { body }");
    assert!(other.starts_with("HTTP/1.0 200"), "{other}");
    host.end();
}

/// Creates a plugin that takes long to compile, then one that compiles quickly. Returns `true` if the second
/// one is created while the first one is still being compiled.
fn is_created_before_the_slow_one() -> bool {
    let folder = project(PATIENT, "filters/other.rhai", "fn inlet(body) { body }");
    let mut host = Host::start_in(&folder);
    let address = host.address();
    let slow = "fn pipes() { loop { } }\nfn pipe(body) { \"x\" }";
    let created = std::thread::spawn(move || create(&address, "hostile", slow));
    until("the text that is loaded", || is_loading(folder.path(), host.id()).then_some(()));

    let fresh = create(&host.address(), "fresh", "fn inlet(body) { skip(\"fresh\") }");
    assert!(fresh.starts_with("HTTP/1.0 200"), "{fresh}");
    let is_before = is_loading(folder.path(), host.id());
    assert!(host.ask("calm", "hello", false).text.contains("fresh"));
    host.end();
    created.join().unwrap();
    is_before
}

#[test]
fn a_slow_compilation_does_not_delay_other_functions() {
    // The host stops compiling the slow plugin after half a minute, which may pass on a busy machine.
    assert!((0..4).any(|_| is_created_before_the_slow_one()));
}

/// Saves a file that takes long to load, then one that loads quickly. Returns `true` if the second one is
/// live while the first one is still being loaded.
fn is_live_before_the_slow_one() -> bool {
    let folder = project(PATIENT, "filters/other.rhai", "fn inlet(body) { body }");
    let mut host = Host::start_in(&folder);
    save(folder.path(), "filters/hostile.rhai", "fn pipes() { loop { } }\nfn pipe(body) { \"x\" }");
    until("the file that is loaded", || is_loading(folder.path(), host.id()).then_some(()));

    let calm = "/*\nglobal: false\n*/\nfn outlet(body) { body.messages[-1].text = \"saved anew\"; body }";
    save(folder.path(), "filters/calm.rhai", calm);
    until("the other's save", || host.ask("calm", "hello", false).text.contains("saved anew").then_some(()));
    let created = create(&host.address(), "fresh", "fn inlet(body) { body }");
    assert!(created.starts_with("HTTP/1.0 200"), "{created}");
    let is_before = is_loading(folder.path(), host.id());

    // A new version replaces the slow one, and the load of the slow one is abandoned.
    save(folder.path(), "filters/hostile.rhai", "fn inlet(body) { skip(\"at last\") }");
    until("the text that loads", || host.ask("calm", "hello", false).text.contains("at last").then_some(()));
    host.end();
    is_before
}

#[test]
fn a_slow_load_does_not_delay_saves_of_other_files() {
    // The host stops loading the slow file after half a minute, which may pass on a busy machine.
    assert!((0..4).any(|_| is_live_before_the_slow_one()));
}
