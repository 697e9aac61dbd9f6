//! The check of a store: its file, and the values that it seals.

use crate::error::{Place, StoreError, StoreErrorKind};
use crate::open::open;
use crate::sql::{query, query_text};
use crate::tables::Table;
use valvehouse_grants::{StoreAddress, StoreSettings};

const DOING: &str = "check the store";

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreCheck {
    /// The problems, a sentence each.
    pub problems: Vec<String>,
    /// The number of rows by table.
    pub rows: Vec<(String, u64)>,
    /// The number of sealed values that the key opens.
    pub opened: u64,
}

/// Checks a store: the structure and the references of an SQLite file, and that the key opens all sealed values. Nothing is
/// changed.
///
/// # Errors
/// Returns an error if the store does not exist, cannot be opened or read, or if its key is missing or wrong.
pub async fn check(settings: &StoreSettings) -> Result<StoreCheck, StoreError> {
    if let (true, StoreAddress::Sqlite(file)) = (settings.address.is_new(), &settings.address) {
        let place = Place::File(file.clone());
        return Err(StoreError::new(DOING, &place, StoreErrorKind::Refused, "there is no such file"));
    }
    let store = open(settings).await?;
    let mut checked = StoreCheck::default();
    let read = async {
        let mut session = store.swift.snapshot().await?;
        if !store.is_shared() {
            let damage: Vec<String> = query("PRAGMA integrity_check(20)").fetch_scalars(&mut session).await?;
            checked.problems.extend(damage.into_iter().filter(|line| line != "ok"));
            let loose = "SELECT \"table\" || ': a row refers to a missing row of ' || parent FROM pragma_foreign_key_check";
            checked.problems.extend(query(loose).fetch_scalars::<String>(&mut session).await?);
        }
        for table in Table::all([&mut session]).await? {
            let count = query_text(format!("SELECT count(*) FROM {}", table.name));
            let count: i64 = count.fetch_scalar(&mut session).await?;
            let [opened, unopened] = table.sealed_values(&mut session, &store.key).await?;
            checked.opened += opened;
            if unopened > 0 {
                checked.problems.push(format!("{}: {unopened} sealed values cannot be opened", table.name));
            }
            checked.rows.push((table.name, count.unsigned_abs()));
        }
        session.commit().await
    };
    let read: Result<(), sqlx::Error> = read.await;
    read.map_err(|error| StoreError::from_sqlx(DOING, &store.place, &error))?;
    store.close().await;
    Ok(checked)
}
