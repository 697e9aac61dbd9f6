//! Dry runs of a pipe, as a chat with the model that it provides.

use super::body::{self, Body};
use super::options::DryRunOptions;
use super::outcome::{self, ResultView};
use super::target::{self, DryRunTarget};
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::filter::ChainOutcome;
use valvehouse_core::provider::{self, Provider as _, Request};
use valvehouse_json::Json;
use valvehouse_script::{Pipes, SandboxRun};
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(
    target: &DryRunTarget,
    body: Body,
    options: &DryRunOptions,
    out: &Console,
) -> Result<Exit, CommandError> {
    let body = body::conversation_of(body)?;
    let model = model(target, options, &body)?;
    // The object is ours and not read-only.
    body.edit("model", model.as_str());
    ChatRequest::new(body.clone())?;
    let tried = target::turn(&DryRunOptions { model: None, ..options.clone() }, &target.snapshot)?;
    let pipes = Pipes::new(target.script().clone().into_pipe(target.own.users.clone()).into_iter().collect());
    let request = Request { turn: Some(tried.turn.clone()), ..Request::new(body, true) };
    let answer = async { provider::whole(pipes.chat(request).await?).await };
    let came = SandboxRun::from(tried.turn.lasting(answer).await.map(ChainOutcome::Done));
    let text = came.value.as_ref().map(outcome::text_of);
    let below = || {
        let Some(text) = &text else { return Ok(()) };
        out.text(text)?;
        Ok(out.line("")?)
    };
    let mut view = ResultView::of(&came, text.clone(), &below);
    view.fields.insert(0, ("model", model.into()));
    outcome::finish(target, options, tried.recording, &came, &view, out)
}

/// Returns the model to call: the one of the option, that of the body, or the first of the pipe.
fn model(target: &DryRunTarget, options: &DryRunOptions, body: &Json) -> Result<String, CommandError> {
    let offers = target.script().offers();
    let named = options.model.clone().or_else(|| body.text("model").map(String::from));
    // The name is the one for clients, or the one in the script's own list.
    let prefix = format!("{}.", target.script().id());
    let offered = named.as_ref().and_then(|named| {
        offers.iter().find(|offer| offer.id == *named || offer.id.strip_prefix(&prefix) == Some(named))
    });
    match (named, offers.first()) {
        _ if let Some(offer) = offered => Ok(offer.id.clone()),
        (Some(named), Some(_)) if options.model.is_some() => {
            let known: Vec<&str> = offers.iter().map(|offer| offer.id.as_str()).collect();
            Err(CommandError::usage(format!(
                "unknown model `{named}` of `{}`; it offers {}",
                target.script().id(),
                known.join(", ")
            )))
        }
        (_, Some(first)) => Ok(first.id.clone()),
        (_, None) => {
            let script = target.script();
            let why = match script.manifest.ttl {
                Some(_) => {
                    "offers no model in a dry run: a host calls its `pipes()` in the background; to try it, remove `ttl`"
                }
                None => "offers no model; write `fn pipe(body)`",
            };
            Err(CommandError::usage(format!("`{}` {why}", script.id())))
        }
    }
}
