//! One event of a streamed answer: where its text is, and every other place in which text travels.

use compact_str::CompactString;
use valvehouse_json::{Array, Json, Object};

/// The names under which services send a model's thinking.
pub const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Texts are looked for as deep as this.
const DEEPEST: usize = 64;

/// The delta of the event's first choice.
pub fn delta(event: &Json) -> Option<Json> {
    look(event, |delta| Json::Object(delta.clone()))
}

/// Looks at the delta of the first choice in place: this is asked for every event and filter.
fn look<R>(event: &Json, look: impl FnOnce(&Object) -> R) -> Option<R> {
    let Json::Object(event) = event else { return None };
    event.with("choices", |choices| {
        let Some(Json::Array(choices)) = choices else { return None };
        choices.with(|choices| {
            let Some(Json::Object(choice)) = choices.first() else { return None };
            choice.with("delta", |delta| match delta {
                Some(Json::Object(delta)) => Some(look(delta)),
                _ => None,
            })
        })
    })
}

/// Bytes beyond which an event has the text of many.
pub const LONG: usize = 16 * 1024;

/// Returns `true` if the event's text is that of many events: an answer that comes whole has all of it in one.
pub fn is_long(event: &Json) -> bool {
    look(event, has_long_content) == Some(true)
}

/// The same of the message of a whole answer.
pub fn is_long_message(message: &Json) -> bool {
    message.as_object().is_some_and(has_long_content)
}

fn has_long_content(said: &Object) -> bool {
    said.with("content", |content| matches!(content, Some(Json::Text(text)) if text.len() > LONG))
}

/// The number of the choice that the event is about.
pub fn choice_index(event: &Json) -> i64 {
    event.at_path("choices.0.index").as_i64().unwrap_or(0)
}

/// The head that all events of an answer share: an event without choices, to make others from.
pub fn head_of(event: &Json) -> Json {
    let entries = event.entries();
    let kept = ["id", "object", "created", "model", "system_fingerprint"];
    entries.into_iter().filter(|(key, _)| kept.contains(&key.as_str())).collect::<Object>().into()
}

/// The same event about one of its choices only.
pub fn with_choice(event: &Json, choice: Json) -> Json {
    let entries = event.entries();
    let mut choice = Some(choice);
    let entries = entries.into_iter().map(|(key, value)| match choice.take_if(|_| key == "choices") {
        Some(choice) => (key, vec![choice].into()),
        None => (key, value),
    });
    entries.collect::<Object>().into()
}

/// An event of the same answer with another delta.
pub fn with_delta(template: &Json, delta: Json) -> Json {
    let choice = Json::from([
        ("index", choice_index(template).into()),
        ("delta", delta),
        ("finish_reason", Json::Null),
    ]);
    let event = head_of(template);
    // New values in a new object: they fit.
    event.edit("object", "chat.completion.chunk");
    event.edit("choices", vec![choice]);
    event
}

/// Returns `true` if nothing has to be made of it to be an event.
pub fn is_whole(event: &Json) -> bool {
    event.as_object().is_some_and(|fields| fields.contains("choices") || fields.contains("error"))
}

/// Returns `true` if an event has choices, and nothing under `error`.
pub fn is_whole_and_no_error(event: &Json) -> bool {
    event.as_object().is_some_and(|fields| fields.has_and_lacks("choices", "error"))
}

/// Makes a whole event of what a script gave: a whole one stays, `#{ text: … }` becomes a delta of
/// the same answer.
pub fn complete(given: &Json, template: &Json) -> Json {
    match given {
        whole if is_whole(whole) => given.clone(),
        Json::Object(fields) => {
            let content = fields.get("text").or_else(|| fields.get("data"));
            let delta = fields
                .entries()
                .into_iter()
                .filter(|(key, _)| key != "text" && key != "data" && key != "index");
            let delta: Json = content
                .map(|text| ("content".into(), text))
                .into_iter()
                .chain(delta)
                .collect::<Object>()
                .into();
            let event = with_delta(template, delta);
            if let (Some(index), Some(choice)) =
                (fields.get("index"), event.get("choices").and_then(|all| all.at(0)))
            {
                choice.edit("index", index);
            }
            event
        }
        Json::Text(text) => with_delta(template, Json::from([("content", text.clone().into())])),
        other => other.clone(),
    }
}

/// A whole answer's choice as one event.
pub fn of_choice(answer: &Json, choice: &Json, said: &Json) -> Json {
    let choice: Json = choice
        .entries()
        .into_iter()
        .map(|(key, value)| if key == "message" { ("delta".into(), said.clone()) } else { (key, value) })
        .collect::<Object>()
        .into();
    if choice.get("delta").is_none() {
        choice.edit("delta", said.clone());
    }
    let event = head_of(answer);
    event.edit("object", "chat.completion.chunk");
    event.edit("choices", vec![choice]);
    event
}

/// The fields of an answer beside its choices that are not part of the head: sources, results of searches.
fn beside(answer: &Json) -> Vec<(CompactString, Json)> {
    const OTHER: [&str; 8] =
        ["id", "object", "created", "model", "system_fingerprint", "service_tier", "choices", "usage"];
    let entries = answer.entries();
    entries.into_iter().filter(|(key, _)| !OTHER.contains(&key.as_str())).collect()
}

/// Puts what an answer says beside its choices into one of its events, where hooks see it.
pub fn take_beside(answer: &Json, event: &Json) {
    for (key, value) in beside(answer) {
        // An event of one answer holds nothing of another.
        event.edit(&key, value);
    }
}

/// Writes back what became of that in the events it was put into; what was dropped with them is gone.
pub fn give_beside(events: &[Json], answer: &Json) {
    for (key, _) in beside(answer) {
        match events.iter().find_map(|event| event.get(&key)) {
            Some(value) => {
                answer.edit(&key, value);
            }
            None => {
                answer.remove(&key);
            }
        }
    }
}

/// The event with which a choice of an answer ends.
pub fn ending(index: i64, why: &str, head: Option<&Json>) -> Json {
    let event = with_delta(head.unwrap_or(&Json::Null), Json::object());
    let choice = event.at_path("choices.0");
    // New values in an object of our own: they fit.
    choice.edit("index", index);
    choice.edit("finish_reason", why);
    event
}

/// An event in two: what it says, and how it ends.
pub fn without_finish(event: &Json) -> (Json, Json) {
    let (ahead, end) = (event.copy(), event.copy());
    for choice in ahead.list("choices") {
        choice.edit("finish_reason", Json::Null);
    }
    ahead.remove("usage");
    for choice in end.list("choices") {
        choice.edit("delta", Json::object());
        choice.remove("logprobs");
    }
    (ahead, end)
}

/// The event's text: `content` of its first choice, its text parts where that is a list.
pub fn text(event: &Json) -> CompactString {
    let content = look(event, |delta| delta.with("content", |content| content.map(content_text)));
    match content {
        Some(content) => content.unwrap_or_default(),
        None => event.text("text").unwrap_or_else(|| event.text_or_empty("data")),
    }
}

/// Writes the event's text; a list of parts becomes one text part beside what is not text.
pub fn set_text(event: &Json, text: &str) {
    // Scripts write a text back after every look at it.
    let is_same = |content: Option<&Json>| matches!(content, Some(Json::Text(old)) if old == text);
    if look(event, |delta| delta.with("content", is_same)) == Some(true) {
        return;
    }
    let (place, key) = match delta(event) {
        Some(delta) => (delta, "content"),
        None => (event.clone(), "text"),
    };
    let _ = match place.get(key) {
        None | Some(Json::Null) if text.is_empty() => Ok(()),
        Some(Json::Array(parts)) => {
            let mut kept: Vec<Json> =
                parts.items().into_iter().filter(|part| part_text(part).is_none()).collect();
            if !text.is_empty() {
                let part = Json::object();
                part.edit("type", "text");
                part.edit("text", text);
                kept.insert(0, part);
            }
            parts.replace(kept)
        }
        Some(Json::Text(old)) if old == text => Ok(()),
        _ => place.set(key, text),
    };
}

/// The event's thinking, under whichever name the service sends it.
pub fn reasoning(event: &Json) -> CompactString {
    let Some(delta) = delta(event) else { return CompactString::default() };
    REASONING.iter().find_map(|name| delta.text(name)).unwrap_or_default()
}

/// Writes the event's thinking under every name it came with.
pub fn set_reasoning(event: &Json, text: &str) {
    let Some(delta) = delta(event) else { return };
    let mut written = false;
    for name in REASONING {
        if delta.text(name).is_some() {
            delta.edit(name, text);
            written = true;
        }
    }
    if !written && !text.is_empty() {
        delta.edit(REASONING[0], text);
    }
}

/// A place in an event in which text travels; reading and writing go to the event itself.
#[derive(Clone, Debug)]
pub struct TextPlace {
    /// The kind of text: `content`, `reasoning`, `refusal`, `arguments`, `logprobs`, `citation`.
    pub kind: &'static str,
    holder: Holder,
}

#[derive(Clone, Debug)]
enum Holder {
    Key(Object, CompactString),
    Item(Array, usize),
}

impl TextPlace {
    /// The text there now.
    pub fn text(&self) -> CompactString {
        let text = |value: Option<&Json>| match value {
            Some(Json::Text(text)) => text.as_str().into(),
            _ => CompactString::default(),
        };
        match &self.holder {
            Holder::Key(object, key) => object.with(key, text),
            Holder::Item(array, place) => array.with(|items| text(items.get(*place))),
        }
    }

    /// Writes other text there.
    pub fn set_text(&self, text: &str) {
        if self.text() == text {
            return;
        }
        let _ = match &self.holder {
            Holder::Key(object, key) => object.set(key, text.into()),
            Holder::Item(array, place) => array.set(*place, text.into()),
        };
    }
}

/// Every place in an event or message in which text travels, so that a redaction misses none.
/// Structure is not text: ids, roles, names, types and finish reasons stay out.
pub fn texts(event: &Json) -> Vec<TextPlace> {
    let mut places = Vec::new();
    for_each_text(event, &mut |_, place| places.push(place));
    places
}

/// One step on the way from an event to a text in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(CompactString),
    /// An element of a list, with the `index` it says it has.
    Item(usize, Option<i64>),
}

/// The same places, each with the way to it.
pub(super) fn for_each_text(event: &Json, found: &mut dyn FnMut(&[Step], TextPlace)) {
    collect(event, "content", false, &mut Vec::new(), found);
}

/// Returns `true` if a text that travels in an event is one that is looked for. What is nested too deep to be looked
/// through may well hold one.
pub fn any_text(event: &Json, is_wanted: &dyn Fn(&str) -> bool) -> bool {
    // Events that are not a chat's have their text on top.
    let on_top = |key| event.text(key).is_some_and(|text| is_wanted(&text));
    on_top("data") || any_below(event, "content", is_wanted, 0)
}

fn any_below(value: &Json, kind: &'static str, is_wanted: &dyn Fn(&str) -> bool, depth: usize) -> bool {
    if depth > DEEPEST {
        return true;
    }
    match value {
        Json::Text(text) => is_wanted(text),
        Json::Array(array) => {
            array.with(|items| items.iter().any(|item| any_below(item, kind, is_wanted, depth + 1)))
        }
        Json::Object(object) => {
            let mut found = false;
            object.for_each(|key, value| {
                found = found
                    || match (kind_of(key, kind), value) {
                        (Some(kind), value) => any_below(value, kind, is_wanted, depth + 1),
                        (None, Json::Array(_) | Json::Object(_)) if key != "usage" => {
                            any_below(value, kind, is_wanted, depth + 1)
                        }
                        _ => false,
                    };
            });
            found
        }
        _ => false,
    }
}

fn collect(
    value: &Json,
    kind: &'static str,
    is_text: bool,
    way: &mut Vec<Step>,
    found: &mut dyn FnMut(&[Step], TextPlace),
) {
    if way.len() > DEEPEST {
        return;
    }
    match value {
        Json::Array(array) => {
            for (place, item) in array.items().iter().enumerate() {
                way.push(Step::Item(place, item.get("index").and_then(|index| index.as_i64())));
                match item {
                    Json::Text(_) if is_text => {
                        found(way, TextPlace { kind, holder: Holder::Item(array.clone(), place) });
                    }
                    _ => collect(item, kind, is_text, way, found),
                }
                way.pop();
            }
        }
        Json::Object(object) => {
            for (key, value) in object.entries() {
                let kind_below = kind_of(&key, kind);
                way.push(Step::Key(key.clone()));
                match (kind_below, &value) {
                    (Some(kind), Json::Text(_)) => {
                        found(way, TextPlace { kind, holder: Holder::Key(object.clone(), key) });
                    }
                    (kind_below, Json::Array(_) | Json::Object(_)) if key != "usage" => {
                        collect(&value, kind_below.unwrap_or(kind), kind_below.is_some(), way, found);
                    }
                    _ => {}
                }
                way.pop();
            }
        }
        _ => {}
    }
}

/// The kind of text under a key, `None` where the key holds no text of the model.
fn kind_of(key: &str, parent: &'static str) -> Option<&'static str> {
    Some(match key {
        "content" | "text" | "output" | "failed_generation" | "transcript" => parent,
        "reasoning_content" | "reasoning" | "thinking" | "reasoning_details" | "summary" => "reasoning",
        "refusal" => "refusal",
        "arguments" | "input" | "partial_json" => "arguments",
        "logprobs" | "top_logprobs" => "logprobs",
        "token" if parent == "logprobs" => "logprobs",
        "annotations" | "citations" | "search_results" | "sources" => "citation",
        "title" | "url" | "cited_text" | "quote" | "snippet" if parent == "citation" => "citation",
        // Some services send arguments as the object they are, with keys of the tool's own.
        _ if parent == "arguments" => "arguments",
        _ => return None,
    })
}

fn content_text(content: &Json) -> CompactString {
    match content {
        Json::Text(text) => text.as_str().into(),
        Json::Array(parts) => {
            parts.with(|parts| parts.iter().filter_map(part_text).collect::<Vec<_>>().concat().into())
        }
        _ => CompactString::default(),
    }
}

/// The text of a content part, when it is one of text.
fn part_text(part: &Json) -> Option<CompactString> {
    match part {
        Json::Text(text) => Some(text.as_str().into()),
        Json::Object(_) => match part.text("type") {
            Some(kind) if kind == "text" || kind == "output_text" || kind == "input_text" => {
                part.text("text")
            }
            None => part.text("text"),
            Some(_) => None,
        },
        _ => None,
    }
}
