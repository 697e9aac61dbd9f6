//! The usage of clients: sums to which the hosts of a store add.

use super::database::Store;
use crate::clock::now;
use crate::error::StoreResult;
use crate::sql::{Lock, Row, Value, insert_rows, query, query_text, values};
use crate::usage::{COUNT_NAMES, Counts, Dimension, UsageQuery, UsageRow};

/// The lengths of stored periods in seconds, each with the age from which on its rows are added to the next one.
const STEPS: [(i64, i64); 2] = [(60, 24 * 60 * 60), (60 * 60, 30 * 24 * 60 * 60)];
/// The length of the longest periods.
const DAY: i64 = 24 * 60 * 60;
/// The age from which on rows are deleted.
const KEPT: i64 = 3 * 366 * DAY;
/// The number of rows in one statement.
const BATCH: usize = 100;

/// The usage of clients.
impl Store {
    /// Adds sums of minutes, whose rows have all dimensions.
    pub async fn add_usage(&self, rows: &[UsageRow]) -> StoreResult<()> {
        self.work("store the usage", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            for batch in rows.chunks(BATCH) {
                let row = |row: &UsageRow| -> Vec<Value<'static>> {
                    let by = row.by.iter().map(|value| Value::from(value.clone()));
                    let counts = row.counts.0.map(Value::from);
                    values![60_i64, row.at - row.at.rem_euclid(60)]
                        .into_iter()
                        .chain(by)
                        .chain(counts)
                        .collect()
                };
                let values = batch.iter().flat_map(row).collect();
                let insert = insert_rows(&head(), columns().len(), values, &on_conflict());
                insert.execute(&mut transaction).await?;
            }
            transaction.commit().await
        })
        .await
    }

    /// Returns sums by period and group, the earliest first.
    pub async fn usage(&self, asked: &UsageQuery) -> StoreResult<Vec<UsageRow>> {
        let period = match asked.step {
            0 => format!("CAST({} AS BIGINT)", asked.from),
            step => format!("at / {step} * {step}"),
        };
        let by: Vec<&str> = asked.by.iter().map(|dimension| dimension.column()).collect();
        let by_columns: String = by.iter().map(|column| format!(", {column}")).collect();
        let sums: String =
            COUNT_NAMES.iter().map(|name| format!(", CAST(SUM({name}) AS BIGINT) AS {name}")).collect();
        let of: String =
            asked.of.iter().map(|(dimension, _)| format!(" AND {} = ?", dimension.column())).collect();
        let text = format!(
            "SELECT {period} AS period{by_columns}{sums} FROM usage WHERE at >= ? AND at < ?{of}
             GROUP BY 1{by_columns} ORDER BY 1{by_columns}"
        );
        let read = |row: &Row| {
            let mut counts = Counts::default();
            for (count, name) in counts.0.iter_mut().zip(COUNT_NAMES) {
                *count = row.try_get(name)?;
            }
            let by = by.iter().map(|column| row.try_get(column)).collect::<Result<_, _>>()?;
            Ok(UsageRow { at: row.try_get("period")?, by, counts })
        };
        let of = asked.of.iter().map(|(_, value)| Value::from(value.clone()));
        let values = values![asked.from, asked.to].into_iter().chain(of);
        self.fetch("read the usage", query_text(text).bind_all(values), read).await
    }

    /// Adds old minutes to hours and old hours to days, and deletes what is older than three years. Several hosts may
    /// do it at the same time.
    pub async fn compact_usage(&self) -> StoreResult<()> {
        let now = now() / 1000;
        self.work("compact the usage", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            for (place, (step, age)) in STEPS.into_iter().enumerate() {
                let longer = STEPS.get(place + 1).map_or(DAY, |(longer, _)| *longer);
                // Only complete periods.
                let end = (now - age).div_euclid(longer) * longer;
                let dimensions = Dimension::ALL.map(Dimension::column).join(", ");
                let sums: Vec<String> =
                    COUNT_NAMES.iter().map(|name| format!("CAST(SUM({name}) AS BIGINT)")).collect();
                let add = format!(
                    "{} SELECT {longer}, at / {longer} * {longer}, {dimensions}, {} FROM usage
                     WHERE step = ? AND at < ? GROUP BY 2, {dimensions} {}",
                    head(),
                    sums.join(", "),
                    on_conflict()
                );
                query_text(add).bind_all(values![step, end]).execute(&mut transaction).await?;
                let delete = query("DELETE FROM usage WHERE step = ? AND at < ?");
                delete.bind_all(values![step, end]).execute(&mut transaction).await?;
            }
            query("DELETE FROM usage WHERE at < ?").bind(now - KEPT).execute(&mut transaction).await?;
            transaction.commit().await
        })
        .await
    }
}

fn columns() -> Vec<&'static str> {
    let dimensions = Dimension::ALL.map(Dimension::column);
    ["step", "at"].into_iter().chain(dimensions).chain(COUNT_NAMES).collect()
}

fn head() -> String {
    format!("INSERT INTO usage ({})", columns().join(", "))
}

/// Returns the end of an insert that adds to the sums of existing rows.
fn on_conflict() -> String {
    let dimensions = Dimension::ALL.map(Dimension::column).join(", ");
    let sums: Vec<String> =
        COUNT_NAMES.iter().map(|name| format!("{name} = usage.{name} + excluded.{name}")).collect();
    format!("ON CONFLICT (step, at, {dimensions}) DO UPDATE SET {}", sums.join(", "))
}
