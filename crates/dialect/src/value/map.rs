//! Methods and properties of live maps that the host implements itself.

use super::convert::{copied, error, json_of, live, misplaced, written};
use super::handle::{KernelHandle, Map, Shape, method, pure};
use super::message::LiveProperty;
use super::order;
use crate::answer::ThrownError;
use crate::call::{self, log};
use rhai::{
    Dynamic, EvalAltResult, FnNamespace, FuncRegistration, Module, NativeCallContext, Position, RhaiFunc,
    Shared,
};
use std::any::TypeId;
use std::collections::HashMap;
use valvehouse_json::{Json, Object};

type Answer<T> = Result<T, Box<EvalAltResult>>;

pub(super) const COPY: &[&str] = &["value: &mut any", "any"];
pub(super) const COPIES: &str = "Returns an independent copy: changes to it do not affect the original.";
const ENSURE: &[&str] = &["map: &mut map", "path: &str", "default", "any"];
const ENSURES: &str = "Returns the value at a path of keys; a missing value is set to the default first: \
                       `body.ensure(\"metadata.features\", #{})`.";
pub(super) const AT: &[&str] = &["value: &mut any", "path: &str", "any"];
pub(super) const FINDS: &str = "Returns the value at a path of keys and indexes, \
                                `body.at(\"messages.0.content\")`; `()` if there is none.";

impl Map {
    fn json(&self) -> Json {
        Json::Object(self.object.clone())
    }

    /// Returns the value of a key; `()` if it is missing.
    pub(super) fn field(&self, key: &str) -> Dynamic {
        // The `ctx` of a tool is the context itself; that of a filter has it as a field.
        if self.shape == Shape::Context && key == "context" {
            return Dynamic::from(self.clone());
        }
        let below = self.shape.below_key(key);
        let absent = || match (self.shape, key) {
            (Shape::Ctx | Shape::Context, "kernel") => Dynamic::from(KernelHandle),
            _ => Dynamic::UNIT,
        };
        self.object.with(key, |value| value.map_or_else(absent, |value| live(value, below)))
    }

    fn set_field(&self, key: &str, value: &Dynamic) -> Answer<()> {
        // A method call on a property writes the value back, which is not possible for the kernel.
        if value.is::<KernelHandle>() {
            return Ok(());
        }
        self.object.set(key, json_of(value)?).map_err(misplaced)
    }

    /// Returns the entries as a native map; nested containers stay live.
    pub(super) fn fields(&self) -> rhai::Map {
        let mut map = rhai::Map::new();
        self.object.for_each(|key, value| {
            map.insert(key.into(), live(value, self.shape.below_key(key)));
        });
        map
    }
}

/// Returns `run_id` or `agent_id` of a context, which variables cannot override.
fn own_id(map: &Map, key: &str) -> Option<Dynamic> {
    let is_id = map.shape == Shape::Context && matches!(key, "run_id" | "agent_id");
    (is_id && map.object.contains(key)).then(|| map.field(key))
}

/// Properties that are probably misspelt: the shapes of values without them, and the keys that were meant.
pub type Misspelt = HashMap<String, Vec<(Shape, &'static str)>>;

/// Creates getters and setters for the properties that a script uses. They are found directly, whereas an index
/// lookup happens only after a failed property lookup. A new key that is probably misspelt is reported: as an error in a
/// guard, which would lose a change.
pub fn property_accessors<'a>(names: impl Iterator<Item = &'a str>, misspelt: &Misspelt) -> Module {
    let mut module = Module::new();
    for name in names {
        let special = LiveProperty::from_name(name);
        let key = name.to_owned();
        register(&mut module, format!("get${name}"), move |map: &mut Map| -> Answer<Dynamic> {
            match special.filter(|special| special.stands_for(&key, map)) {
                Some(special) => (special.read)(map),
                None => Ok(map.field(&key)),
            }
        });
        let key = name.to_owned();
        if let Some(meant) = misspelt.get(name).cloned() {
            let set = move |context: NativeCallContext<'_>, map: &mut Map, value: Dynamic| -> Answer<()> {
                let meant = meant.iter().find(|(shape, _)| *shape == map.shape);
                if let Some((_, meant)) = meant.filter(|_| !map.object.contains(&key)) {
                    report_misspelt(&key, meant, context.call_position())?;
                }
                map.set_field(&key, &value)
            };
            register(&mut module, format!("set${name}"), set);
            continue;
        }
        let special = LiveProperty::from_name(name);
        register(&mut module, format!("set${name}"), move |map: &mut Map, value: Dynamic| -> Answer<()> {
            match special.filter(|special| special.stands_for(&key, map)) {
                Some(special) => (special.write)(map, &value),
                None => map.set_field(&key, &value),
            }
        });
    }
    return module;

    fn register<A: 'static, const N: usize, const X: bool, R: rhai::Variant + Clone, const F: bool>(
        module: &mut Module,
        name: String,
        function: impl rhai::RhaiNativeFunc<A, N, X, R, F> + Send + Sync + 'static,
    ) {
        FuncRegistration::new(name)
            .with_purity(true)
            .with_namespace(FnNamespace::Global)
            .set_into_module(module, function);
    }
}

fn report_misspelt(key: &str, meant: &str, at: Position) -> Answer<()> {
    let message = format!("unknown key `{key}`: nothing reads it; did you mean `{meant}`?");
    if call::is_of_guard() {
        let message = format!("{message} A guard must not lose a change");
        return Err(ThrownError::bug(message, at.line()).into_error(at));
    }
    log::warn_at(at, &message);
    Ok(())
}

/// Removes a key and returns its value, or the fallback if it is missing.
fn removed(map: &mut Map, key: &str, fallback: Dynamic) -> Dynamic {
    map.object.remove(key).map_or(fallback, |value| live(&value, map.shape.below_key(key)))
}

pub(super) fn register(module: &mut Module) {
    module.set_custom_type::<Map>("map");

    pure("index$get$").set_into_module(module, |map: &mut Map, key: &str| -> Answer<Dynamic> {
        match LiveProperty::from_name(key).filter(|special| special.stands_for(key, map)) {
            Some(special) => (special.read)(map),
            None => Ok(map.field(key)),
        }
    });
    pure("index$set$").set_into_module(module, |map: &mut Map, key: &str, value: Dynamic| {
        match LiveProperty::from_name(key).filter(|special| special.stands_for(key, map)) {
            Some(special) => (special.write)(map, &value),
            None => map.set_field(key, &value),
        }
    });
    pure("len").set_into_module(module, |map: &mut Map| map.object.len() as rhai::INT);
    pure("is_empty").set_into_module(module, |map: &mut Map| map.object.is_empty());
    pure("contains").set_into_module(module, |map: &mut Map, key: &str| map.object.contains(key));
    pure("keys").set_into_module(module, |map: &mut Map| -> rhai::Array {
        map.object.keys().into_iter().map(|key| key.as_str().into()).collect()
    });
    pure("values").set_into_module(module, |map: &mut Map| -> rhai::Array {
        let entries = map.object.entries();
        entries.iter().map(|(key, value)| live(value, map.shape.below_key(key))).collect()
    });
    pure("get").set_into_module(module, |map: &mut Map, key: &str| read(map, key, Dynamic::UNIT));
    let get = &["map: &mut map", "key: &str", "fallback", "any"];
    let gets = "Returns the value of a key, or the fallback if the key is missing.";
    method("get", get, gets)
        .set_into_module(module, |map: &mut Map, key: &str, fallback: Dynamic| read(map, key, fallback));
    method("get", get, gets).set_into_module(module, |map: &mut rhai::Map, key: &str, fallback: Dynamic| {
        map.get(key).cloned().unwrap_or(fallback)
    });
    pure("set").set_into_module(module, |map: &mut Map, key: &str, value: Dynamic| -> Answer<Map> {
        variables(map).set_field(key, &value)?;
        Ok(map.clone())
    });
    for name in ["remove", "pop"] {
        pure(name).set_into_module(module, |map: &mut Map, key: &str| removed(map, key, Dynamic::UNIT));
    }
    pure("pop").set_into_module(module, removed);
    pure("pop")
        .set_into_module(module, |map: &mut rhai::Map, key: &str| map.remove(key).unwrap_or(Dynamic::UNIT));
    pure("pop").set_into_module(module, |map: &mut rhai::Map, key: &str, fallback: Dynamic| {
        map.remove(key).unwrap_or(fallback)
    });
    let update = &["map: &mut map", "other: map", "()"];
    method("update", update, "Sets the keys of another map, as `mixin` does.")
        .set_into_module(module, |map: &mut rhai::Map, other: rhai::Map| map.extend(other));
    pure("clear").set_into_module(module, |map: &mut Map| map.object.clear());
    register_sums(module);
    register_copies(module);
    register_writing(module);
}

/// Registers what combines or compares two maps.
fn register_sums(module: &mut Module) {
    for name in ["mixin", "update", "+="] {
        tagged(module, raw(name), [TypeId::of::<Map>(), TypeId::of::<rhai::Map>()], |args| {
            let [map, other] = args else { return Ok(Dynamic::UNIT) };
            if let Some(map) = map.read_lock::<Map>() {
                mix_in(&map.object, json_of(other)?.entries())?;
            }
            Ok(Dynamic::UNIT)
        });
        pure(name)
            .set_into_module(module, |map: &mut Map, other: Map| mix_in(&map.object, other.object.entries()));
    }
    tagged(module, raw("+"), [TypeId::of::<Map>(), TypeId::of::<rhai::Map>()], |args| {
        let [map, other] = args else { return Ok(Dynamic::UNIT) };
        let Some(map) = map.read_lock::<Map>() else { return Ok(Dynamic::UNIT) };
        let sum: Object = map.object.entries().into_iter().collect();
        mix_in(&sum, json_of(other)?.entries())?;
        Ok(Dynamic::from(Map { shape: map.shape, object: sum }))
    });
    pure("+").set_into_module(module, |map: &mut Map, other: Map| -> Answer<Map> {
        let sum: Object = map.object.entries().into_iter().collect();
        mix_in(&sum, other.object.entries())?;
        Ok(Map { shape: map.shape, object: sum })
    });

    // A native map also accepts the fields of a live one.
    for name in ["mixin", "update", "+="] {
        pure(name).set_into_module(module, |own: &mut rhai::Map, other: Map| own.extend(other.fields()));
    }
    pure("+").set_into_module(module, |own: rhai::Map, other: Map| {
        let mut sum = own;
        sum.extend(other.fields());
        sum
    });

    pure("==").set_into_module(module, |a: &mut Map, b: Map| a.json() == b.json());
    pure("!=").set_into_module(module, |a: &mut Map, b: Map| a.json() != b.json());
    pure("==").set_into_module(module, |a: &mut Map, b: rhai::Map| equals(a, b));
    pure("!=").set_into_module(module, |a: &mut Map, b: rhai::Map| !equals(a, b));
    pure("==").set_into_module(module, |a: rhai::Map, b: Map| equals(&b, a));
    pure("!=").set_into_module(module, |a: rhai::Map, b: Map| !equals(&b, a));
}

/// Registers what copies a map, or makes values in it.
fn register_copies(module: &mut Module) {
    method("copy", COPY, COPIES)
        .set_into_module(module, |map: &mut Map| copied(&map.json()).map(|copy| live(&copy, map.shape)));
    method("at", AT, FINDS)
        .set_into_module(module, |map: &mut Map, path: &str| live(&map.json().at_path(path), Shape::Plain));
    method("ensure", ENSURE, ENSURES).set_into_module(
        module,
        |map: &mut Map, path: &str, default: Dynamic| -> Answer<Dynamic> {
            let there = map.json().ensure_path(path, json_of(&default)?).map_err(misplaced)?;
            Ok(live(&there, if path.contains('.') { Shape::Plain } else { map.shape.below_key(path) }))
        },
    );
    let key = &["map: &mut map", "key: &str", "default", "any"];
    let sets =
        "Returns the value of a key; a missing one is set to the default first. A list or map is live.";
    method("setdefault", key, sets).set_into_module(
        module,
        |map: &mut Map, key: &str, default: Dynamic| -> Answer<Dynamic> {
            if !map.object.contains(key) {
                map.set_field(key, &default)?;
            }
            Ok(map.field(key))
        },
    );
    method("setdefault", key, sets).set_into_module(
        module,
        |map: &mut rhai::Map, key: &str, default: Dynamic| -> Answer<Dynamic> {
            let place = map.entry(key.into()).or_insert(default);
            *place = live(&json_of(place)?, Shape::Plain);
            Ok(place.clone())
        },
    );
    tagged(
        module,
        raw("copy").with_params_info(COPY).with_comments([format!("/// {COPIES}")]),
        [TypeId::of::<rhai::Map>()],
        |args| Ok(args.first().map_or(Dynamic::UNIT, |map| map.flatten_clone())),
    );
    method("copy", COPY, COPIES).set_into_module(module, |array: &mut rhai::Array| array.clone());
    pure("copy").set_into_module(module, |text: rhai::ImmutableString| text);
    method("ensure", ENSURE, ENSURES)
        // Lists and maps at the path become live, so that a change of the returned one is a change of the map.
        .set_into_module(module, |map: &mut rhai::Map, path: &str, default: Dynamic| -> Answer<Dynamic> {
            let (first, rest) =
                path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
            let place = map.entry(first.into()).or_insert(Dynamic::UNIT);
            let there = match (place.is_unit(), rest) {
                (true, Some(_)) => Json::object(),
                (true, None) => json_of(&default)?,
                (false, _) => json_of(place)?,
            };
            *place = live(&there, Shape::Plain);
            match rest {
                Some(rest) => {
                    let there = there.ensure_path(rest, json_of(&default)?).map_err(misplaced)?;
                    Ok(live(&there, Shape::Plain))
                }
                None => Ok(place.clone()),
            }
        });
    method("at", AT, FINDS).set_into_module(module, |map: &mut rhai::Map, path: &str| -> Answer<Dynamic> {
        Ok(live(&json_of(&map.clone().into())?.at_path(path), Shape::Plain))
    });
}

/// Registers what writes and iterates maps.
fn register_writing(module: &mut Module) {
    for name in ["to_string", "to_debug", "to_json", "print", "debug"] {
        pure(name).set_into_module(module, |map: &mut Map| written(&map.json()));
    }
    module.set_iter(TypeId::of::<Map>(), |map: Dynamic| {
        let map = map.cast::<Map>();
        Box::new(map.object.keys().into_iter().map(|key| Dynamic::from(key.to_string())))
    });
    // Native maps iterate in the same form.
    module.set_iter(TypeId::of::<rhai::Map>(), |map: Dynamic| Box::new(order::keys(&map).into_iter()));
    tagged(module, raw("keys"), [TypeId::of::<rhai::Map>()], |args| {
        Ok(args.first().map_or(Dynamic::UNIT, |map| order::keys(map).into()))
    });
    pure("empty").set_into_module(module, |value: Dynamic| -> Answer<bool> {
        Ok(!value.is::<rhai::FnPtr>()
            && json_of(&value).map_err(|_| error("empty: expected a JSON value"))?.is_empty())
    });
}

/// Returns the value that `.get` finds: the same as an index, and of a context the variable.
fn read(map: &Map, key: &str, fallback: Dynamic) -> Answer<Dynamic> {
    if let Some(id) = own_id(map, key) {
        return Ok(id);
    }
    let map = &variables(map);
    if let Some(special) = LiveProperty::from_name(key).filter(|special| special.stands_for(key, map)) {
        let value = (special.read)(map)?;
        return Ok(if value.is_unit() { fallback } else { value });
    }
    Ok(if map.object.contains(key) { map.field(key) } else { fallback })
}

/// Returns the variables of a context, which its `get` and `set` access; otherwise the map itself.
fn variables(map: &Map) -> Map {
    match (map.shape, map.object.get("variables")) {
        (Shape::Context, Some(Json::Object(object))) => Map { shape: Shape::Plain, object },
        _ => map.clone(),
    }
}

fn raw(name: &str) -> FuncRegistration {
    FuncRegistration::new(name).with_namespace(FnNamespace::Global)
}

/// Registers a function that receives its arguments with their tags, so that maps keep their key order.
fn tagged<const N: usize>(
    module: &mut Module,
    registration: FuncRegistration,
    types: [TypeId; N],
    function: impl Fn(&mut [&mut Dynamic]) -> Answer<Dynamic> + Send + Sync + 'static,
) {
    let func = Shared::new(move |_: Option<NativeCallContext<'_>>, args: &mut [&mut Dynamic]| function(args));
    let func = RhaiFunc::Method { func, has_context: false, is_pure: true, is_volatile: false };
    registration.set_into_module_raw(module, types, func);
}

fn mix_in(object: &Object, entries: Vec<(compact_str::CompactString, Json)>) -> Answer<()> {
    entries.into_iter().try_for_each(|(key, value)| object.set(&key, value)).map_err(misplaced)
}

fn equals(map: &Map, other: rhai::Map) -> bool {
    json_of(&other.into()).is_ok_and(|other| other == map.json())
}
