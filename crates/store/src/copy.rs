//! Copies of a store, also to another kind of database.

use crate::error::{Place, StoreError, StoreErrorKind};
use crate::open::open;
use crate::rows::generation;
use crate::rows::sealed_value::{valves_of, version_of};
use crate::seal::{SealKey, is_sealed};
use crate::sql::{Lock, Row, Session, Value, insert_rows, query, query_text};
use crate::store::{Store, secrets, traces, vectors};
use std::sync::Arc;
use valvehouse_config::{StoreAddress, StoreSettings};

const DOING: &str = "copy the store";
/// The number of rows that are read and written at a time.
const BATCH: usize = 200;

/// A table whose rows are copied.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    columns: &'static [(&'static str, Kind)],
    /// The number of leading columns that form the key of a row; 0 if one of them may be null: such a table
    /// is read at once.
    key: usize,
    /// `true` if the database generates the first column.
    is_numbered: bool,
}

/// The type of a column.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Integer,
    Bool,
    /// A sealed text; the function returns its subject from the other columns.
    Sealed(fn(&[Value<'static>]) -> String),
    /// Sealed bytes; the function returns their subject from the other columns.
    SealedBytes(fn(&[Value<'static>]) -> String),
}

use Kind::{Bool, Integer, Sealed, SealedBytes, Text};

const fn table(name: &'static str, columns: &'static [(&'static str, Kind)], key: usize) -> Table {
    Table { name, columns, key, is_numbered: false }
}

const fn numbered(name: &'static str, columns: &'static [(&'static str, Kind)]) -> Table {
    Table { name, columns, key: 1, is_numbered: true }
}

/// All tables whose rows outlive hosts; referenced tables come first.
pub(crate) const TABLES: [Table; 27] = [
    table(
        "valves",
        &[("plugin", Text), ("user_id", Text), ("content", Sealed(|row| valves_of(name(row), text(row, 1))))],
        0,
    ),
    table("switches", &[("plugin", Text), ("enabled", Bool), ("global", Bool), ("audit", Bool)], 1),
    table("grants", &[("id", Text), ("content", Text)], 1),
    table(
        "last_good",
        &[
            ("id", Text),
            ("path", Text),
            ("hash", Text),
            ("source", Text),
            ("imports", Text),
            ("security", Bool),
            ("saved_at", Integer),
        ],
        1,
    ),
    table(
        "kv",
        &[("plugin", Text), ("scope", Text), ("key", Text), ("value", Text), ("expires_at", Integer)],
        3,
    ),
    numbered(
        "conversations",
        &[
            ("number", Integer),
            ("id", Text),
            ("agent", Text),
            ("length", Integer),
            ("kept", Text),
            ("forked_from", Text),
            ("shared", Integer),
            ("created_at", Integer),
            ("updated_at", Integer),
            ("verified_user", Text),
        ],
    ),
    table("messages", &[("conversation", Integer), ("place", Integer), ("content", Text)], 2),
    numbered(
        "runs",
        &[
            ("number", Integer),
            ("id", Text),
            ("conversation", Integer),
            ("status", Text),
            ("step", Integer),
            ("owner", Text),
            ("pid", Integer),
            ("pending", Text),
            ("error", Text),
            ("seen_at", Integer),
            ("created_at", Integer),
            ("updated_at", Integer),
        ],
    ),
    table(
        "checkpoints",
        &[
            ("id", Text),
            ("run", Integer),
            ("step", Integer),
            ("length", Integer),
            ("name", Text),
            ("state", Text),
            ("saved_at", Integer),
        ],
        1,
    ),
    table("sources", &[("hash", Text), ("text", Text)], 1),
    table(
        "versions",
        &[
            ("plugin", Text),
            ("version", Integer),
            ("at", Integer),
            ("author", Text),
            ("action", Text),
            ("kind", Text),
            ("place", Text),
            ("source", Text),
            ("valves", Sealed(|row| version_of(name(row), integer(row, 1)))),
            ("enabled", Bool),
            ("global", Bool),
            ("audit", Bool),
        ],
        2,
    ),
    table("confirmed", &[("plugin", Text), ("what", Text), ("author", Text), ("at", Integer)], 2),
    table("set_aside", &[("plugin", Text), ("number", Integer), ("fate", Integer), ("at", Integer)], 2),
    table("guarded_models", &[("plugin", Text), ("model", Text)], 2),
    table(
        "responses",
        &[
            ("id", Text),
            ("owner", Text),
            ("expires_ms", Integer),
            ("input_items", Integer),
            ("items", Text),
            ("response", Text),
            ("runner", Text),
            ("seen_ms", Integer),
            ("size", Integer),
        ],
        1,
    ),
    table(
        "response_events",
        &[("response", Text), ("number", Integer), ("expires_ms", Integer), ("event", Text)],
        2,
    ),
    table(
        "response_conversations",
        &[
            ("id", Text),
            ("owner", Text),
            ("created_ms", Integer),
            ("expires_ms", Integer),
            ("metadata", Text),
            ("size", Integer),
        ],
        1,
    ),
    table(
        "response_conversation_items",
        &[("conversation", Text), ("number", Integer), ("id", Text), ("item", Text)],
        2,
    ),
    table(
        "script_sets",
        &[
            ("generation", Integer),
            ("at", Integer),
            ("author", Text),
            ("manifest", Text),
            ("signature", Text),
            ("restored_from", Integer),
        ],
        1,
    ),
    table("script_texts", &[("hash", Text), ("text", Text)], 1),
    table("script_set_files", &[("generation", Integer), ("path", Text), ("hash", Text)], 2),
    table("keys", &[("name", Text), ("digest", Text), ("rights", Text), ("used_at", Integer)], 1),
    table(
        "usage",
        &[
            ("step", Integer),
            ("at", Integer),
            ("api_key", Text),
            ("user_id", Text),
            ("model", Text),
            ("provider", Text),
            ("endpoint", Text),
            ("requests", Integer),
            ("client_errors", Integer),
            ("server_errors", Integer),
            ("refusals", Integer),
            ("prompt_tokens", Integer),
            ("completion_tokens", Integer),
            ("cost", Integer),
            ("took_ms", Integer),
            ("first_ms", Integer),
            ("first_count", Integer),
            ("cached_tokens", Integer),
            ("reasoning_tokens", Integer),
            ("plugin_us", Integer),
            ("model_ms", Integer),
            ("le_10", Integer),
            ("le_25", Integer),
            ("le_50", Integer),
            ("le_100", Integer),
            ("le_250", Integer),
            ("le_500", Integer),
            ("le_1000", Integer),
            ("le_2500", Integer),
            ("le_5000", Integer),
            ("le_10000", Integer),
            ("le_30000", Integer),
            ("le_60000", Integer),
            ("le_more", Integer),
        ],
        7,
    ),
    table(
        "traces",
        &[
            ("id", Text),
            ("at", Integer),
            ("api_key", Text),
            ("user_id", Text),
            ("model", Text),
            ("status", Integer),
            ("outcome", Text),
            ("took_ms", Integer),
            ("size", Integer),
            ("plugins", Text),
            ("facts", SealedBytes(|row| traces::facts_of(name(row)))),
            ("steps", SealedBytes(|row| traces::steps_of(name(row)))),
        ],
        1,
    ),
    table("secrets", &[("name", Text), ("content", Sealed(|row| secrets::subject(name(row))))], 1),
    table(
        "vector_spaces",
        &[
            ("plugin", Text),
            ("scope", Text),
            ("version", Integer),
            ("label", Text),
            ("dimensions", Integer),
            ("count", Integer),
            ("bytes", Integer),
        ],
        2,
    ),
    table(
        "vectors",
        &[
            ("plugin", Text),
            ("scope", Text),
            ("id", Text),
            ("version", Integer),
            ("at", Integer),
            ("bytes", Integer),
            ("data", Sealed(subject_of_vector)),
            ("vector", SealedBytes(subject_of_vector)),
        ],
        3,
    ),
];

fn subject_of_vector(row: &[Value<'static>]) -> String {
    vectors::subject(text(row, 1).unwrap_or(""), text(row, 2).unwrap_or(""))
}

/// The outcome of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreCopy {
    /// The number of rows by table, in the order in which they were copied.
    pub rows: Vec<(&'static str, u64)>,
    /// The number of sealed values that could not be opened because they were changed by hand. They are
    /// copied unchanged.
    pub unopened: u64,
}

/// Copies everything that outlives hosts from one store to another, empty one: valves, switches, grants,
/// histories, kv entries, conversations, runs, responses, requests. Sealed values are sealed with the key of the other
/// store. Everything is copied, or nothing.
///
/// # Errors
/// Returns an error if the first store does not exist, a host runs on one of them, the other one is not
/// empty, or one of them cannot be opened, read or written.
pub async fn copy(from: &StoreSettings, to: &StoreSettings) -> Result<StoreCopy, StoreError> {
    if let StoreAddress::Sqlite(file) = &from.address
        && from.address.is_new()
    {
        return Err(refused(&Place::File(file.clone()), "there is no such file", "check its URL"));
    }
    let from = open_unused(from).await?;
    let to = open_unused(to).await?;
    let failed = |error| StoreError::from_sqlx(DOING, &to.place, &error);
    let mut source = from.swift.snapshot().await.map_err(|error| from.failed(&error))?;
    let mut target = to.durable.begin(Lock::Settings).await.map_err(failed)?;
    let mut outcome = StoreCopy::default();
    for table in &TABLES {
        let held = query_text(format!("SELECT 1 FROM {} LIMIT 1", table.name));
        if held.fetch_optional(&mut target).await.map_err(failed)?.is_some() {
            let cause = format!("it already contains {}", table.name);
            let help = "name an empty store: a new file, or a new database";
            return Err(refused(&to.place, &cause, help));
        }
    }
    for table in &TABLES {
        let mut last = None;
        let mut count = 0;
        while let Some(read) =
            table.next_rows(&mut source, &mut last).await.map_err(|error| from.failed(&error))?
        {
            count += read.len();
            for rows in read.chunks(BATCH) {
                let rows =
                    rows.iter().map(|row| table.sealed_anew(row, &from.key, &to.key, &mut outcome.unopened));
                table.write(&mut target, rows.collect()).await.map_err(failed)?;
            }
        }
        if table.is_numbered
            && let Some([Value::Integer(Some(number)), ..]) = last.as_ref().map(|last| &last[..])
        {
            table.go_on_after(&mut target, *number).await.map_err(failed)?;
        }
        outcome.rows.push((table.name, u64::try_from(count).unwrap_or(u64::MAX)));
    }
    let generation = generation::read(&mut source).await.map_err(|error| from.failed(&error))?;
    let raise = query("UPDATE store SET generation = ?").bind(generation);
    raise.execute(&mut target).await.map_err(failed)?;
    target.commit().await.map_err(failed)?;
    source.commit().await.map_err(|error| from.failed(&error))?;
    for pool in [&from.swift, &from.durable, &to.swift, &to.durable] {
        pool.close().await;
    }
    Ok(outcome)
}

/// Opens a store on which no host runs.
async fn open_unused(settings: &StoreSettings) -> Result<Arc<Store>, StoreError> {
    let store = open(settings).await?;
    match store.hosts().await?.is_empty() {
        true => Ok(store),
        false => Err(refused(&store.place, "a host is running on it", "stop it first")),
    }
}

fn refused(place: &Place, cause: &str, help: &str) -> StoreError {
    StoreError {
        help: Some(help.to_owned()),
        ..StoreError::new(DOING, place, StoreErrorKind::Refused, cause)
    }
}

impl Store {
    fn failed(&self, error: &sqlx::Error) -> StoreError {
        StoreError::from_sqlx(DOING, &self.place, error)
    }
}

impl Table {
    fn names(&self) -> Vec<&'static str> {
        self.columns.iter().map(|(name, _)| *name).collect()
    }

    /// Reads a batch of the rows that follow this key.
    async fn read(
        &self,
        session: &mut Session,
        last: Option<&[Value<'static>]>,
    ) -> Result<Vec<Vec<Value<'static>>>, sqlx::Error> {
        let names = self.names();
        let key = names[..self.key].join(", ");
        let mut text = format!("SELECT {} FROM {}", names.join(", "), self.name);
        if last.is_some() {
            text += &format!(" WHERE ({key}) > ({})", vec!["?"; self.key].join(", "));
        }
        if self.key > 0 {
            text += &format!(" ORDER BY {key} LIMIT {BATCH}");
        }
        let query =
            last.into_iter().flatten().cloned().fold(query_text(text), |query, value| query.bind(value));
        query.fetch_all(session).await?.iter().map(|row| self.values(row)).collect()
    }

    /// Reads the batch of rows after those of key `last`; `None` at the end.
    async fn next_rows(
        &self,
        session: &mut Session,
        last: &mut Option<Vec<Value<'static>>>,
    ) -> Result<Option<Vec<Vec<Value<'static>>>>, sqlx::Error> {
        if self.key == 0 && last.is_some() {
            return Ok(None);
        }
        let read = self.read(session, last.as_deref()).await?;
        if let Some(row) = read.last() {
            *last = Some(row[..self.key].to_vec());
        }
        Ok((!read.is_empty()).then_some(read))
    }

    /// Returns the numbers of sealed values that a key opens, and that it does not open.
    pub(crate) async fn sealed_values(
        &self,
        session: &mut Session,
        key: &SealKey,
    ) -> Result<[u64; 2], sqlx::Error> {
        let (mut counts, mut last) = ([0; 2], None);
        if !self.columns.iter().any(|(_, kind)| matches!(kind, Sealed(_) | SealedBytes(_))) {
            return Ok(counts);
        }
        while let Some(rows) = self.next_rows(session, &mut last).await? {
            for row in &rows {
                for (place, (_, kind)) in self.columns.iter().enumerate() {
                    let is_open = match (kind, &row[place]) {
                        (Sealed(subject), Value::Text(Some(content))) if is_sealed(content) => {
                            key.open(content, &subject(row)).is_some()
                        }
                        (SealedBytes(subject), Value::Bytes(Some(content))) => {
                            key.open_bytes(content, &subject(row)).is_some()
                        }
                        _ => continue,
                    };
                    counts[usize::from(!is_open)] += 1;
                }
            }
        }
        Ok(counts)
    }

    fn values(&self, row: &Row) -> Result<Vec<Value<'static>>, sqlx::Error> {
        let value = |(name, kind): &(&str, Kind)| {
            Ok(match kind {
                Text | Sealed(_) => row.try_get::<Option<String>>(name)?.into(),
                SealedBytes(_) => row.try_get::<Option<Vec<u8>>>(name)?.into(),
                Integer => row.try_get::<Option<i64>>(name)?.into(),
                Bool => row.try_get::<Option<bool>>(name)?.into(),
            })
        };
        self.columns.iter().map(value).collect()
    }

    /// Returns the values of a row, sealed with the key of the other store. A value that cannot be opened is
    /// unchanged.
    fn sealed_anew(
        &self,
        row: &[Value<'static>],
        from: &SealKey,
        to: &SealKey,
        unopened: &mut u64,
    ) -> Vec<Value<'static>> {
        let mut values = row.to_vec();
        for (place, (_, kind)) in self.columns.iter().enumerate() {
            if let (SealedBytes(subject), Value::Bytes(Some(content))) = (kind, &row[place]) {
                let about = subject(row);
                match from.open_bytes(content, &about) {
                    Some(plain) => values[place] = to.seal_bytes(&plain, &about).into(),
                    None => *unopened += 1,
                }
                continue;
            }
            let (Sealed(subject), Some(content)) = (kind, text(row, place)) else { continue };
            let about = subject(row);
            let plain =
                if is_sealed(content) { from.open(content, &about) } else { Some(content.to_owned()) };
            match plain {
                Some(plain) => values[place] = to.seal(&plain, &about).into(),
                None => *unopened += 1,
            }
        }
        values
    }

    async fn write(&self, session: &mut Session, rows: Vec<Vec<Value<'static>>>) -> Result<(), sqlx::Error> {
        let numbers = if self.is_numbered && session.is_shared() { " OVERRIDING SYSTEM VALUE" } else { "" };
        let head = format!("INSERT INTO {} ({}){numbers}", self.name, self.names().join(", "));
        let values = rows.into_iter().flatten().collect();
        insert_rows(&head, self.columns.len(), values, "").execute(session).await?;
        Ok(())
    }

    /// Sets the number after which the next row is numbered. SQLite derives it from the rows.
    async fn go_on_after(&self, session: &mut Session, number: i64) -> Result<(), sqlx::Error> {
        if session.is_shared() {
            let text =
                format!("SELECT setval(pg_get_serial_sequence('{}', '{}'), ?)", self.name, self.columns[0].0);
            query_text(text).bind(number).fetch_optional(session).await?;
        }
        Ok(())
    }
}

fn text<'v>(row: &'v [Value<'static>], place: usize) -> Option<&'v str> {
    match &row[place] {
        Value::Text(text) => text.as_deref(),
        _ => None,
    }
}

/// Returns the first column, which identifies the row and is never null.
fn name<'v>(row: &'v [Value<'static>]) -> &'v str {
    text(row, 0).unwrap_or("")
}

fn integer(row: &[Value<'static>], place: usize) -> i64 {
    match row[place] {
        Value::Integer(Some(number)) => number,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use std::collections::BTreeMap;
    use std::path::Path;
    #[cfg(all(unix, feature = "postgres"))]
    use valvehouse_config::{Secret, SecretSource};

    /// Tables whose rows concern running hosts or the database itself.
    const LEFT: &[&str] = &[
        "_sqlx_migrations",
        "client_sessions",
        "hosts",
        "kv_changes",
        "question_answers",
        "questions",
        "sealing",
        "secret_leases",
        "store",
    ];
    /// Two and a half batches; numbered tables have exactly two.
    const ROWS: usize = 2 * BATCH + BATCH / 2;

    fn sqlite(folder: &Path, name: &str) -> StoreSettings {
        StoreSettings::at(StoreAddress::Sqlite(folder.join(name)), None)
    }

    #[cfg(all(unix, feature = "postgres"))]
    fn key() -> Option<SecretSource> {
        Some(SecretSource::Literal(Secret::new("a key that is long enough for everybody")))
    }

    /// Returns a column's value for the row with this number. References point to existing rows.
    fn value(
        table: &Table,
        place: usize,
        number: usize,
        key: &SealKey,
        before: &[Value<'static>],
    ) -> Value<'static> {
        let number = i64::try_from(number).unwrap() + 1;
        match (table.name, table.columns[place]) {
            (_, ("status", Text)) => "done".to_owned().into(),
            ("versions", ("source", _)) => (number % 3 > 0).then(|| format!("hash {number}")).into(),
            ("valves", ("user_id", _)) => (number % 2 > 0).then(|| format!("ann {number}")).into(),
            (_, ("expires_at" | "shared", _)) => (number % 2 > 0).then_some(number).into(),
            (_, (name, Text)) => format!("{name} {number}").into(),
            (_, (_, Integer)) => number.into(),
            (_, ("security", Bool)) => (number % 2 > 0).into(),
            (_, (_, Bool)) => [None, Some(true), Some(false)][number as usize % 3].into(),
            (_, (_, Sealed(about))) => key.seal(&format!("{{\"größe\":{number}}}"), &about(before)).into(),
            (_, (_, SealedBytes(about))) => key.seal_bytes(&number.to_le_bytes(), &about(before)).into(),
        }
    }

    async fn fill(store: &Store) {
        let mut session = store.durable.begin(Lock::Nothing).await.unwrap();
        for table in &TABLES {
            for number in 0..if table.is_numbered { 2 * BATCH } else { ROWS } {
                if table.columns.iter().any(|(name, _)| ["conversation", "run"].contains(name))
                    && number >= 2 * BATCH
                {
                    break;
                }
                let mut row = Vec::new();
                for place in 0..table.columns.len() {
                    row.push(value(table, place, number, &store.key, &row));
                }
                table.write(&mut session, vec![row]).await.unwrap();
            }
        }
        query("UPDATE store SET generation = 77").execute(&mut session).await.unwrap();
        session.commit().await.unwrap();
    }

    /// Returns all rows by table, with sealed values opened.
    async fn rows(store: &Store) -> BTreeMap<&'static str, Vec<String>> {
        let mut session = store.swift.session().await.unwrap();
        let mut all = BTreeMap::new();
        for table in &TABLES {
            let all_rows = format!("SELECT {} FROM {}", table.names().join(", "), table.name);
            let read = query_text(all_rows).fetch_all(&mut session).await.unwrap();
            let row = |row: &Row| {
                let row = table.values(row).unwrap();
                let shown =
                    table.columns.iter().enumerate().map(|(place, (_, kind))| match (kind, &row[place]) {
                        (Sealed(about), _) => {
                            store.key.open(text(&row, place).unwrap(), &about(&row)).unwrap()
                        }
                        (SealedBytes(about), Value::Bytes(Some(bytes))) => {
                            format!("{:?}", store.key.open_bytes(bytes, &about(&row)).unwrap())
                        }
                        (_, Value::Bytes(bytes)) => format!("{bytes:?}"),
                        (_, Value::Text(text)) => format!("{text:?}"),
                        (_, Value::Integer(number)) => format!("{number:?}"),
                        (_, Value::Bool(is_so)) => format!("{is_so:?}"),
                    });
                shown.collect::<Vec<_>>().join("|")
            };
            let mut rows: Vec<String> = read.iter().map(row).collect();
            rows.sort();
            all.insert(table.name, rows);
        }
        all
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_copied_store_holds_every_row_sealed_with_its_own_key() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (sqlite(folder.path(), "first.db"), sqlite(folder.path(), "second.db"));
        let store = open(&first).await.unwrap();
        fill(&store).await;
        let outcome = copy(&first, &second).await.unwrap();
        assert_eq!(outcome.unopened, 0);
        assert_eq!(outcome.rows.len(), TABLES.len());
        for (table, count) in outcome.rows {
            assert!(count >= 2 * BATCH as u64, "{table}: {count}");
        }
        let copied = open(&second).await.unwrap();
        assert_eq!(rows(&copied).await, rows(&store).await);
        let generation = query("SELECT generation FROM store");
        assert_eq!(
            generation.fetch_scalar::<i64>(&mut copied.swift.session().await.unwrap()).await.unwrap(),
            77
        );
        let file = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert_ne!(file("first.key"), file("second.key"));

        let again = copy(&first, &second).await.unwrap_err();
        assert!(again.to_string().contains("it already contains valves"), "{again}");
    }

    #[cfg(all(unix, feature = "postgres"))]
    #[tokio::test(flavor = "multi_thread")]
    async fn a_store_is_copied_to_postgres_and_back() {
        let Some(server) = valvehouse_testkit::postgres::Postgres::start() else { return };
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (sqlite(folder.path(), "first.db"), sqlite(folder.path(), "second.db"));
        let shared = StoreSettings::at(StoreAddress::Postgres(Secret::new(&server.database())), key());
        let store = open(&first).await.unwrap();
        fill(&store).await;
        copy(&first, &shared).await.unwrap();
        let expected = rows(&store).await;
        let there = open(&shared).await.unwrap();
        assert_eq!(rows(&there).await, expected);
        copy(&shared, &second).await.unwrap();
        assert_eq!(rows(&open(&second).await.unwrap()).await, expected);
        // The next conversation gets a number of its own.
        let insert = "INSERT INTO conversations (id, agent, length, kept, created_at, updated_at)
            VALUES ('new', 'a', 0, '{}', 1, 1) RETURNING number";
        let number: i64 =
            query(insert).fetch_scalar(&mut there.swift.session().await.unwrap()).await.unwrap();
        assert_eq!(number, 2 * BATCH as i64 + 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_failed_copy_is_reported_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (sqlite(folder.path(), "first.db"), sqlite(folder.path(), "second.db"));
        let missing = copy(&first, &second).await.unwrap_err().to_string();
        assert!(missing.contains("first.db") && missing.contains("there is no such file"), "{missing}");
        assert!(!folder.path().join("second.db").exists());

        let store = open(&first).await.unwrap();
        fill(&store).await;
        let mut session = store.durable.session().await.unwrap();
        query("INSERT INTO hosts (host_id, pid, applied_generation, seen_at) VALUES ('a', 1, 1, ?)")
            .bind(now())
            .execute(&mut session)
            .await
            .unwrap();
        let used = copy(&first, &second).await.unwrap_err().to_string();
        assert!(used.contains("a host is running on it; stop it first"), "{used}");
        query("DELETE FROM hosts").execute(&mut session).await.unwrap();

        // A value that was changed by hand stays unchanged.
        query("UPDATE secrets SET content = 'sealed:AAAA' WHERE name = 'name 7'")
            .execute(&mut session)
            .await
            .unwrap();
        drop(session);
        assert_eq!(copy(&first, &second).await.unwrap().unopened, 1);

        // Nothing is copied if a row is rejected at the end.
        let third = sqlite(folder.path(), "third.db");
        let target = open(&third).await.unwrap();
        let mut session = target.durable.session().await.unwrap();
        let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON secrets BEGIN SELECT RAISE(ABORT, 'no'); END";
        query(refuse).execute(&mut session).await.unwrap();
        drop(session);
        assert!(copy(&first, &third).await.is_err());
        assert!(rows(&target).await.values().all(Vec::is_empty));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_sqlite_table_and_column_is_copied_or_excluded_explicitly() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&sqlite(folder.path(), "a.db")).await.unwrap();
        let columns = "SELECT one.name || '.' || info.name FROM sqlite_schema AS one
            JOIN pragma_table_info(one.name) AS info WHERE one.type = 'table'";
        check_columns(&store, columns).await;
    }

    #[cfg(all(unix, feature = "postgres"))]
    #[tokio::test(flavor = "multi_thread")]
    async fn every_postgres_table_and_column_is_copied_or_excluded_explicitly() {
        let Some(server) = valvehouse_testkit::postgres::Postgres::start() else { return };
        let address = StoreAddress::Postgres(Secret::new(&server.database()));
        let store = open(&StoreSettings::at(address, key())).await.unwrap();
        let columns = "SELECT table_name || '.' || column_name FROM information_schema.columns
            WHERE table_schema = 'public'";
        check_columns(&store, columns).await;
    }

    async fn check_columns(store: &Store, columns: &'static str) {
        let mut session = store.swift.session().await.unwrap();
        let mut there: Vec<String> = query(columns).fetch_scalars(&mut session).await.unwrap();
        there.retain(|column| !LEFT.contains(&column.split('.').next().unwrap()));
        there.sort();
        let mut known: Vec<String> = TABLES
            .iter()
            .flat_map(|table| table.names().into_iter().map(|name| format!("{}.{name}", table.name)))
            .collect();
        known.sort();
        assert_eq!(known, there);
    }
}
