//! Several processes that work on one conversation; each is this test program, started again.

use super::model::NO_PROCESS;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use valvehouse::json::Json;
use valvehouse::store::{NewRun, RunStart, RunStatus, RunStep, Store};

/// The environment variable that gives the path of the store to a started process.
const FILE: &str = "VALVEHOUSE_TEST_CONVERSATIONS";
const ROUNDS: u64 = 40;

static NULL: Json = Json::Null;

fn user_message(text: &str) -> Json {
    Json::from([("role", "assistant".into()), ("content", text.into())])
}

fn step<'a>(owner: &'a str, expected: u64, messages: &'a [Json], status: RunStatus) -> RunStep<'a> {
    let checkpoint = Some(("model", &NULL));
    RunStep { run: "r", owner, expected, messages, checkpoint, status, pending: &NULL, error: "", kept: None }
}

async fn begin(store: &Store, run: &str, pid: u32, expected: u64) -> RunStart {
    let owner = &pid.to_string();
    let beginning = NewRun {
        run,
        conversation: "a",
        agent: "agent",
        owner,
        pid,
        expected,
        messages: &[user_message("hi")],
        first: None,
    };
    store.begin_run(&beginning).await.unwrap()
}

/// Starts one of the tests below as a process that uses this store.
fn start(test: &str, file: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("conversations::processes::{test}"), "--nocapture"])
        .env(FILE, file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

async fn given_store() -> Option<Store> {
    let file = std::env::var_os(FILE)?;
    Some(Store::sqlite(Path::new(&file)).await.unwrap())
}

#[tokio::test]
async fn a_run_of_a_killed_process_resumes_in_another() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("state.db");
    let store = Store::sqlite(&file).await.unwrap();
    let mut child = start("works_until_it_is_killed", &file);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("one step is kept")));

    let run = store.run("r").await.unwrap().unwrap();
    assert!(run.is_alive() && run.pid == child.id());
    assert!(matches!(begin(&store, "mine", std::process::id(), 2).await, RunStart::Busy(_)));
    assert_eq!(store.claim_run("r", 1, "me", std::process::id()).await.unwrap(), None);

    child.kill().unwrap();
    child.wait().unwrap();
    let run = store.claim_run("r", 1, "me", std::process::id()).await.unwrap().unwrap();
    assert_eq!(store.latest_checkpoint("r").await.unwrap().unwrap().length, 2);
    assert!(store.keep_step(&step("me", run.step, &[user_message("done")], RunStatus::Done)).await.unwrap());
    assert_eq!(
        store.messages("a", 0, 9).await.unwrap(),
        [user_message("hi"), user_message("working"), user_message("done")]
    );
}

/// Not a test by itself: the process that the test above kills.
#[tokio::test]
async fn works_until_it_is_killed() {
    let Some(store) = given_store().await else { return };
    let pid = std::process::id();
    assert!(matches!(begin(&store, "r", pid, 0).await, RunStart::Begun(_)));
    let (owner, messages) = (pid.to_string(), [user_message("working")]);
    assert!(store.keep_step(&step(&owner, 0, &messages, RunStatus::Running)).await.unwrap());
    println!("one step is kept");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn processes_that_alternate_on_a_run_do_each_step_once() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("state.db");
    let store = Store::sqlite(&file).await.unwrap();
    assert!(matches!(begin(&store, "r", NO_PROCESS, 0).await, RunStart::Begun(_)));
    let children: Vec<_> = (0..3).map(|_| start("takes_turns_with_others", &file)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let run = store.run("r").await.unwrap().unwrap();
    assert_eq!((run.status, run.step), (RunStatus::Paused, 2 * ROUNDS));
    let expected: Vec<Json> = std::iter::once(user_message("hi"))
        .chain((0..ROUNDS).map(|step| user_message(&step.to_string())))
        .collect();
    assert_eq!(store.messages("a", 0, u64::MAX).await.unwrap(), expected);
}

/// Not a test by itself: the processes of the test above.
#[tokio::test]
async fn takes_turns_with_others() {
    let Some(store) = given_store().await else { return };
    let pid = std::process::id();
    let owner = pid.to_string();
    loop {
        let run = store.run("r").await.unwrap().unwrap();
        if run.step == 2 * ROUNDS {
            return;
        }
        let Some(run) = store.claim_run("r", run.step, &owner, pid).await.unwrap() else {
            tokio::task::yield_now().await;
            continue;
        };
        // Each turn is one takeover and one step.
        let messages = [user_message(&(run.step / 2).to_string())];
        assert!(store.keep_step(&step(&owner, run.step, &messages, RunStatus::Paused)).await.unwrap());
    }
}
