//! `valvehouse trace`: the recorded requests of a running host.

use super::args::Trace as Asked;
use super::remote::Remote;
use futures::StreamExt;
use std::path::Path;
use valvehouse_config::Config;
use valvehouse_json::Json;
use valvehouse_net::sse::Parser;
use valvehouse_terminal::trace_view::{difference, number, shown, standing, word};
use valvehouse_terminal::{CommandError, Console, Exit, clean, table};

/// The route that lists the requests of a host.
const TRACES: [&str; 3] = ["api", "v1", "traces"];

pub(super) async fn run(asked: Asked, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let host = Remote::of(config, asked.at.as_deref())?;
    match (&asked.id, &asked.replay) {
        (Some(id), Some(plugin)) => return replay(&host, id, plugin, asked.file.as_deref(), out).await,
        (Some(id), None) => show(&host, id, out).await?,
        (None, _) if asked.follow => follow(&host, &asked, out).await?,
        (None, _) => list(&host, &asked, out).await?,
    }
    Ok(Exit::Done)
}

async fn list(host: &Remote, asked: &Asked, out: &Console) -> Result<(), CommandError> {
    let limit = asked.limit.to_string();
    let given = [("plugin", &asked.plugin), ("model", &asked.model), ("user", &asked.user)];
    let given = given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let failed = asked.failed.then_some(("failed", "true"));
    let words: Vec<(&str, &str)> = given.chain(failed).chain([("limit", limit.as_str())]).collect();
    let known = host.get(&TRACES, &words).await?;
    if out.is_json() {
        return Ok(out.json(&known)?);
    }
    let part = |name: &str| known.list(name);
    let all = [part("live"), part("past")].concat();
    if all.is_empty() {
        out.say("no recorded request matches");
        return Ok(());
    }
    let paint = out.results();
    let head = ["begun", "request", "endpoint", "model", "user", "status", "ms", "steps", ""];
    let mut rows = vec![head.map(|word| paint.dim(word)).to_vec()];
    rows.extend(all.iter().map(|summary| {
        vec![
            begun(summary),
            paint.bold(&word(summary, "id")),
            word(summary, "endpoint"),
            word(summary, "model"),
            word(summary, "user"),
            standing(summary, paint),
            number(summary, "took_ms"),
            number(summary, "steps"),
            word(summary, "error").replace('\n', " "),
        ]
    }));
    Ok(out.line(&table(&rows))?)
}

async fn show(host: &Remote, id: &str, out: &Console) -> Result<(), CommandError> {
    let trace = host.get(&[&TRACES[..], &[id]].concat(), &[]).await?;
    if out.is_json() {
        return Ok(out.json(&trace)?);
    }
    Ok(out.line(&shown(&trace, out.results()))?)
}

/// Returns the local time of day.
fn begun(summary: &Json) -> String {
    let begun = summary.text("begun").and_then(|time| time.parse::<jiff::Timestamp>().ok());
    let local = begun.map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    local.map_or_else(|| "-".to_owned(), |time| time.strftime("%H:%M:%S").to_string())
}

/// Follows requests until the host stops or the output is closed.
async fn follow(host: &Remote, asked: &Asked, out: &Console) -> Result<(), CommandError> {
    let response = host.open(&["api", "v1", "events"], &[]).await?;
    out.say("following requests; Ctrl-C ends");
    let (mut bytes, mut parser) = (response.into_stream(), Parser::default());
    while let Some(piece) = bytes.next().await {
        parser.push(&piece?);
        for event in parser.by_ref() {
            let event = event.map_err(|error| CommandError::new(Exit::Unavailable, error.to_string()))?;
            let name = event.name.as_deref().unwrap_or("");
            if let Ok(told) = Json::parse(&event.data) {
                tell(name, &told, asked, out)?;
            }
        }
    }
    out.say("the host has stopped");
    Ok(())
}

fn tell(name: &str, told: &Json, asked: &Asked, out: &Console) -> Result<(), CommandError> {
    let is = |wanted: &Option<String>, key: &str| {
        wanted.as_deref().is_none_or(|wanted| told.text(key).as_deref() == Some(wanted))
    };
    let is_request = matches!(name, "begun" | "ended");
    if is_request && !(is(&asked.model, "model") && is(&asked.user, "user")) {
        return Ok(());
    }
    if out.is_json() {
        return Ok(out.json(&Json::from([("event", name.into()), ("data", told.clone())]))?);
    }
    let paint = out.results();
    let line = match name {
        "begun" | "ended" => vec![
            begun(told),
            paint.bold(&word(told, "id")),
            name.to_owned(),
            word(told, "endpoint"),
            word(told, "model"),
            word(told, "user"),
            if name == "ended" { standing(told, paint) } else { String::new() },
            if name == "ended" { format!("{} ms", number(told, "took_ms")) } else { String::new() },
            paint.red(&word(told, "error").replace('\n', " ")),
        ],
        "emitted" => {
            let event = told.get("event").filter(|event| !event.is_null());
            let event = event.map_or_else(String::new, |event| clean(&event.to_string()));
            vec![paint.bold(&word(told, "trace")), word(told, "plugin"), word(told, "type"), event]
        }
        "snapshot" => vec![format!("generation {}", number(told, "generation"))],
        "lost" => vec![paint.yellow(&format!("{} events were too fast to be shown", number(told, "missed")))],
        _ => return Ok(()),
    };
    let line: Vec<String> = line.into_iter().filter(|part| !part.is_empty()).collect();
    Ok(out.line(&line.join("  "))?)
}

async fn replay(
    host: &Remote,
    id: &str,
    plugin: &str,
    file: Option<&Path>,
    out: &Console,
) -> Result<Exit, CommandError> {
    let body = Json::from([("plugin", plugin.into())]);
    if let Some(file) = file {
        let source = std::fs::read_to_string(file)
            .map_err(|error| CommandError::data(format!("cannot read {}: {error}", file.display())))?;
        // The object is new and not read-only.
        body.edit("source", source);
    }
    let replayed = host.post(&[&TRACES[..], &[id, "replay"]].concat(), &body).await?;
    let steps = replayed.list("steps");
    let is_same = |step: &Json| step.get("same").and_then(|same| same.as_bool()) == Some(true);
    let exit = if steps.iter().all(is_same) { Exit::Done } else { Exit::Findings };
    if out.is_json() {
        out.json(&replayed)?;
        return Ok(exit);
    }
    let paint = out.results();
    for step in &steps {
        let (was, is) =
            (word(&step.at_path("recorded"), "outcome"), word(&step.at_path("replayed"), "outcome"));
        let verdict = match is_same(step) {
            true => paint.green("same"),
            false if was == is => paint.yellow("differs"),
            false => paint.yellow(&format!("{was} → {is}")),
        };
        let cause = word(&step.at_path("replayed"), "cause").replace('\n', " ");
        let changes = difference(&step.list("diff"), paint);
        let line = format!("{}  {verdict}  {}", word(step, "hook"), paint.red(&cause));
        out.line(&format!("{}{changes}", line.trim_end()))?;
    }
    out.say(&word(&replayed, "note"));
    Ok(exit)
}
