//! The usage of clients: sums to which the hosts of a store add.

use super::database::Store;
use crate::clock::now;
use crate::error::StoreResult;
use crate::sql::{Lock, Row, Value, insert_rows, query_text, values};
use crate::usage::{COUNT_NAMES, Counts, Dimension, UsageCount, UsageQuery, UsageRow};

/// The lengths of stored periods in seconds, each with the age from which on its rows are added to the next one.
const STEPS: [(i64, i64); 2] = [(60, 24 * 60 * 60), (60 * 60, 30 * 24 * 60 * 60)];
/// The length of the longest periods.
const DAY: i64 = 24 * 60 * 60;
/// The age from which on rows are deleted.
const KEPT: i64 = 3 * 366 * DAY;
/// The number of rows in one statement.
const BATCH: usize = 100;

/// A table of sums.
struct Sums {
    table: &'static str,
    by: &'static [Dimension],
    counts: &'static [&'static str],
}

const USAGE: Sums = Sums { table: "usage", by: &Dimension::ALL, counts: &COUNT_NAMES };
const REFUSALS: Sums = Sums { table: "refusals", by: &[Dimension::Plugin], counts: &["refusals"] };

impl Sums {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        ["step", "at"]
            .into_iter()
            .chain(self.by.iter().map(|own| own.column()))
            .chain(self.counts.iter().copied())
    }

    /// Returns the columns of the dimensions, each after a comma.
    fn dimensions(&self) -> String {
        self.by.iter().map(|own| format!(", {}", own.column())).collect()
    }

    fn head(&self) -> String {
        format!("INSERT INTO {} ({})", self.table, self.columns().collect::<Vec<_>>().join(", "))
    }

    /// Returns the end of an insert that adds to the sums of existing rows.
    fn on_conflict(&self) -> String {
        let add = |name: &&str| format!("{name} = {}.{name} + excluded.{name}", self.table);
        let sums: Vec<String> = self.counts.iter().map(add).collect();
        format!("ON CONFLICT (step, at{}) DO UPDATE SET {}", self.dimensions(), sums.join(", "))
    }
}

/// The usage of clients.
impl Store {
    /// Adds sums of minutes: rows of requests with all dimensions, and rows of refusals with their plugin alone.
    pub async fn add_usage(&self, rows: &[UsageRow]) -> StoreResult<()> {
        self.work("store the usage", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            for sums in [USAGE, REFUSALS] {
                let own: Vec<&UsageRow> = rows.iter().filter(|row| row.by.len() == sums.by.len()).collect();
                let row = |row: &&UsageRow| -> Vec<Value<'static>> {
                    let by = row.by.iter().map(|value| Value::from(value.clone()));
                    let counts = COUNT_NAMES.into_iter().zip(row.counts.0);
                    let counts = counts.filter(|(name, _)| sums.counts.contains(name));
                    let counts = counts.map(|(_, count)| Value::from(count));
                    values![60_i64, row.at - row.at.rem_euclid(60)]
                        .into_iter()
                        .chain(by)
                        .chain(counts)
                        .collect()
                };
                for batch in own.chunks(BATCH) {
                    let values = batch.iter().flat_map(row).collect();
                    let insert =
                        insert_rows(&sums.head(), sums.columns().count(), values, &sums.on_conflict());
                    insert.execute(&mut transaction).await?;
                }
            }
            transaction.commit().await
        })
        .await
    }

    /// Returns sums by period and group, the earliest first. By [`Dimension::Plugin`], it is those of refused requests.
    pub async fn usage(&self, asked: &UsageQuery) -> StoreResult<Vec<UsageRow>> {
        let sums = if asked.by == [Dimension::Plugin] { REFUSALS } else { USAGE };
        let period = match asked.step {
            0 => format!("CAST({} AS BIGINT)", asked.from),
            step => format!("at / {step} * {step}"),
        };
        let by: Vec<&str> = asked.by.iter().map(|dimension| dimension.column()).collect();
        let by_columns: String = by.iter().map(|column| format!(", {column}")).collect();
        let all: String =
            sums.counts.iter().map(|name| format!(", CAST(SUM({name}) AS BIGINT) AS {name}")).collect();
        let of: String =
            asked.of.iter().map(|(dimension, _)| format!(" AND {} = ?", dimension.column())).collect();
        let text = format!(
            "SELECT {period} AS period{by_columns}{all} FROM {} WHERE at >= ? AND at < ?{of}
             GROUP BY 1{by_columns} ORDER BY 1{by_columns}",
            sums.table
        );
        let read = |row: &Row| {
            let mut counts = Counts::default();
            for (count, name) in counts.0.iter_mut().zip(COUNT_NAMES) {
                if sums.counts.contains(&name) {
                    *count = row.try_get(name)?;
                }
            }
            // Each refusal is that of a request.
            counts[UsageCount::Requests] = counts[UsageCount::Requests].max(counts[UsageCount::Refusals]);
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
            for sums in [USAGE, REFUSALS] {
                let (table, dimensions) = (sums.table, sums.dimensions());
                for (place, (step, age)) in STEPS.into_iter().enumerate() {
                    let longer = STEPS.get(place + 1).map_or(DAY, |(longer, _)| *longer);
                    // Only complete periods.
                    let end = (now - age).div_euclid(longer) * longer;
                    let all: String =
                        sums.counts.iter().map(|name| format!(", CAST(SUM({name}) AS BIGINT)")).collect();
                    let add = format!(
                        "{} SELECT {longer}, at / {longer} * {longer}{dimensions}{all} FROM {table}
                         WHERE step = ? AND at < ? GROUP BY 2{dimensions} {}",
                        sums.head(),
                        sums.on_conflict()
                    );
                    query_text(add).bind_all(values![step, end]).execute(&mut transaction).await?;
                    let delete = format!("DELETE FROM {table} WHERE step = ? AND at < ?");
                    query_text(delete).bind_all(values![step, end]).execute(&mut transaction).await?;
                }
                let delete = format!("DELETE FROM {table} WHERE at < ?");
                query_text(delete).bind(now - KEPT).execute(&mut transaction).await?;
            }
            transaction.commit().await
        })
        .await
    }
}
