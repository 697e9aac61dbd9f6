//! The embedded store: one SQLite file, opened by as many processes as like.
//!
//! Decisions of operators, conversations and values stored by scripts are on disk when a call returns. Records that
//! hosts write continuously survive the crash of a process; a power failure may lose the latest of them.

mod aside;
mod conversations;
mod forget;
mod grants;
mod history;
mod open;
mod responses;
mod sealing;
mod switches;
mod valves;

use super::{
    Action, Answer, Aside, Confirmed, HOST_SILENCE, HostSeen, KvChange, KvRow, LastGood, Store, StoreError,
    StoredValves, Switch, Trouble, now,
};
use crate::error::Troubles;
use crate::responses::StoredResponse;
use crate::seal::SealKey;
pub(super) use forget::forget_valves;
use futures::future::BoxFuture;
use sqlx::{Row as _, SqlitePool};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use valvehouse_config::SecretSource;
use valvehouse_json::Json;
use valves::Change;

/// So many rows are written by one statement.
const AT_ONCE: usize = 64;

type Transaction = sqlx::Transaction<'static, sqlx::Sqlite>;

/// A store in one file.
pub struct Sqlite {
    file: PathBuf,
    /// One connection whose commits wait for the disk.
    durable: SqlitePool,
    /// Readers, and writers that do not wait for the disk.
    swift: SqlitePool,
    /// What people set is sealed with it.
    key: SealKey,
    /// Writers in their order, and when one of them last failed to get the lock.
    queue: tokio::sync::Mutex<Option<Instant>>,
    troubles: Troubles,
}

impl Sqlite {
    /// Opens the file; creates it and its folder, for this user only, where they are missing. What people
    /// set is sealed with the key in the file of the same name that ends in `.key`, which is made with it.
    pub async fn open(file: &Path) -> Result<Self, StoreError> {
        Self::open_with(file, None).await
    }

    /// The same with a key from elsewhere.
    pub async fn open_with(file: &Path, key: Option<&SecretSource>) -> Result<Self, StoreError> {
        crate::conversation::opened();
        let (durable, swift) = open::open(file).await?;
        let key = sealing::key(file, key, &durable).await?;
        Ok(Self {
            file: file.to_owned(),
            durable,
            swift,
            key,
            queue: tokio::sync::Mutex::default(),
            troubles: Troubles::default(),
        })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Runs one piece of work; an error says what it was for.
    fn work<'a, T: 'a>(
        &'a self,
        doing: &'static str,
        work: impl Future<Output = Result<T, sqlx::Error>> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            match work.await {
                Ok(value) => {
                    self.troubles.end(doing);
                    Ok(value)
                }
                Err(error) => {
                    let error = StoreError::from_sqlx(doing, &self.file, &error);
                    self.troubles.add(doing, &error);
                    Err(error)
                }
            }
        })
    }

    /// Begins a transaction whose commit waits for the disk.
    async fn begin(&self) -> Result<Transaction, sqlx::Error> {
        self.queued(|| begin(&self.durable)).await
    }

    /// Does what needs the lock of writers. Whoever queued while another one found the lock held by another
    /// process fails as well: nobody waits twice as long.
    async fn queued<T, F: Future<Output = Result<T, sqlx::Error>>>(
        &self,
        work: impl Fn() -> F,
    ) -> Result<T, sqlx::Error> {
        let since = Instant::now();
        let mut busy_at = self.queue.lock().await;
        if busy_at.is_some_and(|at| at >= since) {
            return Err(sqlx::Error::PoolTimedOut);
        }
        loop {
            let done = work().await;
            if done.as_ref().err().is_none_or(|error| !self.is_busy(error)) {
                return done;
            }
            if !self.is_contended() || since.elapsed() > open::CONTENDED {
                *busy_at = Some(Instant::now());
                return done;
            }
        }
    }

    fn is_busy(&self, error: &sqlx::Error) -> bool {
        StoreError::from_sqlx("", &self.file, error).trouble == Trouble::Busy
    }

    /// Returns `true` if the write-ahead log was written within the lock timeout: other processes take turns at the
    /// lock, rather than one of them holding it.
    fn is_contended(&self) -> bool {
        let mut log = self.file.clone().into_os_string();
        log.push("-wal");
        let written = std::fs::metadata(log).and_then(|metadata| metadata.modified());
        written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < open::LOCK_TIMEOUT))
    }

    fn change_valves<'a>(
        &'a self,
        doing: &'static str,
        plugin: &'a str,
        user: Option<&'a str>,
        change: Change<'a>,
        by: &'a str,
    ) -> Answer<'a, u64> {
        self.work(doing, async move {
            let mut transaction = self.begin().await?;
            valves::change(&mut transaction, &self.key, plugin, user, change).await?;
            if user.is_none() {
                history::note(&mut transaction, &self.key, plugin, by, Action::Valves).await?;
            }
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }
}

/// Begins a transaction that writes. Taking the lock at once makes read-modify-write safe.
async fn begin(pool: &SqlitePool) -> Result<Transaction, sqlx::Error> {
    pool.begin_with("BEGIN IMMEDIATE").await
}

async fn raise(transaction: &mut Transaction) -> Result<u64, sqlx::Error> {
    sqlx::query_scalar::<_, i64>("UPDATE store SET generation = generation + 1 RETURNING generation")
        .fetch_one(&mut **transaction)
        .await
        .map(i64::unsigned_abs)
}

async fn forget_last_good(transaction: &mut Transaction, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM last_good WHERE id = ?").bind(id).execute(&mut **transaction).await?;
    Ok(())
}

/// Writes down what an operator confirms of a guard.
async fn confirm(
    transaction: &mut Transaction,
    id: &str,
    what: &Confirmed,
    by: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT OR REPLACE INTO confirmed (plugin, what, author, at) VALUES (?, ?, ?, ?)")
        .bind(id)
        .bind(what.as_str())
        .bind(by)
        .bind(now())
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

/// Writes down that an operator switched a guard, or ends that.
async fn confirm_switch(
    transaction: &mut Transaction,
    id: &str,
    enabled: Option<bool>,
    global: Option<bool>,
    by: &str,
) -> Result<(), sqlx::Error> {
    for (is_on, what) in [(enabled, Confirmed::Off), (global, Confirmed::Narrow)] {
        match is_on {
            Some(false) => confirm(transaction, id, &what, by).await?,
            Some(true) => {
                sqlx::query("DELETE FROM confirmed WHERE plugin = ? AND what = ?")
                    .bind(id)
                    .bind(what.as_str())
                    .execute(&mut **transaction)
                    .await?;
            }
            None => {}
        }
    }
    Ok(())
}

fn encode(value: &Json) -> Result<String, sqlx::Error> {
    let bytes = value.encode().map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    String::from_utf8(bytes).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}

impl Store for Sqlite {
    fn seal(&self, text: &str, about: &str) -> String {
        self.key.seal(text, about)
    }

    fn unseal(&self, sealed: &str, about: &str) -> Option<String> {
        self.key.open(sealed, about)
    }

    fn generation(&self) -> Answer<'_, u64> {
        self.work("read the store's generation", async {
            let generation: i64 =
                sqlx::query_scalar("SELECT generation FROM store").fetch_one(&self.swift).await?;
            Ok(generation.unsigned_abs())
        })
    }

    fn all_valves(&self) -> Answer<'_, Vec<StoredValves>> {
        self.work("read the stored valves", async {
            let mut connection = self.swift.acquire().await?;
            valves::all(&mut connection, &self.key).await
        })
    }

    fn valves<'a>(&'a self, plugin: &'a str, user: Option<&'a str>) -> Answer<'a, Json> {
        self.work("read the stored valves", async move {
            let mut connection = self.swift.acquire().await?;
            valves::of(&mut connection, &self.key, plugin, user).await
        })
    }

    fn replace_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        values: &'a Json,
        by: &'a str,
    ) -> Answer<'a, u64> {
        self.change_valves("store valves", plugin, user, Change::Replace(values), by)
    }

    fn merge_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        values: &'a Json,
        by: &'a str,
    ) -> Answer<'a, u64> {
        self.change_valves("store valves", plugin, user, Change::Merge(values), by)
    }

    fn reset_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        keys: &'a [String],
        by: &'a str,
    ) -> Answer<'a, u64> {
        self.change_valves("reset valves", plugin, user, Change::Reset(keys), by)
    }

    fn switches(&self) -> Answer<'_, Vec<Switch>> {
        self.work("read the stored switches", async {
            let mut connection = self.swift.acquire().await?;
            switches::all(&mut connection).await
        })
    }

    fn set_switch<'a>(&'a self, switch: &'a Switch, by: &'a str) -> Answer<'a, u64> {
        self.work("store a switch", async move {
            let mut transaction = self.begin().await?;
            switches::set(&mut transaction, switch).await?;
            confirm_switch(&mut transaction, &switch.plugin, switch.enabled, switch.global, by).await?;
            history::note(&mut transaction, &self.key, &switch.plugin, by, Action::Toggle).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn grants(&self) -> Answer<'_, Vec<(String, Json)>> {
        self.work("read the stored grants", grants::all(&self.swift))
    }

    fn set_grants<'a>(
        &'a self,
        id: &'a str,
        grants: Option<&'a Json>,
        expected: Option<&'a Json>,
        by: &'a str,
    ) -> Answer<'a, Option<u64>> {
        self.work("store grants", async move {
            let mut transaction = self.begin().await?;
            if !grants::set(&mut transaction, id, grants, expected).await? {
                return Ok(None);
            }
            history::note(&mut transaction, &self.key, id, by, Action::Grant).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(Some(generation))
        })
    }

    fn last_good(&self) -> Answer<'_, Vec<LastGood>> {
        self.work("read the last good scripts", async {
            let rows = sqlx::query(
                "SELECT id, path, hash, source, imports, security, saved_at FROM last_good ORDER BY id",
            )
            .fetch_all(&self.swift)
            .await?;
            rows.into_iter()
                .map(|row| {
                    Ok(LastGood {
                        id: row.try_get("id")?,
                        path: row.try_get("path")?,
                        hash: row.try_get("hash")?,
                        source: row.try_get("source")?,
                        // Without them it does not load, and says so.
                        imports: Json::parse(row.try_get::<String, _>("imports")?.as_bytes())
                            .unwrap_or_default(),
                        security: row.try_get("security")?,
                        saved_at: row.try_get("saved_at")?,
                    })
                })
                .collect()
        })
    }

    fn save_last_good<'a>(&'a self, versions: &'a [LastGood]) -> Answer<'a, ()> {
        self.work("save the last good scripts", async move {
            let mut transaction = self.begin().await?;
            for versions in versions.chunks(AT_ONCE) {
                let imports =
                    versions.iter().map(|version| encode(&version.imports)).collect::<Result<Vec<_>, _>>()?;
                let mut query = sqlx::QueryBuilder::<sqlx::Sqlite>::new(
                    "INSERT OR REPLACE INTO last_good (id, path, hash, source, imports, security, saved_at) ",
                );
                query.push_values(versions.iter().zip(imports), |mut row, (version, imports)| {
                    row.push_bind(&version.id)
                        .push_bind(&version.path)
                        .push_bind(&version.hash)
                        .push_bind(&version.source)
                        .push_bind(imports)
                        .push_bind(version.security)
                        .push_bind(version.saved_at);
                });
                query.build().execute(&mut *transaction).await?;
            }
            // What was confirmed of an earlier version says nothing of this one.
            for version in versions.iter().filter(|version| version.security) {
                sqlx::query("DELETE FROM confirmed WHERE plugin = ? AND what NOT IN ('off', 'narrow')")
                    .bind(&version.id)
                    .execute(&mut *transaction)
                    .await?;
            }
            transaction.commit().await
        })
    }

    fn forget_last_good<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.work("forget a last good script", async move {
            let mut transaction = self.begin().await?;
            forget_last_good(&mut transaction, id).await?;
            transaction.commit().await
        })
    }

    fn confirm_removal<'a>(&'a self, id: &'a str, by: &'a str) -> Answer<'a, u64> {
        self.work("confirm a removal", async move {
            let mut transaction = self.begin().await?;
            forget_last_good(&mut transaction, id).await?;
            confirm(&mut transaction, id, &Confirmed::Gone, by).await?;
            history::note(&mut transaction, &self.key, id, by, Action::Delete).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn confirmed(&self) -> Answer<'_, Vec<(String, Confirmed)>> {
        self.work("read what is confirmed of guards", async {
            let rows = sqlx::query("SELECT plugin, what FROM confirmed").fetch_all(&self.swift).await?;
            let read = |row: sqlx::sqlite::SqliteRow| {
                Ok((row.try_get("plugin")?, Confirmed::from(row.try_get::<String, _>("what")?)))
            };
            rows.into_iter().map(read).collect()
        })
    }

    fn confirm<'a>(&'a self, id: &'a str, what: &'a Confirmed, by: &'a str) -> Answer<'a, u64> {
        self.work("confirm a change of a guard", async move {
            let mut transaction = begin(&self.durable).await?;
            confirm(&mut transaction, id, what, by).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn forget_confirmed<'a>(&'a self, id: &'a str, what: &'a Confirmed) -> Answer<'a, ()> {
        self.work("end what is confirmed of a guard", async move {
            sqlx::query("DELETE FROM confirmed WHERE plugin = ? AND what = ?")
                .bind(id)
                .bind(what.as_str())
                .execute(&self.durable)
                .await?;
            Ok(())
        })
    }

    fn doubted_guards(&self) -> Answer<'_, Vec<(String, String, String)>> {
        self.work("compare guards with their histories", async {
            let query = "SELECT own.plugin, own.place, sources.text FROM versions AS own
                 JOIN sources ON sources.hash = own.source
                 LEFT JOIN last_good ON last_good.id = own.plugin
                 WHERE own.kind = 'filter'
                 AND own.version = (SELECT max(version) FROM versions WHERE plugin = own.plugin)
                 AND sources.text LIKE '%secur%'
                 AND (last_good.id IS NULL
                 OR CASE WHEN json_valid(last_good.imports) THEN json_type(last_good.imports) = 'null' ELSE 1 END
                 OR NOT EXISTS (
                     SELECT 1 FROM versions AS any JOIN sources AS known ON known.hash = any.source
                     WHERE any.plugin = own.plugin AND known.text = last_good.source))";
            sqlx::query_as(query).fetch_all(&self.swift).await
        })
    }

    fn guarded_models(&self) -> Answer<'_, Vec<(String, String)>> {
        self.work("read which models a guard is for", async {
            sqlx::query_as("SELECT plugin, model FROM guarded_models").fetch_all(&self.swift).await
        })
    }

    fn save_guarded_models<'a>(&'a self, plugin: &'a str, models: &'a [String]) -> Answer<'a, ()> {
        self.work("store which models a guard is for", async move {
            let mut transaction = self.begin().await?;
            sqlx::query("DELETE FROM guarded_models WHERE plugin = ?")
                .bind(plugin)
                .execute(&mut *transaction)
                .await?;
            for model in models {
                sqlx::query("INSERT OR IGNORE INTO guarded_models (plugin, model) VALUES (?, ?)")
                    .bind(plugin)
                    .bind(model)
                    .execute(&mut *transaction)
                    .await?;
            }
            transaction.commit().await
        })
    }

    fn save_response<'a>(&'a self, stored: &'a StoredResponse) -> Answer<'a, ()> {
        self.work("store a response", async move {
            let mut transaction = self.begin().await?;
            responses::save(&mut transaction, stored).await?;
            transaction.commit().await
        })
    }

    fn response<'a>(&'a self, id: &'a str) -> Answer<'a, Option<StoredResponse>> {
        self.work("read a response", responses::find(&self.swift, id))
    }

    fn delete_response<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.work("delete a response", async move {
            let mut transaction = self.begin().await?;
            responses::delete(&mut transaction, id).await?;
            transaction.commit().await
        })
    }

    fn set_aside(&self) -> Answer<'_, Vec<Aside>> {
        self.work("read what is set aside", aside::all(&self.swift))
    }

    fn put_aside<'a>(&'a self, plugin: &'a str, number: u64) -> Answer<'a, u64> {
        self.work("set aside what is stored for a plugin", async move {
            let mut transaction = self.begin().await?;
            aside::put(&mut transaction, &self.key, plugin, number).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn adopt<'a>(&'a self, plugin: &'a str, number: u64, by: &'a str) -> Answer<'a, u64> {
        self.work("adopt what is set aside", async move {
            let mut transaction = self.begin().await?;
            aside::adopt(&mut transaction, &self.key, plugin, number).await?;
            history::note(&mut transaction, &self.key, plugin, by, Action::Valves).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn drop_aside<'a>(&'a self, plugin: &'a str, number: u64, by: &'a str) -> Answer<'a, u64> {
        self.work("drop what is set aside", async move {
            let mut transaction = self.begin().await?;
            aside::drop_rows(&mut transaction, plugin, number).await?;
            tracing::info!(plugin, by, "what was set aside is dropped");
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn kv_all(&self) -> Answer<'_, Vec<KvRow>> {
        self.work("read what scripts keep", async {
            sqlx::query("DELETE FROM kv WHERE expires_at <= ?").bind(now()).execute(&self.swift).await?;
            let rows = sqlx::query("SELECT plugin, scope, key, value, expires_at FROM kv")
                .fetch_all(&self.swift)
                .await?;
            let mut kept = Vec::with_capacity(rows.len());
            for row in rows {
                let (plugin, key): (String, String) = (row.try_get("plugin")?, row.try_get("key")?);
                // One entry that somebody broke by hand must not take every script's map along.
                match Json::parse(row.try_get::<&str, _>("value")?.as_bytes()) {
                    Ok(value) => kept.push(KvRow {
                        plugin,
                        scope: row.try_get("scope")?,
                        key,
                        value,
                        expires_at: row.try_get("expires_at")?,
                    }),
                    Err(error) => {
                        tracing::warn!(plugin, key, "left out of the script's map, no JSON: {error}")
                    }
                }
            }
            Ok(kept)
        })
    }

    fn kv_write<'a>(&'a self, changes: &'a [KvChange]) -> Answer<'a, ()> {
        self.work("write what scripts keep", async move {
            let is_one = (1..=AT_ONCE).contains(&changes.len());
            if is_one && changes.iter().all(|change| matches!(change, KvChange::Set(_))) {
                // One statement is a transaction of its own: a third of the way to the disk and back.
                return self.queued(|| insert(&self.durable, changes)).await;
            }
            let mut transaction = self.begin().await?;
            let are_set =
                |one: &KvChange, next: &KvChange| matches!((one, next), (KvChange::Set(_), KvChange::Set(_)));
            for changes in changes.chunk_by(are_set) {
                if let [KvChange::Delete { plugin, scope, key }] = changes {
                    sqlx::query("DELETE FROM kv WHERE plugin = ? AND scope = ? AND key = ?")
                        .bind(plugin)
                        .bind(scope)
                        .bind(key)
                        .execute(&mut *transaction)
                        .await?;
                    continue;
                }
                for changes in changes.chunks(AT_ONCE) {
                    insert(&mut *transaction, changes).await?;
                }
            }
            transaction.commit().await
        })
    }

    fn announce<'a>(
        &'a self,
        host_id: &'a str,
        pid: u32,
        applied_generation: u64,
        tells: Option<&'a Json>,
    ) -> Answer<'a, ()> {
        self.work("announce this host", async move {
            let tells = tells.map(encode).transpose()?;
            let applied = i64::try_from(applied_generation).unwrap_or(i64::MAX);
            let mut transaction = begin(&self.swift).await?;
            // Hosts that were killed never say good-bye; nobody asks for them after this long.
            sqlx::query("DELETE FROM hosts WHERE seen_at < ?")
                .bind(now() - 12 * silence())
                .execute(&mut *transaction)
                .await?;
            sqlx::query(
                "INSERT INTO hosts (host_id, pid, applied_generation, seen_at, tells)
                 VALUES (?1, ?2, ?3, ?4, COALESCE(?5, '{}'))
                 ON CONFLICT (host_id) DO UPDATE SET
                 pid = ?2, applied_generation = ?3, seen_at = ?4, tells = COALESCE(?5, tells)",
            )
            .bind(host_id)
            .bind(pid)
            .bind(applied)
            .bind(now())
            .bind(tells)
            .execute(&mut *transaction)
            .await?;
            transaction.commit().await
        })
    }

    fn hosts(&self) -> Answer<'_, Vec<HostSeen>> {
        self.work("look for running hosts", async {
            let rows = sqlx::query(
                "SELECT host_id, pid, applied_generation, tells, seen_at FROM hosts WHERE seen_at >= ? ORDER BY host_id",
            )
            .bind(now() - silence())
            .fetch_all(&self.swift)
            .await?;
            rows.into_iter()
                .map(|row| {
                    Ok(HostSeen {
                        host_id: row.try_get("host_id")?,
                        pid: row.try_get("pid")?,
                        applied_generation: row.try_get::<i64, _>("applied_generation")?.unsigned_abs(),
                        // A host of another version may tell in other words: then it tells nothing.
                        tells: Json::parse(row.try_get::<&str, _>("tells")?.as_bytes()).unwrap_or_default(),
                        seen_at: row.try_get("seen_at")?,
                    })
                })
                .collect()
        })
    }

    fn leave<'a>(&'a self, host_id: &'a str) -> Answer<'a, ()> {
        self.work("take leave of the store", async move {
            sqlx::query("DELETE FROM hosts WHERE host_id = ?").bind(host_id).execute(&self.swift).await?;
            Ok(())
        })
    }

    fn troubles(&self) -> Vec<(Trouble, u64)> {
        self.troubles.counts()
    }

    fn failing(&self) -> Option<StoreError> {
        self.troubles.recent()
    }

    fn probe(&self) -> Answer<'_, ()> {
        self.work("lock the store", async {
            let since = Instant::now();
            loop {
                let (begun, lag) = with_lag(begin(&self.swift)).await;
                match begun {
                    Ok(transaction) => return transaction.rollback().await,
                    Err(error) if !self.is_busy(&error) => return Err(error),
                    Err(_) if self.is_contended() => return Ok(()),
                    // Where this process gets no processor, the one that holds the lock may get none either.
                    Err(_) if lag > STARVED && since.elapsed() < open::CONTENDED => {}
                    Err(error) => return Err(error),
                }
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.swift.close().await;
            self.durable.close().await;
        })
    }
}

/// Writes what these changes set by one statement.
async fn insert(executor: impl sqlx::SqliteExecutor<'_>, changes: &[KvChange]) -> Result<(), sqlx::Error> {
    let mut rows = Vec::with_capacity(changes.len());
    for change in changes {
        if let KvChange::Set(row) = change {
            rows.push((row, encode(&row.value)?));
        }
    }
    let mut query = sqlx::QueryBuilder::<sqlx::Sqlite>::new(
        "INSERT OR REPLACE INTO kv (plugin, scope, key, value, expires_at) ",
    );
    query.push_values(rows, |mut bound, (row, value)| {
        bound
            .push_bind(&row.plugin)
            .push_bind(&row.scope)
            .push_bind(&row.key)
            .push_bind(value)
            .push_bind(row.expires_at);
    });
    query.build().execute(executor).await?;
    Ok(())
}

/// A delay of a timer from which on the machine counts as too busy to tell how long a lock is held.
const STARVED: Duration = Duration::from_millis(60);

/// Waits for `work`. Also returns the longest delay of a timer meanwhile.
async fn with_lag<T>(work: impl Future<Output = T>) -> (T, Duration) {
    const PERIOD: Duration = Duration::from_millis(20);
    let (mut work, mut lag) = (std::pin::pin!(work), Duration::ZERO);
    loop {
        let since = Instant::now();
        tokio::select! {
            done = &mut work => return (done, lag.max(since.elapsed().saturating_sub(PERIOD))),
            () = tokio::time::sleep(PERIOD) => lag = lag.max(since.elapsed().saturating_sub(PERIOD)),
        }
    }
}

fn silence() -> i64 {
    HOST_SILENCE.as_millis() as i64
}

#[cfg(test)]
mod tests;
