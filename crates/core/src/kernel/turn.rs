//! One turn, from the request's body to the answer.

use super::assembly::Kernel;
use super::choices::messages;
use super::outgoing::Outgoing;
use super::progress::{Journal, Next, Progress};
use super::{answer, invocation, round};
use crate::anthropic;
use crate::chat::history::is_role;
use crate::chat::{Call, ChatRequest, call, delta, message, request, response};
use crate::context::{FinishedChat, Turn};
use crate::fault::Fault;
use crate::filter::{Hook, Outcome};
use crate::provider::{ForwardRequest, Forwarded, Piece, Traced};
use futures_util::future::join;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;
use valvehouse_json::Json;

/// The wishes of a door for its answer.
pub struct Wish {
    /// The receiver of pieces as they come; `None` for a whole answer.
    pub stream: Option<Sender<Piece>>,
    /// Is `true` if the provider's own bytes will do where nobody looks at them.
    pub raw: bool,
}

/// The reply to a door.
pub enum Reply {
    /// The whole answer; what was streamed of it has been sent.
    Answer(Json),
    /// The provider's bytes, untouched.
    Raw(Forwarded),
}

/// The treatment of tool calls in an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tools {
    Run,
    LeftToCaller,
}

/// The end of a turn.
pub(super) struct Done {
    pub(super) response: Json,
    pub(super) messages: Vec<Json>,
}

impl Kernel {
    /// Runs a turn for an endpoint. The body of the request is live: what the filters made of it can be read after.
    pub async fn turn(&self, request: ChatRequest, turn: &Turn, wish: Wish) -> Result<Reply, Fault> {
        if wish.raw && !self.looks_at_answers() {
            self.runs(turn);
            let work = async { turn.flushed(self.forward(request.into_body(), turn, wish).await).await };
            return turn.lasting(work).await;
        }
        let mut progress = Progress::new(request);
        let answer = self.go_on(&mut progress, turn, wish.stream, None).await?;
        Ok(Reply::Answer(if answer.is_same(&progress.response) { progress.answer() } else { answer }))
    }

    /// Goes on with a turn from where it stands to its answer. It can be kept after each step, and goes
    /// on from there in another process when this one dies.
    pub async fn go_on(
        &self,
        progress: &mut Progress,
        turn: &Turn,
        stream: Option<Sender<Piece>>,
        journal: Option<&dyn Journal>,
    ) -> Result<Json, Fault> {
        let limit = self.settings().max_tool_iterations;
        let manner = Manner { stream, tools: Tools::Run, limit, journal };
        Ok(turn.lasting(run(self, progress, turn, manner)).await?.response)
    }

    /// Returns `true` if anybody wants to see what the model answers.
    pub fn looks_at_answers(&self) -> bool {
        !self.toolbox().is_empty()
            || self.chain().leaves_work()
            || [Hook::Stream, Hook::StreamEnd, Hook::PostChat, Hook::Outlet]
                .iter()
                .any(|hook| self.chain().has(*hook))
    }

    /// A turn of which only the request is looked at: the answer is passed on byte for byte.
    async fn forward(&self, body: Json, turn: &Turn, wish: Wish) -> Result<Reply, Fault> {
        let model = body.get("model").unwrap_or_default();
        let body = match inlet(self, body, turn).await? {
            Outcome::Done(body) => body,
            Outcome::Skipped(value) => return skipped(&value, turn, wish.stream).await,
        };
        let other = self.rerouted(&model, &body);
        let kernel = other.as_ref().unwrap_or(self);
        let stream = wish.stream.is_some();
        let asked = match round::prepare(kernel, &body, turn).await? {
            round::Prepared::Ask(asked) => asked,
            round::Prepared::Answered(value) => return skipped(&value, turn, wish.stream).await,
        };
        // Without the word, unless the client said it.
        if stream || asked.get("stream").is_some() {
            let _ = asked.set("stream", stream);
        }
        let provider = round::provider(kernel)?;
        // The receiver of bytes speaks OpenAI's wire.
        let bytes = anthropic::plain(&asked)
            .encode_as_spelt()
            .map_err(|error| Fault::invalid(error.to_string(), None))?;
        let (model, exchange) = (asked.text("model").unwrap_or_default(), turn.exchange());
        match provider.forward(ForwardRequest { body: bytes.into(), stream, model: &model, exchange }) {
            Some(forwarded) => {
                exchange.begin_call();
                let call = Traced::begin(turn.trace(), provider.name(), &model, || asked.clone());
                // The disk and the model work side by side.
                let (answer, flushed) = join(forwarded, turn.flush()).await;
                let answer = call.follow(answer)?;
                flushed.map(|()| Reply::Raw(answer))
            }
            None => {
                let mut outgoing = Outgoing::new(wish.stream, request::wants_usage(&body));
                let answer = round::ask(kernel, &asked, turn, &mut outgoing).await?;
                turn.flush().await?;
                outgoing.finish(&answer).await?;
                Ok(Reply::Answer(answer))
            }
        }
    }
}

async fn skipped(value: &Json, turn: &Turn, stream: Option<Sender<Piece>>) -> Result<Reply, Fault> {
    let answer = answer::from_value(value, turn);
    turn.flush().await?;
    Outgoing::new(stream, false).finish(&answer).await?;
    Ok(Reply::Answer(answer))
}

/// The way in which a turn is run.
pub(super) struct Manner<'a> {
    pub(super) stream: Option<Sender<Piece>>,
    pub(super) tools: Tools,
    /// Model calls it may take.
    pub(super) limit: usize,
    /// The journal that keeps it after each step.
    pub(super) journal: Option<&'a dyn Journal>,
}

/// A turn from where it stands to its end, or to a question that somebody has to answer first.
pub(super) async fn run(
    kernel: &Kernel,
    progress: &mut Progress,
    turn: &Turn,
    manner: Manner<'_>,
) -> Result<Done, Fault> {
    kernel.runs(turn);
    let mut outgoing = Outgoing::new(manner.stream, request::wants_usage(&progress.body));
    // An answer in a form is the last call's alone.
    outgoing.hold(kernel.settings().hold || (progress.has_form() && !kernel.toolbox().is_empty()));
    let Manner { tools, limit, journal, .. } = manner;
    let conversation = left_behind(kernel, progress, turn);
    let stepped = steps(kernel, progress, turn, &mut outgoing, tools, limit, journal).await;
    if let Some(conversation) = conversation {
        tell_end(&conversation, &stepped, progress);
    }
    let response = match (stepped, journal) {
        (Ok(()), _) => {
            for (_, said) in messages(&progress.response) {
                if anthropic::reseal(&said) {
                    tracing::info!(
                        "a filter changed signed thinking or cited text; signature and citations are left out"
                    );
                }
            }
            progress.response.clone()
        }
        (Err(Fault::Paused), Some(journal)) => {
            let answer = journal.pause(turn).await?;
            if progress.iterations > 0 {
                // The model's text so far comes before it.
                outgoing.next_round(&progress.response, kernel.toolbox()).await?;
            }
            answer
        }
        (Err(fault), _) => return turn.flushed(Err(fault)).await,
    };
    turn.flush().await?;
    if let Some(trace) = turn.trace() {
        trace.ends_with(&response);
    }
    // The receiver of a whole answer has got nothing of the rounds before.
    let is_own = response.is_same(&progress.response);
    let shown = if is_own && !outgoing.is_live() { progress.answer() } else { response.clone() };
    outgoing.finish(&shown).await?;
    let messages = [progress.messages().items(), vec![response::message_of(&response)]].concat();
    Ok(Done { response, messages })
}

/// Leaves the work of filters that have some for the time when the client has its answer.
fn left_behind(kernel: &Kernel, progress: &Progress, turn: &Turn) -> Option<Arc<FinishedChat>> {
    kernel.chain().leaves_work().then(|| {
        let conversation = Arc::new(FinishedChat::default());
        conversation.asked(&progress.body);
        kernel.chain().leave(&conversation, turn);
        conversation
    })
}

/// Says for that work how the turn ended.
fn tell_end(conversation: &FinishedChat, ended: &Result<(), Fault>, progress: &Progress) {
    match ended {
        Err(Fault::Paused) => conversation.pauses(),
        Err(fault) => {
            conversation.asked(&progress.body);
            conversation.failed(fault.to_string());
        }
        Ok(()) => {
            conversation.asked(&progress.body);
            let response = &progress.response;
            let choice = response.at_path("choices.0");
            let said = choice.get("message").unwrap_or_default();
            let shown = answer::shown_to_outlet(&choice, &said, response);
            let messages = [progress.messages().items(), vec![shown]].concat();
            conversation.answered(messages, response.get("usage").unwrap_or_default());
        }
    }
}

/// Step by step, until the answer is there.
async fn steps(
    kernel: &Kernel,
    progress: &mut Progress,
    turn: &Turn,
    outgoing: &mut Outgoing,
    tools: Tools,
    limit: usize,
    journal: Option<&dyn Journal>,
) -> Result<(), Fault> {
    if progress.next == Next::Inlet {
        begin_step(turn, Json::Null);
        match inlet(kernel, progress.body.clone(), turn).await? {
            Outcome::Done(body) => (progress.body, progress.next) = (body, Next::Model),
            Outcome::Skipped(value) => {
                (progress.response, progress.next) = (answer::from_value(&value, turn), Next::End);
            }
        }
        if kernel.chain().has(Hook::Inlet) {
            end_step(progress, turn, journal).await?;
        }
    }
    let other = kernel.rerouted(&progress.model, &progress.body);
    let kernel = other.as_ref().unwrap_or(kernel);
    let fewer = kernel.narrowed(&progress.body);
    let kernel = fewer.as_ref().unwrap_or(kernel);
    if fewer.is_some() {
        kernel.runs(turn);
    }
    loop {
        match progress.next {
            Next::Inlet | Next::Model => {
                begin_step(turn, Json::Null);
                remember(turn, &progress.messages());
                round::model(kernel, progress, turn, outgoing).await?;
                progress.iterations += 1;
                progress.next = Next::PostChat;
                if kernel.chain().has(Hook::PostChat) {
                    end_step(progress, turn, journal).await?;
                }
            }
            Next::PostChat => {
                begin_step(turn, Json::Null);
                round::post_chat(kernel, progress, turn).await?;
                settle(kernel, progress, tools, limit)?;
                end_step(progress, turn, journal).await?;
            }
            Next::Tools => {
                for call in progress.open_calls() {
                    begin_step(turn, call.to_json());
                    let result = if runs_here(kernel, &progress.body, &call) {
                        invocation::answer_call(kernel, &call, progress, turn, journal).await?
                    } else {
                        // The client could only run it after this turn, which its result would have to be
                        // part of.
                        invocation::error_text(
                            "this tool runs at the client; call it without tools of the host beside it",
                        )
                    };
                    progress.say(message::tool(&call.id, result))?;
                    end_step(progress, turn, journal).await?;
                }
                outgoing.next_round(&progress.response, kernel.toolbox()).await?;
                progress.next = Next::Model;
            }
            Next::Outlet => {
                begin_step(turn, Json::Null);
                outlet(kernel, progress, turn).await?;
                progress.next = Next::End;
                end_step(progress, turn, journal).await?;
            }
            Next::End => return Ok(()),
        }
    }
}

fn begin_step(turn: &Turn, call: Json) {
    if let Some(pauses) = turn.pauses() {
        pauses.begin(call);
    }
}

/// A step counts when it is kept; one in which somebody is asked who does not answer yet does not.
async fn end_step(progress: &Progress, turn: &Turn, journal: Option<&dyn Journal>) -> Result<(), Fault> {
    if let Some(pauses) = turn.pauses() {
        if pauses.is_paused() {
            return Err(Fault::Paused);
        }
        pauses.end();
    }
    match journal {
        Some(journal) => {
            // A step that is stored has all that its scripts stored.
            turn.flush().await?;
            journal.keep(progress, turn).await
        }
        None => Ok(()),
    }
}

/// Goes on behind an answer: its calls are run, or it is the last one.
fn settle(kernel: &Kernel, progress: &mut Progress, tools: Tools, limit: usize) -> Result<(), Fault> {
    let said = response::message_of(&progress.response);
    call::ensure_ids(&said);
    let calls = Call::all(&said);
    progress.asked = Json::Null;
    let is_last =
        tools == Tools::LeftToCaller || !calls.iter().any(|call| runs_here(kernel, &progress.body, call));
    if is_last {
        progress.total_usage();
        progress.next = if kernel.chain().has(Hook::Outlet) { Next::Outlet } else { Next::End };
        return Ok(());
    }
    progress.say(said)?;
    progress.add_usage();
    if progress.iterations >= limit {
        return Err(Fault::ToolLoop { limit, transcript: progress.messages().copy() });
    }
    progress.next = Next::Tools;
    Ok(())
}

/// A tool of ours, or one nobody has where there are tools of ours. What the client brought along
/// is the client's to run.
fn runs_here(kernel: &Kernel, body: &Json, call: &Call) -> bool {
    if kernel.toolbox().is_empty() {
        return false;
    }
    let client_tools = body.get("tools").unwrap_or_default();
    let is_the_clients = client_tools.items().iter().any(|tool| delta::call_name(tool) == call.name);
    kernel.toolbox().find(&call.name).is_some() || !is_the_clients
}

/// `context.history` is what was said up to this model call.
fn remember(turn: &Turn, messages: &Json) {
    if let Json::Array(history) = turn.context().history() {
        // Messages never hold the context they are remembered in.
        let _ = history.replace(messages.items());
    }
}

/// The inlet chain, and what leaves the body after it.
async fn inlet(kernel: &Kernel, body: Json, turn: &Turn) -> Result<Outcome, Fault> {
    if let Some(trace) = turn.trace() {
        trace.begins_with(&body);
    }
    let messages = body.get("messages").unwrap_or_default();
    let outcome = kernel.chain().run(Hook::Inlet, body, turn).await?;
    if let Outcome::Done(body) = &outcome {
        request::check_again(body, &messages)?;
        if kernel.settings().files_handled {
            body.remove("files");
            body.get("metadata").and_then(|metadata| metadata.remove("files"));
            turn.metadata().remove("files");
        }
    }
    Ok(outcome)
}

/// The outlet chain, on the conversation with the answer last; its edits of the answer count.
async fn outlet(kernel: &Kernel, progress: &Progress, turn: &Turn) -> Result<(), Fault> {
    let Progress { body, response, .. } = progress;
    let messages = progress.messages();
    // Each choice is an end of the conversation of its own.
    for choice in response.get("choices").unwrap_or_default().items() {
        let said = choice.get("message").unwrap_or_default();
        let shown = answer::shown_to_outlet(&choice, &said, response);
        let mut history = messages.items();
        history.push(shown.clone());
        let conversation = Json::from([
            ("model", body.get("model").unwrap_or_default()),
            ("messages", history.into()),
            ("chat_id", turn.facts().chat_id.as_str().into()),
            ("session_id", body.get("session_id").unwrap_or_default()),
            ("id", turn.facts().message_id.as_str().into()),
        ]);
        match kernel.chain().run(Hook::Outlet, conversation, turn).await? {
            Outcome::Done(conversation) => {
                let last =
                    conversation.get("messages").and_then(|messages| messages.at(-1)).unwrap_or_default();
                if is_role(&last, "assistant") || last.is_same(&shown) {
                    answer::take_edits(&choice, &said, &last);
                } else {
                    tracing::warn!("an outlet took the answer out of the conversation; it is sent as it was");
                }
            }
            Outcome::Skipped(value) => answer::take_value(&choice, &said, &value),
        }
    }
    Ok(())
}
