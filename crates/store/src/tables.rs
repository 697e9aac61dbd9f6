//! The tables of a store as its migrations create them, and their sealed columns.

use crate::rows::sealed_value::{valves_of, version_of};
use crate::sql::{Row, Session, Value, query};
use crate::sqlite::open::in_memory;
use crate::store::{secrets, traces, vectors};
use std::collections::HashSet;

/// Tables whose rows concern running hosts or the database itself. The rows of all others outlive hosts.
pub(crate) const OF_HOSTS: [&str; 8] = [
    "_sqlx_migrations",
    "client_sessions",
    "hosts",
    "question_answers",
    "questions",
    "sealing",
    "secret_leases",
    "store",
];

/// Returns the subject that a value is sealed for, by the columns of its row, those of the key first.
pub(crate) type Subject = fn(&[Value<'static>]) -> String;

/// The columns with sealed values in the tables whose rows outlive hosts.
pub(crate) const SEALED: &[(&str, &str, Subject)] = &[
    ("valves", "content", |row| valves_of(name(row), text(row, 1))),
    ("versions", "valves", |row| version_of(name(row), integer(row, 1))),
    ("secrets", "content", |row| secrets::subject(name(row))),
    ("traces", "facts", |row| traces::facts_of(name(row))),
    ("traces", "steps", |row| traces::steps_of(name(row))),
    ("vectors", "data", subject_of_vector),
    ("vectors", "vector", subject_of_vector),
];

fn subject_of_vector(row: &[Value<'static>]) -> String {
    vectors::subject(text(row, 1).unwrap_or(""), text(row, 2).unwrap_or(""))
}

/// A table whose rows outlive hosts.
pub(crate) struct Table {
    pub(crate) name: String,
    /// The columns, those of the key first.
    pub(crate) columns: Vec<Column>,
    /// The number of columns that form the key of a row; 0 if there is none: such a table is read at once.
    pub(crate) key: usize,
}

/// A column of a table.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The subject of its values if they are sealed.
    pub(crate) subject: Option<Subject>,
}

/// The type of a column.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Text,
    Integer,
    Bool,
    Bytes,
}

impl Table {
    /// Returns the tables whose rows outlive hosts, each after those that it refers to, as they are in the stores of
    /// these sessions.
    pub(crate) async fn all<'s>(
        sessions: impl IntoIterator<Item = &'s mut Session>,
    ) -> sqlx::Result<Vec<Self>> {
        let mut bools = HashSet::new();
        // SQLite has no type for them.
        for session in sessions.into_iter().filter(|session| session.is_shared()) {
            let found = "SELECT table_name || '.' || column_name FROM information_schema.columns
                WHERE table_schema = current_schema() AND data_type = 'boolean'";
            bools.extend(query(found).fetch_scalars::<String>(session).await?);
        }
        let columns = "SELECT one.name AS of_table, info.name AS name, info.type AS type, info.pk AS key
            FROM sqlite_schema AS one JOIN pragma_table_info(one.name) AS info
            WHERE one.type = 'table' ORDER BY one.rowid, info.pk = 0, info.pk, info.cid";
        let mut tables: Vec<Self> = Vec::new();
        for row in query(columns).fetch_all(&mut in_memory().await?).await? {
            let table: String = row.try_get("of_table")?;
            if OF_HOSTS.contains(&&*table) {
                continue;
            }
            if tables.last().is_none_or(|last| last.name != table) {
                tables.push(Self { name: table, columns: Vec::new(), key: 0 });
            }
            if let Some(table) = tables.last_mut() {
                table.key += usize::from(row.count("key")? > 0);
                table.columns.push(Column::read(&row, &table.name, &bools)?);
            }
        }
        Ok(tables)
    }

    pub(crate) fn column_names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| &*column.name).collect()
    }
}

impl Column {
    fn read(row: &Row, table: &str, bools: &HashSet<String>) -> sqlx::Result<Self> {
        let name: String = row.try_get("name")?;
        let kind = match row.try_get("type")? {
            "TEXT" => Kind::Text,
            "BLOB" => Kind::Bytes,
            _ if bools.contains(&format!("{table}.{name}")) => Kind::Bool,
            _ => Kind::Integer,
        };
        let sealed = SEALED.iter().find(|(of, column, _)| (*of, *column) == (table, &name));
        Ok(Self { kind, subject: sealed.map(|(.., subject)| *subject), name })
    }
}

pub(crate) fn text<'v>(row: &'v [Value<'static>], place: usize) -> Option<&'v str> {
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
