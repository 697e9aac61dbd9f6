//! `valvehouse usage`: what clients used, from the store.

use super::args;
use valvehouse_config::Config;
use valvehouse_host::usage::{self, UsageEntry};
use valvehouse_json::Json;
use valvehouse_store::{self as store, UsageQuery};
use valvehouse_terminal::{CommandError, Console, Exit, clean, table};

/// The length of the longest bar.
const BAR: usize = 20;

pub(super) async fn run(args: &args::Usage, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let texts = [Some(&*args.since), args.until.as_deref(), Some(&*args.by), args.step.as_deref()];
    let asked = usage::question(texts).map_err(|why| CommandError::usage(why.to_string()))?;
    let store = store::open_to_read(&config.store).await?;
    let entries = usage::entries(&store, &asked).await?;
    store.close().await;
    if out.is_json() {
        let entries: Vec<Json> = entries.iter().map(UsageEntry::to_json).collect();
        out.json(&Json::from([("usage", entries.into())]))?;
        return Ok(Exit::Done);
    }
    if entries.is_empty() {
        out.note("no requests in this time");
        return Ok(Exit::Done);
    }
    out.line(&table(&rows(&entries, &asked, out)))?;
    Ok(Exit::Done)
}

fn rows(entries: &[UsageEntry], asked: &UsageQuery, out: &Console) -> Vec<Vec<String>> {
    let paint = out.results();
    let most = entries.iter().map(|entry| entry.requests).max().unwrap_or(1).max(1);
    let at = (asked.step > 0).then_some("FROM (UTC)");
    let by: Vec<String> = asked.by.iter().map(|dimension| dimension.as_str().to_uppercase()).collect();
    let numbers =
        ["REQUESTS", "", "ERRORS", "REFUSED", "TOKENS IN", "TOKENS OUT", "COST", "P50", "P95", "FIRST"];
    let titles = at.into_iter().chain(by.iter().map(String::as_str)).chain(numbers);
    let mut rows = vec![titles.map(|title| paint.dim(title)).collect::<Vec<_>>()];
    let ms = |ms: Option<f64>| ms.map_or(String::new(), |ms| format!("{ms:.0} ms"));
    rows.extend(entries.iter().map(|entry| {
        let at = (asked.step > 0).then(|| entry.at.strftime("%Y-%m-%d %H:%M").to_string());
        let length = usize::try_from(entry.requests * BAR as i64 / most).unwrap_or(0).max(1);
        let errors = entry.client_errors + entry.server_errors;
        let by = entry.by.values().map(|value| match value.is_empty() {
            true => paint.dim("none"),
            false => paint.bold(&clean(value)),
        });
        let numbers = [
            entry.requests.to_string(),
            "█".repeat(length),
            if errors > 0 { paint.red(&errors.to_string()) } else { "0".to_owned() },
            entry.refusals.to_string(),
            entry.prompt_tokens.to_string(),
            entry.completion_tokens.to_string(),
            if entry.cost > 0.0 { cost(entry.cost) } else { String::new() },
            ms(entry.p50_ms),
            ms(entry.p95_ms),
            ms(entry.first_ms),
        ];
        at.into_iter().chain(by).chain(numbers).collect()
    }));
    rows
}

/// Returns a cost, which has at most six decimals; those of a large one are rounded to three.
pub(super) fn cost(cost: f64) -> String {
    if cost < 0.1 { ((cost * 1e6).round() / 1e6).to_string() } else { format!("{cost:.3}") }
}

#[cfg(test)]
mod tests {
    #[test]
    fn small_costs_are_not_zero() {
        assert_eq!([0.000_466, 0.25, 12.345_6].map(super::cost), ["0.000466", "0.250", "12.346"]);
    }
}
