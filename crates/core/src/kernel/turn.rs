//! The state machine of a turn: inlet → [ model → post_chat → tools ] until the model calls no tool → outlet →
//! end.
//!
//! The turn can be stored after each state and resumed from there in another process.

use super::assembly::Kernel;
use super::options::RunOptions;
use super::outgoing::{AnswerStream, Calls, Client, messages};
use super::progress::{Next, Progress};
use super::turn_stream::{TurnAnswer, TurnEnd, TurnStream};
use super::{answer, call_output, invocation, outgoing, round};
use crate::chat::history::is_role;
use crate::chat::{Ending, ModelCall, call, content_blocks, delta, event, message, request, response};
use crate::context::{FinishedChat, NoticeKinds, Turn};
use crate::error::Error;
use crate::filter::{Chain, ChainOutcome, Hook};
use crate::provider::PassthroughAnswer;
use crate::tool::FIND_TOOLS;
use crate::trace::spans;
use std::pin::pin;
use std::sync::Arc;
use tracing::Instrument;
use valvehouse_json::Json;

impl Kernel {
    /// Runs a turn from its start or from a stored state. The turn starts when the stream is first polled.
    ///
    /// The body of the request is live: the changes made by filters are visible afterwards.
    pub fn run<'a>(&self, request: impl Into<Progress>, options: RunOptions<'a>) -> TurnStream<'a> {
        self.started(request.into(), options)
    }

    // Without parameters of type, so that the turn is compiled here once, and not in each package that runs one.
    fn started<'a>(&self, progress: Progress, options: RunOptions<'a>) -> TurnStream<'a> {
        let kernel = self.clone();
        options.stream(move |options| async move {
            let span = spans::turn(&progress.body, &options.turn.facts().chat_id);
            // In its place: moving the whole turn into the span would copy it.
            let ended = pin!(run(kernel, progress, options)).instrument(span.clone()).await;
            if let Some(error) = ended.as_ref().err().filter(|error| !matches!(error, Error::Paused)) {
                spans::failed(&span, error);
            }
            ended
        })
    }
}

/// A turn in progress.
struct Machine<'a> {
    kernel: Kernel,
    progress: Progress,
    outgoing: AnswerStream,
    options: RunOptions<'a>,
}

/// Runs a turn from a state to its end or to the next question for a person.
async fn run(kernel: Kernel, progress: Progress, mut options: RunOptions<'_>) -> Result<TurnEnd, Error> {
    let turn = options.turn.clone();
    kernel.runs(&turn);
    // An observer and answer filters need the parsed answer.
    options.takes_bytes &= !kernel.looks_at_answers() && !turn.is_observed(NoticeKinds::OF_CALLS);
    let client = options.sender.take().map(|chunks| Client { chunks, events: turn.events().clone() });
    let with_usage = client.is_some() && request::wants_usage(&progress.body);
    let mut outgoing = AnswerStream::new(client, with_usage, Calls::of(&kernel, options.calls_last));
    // A formatted answer consists of the last model call only.
    outgoing.hold(kernel.settings().hold || (!kernel.toolbox().is_empty() && progress.has_form()));
    let conversation = left_behind(&kernel, &progress, &turn);
    let mut machine = Machine { kernel, progress, outgoing, options };
    let stepped = machine.steps().await;
    let Machine { progress, mut outgoing, options, .. } = machine;
    if let Some(conversation) = conversation {
        record_end(&conversation, &stepped, &progress);
    }
    let response = match (stepped, options.journal) {
        (Ok(Some(forwarded)), _) => {
            return turn.flushed(Ok(TurnEnd::Passthrough(forwarded))).await;
        }
        (Ok(None), _) => {
            for (_, message) in messages(&progress.response) {
                if content_blocks::reseal(&message) {
                    tracing::info!(
                        "a filter changed signed thinking or cited text; it is sent without signature and citations"
                    );
                }
            }
            progress.response.clone()
        }
        (Err(Error::Paused), Some(journal)) => {
            let answer = journal.pause(&turn).await?;
            if progress.iterations > 0 {
                // The model's text so far precedes the tool calls.
                outgoing.next_round(&progress.response).await?;
            }
            answer
        }
        (Err(error), _) => return turn.flushed(Err(error)).await,
    };
    turn.flush().await?;
    if let Some(trace) = turn.trace() {
        trace.ends_with(&response);
    }
    let is_own = response.ptr_eq(&progress.response);
    let reply = if is_own { progress.answer() } else { response.clone() };
    // The client of an answer that is not streamed has not received the earlier texts.
    let is_live = outgoing.is_live();
    outgoing.finish(if is_live { &response } else { &reply }).await?;
    let messages = [progress.messages().items(), vec![response::message_of(&response)]].concat();
    let context = turn.context().clone();
    Ok(TurnEnd::Answer(TurnAnswer { response, reply, messages, context }))
}

/// Lets filters schedule their work for the time after the answer.
fn left_behind(kernel: &Kernel, progress: &Progress, turn: &Turn) -> Option<Arc<FinishedChat>> {
    kernel.chain().leaves_work().then(|| {
        let conversation = Arc::new(FinishedChat::default());
        conversation.set_body(&progress.body);
        kernel.chain().leave(&conversation, turn);
        conversation
    })
}

/// Records the end of the turn for scheduled work.
fn record_end(
    conversation: &FinishedChat,
    ended: &Result<Option<PassthroughAnswer>, Error>,
    progress: &Progress,
) {
    match ended {
        Err(Error::Paused) => conversation.pauses(),
        Err(error) => {
            conversation.set_body(&progress.body);
            conversation.failed(error.to_string());
        }
        Ok(_) => {
            conversation.set_body(&progress.body);
            let response = &progress.response;
            let choice = Json::from(event::choice(response));
            let message = choice.field("message");
            let shown = answer::shown_to_outlet(&choice, &message, response);
            let messages = [progress.messages().items(), vec![shown]].concat();
            conversation.answered(messages, response.field("usage"));
        }
    }
}

impl Machine<'_> {
    /// Runs the states until the answer, or the provider's bytes in its place, is available.
    async fn steps(&mut self) -> Result<Option<PassthroughAnswer>, Error> {
        if self.progress.next == Next::Inlet {
            self.inlet().await?;
        }
        self.choose_kernel();
        loop {
            match self.progress.next {
                Next::Inlet | Next::Model => {
                    if let Some(forwarded) = self.model().await? {
                        return Ok(Some(forwarded));
                    }
                }
                Next::PostChat => self.post_chat().await?,
                Next::Tools => self.tools().await?,
                Next::Outlet => self.outlet().await?,
                Next::End => return Ok(None),
            }
        }
    }

    async fn inlet(&mut self) -> Result<(), Error> {
        let Self { kernel, progress, options, .. } = self;
        begin_step(&options.turn, Json::Null);
        if let Some(trace) = options.turn.trace() {
            trace.begins_with(&progress.body);
        }
        progress.next = Next::Model;
        let (mut chain, mut run) = (kernel.chain().clone(), kernel.chain().clone());
        loop {
            match inlet(kernel, &run, progress.body.clone(), &options.turn).await? {
                ChainOutcome::Done(body) => progress.body = body,
                ChainOutcome::Skipped(value) => {
                    let given = answer::from_value(&value, &options.turn);
                    progress.response = round::guarded(kernel, progress, given, &options.turn).await?;
                    outlet(&kernel.guarding_given(&options.turn), progress, &options.turn).await?;
                    progress.next = Next::End;
                    break;
                }
            }
            // A model that a filter has chosen brings its guards.
            match kernel.guards_of_route(&progress.model, &progress.body, &chain) {
                Some(guards) => (chain, run) = (chain.joined(&guards), guards),
                None => break,
            }
        }
        if self.kernel.chain().has(Hook::Inlet) {
            self.checkpoint().await?;
        }
        Ok(())
    }

    /// Selects the model that an inlet set, and the tools that the request selects.
    fn choose_kernel(&mut self) {
        if let Some(other) = self.kernel.rerouted(&self.progress.model, &self.progress.body) {
            self.kernel = other;
            self.kernel.runs(&self.options.turn);
            self.options.takes_bytes &= !self.kernel.looks_at_answers();
            self.outgoing.send_calls(Calls::of(&self.kernel, self.options.calls_last));
        }
        if let Some(fewer) = self.kernel.narrowed(&self.progress.body) {
            self.kernel = fewer;
            self.kernel.runs(&self.options.turn);
        }
        if self.kernel.settings().hold || outgoing::is_held(&self.options.turn) {
            self.outgoing.hold(true);
        }
    }

    async fn model(&mut self) -> Result<Option<PassthroughAnswer>, Error> {
        let Self { kernel, progress, outgoing, options } = self;
        let turn = &options.turn;
        begin_step(turn, Json::Null);
        if !options.takes_bytes || kernel.chain().has(Hook::PreChat) {
            remember(turn, &progress.messages());
        }
        let forwarded = round::model(kernel, progress, turn, outgoing, options.takes_bytes).await?;
        progress.iterations += 1;
        if forwarded.is_some() {
            progress.next = Next::End;
            return Ok(forwarded);
        }
        progress.next = Next::PostChat;
        if kernel.chain().has(Hook::PostChat) {
            self.checkpoint().await?;
        }
        Ok(None)
    }

    async fn post_chat(&mut self) -> Result<(), Error> {
        begin_step(&self.options.turn, Json::Null);
        round::post_chat(&self.kernel, &self.progress, &self.options.turn).await?;
        self.settle()?;
        self.checkpoint().await
    }

    async fn tools(&mut self) -> Result<(), Error> {
        for call in self.progress.open_calls() {
            let Self { kernel, progress, options, .. } = self;
            begin_step(&options.turn, call.to_json());
            let result = if runs_here(kernel, &progress.body, &call) {
                invocation::answer_call(kernel, &call, progress, &options.turn, options.journal).await?
            } else {
                // The client could run this tool only after the turn, but its result is needed within the turn.
                call_output::failure(
                    "cannot run this tool: it runs at the client; call it without tools of the host",
                    None,
                )
            };
            if kernel.settings().tool_search && call.name == FIND_TOOLS {
                progress.find(result.str_or_empty());
            }
            progress.push_message(message::tool(&call.id, result))?;
            self.checkpoint().await?;
        }
        self.outgoing.next_round(&self.progress.response).await?;
        self.progress.next = Next::Model;
        Ok(())
    }

    async fn outlet(&mut self) -> Result<(), Error> {
        begin_step(&self.options.turn, Json::Null);
        outlet(&self.kernel, &self.progress, &self.options.turn).await?;
        self.progress.next = Next::End;
        self.checkpoint().await
    }

    /// Ends a state and stores it. A state with an unanswered question is not stored.
    async fn checkpoint(&self) -> Result<(), Error> {
        let RunOptions { turn, journal, .. } = &self.options;
        if let Some(pauses) = turn.pauses() {
            if pauses.is_paused() {
                return Err(Error::Paused);
            }
            pauses.end();
        }
        match journal {
            Some(journal) => {
                // The data stored by scripts must be on disk before the step is.
                turn.flush().await?;
                journal.keep(&self.progress, turn).await
            }
            None => Ok(()),
        }
    }

    /// Selects the next state after an answer: tool calls or the outlet.
    fn settle(&mut self) -> Result<(), Error> {
        let Self { kernel, progress, options, .. } = self;
        let message = response::message_of(&progress.response);
        call::ensure_ids(&message);
        let ending = response::first_choice(&progress.response).and_then(|choice| Ending::of_choice(&choice));
        if !ending.is_none_or(Ending::may_run_tools) && !options.leaves_calls {
            let is_ours = |call: &ModelCall| runs_here(kernel, &progress.body, call);
            if call::remove(&message, is_ours) {
                tracing::warn!("the answer is incomplete; its calls of this host's tools do not run");
            }
        }
        let calls = ModelCall::all(&message);
        progress.request_messages = Json::Null;
        let is_last =
            options.leaves_calls || !calls.iter().any(|call| runs_here(kernel, &progress.body, call));
        if is_last {
            progress.total_usage();
            progress.next = if kernel.chain().has(Hook::Outlet) { Next::Outlet } else { Next::End };
            return Ok(());
        }
        progress.push_message(message)?;
        progress.add_usage();
        let limit = options.max_model_calls.unwrap_or(kernel.settings().max_tool_iterations);
        if progress.iterations >= limit {
            return Err(Error::ToolLoop { limit, transcript: progress.messages().deep_clone() });
        }
        progress.next = Next::Tools;
        Ok(())
    }
}

fn begin_step(turn: &Turn, call: Json) {
    if let Some(pauses) = turn.pauses() {
        pauses.begin(call);
    }
}

/// Returns `true` if the host runs a call: the tool belongs to the host, or it is unknown and the host has
/// tools. The client runs its own tools.
fn runs_here(kernel: &Kernel, body: &Json, call: &ModelCall) -> bool {
    if kernel.toolbox().is_empty() {
        return false;
    }
    let client_tools = body.field("tools");
    let is_the_clients = client_tools.items().iter().any(|tool| delta::call_name(tool) == call.name);
    kernel.toolbox().find(&call.name).is_some() || !is_the_clients
}

/// Sets `context.history` to the messages up to this model call.
fn remember(turn: &Turn, messages: &Json) {
    if let Json::Array(history) = turn.context().history() {
        // The messages never contain the context, so the write cannot fail.
        let _ = history.replace(messages.items());
    }
}

/// Runs an inlet chain and removes the fields that must not remain in the body.
async fn inlet(kernel: &Kernel, chain: &Chain, body: Json, turn: &Turn) -> Result<ChainOutcome, Error> {
    let messages = body.field("messages");
    let outcome = chain.run(Hook::Inlet, body, turn).await?;
    if let ChainOutcome::Done(body) = &outcome {
        request::check_again(body, &messages)?;
        if kernel.settings().files_handled {
            body.remove("files");
            body.get("metadata").and_then(|metadata| metadata.remove("files"));
            turn.metadata().remove("files");
        }
    }
    Ok(outcome)
}

/// Runs the outlet chain on the conversation with the answer last, and writes changes back to the answer.
async fn outlet(kernel: &Kernel, progress: &Progress, turn: &Turn) -> Result<(), Error> {
    let Progress { body, response, .. } = progress;
    let messages = progress.messages();
    // Each choice ends a separate version of the conversation.
    for choice in response.list("choices") {
        let message = choice.field("message");
        let shown = answer::shown_to_outlet(&choice, &message, response);
        let mut history = messages.items();
        history.push(shown.clone());
        let conversation = Json::from([
            ("model", body.field("model")),
            ("messages", history.into()),
            ("chat_id", turn.facts().chat_id.as_str().into()),
            ("session_id", body.field("session_id")),
            ("id", turn.facts().message_id.as_str().into()),
        ]);
        match kernel.chain().run(Hook::Outlet, conversation, turn).await? {
            ChainOutcome::Done(conversation) => {
                let last = Json::from(conversation.get("messages").and_then(|messages| messages.at(-1)));
                if is_role(&last, "assistant") || last.ptr_eq(&shown) {
                    answer::take_edits(&choice, &message, &last);
                } else {
                    tracing::warn!(
                        "an outlet removed the answer from the conversation; the answer is sent unchanged"
                    );
                }
            }
            ChainOutcome::Skipped(value) => answer::take_value(&choice, &message, &value),
        }
    }
    Ok(())
}
