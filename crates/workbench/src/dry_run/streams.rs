//! Dry runs of the stream hooks on the events of an answer.

use super::body::Body;
use super::options::DryRunOptions;
use super::outcome::{self, ResultView};
use super::target::{self, DryRunTarget};
use valvehouse_core::chat::{delta, event, response};
use valvehouse_core::context::Turn;
use valvehouse_core::error::Error;
use valvehouse_core::filter::{ChainOutcome, Hook};
use valvehouse_core::kernel::Kernel;
use valvehouse_core::text::optional;
use valvehouse_json::Json;
use valvehouse_script::SandboxRun;
use valvehouse_terminal::{CommandError, Console, Exit, Paint, clean};

/// An input event, or `None` for the end of the stream, and the output events for it.
struct EventPair {
    before: Option<Json>,
    after: Vec<Json>,
}

pub(super) async fn run(
    target: &DryRunTarget,
    hook: Hook,
    body: Body,
    options: &DryRunOptions,
    out: &Console,
) -> Result<Exit, CommandError> {
    let events = chunks(hook, body)?;
    let tried = target::turn(options, &target.snapshot)?;
    let kernel = target.own.chain().build();
    let mut passed = Vec::new();
    let work = through(&kernel, hook, events, &tried.turn, &mut passed);
    let came = SandboxRun::from(tried.turn.lasting(work).await.map(|()| ChainOutcome::Done(Json::Null)));
    let after: Vec<Json> = passed.iter().flat_map(|passed| passed.after.iter().cloned()).collect();
    let text: String = after.iter().map(|one| event::text(one).to_string()).collect();
    let stream = passed.iter().map(EventPair::as_json).collect::<Vec<_>>();
    let view = ResultView {
        fields: vec![("text", text.as_str().into()), ("stream", stream.into())],
        value: Some(after.into()),
        text: Some(text.clone()),
        below: &|| show(&passed, &text, out),
        only_costs: true,
    };
    outcome::finish(target, options, tried.recording, &came, &view, out)
}

/// Passes all events through `stream`, then ends the stream.
async fn through(
    kernel: &Kernel,
    hook: Hook,
    events: Vec<Json>,
    turn: &Turn,
    passed: &mut Vec<EventPair>,
) -> Result<(), Error> {
    let template = events.last().cloned().unwrap_or_else(|| whole("", None));
    if hook == Hook::Stream {
        for event in events {
            let before = event.deep_clone();
            let after = kernel.stream_event(event, turn).await?;
            // Hooks may retain their values and change them later.
            let after = after.iter().map(Json::deep_clone).collect();
            passed.push(EventPair { before: Some(before), after });
        }
    }
    let added = kernel.stream_end(template, turn).await?;
    if !added.is_empty() {
        passed.push(EventPair { before: None, after: added.iter().map(Json::deep_clone).collect() });
    }
    Ok(())
}

/// Returns the events of the input, with an event that ends the answer.
fn chunks(hook: Hook, body: Body) -> Result<Vec<Json>, CommandError> {
    let mut events = match body {
        Body::Text(text) => text.split_inclusive(' ').map(|word| whole(word, None)).collect(),
        Body::Events(events) => events,
        Body::Value(Json::Array(chunks)) => {
            chunks.items().iter().map(chunk).collect::<Result<Vec<_>, _>>()?
        }
        Body::Value(answer @ Json::Object(_)) if !answer.at_path("choices.0.message").is_null() => {
            let choices = answer.list("choices");
            choices.iter().map(|choice| event::of_choice(&answer, choice, &choice.field("message"))).collect()
        }
        Body::Value(one @ Json::Object(_)) => vec![chunk(&one)?],
        Body::Value(other) => {
            return Err(CommandError::data(format!("{hook} needs a list of chunks, not {}", other.kind())));
        }
    };
    if !events.is_empty() && !events.iter().any(delta::finishes) {
        events.push(whole("", Some("stop")));
    }
    Ok(events)
}

/// Returns an event from a text, a delta, or a whole event.
fn chunk(given: &Json) -> Result<Json, CommandError> {
    match given {
        Json::Text(text) => Ok(whole(text, None)),
        Json::Object(fields) if fields.contains("choices") || fields.contains("error") => Ok(given.clone()),
        Json::Object(_) => Ok(event::complete(given, &whole("", None))),
        other => Err(CommandError::data(format!(
            "invalid chunk of a stream: expected a string, a delta such as {{\"content\": \"…\"}}, or a whole event, got {}",
            other.kind()
        ))),
    }
}

fn whole(text: &str, finish: Option<&str>) -> Json {
    let says = if text.is_empty() { Json::object() } else { Json::from([("content", text.into())]) };
    response::Head::with_id("run", "test").chunk(says, finish)
}

impl EventPair {
    fn as_json(&self) -> Json {
        Json::from([("before", self.before.clone().into()), ("after", self.after.clone().into())])
    }

    fn row(&self, number: usize, paint: Paint) -> String {
        let after: Vec<String> = self.after.iter().map(event_text).collect();
        let after = if after.is_empty() { "(dropped)".to_owned() } else { after.join("  |  ") };
        let Some(before) = &self.before else {
            return format!("  end  {}", paint.green(&format!("+ {after}")));
        };
        if matches!(self.after.as_slice(), [only] if only == before) {
            return paint.dim(&format!("{number:>5}    {}", event_text(before)));
        }
        let (before, after) = (format!("- {}", event_text(before)), format!("+ {after}"));
        format!("{number:>5}  {}\n       {}", paint.red(&before), paint.green(&after))
    }
}

/// Returns an event as text: its content, or its other fields.
fn event_text(one: &Json) -> String {
    let text = event::text(one);
    let why = one.at_path("choices.0.finish_reason");
    let ends = optional(why.as_str(), |why| format!(" (finish_reason {why})"));
    let says = match event::delta(one) {
        // An empty content is shown as well.
        Some(delta) if text.is_empty() && !delta.is_empty() && delta.text("content").is_none() => {
            delta.to_string()
        }
        None if text.is_empty() => one.to_string(),
        _ => Json::from(text.as_str()).to_string(),
    };
    clean(&format!("{says}{ends}"))
}

fn show(passed: &[EventPair], text: &str, out: &Console) -> Result<(), CommandError> {
    for (number, passed) in passed.iter().enumerate() {
        out.line(&passed.row(number + 1, out.results()))?;
    }
    Ok(out.line(&format!("  text {}", clean(&Json::from(text).to_string())))?)
}
