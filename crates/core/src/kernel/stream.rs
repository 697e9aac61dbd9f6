//! Events through the stream chain.

use super::assembly::Kernel;
use crate::chat::{Fold, delta, event, message, window};
use crate::context::Turn;
use crate::fault::{Breakage, Fault, Refusal};
use crate::filter::{ChainOutcome, Filter, Hook, broken_stream, step};
use crate::provider::Piece;
use valvehouse_json::Json;

impl Kernel {
    /// The events that the stream hooks make of one event, for a caller that runs them alone.
    pub async fn stream(&self, event: Json, turn: &Turn) -> Result<Vec<Json>, Fault> {
        let pieces = filtered(self, Piece::new(event), turn).await?;
        Ok(pieces.into_iter().map(|piece| piece.event).collect())
    }

    /// The events that they add when the stream has ended, in the shape of this one.
    pub async fn stream_end(&self, template: Json, turn: &Turn) -> Result<Vec<Json>, Fault> {
        let pieces = end(self, template, turn).await?;
        Ok(pieces.into_iter().map(|piece| piece.event).collect())
    }
}

/// One piece through the stream chain. What nobody changed keeps its bytes.
pub(super) async fn filtered(kernel: &Kernel, piece: Piece, turn: &Turn) -> Result<Vec<Piece>, Fault> {
    if piece.event.as_object().is_none() {
        // No JSON: nothing that a hook could read.
        return Ok(vec![piece]);
    }
    let parts = by_choice(&piece.event);
    let whole = parts.len() == 1;
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        let is_long = piece.raw.len() > event::LONG || piece.raw.is_empty() && event::is_long(&part);
        turn.set_long_event(is_long);
        if is_long {
            turn.note_size(part.weight());
        }
        for event in chain(kernel, 0, part.clone(), turn).await? {
            let untouched = whole && event.is_same(&part) && !event.is_changed();
            out.push(match untouched && !piece.raw.is_empty() {
                // With its bytes and its class; it is the same event.
                true => piece.clone(),
                false => Piece::received(bytes::Bytes::new(), event, piece.name.clone()),
            });
        }
    }
    Ok(out)
}

/// With several choices in one event the hooks see each by itself.
fn by_choice(event: &Json) -> Vec<Json> {
    let are_several = |it: Option<&Json>| matches!(it, Some(Json::Array(choices)) if choices.len() > 1);
    if !event.as_object().is_some_and(|event| event.with("choices", are_several)) {
        return vec![event.clone()];
    }
    let choices = event.list("choices");
    let choices = choices.into_iter().enumerate().map(|(place, choice)| {
        if choice.get("index").is_none_or(|index| index.is_null()) {
            // Its place is its number, and is lost from here on. A number in an object that has none fits.
            choice.edit("index", place);
        }
        event::with_choice(event, choice)
    });
    choices.collect()
}

/// The end of each choice that ends with an event that has one, apart from the event.
pub(super) fn ends_of(event: &Json) -> Vec<Json> {
    let parts = by_choice(event).into_iter().filter(delta::finishes);
    parts.map(|part| event::without_finish(&part).1).collect()
}

/// An event through the stream hooks from a place in the chain on. Nearly every hook gives back the one it was
/// given.
async fn chain(kernel: &Kernel, from: usize, event: Json, turn: &Turn) -> Result<Vec<Json>, Fault> {
    let mut end = None;
    for (place, filter) in kernel.chain().at_from(Hook::Stream, from) {
        if let Some(ahead) = filter.ahead(&event, turn) {
            // It is marked now: it comes ahead once.
            let mut out = Box::pin(chain(kernel, place, ahead, turn)).await?;
            out.retain(|event| !window::is_hollow(event));
            out.extend(Box::pin(chain(kernel, place, event, turn)).await?);
            return Ok(out);
        }
        match step(filter, Hook::Stream, event.clone(), turn, &mut end).await? {
            ChainOutcome::Done(value) if value.is_same(&event) && event::is_whole_and_no_error(&event) => {}
            ChainOutcome::Done(value) if value.is_same(&event) && event::is_whole(&event) => {
                no_error(filter, std::slice::from_ref(&event))?;
            }
            other => return Box::pin(spread_on(kernel, place, other, &event, turn)).await,
        }
    }
    Ok(vec![event])
}

/// The events that a hook made of an event, through the hooks after it.
async fn spread_on(
    kernel: &Kernel,
    place: usize,
    made: ChainOutcome,
    template: &Json,
    turn: &Turn,
) -> Result<Vec<Json>, Fault> {
    let filter = &kernel.chain().filters()[place];
    let (value, is_final) = match made {
        ChainOutcome::Done(value) => (value, false),
        ChainOutcome::Skipped(value) => (value, true),
    };
    let events = spread(value, template);
    no_error(filter, &events)?;
    // The answer that a filter skipped with is final: no later filter sees it.
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

/// The most memory that the events may take which all stream hooks together make of one, in bytes: each may make many
/// of every one that another made.
const MAX_SPREAD: usize = 32 << 20;

/// Takes the memory of events from what is left for them; `None` has no limit.
fn take(rest: &mut Option<usize>, events: &[Json], filter: &Filter) -> Result<(), Fault> {
    let Some(left) = rest else { return Ok(()) };
    match events.iter().try_fold(*left, |left, event| left.checked_sub(event.weight())) {
        Some(now) => {
            *left = now;
            Ok(())
        }
        None => {
            let cause = format!("the filters made more than {} MiB of one event of its", MAX_SPREAD >> 20);
            let (plugin, hook) = (filter.name().to_owned(), Hook::Stream.name().to_owned());
            tracing::error!(plugin, hook, "{cause}");
            Err(Fault::Broken(Breakage { plugin, hook, ..Breakage::new(cause) }))
        }
    }
}

/// One event or many; what is not a whole event is completed from the one it came from. Only that
/// one goes on as it is, and once: the others may be held elsewhere, or given again.
fn spread(value: Json, template: &Json) -> Vec<Json> {
    if value.is_same(template) && event::is_whole(&value) {
        return vec![value];
    }
    let given = match value {
        Json::Array(events) => events.items(),
        Json::Null => Vec::new(),
        one => vec![one],
    };
    let mut template_went = false;
    let own = |one: &Json| {
        let is_template = !template_went && one.is_same(template);
        template_went |= is_template;
        event::complete(&if is_template { one.clone() } else { one.copy() }, template)
    };
    given.iter().map(own).collect()
}

/// An error that a filter puts into the stream is its end, like one that it throws.
fn no_error(filter: &Filter, events: &[Json]) -> Result<(), Fault> {
    let is_error = |it: Option<&Json>| it.is_some_and(|error| !error.is_empty());
    let has_error = |one: &&Json| one.as_object().is_some_and(|event| event.with("error", is_error));
    let Some(error) = events.iter().find(has_error).and_then(|event| event.get("error")) else {
        return Ok(());
    };
    let message = error.text("message").unwrap_or_else(|| match &error {
        Json::Text(text) => text.as_str().into(),
        other => other.to_string().into(),
    });
    Err(Fault::Refused(Refusal { plugin: filter.name().into(), ..Refusal::new(message) }))
}

/// The events that the filters add when a stream has ended; each addition passes the filters after it.
pub(super) async fn end(kernel: &Kernel, template: Json, turn: &Turn) -> Result<Vec<Piece>, Fault> {
    let mut out = Vec::new();
    for (place, filter) in kernel.chain().at_from(Hook::StreamEnd, 0) {
        let (value, skipped) = match step(filter, Hook::StreamEnd, Json::Null, turn, &mut None).await? {
            ChainOutcome::Done(value) => (value, false),
            ChainOutcome::Skipped(value) => (value, true),
        };
        let added = spread(value, &template);
        no_error(filter, &added)?;
        if skipped {
            out.extend(added.into_iter().map(Piece::new));
            break;
        }
        let mut rest = (added.len() > 1).then_some(MAX_SPREAD);
        for event in added {
            let made = chain(kernel, place + 1, event, turn).await?;
            take(&mut rest, &made, filter)?;
            out.extend(made.into_iter().map(Piece::new));
        }
    }
    Ok(out)
}

/// Returns the events that wait in the filters of a broken stream, each passed through the filters after its own.
/// A failure at this point is only logged: the stream ends with the error that broke it.
pub(super) async fn rest(kernel: &Kernel, template: Json, turn: &Turn) -> Vec<Piece> {
    let mut out = Vec::new();
    for (place, filter) in kernel.chain().at_from(Hook::StreamEnd, 0).filter(|(_, own)| own.withholds()) {
        let let_out = async {
            let waited = step(filter, Hook::StreamEnd, broken_stream(), turn, &mut None).await?;
            let (ChainOutcome::Done(value) | ChainOutcome::Skipped(value)) = waited;
            let mut events = Vec::new();
            for event in spread(value, &template) {
                events.extend(chain(kernel, place + 1, event, turn).await?);
            }
            Ok::<_, Fault>(events)
        };
        match let_out.await {
            Ok(events) => out.extend(events.into_iter().map(Piece::new)),
            Err(fault) => tracing::debug!("cannot deliver what waited when the stream broke: {fault}"),
        }
    }
    out
}

/// A whole answer through the stream chain, each choice as one event.
pub(super) async fn whole(kernel: &Kernel, answer: Json, turn: &Turn) -> Result<Json, Fault> {
    if !kernel.chain().has(Hook::Stream) && !kernel.chain().has(Hook::StreamEnd) {
        return Ok(answer);
    }
    let mut parts = Vec::new();
    for choice in answer.list("choices") {
        let said = choice.get("message").unwrap_or_else(|| message::assistant(""));
        let one = event::of_choice(&answer, &choice, &said);
        // Parts beside the choices, such as sources, come with the first: as in a stream.
        if parts.is_empty() {
            event::take_beside(&answer, &one);
        }
        let is_long = event::is_long_message(&said);
        turn.set_long_event(is_long);
        if is_long {
            turn.note_size(said.weight());
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

/// A choice of a whole answer on its way through the stream chain.
struct Part {
    choice: Json,
    one: Json,
    events: Vec<Json>,
}

impl Part {
    /// Writes what became of the choice's event back into the choice.
    fn settle(&self) {
        let (said, why) = match self.events.as_slice() {
            [only] if only.is_same(&self.one) => {
                (only.at_path("choices.0.delta"), only.at_path("choices.0.finish_reason"))
            }
            events => {
                let mut fold = Fold::default();
                events.iter().for_each(|event| fold.push(event));
                let folded = fold.finish();
                (folded.at_path("choices.0.message"), folded.at_path("choices.0.finish_reason"))
            }
        };
        let said = if said.is_null() { message::assistant("") } else { said };
        self.choice.edit("message", said);
        // An answer whose last event was dropped still ended as it ended.
        if !why.is_null() {
            self.choice.edit("finish_reason", why);
        }
    }
}
