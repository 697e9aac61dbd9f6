//! The store in a database of a real server.

use crate::sql::Lock;
use crate::sql_store::SqlStore;
use crate::{Beginning, Begun, Conversations as _, KvChange, KvRow, Store, Trouble};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use valvehouse_config::{Secret, SecretSource};
use valvehouse_json::Json;
use valvehouse_testkit::postgres::Postgres;

fn key() -> SecretSource {
    SecretSource::Literal(Secret::new("a key that all hosts of these tests have"))
}

async fn open(url: &str) -> SqlStore {
    SqlStore::postgres(url, Some(&key())).await.unwrap_or_else(|error| panic!("{error}"))
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_write_at_once_lose_nothing() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let hosts = futures::future::join_all((0..3).map(|_| open(&url))).await;
    let merge = async |store: &SqlStore, name: &str| {
        for number in 0..100i64 {
            let values = Json::object();
            values.set(&format!("{name}{number}"), number).unwrap();
            store.merge_valves("a", None, &values, "test").await.unwrap();
        }
    };
    tokio::join!(merge(&hosts[0], "x"), merge(&hosts[1], "y"), merge(&hosts[2], "z"));
    assert_eq!(hosts[0].valves("a", None).await.unwrap().as_object().unwrap().len(), 300);
    assert_eq!(hosts[1].generation().await.unwrap(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_written_by_several_hosts_in_any_order_are_all_there() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let (one, other) = (open(&url).await, open(&url).await);
    let write = async |store: &SqlStore, mut keys: Vec<i64>| {
        for round in 0..30i64 {
            keys.rotate_left(7);
            let set = |key: &i64| {
                KvChange::Set(KvRow {
                    plugin: "a".into(),
                    scope: "shared".into(),
                    key: key.to_string(),
                    value: round.into(),
                    expires_at: None,
                })
            };
            store.kv_write(&keys.iter().map(set).collect::<Vec<_>>()).await.unwrap();
        }
    };
    // In opposite orders, so that each holds a row that the other wants.
    tokio::join!(write(&one, (0..50).collect()), write(&other, (0..50).rev().collect()));
    assert_eq!(one.kv_all().await.unwrap().len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_hosts_one_begins_a_run_and_one_goes_on_with_it() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let hosts = futures::future::join_all((0..4).map(|_| open(&url))).await;
    let beginning = |run, owner| Beginning {
        run,
        conversation: "c",
        agent: "agent",
        owner,
        pid: std::process::id(),
        expected: 0,
        messages: &[],
        first: None,
    };
    let names = [("r0", "h0"), ("r1", "h1"), ("r2", "h2"), ("r3", "h3")];
    let begun =
        futures::future::join_all(hosts.iter().zip(names).map(|(host, (run, owner))| async move {
            host.begin_run(&beginning(run, owner)).await.unwrap()
        }))
        .await;
    let run = begun.iter().find_map(|begun| match begun {
        Begun::Begun(run) => Some(run.clone()),
        _ => None,
    });
    let run = run.unwrap();
    assert_eq!(begun.iter().filter(|begun| matches!(begun, Begun::Begun(_))).count(), 1, "{begun:?}");
    let change = async |text| {
        let mut session = hosts[0].durable.session().await.unwrap();
        crate::sql::query(text).execute(&mut session).await.unwrap();
    };
    // Its process is of another machine, whatever has its number here: only its silence tells that it is gone.
    change("UPDATE runs SET pid = 7 * 4294967296 + 4194304").await;
    assert!(hosts[0].run(&run.id).await.unwrap().unwrap().is_alive());
    change("UPDATE runs SET seen_at = 0").await;
    let claims = hosts.iter().zip(names).map(|(host, (_, owner))| host.claim_run(&run.id, 0, owner, 1));
    let claims = futures::future::join_all(claims).await;
    assert_eq!(claims.into_iter().filter(|claim| claim.as_ref().unwrap().is_some()).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_stops_within_a_transaction_keeps_nobody_from_its_conversation() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let (stopped, other) = (open(&url).await, open(&url).await);
    let held = stopped.durable.begin(Lock::Conversation("c")).await.unwrap();
    let beginning = Beginning {
        run: "r",
        conversation: "c",
        agent: "agent",
        owner: "other",
        pid: std::process::id(),
        expected: 0,
        messages: &[],
        first: None,
    };
    let begun = tokio::time::timeout(Duration::from_secs(60), other.begin_run(&beginning)).await;
    assert!(matches!(begun.expect("the lock is let go"), Ok(Begun::Begun(_))));
    assert!(held.commit().await.is_err(), "what it wakes up to write is refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_wakes_every_host_at_once() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let (one, other) = (open(&url).await, open(&url).await);
    // The word of its own beginning.
    other.changed().await;
    for number in 1..=20u64 {
        let generation = one.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
        assert_eq!(generation, number);
        tokio::time::timeout(Duration::from_secs(20), other.changed()).await.expect("it is told");
        assert_eq!(other.generation().await.unwrap(), number);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_and_comes_back_is_told_and_used_again() {
    let Some(mut server) = Postgres::start() else { return };
    let store = open(&server.database()).await;
    store.changed().await;
    store.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
    store.changed().await;
    server.kill();
    let error = store.generation().await.unwrap_err();
    assert_eq!(error.trouble, Trouble::Unreachable, "{error}");
    assert_eq!(store.failing().map(|error| error.trouble), Some(Trouble::Unreachable));
    server.resume();
    // The write was acknowledged before the failure: it is there.
    let since = std::time::Instant::now();
    let generation = loop {
        match store.generation().await {
            Ok(generation) => break generation,
            Err(error) => assert!(since.elapsed() < Duration::from_secs(60), "{error}"),
        }
    };
    assert_eq!(generation, 1);
    tokio::time::timeout(Duration::from_secs(60), store.changed()).await.expect("it listens again");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_the_database_and_not_its_password() {
    let error =
        SqlStore::postgres("postgres://me:hunter2@127.0.0.1:1/nowhere", None).await.map(drop).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("postgres://127.0.0.1:1/nowhere") && !text.contains("hunter2"), "{text}");
    assert_eq!(error.trouble, Trouble::Unreachable, "{text}");
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let error = SqlStore::postgres(&url, None).await.map(drop).unwrap_err().to_string();
    assert!(error.contains("set it on each host"), "{error}");
    open(&url).await;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let file = std::env::temp_dir().join(format!("valvehouse-other-key-{}", COUNT.fetch_add(1, Relaxed)));
    std::fs::write(&file, "another key that is long enough to be one").unwrap();
    let error =
        SqlStore::postgres(&url, Some(&SecretSource::File(file.clone()))).await.map(drop).unwrap_err();
    std::fs::remove_file(file).unwrap();
    assert_eq!(error.trouble, Trouble::Sealed, "{error}");
}
