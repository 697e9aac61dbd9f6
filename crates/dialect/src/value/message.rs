//! The properties and methods of chats: `message.text`, `messages.last(role)`, `event.text`.

use super::convert::{error, json_of, live, misplaced};
use super::handle::{Bytes, List, Map, Shape, method, pure};
use super::kind::Type;
use crate::budget;
use crate::call::redaction::excerpt;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhai::{Blob, Dynamic, EvalAltResult, INT, ImmutableString, Module};
use valvehouse_core::chat::{event, history, message};
use valvehouse_json::{Array, Json};

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// The time of copying a text out of its place for each byte, in nanoseconds.
const COPY: u64 = 1;

fn text_dynamic(text: &str) -> Dynamic {
    ImmutableString::from(text).into()
}

fn text_argument(value: &Dynamic) -> Answer<ImmutableString> {
    match value.as_immutable_string_ref() {
        Ok(text) => Ok(text.clone()),
        Err(_) if value.is_unit() => Ok(ImmutableString::new()),
        Err(kind) => Err(error(format!("invalid `text`: expected a text, got {kind}"))),
    }
}

/// The computed properties of all shapes.
pub const PROPERTIES: [LiveProperty; 10] = [
    LiveProperty {
        name: "text",
        shapes: &[Shape::Event, Shape::Message, Shape::Reply],
        kind: Type::Text,
        is_writable: true,
        about: "The content as one text. Assigning it replaces all text and keeps images.",
        read: |map| match map.shape {
            Shape::Event => read_event_text(map),
            Shape::Reply => reply_text(map),
            _ => Ok(text_dynamic(&message::text_of(&json(map)))),
        },
        write: |map, value| match map.shape {
            Shape::Event => write_event_text(map, value),
            Shape::Reply => map.object.set("text", json_of(value)?).map_err(misplaced),
            _ => {
                let (message, text) = (json(map), text_argument(value)?);
                if message::text_of(&message) != text.as_str() {
                    message::set_text(&message, &text);
                }
                Ok(())
            }
        },
    },
    LiveProperty {
        name: "data",
        shapes: &[Shape::Event],
        kind: Type::Text,
        is_writable: true,
        about: "The same as `text`, under the name used by pipelines.",
        read: read_event_text,
        write: write_event_text,
    },
    LiveProperty {
        name: "reasoning",
        shapes: &[Shape::Event],
        kind: Type::Text,
        is_writable: true,
        about: "The reasoning of the model, \"\" if the service does not report it.",
        read: |map| Ok(text_dynamic(&event::reasoning(&json(map)))),
        write: |map, value| {
            event::set_reasoning(&json(map), &text_argument(value)?);
            Ok(())
        },
    },
    LiveProperty {
        name: "finish_reason",
        shapes: &[Shape::Event],
        kind: Type::Any,
        is_writable: true,
        about: "The reason why the answer ends with this event: `\"stop\"`, `\"length\"`, \
                `\"tool_calls\"` …; `()` if it continues.",
        read: |map| {
            let reason = choice(map).and_then(|choice| choice.get("finish_reason"));
            Ok(live(&reason.into(), Shape::Plain))
        },
        write: |map, value| match choice(map) {
            Some(choice) => choice.set("finish_reason", json_of(value)?).map_err(misplaced),
            None => map.object.set("finish_reason", json_of(value)?).map_err(misplaced),
        },
    },
    LiveProperty {
        name: "index",
        shapes: &[Shape::Event],
        kind: Type::Integer,
        is_writable: true,
        about: "The index of the answer that the event belongs to, from 0.",
        read: |map| {
            let index = choice(map).and_then(|choice| choice.get("index"));
            Ok(live(&index.unwrap_or_else(|| 0_i64.into()), Shape::Plain))
        },
        write: |map, value| match choice(map) {
            Some(choice) => choice.set("index", json_of(value)?).map_err(misplaced),
            None => map.object.set("index", json_of(value)?).map_err(misplaced),
        },
    },
    LiveProperty {
        name: "tool_calls",
        shapes: &[Shape::Event],
        kind: Type::Array,
        is_writable: true,
        about: "The parts of tool calls in this event, a list; `()` if there are none.",
        read: |map| {
            let calls = event::delta(&json(map)).and_then(|delta| delta.get("tool_calls"));
            Ok(live(&calls.into(), Shape::Plain))
        },
        write: |map, value| match event::delta(&json(map)) {
            Some(delta) => delta.set("tool_calls", json_of(value)?).map_err(misplaced),
            None => map.object.set("tool_calls", json_of(value)?).map_err(misplaced),
        },
    },
    LiveProperty {
        name: "texts",
        shapes: &[Shape::Event, Shape::Message, Shape::Body],
        kind: Type::ListOf("text_place"),
        is_writable: false,
        about: "All texts: content, reasoning, refusals, arguments of tools, log probabilities, citations, and those of \
                other fields, such as the query of a search; of a request also descriptions of tools and unknown \
                fields. Text files are decoded, whatever their declared type. Ids, names, types and states with the form of one, media, credentials, encrypted data and fields of \
                the host are not texts. Check all of them to redact a text.",
        read: |map| {
            let places = event::texts(&json(map));
            Ok(places.into_iter().map(Dynamic::from).collect::<rhai::Array>().into())
        },
        write: |_, value| read_only("texts", value),
    },
    LiveProperty {
        name: "images",
        shapes: &[Shape::Message],
        kind: Type::Array,
        is_writable: false,
        about: "The parts of the content that are images.",
        read: |map| {
            let parts = map.object.field("content").items();
            let is_image = |part: &Json| part.text("type").is_some_and(|kind| kind.contains("image"));
            let images = parts.into_iter().filter(is_image).collect();
            Ok(Dynamic::from(List { shape: Shape::Plain, array: Array::new(images) }))
        },
        write: |_, value| read_only("images", value),
    },
    LiveProperty {
        name: "bytes",
        shapes: &[Shape::Reply],
        kind: Type::Blob,
        is_writable: false,
        about: "The unchanged body: an image, a file or audio.",
        read: |map| Ok(Dynamic::from(reply_bytes(map)?)),
        write: |_, value| read_only("bytes", value),
    },
    LiveProperty {
        name: "parts",
        shapes: &[Shape::Message],
        kind: Type::Array,
        is_writable: true,
        about: "The content as a list of parts, even if it is one text.",
        read: |map| Ok(live(&parts(map), Shape::Plain)),
        write: |map, value| {
            let value = json_of(value)?;
            if value == parts(map) { Ok(()) } else { map.object.set("content", value).map_err(misplaced) }
        },
    },
];

/// A computed property.
#[derive(Clone, Copy)]
pub struct LiveProperty {
    pub name: &'static str,
    shapes: &'static [Shape],
    pub kind: Type,
    pub is_writable: bool,
    pub about: &'static str,
    pub(super) read: fn(&Map) -> Answer<Dynamic>,
    pub(super) write: fn(&Map, &Dynamic) -> Answer<()>,
}

impl LiveProperty {
    /// Returns the property of this name.
    pub(super) fn from_name(name: &str) -> Option<&'static Self> {
        static ALL: [LiveProperty; PROPERTIES.len()] = PROPERTIES;
        ALL.iter().find(|property| property.name == name)
    }

    /// Returns `true` if a key of this map refers to the property. A read-only property does not hide a field of
    /// the same name.
    pub(super) fn stands_for(&self, key: &str, map: &Map) -> bool {
        self.is_of(map.shape) && (self.is_writable || !map.object.contains(key))
    }

    /// Returns `true` if maps of this shape have it.
    pub fn is_of(&self, shape: Shape) -> bool {
        self.shapes.contains(&shape)
    }
}

fn json(map: &Map) -> Json {
    Json::Object(map.object.clone())
}

/// Rejects an assignment. After a method call on the value of a getter, Rhai writes the value back, which is not an
/// assignment.
fn read_only(name: &str, value: &Dynamic) -> Answer<()> {
    if value.is::<List>() || value.is_array() || value.is::<Bytes>() {
        return Ok(());
    }
    Err(error(format!("cannot assign to `{name}`: it is read-only")))
}

/// Returns the text of another host's response.
fn reply_text(map: &Map) -> Answer<Dynamic> {
    if map.object.get(BODY).is_none() {
        return Ok(map.field("text"));
    }
    let kind = map.object.get("headers").and_then(|headers| headers.text("content-type"));
    let kind = kind.map_or_else(|| "no content-type".to_owned(), |kind| excerpt(&kind));
    let bytes = reply_bytes(map)?;
    let text = std::str::from_utf8(&bytes.0);
    Err(error(format!(
        "cannot read the answer ({kind}, {} bytes) as text: byte {} is not UTF-8; read `bytes`, or write \
         `bytes.text_lossy()` for a text with `\u{fffd}` in its place",
        bytes.0.len(),
        text.err().map_or(0, |wrong| wrong.valid_up_to())
    )))
}

/// The key of a response's binary body, in base64: a response is JSON, so that it can be recorded.
pub const BODY: &str = "body_base64";

fn reply_bytes(map: &Map) -> Answer<Bytes> {
    match map.object.get(BODY) {
        Some(Json::Text(body)) => {
            Bytes::charge(body.len())?;
            let body = STANDARD.decode(body.as_bytes());
            Bytes::new(body.map_err(|_| error(format!("`{BODY}` of the answer is not valid base64")))?)
        }
        _ => {
            let text = map.object.with("text", |text| text.map_or("", Json::str_or_empty).to_owned());
            Bytes::new(text.into_bytes())
        }
    }
}

fn read_event_text(map: &Map) -> Answer<Dynamic> {
    Ok(text_dynamic(&event::text(&json(map))))
}

fn write_event_text(map: &Map, value: &Dynamic) -> Answer<()> {
    event::set_text(&json(map), &text_argument(value)?);
    Ok(())
}

fn choice(map: &Map) -> Option<Json> {
    map.object.get("choices")?.at(0)
}

/// Returns the content as a list of parts; plain text is one part.
fn parts(map: &Map) -> Json {
    match map.object.get("content") {
        Some(parts @ Json::Array(_)) => parts,
        Some(Json::Text(text)) => {
            let part = Json::object();
            part.edit("type", "text");
            part.edit("text", text);
            vec![part].into()
        }
        _ => Json::array(),
    }
}

pub(super) fn register(module: &mut Module) {
    register_messages(module);
    register_system(module);
    register_images(module);
    register_places(module);
}

/// Registers what finds and shortens messages.
fn register_messages(module: &mut Module) {
    method(
        "last",
        &["messages: &mut messages", "message"],
        "Returns the last message; `()` if there is none.",
    )
    .set_into_module(module, |list: &mut List| {
        list.array.last().map_or(Dynamic::UNIT, |item| live(&item, list.shape.below_index()))
    });
    method(
        "last",
        &["messages: &mut messages", "role: &str", "message"],
        "Returns the last message of a role, for example `\"user\"`; `()` if there is none.",
    )
    .set_into_module(module, |list: &mut List, role: &str| {
        let found =
            list.array.with(|items| items.iter().rev().find(|item| history::is_role(item, role)).cloned());
        found.map_or(Dynamic::UNIT, |item| live(&item, Shape::Message))
    });
    method(
        "count",
        &["messages: &mut messages", "role: &str", "integer"],
        "Returns the number of messages of a role, of a list of texts that of equal texts.",
    )
    .set_into_module(module, |list: &mut List, role: &str| {
        let is_counted = |item: &&Json| history::is_role(item, role) || item.as_str() == Some(role);
        list.array.with(|items| items.iter().filter(is_counted).count()) as INT
    });
    method(
        "tail",
        &["messages: &mut messages", "count: integer", "messages"],
        "Returns the last `count` messages as a new list.",
    )
    .set_into_module(module, |list: &mut List, count: INT| {
        let items = list.array.items();
        let from = items.len().saturating_sub(usize::try_from(count).unwrap_or(0));
        List { shape: list.shape, array: Array::new(items[from..].to_vec()) }
    });
    // Shortens the list and returns it, so that both `messages.keep_last(4);` and `body.messages =
    // body.messages.keep_last(4);` work.
    method(
        "keep_last",
        &["messages: &mut messages", "count: integer", "messages"],
        "Shortens the list to its last `count` messages and returns it. System messages stay, and a tool's \
         result stays with its call.",
    )
    .set_into_module(module, |list: &mut List, count: INT| -> Answer<List> {
        let kept = history::keep_last(&list.array.items(), usize::try_from(count).unwrap_or(0));
        if kept.len() != list.array.len() {
            list.array.replace(kept).map_err(misplaced)?;
        }
        Ok(list.clone())
    });
}

/// Registers what reads and changes the system message.
fn register_system(module: &mut Module) {
    method(
        "get$system",
        &["messages: &mut messages", "text"],
        "The text of the system message, `()` if there is none. Assigning it replaces the text, or adds the \
         system message.",
    )
    .set_into_module(module, |list: &mut List| {
        message::system_of(&list.array).map_or(Dynamic::UNIT, |found| text_dynamic(&message::text_of(&found)))
    });
    method("set$system", &["messages: &mut messages", "text: &str"], "").set_into_module(
        module,
        |list: &mut List, text: Dynamic| -> Answer<()> {
            write_system(list, &text_argument(&text)?, |_, new| new.to_owned())
        },
    );
    method(
        "append_system",
        &["messages: &mut messages", "text: &str"],
        "Adds a paragraph at the end of the system message, after its cache marks; creates a missing system \
         message.",
    )
    .set_into_module(module, |list: &mut List, text: &str| -> Answer<()> {
        if let Some(found) = message::system_of(&list.array) {
            check_system(message::text_of(&found).len() + text.len())?;
        }
        message::append_system(&list.array, text).map_err(misplaced)
    });
    method(
        "prepend_system",
        &["messages: &mut messages", "text: &str"],
        "Adds a paragraph at the beginning of the system message; creates a missing system message.",
    )
    .set_into_module(module, |list: &mut List, text: &str| -> Answer<()> {
        write_system(list, text, |old, new| format!("{new}\n\n{old}"))
    });
}

/// Registers what adds images to a message.
fn register_images(module: &mut Module) {
    let about = "Adds an image after the existing content of the message.";
    let add = || method("add_image", &["message: &mut message", "image: blob"], about);
    add().set_into_module(module, |map: &mut Map, image: Bytes| add_image(map, &image));
    add().set_into_module(module, |map: &mut Map, image: Blob| add_image(map, &Bytes(image.into())));
}

fn add_image(map: &mut Map, image: &Bytes) -> Answer<()> {
    let parts = parts(map).deep_clone();
    let url = Json::from([("url", image.data_url(None)?.into())]);
    let part = Json::from([("type", "image_url".into()), ("image_url", url)]);
    let Json::Array(list) = &parts else { return Ok(()) };
    list.push(part).map_err(misplaced)?;
    map.object.set("content", parts).map_err(misplaced)
}

/// Registers the properties of the places of texts.
fn register_places(module: &mut Module) {
    module.set_custom_type::<event::TextPlace>("text");
    pure("==").set_into_module(module, |place: &mut event::TextPlace, text: &str| place.text() == text);
    pure("!=").set_into_module(module, |place: &mut event::TextPlace, text: &str| place.text() != text);
    pure("==").set_into_module(module, |text: &str, place: event::TextPlace| place.text() == text);
    pure("!=").set_into_module(module, |text: &str, place: event::TextPlace| place.text() != text);
    method("get$text", &["place: &mut text_place", "text"], "The text.").set_into_module(
        module,
        |place: &mut event::TextPlace| -> Answer<Dynamic> {
            let text = place.text();
            budget::charge_bytes(text.len(), COPY).map_err(budget::ended)?;
            Ok(text_dynamic(&text))
        },
    );
    method("set$text", &["place: &mut text_place", "text: &str"], "").set_into_module(
        module,
        |place: &mut event::TextPlace, text: Dynamic| -> Answer<()> {
            place.set_text(&text_argument(&text)?);
            Ok(())
        },
    );
    method(
        "get$kind",
        &["place: &mut text_place", "text"],
        "The kind of the text: `\"content\"`, `\"reasoning\"`, `\"arguments\"` …",
    )
    .set_into_module(module, |place: &mut event::TextPlace| text_dynamic(place.kind));
    method(
        "get$role",
        &["place: &mut text_place", "any"],
        "The role of the message that holds the text; `()` outside of messages.",
    )
    .set_into_module(module, |place: &mut event::TextPlace| {
        place.role.as_deref().map_or(Dynamic::UNIT, text_dynamic)
    });
    for name in ["to_string", "to_debug", "print", "debug"] {
        pure(name).set_into_module(module, |place: &mut event::TextPlace| text_dynamic(&place.text()));
    }
}

/// The maximum length of a system message that a script writes, in bytes.
const MAX_SYSTEM: usize = 8 << 20;

fn check_system(bytes: usize) -> Answer<()> {
    let most = MAX_SYSTEM >> 20;
    match bytes > MAX_SYSTEM {
        true => Err(error(format!(
            "cannot write the system message: it has {bytes} bytes and exceeded its limit of {most} MiB"
        ))),
        false => Ok(()),
    }
}

fn write_system(list: &List, text: &str, join: fn(&str, &str) -> String) -> Answer<()> {
    match message::system_of(&list.array) {
        Some(found) => {
            let old = message::text_of(&found);
            check_system(old.len() + text.len())?;
            let text = if old.is_empty() { text.to_owned() } else { join(&old, text) };
            message::set_text(&found, &text);
            Ok(())
        }
        None => list.array.insert(0, message::system(text)).map_err(misplaced),
    }
}
