//! One call of a pipe, as a chat with the model that it offers.

use super::body::{self, Body};
use super::outcome::{self, ValueView};
use super::target::{self, DryRunOptions, DryRunTarget};
use valvehouse_core::chat::{ChatRequest, message, response};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{self, Answer, Provider as _, Request};
use valvehouse_json::Json;
use valvehouse_script::Pipes;
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(
    target: &DryRunTarget,
    body: Body,
    asked: &DryRunOptions,
    out: &Console,
) -> Result<Exit, CommandError> {
    let body = body::conversation_of(body)?;
    let model = model(target, asked, &body)?;
    // Values of ours in an object of ours: they fit.
    body.edit("model", model.as_str());
    ChatRequest::new(body.clone())?;
    let tried = target::turn(&DryRunOptions { model: None, ..asked.clone() }, &target.snapshot)?;
    let pipes = Pipes::new(target.script().clone().into_pipe(target.own.users.clone()).into_iter().collect());
    let request = Request { turn: Some(tried.turn.clone()), ..Request::new(body, true) };
    let answer = tried.turn.lasting(answer(&pipes, request)).await;
    let view = ValueView {
        fields: vec![("model", model.into())],
        text: &text,
        below: &|answer| {
            out.text(&text(answer))?;
            Ok(out.line("")?)
        },
    };
    outcome::finish(target, asked, tried, answer, &view, out)
}

/// The model that is asked: the named one, that of the body, or the first that the pipe offers.
fn model(target: &DryRunTarget, asked: &DryRunOptions, body: &Json) -> Result<String, CommandError> {
    let offers = target.script().offers();
    let named = asked.model.clone().or_else(|| body.text("model").map(String::from));
    // By the name that clients see, or by that of the script's own list.
    let prefix = format!("{}.", target.script().id());
    let offered = named.as_ref().and_then(|named| {
        offers.iter().find(|offer| offer.id == *named || offer.id.strip_prefix(&prefix) == Some(named))
    });
    match (named, offers.first()) {
        _ if let Some(offer) = offered => Ok(offer.id.clone()),
        (Some(named), Some(_)) if asked.model.is_some() => {
            let known: Vec<&str> = offers.iter().map(|offer| offer.id.as_str()).collect();
            Err(CommandError::usage(format!(
                "unknown model `{named}` of `{}`; it offers {}",
                target.script().id(),
                known.join(", ")
            )))
        }
        (_, Some(first)) => Ok(first.id.clone()),
        (_, None) => Err(CommandError::usage(format!(
            "`{}` offers no model; write `fn pipe(body)`",
            target.script().id()
        ))),
    }
}

/// The whole answer, read as a stream is.
async fn answer(pipes: &Pipes, request: Request) -> Result<Json, Error> {
    match pipes.chat(request).await? {
        Answer::Whole(answer) => Ok(answer),
        Answer::Stream(chunks) => provider::whole(chunks).await,
    }
}

fn text(answer: &Json) -> String {
    message::text_of(&response::message_of(answer)).to_string()
}
