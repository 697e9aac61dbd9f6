//! Reassembly of a streamed answer from its chunks.
//!
//! Values grow chunk by chunk; their existing content is not copied.

use super::call::keys_of;
use super::message::text_part;
use super::response::usage_of;
use crate::error::Error;
use compact_str::CompactString;
use valvehouse_json::{Json, Object};

/// The maximum memory of a streamed answer while it is collected, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// The approximate size of an entry without its contents, in bytes.
const ENTRY: usize = 64;

/// Returns the cost of an entry after this many others, in bytes. It grows with their number, because each
/// event searches them.
const fn entry_cost(others: usize) -> usize {
    ENTRY + 16 * others
}

/// Returns the approximate size of a value that is appended, in bytes.
fn size_of(value: &Json) -> usize {
    match value {
        Json::Text(text) => text.len(),
        Json::Null => 0,
        other => other.size_estimate(),
    }
}

fn too_long() -> Error {
    let message = format!("the model's answer exceeded its limit of {} MiB", MAX_ANSWER >> 20);
    Error::Provider { message: message.into(), timeout: false }
}

/// Folds `chat.completion.chunk` events into a `chat.completion`.
///
/// Deviations among providers are accepted: interleaved choices, content as text or as parts, complete or
/// partial tool calls with or without an index, and usage in any chunk.
///
/// ```
/// use valvehouse_core::chat::Fold;
/// use valvehouse_json::Json;
/// let mut fold = Fold::default();
/// for text in [r#"{"choices":[{"delta":{"content":"Hel"}}]}"#, r#"{"choices":[{"delta":{"content":"lo"}}]}"#] {
///     fold.push(&Json::parse(text.as_bytes()).unwrap());
/// }
/// assert_eq!(fold.finish().at_path("choices.0.message.content"), Json::from("Hello"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Fold {
    top: Fields,
    choices: Vec<Choice>,
    size: usize,
}

#[derive(Debug, Clone, Default)]
struct Choice {
    index: i64,
    fields: Fields,
    message: Fields,
    calls: Vec<Call>,
    /// The content that arrived as `message` instead of `delta`.
    whole: Json,
}

#[derive(Debug, Clone, Default)]
struct Call {
    index: Option<i64>,
    fields: Fields,
}

impl Fold {
    /// Returns the approximate size of the answer so far, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Checks the size of the answer so far.
    ///
    /// # Errors
    /// Returns an error if the answer exceeds 64 MiB.
    pub fn check_size(&self) -> Result<(), Error> {
        if self.size > MAX_ANSWER { Err(too_long()) } else { Ok(()) }
    }

    /// Adds a chunk. A value that is not an object is ignored.
    pub fn push(&mut self, chunk: &Json) {
        let Json::Object(chunk) = chunk else { return };
        chunk.for_each(|key, value| match key {
            "choices" => {
                // `choices` stays at its position among the keys.
                self.top.absorb_first("choices", &Json::Null);
                let Json::Array(choices) = value else { return };
                choices.with(|choices| {
                    for (place, choice) in choices.iter().enumerate() {
                        self.push_choice(place, choice);
                    }
                });
            }
            "id" | "created" | "model" => self.top.absorb_first(key, value),
            _ => self.size += self.top.absorb(key, value),
        });
    }

    fn push_choice(&mut self, place: usize, choice: &Json) {
        let index = choice.integer("index").unwrap_or(place as i64);
        let at = match self.choices.iter().position(|known| known.index == index) {
            Some(at) => at,
            None => {
                self.size += 4 * entry_cost(self.choices.len());
                self.choices.push(Choice { index, ..Choice::default() });
                self.choices.len() - 1
            }
        };
        self.size += self.choices[at].push(choice);
    }

    /// Returns `true` if any choice has a `finish_reason`.
    pub fn is_finished(&self) -> bool {
        self.choices.iter().any(Choice::has_ended)
    }

    /// Returns `true` if this choice has a `finish_reason`.
    pub fn has_ended(&self, index: i64) -> bool {
        self.choices.iter().any(|choice| choice.index == index && choice.has_ended())
    }

    /// Returns the text of the first choice so far.
    pub fn text(&self) -> &str {
        let first = self.choices.iter().min_by_key(|choice| choice.index);
        first.and_then(|choice| choice.message.text("content")).unwrap_or("")
    }

    /// Returns the answer as a `chat.completion`. A missing `finish_reason` stays null.
    pub fn finish(mut self) -> Json {
        self.choices.sort_by_key(|choice| choice.index);
        let choices: Vec<Json> = self.choices.into_iter().map(Choice::finish).collect();
        let answer = self.top.into_json();
        // The keys are new in new objects, so the writes cannot fail.
        answer.put("object", "chat.completion");
        answer.put("choices", choices);
        if let (true, Some(usage)) = (answer.field("usage").is_null(), usage_of(&answer)) {
            answer.put("usage", usage.deep_clone());
        }
        answer
    }
}

/// Returns `true` if any choice of a chunk has a `finish_reason`.
pub fn finishes(chunk: &Json) -> bool {
    match chunk.get("choices") {
        Some(Json::Array(choices)) => choices.with(|choices| choices.iter().any(is_last)),
        _ => false,
    }
}

/// Returns `true` if a choice of a chunk has a `finish_reason`.
pub fn is_last(choice: &Json) -> bool {
    is_reason(choice.text("finish_reason").as_deref())
}

/// Returns `true` if a tool-call delta continues the call of this id and name; pass "" for unknown ones.
///
/// A delta with an index continues the call unless it has another id and a name: some servers use one index for
/// all parallel calls. A delta without an index starts the next call if it has another id, or a name but no id
/// while the call already has a name.
pub fn continues_call(chunk: &Json, id: &str, name: &str) -> bool {
    let own_id = chunk.text_or_empty("id");
    let own_name = call_name(chunk);
    let other_id = !own_id.is_empty() && !id.is_empty() && own_id != id;
    let same_id = !own_id.is_empty() && !other_id;
    if chunk.get("index").is_some_and(|index| !index.is_null()) {
        !other_id || own_name.is_empty()
    } else {
        !other_id && (same_id || own_name.is_empty() || name.is_empty())
    }
}

/// Returns the name of the function or custom tool in a tool call or its delta; "" if it has none.
pub fn call_name(chunk: &Json) -> CompactString {
    chunk.field("function").text("name").unwrap_or_else(|| chunk.field("custom").text_or_empty("name"))
}

/// Returns `true` if a call is of a custom tool, which takes free-form text.
pub fn is_custom(call: &Json) -> bool {
    keys_of(call).0 == "custom"
}

/// Returns `true` for a reason; null, "" and a missing field mean that the choice continues.
fn is_reason(finish_reason: Option<&str>) -> bool {
    finish_reason.is_some_and(|why| !why.is_empty())
}

impl Choice {
    fn has_ended(&self) -> bool {
        is_reason(self.fields.text("finish_reason"))
    }

    /// Adds a choice of a chunk. Returns the number of added bytes, as all methods for parts of chunks do.
    fn push(&mut self, choice: &Json) -> usize {
        let Json::Object(choice) = choice else { return 0 };
        let mut added = 0;
        choice.for_each(|key, value| match key {
            "index" => {}
            "delta" => added += self.push_delta(value),
            "message" => self.whole = value.deep_clone(),
            _ => added += self.fields.absorb(key, value),
        });
        added
    }

    fn push_delta(&mut self, delta: &Json) -> usize {
        let Json::Object(delta) = delta else { return 0 };
        let mut added = 0;
        delta.for_each(|key, value| match key {
            "tool_calls" => {
                for call in value.items() {
                    self.message.absorb_first("tool_calls", &Json::Null);
                    added += self.push_call(&call);
                }
            }
            _ => added += self.message.absorb(key, value),
        });
        added
    }

    fn push_call(&mut self, chunk: &Json) -> usize {
        let Json::Object(fields) = chunk else { return 0 };
        let mut added = 0;
        let index = chunk.integer("index");
        let at = match self.calls.iter().rposition(|call| index.is_none() || call.index == index) {
            Some(at) if self.calls[at].goes_on_with(chunk) => at,
            _ => {
                added += entry_cost(self.calls.len());
                self.calls.push(Call { index, ..Call::default() });
                self.calls.len() - 1
            }
        };
        for (key, value) in fields.entries().iter().filter(|(key, _)| key != "index") {
            added += self.calls[at].fields.absorb(key, value);
        }
        added
    }

    fn finish(self) -> Json {
        let choice = Json::from([("index", Json::from(self.index)), ("message", Json::Null)]);
        let message = if self.message.is_empty() && !self.whole.is_null() {
            self.whole
        } else {
            message(self.message, self.calls)
        };
        choice.edit("message", message);
        if let Json::Object(fields) = self.fields.into_json() {
            for (key, value) in fields.entries() {
                choice.edit(&key, value);
            }
        }
        choice
    }
}

impl Call {
    fn goes_on_with(&self, chunk: &Json) -> bool {
        let name = |of: &str| self.fields.map(of).and_then(|of| of.text("name"));
        let name = name("function").or_else(|| name("custom"));
        continues_call(chunk, self.fields.text("id").unwrap_or(""), name.unwrap_or(""))
    }

    fn finish(self) -> Json {
        let given = self.fields.into_json();
        if is_custom(&given) {
            return custom(&given);
        }
        let function = given.get("function").filter(|function| function.as_object().is_some());
        let function = function.unwrap_or_else(Json::object);
        let arguments = match function.get("arguments") {
            Some(Json::Text(text)) => Json::Text(text),
            None | Some(Json::Null) => "".into(),
            // Some servers send the arguments as an object instead of a string.
            Some(value) => value.to_string().into(),
        };
        function.edit("arguments", arguments);
        let call = Json::from([
            ("id", given.get("id").unwrap_or_else(|| "".into())),
            ("type", given.get("type").filter(|kind| !kind.is_empty()).unwrap_or_else(|| "function".into())),
            ("function", function),
        ]);
        if let Json::Object(given) = given {
            for (key, value) in given.entries() {
                if !matches!(&*key, "id" | "type" | "function") {
                    call.edit(&key, value);
                }
            }
        }
        call
    }
}

/// Builds a call of a custom tool with the keys that all readers expect.
fn custom(given: &Json) -> Json {
    let custom = given.field("custom");
    if custom.get("input").is_none_or(|input| input.is_null()) {
        // The object was created here, so the write cannot fail.
        custom.edit("input", "");
    }
    let call = Json::from([
        ("id", given.get("id").unwrap_or_else(|| "".into())),
        ("type", "custom".into()),
        ("custom", custom),
    ]);
    for (key, value) in given.entries() {
        if !matches!(&*key, "id" | "type" | "custom") {
            call.edit(&key, value);
        }
    }
    call
}

/// Builds a message with the keys that all readers expect: `role` and `content`.
fn message(fields: Fields, calls: Vec<Call>) -> Json {
    let given = fields.into_json();
    let role = given.get("role").filter(|role| !role.is_empty()).unwrap_or_else(|| "assistant".into());
    let message = Json::from([("role", role), ("content", Json::Null)]);
    if let Json::Object(given) = given {
        for (key, value) in given.entries().into_iter().filter(|(key, _)| key != "role") {
            message.edit(&key, value);
        }
    }
    if !calls.is_empty() {
        message.edit("tool_calls", calls.into_iter().map(Call::finish).collect::<Vec<_>>());
    }
    message
}

#[cfg(test)]
mod tests;

/// A value that may still grow.
#[derive(Debug, Clone)]
pub(super) enum PartialValue {
    Plain(Json),
    Text(String),
    List(Vec<PartialValue>),
    Map(Fields),
}

/// Keys and values in order of arrival.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Vec<(CompactString, PartialValue)>);

/// Returns `true` if a new value under this key is appended to the previous one; under other keys it replaces
/// it.
fn grows(key: &str) -> bool {
    matches!(
        key,
        // text
        "content" | "reasoning_content" | "reasoning" | "refusal" | "thinking" | "text" | "summary"
        | "arguments" | "input" | "transcript" | "data"
        // objects that hold text
        | "function" | "custom" | "function_call" | "audio" | "logprobs"
        // lists
        | "reasoning_details" | "thinking_blocks" | "content_blocks" | "annotations" | "images" | "token_ids"
    )
}

/// Returns `true` if two consecutive parts belong to one part.
fn is_same_part(last: &Fields, next: &Json) -> bool {
    let kind = next.text_or_empty("type");
    matches!(&*kind, "text" | "thinking" | "reasoning.text" | "reasoning.summary")
        && last.is("type", &kind.into())
        && last.is("index", &next.field("index"))
}

impl Fields {
    /// Adds the value of a key. Null and "" never replace a value: providers send them for an unchanged one.
    /// Returns the approximate number of bytes by which the fields grew.
    pub(super) fn absorb(&mut self, key: &str, value: &Json) -> usize {
        match self.slot(key) {
            None => {
                let added = entry_cost(self.0.len()) + key.len() + size_of(value);
                self.0.push((key.into(), PartialValue::of(key, value)));
                added
            }
            Some(slot) if grows(key) => slot.grow(value),
            Some(_) if value.is_null() || value.as_str() == Some("") => 0,
            Some(slot) => {
                *slot = PartialValue::Plain(value.deep_clone());
                0
            }
        }
    }

    /// Sets the value of a key unless it has one.
    pub(super) fn absorb_first(&mut self, key: &str, value: &Json) {
        match self.slot(key) {
            Some(PartialValue::Plain(known)) if known.is_empty() => *known = value.deep_clone(),
            Some(_) => {}
            None => self.0.push((key.into(), PartialValue::Plain(value.deep_clone()))),
        }
    }

    /// Returns `true` if a key has this plain value; a missing key counts as null.
    pub(super) fn is(&self, key: &str, value: &Json) -> bool {
        match self.0.iter().find(|(own, _)| own == key) {
            Some((_, PartialValue::Plain(known))) => known == value,
            Some(_) => false,
            None => value.is_null(),
        }
    }

    pub(super) fn map(&self, key: &str) -> Option<&Self> {
        match self.0.iter().find(|(own, _)| own == key) {
            Some((_, PartialValue::Map(fields))) => Some(fields),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.0.iter().find(|(own, _)| own == key) {
            Some((_, PartialValue::Plain(Json::Text(text)))) => Some(text),
            Some((_, PartialValue::Text(text))) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_json(self) -> Json {
        let entries = self.0.into_iter().map(|(key, value)| (key, value.into_json()));
        entries.collect::<Object>().into()
    }

    fn slot(&mut self, key: &str) -> Option<&mut PartialValue> {
        self.0.iter_mut().find(|(own, _)| own == key).map(|(_, value)| value)
    }
}

impl PartialValue {
    fn of(key: &str, value: &Json) -> Self {
        match value {
            value if !grows(key) => Self::Plain(value.deep_clone()),
            Json::Text(text) => Self::Text(text.to_string()),
            Json::Array(items) => Self::List(items.items().iter().map(Self::item).collect()),
            Json::Object(_) => Self::map_of(value),
            other => Self::Plain(other.clone()),
        }
    }

    fn item(value: &Json) -> Self {
        match value {
            Json::Object(_) => Self::map_of(value),
            other => Self::Plain(other.deep_clone()),
        }
    }

    fn map_of(object: &Json) -> Self {
        let mut map = Self::Map(Fields::default());
        map.grow(object);
        map
    }

    /// Appends a value. Returns the approximate number of added bytes.
    fn grow(&mut self, more: &Json) -> usize {
        match (&mut *self, more) {
            (_, Json::Null) => 0,
            (Self::Text(text), Json::Text(more)) => {
                text.push_str(more);
                more.len()
            }
            (Self::List(items), Json::Text(more)) => add_items(items, &[text_part(more)]),
            (Self::List(items), Json::Array(more)) => add_items(items, &more.items()),
            // The content becomes a list: the existing text is its first part.
            (Self::Text(text), Json::Array(more)) => {
                let mut items = Vec::new();
                if !text.is_empty() {
                    items.push(Self::map_of(&text_part(text)));
                }
                let added = add_items(&mut items, &more.items());
                *self = Self::List(items);
                added
            }
            (Self::Map(fields), Json::Object(more)) => {
                more.entries().iter().map(|(key, value)| fields.absorb(key, value)).sum()
            }
            (_, more) => {
                *self = Self::of("content", more);
                size_of(more)
            }
        }
    }

    fn into_json(self) -> Json {
        match self {
            Self::Plain(value) => value,
            Self::Text(text) => text.into(),
            Self::List(items) => items.into_iter().map(Self::into_json).collect::<Vec<_>>().into(),
            Self::Map(fields) => fields.into_json(),
        }
    }
}

/// Appends items to a list. Only the first new item can continue the last existing one: items that arrived
/// together are distinct. Returns the approximate number of added bytes.
fn add_items(items: &mut Vec<PartialValue>, more: &[Json]) -> usize {
    let Some((first, others)) = more.split_first() else { return 0 };
    let continued = match items.last() {
        Some(PartialValue::Map(last)) => is_same_part(last, first),
        _ => false,
    };
    let mut added = match items.last_mut() {
        Some(last) if continued => last.grow(first),
        _ => {
            items.push(PartialValue::item(first));
            first.size_estimate()
        }
    };
    for item in others {
        added += item.size_estimate();
        items.push(PartialValue::item(item));
    }
    added
}
