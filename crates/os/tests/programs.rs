//! Real programs and the processes that they leave behind.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::{Duration, Instant};
use valvehouse_grants::Grant;
use valvehouse_os::Failure;
use valvehouse_os::{Command, Options, Output, Programs};

/// Far above the promised time, because machines are busy.
const SOON: Duration = Duration::from_secs(5);

fn granted(names: &[&str]) -> Programs {
    Programs::new(&Grant::Only(names.iter().map(|name| (*name).to_owned()).collect()), &[])
}

fn argv(parts: &[&str]) -> Command {
    Command::Argv(parts.iter().map(|part| (*part).to_owned()).collect())
}

async fn sh(text: &str) -> Output {
    shell(text, Options::default()).await.unwrap()
}

async fn shell(text: &str, options: Options) -> Result<Output, Failure> {
    granted(&["sh"]).run(Command::Shell(text.to_owned()), options).await
}

fn within(ms: u64) -> Options {
    Options { timeout: Some(Duration::from_millis(ms)), ..Options::default() }
}

/// Returns a sleep duration that no other process of this machine uses.
fn own_time() -> String {
    format!("{}.{:09}", fastrand::u32(600..900), fastrand::u32(0..1_000_000_000))
}

/// Returns the processes with this text in their command line, without zombies.
fn alive(text: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

async fn gone(text: &str) {
    let end = Instant::now() + SOON;
    while !alive(text).is_empty() {
        assert!(Instant::now() < end, "left: {:?}", alive(text));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn there(text: &str) {
    let end = Instant::now() + SOON;
    while alive(text).is_empty() {
        assert!(Instant::now() < end, "never started: {text}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_result_has_the_output_and_the_exit_status() {
    let output = sh("echo out; echo err >&2; exit 3").await;
    assert_eq!((output.code, output.signal), (Some(3), None));
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(output.into_json().to_string(), r#"{"exit_code":3,"stdout":"out\n","stderr":"err\n"}"#);
    let output = sh("kill -TERM $$").await;
    assert_eq!((output.code, output.signal), (None, Some(15)));
    let printf = granted(&["printf"]);
    let output = printf.run(argv(&["printf", "%s|", "a b", "$(id)", "; ls"]), Options::default());
    assert_eq!(output.await.unwrap().stdout, "a b|$(id)|; ls|");
    assert_eq!(sh("printf 'a\\377b'").await.stdout, "a\u{fffd}b");
}

#[tokio::test]
async fn only_granted_programs_run() {
    let some = granted(&["printf", "/usr/bin/env"]);
    let all = Programs::new(&Grant::Everything, &[]);
    let run = |programs: &Programs, what: Command| {
        let programs = programs.clone();
        async move { programs.run(what, Options::default()).await }
    };
    for name in
        ["sh", "/usr/bin/printf", "./printf", "../bin/printf", "env", "printf ", "PRINTF", "", "printf\0"]
    {
        let failure = run(&some, argv(&[name, "x"])).await.unwrap_err();
        assert!(failure.grant.is_some() || name.is_empty(), "{name}: {failure}");
    }
    let failure = run(&some, Command::Shell("printf x".into())).await.unwrap_err();
    assert_eq!(
        failure.message_for("it"),
        "the program `sh` is not granted; granted are: printf, /usr/bin/env; to allow it: valvehouse grant it shell=sh"
    );
    assert!(run(&granted(&["bin/x"]), argv(&["bin/x"])).await.unwrap_err().message.contains("absolute path"));
    assert!(
        run(&granted(&["no-such"]), argv(&["no-such"]))
            .await
            .unwrap_err()
            .message
            .contains("the program does not exist")
    );
    assert!(run(&some, Command::Argv(Vec::new())).await.is_err());
    assert_eq!(run(&some, argv(&["/usr/bin/env"])).await.unwrap().code, Some(0));
    assert_eq!(run(&all, argv(&["/bin/echo", "x"])).await.unwrap().stdout, "x\n");
    assert_eq!(run(&all, Command::Shell("echo y".into())).await.unwrap().stdout, "y\n");
    assert!(run(&all, argv(&["/no/such"])).await.unwrap_err().message.contains("the program does not exist"));
    assert!(run(&Programs::default(), argv(&["echo"])).await.is_err());
}

#[tokio::test]
async fn a_program_sees_nothing_of_the_host() {
    let output = granted(&["env"]).run(argv(&["env"]), Options::default()).await.unwrap();
    let names = output.stdout.lines().filter_map(|line| Some(line.split_once('=')?.0));
    // Some shells set these variables themselves.
    let mut names: Vec<&str> = names.filter(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name)).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LANG", "PATH", "TERM", "VALVEHOUSE_RUN"]);
    assert!(output.stdout.contains("PATH=/usr/local/bin:/usr/bin:/bin\n"));
    // The input is empty, and no file of the host is open.
    let open = tempfile::NamedTempFile::new().unwrap();
    let output = sh("cat; ls -l /proc/self/fd").await;
    assert!(output.stdout.contains("0 -> /dev/null"), "{}", output.stdout);
    assert!(!output.stdout.contains(open.path().to_str().unwrap()), "{}", output.stdout);
}

#[tokio::test]
async fn a_program_starts_in_a_granted_or_an_empty_folder() {
    let dir = tempfile::tempdir().unwrap();
    let folders: Vec<PathBuf> = ["data", "notes"].map(|name| dir.path().join(name)).to_vec();
    for folder in &folders {
        std::fs::create_dir_all(folder.join("sub")).unwrap();
    }
    let programs = Programs::new(&Grant::Everything, &folders);
    let run = |folder: Option<&str>| {
        let options = Options { folder: folder.map(str::to_owned), ..Options::default() };
        programs.run(Command::Shell("pwd; echo $HOME".into()), options)
    };
    let twice = |path: PathBuf| format!("{0}\n{0}\n", path.display());
    assert_eq!(run(None).await.unwrap().stdout, twice(folders[0].clone()));
    assert_eq!(run(Some("notes/sub")).await.unwrap().stdout, twice(folders[1].join("sub")));
    for outside in ["..", "/", "other", "data/../.."] {
        assert!(run(Some(outside)).await.is_err(), "{outside}");
    }
    let output = sh("pwd; ls -a | wc -l; echo x > left").await;
    let (path, rest) = output.stdout.split_once('\n').unwrap();
    assert_eq!(rest.trim(), "2");
    assert!(!std::path::Path::new(path).exists(), "{path} is left");
    let failure =
        shell("true", Options { folder: Some(".".into()), ..Options::default() }).await.unwrap_err();
    assert_eq!(failure.grant.as_deref(), Some("files=FOLDER"));
}

#[tokio::test]
async fn stdin_may_be_long_and_stay_unread() {
    let reading = |text: &str, stdin: String| {
        let options = Options { stdin: Some(stdin), ..within(20_000) };
        let text = text.to_owned();
        async move { shell(&text, options).await.unwrap() }
    };
    assert_eq!(reading("cat", "hällo".into()).await.stdout, "hällo");
    assert_eq!(reading("wc -c", "x".repeat(1 << 20)).await.stdout.trim(), "1048576");
    assert_eq!(reading("exit 4", "x".repeat(1 << 20)).await.code, Some(4));
    assert_eq!(
        reading("cat >/dev/null; head -c 300000 /dev/zero | tr '\\0' y", "x".repeat(1 << 20)).await.code,
        Some(0)
    );
}

#[tokio::test]
async fn output_over_the_limit_is_cut_and_the_program_continues() {
    let output =
        shell("head -c 50000000 /dev/zero | tr '\\0' x; echo end >&2; exit 5", within(60_000)).await.unwrap();
    assert_eq!((output.code, output.stderr.as_str()), (Some(5), "end\n"));
    assert!(output.cut && output.stdout.len() < 103_000);
    assert!(output.stdout.ends_with("\n… 49897600 more bytes were omitted"), "{}", &output.stdout[102_300..]);
    let output = shell("yes", within(300)).await.unwrap();
    assert!(output.timed_out && output.cut);
}

#[tokio::test]
async fn a_program_over_its_time_limit_is_killed() {
    let time = own_time();
    let began = Instant::now();
    let output = shell(&format!("echo begun; sleep {time}"), within(300)).await.unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(output.timed_out);
    assert_eq!((output.stdout.as_str(), output.signal), ("begun\n", Some(9)));
    assert!(alive(&time).is_empty(), "{:?}", alive(&time));
    let output = shell("trap '' TERM INT HUP; while :; do :; done", within(200)).await.unwrap();
    assert!(output.timed_out);
}

/// Commands that leave processes behind; `TIME` stands for their sleep duration.
const LEAVING: [&str; 9] = [
    "sleep TIME & sleep TIME & true",
    "setsid sleep TIME & true",
    "nohup sleep TIME >/dev/null 2>&1 & true",
    "setsid nohup sleep TIME </dev/null >/dev/null 2>&1 & true",
    "(setsid sh -c 'sleep TIME & setsid sleep TIME & wait' &) ; true",
    "setsid sh -c 'setsid sh -c \"sleep TIME & exec sleep TIME\" & exit' & true",
    "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do setsid sleep TIME & done; true",
    "setsid env -i /bin/sh -c '/bin/sleep TIME & /usr/bin/setsid /bin/sleep TIME' & sleep 0.3",
    "trap '' HUP TERM INT; setsid sh -c 'trap \"\" HUP TERM INT; sleep TIME; sleep TIME' & true",
];

#[tokio::test]
async fn no_child_process_remains_after_the_end() {
    for leaving in LEAVING {
        let time = own_time();
        let text = format!("{}; sleep 0.05; echo done", leaving.replace("TIME", &time));
        let began = Instant::now();
        let output = shell(&text, within(20_000)).await.unwrap();
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), "done\n"), "{text}: {output:?}");
        assert!(began.elapsed() < SOON, "{text}: {:?}", began.elapsed());
        assert!(alive(&time).is_empty(), "{text} left {:?}", alive(&time));
    }
}

#[tokio::test]
async fn no_child_process_remains_after_a_timeout() {
    for leaving in LEAVING {
        let time = own_time();
        let text = format!("{}; wait; sleep {time}", leaving.replace("TIME", &time));
        let output = shell(&text, within(700)).await.unwrap();
        assert!(output.timed_out, "{text}");
        assert!(alive(&time).is_empty(), "{text} left {:?}", alive(&time));
    }
}

#[tokio::test]
async fn no_child_process_remains_after_the_caller_leaves() {
    for leaving in
        ["sleep TIME & wait", "setsid sleep TIME & wait", "(setsid sh -c 'sleep TIME & wait' &); sleep TIME"]
    {
        let time = own_time();
        let text = leaving.replace("TIME", &time);
        let running = tokio::spawn(async move { shell(&text, Options::default()).await });
        there(&format!("sleep {time}")).await;
        running.abort();
        gone(&time).await;
    }
}

#[tokio::test]
async fn a_process_that_keeps_forking_is_killed() {
    let time = own_time();
    // Each process continues as a new one in a new session, and ends.
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("runner.sh");
    std::fs::write(&script, format!("sleep 0.002\nsetsid sh {} {time} &\n", script.display())).unwrap();
    let text = format!("setsid sh {} {time} & sleep 0.2; echo done", script.display());
    let output = sh(&text).await;
    assert_eq!(output.stdout, "done\n");
    assert!(alive(&time).is_empty(), "{:?}", alive(&time));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(alive(&time).is_empty(), "{:?}", alive(&time));
}

#[tokio::test]
async fn an_output_pipe_held_open_by_another_process_does_not_block() {
    let time = own_time();
    let began = Instant::now();
    let output = sh(&format!("setsid sleep {time} & echo quick")).await;
    assert_eq!(output.stdout, "quick\n");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    gone(&time).await;
}

#[tokio::test]
async fn concurrent_runs_kill_only_their_own_processes() {
    let time = own_time();
    let text = format!("sleep {time} & wait");
    let long = tokio::spawn(async move { shell(&text, within(60_000)).await.unwrap() });
    there(&format!("sleep {time}")).await;
    let runs =
        (0..8).map(|number| async move { sh(&format!("setsid sleep 300 & echo {number}")).await.stdout });
    let outputs = futures::future::join_all(runs).await;
    assert_eq!(outputs.concat(), (0..8).map(|number| format!("{number}\n")).collect::<String>());
    assert!(!alive(&format!("sleep {time}")).is_empty(), "another run was ended");
    long.abort();
    gone(&time).await;
}
