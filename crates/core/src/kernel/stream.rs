//! The processing of stream events through the stream chain.

use super::assembly::Kernel;
use crate::chat::{Fold, delta, event, log_probabilities, message, window};
use crate::context::Turn;
use crate::error::{Error, PluginError, Rejection};
use crate::filter::{ChainOutcome, FilterEntry, Hook, broken_stream, step};
use crate::provider::StreamChunk;
use valvehouse_json::Json;

impl Kernel {
    /// Runs the stream hooks on one event, for callers that use them without a turn. Returns the resulting
    /// events.
    ///
    /// # Errors
    /// Returns the error of a filter that refused or failed.
    pub async fn stream_event(&self, event: Json, turn: &Turn) -> Result<Vec<Json>, Error> {
        let chunks = filtered(self, checked(StreamChunk::new(event))?, turn).await?;
        Ok(chunks.into_iter().map(|chunk| chunk.event).collect())
    }

    /// Runs the stream_end hooks. Returns the events that they add, created from `template`.
    ///
    /// # Errors
    /// Returns the error of a filter that refused or failed.
    pub async fn stream_end(&self, template: Json, turn: &Turn) -> Result<Vec<Json>, Error> {
        let chunks = end(self, template, turn).await?;
        Ok(chunks.into_iter().map(|chunk| chunk.event).collect())
    }
}

/// Checks that hooks can read the choices of an answer: a list of objects.
///
/// # Errors
/// Returns a provider error for any other value.
pub(super) fn check_choices(answer: &Json) -> Result<(), Error> {
    let is_object = |choice: &Json| choice.as_object().is_some();
    match answer.get("choices") {
        Some(Json::Array(choices)) if choices.with(|choices| choices.iter().all(is_object)) => Ok(()),
        _ => {
            let message = "the provider sent an answer whose `choices` are not a list of objects".to_owned();
            Err(Error::Provider { message: message.into(), timeout: false })
        }
    }
}

/// Returns an event that hooks can read: an object. Any other event ends its stream.
pub(super) fn checked(chunk: StreamChunk) -> Result<StreamChunk, Error> {
    match chunk.event.as_object() {
        Some(_) => Ok(chunk),
        None => {
            let message = "the provider sent an event that is not a JSON object".to_owned();
            Err(Error::Provider { message: message.into(), timeout: false })
        }
    }
}

/// Runs an event through the stream chain. An unchanged event retains its bytes.
pub(super) async fn filtered(
    kernel: &Kernel,
    chunk: StreamChunk,
    turn: &Turn,
) -> Result<Vec<StreamChunk>, Error> {
    let parts = by_choice(&chunk.event);
    let whole = parts.len() == 1;
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        if let Some(choice) = part.get("choices").and_then(|choices| choices.at(0)) {
            log_probabilities::normalize(&choice);
        }
        let is_long = chunk.raw.len() > event::LONG || chunk.raw.is_empty() && event::is_long(&part);
        turn.set_long_event(is_long);
        if is_long {
            turn.note_size(part.size_estimate());
        }
        for event in chain(kernel, 0, part.clone(), turn).await? {
            let untouched = whole && event.ptr_eq(&part) && !event.is_changed();
            // Filters do not see the SSE name of an event, so it is not sent.
            let mut new = match untouched && !chunk.raw.is_empty() {
                // The unchanged event retains its bytes and its class.
                true => chunk.clone(),
                false => StreamChunk::new(event),
            };
            new.name = None;
            out.push(new);
        }
    }
    Ok(out)
}

/// Splits an event with several choices, because hooks process one choice at a time.
fn by_choice(event: &Json) -> Vec<Json> {
    let are_several = |it: Option<&Json>| matches!(it, Some(Json::Array(choices)) if choices.len() > 1);
    if !event.as_object().is_some_and(|event| event.with("choices", are_several)) {
        return vec![event.clone()];
    }
    let choices = event.list("choices");
    let choices = choices.into_iter().enumerate().map(|(place, choice)| {
        if choice.get("index").is_none_or(|index| index.is_null()) {
            // The position is stored as the index, because the split loses it. The object has no index, so the
            // write cannot fail.
            choice.edit("index", place);
        }
        event::with_choice(event, choice)
    });
    choices.collect()
}

/// Returns an event without content for each choice that ends in an event.
pub(super) fn ends_of(event: &Json) -> Vec<Json> {
    let parts = by_choice(event).into_iter().filter(delta::finishes);
    parts.map(|part| event::without_finish(&part).1).collect()
}

/// Runs an event through the stream hooks from a position in the chain on. Most hooks return the event they
/// received.
async fn chain(kernel: &Kernel, from: usize, event: Json, turn: &Turn) -> Result<Vec<Json>, Error> {
    let mut end = None;
    for (place, filter) in kernel.chain().at_from(Hook::Stream, from) {
        if let Some(ahead) = filter.ahead(&event, turn) {
            // The text is already marked as released, so this happens once.
            let mut out = Box::pin(chain(kernel, place, ahead, turn)).await?;
            out.retain(|event| !window::is_hollow(event));
            out.extend(Box::pin(chain(kernel, place, event, turn)).await?);
            return Ok(out);
        }
        match step(filter, Hook::Stream, event.clone(), turn, &mut end).await? {
            ChainOutcome::Done(value) if value.ptr_eq(&event) && event::is_whole_and_no_error(&event) => {}
            ChainOutcome::Done(value) if value.ptr_eq(&event) && event::is_whole(&event) => {
                no_error(filter, std::slice::from_ref(&event))?;
            }
            other => return Box::pin(spread_on(kernel, place, other, &event, turn)).await,
        }
    }
    Ok(vec![event])
}

/// Runs the events that a hook returned through the later hooks.
async fn spread_on(
    kernel: &Kernel,
    place: usize,
    made: ChainOutcome,
    template: &Json,
    turn: &Turn,
) -> Result<Vec<Json>, Error> {
    let filter = &kernel.chain().filters()[place];
    let (value, is_final) = match made {
        ChainOutcome::Done(value) => (value, false),
        ChainOutcome::Skipped(value) => (value, true),
    };
    let events = spread(value, template);
    no_error(filter, &events)?;
    // An answer that a filter returned with `skip` is final: later filters do not see it.
    if is_final {
        return Ok(events);
    }
    let mut out = Vec::with_capacity(events.len());
    let mut rest = (events.len() > 1).then_some(MAX_SPREAD);
    for event in events {
        let made = Box::pin(chain(kernel, place + 1, event, turn)).await?;
        take(&mut rest, &made, filter)?;
        out.extend(made);
    }
    Ok(out)
}

/// The maximum memory of the events that all stream hooks together create from one event, in bytes, because
/// each hook can multiply the events of another.
const MAX_SPREAD: usize = 32 << 20;

/// Subtracts the size of events from the remaining memory; `None` is unlimited.
fn take(rest: &mut Option<usize>, events: &[Json], filter: &FilterEntry) -> Result<(), Error> {
    let Some(left) = rest else { return Ok(()) };
    match events.iter().try_fold(*left, |left, event| left.checked_sub(event.size_estimate())) {
        Some(now) => {
            *left = now;
            Ok(())
        }
        None => {
            let cause = format!("the stream filters made more than {} MiB of one event", MAX_SPREAD >> 20);
            let (plugin, hook) = (filter.name().to_owned(), Hook::Stream.name().to_owned());
            tracing::error!(plugin, hook, "{cause}");
            Err(Error::Broken(PluginError { plugin, hook, ..PluginError::new(cause) }))
        }
    }
}

/// Returns the events of a hook's value, completed from the original event. Only the first occurrence of the
/// original is moved; all others are copied, because they may be shared.
fn spread(value: Json, template: &Json) -> Vec<Json> {
    if value.ptr_eq(template) && event::is_whole(&value) {
        return vec![value];
    }
    let given = match value {
        Json::Array(events) => events.items(),
        Json::Null => Vec::new(),
        one => vec![one],
    };
    let mut template_went = false;
    let own = |one: &Json| {
        let is_template = !template_went && one.ptr_eq(template);
        template_went |= is_template;
        event::complete(&if is_template { one.clone() } else { one.deep_clone() }, template)
    };
    given.iter().map(own).collect()
}

/// Returns an error if a filter added an event with an error, which ends the stream like a thrown error.
fn no_error(filter: &FilterEntry, events: &[Json]) -> Result<(), Error> {
    let is_error = |it: Option<&Json>| it.is_some_and(|error| !error.is_empty());
    let has_error = |one: &&Json| one.as_object().is_some_and(|event| event.with("error", is_error));
    let Some(error) = events.iter().find(has_error).and_then(|event| event.get("error")) else {
        return Ok(());
    };
    let message = error.text("message").unwrap_or_else(|| match &error {
        Json::Text(text) => text.as_str().into(),
        other => other.to_string().into(),
    });
    Err(Error::Rejected(Rejection { plugin: filter.name().into(), ..Rejection::new(message) }))
}

/// Returns the events that the filters add at the end of a stream; each event passes the later filters.
pub(super) async fn end(kernel: &Kernel, template: Json, turn: &Turn) -> Result<Vec<StreamChunk>, Error> {
    let mut out = Vec::new();
    for (place, filter) in kernel.chain().at_from(Hook::StreamEnd, 0) {
        let (value, skipped) = match step(filter, Hook::StreamEnd, Json::Null, turn, &mut None).await? {
            ChainOutcome::Done(value) => (value, false),
            ChainOutcome::Skipped(value) => (value, true),
        };
        let added = spread(value, &template);
        no_error(filter, &added)?;
        if skipped {
            out.extend(added.into_iter().map(StreamChunk::new));
            break;
        }
        let mut rest = (added.len() > 1).then_some(MAX_SPREAD);
        for event in added {
            let made = chain(kernel, place + 1, event, turn).await?;
            take(&mut rest, &made, filter)?;
            out.extend(made.into_iter().map(StreamChunk::new));
        }
    }
    Ok(out)
}

/// Returns the events that filters withheld in a broken stream, each passed through the later filters. Failures
/// here are only logged, because the stream ends with the original error.
pub(super) async fn rest(kernel: &Kernel, template: Json, turn: &Turn) -> Vec<StreamChunk> {
    let mut out = Vec::new();
    for (place, filter) in kernel.chain().at_from(Hook::StreamEnd, 0).filter(|(_, own)| own.withholds()) {
        let let_out = async {
            let waited = step(filter, Hook::StreamEnd, broken_stream(), turn, &mut None).await?;
            let (ChainOutcome::Done(value) | ChainOutcome::Skipped(value)) = waited;
            let mut events = Vec::new();
            for event in spread(value, &template) {
                events.extend(chain(kernel, place + 1, event, turn).await?);
            }
            Ok::<_, Error>(events)
        };
        match let_out.await {
            Ok(events) => out.extend(events.into_iter().map(StreamChunk::new)),
            Err(error) => tracing::debug!("cannot send the text withheld from a broken stream: {error}"),
        }
    }
    out
}

/// Runs a complete answer through the stream chain, each choice as one event.
pub(super) async fn whole(kernel: &Kernel, answer: Json, turn: &Turn) -> Result<Json, Error> {
    if !kernel.chain().has(Hook::Stream) && !kernel.chain().has(Hook::StreamEnd) {
        return Ok(answer);
    }
    let mut parts = Vec::new();
    for choice in answer.list("choices") {
        log_probabilities::normalize(&choice);
        let message = choice.get("message").unwrap_or_else(|| message::assistant(""));
        let one = event::of_choice(&answer, &choice, &message);
        // Fields beside the choices, such as sources, are part of the first event, as in a stream.
        if parts.is_empty() {
            event::take_beside(&answer, &one);
        }
        let is_long = event::is_long_message(&message);
        turn.set_long_event(is_long);
        if is_long {
            turn.note_size(message.size_estimate());
        }
        let events = chain(kernel, 0, one.clone(), turn).await?;
        parts.push(Part { choice, one, events });
    }
    let template = parts.first().map(|part| part.one.clone()).unwrap_or_else(Json::object);
    for added in end(kernel, template, turn).await? {
        let index = event::choice_index(&added.event);
        if let Some(part) = parts.iter_mut().find(|part| event::choice_index(&part.one) == index) {
            part.events.push(added.event);
        }
    }
    parts.iter().for_each(Part::settle);
    if let Some(first) = parts.first() {
        event::give_beside(&first.events, &answer);
    }
    Ok(answer)
}

/// A choice of a complete answer in the stream chain.
struct Part {
    choice: Json,
    one: Json,
    events: Vec<Json>,
}

impl Part {
    /// Writes the resulting event back to the choice.
    fn settle(&self) {
        let (choice, key) = match self.events.as_slice() {
            [only] if only.ptr_eq(&self.one) => (event::choice(only), "delta"),
            events => {
                let mut fold = Fold::default();
                events.iter().for_each(|event| fold.push(event));
                (event::choice(&fold.finish()), "message")
            }
        };
        let choice = Json::from(choice);
        let (message, why) = (choice.field(key), choice.field("finish_reason"));
        let message = if message.is_null() { message::assistant("") } else { message };
        self.choice.edit("message", message);
        self.settle_others();
        // The end of an answer is preserved even if its last event was dropped.
        if !why.is_null() {
            self.choice.edit("finish_reason", why);
        }
    }

    /// Writes the other fields of the choice back as the first event has them; what it has not is removed, and so is a
    /// delta beside the message.
    fn settle_others(&self) {
        const SETTLED: [&str; 4] = ["index", "message", "finish_reason", "logprobs"];
        let first = Json::from(self.events.first().and_then(event::choice));
        let keys = self.choice.entries().into_iter().map(|(key, _)| key);
        for key in keys.filter(|key| !SETTLED.contains(&key.as_str())) {
            match first.get(&key).filter(|_| key != "delta") {
                Some(value) => self.choice.edit(&key, value),
                None => drop(self.choice.remove(&key)),
            }
        }
    }
}
