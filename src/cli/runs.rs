//! `valvehouse runs`: the runs of models with memory, and their conversations.

use super::args::{Runs as RunsArgs, RunsDo};
use super::reply::{waits_in_words, ways_on};
use std::path::Path;
use valvehouse_agent::{
    INTERRUPTED, RunQuery, Runs, Setup, checkpoint_to_json, conversation_to_json, run_to_json, standing,
};
use valvehouse_config::Config;
use valvehouse_core::chat::{ModelCall, message};
use valvehouse_core::text::count;
use valvehouse_host::app;
use valvehouse_json::Json;
use valvehouse_store as store;
use valvehouse_store::{Prune, Run};
use valvehouse_terminal::{CommandError, Console, Exit, Paint, clean, files, table};

/// The maximum number of characters of a text in a table.
const IN_A_LINE: usize = 60;
/// The maximum number of listed checkpoints.
const LISTED: u64 = 1000;

pub(super) async fn run(args: RunsArgs, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let store = match &args.what {
        Some(RunsDo::Import { .. }) => store::open(&config.store).await?,
        // A missing store has nothing to read or to delete.
        _ => store::open_to_read(&config.store).await?,
    };
    let runs = Runs::new(store, uuid::Uuid::new_v4().to_string());
    let done = dispatch(&runs, args, config, out).await;
    runs.store().close().await;
    done.map(|()| Exit::Done)
}

async fn dispatch(runs: &Runs, args: RunsArgs, config: &Config, out: &Console) -> Result<(), CommandError> {
    match args.what {
        None => {
            let (conversation, status) = (args.chat, args.status);
            list(runs, &RunQuery { agent: None, conversation, status, limit: args.limit }, out).await
        }
        Some(RunsDo::Show { run }) => show(runs, &run, config, out).await,
        Some(RunsDo::Checkpoints { chat }) => checkpoints(runs, &chat, out).await,
        Some(RunsDo::Fork { checkpoint, new }) => {
            let forked = runs.fork(&checkpoint, &new).await?;
            let count = many(forked.length, "message");
            print_result(out, &conversation_to_json(&forked), &format!("`{new}` has {count}; {}", on(&new)))
        }
        Some(RunsDo::Export { chat }) => Ok(out.json(&runs.export(&chat).await?)?),
        Some(RunsDo::Import { file, chat }) => {
            let imported = runs.import(&exported(&file)?, chat.as_deref()).await?;
            let (id, count) = (&imported.id, many(imported.length, "message"));
            print_result(out, &conversation_to_json(&imported), &format!("`{id}` has {count}; {}", on(id)))
        }
        Some(RunsDo::Prune { chat, keep }) => {
            if let Some(chat) = &chat {
                runs.conversation(chat).await?;
            }
            let usual = Prune::default();
            let whole_runs = keep.unwrap_or(usual.whole_runs);
            let keep = Prune { whole_runs, runs: usual.runs.max(whole_runs) };
            let dropped = runs.store().prune(chat.as_deref(), keep).await?;
            let output = Json::from([("dropped", dropped.into())]);
            print_result(out, &output, &format!("dropped {}", many(dropped, "checkpoint")))
        }
        Some(RunsDo::Forget { chat }) => {
            runs.forget(&chat).await?;
            let output = Json::from([("chat_id", chat.as_str().into()), ("deleted", true.into())]);
            print_result(out, &output, &format!("`{chat}` is deleted"))
        }
    }
}

fn on(chat: &str) -> String {
    format!("valvehouse chat --continue={chat}")
}

/// Reports the outcome, as JSON on stdout or as text on stderr.
fn print_result(out: &Console, output: &Json, words: &str) -> Result<(), CommandError> {
    if out.is_json() {
        out.json(output)?;
    } else {
        out.note(&clean(words));
    }
    Ok(())
}

fn exported(file: &Path) -> Result<Json, CommandError> {
    let (name, text) = match file.to_str() {
        Some("-") => ("stdin".to_owned(), files::read_stdin(files::MAX_INPUT)?),
        _ => (file.display().to_string(), files::read_text(file, files::MAX_INPUT)?),
    };
    Json::parse(text.as_bytes())
        .map_err(|error| CommandError::data(format!("{name} is not valid JSON: {error}")))
}

async fn list(runs: &Runs, query: &RunQuery, out: &Console) -> Result<(), CommandError> {
    let found = match query.status {
        Some(_) => runs.list(query).await?,
        None => runs.list_by_need(query).await?,
    };
    if out.is_json() {
        let all: Vec<Json> = found.iter().map(|(run, agent)| run_to_json(run, agent)).collect();
        out.json(&Json::from([("runs", all.into())]))?;
        return Ok(());
    }
    if found.is_empty() {
        out.note("no runs: only runs of models with `memory = true` in valvehouse.toml are stored");
        return Ok(());
    }
    let paint = out.results();
    let head = ["RUN", "STATUS", "CHAT", "MODEL", "WHEN", "WAITS FOR, OR FAILED WITH"];
    let mut rows = vec![head.map(|word| paint.dim(word)).to_vec()];
    rows.extend(found.iter().map(|(run, agent)| row(run, agent, paint)));
    out.line(&table(&rows))?;
    Ok(())
}

fn row(run: &Run, agent: &str, paint: Paint) -> Vec<String> {
    let waits = waits_in_words(&run_to_json(run, agent).field("pending_action"));
    let why = if waits.is_empty() { clean(&run.error) } else { waits };
    vec![
        paint.bold(&run.id),
        status(run, paint),
        in_a_line(&clean(&run.conversation)),
        clean(agent),
        time(run.updated_at),
        in_a_line(&why),
    ]
}

fn status(run: &Run, paint: Paint) -> String {
    match standing(run) {
        word @ ("paused" | INTERRUPTED) => paint.yellow(word),
        word @ "failed" => paint.red(word),
        word @ ("done" | "running") => paint.green(word),
        word => word.to_owned(),
    }
}

async fn show(runs: &Runs, id: &str, config: &Config, out: &Console) -> Result<(), CommandError> {
    let run = runs.run(id).await?;
    let setup = setup(runs, &run, config).await?;
    let state = runs.state(&run, setup.as_ref()).await?;
    if out.is_json() {
        out.json(&state)?;
        return Ok(());
    }
    let text = |key: &str| clean(&state.text_or_empty(key));
    let paint = out.results();
    out.line(&format!("run      {}", paint.bold(&clean(id))))?;
    out.line(&format!("chat     {}, with {}", text("chat_id"), text("agent")))?;
    out.line(&format!("status   {}, step {}, {}", status(&run, paint), run.step, time(run.updated_at)))?;
    if !run.error.is_empty() {
        out.line(&format!("error    {}", clean(&run.error)))?;
    }
    let pending = state.field("pending_action");
    if !pending.is_null() {
        out.line(&format!("waits    {}", waits_in_words(&pending)))?;
    }
    out.line("")?;
    for message in state.list("full_messages") {
        out.line(&message_text(&message, paint))?;
    }
    if run.status.can_go_on() && !run.is_alive() {
        out.note(&format!("\n{}", ways_on(id, &pending)));
    }
    Ok(())
}

/// Returns the setup with which the run would continue; `None` if the project no longer has its model.
async fn setup(runs: &Runs, run: &Run, config: &Config) -> Result<Option<Setup>, CommandError> {
    let Some(saved) = runs.last_saved(run).await? else { return Ok(None) };
    let (snapshot, store) = app::look(config).await?;
    let setup = app::setup_of(&snapshot, &saved).ok();
    store.close().await;
    Ok(setup)
}

/// Returns a message as text: the role, the content, and tool calls.
pub(super) fn message_text(message: &Json, paint: Paint) -> String {
    let text = clean(&message::text_of(message)).trim_end().replace('\n', "\n  ");
    let calls = ModelCall::all(message);
    let calls = calls.iter().map(|call| format!("calls {} {}", clean(&call.name), clean(&call.arguments)));
    let parts: Vec<String> = Some(text).filter(|text| !text.is_empty()).into_iter().chain(calls).collect();
    format!("{} {}", paint.dim(&format!("{}:", message::role_of(message))), parts.join("\n  "))
}

async fn checkpoints(runs: &Runs, chat: &str, out: &Console) -> Result<(), CommandError> {
    runs.conversation(chat).await?;
    let all = runs.store().checkpoints(chat, LISTED).await?;
    if out.is_json() {
        let all: Vec<Json> = all.iter().map(checkpoint_to_json).collect();
        out.json(&Json::from([("checkpoints", all.into())]))?;
        return Ok(());
    }
    let paint = out.results();
    let head = ["CHECKPOINT", "RUN", "STEP", "AFTER", "MESSAGES", "WHEN"];
    let mut rows = vec![head.map(|word| paint.dim(word)).to_vec()];
    rows.extend(all.into_iter().map(|one| {
        let (step, length) = (one.step.to_string(), one.length.to_string());
        vec![paint.bold(&one.id), one.run, step, clean(&one.name), length, time(one.saved_at)]
    }));
    out.line(&table(&rows))?;
    Ok(())
}

fn many(number: u64, one: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), one)
}

fn in_a_line(text: &str) -> String {
    let line = text.replace(['\n', '\t'], " ");
    match line.char_indices().nth(IN_A_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Returns a time in milliseconds since 1970 as local time.
fn time(milliseconds: i64) -> String {
    let Ok(time) = jiff::Timestamp::from_millisecond(milliseconds) else { return "-".to_owned() };
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
