//! The functions of a script that a host calls periodically, and the lists they return.

use rhai::{Array, Dynamic, EvalAltResult, FnPtr, Map};
use std::collections::BTreeMap;
use valvehouse_dialect::value::{Shape, dynamic_of, error, json_within, live};
use valvehouse_json::Json;

/// A function that a host calls periodically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScheduledCall {
    /// `tick()`, every `const every`.
    Tick,
    /// `pipes()`, every `const ttl`.
    Pipes,
    /// `tools()`, every `const ttl`.
    Tools,
}

impl ScheduledCall {
    /// All functions.
    pub const ALL: [Self; 3] = [Self::Tick, Self::Pipes, Self::Tools];

    /// Returns the name of the function.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tick => "tick",
            Self::Pipes => "pipes",
            Self::Tools => "tools",
        }
    }

    /// Returns the function of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// The latest lists that the functions of one script returned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lists(BTreeMap<ScheduledCall, Json>);

impl Lists {
    /// Returns the list of a function; `None` before its first one.
    pub fn get(&self, what: ScheduledCall) -> Option<&Json> {
        self.0.get(&what)
    }

    /// Returns the entries of a list for display: each with the name of its handler, if it has one.
    pub fn entries(list: &Json) -> Json {
        let Json::Array(entries) = list else { return list.clone() };
        let entries = entries.items().into_iter().map(|written| {
            let entry = written.field(ENTRY).deep_clone();
            if let Some(name) = written.field(HANDLER).text("name") {
                // The object is a new copy and the value a text, so the change cannot fail.
                entry.edit(HANDLER, name.as_str());
            }
            entry
        });
        entries.collect::<Vec<Json>>().into()
    }

    /// Replaces the list of a function.
    pub fn set(&mut self, what: ScheduledCall, list: Json) {
        self.0.insert(what, list);
    }
}

/// A function of a script by name, with its bound arguments. Rhai cannot create a function pointer from the name of
/// a closure.
#[derive(Clone)]
pub(crate) struct FunctionRef {
    pub(crate) name: String,
    pub(crate) bound: Vec<Dynamic>,
}

impl FunctionRef {
    /// Creates a reference without bound arguments.
    pub(crate) fn from_name(name: &str) -> Self {
        Self { name: name.to_owned(), bound: Vec::new() }
    }
}

impl From<&FnPtr> for FunctionRef {
    fn from(pointer: &FnPtr) -> Self {
        Self { name: pointer.fn_name().to_owned(), bound: pointer.iter_curry().cloned().collect() }
    }
}

/// The maximum number of bytes that are copied for a list.
const MAX_WRITTEN: usize = 16 << 20;
/// The key of an entry without its function; `HANDLER` is that of the function.
const ENTRY: &str = "entry";
const HANDLER: &str = "handler";

/// Converts a list to JSON: its entries, each with the function of its `handler` next to it.
pub(crate) fn written(list: &Dynamic) -> Result<Json, Box<EvalAltResult>> {
    let list = list.flatten_clone();
    let mut rest = MAX_WRITTEN;
    let Ok(entries) = list.as_array_ref() else {
        // A live list contains no functions.
        return Ok(match owned(&list, &mut rest)? {
            Json::Array(entries) => entries
                .items()
                .into_iter()
                .map(|entry| Json::from([(ENTRY, entry)]))
                .collect::<Vec<_>>()
                .into(),
            other => other,
        });
    };
    let entries = entries.iter().map(|entry| {
        let map = entry.as_map_ref();
        let handler = map.as_ref().ok().and_then(|map| map.get(HANDLER));
        let handler = handler.and_then(|handler| handler.read_lock::<FnPtr>().map(|one| one.clone()));
        let (Ok(map), Some(handler)) = (&map, handler) else {
            return Ok(Json::from([(ENTRY, owned(entry, &mut rest)?)]));
        };
        let mut others = Map::clone(map);
        others.remove(HANDLER);
        let curried = handler.iter_curry().map(|value| owned(value, &mut rest));
        let curried = curried.collect::<Result<Vec<_>, _>>()?;
        let handler = Json::from([("name", handler.fn_name().into()), ("curry", curried.into())]);
        Ok(Json::from([(ENTRY, owned(&others.into(), &mut rest)?), (HANDLER, handler)]))
    });
    Ok(entries.collect::<Result<Vec<Json>, Box<EvalAltResult>>>()?.into())
}

/// Returns a copy of a value; all entries of a list share the limit.
fn owned(value: &Dynamic, rest: &mut usize) -> Result<Json, Box<EvalAltResult>> {
    let json = json_within(value, rest)?;
    *rest = rest
        .checked_sub(json.size_estimate())
        .ok_or_else(|| error(format!("the list exceeded its limit of {} MiB", MAX_WRITTEN >> 20)))?;
    Ok(json.deep_clone())
}

/// Converts a list back from its JSON.
pub(crate) fn read(written: &Json) -> Result<Dynamic, Box<EvalAltResult>> {
    let Json::Array(entries) = written else { return Ok(dynamic_of(written)) };
    let entries = entries.items().into_iter().map(|written| {
        let Json::Object(entry) = written.field(ENTRY) else {
            return Ok(live(&written.field(ENTRY), Shape::Plain));
        };
        // Nested values keep the order of their keys.
        let mut map = Map::new();
        entry.for_each(|key, value| {
            map.insert(key.into(), live(value, Shape::Plain));
        });
        let handler = written.field(HANDLER);
        if let Some(name) = handler.text("name") {
            let bound = handler.list("curry").iter().map(dynamic_of).collect();
            map.insert(HANDLER.into(), Dynamic::from(FunctionRef { name: name.into(), bound }));
        }
        Ok(map.into())
    });
    Ok(entries.collect::<Result<Array, Box<EvalAltResult>>>()?.into())
}
