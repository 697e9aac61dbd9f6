//! One model call: pre_chat chain, model, stream chain, post_chat chain.

use super::outgoing::Outgoing;
use super::{Kernel, answer, stream, turn};
use crate::chat::{Fold, event, message};
use crate::context::Turn;
use crate::fault::Fault;
use crate::filter::{Hook, Outcome};
use crate::json::Json;
use crate::llm::{Answer, Piece, Provider, Request};
use crate::tool::SchemaDialect;
use futures::StreamExt;
use std::sync::Arc;

/// What becomes of a request on its way to the model.
pub(super) enum Prepared {
    /// This is asked.
    Ask(Json),
    /// A filter answered in the model's place.
    Answered(Json),
}

/// A whole round; the answer is a `chat.completion`.
pub(super) async fn run(
    kernel: &Kernel,
    body: &Json,
    turn: &Turn,
    outgoing: &mut Outgoing,
) -> Result<Json, Fault> {
    let asked = match prepare(kernel, body, turn).await? {
        Prepared::Ask(asked) => asked,
        Prepared::Answered(value) => return Ok(answer::from_value(&value, turn)),
    };
    let answer = ask(kernel, &asked, turn, outgoing).await?;
    post_chat(kernel, &asked, &answer, turn).await?;
    Ok(answer)
}

/// The pre_chat chain on messages of this call's own: what it adds is sent and not kept.
pub(super) async fn prepare(kernel: &Kernel, body: &Json, turn: &Turn) -> Result<Prepared, Fault> {
    let mut messages = body.get("messages").unwrap_or_else(Json::array);
    let settings = kernel.settings();
    let has_pre_chat = kernel.chain().has(Hook::PreChat);
    if has_pre_chat {
        messages = messages.copy();
    }
    if let Some(prompt) = &settings.system_prompt {
        messages = [vec![message::system(prompt.as_str())], messages.items()].concat().into();
    }
    if has_pre_chat {
        let ctx = ctx_of(turn, [("messages", messages), ("model", body.get("model").unwrap_or_default())]);
        match kernel.chain().run(Hook::PreChat, ctx, turn).await? {
            Outcome::Done(ctx) => messages = ctx.get("messages").unwrap_or_else(Json::array),
            Outcome::Skipped(value) => return Ok(Prepared::Answered(value)),
        }
    }
    let asked = turn::for_provider(body, messages, settings.model.as_deref());
    offer_tools(kernel, &asked);
    Ok(Prepared::Ask(asked))
}

/// What the four native hooks look at: named parts, and the turn's context and metadata.
pub(super) fn ctx_of<const N: usize>(turn: &Turn, parts: [(&str, Json); N]) -> Json {
    let own = parts.into_iter().map(|(name, value)| (name.into(), value));
    let shared = [("context".into(), turn.context().as_json()), ("metadata".into(), turn.metadata().clone())];
    own.chain(shared).collect::<crate::json::Object>().into()
}

/// Adds the host's tools to those the client brought along.
fn offer_tools(kernel: &Kernel, asked: &Json) {
    if kernel.toolbox().is_empty() {
        return;
    }
    let ours = kernel.tool_schemas(SchemaDialect::OpenAi);
    let is_ours = |tool: &Json| {
        let name = tool.get("function").and_then(|function| function.text("name"));
        name.is_some_and(|name| kernel.toolbox().find(&name).is_some())
    };
    let mut tools: Vec<Json> = asked.get("tools").unwrap_or_default().items();
    tools.retain(|tool| !is_ours(tool));
    tools.extend(ours);
    let _ = asked.set("tools", tools);
}

/// Who answers for this kernel's model.
pub(super) fn provider(kernel: &Kernel) -> Result<&Arc<dyn Provider>, Fault> {
    kernel
        .provider()
        .ok_or_else(|| Fault::Host("this kernel has no provider; give it one: `.provider(…)`".into()))
}

/// The model's answer through the stream chain, sent on as it comes.
pub(super) async fn ask(
    kernel: &Kernel,
    asked: &Json,
    turn: &Turn,
    outgoing: &mut Outgoing,
) -> Result<Json, Fault> {
    let wants_stream = outgoing.is_live();
    // A whole answer is asked for as a client would: without the word, unless it said it.
    if wants_stream || asked.get("stream").is_some() {
        let _ = asked.set("stream", wants_stream);
    }
    if !wants_stream {
        asked.remove("stream_options");
    }
    let request = Request { body: asked.clone(), stream: wants_stream, turn: Some(turn.clone()) };
    match provider(kernel)?.chat(request).await? {
        Answer::Whole(whole) => stream::whole(kernel, whole, turn).await,
        Answer::Stream(mut pieces) => {
            let mut fold = Fold::default();
            let hooked = kernel.chain().has(Hook::Stream);
            let (mut head, mut ends) = (Json::Null, Vec::new());
            while let Some(piece) = pieces.next().await {
                let mut piece = piece?;
                outgoing.receive(&mut piece);
                // Azure's first event has an empty id.
                if head.text("id").is_none_or(|id| id.is_empty()) {
                    head = event::head_of(&piece.event);
                }
                if hooked {
                    ends.extend(stream::ends_of(&piece.event));
                    let was_raw = !piece.raw.is_empty();
                    let filtered = stream::filtered(kernel, piece, turn).await?;
                    if !matches!(filtered.as_slice(), [same] if was_raw != same.raw.is_empty()) {
                        outgoing.edited();
                    }
                    for piece in filtered {
                        pass(piece, &mut fold, kernel, outgoing).await?;
                    }
                } else {
                    pass(piece, &mut fold, kernel, outgoing).await?;
                }
            }
            for piece in stream::end(kernel, head, turn).await? {
                pass(piece, &mut fold, kernel, outgoing).await?;
            }
            // An answer whose last event was dropped still ended as it ended.
            ends.retain(|end| !fold.has_ended(event::choice_index(end)));
            for end in ends {
                pass(Piece::new(end), &mut fold, kernel, outgoing).await?;
            }
            Ok(fold.finish())
        }
    }
}

/// An event on its way: into the answer as a whole, and to the client.
async fn pass(
    mut piece: Piece,
    fold: &mut Fold,
    kernel: &Kernel,
    outgoing: &mut Outgoing,
) -> Result<(), Fault> {
    outgoing.mend(&mut piece);
    fold.push(&piece.event);
    outgoing.send(piece, kernel.toolbox()).await
}

/// The post_chat chain on each choice; its edits are written into the answer.
async fn post_chat(kernel: &Kernel, asked: &Json, whole: &Json, turn: &Turn) -> Result<(), Fault> {
    if !kernel.chain().has(Hook::PostChat) {
        return Ok(());
    }
    for choice in whole.get("choices").unwrap_or_default().items() {
        let said = match choice.get("message") {
            Some(said @ Json::Object(_)) => said,
            _ => {
                // Azure leaves the message out where its own filter struck.
                let said = message::assistant("");
                let _ = choice.set("message", said.clone());
                said
            }
        };
        let ctx = ctx_of(
            turn,
            [
                ("messages", asked.get("messages").unwrap_or_default()),
                ("result", answer::shown_to_post_chat(&choice, &said, whole)),
            ],
        );
        match kernel.chain().run(Hook::PostChat, ctx, turn).await? {
            Outcome::Done(ctx) => answer::take_edits(&choice, &said, &ctx.get("result").unwrap_or_default()),
            Outcome::Skipped(value) => answer::take_value(&choice, &said, &value),
        }
    }
    Ok(())
}
