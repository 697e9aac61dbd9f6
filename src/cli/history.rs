//! `valvehouse history`: the versions of a plugin, their authors, and their differences.

use super::args;
use super::project::Project;
use valvehouse_config::Config;
use valvehouse_core::chat::serialized;
use valvehouse_host::SpelledJson;
use valvehouse_host::admin::{self, AdminError, Against, Detail, Entry, ValveChange};
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit, Paint, clean, table};

/// The length of the displayed hash prefix.
const SHORT: usize = 8;

pub(super) async fn run(args: &args::History, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let project = Project::look(config).await?;
    match args.version {
        None => list(&project, &args.id, out).await?,
        Some(version) => show(&project, args, version, out).await?,
    }
    project.store.close().await;
    Ok(Exit::Done)
}

async fn list(project: &Project, id: &str, out: &Console) -> Result<(), CommandError> {
    let entries = admin::entries(&project.store, &project.snapshot, id).await.map_err(refused)?;
    if out.is_json() {
        return Ok(out.json(&Json::from([("id", id.into()), ("history", serialized(&entries)?)]))?);
    }
    if entries.is_empty() {
        out.note(&format!("`{id}` has no history yet: it has never loaded"));
        return Ok(());
    }
    let paint = out.results();
    let head = ["VERSION", "WHEN", "BY", "WHAT", "TEXT", "VALVES CHANGED"];
    let mut rows = vec![head.map(|word| paint.dim(word)).to_vec()];
    rows.extend(entries.iter().map(|entry| row(entry, paint)));
    Ok(out.line(&table(&rows))?)
}

fn row(entry: &Entry, paint: Paint) -> Vec<String> {
    let text = entry.after.as_deref().map_or("gone", |hash| &hash[..SHORT.min(hash.len())]);
    let text = if entry.before == entry.after { paint.dim(text) } else { text.to_owned() };
    vec![
        paint.bold(&entry.version.to_string()),
        when(entry.at),
        clean(&entry.by).replace('\n', " "),
        entry.action.to_owned(),
        text,
        clean(&entry.valves_changed.join(", ")).replace('\n', " "),
    ]
}

async fn show(
    project: &Project,
    args: &args::History,
    version: u64,
    out: &Console,
) -> Result<(), CommandError> {
    let against = if args.current { Against::Current } else { Against::Before };
    let detail = admin::detail(&project.store, &project.snapshot, &args.id, version, against).await;
    let detail = detail.map_err(refused)?;
    if out.is_json() {
        return Ok(out.json(&serialized(&detail)?)?);
    }
    let of = &detail.entry;
    let (when, by) = (when(of.at), clean(&of.by).replace('\n', " "));
    out.line(&format!("{} version {}: {} by {by}, {when}", args.id, of.version, of.action))?;
    Ok(out.line(&differences(&detail, out.results()))?)
}

fn differences(detail: &Detail, paint: Paint) -> String {
    let valves = detail.valves_diff.iter().map(|ValveChange { key, before, after }| {
        let value = |SpelledJson(value): &SpelledJson| {
            if value.is_null() { "default".to_owned() } else { clean(&value.to_string()) }
        };
        format!("valve {key}: {} -> {}", value(before), value(after))
    });
    let lines = detail.diff.lines().map(|line| coloured(&clean(line), paint));
    let all: Vec<String> = valves.chain(lines).collect();
    if all.is_empty() { "text and valves are the same".to_owned() } else { all.join("\n") }
}

fn coloured(line: &str, paint: Paint) -> String {
    match line.chars().next() {
        Some('+') => paint.green(line),
        Some('-') => paint.red(line),
        Some('@') => paint.dim(line),
        _ => line.to_owned(),
    }
}

fn when(at: i64) -> String {
    let time = jiff::Timestamp::from_second(at).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Converts a rejected change, whose message contains all problems.
pub(super) fn refused(refused: AdminError) -> CommandError {
    refused.error.into()
}
