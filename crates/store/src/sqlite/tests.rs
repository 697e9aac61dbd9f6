//! The store in a file.

use super::open;
use crate::sql::{Lock, Pool};
use crate::store::Store;
use crate::{KvChange, KvRow, LastGood, StoreError, StoreErrorKind};
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;
use valvehouse_json::Json;

/// Returns the SQLite pool.
pub(super) fn raw(pool: &Pool) -> &sqlx::SqlitePool {
    match pool {
        Pool::Sqlite(pool) => pool,
        #[cfg(feature = "postgres")]
        Pool::Postgres(_) => panic!("a test of SQLite"),
    }
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn folder() -> TempDir {
    TempDir::new().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_merges_of_two_processes_lose_nothing() {
    let folder = folder();
    let file = folder.path().join("state.db");
    let (one, two) = (Store::sqlite(&file).await.unwrap(), Store::sqlite(&file).await.unwrap());
    let merge = async |store: &Store, name: &str| {
        for number in 0..100i64 {
            let values = Json::object();
            values.set(&format!("{name}{number}"), number).unwrap();
            // A process that waits for the lock too long stores nothing and says so.
            for attempt in 0.. {
                match store.merge_valves("a", None, &values, "test").await {
                    Ok(_) => break,
                    Err(error) => assert!(error.kind == StoreErrorKind::Busy && attempt < 5, "{error}"),
                }
            }
        }
    };
    tokio::join!(merge(&one, "x"), merge(&two, "y"));
    assert_eq!(one.valves("a", None).await.unwrap().as_object().unwrap().len(), 200);
    assert_eq!(two.generation().await.unwrap(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_start_together_create_one_store() {
    let folder = folder();
    let file = folder.path().join("new/state.db");
    let opened = futures::future::join_all((0..6).map(|_| {
        let file = file.clone();
        tokio::spawn(async move { Store::sqlite(&file).await.map(drop) })
    }))
    .await;
    for result in opened {
        result.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn state_survives_a_restart() {
    let folder = folder();
    let file = folder.path().join("state.db");
    let store = Store::sqlite(&file).await.unwrap();
    store.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
    store.close().await;
    let store = Store::sqlite(&file).await.unwrap();
    assert_eq!(store.valves("a", None).await.unwrap(), json(r#"{"x": 1}"#));
    assert_eq!(store.generation().await.unwrap(), 1);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_new_store_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder();
    let file = folder.path().join("deep/.valvehouse/state.db");
    let store = Store::sqlite(&file).await.unwrap();
    store.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(file.parent().unwrap()), 0o700);
    for entry in std::fs::read_dir(file.parent().unwrap()).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_scripts_are_saved_in_well_under_a_second() {
    let folder = folder();
    let store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    let versions: Vec<_> = (0..1000)
        .map(|number| LastGood {
            id: format!("filter_{number}"),
            path: format!("filters/filter_{number}.rhai"),
            hash: "0".repeat(64),
            source: "fn inlet(body) { body }\n".repeat(80),
            imports: Json::array(),
            security: number % 10 == 0,
            saved_at: 1,
        })
        .collect();
    let start = Instant::now();
    store.save_last_good(&versions).await.unwrap();
    assert!(start.elapsed().as_millis() < 1000, "{:?}", start.elapsed());
    assert_eq!(store.last_good().await.unwrap().len(), 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_decisions_of_operators_wait_for_the_disk() {
    let folder = folder();
    let store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    for (pool, level) in [(&store.durable, 2i64), (&store.swift, 1)] {
        let found: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(raw(pool)).await.unwrap();
        let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(raw(pool)).await.unwrap();
        assert_eq!((found, journal.as_str()), (level, "wal"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_host_counts_as_gone() {
    let folder = folder();
    let store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    store.announce("killed", 1, 1, None).await.unwrap();
    sqlx::query("UPDATE hosts SET seen_at = seen_at - 5500").execute(raw(&store.swift)).await.unwrap();
    assert_eq!(store.hosts().await.unwrap(), []);
    sqlx::query("UPDATE hosts SET seen_at = 0").execute(raw(&store.swift)).await.unwrap();
    store.announce("alive", 2, 1, None).await.unwrap();
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM hosts").fetch_one(raw(&store.swift)).await.unwrap();
    assert_eq!(left, 1, "the dead are swept away");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_row_is_reported_and_can_be_reset() {
    let folder = folder();
    let store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    store.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
    sqlx::query("UPDATE valves SET content = '{'").execute(raw(&store.swift)).await.unwrap();
    let error = store.valves("a", None).await.unwrap_err().to_string();
    assert!(
        error.contains("read the stored valves")
            && error.contains("delete them with `valvehouse valves reset a`"),
        "{error}"
    );
    store.reset_valves("a", None, &[], "test").await.unwrap();
    assert_eq!(store.settings().await.unwrap().valves, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_grants_are_reported_and_can_be_revoked() {
    let folder = folder();
    let store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    store.set_grants("a", Some(&json(r#"{"kv": true}"#)), None, "test").await.unwrap();
    sqlx::query("UPDATE grants SET content = '{'").execute(raw(&store.swift)).await.unwrap();
    let error = store.grants().await.unwrap_err().to_string();
    assert!(error.contains("delete them with `valvehouse grant a --revoke`"), "{error}");
    store.set_grants("a", None, None, "test").await.unwrap();
    assert_eq!(store.grants().await.unwrap(), []);
}

async fn refusal(file: &Path) -> StoreError {
    Store::sqlite(file).await.map(drop).unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_a_database_is_reported() {
    let folder = folder();
    let file = folder.path().join("state.db");
    std::fs::write(&file, "these are my notes, ".repeat(100)).unwrap();
    let error = refusal(&file).await;
    assert_eq!(error.kind, StoreErrorKind::NotADatabase);
    assert_eq!(
        error.to_string(),
        format!(
            "open the store ({}): file is not a database; move that file away, or set store.url to another file",
            file.display()
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_newer_version_is_not_changed() {
    let folder = folder();
    let file = folder.path().join("state.db");
    let store = Store::sqlite(&file).await.unwrap();
    sqlx::query("INSERT INTO _sqlx_migrations VALUES (9999, 'later', CURRENT_TIMESTAMP, TRUE, x'00', 0)")
        .execute(raw(&store.swift))
        .await
        .unwrap();
    store.close().await;
    let error = refusal(&file).await;
    assert_eq!(error.kind, StoreErrorKind::NewerSchema);
    assert!(error.to_string().contains("does not know migration 9999"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unwritable_folder_is_reported() {
    let folder = folder();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let error = refusal(&folder.path().join("file/state.db")).await;
    assert!(error.to_string().starts_with("create the store's folder"), "{error}");
    assert!(error.to_string().contains("is a file, not a folder; move that file away"), "{error}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_another_owner_is_reported() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let result = Store::sqlite(&folder.path().join("state.db")).await.map(drop);
    // Root may write anywhere, which causes no error.
    if let Err(error) = result {
        assert_eq!(error.kind, StoreErrorKind::ReadOnly);
        assert!(error.to_string().contains("a folder this user may write to"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_reported_until_space_is_free() {
    let folder = folder();
    let store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(raw(&store.durable)).await.unwrap();
    let limit = async |pages: i64| {
        let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
        sqlx::query(limit).fetch_one(raw(&store.durable)).await.unwrap();
    };
    limit(pages).await;
    let changes: Vec<KvChange> = (0..20)
        .map(|number| {
            KvChange::Set(KvRow {
                plugin: "a".into(),
                scope: "own".into(),
                key: number.to_string(),
                value: "x".repeat(4_000).into(),
                expires_at: None,
            })
        })
        .collect();
    let error = store.kv_write(&changes).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Full, "{error}");
    assert_eq!(store.failing().map(|error| error.kind), Some(StoreErrorKind::Full));
    assert!(store.kv_all().await.unwrap().is_empty(), "all or nothing");
    let error = valvehouse_core::error::Error::from(error);
    assert!(matches!(error, valvehouse_core::error::Error::Unstored { code: "store_full", .. }), "{error}");
    limit(pages + 1_000).await;
    store.kv_write(&changes).await.unwrap();
    assert_eq!(store.failing(), None);
    assert_eq!(store.kv_all().await.unwrap().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_behind_a_held_lock_fail_together() {
    let folder = folder();
    let file = folder.path().join("state.db");
    let (one, other) = (Store::sqlite(&file).await.unwrap(), Store::sqlite(&file).await.unwrap());
    let lock = other.durable.begin(Lock::Settings).await.unwrap();
    let values = json(r#"{"a": 1}"#);
    let merges = (0..20).map(|_| one.merge_valves("a", None, &values, "test"));
    let ended = futures::future::join_all(merges).await;
    // A writer that waits for another process's lock waits only once, however many writers are queued before
    // it.
    assert!(ended.iter().all(|ended| ended.as_ref().is_err_and(|error| error.kind == StoreErrorKind::Busy)));
    assert!(one.probe().await.is_err());
    lock.commit().await.unwrap();
    one.merge_valves("a", None, &values, "test").await.unwrap();
    one.probe().await.unwrap();
    assert_eq!(one.failing(), None);
}

#[tokio::test]
async fn a_lock_that_is_held_long_on_a_busy_machine_is_waited_for() {
    let folder = folder();
    let file = folder.path().join("state.db");
    let (one, other) = (Store::sqlite(&file).await.unwrap(), Store::sqlite(&file).await.unwrap());
    let lock = other.durable.begin(Lock::Settings).await.unwrap();
    // Other work uses the processor most of the time, and the lock is released late.
    let busy = async {
        let since = std::time::Instant::now();
        while since.elapsed() < 2 * open::LOCK_TIMEOUT {
            std::thread::sleep(std::time::Duration::from_millis(150));
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        lock.commit().await
    };
    let (probed, ended) = tokio::join!(one.probe(), busy);
    ended.unwrap();
    probed.unwrap();
}
