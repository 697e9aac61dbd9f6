//! An event of a streamed answer: its text, and every other place that can hold text.

use super::encoded_text::EncodedText;
use super::message::TEXT_BREAK;
use super::{ending, escapes, json_text};
use crate::error_code;
use compact_str::CompactString;
use std::sync::{Arc, Mutex, PoisonError};
use valvehouse_json::{Array, Json, MAX_DEPTH, Object};

/// The fields in which providers send a model's thinking.
pub const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// The maximum depth at which texts are searched: that of a parsed document.
const DEEPEST: usize = MAX_DEPTH;

/// Returns the delta of the event's first choice.
pub fn delta(event: &Json) -> Option<Json> {
    look(event, |delta| Json::Object(delta.clone()))
}

/// Returns the event's first choice.
pub fn choice(event: &Json) -> Option<Json> {
    let Json::Object(event) = event else { return None };
    event.with("choices", |choices| match choices {
        Some(Json::Array(choices)) => choices.with(|choices| choices.first().cloned()),
        _ => None,
    })
}

/// Borrows the delta of the first choice without copying it, because this runs for each event and filter.
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

/// The size in bytes above which an event is long: it holds the text of many events.
pub const LONG: usize = 16 * 1024;

/// Returns `true` if an event is long: an answer that was not streamed has all its text in one event.
pub fn is_long(event: &Json) -> bool {
    look(event, has_long_content) == Some(true)
}

/// Returns `true` if the message of a complete answer is long.
pub fn is_long_message(message: &Json) -> bool {
    message.as_object().is_some_and(has_long_content)
}

fn has_long_content(message: &Object) -> bool {
    message.with("content", |content| matches!(content, Some(Json::Text(text)) if text.len() > LONG))
}

/// Returns the index of the event's first choice.
pub fn choice_index(event: &Json) -> i64 {
    choice(event).and_then(|choice| choice.integer("index")).unwrap_or(0)
}

/// Returns the fields that all events of an answer share, as an event without choices.
pub fn head_of(event: &Json) -> Json {
    let entries = event.entries();
    let kept = ["id", "object", "created", "model", "system_fingerprint"];
    entries.into_iter().filter(|(key, _)| kept.contains(&key.as_str())).collect::<Object>().into()
}

/// Returns a copy of the event with this choice only.
pub fn with_choice(event: &Json, choice: Json) -> Json {
    let entries = event.entries();
    let mut choice = Some(choice);
    let entries = entries.into_iter().map(|(key, value)| match choice.take_if(|_| key == "choices") {
        Some(choice) => (key, vec![choice].into()),
        None => (key, value),
    });
    entries.collect::<Object>().into()
}

/// Creates an event of the same answer with another delta.
pub fn with_delta(template: &Json, delta: Json) -> Json {
    let choice = Json::from([
        ("index", choice_index(template).into()),
        ("delta", delta),
        ("finish_reason", Json::Null),
    ]);
    let event = head_of(template);
    // The values are new in a new object, so the writes cannot fail.
    event.edit("object", "chat.completion.chunk");
    event.edit("choices", vec![choice]);
    event
}

/// Returns `true` if the event is complete: it has `choices` or `error`.
pub fn is_whole(event: &Json) -> bool {
    event.as_object().is_some_and(|fields| fields.contains("choices") || fields.contains("error"))
}

/// Returns `true` if the event has `choices` and no `error`.
pub fn is_whole_and_no_error(event: &Json) -> bool {
    event.as_object().is_some_and(|fields| fields.has_and_lacks("choices", "error"))
}

/// Completes an event that a script returned. A complete event is returned unchanged; `#{ text: … }` becomes a
/// delta of the same answer.
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

/// Returns a choice of a complete answer as one event.
pub fn of_choice(answer: &Json, choice: &Json, message: &Json) -> Json {
    let has_message = choice.get("message").is_some();
    let choice: Json = choice
        .entries()
        .into_iter()
        .filter(|(key, _)| !has_message || key != "delta")
        .map(|(key, value)| if key == "message" { ("delta".into(), message.clone()) } else { (key, value) })
        .collect::<Object>()
        .into();
    if choice.get("delta").is_none() {
        choice.edit("delta", message.clone());
    }
    let event = head_of(answer);
    event.edit("object", "chat.completion.chunk");
    event.edit("choices", vec![choice]);
    event
}

/// Returns the fields of an answer other than choices and head, such as sources and search results, and a sentence in
/// place of a field of the head.
fn beside(answer: &Json) -> Vec<(CompactString, Json)> {
    let is_choices_or_head = |key: &str, value: &Json| match key {
        "choices" | "usage" => true,
        "created" => matches!(value, Json::Number(_) | Json::Null),
        "id" | "object" | "model" | "system_fingerprint" | "service_tier" => {
            !is_container(value) && !is_unusual(key, value)
        }
        _ => false,
    };
    let mut beside = Vec::new();
    if let Some(fields) = answer.as_object() {
        fields.for_each(|key, value| {
            if !is_choices_or_head(key, value) {
                beside.push((key.into(), value.clone()));
            }
        });
    }
    beside
}

/// Copies the fields of an answer other than choices and head to one of its events, so that hooks see them.
pub fn take_beside(answer: &Json, event: &Json) {
    for (key, value) in beside(answer) {
        // Both belong to the same answer, so the write cannot fail.
        event.edit(&key, value);
    }
}

/// Writes the fields that [`take_beside`] copied, with the hooks' changes, back to the answer; fields of
/// dropped events are removed.
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

/// Returns the event that ends a choice.
pub fn ending(index: i64, why: &str, head: Option<&Json>) -> Json {
    let event = with_delta(head.unwrap_or(&Json::Null), Json::object());
    let choice = event.at_path("choices.0");
    // New values in an object of our own: they fit.
    choice.edit("index", index);
    choice.edit("finish_reason", why);
    event
}

/// Splits an event into its content and its end.
pub fn without_finish(event: &Json) -> (Json, Json) {
    let (ahead, end) = (event.deep_clone(), event.deep_clone());
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

/// Returns the event's text: the `content` of its first choice, or the text parts of a list.
pub fn text(event: &Json) -> CompactString {
    let content = look(event, |delta| delta.with("content", |content| content.map(content_text)));
    match content {
        Some(content) => content.unwrap_or_default(),
        None => event.text("text").unwrap_or_else(|| event.text_or_empty("data")),
    }
}

/// Sets the event's text. In a list, one text part replaces all text parts.
pub fn set_text(event: &Json, text: &str) {
    // Scripts often write an unchanged text back.
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

/// Returns the event's thinking, from any of the [`REASONING`] fields.
pub fn reasoning(event: &Json) -> CompactString {
    let Some(delta) = delta(event) else { return CompactString::default() };
    REASONING.iter().find_map(|name| delta.text(name)).unwrap_or_default()
}

/// The place of a thought: its field, and its index in a list.
type Place = (&'static str, i64);

/// Returns the thoughts of a message or of a delta: the first of the [`REASONING`] fields, or else the texts in the
/// `reasoning_details` of OpenRouter and MiniMax.
fn thoughts(message: &Json) -> Vec<(Place, CompactString)> {
    let given =
        |of: &Json, name: &'static str| Some(((name, of.integer("index").unwrap_or(0)), of.text(name)?));
    if let Some(own) = REASONING.into_iter().find_map(|name| given(message, name)) {
        return vec![own];
    }
    let details = message.list("reasoning_details").into_iter();
    details.filter_map(|own| given(&own, "text").or_else(|| given(&own, "summary"))).collect()
}

/// Returns the thinking of a message, from any field; `None` if it has none.
pub fn thinking_of(message: &Json) -> Option<String> {
    let texts: Vec<CompactString> = thoughts(message).into_iter().map(|(_, text)| text).collect();
    (!texts.is_empty()).then(|| texts.join(TEXT_BREAK))
}

/// Returns the thinking of a delta, from any field, for a protocol with one place for all. Thoughts of another place
/// begin with a paragraph, because filters judge each by itself. `last` is the last place.
pub fn joined_reasoning(delta: &Json, last: &mut Option<(&'static str, i64)>) -> CompactString {
    let mut joined = CompactString::default();
    for (place, text) in thoughts(delta) {
        let is_detail = |(name, _): Place| !REASONING.contains(&name);
        // A service that sends its thinking twice may send details alone, such as signatures.
        if text.is_empty() || (is_detail(place) && last.is_some_and(|last| !is_detail(last))) {
            continue;
        }
        if last.replace(place).is_some_and(|last| last != place || !joined.is_empty()) {
            joined.push_str(TEXT_BREAK);
        }
        joined.push_str(&text);
    }
    joined
}

/// Sets the event's thinking in each of the [`REASONING`] fields that it has.
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

/// A field of an event that holds text. Reads and writes access the event itself.
#[derive(Clone, Debug)]
pub struct TextPlace {
    /// The kind of text: `content`, `reasoning`, `refusal`, `arguments`, `logprobs`, `citation` or `other`.
    pub kind: &'static str,
    /// The role of the message that holds the text; `None` outside of messages.
    pub role: Option<CompactString>,
    holder: Holder,
    /// The encoding of a text file.
    encoding: Option<EncodedText>,
}

#[derive(Clone, Debug)]
enum Holder {
    Key(Object, CompactString),
    Item(Array, usize),
    /// A key that is a text itself, with its current form.
    Name(Object, Arc<Mutex<CompactString>>),
}

impl TextPlace {
    /// Returns the current text; of a tool's arguments, escapes of letters are resolved, also those in texts that are
    /// JSON themselves. A text file is decoded.
    pub fn text(&self) -> CompactString {
        let text = self.given_text();
        if self.kind == "arguments" { escapes::resolved_below(&text) } else { text }
    }

    /// Returns the current text as it may go on in a later event: only the escapes of the arguments themselves are
    /// resolved.
    pub(super) fn part(&self) -> CompactString {
        let text = self.given_text();
        if self.kind == "arguments" { escapes::resolved(text) } else { text }
    }

    fn given_text(&self) -> CompactString {
        let text = |value: Option<&Json>| match (value, &self.encoding) {
            (Some(Json::Text(text)), Some(encoding)) => encoding.decode(text),
            (Some(Json::Text(text)), None) => text.as_str().into(),
            _ => CompactString::default(),
        };
        match &self.holder {
            Holder::Key(object, key) => object.with(key, text),
            Holder::Item(array, place) => array.with(|items| text(items.get(*place))),
            Holder::Name(_, key) => key.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Returns `true` if the text is a key.
    pub(super) fn is_key(&self) -> bool {
        matches!(self.holder, Holder::Name(..))
    }

    /// Replaces the text. If it is a JSON object, what replaces a number in it becomes a string.
    pub fn set_text(&self, text: &str) {
        let before = self.text();
        if before == text {
            return;
        }
        let text = &*json_text::valid(&before, text);
        let new = |old: Option<&Json>| match (self.encoding, old) {
            (Some(encoding), Some(Json::Text(file))) => Json::from(encoding.encode(file, text)),
            _ => text.into(),
        };
        let _ = match &self.holder {
            Holder::Key(object, key) => object.set(key, object.with(key, new)),
            Holder::Item(array, place) => array.set(*place, array.with(|items| new(items.get(*place)))),
            Holder::Name(object, key) => {
                let mut key = key.lock().unwrap_or_else(PoisonError::into_inner);
                *key = renamed(object, &key, text);
                Ok(())
            }
        };
    }
}

/// Renames a key in its place. Returns the new key, with an underscore for each other key that it would replace.
fn renamed(object: &Object, key: &str, new: &str) -> CompactString {
    let mut entries = object.entries();
    let mut new = CompactString::from(new);
    while entries.iter().any(|(own, _)| *own == new) {
        new.push('_');
    }
    entries.iter_mut().filter(|(own, _)| own == key).for_each(|(own, _)| own.clone_from(&new));
    // The values were in this object before, so they fit unless it is read-only.
    let _ = object.replace(entries);
    new
}

/// Returns every place in an event, message or body that holds text, so that a redaction misses none. Ids, roles, names,
/// types, states, media, signatures, credentials and encrypted data are not text, and neither are the fields of the
/// host, which are not sent. A key that is not a name is a text. Text files are decoded.
pub fn texts(event: &Json) -> Vec<TextPlace> {
    let mut places = Vec::new();
    let messages = event.list("messages");
    // The position of the last message with a text, and its role.
    let mut of_message = (None, event.text("role"));
    collect(event, Kind::of_event(event), &mut Vec::new(), &mut |way, mut place| {
        let at = match way {
            [Step::Key(key), Step::Item(at, _), ..] if key == "messages" => Some(*at),
            _ => None,
        };
        if at != of_message.0 {
            let message = at.map_or(Some(event), |at| messages.get(at));
            of_message = (at, message.and_then(|message| message.text("role")));
        }
        place.role.clone_from(&of_message.1);
        places.push(place);
    });
    places
}

/// A step on the path from an event to one of its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(CompactString),
    /// An element of a list: its position, and its own `index` field.
    Item(usize, Option<i64>),
}

/// Calls a function for every place that holds text, with the path to it. Text files are left out, because the parts
/// of a stream cannot be decoded on their own.
pub(super) fn for_each_text(event: &Json, found: &mut dyn FnMut(&[Step], TextPlace)) {
    collect(event, Kind::of_event(event), &mut Vec::new(), &mut |way, place| {
        if place.encoding.is_none() {
            found(way, place);
        }
    });
}

/// Returns `true` if the predicate matches any text of an event, or if the event is nested too deep to be
/// searched.
pub fn any_text(event: &Json, is_wanted: &dyn Fn(&str) -> bool) -> bool {
    // Events that are not from a chat have their text at the top level.
    let on_top = |key| event.text(key).is_some_and(|text| is_wanted(&text));
    on_top("data") || any_below(event, Kind::of_event(event), is_wanted, 0)
}

fn any_below(value: &Json, kind: Kind, is_wanted: &dyn Fn(&str) -> bool, depth: usize) -> bool {
    if depth > DEEPEST {
        return true;
    }
    match value {
        Json::Text(text) if kind == Kind::Arguments && text.contains('\\') => {
            is_wanted(&escapes::resolved_below(text))
        }
        Json::Text(text) => kind.name().is_some() && !is_medium(text, kind) && is_wanted(text),
        Json::Array(array) => {
            array.with(|items| items.iter().any(|item| any_below(item, kind, is_wanted, depth + 1)))
        }
        Json::Object(object) => {
            let (mut found, mut data) = (false, false);
            object.for_each(|key, value| {
                // The kind of these depends on other fields, which cannot be read here.
                data |= DEPENDENT.contains(&key);
                found = found
                    || !is_key(key) && is_wanted(key)
                    || (!DEPENDENT.contains(&key)
                        && kind
                            .below(key, value, object)
                            .is_some_and(|kind| any_below(value, kind, is_wanted, depth + 1)));
            });
            found
                || data
                    && DEPENDENT.iter().filter_map(|key| Some((key, object.get(key)?))).any(|(key, value)| {
                        let kind = kind.below(key, &value, object);
                        kind.is_some_and(|kind| any_below(&value, kind, is_wanted, depth + 1))
                    })
        }
        _ => false,
    }
}

/// The keys whose kind depends on the type of their object.
const DEPENDENT: [&str; 2] = ["data", "url"];

fn collect(value: &Json, kind: Kind, way: &mut Vec<Step>, found: &mut dyn FnMut(&[Step], TextPlace)) {
    if way.len() > DEEPEST {
        return;
    }
    let place = |kind, holder, encoding| TextPlace { kind, role: None, holder, encoding };
    match value {
        Json::Array(array) => {
            for (at, item) in array.items().iter().enumerate() {
                way.push(Step::Item(at, item.integer("index")));
                let kind = match kind {
                    Kind::Names | Kind::Words if !is_name(item) => Kind::Other,
                    kind => kind,
                };
                match (item, kind.name()) {
                    (Json::Text(text), Some(name)) if !is_medium(text, kind) => {
                        let encoding = EncodedText::of_url(text).filter(|_| kind == Kind::Other);
                        found(way, place(name, Holder::Item(array.clone(), at), encoding));
                    }
                    _ => collect(item, kind, way, found),
                }
                way.pop();
            }
        }
        Json::Object(object) => {
            for (key, value) in object.entries() {
                let kind = kind.below(&key, &value, object);
                let file = match &value {
                    Json::Text(text) if kind.is_none() => EncodedText::of_file(&key, text, object),
                    Json::Text(text) if kind == Some(Kind::Other) => EncodedText::of_url(text),
                    _ => None,
                };
                // Without another kind, a file is content.
                let kind = kind.or_else(|| file.as_ref().map(|_| Kind::Content));
                way.push(Step::Key(key.clone()));
                match (&value, kind, kind.and_then(Kind::name)) {
                    (_, None, _) => {}
                    (Json::Text(text), Some(kind), Some(name))
                        if file.is_some() || !is_medium(text, kind) =>
                    {
                        found(way, place(name, Holder::Key(object.clone(), key.clone()), file));
                    }
                    (_, Some(kind), _) => collect(&value, kind, way, found),
                }
                // After the value, whose place has this key.
                if !is_key(&key) {
                    let holder = Holder::Name(object.clone(), Arc::new(Mutex::new(key)));
                    found(way, place("other", holder, None));
                }
                way.pop();
            }
        }
        _ => {}
    }
}

/// The kind of the texts below a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The fields of a request.
    Request,
    /// The metadata of a request, of which only texts are sent.
    Metadata,
    /// The tools of a request, or its format of answers.
    Tools,
    /// A JSON schema.
    Schema,
    /// A map from names to JSON schemas.
    Schemas,
    /// A map from names to lists of names.
    Required,
    /// Values in a schema, whose keys belong to the tool.
    Values,
    /// A place whose own texts are ids, names, types or media; objects below it can hold texts.
    Names,
    /// A list of names, of which those that are not one are texts.
    Words,
    /// An error of a service.
    Failure,
    Content,
    Reasoning,
    Refusal,
    /// The arguments of a tool, whose keys belong to the tool.
    Arguments,
    LogProbabilities,
    Citation,
    Other,
}

impl Kind {
    fn of_event(event: &Json) -> Self {
        match event.get("messages") {
            Some(Json::Array(_)) => Self::Request,
            _ => Self::Content,
        }
    }

    /// Returns the name of the kind; `None` if a text right here is not one of the texts.
    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Metadata | Self::Names | Self::Words | Self::Required => return None,
            Self::Content => "content",
            Self::Reasoning => "reasoning",
            Self::Refusal => "refusal",
            Self::Arguments => "arguments",
            Self::LogProbabilities => "logprobs",
            Self::Citation => "citation",
            Self::Request
            | Self::Tools
            | Self::Schema
            | Self::Schemas
            | Self::Values
            | Self::Failure
            | Self::Other => "other",
        })
    }

    /// Returns the kind of the value under a key of an object; `None` if it holds no text.
    fn below(self, key: &str, value: &Json, of: &Object) -> Option<Self> {
        match (self, key) {
            // Some providers send arguments as an object, with the tool's own keys.
            (Self::Arguments | Self::Values, _) => return Some(self),
            (Self::Failure, _) => return (!error_code::is_known(value)).then_some(self),
            (Self::Content | Self::Names | Self::Other, "error") => return Some(Self::Failure),
            (Self::LogProbabilities, "token" | "top_logprobs" | "content" | "refusal") => return Some(self),
            (Self::LogProbabilities | Self::Words, _) => return Some(Self::Other),
            (Self::Request, _) => {
                if let Some(kind) = Self::of_request_field(key, value) {
                    return kind;
                }
            }
            (Self::Metadata, _) => {
                let is_text = value.is_string() && (!is_no_text(key) || is_unusual(key, value));
                return is_text.then_some(Self::Other);
            }
            (Self::Tools, "parameters" | "input_schema" | "output_schema" | "schema") => {
                return Some(Self::Schema);
            }
            // Credentials and addresses for the service.
            (Self::Tools, "authorization" | "authorization_token" | "headers") => return None,
            (Self::Tools, "server_url" | "url") => return (!is_data(value)).then_some(self),
            (Self::Tools, "input_examples") => return Some(Self::Values),
            (Self::Schemas, _) => return Some(Self::Schema),
            (
                Self::Schema,
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
            ) => return Some(Self::Schemas),
            (Self::Schema, "enum" | "const" | "default" | "examples" | "example") => {
                return Some(Self::Values);
            }
            (Self::Schema, "required" | "$ref" | "$id" | "$schema" | "$anchor") => {
                return Some(if is_name(value) { Self::Words } else { Self::Other });
            }
            (Self::Schema, "dependentRequired") => return Some(Self::Required),
            (Self::Required, _) => return Some(Self::Words),
            (Self::Schema, "name" | "id" | "data" | "format" | "type") if !is_container(value) => {
                return is_unusual(key, value).then_some(Self::Other);
            }
            (Self::Schema, _) => return Some(self),
            _ => {}
        }
        let is_text_source = || key == "data" && of.with("type", |kind| is(kind, "text"));
        if is_no_text(key) && !is_text_source() && !is_unusual(key, value) {
            return is_container(value).then_some(match self {
                Self::Tools => self,
                _ => Self::Names,
            });
        }
        Some(match key {
            _ if self == Self::Tools => self,
            "content" | "text" | "output" | "failed_generation" | "transcript" | "choices" | "delta"
            | "message" | "messages" | "content_blocks" | "parts" | "audio"
                if !matches!(self, Self::Request | Self::Names) =>
            {
                self
            }
            "reasoning_content" | "reasoning" | "reasoning_text" | "thinking" | "reasoning_details"
            | "thinking_blocks" | "summary" => Self::Reasoning,
            "refusal" => Self::Refusal,
            "arguments" | "input" | "partial_json" => Self::Arguments,
            "logprobs" => Self::LogProbabilities,
            "annotations" | "citations" | "search_results" | "sources" => Self::Citation,
            // The address of an image or a document, but not of a cited page.
            "url"
                if self != Self::Citation
                    && (self == Self::Names || of.with("type", |kind| is(kind, "url")))
                    && is_data(value) =>
            {
                return None;
            }
            _ if matches!(self, Self::Content | Self::Request | Self::Names) => Self::Other,
            _ => self,
        })
    }

    /// Returns the kind of a field of a request, `Some(None)` if it holds no text; `None` for other fields.
    fn of_request_field(key: &str, value: &Json) -> Option<Option<Self>> {
        let is_map = value.as_object().is_some();
        Some(match key {
            "tools" | "functions" | "response_format" | "format" | "mcp_servers" if is_container(value) => {
                Some(Self::Tools)
            }
            "messages" | "system" | "prompt" | "input" | "inputs" | "contents" | "instructions"
            | "prediction" | "documents" | "sources" | "content" | "choices" | "delta" | "message" => {
                Some(Self::Content)
            }
            "text" if !is_map => Some(Self::Content),
            "text" => Some(Self::Tools),
            // Settings that only one protocol has.
            "extra_body" | "responses" | "anthropic" | "ollama" => Some(Self::Request),
            "tool_choice" | "function_call" | "reasoning_effort" | "service_tier" | "verbosity"
            | "modalities" | "truncation" | "include" | "betas" => match is_container(value) {
                true => Some(Self::Names),
                false => is_unusual(key, value).then_some(Self::Other),
            },
            // Types and media of events.
            "p" | "obfuscation" | "status" | "phase" | "detail" | "data" | "bytes" => Some(Self::Other),
            // The fields of the host.
            "endpoint" if matches!(value.as_str(), Some("embeddings" | "completions" | "images")) => None,
            "features" | "files" | "tool_ids" | "filter_ids" => None,
            "user" if is_map => None,
            "metadata" if is_map => Some(Self::Metadata),
            _ => return None,
        })
    }
}

/// Returns `true` for an object, and for a list with an object or a list.
fn is_container(value: &Json) -> bool {
    match value {
        Json::Object(_) => true,
        Json::Array(list) => {
            list.with(|items| items.iter().any(|item| matches!(item, Json::Object(_) | Json::Array(_))))
        }
        _ => false,
    }
}

fn is(value: Option<&Json>, wanted: &str) -> bool {
    matches!(value, Some(Json::Text(text)) if text == wanted)
}

/// Returns `true` for a key whose value is an id, a name, a type, a state, a medium or encrypted.
fn is_no_text(key: &str) -> bool {
    matches!(
        key,
        "id" | "object"
            | "type"
            | "role"
            | "name"
            | "model"
            | "index"
            | "finish_reason"
            | "native_finish_reason"
            | "stop_reason"
            | "system_fingerprint"
            | "service_tier"
            | "provider"
            | "obfuscation"
            | "p"
            | "status"
            | "phase"
            | "format"
            | "detail"
            | "signature"
            | "media_type"
            | "mime_type"
            | "data"
            | "file_data"
            | "b64_json"
            | "image_url"
            | "video_url"
            | "input_audio"
            | "cache_control"
            | "usage"
            | "token_ids"
            | "bytes"
    ) || key.ends_with("_id")
        || key.ends_with("_signature")
        || key.starts_with("encrypted_")
}

/// Returns `true` for a key that is a name. Any other one is a text.
pub(crate) fn is_key(key: &str) -> bool {
    const MAX_NAME: usize = 64;
    key.len() <= MAX_NAME
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:/@$".contains(&byte))
}

/// Returns `true` unless a value is a text that is not a name.
fn is_name(value: &Json) -> bool {
    value.as_str().is_none_or(is_key)
}

/// Returns `true` if the value under a key of [`is_no_text`] has not the form of one of these: then it is a text, such
/// as a stop text that a service writes to `stop_reason`, or a sentence in place of a name.
fn is_unusual(key: &str, value: &Json) -> bool {
    const MAX_WORD: usize = 40;
    let is_word = |text: &str| {
        text.len() <= MAX_WORD && text.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-".contains(&byte))
    };
    // Some models are named `@company/model`.
    let is_name = |text: &str| {
        let name = text.strip_prefix('@').unwrap_or(text);
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:/+=~|".contains(&byte))
    };
    match value {
        Json::Text(text) => match key {
            "finish_reason" | "native_finish_reason" | "stop_reason" => !ending::is_known(text),
            "status" | "phase" => !is_word(text),
            "signature" | "data" | "file_data" | "b64_json" | "image_url" | "video_url" | "input_audio"
            | "obfuscation" | "p" => !is_data(value),
            _ if key.ends_with("_signature") || key.starts_with("encrypted_") => !is_data(value),
            _ => !is_name(text),
        },
        Json::Array(list) => {
            list.with(|items| items.iter().any(|item| item.is_string() && is_unusual(key, item)))
        }
        _ => false,
    }
}

/// Returns `true` unless a value is a text that is neither an address nor data.
fn is_data(value: &Json) -> bool {
    let Json::Text(text) = value else { return true };
    text.bytes().all(|byte| byte.is_ascii_graphic() || b"\r\n".contains(&byte))
        || EncodedText::of_url(text).is_some()
}

/// Returns `true` for a text in a less usual field that is a medium: a data URL, or long data in base64.
fn is_medium(text: &str, kind: Kind) -> bool {
    const LONG_DATA: usize = 4 * 1024;
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=\r\n".contains(&byte);
    kind == Kind::Other
        && (EncodedText::is_medium(text) || text.len() > LONG_DATA && text.bytes().all(is_base64))
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

/// Returns the text of a content part; `None` for other parts.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_in_details_is_read_once_and_its_parts_stay_apart() {
        let mut last = None;
        for (delta, text) in [
            (r#"{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0}]}"#, "a"),
            (r#"{"reasoning_details":[{"type":"reasoning.text","text":"b","index":0}]}"#, "b"),
            (r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}"#, ""),
            (
                r#"{"reasoning":null,"reasoning_details":[{"type":"reasoning.summary","summary":"c","index":1}]}"#,
                "\n\nc",
            ),
            (r#"{"reasoning":"d","reasoning_details":[{"type":"reasoning.text","text":"d"}]}"#, "\n\nd"),
            (r#"{"reasoning_details":[{"type":"reasoning.text","text":"d","signature":"s"}]}"#, ""),
        ] {
            let delta = Json::parse(delta.as_bytes()).unwrap();
            assert_eq!(joined_reasoning(&delta, &mut last), text, "{delta}");
        }
        let whole = br#"{"reasoning_details":[{"text":"a"},{"summary":"b"},{"data":"x"}]}"#;
        assert_eq!(thinking_of(&Json::parse(whole).unwrap()).as_deref(), Some("a\n\nb"));
        assert_eq!(thinking_of(&Json::object()), None);
    }
}
