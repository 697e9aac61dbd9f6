//! The store in a database of a real server.

use crate::sql::Lock;
use crate::store::Store;
use crate::{Kv, KvChange, KvRow, NewRun, RunStart, StoreErrorKind};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use valvehouse_grants::{SchemaMigration, Secret, SecretSource, StoreAddress, StoreSettings};
use valvehouse_json::Json;
use valvehouse_testkit::postgres::{PgBouncer, Postgres, Proxy};

fn key() -> SecretSource {
    SecretSource::Literal(Secret::new("a key that all hosts of these tests have"))
}

async fn open(url: &str) -> Store {
    Store::postgres(url, Some(&key())).await.unwrap_or_else(|error| panic!("{error}"))
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_hosts_lose_no_writes() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let hosts = futures::future::join_all((0..3).map(|_| open(&url))).await;
    let merge = async |store: &Store, name: &str| {
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
async fn entries_of_several_hosts_are_all_stored() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let (one, other) = (open(&url).await, open(&url).await);
    let write = async |store: &Store, mut keys: Vec<i64>| {
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
    // In opposite orders, so that each holds a row that the other needs.
    tokio::join!(write(&one, (0..50).collect()), write(&other, (0..50).rev().collect()));
    assert_eq!(one.kv_all().await.unwrap().len(), 50);
}

/// Returns the maps of a host.
fn maps(store: &Arc<Store>) -> Kv {
    let (writes, reads, swaps) = (store.clone(), store.clone(), store.clone());
    let kv = Kv::default().written_by(move |changes| {
        let store = writes.clone();
        Box::pin(async move { store.kv_write(&changes).await })
    });
    let kv = kv.shared(0, move |since| {
        let store = reads.clone();
        Box::pin(async move { store.kv_news(since).await })
    });
    kv.swapped_by(move |before, change| {
        let store = swaps.clone();
        Box::pin(async move { store.kv_swap(&before, &change).await })
    })
}

/// Starts three hosts on one database and returns their stores and maps.
async fn three(url: &str) -> Vec<(Arc<Store>, Kv)> {
    let mut hosts = Vec::new();
    for name in ["a", "b", "c"] {
        let store = Arc::new(open(url).await);
        store.announce(name, 1, 0, None).await.unwrap();
        let beating = store.clone();
        tokio::spawn(async move {
            // Silent hosts are not counted, as in hosts.
            while beating.announce(name, 1, 0, None).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let kv = maps(&store);
        hosts.push((store, kv));
    }
    futures::future::join_all(hosts.iter().map(|(_, kv)| async { kv.exchange().await.unwrap() })).await;
    hosts
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_counts_of_hosts_add_up_everywhere() {
    let Some(server) = Postgres::start() else { return };
    let hosts = three(&server.database()).await;
    let (one, long): (Json, _) = (1_i64.into(), Some(Duration::from_secs(3_600)));
    let work = hosts.iter().enumerate().map(|(number, (_, kv))| {
        let one = one.clone();
        async move {
            let map = kv.map("a", "own");
            for round in 0..200_i64 {
                map.incr("count", &one, None).unwrap();
                map.incr("money", &0.5.into(), long).unwrap();
                map.window("window", Duration::from_secs(3_600), 1_000_000).unwrap();
                map.set(&format!("own {number}"), &round.into(), None).unwrap();
                match round % 7 {
                    0 => kv.exchange().await.unwrap(),
                    3 => kv.flush_all().await.unwrap(),
                    _ => {}
                }
            }
            kv.exchange().await.unwrap();
        }
    });
    futures::future::join_all(work).await;
    for (_, kv) in &hosts {
        kv.exchange().await.unwrap();
        let map = kv.map("a", "own");
        assert_eq!(map.get("count"), Some(600_i64.into()));
        assert_eq!(map.get("money"), Some(300.0.into()));
        let window = map.window("window", Duration::from_secs(3_600), 0).unwrap();
        assert_eq!((window.allowed, window.count), (false, 600));
        for number in 0..3 {
            assert_eq!(map.get(&format!("own {number}")), Some(199_i64.into()), "of each host the last");
        }
    }
    // A key that one host deletes is deleted everywhere, and later increments start from zero.
    hosts[0].1.map("a", "own").delete("count");
    hosts[0].1.exchange().await.unwrap();
    hosts[1].1.exchange().await.unwrap();
    assert_eq!(hosts[1].1.map("a", "own").get("count"), None);
    hosts[1].1.map("a", "own").incr("count", &one, None).unwrap();
    hosts[1].1.exchange().await.unwrap();
    hosts[0].1.exchange().await.unwrap();
    assert_eq!(hosts[0].1.map("a", "own").get("count"), Some(one));
}

/// Updates a value as scripts do. Returns the number of attempts.
async fn update(kv: &Kv, key: &str, change: impl Fn(Json) -> Json) -> usize {
    let map = kv.map("a", "own");
    for attempt in 1.. {
        let seen = map.look(key);
        if kv.swap(&map, key, &seen, &change(seen.value.deep_clone()), None).await.unwrap() {
            return attempt;
        }
    }
    unreachable!()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_updates_of_hosts_follow_the_order_of_the_store() {
    let Some(server) = Postgres::start() else { return };
    let hosts = three(&server.database()).await;
    let work = hosts.iter().enumerate().flat_map(|(host, (_, kv))| {
        (0..4).map(move |turn| async move {
            let (map, mut attempts) = (kv.map("a", "own"), 0);
            for round in 0..20 {
                let own = Json::from(format!("{host} {turn} {round}"));
                attempts += update(kv, "log", |before| {
                    let mut list = before.items();
                    list.push(own.clone());
                    list.into()
                })
                .await;
                // A number that other hosts increment at the same time.
                attempts += update(kv, "sum", |before| (before.as_i64().unwrap_or(0) + 1).into()).await;
                map.incr("sum", &1_i64.into(), None).unwrap();
                if round % 5 == turn {
                    kv.exchange().await.unwrap();
                }
            }
            attempts
        })
    });
    let attempts: Vec<usize> = futures::future::join_all(work).await;
    for (_, kv) in &hosts {
        kv.exchange().await.unwrap();
    }
    for (_, kv) in &hosts {
        kv.exchange().await.unwrap();
        let map = kv.map("a", "own");
        let log = map.get("log").unwrap().items();
        assert_eq!(log.len(), 3 * 4 * 20);
        for (host, turn) in (0..3).flat_map(|host| (0..4).map(move |turn| (host, turn))) {
            let own = log
                .iter()
                .map(ToString::to_string)
                .filter(|one| one.starts_with(&format!("\"{host} {turn} ")));
            let expected: Vec<_> = (0..20).map(|round| format!("\"{host} {turn} {round}\"")).collect();
            assert_eq!(own.collect::<Vec<_>>(), expected, "each in its order, none twice");
        }
        assert_eq!(map.get("sum"), Some(480_i64.into()));
    }
    eprintln!("{} updates took {} attempts", 2 * 240, attempts.iter().sum::<usize>());
    // Null stands for a missing entry, before and after the update.
    update(&hosts[0].1, "log", |_| Json::Null).await;
    hosts[1].1.exchange().await.unwrap();
    assert_eq!(hosts[1].1.map("a", "own").get("log"), None);
    update(&hosts[2].1, "log", |before| vec![before].into()).await;
    hosts[1].1.exchange().await.unwrap();
    assert_eq!(
        hosts[1].1.map("a", "own").get("log").unwrap().to_string(),
        "[null]",
        "it did not see the old one"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_increment_of_a_value_that_is_not_a_number_blocks_no_other_write() {
    let Some(server) = Postgres::start() else { return };
    let hosts = three(&server.database()).await;
    let [one, other] = [0, 1].map(|host| hosts[host].1.map("a", "own"));
    one.set("name", &"a text".into(), None).unwrap();
    one.set("list", &vec!["x"].into(), None).unwrap();
    hosts[0].1.exchange().await.unwrap();
    other.incr("name", &1_i64.into(), None).unwrap();
    other.window("list", Duration::from_secs(60), 5).unwrap();
    other.incr("count", &1_i64.into(), None).unwrap();
    hosts[1].1.exchange().await.unwrap();
    hosts[0].1.exchange().await.unwrap();
    for map in [one, other] {
        assert_eq!(map.get("name"), Some("a text".into()));
        assert_eq!(map.get("list").unwrap().to_string(), "[\"x\"]");
        assert_eq!(map.get("count"), Some(1_i64.into()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_share_the_limit_of_a_rate_window() {
    const LIMIT: u64 = 1_000;
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let hosts = three(&url).await;
    let mut worst = 0;
    for round in 0..20 {
        let key = format!("window {round}");
        let hit = |host: usize| {
            let map = hosts[host].1.map("a", "own");
            map.window(&key, Duration::from_secs(3_600), LIMIT).unwrap().allowed
        };
        let mut allowed = 0;
        for period in 0..45 {
            // In the first round each host uses its share and then exchanges; in the others both happen at
            // random moments.
            let mut events: Vec<(usize, bool)> =
                (0..3).flat_map(|host| [(host, false), (host, true)]).collect();
            events.sort_by_key(|event| {
                if round == 0 {
                    return u64::from(event.1);
                }
                let mut hasher = DefaultHasher::new();
                (round, period, event).hash(&mut hasher);
                hasher.finish()
            });
            for (host, is_exchange) in events {
                match is_exchange {
                    true => hosts[host].1.exchange().await.unwrap(),
                    false => allowed += (0..LIMIT).take_while(|_| hit(host)).count() as u64,
                }
            }
        }
        let most = LIMIT + LIMIT * 3 / 100;
        assert!((LIMIT..=most).contains(&allowed), "{allowed} in round {round}");
        worst = worst.max(allowed);
    }
    println!("at most {worst} of {LIMIT} in a window of three hosts");
    // A host without an exchange has only its previous share.
    let (stale, busy) = (&hosts[0].1, &hosts[1].1);
    let hit =
        |kv: &Kv| kv.map("a", "own").window("stale", Duration::from_secs(3_600), LIMIT).unwrap().allowed;
    let mut allowed = 0;
    for _ in 0..60 {
        allowed += (0..LIMIT).filter(|_| hit(busy)).count();
        busy.exchange().await.unwrap();
    }
    assert_eq!(allowed, LIMIT as usize, "one host alone comes to the limit");
    let more = (0..LIMIT).filter(|_| hit(stale)).count();
    assert_eq!(more, 167, "half of a third, rounded up");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_hosts_starts_a_run_and_one_resumes_it() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let hosts = futures::future::join_all((0..4).map(|_| open(&url))).await;
    let beginning = |run, owner| NewRun {
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
        RunStart::Begun(run) => Some(run.clone()),
        _ => None,
    });
    let run = run.unwrap();
    assert_eq!(begun.iter().filter(|begun| matches!(begun, RunStart::Begun(_))).count(), 1, "{begun:?}");
    let change = async |text| {
        let mut session = hosts[0].durable.session().await.unwrap();
        crate::sql::query(text).execute(&mut session).await.unwrap();
    };
    // The process is on another machine, whatever process has its id here: only its silence shows that it is
    // gone.
    change("UPDATE runs SET pid = 7 * 4294967296 + 4194304").await;
    assert!(hosts[0].run(&run.id).await.unwrap().unwrap().is_alive());
    change("UPDATE runs SET seen_at = 0").await;
    let claims = hosts.iter().zip(names).map(|(host, (_, owner))| host.claim_run(&run.id, 0, owner, 1));
    let claims = futures::future::join_all(claims).await;
    assert_eq!(claims.into_iter().filter(|claim| claim.as_ref().unwrap().is_some()).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_stops_within_a_transaction_does_not_block_its_conversation() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let (stopped, other) = (open(&url).await, open(&url).await);
    let held = stopped.durable.begin(Lock::Conversation("c")).await.unwrap();
    let beginning = NewRun {
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
    assert!(matches!(begun.expect("the lock is let go"), Ok(RunStart::Begun(_))));
    assert!(held.commit().await.is_err(), "what it wakes up to write is refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_wakes_every_host_at_once() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let (one, other) = (open(&url).await, open(&url).await);
    // The notification of the store's own start.
    other.changed().await;
    for number in 1..=20u64 {
        let generation = one.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
        assert_eq!(generation, number);
        tokio::time::timeout(Duration::from_secs(20), other.changed()).await.expect("it is notified");
        assert_eq!(other.generation().await.unwrap(), number);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_outage_is_reported_and_recovered_from() {
    let Some(mut server) = Postgres::start() else { return };
    let store = open(&server.database()).await;
    store.changed().await;
    store.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
    store.changed().await;
    server.kill();
    let error = store.generation().await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}");
    assert_eq!(store.failing().map(|error| error.kind), Some(StoreErrorKind::Unreachable));
    server.resume();
    // The write was acknowledged before the failure, so it is stored.
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
        Store::postgres("postgres://me:hunter2@127.0.0.1:1/nowhere", None).await.map(drop).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("postgres://127.0.0.1:1/nowhere") && !text.contains("hunter2"), "{text}");
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{text}");
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let error = Store::postgres(&url, None).await.map(drop).unwrap_err().to_string();
    assert!(error.contains("set it on each host"), "{error}");
    open(&url).await;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let file = std::env::temp_dir().join(format!("valvehouse-other-key-{}", COUNT.fetch_add(1, Relaxed)));
    std::fs::write(&file, "another key that is long enough to be one").unwrap();
    let error = Store::postgres(&url, Some(&SecretSource::File(file.clone()))).await.map(drop).unwrap_err();
    std::fs::remove_file(file).unwrap();
    assert_eq!(error.kind, StoreErrorKind::Sealed, "{error}");
}

fn settings(url: &str) -> StoreSettings {
    StoreSettings::at(StoreAddress::Postgres(Secret::new(url)), Some(key()))
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_behind_pgbouncer_work_and_are_notified_through_a_direct_connection() {
    let Some(server) = Postgres::start() else { return };
    let Some(bouncer) = PgBouncer::start(&server) else { return };
    let (direct, pooled) = {
        let direct = server.database();
        let pooled = bouncer.url(&direct);
        (direct, pooled)
    };
    let hosts = futures::future::join_all((0..3).map(|_| open(&pooled))).await;
    assert!(hosts.iter().all(Store::is_polled), "it is recognized");
    assert!(hosts.iter().all(Store::is_shared));
    let work = async |store: &Store, name: &str| {
        for number in 0..40i64 {
            let values = Json::object();
            values.set(&format!("{name}{number}"), number).unwrap();
            store.merge_valves("a", None, &values, "test").await.unwrap();
            store.settings().await.unwrap();
            store.generation().await.unwrap();
            store.announce(name, 1, 1, None).await.unwrap();
        }
    };
    tokio::join!(
        work(&hosts[0], "x"),
        work(&hosts[0], "u"),
        work(&hosts[1], "y"),
        work(&hosts[1], "v"),
        work(&hosts[2], "z")
    );
    assert_eq!(hosts[0].valves("a", None).await.unwrap().as_object().unwrap().len(), 200);

    assert!(!open(&direct).await.is_polled(), "without one it listens");
    let past = StoreSettings { listen_url: Some(Secret::new(&direct)), ..settings(&pooled) };
    let past = Store::shared(&past, None).await.unwrap();
    assert!(!past.is_polled());
    past.changed().await;
    hosts[0].replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), past.changed()).await.expect("it is notified");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_waits_for_its_tables_and_accepts_later_schemas() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let waits = StoreSettings { migrate: SchemaMigration::Wait, ..settings(&url) };
    let opened = async || Store::shared(&waits, None).await;
    let error = opened().await.map(drop).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::OlderSchema, "{error}");
    assert!(error.to_string().contains("valvehouse migrate"), "{error}");
    let missing = crate::missing_steps(&waits).await.unwrap();
    assert!(!missing.is_empty());
    // Concurrent migrations do not apply a step twice.
    let both = tokio::join!(crate::migrate(&waits), crate::migrate(&waits));
    assert_eq!(both.0.unwrap().len() + both.1.unwrap().len(), missing.len());
    let store = opened().await.unwrap();
    let add = async |number: i64, title: &'static str| {
        let mut session = store.durable.session().await.unwrap();
        let row = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
            VALUES (?, ?, true, '', 1)";
        crate::sql::query(row).bind(number).bind(title).execute(&mut session).await.unwrap();
    };
    add(900, "a table that this version does not know").await;
    opened().await.expect("it is only more");
    add(901, "breaking: the table of valves is another one").await;
    let error = opened().await.map(drop).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::NewerSchema, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn silently_dropped_connections_are_replaced() {
    let Some(server) = Postgres::start() else { return };
    let direct = server.database();
    let proxy = Proxy::start(&server);
    let behind = open(&proxy.url(&direct)).await;
    let writer = open(&direct).await;
    behind.changed().await;
    // The pool has more than one connection.
    let at_once = futures::future::join_all((0..6).map(|_| behind.settings())).await;
    assert!(at_once.iter().all(Result::is_ok));
    proxy.die();
    let error = behind.generation().await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}");
    proxy.live();
    writer.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
    assert_eq!(behind.generation().await.unwrap(), 1, "it asks over a new connection");
    tokio::time::timeout(Duration::from_secs(60), behind.changed()).await.expect("it listens again");
    writer.replace_valves("a", None, &json(r#"{"x": 2}"#), "test").await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), behind.changed()).await.expect("it is notified");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_never_answers_counts_as_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://me@{}/db", listener.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            open.push(listener.accept().await);
        }
    });
    let settings = StoreSettings {
        connect_ms: 200,
        ..StoreSettings::at(StoreAddress::Postgres(Secret::new(&url)), Some(key()))
    };
    let error = Store::shared(&settings, None).await.map(drop).unwrap_err();
    accepting.abort();
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("does not answer within 200ms"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_started_from_a_snapshot_rejects_another_database_of_the_same_name() {
    let Some(mut server) = Postgres::start() else { return };
    let (url, folder) = (server.database(), tempfile::tempdir().unwrap());
    let file = folder.path().join("snapshot");
    let settings = StoreSettings::at(StoreAddress::Postgres(Secret::new(&url)), Some(key()));
    let store = Store::shared(&settings, Some(&file)).await.unwrap();
    let generation = store.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
    assert!(!store.save_snapshot(generation + 1).await.unwrap(), "no host has applied that one");
    assert!(store.save_snapshot(generation).await.unwrap());
    assert!(!store.save_snapshot(generation).await.unwrap(), "it is written once");
    let settings_then = store.settings().await.unwrap();
    store.close().await;
    // From here on, the name belongs to a different database, which is away at first.
    server.replace_database(&url);
    open(&url).await.close().await;
    server.kill();
    let settings = StoreSettings { connect_ms: 200, ..settings };
    let cold = Store::shared(&settings, Some(&file)).await.unwrap();
    assert_eq!(cold.settings().await.unwrap(), settings_then);
    let entry = KvRow {
        plugin: "a".into(),
        scope: "shared".into(),
        key: "x".into(),
        value: 1_i64.into(),
        expires_at: None,
    };
    cold.kv_write(&[KvChange::Set(entry.clone())]).await.unwrap();
    assert_eq!(cold.kv_all().await.unwrap(), [entry]);
    let error = cold.replace_valves("a", None, &json(r#"{"x": 2}"#), "test").await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}");

    server.resume();
    let since = std::time::Instant::now();
    loop {
        let error = cold.outage().expect("it stays away").error;
        if error.to_string().contains("not the database of the snapshot") {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(cold.generation().await.unwrap(), generation);
    assert!(open(&url).await.kv_all().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn work_on_silently_dropped_connections_ends_during_an_outage() {
    let Some(server) = Postgres::start() else { return };
    let proxy = Proxy::start(&server);
    let url = proxy.url(&server.database());
    let settings = StoreSettings {
        connect_ms: 300,
        ..StoreSettings::at(StoreAddress::Postgres(Secret::new(&url)), Some(key()))
    };
    let store = Store::shared(&settings, None).await.unwrap();
    let values = json(r#"{"x": 1}"#);
    assert_eq!(store.replace_valves("a", None, &values, "test").await.unwrap(), 1);
    proxy.die();
    for _ in 0..20 {
        let work = tokio::time::timeout(Duration::from_secs(30), store.generation());
        let error = work.await.expect("it ends").unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}");
    }
    assert!(store.outage().is_some());
    proxy.live();
    let since = std::time::Instant::now();
    while store.replace_valves("a", None, &values, "test").await.is_err() {
        assert!(since.elapsed() < Duration::from_secs(60), "it comes back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(store.outage().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_during_an_outage_is_local_and_stored_later() {
    let Some(mut server) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = server.database();
    let store = Store::shared(&settings(&url), Some(&folder.path().join("snapshot"))).await.unwrap();
    let store = Arc::new(store);
    let kv = maps(&store);
    update(&kv, "sum", |_| 1_i64.into()).await;
    server.kill();
    for _ in 0..3 {
        update(&kv, "sum", |before| (before.as_i64().unwrap() + 1).into()).await;
        let write = kv.want_flush().unwrap();
        kv.flush_up_to(write).await.unwrap();
    }
    assert_eq!(kv.map("a", "own").get("sum"), Some(4_i64.into()));
    server.resume();
    let since = std::time::Instant::now();
    while store.outage().is_some() && since.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let other = maps(&Arc::new(open(&url).await));
    other.exchange().await.unwrap();
    assert_eq!(other.map("a", "own").get("sum"), Some(4_i64.into()));
    update(&kv, "sum", |before| (before.as_i64().unwrap() + 1).into()).await;
    other.exchange().await.unwrap();
    assert_eq!(other.map("a", "own").get("sum"), Some(5_i64.into()));
}
