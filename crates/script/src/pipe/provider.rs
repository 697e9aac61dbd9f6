//! Pipes as a provider of models.

use super::function::Offer;
use crate::declare::hooks::Param;
use crate::run::argument::UserValves;
use crate::run::script_call::CallEnd;
use crate::script::Script;
use futures::channel::mpsc::{Receiver, Sender, channel};
use futures::future::BoxFuture;
use futures::{FutureExt, SinkExt, StreamExt, stream};
use parking_lot::Mutex;
use rhai::{Dynamic, EvalAltResult, FnPtr};
use std::sync::Arc;
use valvehouse_core::breaker::BreakerState;
use valvehouse_core::chat::{Fold, Head, ModelCall, call, delta, event, history, message, response};
use valvehouse_core::context::Turn;
use valvehouse_core::error::{Error, PluginError, Rejection, RequestErrorKind};
use valvehouse_core::kernel::answer_of;
use valvehouse_core::metrics::{CallMetrics, CallOutcome};
use valvehouse_core::provider::{self, Answer, PIPES, Provider, Request, StreamChunk};
use valvehouse_dialect::answer::{HookAnswer, ThrownError};
use valvehouse_dialect::budget;
use valvehouse_dialect::budget::input_size::attributed;
use valvehouse_dialect::call::ChunkSink;
use valvehouse_dialect::value::{Shape, error, json_of, live};
use valvehouse_executor::{self as executor, ExecutorError, STUCK, Workload};
use valvehouse_json::Json;
use valvehouse_script_std::functions::reading::OpenAnswer;
use valvehouse_tokens::Counter;

/// The maximum size of one answer, in bytes.
const LARGEST: usize = 16 << 20;

/// The field of a chunk whose calls are only shown.
const DISPLAY: &str = "display";

/// The number of chunks that are buffered for a slow reader before the script has to wait.
const AHEAD: usize = 16;

impl Script {
    /// Returns the models that this script offers.
    pub fn offers(&self) -> &[Offer] {
        self.pipe.as_ref().map_or(&[], |pipe| &pipe.offers)
    }

    /// Returns the script as a pipe; `None` if it has no function `pipe`.
    pub fn into_pipe(self: Arc<Self>, users: Arc<UserValves>) -> Option<Pipe> {
        self.pipe.as_ref()?;
        self.may_leave_work();
        let call_metrics = self.metrics().of("pipe");
        Some(Pipe { script: self, users, call_metrics })
    }
}

/// A script that offers models.
#[derive(Clone)]
pub struct Pipe {
    script: Arc<Script>,
    users: Arc<UserValves>,
    call_metrics: Arc<CallMetrics>,
}

/// All scripts that offer models, as one provider.
#[derive(Clone, Default)]
pub struct Pipes(Vec<Pipe>);

impl Pipes {
    /// Creates the provider. If two pipes offer the same model, the first one is used.
    pub fn new(pipes: Vec<Pipe>) -> Self {
        Self(pipes)
    }

    /// Returns the offered models, each once.
    pub fn offers(&self) -> Vec<&Offer> {
        let mut offers: Vec<&Offer> = Vec::new();
        for offer in self.0.iter().flat_map(|pipe| pipe.script.offers()) {
            if !offers.iter().any(|known| known.id == offer.id) {
                offers.push(offer);
            }
        }
        offers
    }

    fn of(&self, model: &str) -> Result<Pipe, Error> {
        let found = self.0.iter().find(|pipe| pipe.script.offers().iter().any(|offer| offer.id == model));
        found.cloned().ok_or_else(|| {
            let known: Vec<&str> = self.offers().iter().map(|offer| offer.id.as_str()).collect();
            let known = match known.as_slice() {
                [] => "no script offers a model".to_owned(),
                known => format!("the models of scripts are {}", known.join(", ")),
            };
            Error::Request {
                message: format!("unknown model `{model}`; {known}"),
                param: Some("model"),
                code: Some("model_not_found"),
                kind: RequestErrorKind::NotFound,
            }
        })
    }
}

impl Provider for Pipes {
    fn name(&self) -> &str {
        PIPES
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        let offers = self.offers().into_iter().map(|offer| {
            Json::from([("id", offer.id.as_str().into()), ("name", offer.name.as_str().into())])
        });
        let offers = offers.collect();
        Box::pin(async move { Ok(offers) })
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        let pipe = request
            .body
            .text("model")
            .ok_or_else(|| Error::invalid("missing `model` in the request", Some("model")));
        let pipe = pipe.and_then(|model| self.of(&model));
        Box::pin(async move { pipe?.answer(request).await })
    }
}

/// A message from a script to the reader of its answer.
enum Message {
    Whole(Json),
    StreamChunk(Json),
}

/// The future of a running script.
type Work = BoxFuture<'static, Result<(), Error>>;

impl Pipe {
    async fn answer(self, request: Request) -> Result<Answer, Error> {
        let (sender, mut sent) = channel(AHEAD);
        let workload = if self.call_metrics.is_slow() { Workload::CpuBound } else { Workload::Blocking };
        let streams = request.stream;
        let usage = CountedUsage::of(&request.body);
        let memory = request.turn.as_ref().and_then(|turn| turn.exchange().memory().cloned());
        let breaker = self.script.breaker.clone();
        let owner = self.script.caller.plugin.clone();
        let mut work: Work = Box::pin(async move {
            let work = executor::run_for(&owner, workload, move || self.run(&request, sender));
            work.await.unwrap_or_else(|error| {
                if let ExecutorError::Stuck = error {
                    breaker.trip(STUCK);
                }
                Err(error.into())
            })
        });
        // A failure before the first chunk is returned with its own status.
        let (first, work) = tokio::select! {
            biased;
            first = sent.next() => (first, work),
            ended = &mut work => (sent.next().await, std::future::ready(ended).boxed()),
        };
        let first = match first {
            Some(Message::Whole(answer)) => {
                if answer.get("usage").is_none_or(|usage| usage.is_null()) {
                    // The answer is new and not read-only.
                    answer.edit("usage", usage.of_text(&message::text_of(&response::message_of(&answer))));
                }
                return work.await.map(|()| Answer::Whole(answer));
            }
            Some(Message::StreamChunk(first)) => first,
            None => return work.await.and(Err(Error::Host("the pipe returned an empty answer".into()))),
        };
        let chunks = with_usage(chunks(first, sent, work), usage);
        match streams {
            true => Ok(Answer::Stream(chunks)),
            false => provider::whole_within(chunks, memory.as_deref()).await.map(Answer::Whole),
        }
    }

    /// Runs one call, unless the script's circuit breaker is open.
    fn run(&self, request: &Request, sender: Sender<Message>) -> Result<(), Error> {
        let turn = request.turn.clone().unwrap_or_default();
        let breaker = &self.script.breaker;
        let admission = breaker.admit(|| turn.facts().client_digest());
        if let BreakerState::Open(rest) = admission {
            self.call_metrics.record_skipped();
            return Err(self.refused(breaker.rejection(rest)));
        }
        if turn.facts().callers.iter().any(|caller| caller == self.script.id()) {
            let says = format!("the pipe `{}` cannot call itself", self.script.id());
            return Err(self.refused(Rejection::new(says).with_status(500)));
        }
        let result = self.measured(request, &turn, sender);
        match &result {
            // The script did not fail if the call was canceled with its turn.
            Err(Error::Broken(_)) if turn.is_over() => {}
            Err(Error::Broken(failure)) => {
                breaker.record(admission, Some(failure), || turn.facts().client_digest())
            }
            _ => breaker.record(admission, None, || turn.facts().client_digest()),
        }
        result.map_err(Error::into_rejection)
    }

    fn refused(&self, rejection: Rejection) -> Error {
        Error::Rejected(Rejection { plugin: self.script.id().into(), ..rejection })
    }

    fn measured(&self, request: &Request, turn: &Turn, sender: Sender<Message>) -> Result<(), Error> {
        let Some(pipe) = &self.script.pipe else { return Ok(()) };
        let params = pipe.params.iter().map(|param| match param {
            Param::Subject => live(&request.body, Shape::Body),
            param => self.script.argument(*param, turn, &self.users),
        });
        let head = Head::new(request.body.text("model").unwrap_or_else(|| self.script.id().into()));
        let out = Arc::new(Out {
            turn: turn.clone(),
            sender,
            head,
            by: self.script.id().into(),
            answered: answered_calls(&request.body),
            written: Mutex::default(),
        });
        let timing = self.call_metrics.begin();
        let args = params.collect();
        let (result, spent) = self
            .script
            .call_pipe(args, turn, pipe.timeout, out.clone(), |value| give(&self.script, value, &out));
        let ending = match &result {
            Err(CallEnd::Broken { .. }) if !turn.is_over() => CallOutcome::Failed,
            Err(CallEnd::Rejected(_)) => CallOutcome::Refused,
            _ => CallOutcome::Continued,
        };
        self.call_metrics.end(&timing, spent, ending);
        if let Some(trace) = turn.trace() {
            trace.spend("model", self.script.id(), spent);
        }
        result.map_err(|ended| match ended {
            CallEnd::Rejected(rejection) => self.refused(rejection),
            CallEnd::Broken { failure, summary, limit, .. } => {
                let failure = attributed(failure, &summary, limit, &request.body, turn.size());
                let failure = PluginError { plugin: self.script.id().into(), hook: "pipe".into(), ..failure };
                turn.log_failure(&failure);
                Error::Broken(failure)
            }
        })
    }
}

/// Returns the chunks as the script yields them. The script runs while the stream is read.
fn chunks(
    first: Json,
    sent: Receiver<Message>,
    work: Work,
) -> stream::BoxStream<'static, Result<StreamChunk, Error>> {
    let sent = sent.map(|sent| match sent {
        Message::StreamChunk(chunk) | Message::Whole(chunk) => Ok(StreamChunk::new(chunk)),
    });
    let failed = stream::once(work).filter_map(|ended| std::future::ready(ended.err().map(Err)));
    stream::once(std::future::ready(Ok(StreamChunk::new(first)))).chain(sent).chain(failed).boxed()
}

/// The usage of an answer whose script reports none: the tokens of the request and of the text.
struct CountedUsage {
    model: String,
    prompt: usize,
}

impl CountedUsage {
    fn of(body: &Json) -> Self {
        let model = body.text_or_empty("model").to_string();
        let prompt = valvehouse_tokens::of_messages(&body.list("messages"), &model).tokens;
        Self { model, prompt }
    }

    fn of_text(&self, text: &str) -> Json {
        response::usage(self.prompt, Counter::of(&self.model).text(text))
    }
}

/// Adds a chunk with the usage to the end of a complete stream that has none.
fn with_usage(
    chunks: stream::BoxStream<'static, Result<StreamChunk, Error>>,
    usage: CountedUsage,
) -> stream::BoxStream<'static, Result<StreamChunk, Error>> {
    #[derive(Default)]
    struct StreamSummary {
        text: String,
        head: Option<Head>,
        has_usage: bool,
        failed: bool,
    }
    let seen = Arc::new(Mutex::new(StreamSummary::default()));
    let noted = seen.clone();
    let chunks = chunks.inspect(move |chunk| {
        let mut seen = noted.lock();
        let Ok(StreamChunk { event, .. }) = chunk else {
            seen.failed = true;
            return;
        };
        seen.text.push_str(&event::text(event));
        seen.has_usage |= event.get("usage").is_some_and(|usage| !usage.is_null());
        if seen.head.is_none() {
            seen.head = Some(Head::with_id(event.text_or_empty("id"), event.text_or_empty("model")));
        }
    });
    let last = stream::once(async move {
        let mut seen = seen.lock();
        let head = seen.head.take().filter(|_| !seen.has_usage && !seen.failed)?;
        Some(Ok(StreamChunk::new(head.usage_chunk(usage.of_text(&seen.text)))))
    });
    chunks.chain(last.filter_map(std::future::ready)).boxed()
}

/// The sender of one call's answer.
struct Out {
    turn: Turn,
    sender: Sender<Message>,
    head: Head,
    /// The id of the pipe.
    by: String,
    /// The calls of the last answer, whose results are the last messages of the request.
    answered: Vec<ModelCall>,
    written: Mutex<Progress>,
}

/// The progress of an answer.
#[derive(Default)]
struct Progress {
    begun: bool,
    /// `true` after a chunk with a finish reason.
    ended: bool,
    /// The number of tool calls.
    calls: usize,
    /// Lists of tool calls of the script itself. They are sent at the end, because text after them means that they
    /// were only shown.
    held: Vec<Json>,
    /// `true` if text came after the first of these calls.
    has_text_after: bool,
    /// The number of bytes. A script may send more than its memory limit in total.
    sent: usize,
}

impl ChunkSink for Out {
    fn chunk(&self, given: &Json) -> Result<(), Box<EvalAltResult>> {
        if !matches!(given, Json::Text(_) | Json::Object(_)) {
            return Err(error(format!(
                "invalid chunk of an answer: expected a text or a map, got {}",
                given.kind()
            )));
        }
        let Some(given) = self.without_shown(given)? else { return Ok(()) };
        // The chunk is recorded before the wait for the reader, because another part of the script may send one
        // meanwhile.
        let (begins, chunks) = {
            let mut written = self.written.lock();
            written.sent += given.size_estimate();
            if written.sent > LARGEST {
                return Err(error(format!("the answer exceeded its limit of {} MB", LARGEST >> 20)));
            }
            let chunks = self.add(&given, &mut written);
            (!chunks.is_empty() && !std::mem::replace(&mut written.begun, true), chunks)
        };
        self.send_all(begins, chunks)
    }
}

impl Out {
    fn send(&self, sent: Message) -> Result<(), Box<EvalAltResult>> {
        // If the reader is gone, the turn has ended or is about to end.
        let mut sender = self.sender.clone();
        budget::wait(&self.turn, sender.send(sent))?.map_err(|_| error("the client canceled the request"))
    }

    /// Sends chunks, after the role of the answer if they begin it.
    fn send_all(&self, begins: bool, chunks: Vec<Json>) -> Result<(), Box<EvalAltResult>> {
        if begins {
            let delta = Json::from([("role", "assistant".into()), ("content", "".into())]);
            self.send(Message::StreamChunk(self.head.chunk(delta, None)))?;
        }
        chunks.into_iter().try_for_each(|chunk| self.send(Message::StreamChunk(chunk)))
    }

    /// Records a chunk, and returns the chunks to send. Calls of the script itself are held.
    fn add(&self, given: &Json, written: &mut Progress) -> Vec<Json> {
        let template = self.head.chunk(Json::object(), None);
        let chunk = event::complete(given, &template).deep_clone();
        let is_whole = event::is_whole(given);
        if is_whole {
            // The chunk becomes part of this answer, even if another model created it.
            for key in ["id", "created", "model"] {
                chunk.edit(key, template.field(key));
            }
        }
        written.ended |= delta::finishes(&chunk);
        written.has_text_after |= !written.held.is_empty() && !event::text(&chunk).trim().is_empty();
        if let Some(delta) = event::delta(&chunk) {
            written.number(&delta);
            if !is_whole && let Some(calls) = delta.remove("tool_calls").filter(|calls| !calls.is_empty()) {
                written.held.push(calls);
                if delta.is_empty() && !written.ended {
                    return Vec::new();
                }
            }
        }
        // With a finish reason, the script says itself that the calls are to be run.
        let held = if written.ended { std::mem::take(&mut written.held) } else { Vec::new() };
        held.into_iter().map(|calls| self.of_calls(calls)).chain([chunk]).collect()
    }

    fn of_calls(&self, calls: Json) -> Json {
        self.head.chunk(Json::from([("tool_calls", calls)]), None)
    }

    /// Shows the calls of a chunk that only shows them, and returns its rest, if any.
    fn without_shown(&self, given: &Json) -> Result<Option<Json>, Box<EvalAltResult>> {
        if !given.is_true(DISPLAY) {
            return Ok(Some(given.clone()));
        }
        self.show(&given.list("tool_calls"))?;
        let rest = given.deep_clone();
        ["tool_calls", DISPLAY].iter().for_each(|key| drop(rest.remove(key)));
        Ok((!rest.is_empty()).then_some(rest))
    }

    /// Shows tool calls to the client as statuses. They are not part of the answer, so nothing runs them.
    fn show(&self, calls: &[Json]) -> Result<(), Box<EvalAltResult>> {
        for call in calls {
            let name = call.at_path("function.name");
            let arguments = match call.at_path("function.arguments") {
                Json::Text(text) => text.to_string(),
                arguments => arguments.to_string(),
            };
            let text = format!("{}({arguments})", name.str_or_empty());
            self.turn.emit_status(&self.by, &text, true).map_err(|unsent| error(unsent.to_string()))?;
        }
        Ok(())
    }

    /// Rejects calls that the last answer made as well and that have their results: the script would repeat them
    /// until the limit of model calls.
    fn check_repetition(&self, message: &Json) -> Result<(), Box<EvalAltResult>> {
        let calls = ModelCall::all(message);
        let is_same = |(new, old): (&ModelCall, &ModelCall)| {
            new.name == old.name && (new.arguments == old.arguments || same_arguments(new, old))
        };
        if calls.is_empty()
            || calls.len() != self.answered.len()
            || !calls.iter().zip(&self.answered).all(is_same)
        {
            return Ok(());
        }
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        Err(error(format!(
            "calls {} again with the same arguments: return an answer after a message of the role tool, or set \
             `display: true` beside `tool_calls` to show calls only",
            names.join(", ")
        )))
    }

    /// Sends the held calls, or shows them if text came after them.
    fn release(&self) -> Result<(), Box<EvalAltResult>> {
        let (held, is_shown, begins) = {
            let mut written = self.written.lock();
            let held = std::mem::take(&mut written.held);
            if held.is_empty() {
                return Ok(());
            }
            let is_shown = written.has_text_after;
            if is_shown {
                written.calls = 0;
            }
            (held, is_shown, !is_shown && !std::mem::replace(&mut written.begun, true))
        };
        let chunks: Vec<Json> = held.into_iter().map(|calls| self.of_calls(calls)).collect();
        let mut fold = Fold::default();
        chunks.iter().for_each(|chunk| fold.push(chunk));
        let message = response::message_of(&fold.finish());
        if is_shown {
            return self.show(&message.list("tool_calls"));
        }
        self.check_repetition(&message)?;
        self.send_all(begins, chunks)
    }

    fn has_begun(&self) -> bool {
        let written = self.written.lock();
        written.begun || !written.held.is_empty()
    }

    fn end(&self) -> Result<(), Box<EvalAltResult>> {
        self.release()?;
        let (begun, ended, calls) = {
            let written = self.written.lock();
            (written.begun, written.ended, written.calls)
        };
        if !begun {
            return self.send(Message::Whole(self.head.text("")));
        }
        if ended {
            return Ok(());
        }
        let why = if calls > 0 { "tool_calls" } else { "stop" };
        self.send(Message::StreamChunk(self.head.chunk(Json::object(), Some(why))))
    }
}

impl Progress {
    /// Numbers tool calls without `index` consecutively.
    fn number(&mut self, delta: &Json) {
        for call in delta.list("tool_calls") {
            if call.get("index").is_none() {
                // A delta that is not an object contains no calls.
                call.edit("index", self.calls);
            }
            let index = call.get("index").and_then(|index| index.as_i64()).unwrap_or(0);
            self.calls = self.calls.max(usize::try_from(index).unwrap_or(0) + 1);
            if call.get("function").is_some_and(|function| function.get("name").is_some()) {
                call.edit("type", "function");
                call::ensure_id(&call);
            }
        }
    }
}

/// Sends the return value of `pipe`: a text, a message, a complete answer, a list of chunks, a streamed answer, or
/// a function that is called for one chunk at a time until it returns `()`. Text already sent by `yield_text`
/// precedes it.
fn give(script: &Script, value: Dynamic, out: &Out) -> Result<(), Box<EvalAltResult>> {
    if let Some(next) = value.read_lock::<FnPtr>().map(|next| next.clone()) {
        loop {
            let chunk: Dynamic = next.call(&script.engine, &script.ast, ())?;
            if chunk.is_unit() {
                return out.end();
            }
            out.chunk(&json_of(&chunk)?)?;
        }
    }
    if let Some(reading) = value.read_lock::<OpenAnswer>().map(|reading| reading.clone()) {
        while let Some(chunk) = reading.next()? {
            out.chunk(&json_of(&chunk)?)?;
        }
        return out.end();
    }
    let value = match value.read_lock::<HookAnswer>().as_deref() {
        Some(HookAnswer::Skip(value) | HookAnswer::Ok(value, _)) => value.clone(),
        Some(HookAnswer::Error(rejection)) => return Err(ThrownError::refused(rejection.clone())),
        None => json_of(&value)?,
    };
    match &value {
        Json::Null if out.has_begun() => out.end(),
        Json::Array(chunks) => {
            for chunk in chunks.items() {
                out.chunk(&chunk)?;
            }
            out.end()
        }
        Json::Text(_) | Json::Object(_) if out.has_begun() => {
            out.chunk(&chunk_of(&value))?;
            out.end()
        }
        Json::Null => Err(error(
            "returned null and yielded nothing; end the pipe with the answer, or with `\"\"` for an empty one",
        )),
        Json::Text(_) | Json::Object(_) => {
            let value = out.without_shown(&value)?.unwrap_or_else(|| "".into());
            let answer = answer_of(&value, &out.head.model);
            out.check_repetition(&response::message_of(&answer))?;
            out.send(Message::Whole(answer))
        }
        other => Err(error(format!(
            "returned {}; `pipe` returns a text, a message, a list of chunks, or a function that returns \
             one chunk per call",
            other.kind()
        ))),
    }
}

/// Returns the calls of the last answer if their results are the last messages.
fn answered_calls(body: &Json) -> Vec<ModelCall> {
    let messages = body.list("messages");
    let is_result = |message: &&Json| history::is_role(message, "tool");
    let results = messages.iter().rev().take_while(is_result).count();
    let before = messages.len().checked_sub(results + 1).filter(|_| results > 0);
    before.map_or_else(Vec::new, |place| ModelCall::all(&messages[place]))
}

fn same_arguments(one: &ModelCall, other: &ModelCall) -> bool {
    matches!((one.parse(), other.parse()), (Ok(one), Ok(other)) if one == other)
}

/// Converts a complete answer that follows chunks into a chunk.
fn chunk_of(value: &Json) -> Json {
    match (value.get("choices"), value.get("object").as_ref().and_then(Json::as_str)) {
        (Some(_), Some("chat.completion")) => {
            event::of_choice(value, &value.at_path("choices.0"), &response::message_of(value))
        }
        _ => value.clone(),
    }
}
