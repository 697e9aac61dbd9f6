//! Statements and their parameters.

use super::row::{Column, Row};
use super::session::{Link, Session};
#[cfg(feature = "postgres")]
use sqlx::Connection as _;
use sqlx::query::Query as Prepared;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Error, Sqlite};
use std::borrow::Cow;

/// Creates an array of parameters: `values![id, now()]`.
macro_rules! values {
    ($($value:expr),+ $(,)?) => { [$($crate::sql::Value::from($value)),+] };
}
pub(crate) use values;

/// A parameter of a statement; `None` is a null of its type.
#[derive(Clone)]
pub(crate) enum Value<'q> {
    Text(Option<Cow<'q, str>>),
    Integer(Option<i64>),
    Bool(Option<bool>),
    Bytes(Option<Cow<'q, [u8]>>),
}

/// A statement and its parameters.
pub(crate) struct Query<'q> {
    text: Cow<'static, str>,
    values: Vec<Value<'q>>,
}

/// Creates a statement.
pub(crate) fn query<'q>(text: &'static str) -> Query<'q> {
    Query { text: text.into(), values: Vec::new() }
}

/// Creates a statement whose text is composed at run time.
pub(crate) fn query_text<'q>(text: String) -> Query<'q> {
    Query { text: text.into(), values: Vec::new() }
}

/// Creates a statement that inserts these rows at once: `head`, the values, and `tail`.
pub(crate) fn insert<'q, const COLUMNS: usize>(
    head: &str,
    rows: impl IntoIterator<Item = [Value<'q>; COLUMNS]>,
    tail: &str,
) -> Query<'q> {
    insert_rows(head, COLUMNS, rows.into_iter().flatten().collect(), tail)
}

/// Creates an insert statement from the values of all rows, one row after the other.
pub(crate) fn insert_rows<'q>(head: &str, columns: usize, values: Vec<Value<'q>>, tail: &str) -> Query<'q> {
    let row = format!("({})", vec!["?"; columns].join(", "));
    let rows = vec![row; values.len() / columns].join(", ");
    Query { text: format!("{head} VALUES {rows} {tail}").into(), values }
}

impl<'q> Query<'q> {
    /// Adds the next parameter.
    pub(crate) fn bind(mut self, value: impl Into<Value<'q>>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Adds the next parameters.
    pub(crate) fn bind_all(mut self, values: impl IntoIterator<Item = Value<'q>>) -> Self {
        self.values.extend(values);
        self
    }

    /// Executes the statement. Returns the number of changed rows.
    pub(crate) async fn execute(self, session: &mut Session) -> Result<u64, Error> {
        Ok(match session.link() {
            Link::Sqlite(connection) => self.sqlite().execute(connection).await?.rows_affected(),
            #[cfg(feature = "postgres")]
            Link::Postgres { connection, is_pooled } => {
                self.postgres(!is_pooled).execute(connection).await?.rows_affected()
            }
            #[cfg(feature = "postgres")]
            Link::Pooled(connection) => {
                let mut transaction = connection.begin().await?;
                let done = self.postgres(false).execute(&mut *transaction).await?.rows_affected();
                transaction.commit().await?;
                done
            }
        })
    }

    pub(crate) async fn fetch_all(self, session: &mut Session) -> Result<Vec<Row>, Error> {
        Ok(match session.link() {
            Link::Sqlite(connection) => {
                self.sqlite().fetch_all(connection).await?.into_iter().map(Row::Sqlite).collect()
            }
            #[cfg(feature = "postgres")]
            Link::Postgres { connection, is_pooled } => self
                .postgres(!is_pooled)
                .fetch_all(connection)
                .await?
                .into_iter()
                .map(Row::Postgres)
                .collect(),
            #[cfg(feature = "postgres")]
            Link::Pooled(connection) => {
                let mut transaction = connection.begin().await?;
                let rows = self.postgres(false).fetch_all(&mut *transaction).await?;
                transaction.commit().await?;
                rows.into_iter().map(Row::Postgres).collect()
            }
        })
    }

    pub(crate) async fn fetch_optional(self, session: &mut Session) -> Result<Option<Row>, Error> {
        Ok(self.fetch_all(session).await?.into_iter().next())
    }

    pub(crate) async fn fetch_one(self, session: &mut Session) -> Result<Row, Error> {
        self.fetch_optional(session).await?.ok_or(Error::RowNotFound)
    }

    /// Returns the first column of all rows.
    pub(crate) async fn fetch_scalars<T: for<'r> Column<'r>>(
        self,
        session: &mut Session,
    ) -> Result<Vec<T>, Error> {
        self.fetch_all(session).await?.iter().map(Row::first).collect()
    }

    /// Returns the first column of the first row, if there is one.
    pub(crate) async fn fetch_scalar_optional<T: for<'r> Column<'r>>(
        self,
        session: &mut Session,
    ) -> Result<Option<T>, Error> {
        self.fetch_optional(session).await?.as_ref().map(Row::first).transpose()
    }

    /// Returns the first column of the first row.
    pub(crate) async fn fetch_scalar<T: for<'r> Column<'r>>(self, session: &mut Session) -> Result<T, Error> {
        self.fetch_one(session).await?.first()
    }

    fn sqlite(self) -> Prepared<'q, Sqlite, SqliteArguments> {
        let query = sqlx::query(AssertSqlSafe(self.text));
        self.values.into_iter().fold(query, |query, value| match value {
            Value::Text(text) => query.bind(text),
            Value::Integer(number) => query.bind(number),
            Value::Bool(is_so) => query.bind(is_so),
            Value::Bytes(bytes) => query.bind(bytes.map(Cow::into_owned)),
        })
    }

    #[cfg(feature = "postgres")]
    fn postgres(self, persistent: bool) -> Prepared<'q, sqlx::Postgres, sqlx::postgres::PgArguments> {
        let query = sqlx::query(AssertSqlSafe(numbered(&self.text))).persistent(persistent);
        self.values.into_iter().fold(query, |query, value| match value {
            Value::Text(text) => query.bind(text),
            Value::Integer(number) => query.bind(number),
            Value::Bool(is_so) => query.bind(is_so),
            Value::Bytes(bytes) => query.bind(bytes.map(Cow::into_owned)),
        })
    }
}

/// Replaces `?` and `?1` by `$1`, as Postgres expects. Statements contain question marks in parameters only.
#[cfg(feature = "postgres")]
fn numbered(text: &str) -> String {
    let mut numbered = String::with_capacity(text.len() + 16);
    let mut parts = text.split('?');
    parts.next().into_iter().for_each(|first| numbered.push_str(first));
    for (number, part) in (1..).zip(parts) {
        numbered.push('$');
        if !part.starts_with(|letter: char| letter.is_ascii_digit()) {
            numbered.push_str(&number.to_string());
        }
        numbered.push_str(part);
    }
    numbered
}

/// Implements the conversion of a type, and that of its option to a value that may be null.
macro_rules! conversions {
    ($($variant:ident($type:ty): $convert:expr;)+) => {
        $(impl<'q> From<$type> for Value<'q> {
            fn from(value: $type) -> Self {
                Some(value).into()
            }
        }

        impl<'q> From<Option<$type>> for Value<'q> {
            fn from(value: Option<$type>) -> Self {
                Self::$variant(value.map($convert))
            }
        })+
    };
}

conversions! {
    Text(&'q str): Cow::Borrowed;
    Text(&'q String): |text: &'q String| Cow::Borrowed(text.as_str());
    Text(String): Cow::Owned;
    Integer(i64): std::convert::identity;
    Integer(u32): i64::from;
    // A count; none comes near the limit of the column.
    Integer(u64): |number| i64::try_from(number).unwrap_or(i64::MAX);
    Bool(bool): std::convert::identity;
    Bytes(Vec<u8>): Cow::Owned;
}

impl<'q> From<&'q Option<String>> for Value<'q> {
    fn from(text: &'q Option<String>) -> Self {
        text.as_deref().into()
    }
}
