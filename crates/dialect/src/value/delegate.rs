//! The functions of live values: the host's own, and all of Rhai's array and map functions.
//!
//! A function that does not support live values is called with a native array or map of the same live elements; if
//! it changes its first argument, the change is written back. A range has the functions of an array with its numbers.

use super::convert::{json_of, misplaced};
use super::handle::{List, Map};
use super::{list, map, message};
use crate::budget;
use rhai::{Dynamic, Engine, EvalAltResult, EvalContext, INT, Module, Shared};
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::sync::OnceLock;
use valvehouse_json::Array;

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// The number of elements of a range that are charged as one operation.
const ELEMENTS: usize = 16;

/// Functions that change an array or map in place.
const CHANGING: [&str; 14] = [
    "chop",
    "dedup",
    "drain",
    "fill_with",
    "order",
    "order_desc",
    "pad",
    "resize",
    "retain",
    "reverse",
    "sort",
    "sort_desc",
    "splice",
    "truncate",
];

/// More of them, which live arrays have themselves. A range has neither, since the change would be lost.
const CHANGING_ALONE: [&str; 10] =
    ["+=", "append", "clear", "index$set$", "insert", "pop", "push", "remove", "set", "shift"];

/// Functions that return some of the elements; the result is live if they are.
const SELECTING: [&str; 4] = ["drain", "extract", "filter", "splice"];

/// Makes Rhai's functions of arrays and maps accept live values.
pub(crate) fn lend_missing_functions(engine: &mut Engine) {
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_missing_function(|name, args, _, context| lend(name, args, context));
}

/// Makes Rhai's functions accept live values on an engine that also has these modules, whose failed functions are
/// not called again.
pub fn lend_functions_missing_beside<'a>(
    engine: &mut Engine,
    modules: impl IntoIterator<Item = &'a Shared<Module>>,
) {
    let names = names_of(modules);
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_missing_function(move |name, args, _, context| match names.contains(name) {
        true => Ok(None),
        false => lend(name, args, context),
    });
}

fn lend(
    name: &str,
    args: &mut [&mut Dynamic],
    mut context: EvalContext<'_, '_, '_, '_, '_, '_>,
) -> Answer<Option<Dynamic>> {
    // A part of a text is taken like that of a list.
    if name == "extract" && args.first().is_some_and(|text| text.is_string()) {
        let mut own: Vec<Dynamic> = args.iter().map(|arg| (**arg).clone()).collect();
        let mut refs: Vec<&mut Dynamic> = own.iter_mut().collect();
        return found("sub_string", context.call_native_fn_raw("sub_string", true, &mut refs));
    }
    let is_range = |first: &Dynamic| first.is::<Range<INT>>() || first.is::<RangeInclusive<INT>>();
    let Some(first) = args.first().filter(|first| is_range(first)) else {
        return lend_live(name, args, context);
    };
    if !CHANGING.contains(&name)
        && !CHANGING_ALONE.contains(&name)
        && let Some(numbers) = numbers_of(first, context.engine())?
    {
        let mut numbers = Dynamic::from(numbers);
        let mut copies: Vec<Dynamic> = args.iter().skip(1).map(|arg| (**arg).clone()).collect();
        let mut refs: Vec<&mut Dynamic> = std::iter::once(&mut numbers).chain(&mut copies).collect();
        return found(name, context.call_native_fn_raw(name, true, &mut refs));
    }
    Ok(None)
}

/// Returns the numbers of a range as an array; `None` for other values.
///
/// # Errors
///
/// Returns an error if there are more numbers than an array has elements.
pub fn numbers_of(value: &Dynamic, engine: &Engine) -> Answer<Option<rhai::Array>> {
    let exclusive = value.read_lock::<Range<INT>>().map(|range| (range.start, range.end));
    let inclusive =
        value.read_lock::<RangeInclusive<INT>>().map(|range| (*range.start(), range.end().saturating_add(1)));
    let Some((start, end)) = exclusive.or(inclusive) else { return Ok(None) };
    let count = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
    if count > engine.max_array_size() {
        return Err(too_many().into());
    }
    budget::charge((count / ELEMENTS) as u64).map_err(budget::ended)?;
    budget::reserve(count * size_of::<Dynamic>()).map_err(budget::ended)?;
    Ok(Some((start..end).map(Dynamic::from).collect()))
}

/// Returns the result of a function; `None` if no function fits.
fn found(name: &str, answer: Answer<Dynamic>) -> Answer<Option<Dynamic>> {
    answer.map(Some).or_else(|error| match *error {
        EvalAltResult::ErrorFunctionNotFound(ref signature, _)
            if signature.split([' ', '(']).next() == Some(name) =>
        {
            Ok(None)
        }
        _ => Err(error),
    })
}

fn lend_live(
    name: &str,
    args: &mut [&mut Dynamic],
    mut context: EvalContext<'_, '_, '_, '_, '_, '_>,
) -> Answer<Option<Dynamic>> {
    // This runs for every failed call, so functions that the host has itself are excluded.
    if !args.iter().any(|arg| arg.is::<List>() || arg.is::<Map>()) || own_names().contains(name) {
        return Ok(None);
    }
    let max = context.engine().max_array_size();
    let mut plain = args.iter().map(|arg| plain_of(arg, max)).collect::<Answer<Vec<Dynamic>>>()?;
    let mut refs: Vec<&mut Dynamic> = plain.iter_mut().collect();
    let Some(answer) = found(name, context.call_native_fn_raw(name, true, &mut refs))? else {
        return Ok(None);
    };
    let list = args.first().and_then(|first| first.read_lock::<List>().map(|list| list.clone()));
    if CHANGING.contains(&name) {
        write_back(args, plain)?;
    }
    match list {
        Some(list) if SELECTING.contains(&name) && answer.is_array() => {
            let items = json_of(&answer)?.items();
            Ok(Some(Dynamic::from(List { shape: list.shape, array: Array::new(items) })))
        }
        _ => Ok(Some(answer)),
    }
}

fn too_many() -> EvalAltResult {
    EvalAltResult::ErrorDataTooLarge("Size of array/BLOB".into(), rhai::Position::NONE)
}

fn plain_of(value: &Dynamic, max: usize) -> Answer<Dynamic> {
    if let Some(list) = value.read_lock::<List>() {
        if list.array.len() > max {
            return Err(too_many().into());
        }
        return Ok(list.elements().into());
    }
    if let Some(map) = value.read_lock::<Map>() {
        if map.object.len() > max {
            return Err(too_many().into());
        }
        return Ok(map.fields().into());
    }
    Ok(value.clone())
}

fn write_back(args: &mut [&mut Dynamic], plain: Vec<Dynamic>) -> Answer<()> {
    let (Some(first), Some(changed)) = (args.first_mut(), plain.into_iter().next()) else { return Ok(()) };
    if !first.is::<List>() && !first.is::<Map>() {
        // A native value, changed by a function with live arguments.
        **first = changed;
        return Ok(());
    }
    if let Some(list) = first.read_lock::<List>()
        && changed.is_array()
    {
        let items = json_of(&changed)?.items();
        return list.array.replace(items).map_err(misplaced);
    }
    if let (Some(map), Ok(fields)) = (first.read_lock::<Map>(), changed.as_map_ref()) {
        for key in map.object.keys() {
            if !fields.contains_key(key.as_str()) {
                map.object.remove(&key);
            }
        }
        let fields = json_of(&changed)?;
        for (key, value) in fields.entries() {
            map.object.set(&key, value).map_err(misplaced)?;
        }
    }
    Ok(())
}

fn own_names() -> &'static HashSet<String> {
    static NAMES: OnceLock<HashSet<String>> = OnceLock::new();
    NAMES.get_or_init(|| names_of([&functions()]))
}

/// Returns the names of the functions of these modules.
pub fn names_of<'a>(modules: impl IntoIterator<Item = &'a Shared<Module>>) -> HashSet<String> {
    let signatures = modules
        .into_iter()
        .flat_map(|module| module.gen_fn_signatures_with_mapper(Into::into).collect::<Vec<_>>());
    signatures.filter_map(|signature| Some(signature.split_once('(')?.0.to_owned())).collect()
}

/// Returns the functions of live values, for every engine.
pub(crate) fn functions() -> Shared<Module> {
    static FUNCTIONS: OnceLock<Shared<Module>> = OnceLock::new();
    FUNCTIONS
        .get_or_init(|| {
            let mut module = Module::new();
            list::register(&mut module);
            map::register(&mut module);
            message::register(&mut module);
            module.build_index();
            module.into()
        })
        .clone()
}
