//! A program that has a kernel and no server.

use super::{Row, Way, openai};
use crate::generator::LOOK;
use crate::generator::outcome::{Class, Refusal, TurnView, text_of};
use crate::host::TestHost;
use crate::kernel::{StreamedTurn, json, request, run, value};
use crate::same_everywhere::case::Case;
use futures::future::BoxFuture;
use serde_json::Value;
use valvehouse::context::{Events, Turn as CoreTurn, TurnFacts};
use valvehouse::error::Error;
use valvehouse::json::Json;
use valvehouse::kernel::{ChatOptions, Kernel};
use valvehouse::tool::Tool;

/// A turn of a kernel, with the filters in Rhai or in Rust.
pub(super) struct Turn {
    pub(super) native: bool,
}

impl Row for Turn {
    fn name(&self) -> &'static str {
        if self.native { "turn in Rust" } else { "turn" }
    }

    fn supports(&self, _: &Case, way: &Way) -> bool {
        way.chat_id.is_none()
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, TurnView> {
        Box::pin(async move {
            let kernel = if self.native { native(host, case, way) } else { scripted(host, case, way) };
            let turn = CoreTurn::new(facts(case, way), Default::default(), Events::default());
            let body = request(json(&openai::body(case, way).to_string()));
            let StreamedTurn { pieces, answer, turn } = run(&kernel, body, turn, way.stream).await;
            let events: Vec<Value> = turn.events().take().iter().map(|event| value(&event.0)).collect();
            let mut seen = match answer {
                Ok(answer) if !way.stream => openai::of_body(200, &value(&answer)),
                Ok(_) => {
                    let pieces: Vec<Value> = pieces.iter().map(|piece| value(&piece.event)).collect();
                    openai::of_stream(&pieces)
                }
                Err(error) => refused(&error),
            };
            seen.events = Some(events);
            seen
        })
    }
}

/// `invoke_chat` if the host has no tool, or else `chat_with_tools`.
pub(super) struct Chat;

impl Row for Chat {
    fn name(&self) -> &'static str {
        "chat of the library"
    }

    fn supports(&self, _: &Case, way: &Way) -> bool {
        way.chat_id.is_none() && !way.stream
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, TurnView> {
        Box::pin(async move {
            let kernel = native(host, case, way);
            let body = json(&openai::body(case, way).to_string());
            let messages = body.get("messages").unwrap().items();
            body.remove("messages");
            let options =
                ChatOptions { model: Some(case.model(way)), request: Some(body), ..ChatOptions::default() };
            let chatted = match case.has_look {
                true => kernel.chat_with_tools(messages, options).await,
                false => kernel.invoke_chat(messages, options).await,
            };
            match chatted {
                Ok(chatted) => {
                    let mut answer = openai::of_completion(&value(&chatted.response));
                    // The library returns the text of the last model call; a client reads the texts of all
                    // calls.
                    let new = chatted.messages.iter().skip(case.messages().len()).map(value);
                    let texts = new.filter(|message| message["role"] == "assistant");
                    let texts: Vec<String> = texts.map(|message| text_of(&message["content"])).collect();
                    let texts: Vec<&str> =
                        texts.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
                    answer.text = texts.join("\n\n");
                    TurnView { answer: Some(answer), ..TurnView::default() }
                }
                Err(error) => refused(&error),
            }
        })
    }
}

fn scripted(host: &TestHost, case: &Case, way: &Way) -> Kernel {
    host.snapshot().ready(&case.model(way), &[]).unwrap().kernel
}

fn native(host: &TestHost, case: &Case, way: &Way) -> Kernel {
    let scripted = scripted(host, case, way);
    let builder = Kernel::builder()
        .provider(scripted.provider().unwrap().clone())
        .settings(scripted.settings().clone())
        .filters(case.filters.iter().map(super::super::filters::RandomFilter::native));
    let look = Tool::from_json_fn(LOOK, |args| {
        Ok(super::super::looked(args.get("n").and_then(|n| n.as_i64())).as_str().into())
    });
    if case.has_look { builder.tool(look) } else { builder }.build()
}

fn facts(case: &Case, way: &Way) -> TurnFacts {
    TurnFacts { model: Json::from([("id", case.model(way).into())]), ..TurnFacts::default() }
}

fn refused(error: &Error) -> TurnView {
    let (class, message) = match error {
        Error::Rejected(refusal) => (Class::of_status(refusal.status), refusal.message.clone()),
        Error::Answered { status, body, .. } => {
            (Class::of_status(*status), value(body)["error"]["message"].as_str().unwrap_or_default().into())
        }
        Error::Broken(failure) => (Class::Server, super::super::broken(&failure.plugin, &failure.hook)),
        other => (Class::Server, other.to_string()),
    };
    TurnView { refusal: Some(Refusal::new(class, &message)), ..TurnView::default() }
}
