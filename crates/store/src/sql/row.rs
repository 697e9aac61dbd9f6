//! Rows of the databases.

#[cfg(feature = "postgres")]
use sqlx::postgres::{PgRow, Postgres};
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Error, Row as _, Sqlite, Type};

/// Reads a value from a row: the fields that are columns of the same names, and others.
macro_rules! columns {
    ($row:ident => $type:ident { $($column:ident),+ $(; $($others:tt)+)? }) => {
        $type { $($column: $row.try_get(stringify!($column))?,)+ $($($others)+)? }
    };
}
pub(crate) use columns;

/// A row of one of the databases.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    #[cfg(feature = "postgres")]
    Postgres(PgRow),
}

/// A type that columns of each database can be read as.
#[cfg(not(feature = "postgres"))]
pub(crate) trait Column<'r>: Decode<'r, Sqlite> + Type<Sqlite> {}

#[cfg(not(feature = "postgres"))]
impl<'r, T: Decode<'r, Sqlite> + Type<Sqlite>> Column<'r> for T {}

/// A type that columns of each database can be read as.
#[cfg(feature = "postgres")]
pub(crate) trait Column<'r>:
    Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>
{
}

#[cfg(feature = "postgres")]
impl<'r, T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>> Column<'r> for T {}

impl Row {
    /// Reads a column.
    ///
    /// # Errors
    /// Returns an error if the column does not exist or has another type.
    pub(crate) fn try_get<'r, T: Column<'r>>(&'r self, column: &str) -> Result<T, Error> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            #[cfg(feature = "postgres")]
            Self::Postgres(row) => row.try_get(column),
        }
    }

    /// Reads a column with a count.
    pub(crate) fn count(&self, column: &str) -> Result<u64, Error> {
        self.try_get::<i64>(column).map(i64::unsigned_abs)
    }

    /// Reads the first column.
    pub(crate) fn first<'r, T: Column<'r>>(&'r self) -> Result<T, Error> {
        match self {
            Self::Sqlite(row) => row.try_get(0),
            #[cfg(feature = "postgres")]
            Self::Postgres(row) => row.try_get(0),
        }
    }
}
