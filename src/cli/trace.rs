//! `valvehouse trace`: the recorded requests of a running host.

use super::args::Trace as TraceArgs;
use super::remote::Remote;
use futures::StreamExt;
use std::path::Path;
use valvehouse_config::Config;
use valvehouse_json::Json;
use valvehouse_net::sse::Parser;
use valvehouse_terminal::trace_view::{difference, number, shown, standing, word};
use valvehouse_terminal::{CommandError, Console, Exit, clean, files, table};

/// The route that lists the requests of a host.
const TRACES: [&str; 3] = ["api", "v1", "traces"];

pub(super) async fn run(args: TraceArgs, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let host = Remote::of(config, args.at.as_deref())?;
    match (&args.id, &args.replay) {
        (Some(id), Some(plugin)) => return replay(&host, id, plugin, args.file.as_deref(), out).await,
        (Some(id), None) => show(&host, id, out).await?,
        (None, _) if args.follow => follow(&host, &args, out).await?,
        (None, _) => list(&host, &args, out).await?,
    }
    Ok(Exit::Done)
}

async fn list(host: &Remote, args: &TraceArgs, out: &Console) -> Result<(), CommandError> {
    let limit = args.limit.to_string();
    let given = [
        ("plugin", &args.plugin),
        ("model", &args.model),
        ("user", &args.user),
        ("key", &args.key),
        ("outcome", &args.outcome),
        ("status", &args.status),
        ("min_ms", &args.min_ms),
        ("from", &args.from),
        ("to", &args.to),
        ("cursor", &args.cursor),
    ];
    let given = given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let failed = args.failed.then_some(("failed", "true"));
    let words: Vec<(&str, &str)> = given.chain(failed).chain([("limit", limit.as_str())]).collect();
    let known = host.get(&TRACES, &words).await?;
    if out.is_json() {
        return Ok(out.json(&known)?);
    }
    let part = |name: &str| known.list(name);
    let all = [part("live"), part("past")].concat();
    if let Some(problem) = known.text("problem") {
        out.note(&format!("only the requests of this host since its start are listed: {}", clean(&problem)));
    }
    if all.is_empty() {
        out.note("no recorded request matches");
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
    out.line(&table(&rows))?;
    if let Some(next) = known.text("next") {
        out.note(&format!("the requests that follow: --cursor {next}"));
    }
    Ok(())
}

async fn show(host: &Remote, id: &str, out: &Console) -> Result<(), CommandError> {
    let trace = host.get(&[&TRACES[..], &[id]].concat(), &[]).await?;
    if out.is_json() {
        return Ok(out.json(&trace)?);
    }
    Ok(out.line(&shown(&trace, out.results()))?)
}

/// Returns the local time of day, with the day if it is not today.
fn begun(summary: &Json) -> String {
    let begun = summary.text("begun").and_then(|time| time.parse::<jiff::Timestamp>().ok());
    let local = begun.map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    let is_today = |time: &jiff::Zoned| time.date() == jiff::Zoned::now().date();
    local.map_or_else(
        || "-".to_owned(),
        |time| time.strftime(if is_today(&time) { "%H:%M:%S" } else { "%F %H:%M:%S" }).to_string(),
    )
}

/// Follows requests until the host stops or the output is closed.
async fn follow(host: &Remote, args: &TraceArgs, out: &Console) -> Result<(), CommandError> {
    let response = host.open(&["api", "v1", "events"], &[]).await?;
    out.note("following requests; Ctrl-C ends");
    let (mut bytes, mut parser) = (response.into_stream(), Parser::default());
    while let Some(piece) = bytes.next().await {
        parser.push(&piece?);
        for event in parser.by_ref() {
            let event = event.map_err(|error| CommandError::new(Exit::Unavailable, error.to_string()))?;
            let name = event.name.as_deref().unwrap_or("");
            if let Ok(data) = Json::parse(&event.data) {
                print_event(name, &data, args, out)?;
            }
        }
    }
    out.note("the host has stopped");
    Ok(())
}

fn print_event(name: &str, data: &Json, args: &TraceArgs, out: &Console) -> Result<(), CommandError> {
    let is = |expected: &Option<String>, key: &str| {
        expected.as_deref().is_none_or(|expected| data.text(key).as_deref() == Some(expected))
    };
    let is_request = matches!(name, "begun" | "ended");
    if is_request && !(is(&args.model, "model") && is(&args.user, "user")) {
        return Ok(());
    }
    if out.is_json() {
        return Ok(out.json(&Json::from([("event", name.into()), ("data", data.clone())]))?);
    }
    let paint = out.results();
    let line = match name {
        "begun" | "ended" => vec![
            begun(data),
            paint.bold(&word(data, "id")),
            name.to_owned(),
            word(data, "endpoint"),
            word(data, "model"),
            word(data, "user"),
            if name == "ended" { standing(data, paint) } else { String::new() },
            if name == "ended" { format!("{} ms", number(data, "took_ms")) } else { String::new() },
            paint.red(&word(data, "error").replace('\n', " ")),
        ],
        "emitted" => {
            let event = data.get("event").filter(|event| !event.is_null());
            let event = event.map_or_else(String::new, |event| clean(&event.to_string()));
            vec![paint.bold(&word(data, "trace")), word(data, "plugin"), word(data, "type"), event]
        }
        "snapshot" => vec![format!("generation {}", number(data, "generation"))],
        "lost" => vec![paint.yellow(&format!("{} events were skipped", number(data, "missed")))],
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
        let source = files::read_text(file, files::MAX_INPUT)?;
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
    out.note(&word(&replayed, "note"));
    Ok(exit)
}
