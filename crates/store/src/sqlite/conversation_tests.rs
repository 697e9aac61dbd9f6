//! Conversations in a file: the owners of runs, interrupted writes, and the cost of operations.

use super::tests::raw;
use crate::store::Store;
use crate::{
    First, Kv, NewRun, RUN_SILENCE, Run, RunStart, RunStatus, RunStep, StoreErrorKind, UserRecords, now,
};
use sqlx::SqlitePool;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use tempfile::TempDir;
use valvehouse_json::Json;

static NULL: Json = Json::Null;

async fn store() -> (TempDir, Store) {
    let folder = TempDir::new().unwrap();
    let store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    (folder, store)
}

fn user_message(text: &str) -> Json {
    Json::from([("role", "user".into()), ("content", text.into())])
}

fn beginning<'a>(run: &'a str, expected: u64, messages: &'a [Json]) -> NewRun<'a> {
    let pid = std::process::id();
    NewRun { run, conversation: "a", agent: "agent", owner: "me", pid, expected, messages, first: None }
}

fn step<'a>(run: &'a str, expected: u64, messages: &'a [Json]) -> RunStep<'a> {
    RunStep {
        run,
        owner: "me",
        expected,
        messages,
        checkpoint: Some(("model", &NULL)),
        status: RunStatus::Running,
        pending: &NULL,
        error: "",
        kept: None,
    }
}

async fn begin(store: &Store, run: &str, expected: u64, messages: &[Json]) {
    let begun = store.begin_run(&beginning(run, expected, messages)).await.unwrap();
    assert!(matches!(begun, RunStart::Begun(_)), "{begun:?}");
}

async fn change(store: &Store, sql: &'static str) {
    sqlx::query(sql).execute(raw(&store.swift)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn forgetting_a_user_leaves_no_byte_in_the_files() {
    const SECRET: &str = "the-sister-is-called-Lea";
    let (folder, store) = store().await;
    let conversation = async |id: &str, kept: &str, text: &str| {
        let (state, kept) = (Json::from(text), Json::parse(kept.as_bytes()).unwrap());
        let messages: Vec<Json> =
            (0..40).map(|turn| user_message(&format!("{turn} {}", text.repeat(40)))).collect();
        let new = NewRun {
            conversation: id,
            first: Some(First { name: "begin", state: &state, kept: &kept }),
            ..beginning(id, 0, &messages)
        };
        assert!(matches!(store.begin_run(&new).await.unwrap(), RunStart::Begun(_)));
    };
    conversation("verified", r#"{"user": "ann", "verified_user": "ann"}"#, SECRET).await;
    conversation("claimed", r#"{"user": "\u0061nn"}"#, SECRET).await;
    conversation("claimed~1", r#"{"user": "ann"}"#, SECRET).await;
    conversation("bobs", r#"{"user": "bob"}"#, "hello").await;
    conversation("proven", r#"{"user": "ann", "verified_user": "bob"}"#, "hello").await;
    conversation("nobodys", "{}", "hello").await;
    let kv = Kv::load(Vec::new());
    kv.map("notes", "chat/claimed").set("note", &SECRET.into(), None).unwrap();
    kv.map("notes", "chat/bobs").set("note", &"hello".into(), None).unwrap();
    store.kv_write(&kv.take_changes()).await.unwrap();
    // Deleted long before: its pages are free.
    conversation("gone", r#"{"user": "ann"}"#, SECRET).await;
    store.forget_conversation("gone").await.unwrap();
    let bytes = || {
        let files = std::fs::read_dir(folder.path()).unwrap();
        files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect::<Vec<u8>>()
    };
    let is_in = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(is_in(&bytes(), SECRET));

    let counted = store.user_records("ann").await.unwrap();
    assert_eq!((counted.conversations, counted.entries), (3, 1));
    assert_eq!(store.forget_user(&kv, "ann").await.unwrap(), counted);
    assert!(!is_in(&bytes(), SECRET), "deleted rows can be read");
    assert!(is_in(&bytes(), "hello"));
    assert_eq!(store.user_records("ann").await.unwrap(), UserRecords::default());
    for kept in ["bobs", "proven", "nobodys"] {
        assert!(store.conversation(kept).await.unwrap().is_some(), "{kept}");
    }
    // Nothing is left to erase, and the store goes on.
    store.forget_user(&kv, "ann").await.unwrap();
    begin(&store, "r", 0, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_another_process_reads_is_an_error_that_says_what_is_left() {
    let (_folder, store) = store().await;
    begin(&store, "r", 0, &[]).await;
    let mut reader = raw(&store.swift).acquire().await.unwrap();
    for text in ["BEGIN", "SELECT count(*) FROM conversations"] {
        sqlx::query(text).execute(&mut *reader).await.unwrap();
    }
    let error = store.forget_user(&Kv::load(Vec::new()), "ann").await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Busy);
    assert!(error.cause.contains("the records are deleted") && error.help.is_some(), "{error}");
    sqlx::query("ROLLBACK").execute(&mut *reader).await.unwrap();
    store.forget_user(&Kv::load(Vec::new()), "ann").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_runs_of_a_silent_owner_count_as_abandoned() {
    let (_folder, store) = store().await;
    begin(&store, "r", 0, &[]).await;
    // A process that always exists and is not this one.
    change(&store, "UPDATE runs SET pid = 1").await;
    let alive = async || store.run("r").await.unwrap().unwrap().is_alive();
    assert!(alive().await);
    change(&store, "UPDATE runs SET seen_at = seen_at - 29000").await;
    assert!(alive().await);
    change(&store, "UPDATE runs SET seen_at = seen_at - 1000").await;
    assert!(!alive().await);
    store.touch_run("r", "other").await.unwrap();
    store.touch_run("another", "me").await.unwrap();
    assert!(!alive().await);
    store.touch_run("r", "me").await.unwrap();
    assert!(alive().await);
    change(&store, "UPDATE runs SET seen_at = seen_at + 3600000").await;
    assert!(!alive().await, "a clock that was set back keeps nobody alive");
    assert!(store.claim_run("r", 0, "other", std::process::id()).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_the_process_id_of_a_dead_one_takes_over_its_runs() {
    let (_folder, store) = store().await;
    begin(&store, "r", 0, &[]).await;
    assert!(store.run("r").await.unwrap().unwrap().is_alive());
    let before = crate::conversation::opened() - 1;
    sqlx::query("UPDATE runs SET seen_at = ?").bind(before).execute(raw(&store.swift)).await.unwrap();
    assert!(!store.run("r").await.unwrap().unwrap().is_alive());
    assert!(store.claim_run("r", 0, "other", std::process::id()).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_cover_only_active_runs() {
    let (_folder, store) = store().await;
    begin(&store, "r", 0, &[]).await;
    assert!(store.keep_step(&RunStep { status: RunStatus::Paused, ..step("r", 0, &[]) }).await.unwrap());
    change(&store, "UPDATE runs SET seen_at = 1").await;
    store.touch_run("r", "me").await.unwrap();
    assert_eq!(store.run("r").await.unwrap().unwrap().seen_at, 1);
}

#[test]
fn a_process_with_an_unknown_id_is_alive_while_it_sends_heartbeats() {
    let run = |pid, seen_at| Run {
        id: String::new(),
        conversation: String::new(),
        status: RunStatus::Running,
        step: 0,
        owner: String::new(),
        pid,
        pending: Json::Null,
        error: String::new(),
        seen_at,
        created_at: 0,
        updated_at: 0,
    };
    for pid in [0, u32::MAX, std::process::id()] {
        assert!(run(pid, now()).is_alive());
        assert!(!run(pid, now() - RUN_SILENCE.as_millis() as i64 - 1).is_alive());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_survive_a_restart() {
    let (folder, store) = store().await;
    begin(&store, "r", 0, &[user_message("hi")]).await;
    assert!(store.keep_step(&step("r", 0, &[user_message("there")])).await.unwrap());
    let before = store.export("a").await.unwrap().unwrap().to_string();
    crate::Store::close(&store).await;
    let store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    assert_eq!(store.export("a").await.unwrap().unwrap().to_string(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_two_processes_resumes_a_paused_run() {
    let (folder, one) = store().await;
    let two = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    begin(&one, "r", 0, &[]).await;
    for place in (0..20).map(|round| round * 3) {
        let paused = RunStep { status: RunStatus::Paused, ..step("r", place, &[]) };
        let owner = one.run("r").await.unwrap().unwrap().owner;
        assert!(one.keep_step(&RunStep { owner: &owner, ..paused }).await.unwrap());
        let pid = std::process::id();
        let (first, second) =
            tokio::join!(one.claim_run("r", place + 1, "me", pid), two.claim_run("r", place + 1, "you", pid));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(first.is_some() != second.is_some(), "{first:?} {second:?}");
        let messages = [user_message("x")];
        let mine = step("r", place + 2, &messages);
        let yours = RunStep { owner: "you", ..mine.clone() };
        let (mine, yours) = tokio::join!(one.keep_step(&mine), two.keep_step(&yours));
        assert_eq!((mine.unwrap(), yours.unwrap()), (first.is_some(), second.is_some()));
    }
    assert_eq!(two.conversation("a").await.unwrap().unwrap().length, 20);
}

/// Polls a future a number of times and then drops it.
async fn broken_off<T>(work: impl Future<Output = T>, polls: u64) -> Option<T> {
    let (mut work, mut left) = (pin!(work), polls);
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        work.as_mut().poll(context).map(Some)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_write_leaves_nothing() {
    let (_folder, store) = store().await;
    let messages = [user_message("1"), user_message("2"), user_message("3")];
    let (mut kept, mut broken) = (0, 0);
    begin(&store, "r", 0, &[]).await;
    // The progress of a number of polls varies.
    for polls in (1..30).cycle().take(150) {
        let done = broken_off(store.keep_step(&step("r", kept, &messages)), polls).await;
        let run = store.run("r").await.unwrap().unwrap();
        if done.is_none() && run.step == kept {
            broken += 1;
        } else {
            // The step may have been stored just before the future was dropped.
            kept += 1;
        }
        let all = store.messages("a", 0, u64::MAX).await.unwrap().len() as u64;
        let checkpoints = store.checkpoints("a", 1000).await.unwrap().len() as u64;
        let found = (run.step, all, checkpoints, store.conversation("a").await.unwrap().unwrap().length);
        assert_eq!(found, (kept, kept * 3, kept, kept * 3), "after {polls} polls");
    }
    assert!(broken > 5 && kept > 0, "{broken} broken off, {kept} kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_message_is_reported_with_its_position() {
    let (_folder, store) = store().await;
    begin(&store, "r", 0, &[user_message("1"), user_message("2")]).await;
    change(&store, "UPDATE messages SET content = '{' WHERE place = 1").await;
    assert_eq!(store.messages("a", 0, 1).await.unwrap(), [user_message("1")], "the others can be read");
    for error in [store.messages("a", 0, 9).await.unwrap_err(), store.export("a").await.unwrap_err()] {
        let error = error.to_string();
        assert!(error.contains("message 1 of the conversation \"a\" is no longer valid JSON"), "{error}");
        assert!(error.contains("restore the store from a backup, or forget the conversation"), "{error}");
    }
    assert!(store.forget_conversation("a").await.unwrap());
}

/// Counts the virtual machine steps of SQLite on every connection of a pool from now on.
async fn count_work(pool: &SqlitePool, connections: usize) -> Arc<AtomicU64> {
    let work = Arc::new(AtomicU64::new(0));
    let all = (0..connections).map(|_| pool.acquire());
    for mut connection in futures::future::try_join_all(all).await.unwrap() {
        let work = work.clone();
        let mut handle = connection.lock_handle().await.unwrap();
        handle.set_progress_handler(1, move || {
            work.fetch_add(1, Relaxed);
            true
        });
    }
    work
}

#[tokio::test(flavor = "multi_thread")]
async fn appending_and_reading_take_the_same_work_at_any_length() {
    let (_folder, store) = store().await;
    let (writing, reading) =
        (count_work(raw(&store.durable), 1).await, count_work(raw(&store.swift), 2).await);
    let messages = vec![user_message("words"); 10_000];
    let mut costs = Vec::new();
    for grow in [&messages[..50], &messages, &messages] {
        let length = store.conversation("a").await.unwrap().map_or(0, |found| found.length);
        let (long, short) = (format!("long {length}"), format!("short {length}"));
        begin(&store, &long, length, grow).await;
        assert!(store.keep_step(&RunStep { status: RunStatus::Done, ..step(&long, 0, &[]) }).await.unwrap());
        let length = length + grow.len() as u64;
        writing.store(0, Relaxed);
        reading.store(0, Relaxed);
        begin(&store, &short, length, &messages[..2]).await;
        assert!(store.keep_step(&step(&short, 0, &messages[..2])).await.unwrap());
        store.touch_run(&short, "me").await.unwrap();
        let last = RunStep { status: RunStatus::Done, ..step(&short, 1, &messages[..2]) };
        assert!(store.keep_step(&last).await.unwrap());
        assert_eq!(store.messages("a", length / 2, length / 2 + 20).await.unwrap().len(), 20);
        assert_eq!(store.messages("a", length - 14, u64::MAX).await.unwrap().len(), 20);
        store.conversation("a").await.unwrap();
        store.latest_checkpoint(&short).await.unwrap();
        costs.push((writing.load(Relaxed), reading.load(Relaxed)));
    }
    assert_eq!(store.conversation("a").await.unwrap().unwrap().length, 20_068);
    assert!(costs[0].0 > 50 && costs[0].1 > 100, "it is counted: {costs:?}");
    let (writing, reading) = costs[0];
    // On first use, a connection also reads the schema.
    assert!(costs.iter().all(|cost| cost.0 <= writing && cost.1 <= reading), "{costs:?}");
}
