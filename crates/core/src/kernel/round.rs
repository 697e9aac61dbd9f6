//! A model call: pre_chat chain, model, stream chain and post_chat chain, and the request as sent to the
//! provider, without the fields that belong to this host.

use super::assembly::Kernel;
use super::outgoing::{AnswerStream, choices};
use super::progress::Progress;
use super::recorded_answer::{self, Record};
use super::{answer, service_error, stream};
use crate::chat::{Outline, call, ending, event, message, plain, request, response};
use crate::context::{Notice, NoticeKind, Turn};
use crate::error::Error;
use crate::filter::{ChainOutcome, Hook};
use crate::provider::{
    Answer, AnswerCollector, ForwardRequest, PassthroughAnswer, Provider, Request, StreamChunk, TracedCall,
    fit,
};
use crate::tool::SchemaDialect;
use bytes::Bytes;
use compact_str::CompactString;
use futures_util::future::join;
use futures_util::stream::{BoxStream, StreamExt};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use tracing::Instrument;
use valvehouse_json::{Json, Object};

/// The outcome of the pre_chat chain.
enum PreChatOutcome {
    /// The request to send to the model.
    Ask(Json),
    /// A filter's answer instead of the model's.
    Answered(Json),
}

/// Runs a model call up to the stream chain and stores the answer. If the caller accepts bytes and the provider
/// speaks the OpenAI API, returns the provider's bytes instead.
pub(super) async fn model(
    kernel: &Kernel,
    progress: &mut Progress,
    turn: &Turn,
    outgoing: &mut AnswerStream,
    takes_bytes: bool,
) -> Result<Option<PassthroughAnswer>, Error> {
    let request_body = match prepare(kernel, progress, turn).await? {
        PreChatOutcome::Ask(request_body) => request_body,
        PreChatOutcome::Answered(value) => {
            // Other filters do not see an answer from a filter.
            progress.request_messages = Json::Null;
            progress.response = guarded(kernel, progress, answer::from_value(&value, turn), turn).await?;
            return Ok(None);
        }
    };
    let wants_stream = outgoing.wants_chunks();
    // `stream: false` is sent only if the client sent the field.
    if wants_stream || request_body.get("stream").is_some() {
        request_body.put("stream", wants_stream);
    }
    if takes_bytes && let Some(forwarded) = forward(kernel, &request_body, turn, wants_stream).await? {
        return Ok(Some(forwarded));
    }
    progress.request_messages = request_body.field("messages");
    turn.notify(NoticeKind::LlmStart, || Notice::LlmStart { messages: progress.request_messages.clone() });
    let answered = ask(kernel, &request_body, turn, outgoing).await;
    progress.response = notify_error(answered, turn)?;
    Ok(None)
}

/// Runs an answer that a filter has given in the model's place through the guards.
pub(super) async fn guarded(
    kernel: &Kernel,
    progress: &Progress,
    given: Json,
    turn: &Turn,
) -> Result<Json, Error> {
    let guards = kernel.guarding_given(turn);
    let answer = stream::whole(&guards, given, turn).await?;
    if guards.chain().has(Hook::PostChat) {
        judge(&guards, &progress.messages(), &answer, turn).await?;
    }
    Ok(answer)
}

/// Runs a model call whose answer is passed through byte for byte.
async fn forward(
    kernel: &Kernel,
    request_body: &Json,
    turn: &Turn,
    stream: bool,
) -> Result<Option<PassthroughAnswer>, Error> {
    let provider = provider(kernel)?;
    // The receiver of the bytes speaks the OpenAI API.
    let plain = plain(request_body);
    let bytes: Bytes = plain.encode_raw().map_err(|error| Error::invalid(error.to_string(), None))?.into();
    let (model, exchange) = (request_body.text_or_empty("model"), turn.exchange());
    let Some(outline) = Outline::read(&bytes) else { return Ok(None) };
    let request = ForwardRequest { body: bytes.clone(), outline: &outline, stream, model: &model, exchange };
    let Some(forwarded) = provider.forward(request) else { return Ok(None) };
    exchange.begin_call();
    let call = TracedCall::begin(turn.trace(), provider.name(), &model, || request_body.clone());
    // The write and the model call run concurrently.
    let (answer, flushed) = join(forwarded.instrument(call.span()), turn.flush()).await;
    let answer = call.follow(answer)?;
    flushed.map(|()| Some(answer))
}

/// Notifies the observer of a failed model call.
fn notify_error<T>(result: Result<T, Error>, turn: &Turn) -> Result<T, Error> {
    result.inspect_err(|error| {
        if !matches!(error, Error::Paused) {
            turn.notify(NoticeKind::LlmError, || Notice::LlmError { message: error.to_string() });
        }
    })
}

/// Runs the pre_chat chain on a copy of the messages: its additions are sent but not stored.
async fn prepare(kernel: &Kernel, progress: &Progress, turn: &Turn) -> Result<PreChatOutcome, Error> {
    let body = &progress.body;
    let mut messages = body.get("messages").unwrap_or_else(Json::array);
    let settings = kernel.settings();
    let has_pre_chat = kernel.chain().has(Hook::PreChat);
    if has_pre_chat {
        messages = messages.deep_clone();
    }
    if let Some(prompt) = &settings.system_prompt {
        messages = [vec![message::system(prompt.as_str())], messages.items()].concat().into();
    }
    if has_pre_chat {
        let ctx = turn.ctx_of([("messages", messages), ("model", body.field("model"))]);
        match kernel.chain().run(Hook::PreChat, ctx, turn).await? {
            ChainOutcome::Done(ctx) => messages = ctx.get("messages").unwrap_or_else(Json::array),
            ChainOutcome::Skipped(value) => return Ok(PreChatOutcome::Answered(value)),
        }
    }
    let request_body = for_provider(body, messages, settings.model.as_deref());
    offer_tools(kernel, &request_body, &progress.found);
    Ok(PreChatOutcome::Ask(request_body))
}

/// Adds the host's tools to the client's tools. `found` lists the tools found by searches in this turn.
fn offer_tools(kernel: &Kernel, request_body: &Json, found: &Json) {
    if kernel.toolbox().is_empty() {
        return;
    }
    let ours = match kernel.settings().tool_search {
        true => kernel.searched_schemas(request_body, found),
        false => kernel.tool_schemas(SchemaDialect::OpenAi),
    };
    let is_ours = |tool: &Json| {
        let name = tool.get("function").and_then(|function| function.text("name"));
        name.is_some_and(|name| kernel.toolbox().find(&name).is_some())
    };
    let mut tools: Vec<Json> = request_body.list("tools");
    tools.retain(|tool| !is_ours(tool));
    tools.extend(ours);
    request_body.put("tools", tools);
}

/// Returns the provider of this kernel's model.
fn provider(kernel: &Kernel) -> Result<&Arc<dyn Provider>, Error> {
    kernel.provider().ok_or_else(|| {
        Error::Host("cannot call a model: this kernel has no provider; set one with `.provider(…)`".into())
    })
}

/// Calls the model and sends its answer on through the stream chain as it arrives.
async fn ask(
    kernel: &Kernel,
    request_body: &Json,
    turn: &Turn,
    outgoing: &mut AnswerStream,
) -> Result<Json, Error> {
    let wants_stream = outgoing.wants_chunks();
    if !wants_stream {
        request_body.remove("stream_options");
    } else if (kernel.chain().reads_usage() || turn.exchange().is_metered())
        && !request::wants_usage(request_body)
    {
        let options = request_body.field("stream_options").deep_clone();
        let options = if options.is_object() { options } else { Json::object() };
        // The object is new, so the write cannot fail.
        options.edit("include_usage", true);
        request_body.put("stream_options", options);
        outgoing.hide_usage();
    }
    let provider = provider(kernel)?;
    turn.exchange().begin_call();
    let request = Request { body: request_body.clone(), stream: wants_stream, turn: Some(turn.clone()) };
    let request = fit(&**provider, request)?;
    let request_body = &request.body.clone();
    let model = request_body.text_or_empty("model");
    let (known, mut record) = recorded_answer::begin(kernel, request_body, turn);
    let mut call = TracedCall::begin(turn.trace(), provider.name(), &model, || request_body.clone());
    let span = call.span();
    let answer = match known {
        Some(answer) => Ok(answer),
        None => provider.chat(request).instrument(span.clone()).await,
    };
    let answered = {
        let answering = pin!(answered(kernel, answer, turn, outgoing, (&mut call, &mut record)));
        answering.instrument(span).await
    };
    let answered = answered.and_then(|answer| ended(answer, provider.name()));
    if let Some(record) = record {
        record.end(turn);
    }
    match call.end(answered) {
        Err(error) => Err(service_error::filtered(kernel, error, turn).await),
        answered => answered,
    }
}

/// The trace and the record of an answer, both updated as it arrives.
type Notes<'a, 'b> = (&'a mut TracedCall, &'a mut Option<Record<'b>>);

/// Runs an answer through the stream chain and returns it.
async fn answered(
    kernel: &Kernel,
    answer: Result<Answer, Error>,
    turn: &Turn,
    outgoing: &mut AnswerStream,
    (call, record): Notes<'_, '_>,
) -> Result<Json, Error> {
    match answer? {
        Answer::Whole(whole) => {
            for choice in whole.list("choices") {
                call::write_function_call(&choice);
            }
            if reads_answers(kernel) {
                stream::check_choices(&whole)?;
                response::join_texts(&whole);
            }
            call.whole(&whole);
            if let Some(record) = record {
                record.whole(&whole);
            }
            stream::whole(kernel, whole, turn).await
        }
        Answer::Stream(mut chunks) => {
            let streamed = streamed(kernel, &mut chunks, turn, outgoing, (call, record)).await;
            if let Some(record) = record
                && turn.is_paused()
            {
                record.rest(&mut chunks).await;
            }
            streamed
        }
    }
}

/// Returns the error of an answer that its provider aborted, which no endpoint may send as a complete one.
fn ended(answer: Json, provider: &str) -> Result<Json, Error> {
    let Some(reason) = ending::failure_of(&answer) else { return Ok(answer) };
    let message = format!(
        "provider {provider} did not complete its answer: it ended with the reason `{reason}`; send the request again"
    );
    Err(Error::Provider { message: message.into(), timeout: false })
}

/// Returns `true` if a filter reads complete answers; otherwise they are not parsed.
fn reads_answers(kernel: &Kernel) -> bool {
    [Hook::Stream, Hook::PostChat, Hook::Outlet].into_iter().any(|hook| kernel.chain().has(hook))
}

/// Runs a streamed answer through the stream chain and returns the complete answer.
async fn streamed(
    kernel: &Kernel,
    chunks: &mut BoxStream<'static, Result<StreamChunk, Error>>,
    turn: &Turn,
    outgoing: &mut AnswerStream,
    (call, record): Notes<'_, '_>,
) -> Result<Json, Error> {
    let mut collected = AnswerCollector::new(turn.exchange().memory().map(|memory| &**memory));
    let hooked = kernel.chain().has(Hook::Stream);
    let (mut head, mut ends, mut late) = (Json::Null, Vec::new(), LateEvents::default());
    while let Some(chunk) = chunks.next().await {
        let mut chunk = match chunk.and_then(stream::checked) {
            Ok(chunk) => chunk,
            Err(error) => {
                // A text that came with an end was not judged yet.
                for late in &mut late.events {
                    if late.parts().content {
                        filter(kernel, without_end(late), &mut collected, turn, outgoing).await?;
                    }
                }
                for chunk in stream::rest(kernel, head, turn).await {
                    pass(chunk, &mut collected, turn, outgoing).await?;
                }
                return Err(error);
            }
        };
        collected.receive(&chunk)?;
        call.chunk(&chunk.event);
        if let Some(record) = record {
            record.event(&chunk.event);
        }
        outgoing.receive(&mut chunk);
        // Azure's first event has an empty id.
        if head.text("id").is_none_or(|id| id.is_empty()) {
            head = event::head_of(&chunk.event);
        }
        if !hooked {
            pass(chunk, &mut collected, turn, outgoing).await?;
            continue;
        }
        if chunk.parts().finish {
            ends.extend(stream::ends_of(&chunk.event));
        }
        for chunk in late.receive(chunk, outgoing)? {
            filter(kernel, chunk, &mut collected, turn, outgoing).await?;
        }
    }
    for chunk in late.events {
        filter(kernel, chunk, &mut collected, turn, outgoing).await?;
    }
    for chunk in stream::end(kernel, head, turn).await? {
        pass(chunk, &mut collected, turn, outgoing).await?;
    }
    // The end of an answer is preserved even if its last event was dropped.
    ends.retain(|end| !collected.has_ended(event::choice_index(end)));
    for end in ends {
        pass(StreamChunk::new(end), &mut collected, turn, outgoing).await?;
    }
    let answer = collected.finish();
    if reads_answers(kernel) {
        response::join_texts(&answer);
    }
    Ok(answer)
}

/// The ends of choices, and what follows them, until no text can follow: some services send text after an end, or a
/// second one. Filters see an end as the last event of its choice.
#[derive(Default)]
struct LateEvents {
    events: Vec<StreamChunk>,
    /// The choices of these events.
    choices: BTreeSet<i64>,
}

impl LateEvents {
    /// Takes an event. Returns those that filters see now.
    fn receive(
        &mut self,
        mut chunk: StreamChunk,
        outgoing: &mut AnswerStream,
    ) -> Result<Vec<StreamChunk>, Error> {
        let parts = chunk.parts();
        let goes_on = parts.content && choices(&chunk.event).any(|(index, _)| self.choices.contains(&index));
        let mut now = Vec::new();
        if goes_on {
            // The text that waits with its end comes first.
            for late in &mut self.events {
                if late.parts().content {
                    now.push(without_end(late));
                }
            }
            if !parts.finish {
                now.push(chunk);
                return Ok(now);
            }
            now.push(without_end(&mut chunk));
        }
        if !parts.finish && (parts.content || self.events.is_empty()) {
            return Ok(vec![chunk]);
        }
        outgoing.count_held(&chunk)?;
        self.choices.extend(choices(&chunk.event).map(|(index, _)| index));
        self.events.push(chunk);
        Ok(now)
    }
}

/// Leaves the end in an event, and returns the rest of it.
fn without_end(chunk: &mut StreamChunk) -> StreamChunk {
    let (ahead, end) = event::without_finish(&chunk.event);
    *chunk = StreamChunk::new(end);
    StreamChunk::new(ahead)
}

/// Runs an event through the stream chain and passes the results on.
async fn filter(
    kernel: &Kernel,
    chunk: StreamChunk,
    collected: &mut AnswerCollector<'_>,
    turn: &Turn,
    outgoing: &mut AnswerStream,
) -> Result<(), Error> {
    let was_raw = !chunk.raw.is_empty();
    let filtered = stream::filtered(kernel, chunk, turn).await?;
    if !matches!(filtered.as_slice(), [same] if was_raw != same.raw.is_empty()) {
        outgoing.edited();
    }
    for chunk in filtered {
        pass(chunk, collected, turn, outgoing).await?;
    }
    Ok(())
}

/// Adds an event to the complete answer and sends it to the client.
async fn pass(
    mut chunk: StreamChunk,
    collected: &mut AnswerCollector<'_>,
    turn: &Turn,
    outgoing: &mut AnswerStream,
) -> Result<(), Error> {
    outgoing.normalize(&mut chunk);
    collected.push(&chunk.event)?;
    if turn.is_observed(NoticeKind::LlmToken) {
        let text = event::text(&chunk.event);
        if !text.is_empty() {
            turn.notify(NoticeKind::LlmToken, || Notice::LlmToken { text: text.into() });
        }
    }
    outgoing.send(chunk).await
}

/// Runs the post_chat chain on a model's answer.
pub(super) async fn post_chat(kernel: &Kernel, progress: &Progress, turn: &Turn) -> Result<(), Error> {
    let Progress { request_messages, response, .. } = progress;
    if request_messages.is_null() {
        return Ok(());
    }
    if kernel.chain().has(Hook::PostChat) {
        notify_error(judge(kernel, request_messages, response, turn).await, turn)?;
    }
    turn.notify(NoticeKind::LlmEnd, || Notice::LlmEnd { response: response.clone() });
    Ok(())
}

/// Runs the post_chat chain on each choice and writes the changes back to the answer.
async fn judge(kernel: &Kernel, messages: &Json, whole: &Json, turn: &Turn) -> Result<(), Error> {
    for choice in whole.list("choices") {
        let message = match choice.get("message") {
            Some(message @ Json::Object(_)) => message,
            _ => {
                // Azure omits the message if its content filter blocked it.
                let message = message::assistant("");
                choice.edit("message", message.clone());
                message
            }
        };
        let ctx = turn.ctx_of([
            ("messages", messages.clone()),
            ("result", answer::shown_to_post_chat(&choice, &message, whole)),
        ]);
        match kernel.chain().run(Hook::PostChat, ctx, turn).await? {
            ChainOutcome::Done(ctx) => answer::take_edits(&choice, &message, &ctx.field("result")),
            ChainOutcome::Skipped(value) => answer::take_value(&choice, &message, &value),
        }
    }
    Ok(())
}

/// The fields of a request that belong to this host.
const OURS: [&str; 8] =
    ["metadata", "features", "files", "tool_ids", "filter_ids", "chat_id", "session_id", "id"];

/// Returns `true` if a field of a body belongs to this host and is not sent to providers. Open WebUI sends a
/// map as `user`, which belongs to the host; a text as `user` does not.
pub fn is_ours(key: &str, is_map: bool) -> bool {
    OURS.contains(&key) || (key == "user" && is_map)
}

/// The keys of `metadata` that belong to this host or to Open WebUI.
const OUR_METADATA: [&str; 17] = [
    "chat_id",
    "message_id",
    "session_id",
    "variables",
    "features",
    "files",
    "tool_ids",
    "tool_servers",
    "filter_ids",
    "user_id",
    "user_message_id",
    "parent_message_id",
    "task",
    "type",
    "interface",
    "function_calling",
    "direct",
];

/// Returns the client's own `metadata`, which OpenAI stores with an answer: texts under keys that do not belong
/// to the host.
fn metadata_for_provider(body: &Json, metadata: &Json) -> Option<Json> {
    let is_stored = body.get("store").is_some_and(|store| !store.is_empty());
    let entries = metadata.as_object().map(Object::entries).filter(|_| is_stored)?;
    let is_theirs = |(key, value): &(_, Json)| {
        !OUR_METADATA.contains(&AsRef::<str>::as_ref(key)) && value.as_str().is_some()
    };
    let own: Object =
        entries.into_iter().filter(is_theirs).collect::<Vec<(CompactString, Json)>>().into_iter().collect();
    (!own.is_empty()).then(|| own.into())
}

/// Returns a body for the provider, without the host's fields.
pub(super) fn for_provider(body: &Json, messages: Json, model: Option<&str>) -> Json {
    let entries = body.entries();
    // An `id` belongs to the host if the body also has a chat id; otherwise, it is a provider field.
    let has_chat = ["chat_id", "session_id"].iter().any(|key| body.get(key).is_some())
        || body.at_path("metadata.chat_id").as_str().is_some();
    let mut messages = Some(messages);
    let kept = entries.into_iter().filter_map(|(key, value)| {
        let value = match (key.as_str(), model) {
            ("metadata", _) => metadata_for_provider(body, &value)?,
            ("id", _) if !has_chat => value,
            (key, _) if is_ours(key, value.as_object().is_some()) => return None,
            ("messages", _) => messages.take().unwrap_or(value),
            ("model", Some(model)) => model.into(),
            _ => value,
        };
        Some((key, value))
    });
    kept.collect::<Object>().into()
}
