//! Copies of a store, also to another kind of database.

use crate::error::{Place, StoreError, StoreErrorKind};
use crate::open::open;
use crate::rows::generation;
use crate::seal::{SealKey, is_sealed};
use crate::sql::{Lock, Row, Session, Value, insert_rows, query, query_text};
use crate::store::Store;
use crate::tables::{Column, Kind, Table};
use std::sync::Arc;
use valvehouse_grants::{StoreAddress, StoreSettings};

const DOING: &str = "copy the store";
/// The number of rows that are read and written at a time.
const BATCH: usize = 200;

/// The outcome of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreCopy {
    /// The number of rows by table, in the order in which they were copied.
    pub rows: Vec<(String, u64)>,
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
    let tables = Table::all([&mut source, &mut target]).await.map_err(failed)?;
    for Table { name, .. } in &tables {
        let held = query_text(format!("SELECT 1 FROM {name} LIMIT 1"));
        if held.fetch_optional(&mut target).await.map_err(failed)?.is_some() {
            let cause = format!("it already contains {name}");
            let help = "name an empty store: a new file, or a new database";
            return Err(refused(&to.place, &cause, help));
        }
    }
    for table in tables {
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
        if let Some([Value::Integer(Some(number)), ..]) = last.as_ref().map(|last| &last[..]) {
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
    /// Reads a batch of the rows that follow this key.
    async fn read(
        &self,
        session: &mut Session,
        last: Option<&[Value<'static>]>,
    ) -> Result<Vec<Vec<Value<'static>>>, sqlx::Error> {
        let names = self.column_names();
        let key = names[..self.key].join(", ");
        let mut text = format!("SELECT {} FROM {}", names.join(", "), self.name);
        if last.is_some() {
            text += &format!(" WHERE ({key}) > ({})", vec!["?"; self.key].join(", "));
        }
        if self.key > 0 {
            text += &format!(" ORDER BY {key} LIMIT {BATCH}");
        }
        let query = query_text(text).bind_all(last.into_iter().flatten().cloned());
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
        if self.columns.iter().all(|column| column.subject.is_none()) {
            return Ok(counts);
        }
        while let Some(rows) = self.next_rows(session, &mut last).await? {
            for row in &rows {
                for (column, value) in self.columns.iter().zip(row) {
                    let is_open = match (column.subject, value) {
                        (Some(subject), Value::Text(Some(content))) if is_sealed(content) => {
                            key.open(content, &subject(row)).is_some()
                        }
                        (Some(subject), Value::Bytes(Some(content))) => {
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
        let value = |Column { name, kind, .. }: &Column| {
            Ok(match kind {
                Kind::Text => row.try_get::<Option<String>>(name)?.into(),
                Kind::Bytes => row.try_get::<Option<Vec<u8>>>(name)?.into(),
                Kind::Integer => row.try_get::<Option<i64>>(name)?.into(),
                Kind::Bool => row.try_get::<Option<bool>>(name)?.into(),
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
        let anew = |(column, value): (&Column, &Value<'static>)| {
            let Some(about) = column.subject.map(|subject| subject(row)) else { return value.clone() };
            let sealed = match value {
                Value::Bytes(Some(content)) => {
                    from.open_bytes(content, &about).map(|plain| to.seal_bytes(&plain, &about).into())
                }
                Value::Text(Some(content)) if is_sealed(content) => {
                    from.open(content, &about).map(|plain| to.seal(&plain, &about).into())
                }
                Value::Text(Some(plain)) => Some(to.seal(plain, &about).into()),
                _ => return value.clone(),
            };
            sealed.unwrap_or_else(|| {
                *unopened += 1;
                value.clone()
            })
        };
        self.columns.iter().zip(row).map(anew).collect()
    }

    async fn write(&self, session: &mut Session, rows: Vec<Vec<Value<'static>>>) -> Result<(), sqlx::Error> {
        // Without it, a server numbers the rows of some tables itself.
        let numbers = if session.is_shared() { " OVERRIDING SYSTEM VALUE" } else { "" };
        let head = format!("INSERT INTO {} ({}){numbers}", self.name, self.column_names().join(", "));
        let values = rows.into_iter().flatten().collect();
        insert_rows(&head, self.columns.len(), values, "").execute(session).await?;
        Ok(())
    }

    /// Sets the number after which the next row is numbered, if a server numbers the rows. SQLite derives it from them.
    async fn go_on_after(&self, session: &mut Session, number: i64) -> Result<(), sqlx::Error> {
        if session.is_shared() {
            let (table, column) = (&self.name, &self.columns[0].name);
            let text = format!("SELECT setval(pg_get_serial_sequence('{table}', '{column}'), ?)");
            query_text(text).bind(number).fetch_optional(session).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::sqlite::open::in_memory;
    use crate::tables::{OF_HOSTS, SEALED};
    use std::collections::BTreeMap;
    use std::path::Path;
    #[cfg(all(unix, feature = "postgres"))]
    use valvehouse_grants::{Secret, SecretSource};

    /// Two and a half batches; numbered tables have exactly two.
    const ROWS: usize = 2 * BATCH + BATCH / 2;

    fn sqlite(folder: &Path, name: &str) -> StoreSettings {
        StoreSettings::at(StoreAddress::Sqlite(folder.join(name)), None)
    }

    #[cfg(all(unix, feature = "postgres"))]
    fn key() -> Option<SecretSource> {
        Some(SecretSource::Literal(Secret::new("a key that is long enough for everybody")))
    }

    /// The columns of truth values; SQLite has no type for them.
    const TRUTHS: [&str; 4] = ["enabled", "global", "audit", "security"];

    /// Returns a column's value for the row with this number. References point to existing rows.
    fn value(
        table: &Table,
        column: &Column,
        number: usize,
        key: &SealKey,
        before: &[Value<'static>],
    ) -> Value<'static> {
        let number = i64::try_from(number).unwrap() + 1;
        let Column { name, kind, subject } = column;
        match (&*table.name, &**name) {
            (_, "status") if matches!(kind, Kind::Text) => "done".to_owned().into(),
            ("versions", "source") => (number % 3 > 0).then(|| format!("hash {number}")).into(),
            ("valves", "user_id") => (number % 2 > 0).then(|| format!("ann {number}")).into(),
            (_, "expires_at" | "shared") => (number % 2 > 0).then_some(number).into(),
            (_, "security") => (number % 2 > 0).into(),
            (_, name) if TRUTHS.contains(&name) => {
                [None, Some(true), Some(false)][number as usize % 3].into()
            }
            (_, name) => match (kind, subject) {
                (Kind::Text, Some(about)) => {
                    key.seal(&format!("{{\"größe\":{number}}}"), &about(before)).into()
                }
                (_, Some(about)) => key.seal_bytes(&number.to_le_bytes(), &about(before)).into(),
                (Kind::Text, _) => format!("{name} {number}").into(),
                _ => number.into(),
            },
        }
    }

    async fn fill(store: &Store) {
        let mut session = store.durable.begin(Lock::Nothing).await.unwrap();
        for table in &Table::all([&mut session]).await.unwrap() {
            let names = table.column_names();
            for number in 0..if names[0] == "number" { 2 * BATCH } else { ROWS } {
                if ["conversation", "run"].iter().any(|name| names.contains(name)) && number >= 2 * BATCH {
                    break;
                }
                let mut row = Vec::new();
                for column in &table.columns {
                    row.push(value(table, column, number, &store.key, &row));
                }
                table.write(&mut session, vec![row]).await.unwrap();
            }
        }
        query("UPDATE store SET generation = 77").execute(&mut session).await.unwrap();
        session.commit().await.unwrap();
    }

    /// Returns all rows by table, with sealed values opened.
    async fn rows(store: &Store) -> BTreeMap<String, Vec<String>> {
        let mut session = store.swift.session().await.unwrap();
        let mut all = BTreeMap::new();
        for table in Table::all([&mut session]).await.unwrap() {
            let all_rows = format!("SELECT {} FROM {}", table.column_names().join(", "), table.name);
            let read = query_text(all_rows).fetch_all(&mut session).await.unwrap();
            let row = |row: &Row| {
                let row = table.values(row).unwrap();
                let shown =
                    table.columns.iter().zip(&row).map(|(column, value)| match (column.subject, value) {
                        (Some(about), Value::Text(Some(text))) => store.key.open(text, &about(&row)).unwrap(),
                        (Some(about), Value::Bytes(Some(bytes))) => {
                            format!("{:?}", store.key.open_bytes(bytes, &about(&row)).unwrap())
                        }
                        (_, Value::Bytes(bytes)) => format!("{bytes:?}"),
                        (_, Value::Text(text)) => format!("{text:?}"),
                        (_, Value::Integer(number)) if TRUTHS.contains(&&*column.name) => {
                            format!("{:?}", number.map(|number| number != 0))
                        }
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
        assert_eq!(outcome.rows.len(), rows(&store).await.len());
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
    async fn listed_tables_and_sealed_columns_exist() {
        let mut session = in_memory().await.unwrap();
        let there = query("SELECT name FROM sqlite_schema WHERE type = 'table'");
        let there: Vec<String> = there.fetch_scalars(&mut session).await.unwrap();
        assert_eq!(OF_HOSTS.iter().find(|name| !there.iter().any(|there| there == *name)), None);
        let tables = Table::all([&mut session]).await.unwrap();
        assert_eq!(tables.len() + OF_HOSTS.len(), there.len());
        let columns = tables.iter().flat_map(|table| &table.columns);
        assert_eq!(columns.filter(|column| column.subject.is_some()).count(), SEALED.len());
    }

    #[cfg(all(unix, feature = "postgres"))]
    #[tokio::test(flavor = "multi_thread")]
    async fn a_postgres_store_has_the_tables_and_columns_of_a_file() {
        let Some(server) = valvehouse_testkit::postgres::Postgres::start() else { return };
        let address = StoreAddress::Postgres(Secret::new(&server.database()));
        let store = open(&StoreSettings::at(address, key())).await.unwrap();
        let mut session = store.swift.session().await.unwrap();
        let columns = "SELECT table_name || '.' || column_name FROM information_schema.columns
            WHERE table_schema = 'public'";
        let mut there: Vec<String> = query(columns).fetch_scalars(&mut session).await.unwrap();
        // A file has no table of changes for other hosts.
        let is_left = |table: &str| OF_HOSTS.contains(&table) || table == "kv_changes";
        there.retain(|column| !is_left(column.split('.').next().unwrap()));
        there.sort();
        let tables = Table::all([&mut session]).await.unwrap();
        let known = tables
            .iter()
            .flat_map(|table| table.columns.iter().map(|column| format!("{}.{}", table.name, column.name)));
        let mut known: Vec<String> = known.collect();
        known.sort();
        assert_eq!(known, there);
    }
}
