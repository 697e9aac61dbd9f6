//! An answer that is read while it arrives: `llm::stream` and `http::stream` return one, and a loop reads it.

use super::argument::{RhaiResultOf, effect, fail, running};
use super::host_calls::{self, Recordable};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use rhai::{Dynamic, FnNamespace, FuncRegistration, Module};
use std::sync::Arc;
use valvehouse_dialect::budget;
use valvehouse_dialect::value::{Bytes, Map, Shape, error, live};
use valvehouse_json::{Json, Object};

/// An item of such an answer.
#[derive(Debug, Clone)]
pub(super) enum Item {
    /// An event of a model.
    Event(Json),
    /// A line or an event of another host.
    Json(Json),
    Bytes(Bytes),
}

impl Item {
    fn into_dynamic(self) -> Dynamic {
        match self {
            Self::Event(event) => live(&event, Shape::Event),
            Self::Json(json) => live(&json, Shape::Plain),
            Self::Bytes(bytes) => Dynamic::from(bytes),
        }
    }
}

impl Recordable for Option<Item> {
    fn to_json(&self) -> Option<Json> {
        Some(match self {
            None => Json::Null,
            Some(Item::Event(event)) => Json::from([("event", event.deep_clone())]),
            Some(Item::Json(json)) => Json::from([("json", json.deep_clone())]),
            Some(Item::Bytes(bytes)) => Json::from([("bytes", STANDARD.encode(&bytes.0).into())]),
        })
    }

    fn from_json(json: &Json) -> Option<Self> {
        if let Json::Null = json {
            return Some(None);
        }
        let item = match (json.get("event"), json.get("json"), json.text("bytes")) {
            (Some(event), ..) => Item::Event(event.deep_clone()),
            (_, Some(json), _) => Item::Json(json.deep_clone()),
            (.., Some(bytes)) => Item::Bytes(Bytes::new(STANDARD.decode(bytes.as_bytes()).ok()?).ok()?),
            _ => return None,
        };
        Some(Some(item))
    }
}

/// The stream of items; a script can catch its errors.
pub(super) type Items = BoxStream<'static, Result<Item, String>>;

/// An answer that is being read. Its connection is closed when the script drops it.
#[derive(Clone)]
pub struct OpenAnswer {
    name: &'static str,
    /// `status` and `headers` of a host's response; empty for a model.
    head: Object,
    state: Arc<Mutex<State>>,
}

enum State {
    Open(Items),
    /// Another call is reading it.
    Busy,
    Over,
    /// It was opened before the step paused, and is not opened again.
    Recorded,
}

impl OpenAnswer {
    pub(super) fn new(name: &'static str, head: Object, items: Option<Items>) -> Self {
        let state = items.map_or(State::Recorded, State::Open);
        Self { name, head, state: Arc::new(Mutex::new(state)) }
    }

    /// Waits for the next item; `None` at the end.
    ///
    /// # Errors
    /// Returns the error of the source, such as of a connection.
    pub fn next(&self) -> RhaiResultOf<Option<Dynamic>> {
        let call = running(self.name)?;
        let item = host_calls::once(
            self.name,
            || Json::Null,
            || {
                let mut items = match std::mem::replace(&mut *self.state.lock(), State::Busy) {
                    State::Open(items) => items,
                    State::Busy => {
                        return Err(fail(
                            self.name,
                            "cannot read the answer: another part of the script is reading it",
                        ));
                    }
                    State::Over => {
                        *self.state.lock() = State::Over;
                        return Ok(None);
                    }
                    State::Recorded => {
                        *self.state.lock() = State::Recorded;
                        let why = "cannot continue reading after a pause; read the answer to its end before \
                                   you call `ask`";
                        return Err(fail(self.name, why));
                    }
                };
                let item = budget::wait(&call.turn, items.next())?;
                let (state, item) = match item {
                    None => (State::Over, Ok(None)),
                    Some(Ok(item)) => (State::Open(items), Ok(Some(item))),
                    Some(Err(why)) => (State::Over, Err(fail(self.name, why))),
                };
                *self.state.lock() = state;
                item
            },
        )?;
        Ok(item.map(Item::into_dynamic))
    }
}

/// Registers `for event in answer`, `answer.next()` and `answer.status`.
pub(crate) fn register(module: &mut Module) {
    module.set_custom_type::<OpenAnswer>("stream");
    module.set_iter_result(std::any::TypeId::of::<OpenAnswer>(), |reading: Dynamic| {
        let reading = reading.cast::<OpenAnswer>();
        Box::new(std::iter::from_fn(move || reading.next().transpose()))
    });
    let method = |name: &str, params: &[&str], about: &str| {
        effect(name, params, about).with_namespace(FnNamespace::Global).with_purity(true)
    };
    method(
        "next",
        &["answer: &mut stream", "any"],
        "Waits for the next part of a streamed answer and returns it; `()` at its end.",
    )
    .set_into_module(module, |reading: &mut OpenAnswer| -> RhaiResultOf<Dynamic> {
        Ok(reading.next()?.unwrap_or(Dynamic::UNIT))
    });
    for (name, about) in [
        ("status", "The HTTP status of the answer."),
        ("headers", "The headers of the answer, a map with names in lower case."),
    ] {
        let getter = method(&format!("get${name}"), &["answer: &mut stream", "any"], about);
        getter.set_into_module(module, move |reading: &mut OpenAnswer| -> RhaiResultOf<Dynamic> {
            let value = reading.head.get(name);
            value
                .map(|value| live(&value, Shape::Plain))
                .ok_or_else(|| error(format!("a model's answer has no `{name}`")))
        });
    }
    for name in ["to_string", "to_debug", "print", "debug"] {
        FuncRegistration::new(name)
            .with_namespace(FnNamespace::Global)
            .with_purity(true)
            .set_into_module(module, |reading: &mut OpenAnswer| {
                format!("{} (a streamed answer)", reading.name)
            });
    }
}

/// Splits a body into lines, events or chunks.
pub(super) fn split(form: Form, body: BoxStream<'static, Result<bytes::Bytes, String>>) -> Items {
    let cutter = Cutter { form, partial: Vec::new(), events: valvehouse_net::sse::Parser::default() };
    let ended = futures::stream::once(async { None });
    let body = body.map(Some).chain(ended);
    body.scan((cutter, false), |(cutter, is_over), bytes| {
        let items = match bytes {
            _ if *is_over => return std::future::ready(None),
            Some(Ok(bytes)) => cutter.push(&bytes),
            Some(Err(why)) => {
                *is_over = true;
                vec![Err(why)]
            }
            None => cutter.finish(),
        };
        std::future::ready(Some(futures::stream::iter(items)))
    })
    .flatten()
    .boxed()
}

/// The form in which an answer is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Lines,
    Events,
    Chunks,
}

/// The maximum length of a line, in bytes.
const MAX_LINE: usize = 1 << 20;

struct Cutter {
    form: Form,
    partial: Vec<u8>,
    events: valvehouse_net::sse::Parser,
}

impl Cutter {
    fn push(&mut self, bytes: &[u8]) -> Vec<Result<Item, String>> {
        match self.form {
            Form::Chunks if bytes.is_empty() => Vec::new(),
            Form::Chunks => {
                let parts = bytes.chunks(MAX_LINE).map(bytes::Bytes::copy_from_slice);
                parts.map(|part| Ok(Item::Bytes(Bytes(part)))).collect()
            }
            Form::Events => {
                self.events.push(bytes);
                self.events()
            }
            Form::Lines => {
                let mut lines = Vec::new();
                let mut rest = bytes;
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    self.partial.extend_from_slice(&rest[..end]);
                    lines.push(line(&std::mem::take(&mut self.partial)));
                    rest = &rest[end + 1..];
                }
                self.partial.extend_from_slice(rest);
                if self.partial.len() > MAX_LINE {
                    lines.push(Err("a line exceeded its limit of 1 MiB; read `chunks`".to_owned()));
                    self.partial.clear();
                }
                lines
            }
        }
    }

    fn finish(&mut self) -> Vec<Result<Item, String>> {
        match self.form {
            Form::Chunks => Vec::new(),
            Form::Events => {
                self.events.finish();
                self.events()
            }
            Form::Lines if self.partial.is_empty() => Vec::new(),
            Form::Lines => vec![line(&std::mem::take(&mut self.partial))],
        }
    }

    fn events(&mut self) -> Vec<Result<Item, String>> {
        let events = self.events.by_ref().map(|event| {
            let event = event.map_err(|why| why.to_string())?;
            let data = text(event.data.to_vec())?;
            let name = event.name.as_deref().unwrap_or("message");
            Ok(Item::Json(Json::from([("event", name.into()), ("data", data.into())])))
        });
        events.collect()
    }
}

fn line(bytes: &[u8]) -> Result<Item, String> {
    let line = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    text(line.to_vec()).map(|text| Item::Json(text.into()))
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|why| {
        let at = why.utf8_error().valid_up_to();
        format!("cannot read the answer as text: byte {at} is not UTF-8; read `chunks`, which are bytes")
    })
}

/// Returns the map of a response's status and headers.
pub(super) fn head(status: u16, headers: Vec<(String, String)>) -> Object {
    let all = Object::default();
    for (name, value) in headers {
        let value = match all.get(&name).and_then(|before| before.as_str().map(str::to_owned)) {
            Some(before) => format!("{before}, {value}"),
            None => value,
        };
        all.put(&name, value.into());
    }
    [("status".into(), i64::from(status).into()), ("headers".into(), Json::Object(all))].into_iter().collect()
}

/// Returns the status and headers of a recorded answer, which a repeated step can use.
pub(super) fn head_of(json: &Json) -> Object {
    match live(json, Shape::Plain).try_cast::<Map>() {
        Some(map) => map.object,
        None => Object::default(),
    }
}
