//! `after`: schedules a function for after the client has received its answer.

use super::argument::{RhaiResultOf, effect, fail, running};
use super::reading::OpenAnswer;
use rhai::{Dynamic, FnNamespace, FnPtr, Module};
use std::sync::Weak;
use valvehouse_dialect::call;
use valvehouse_dialect::value::{List, Map as Live, json_of, live};

const NAME: &str = "after";
/// The approximate maximum size of the values that one function holds, in bytes.
const MAX_KEPT: usize = 4 << 20;
/// The maximum nesting of the arrays, maps and functions it holds.
const MAX_DEPTH: usize = 64;
/// The approximate size of an element without its text, in bytes.
const ELEMENT: usize = 32;

pub(crate) fn register_after(module: &mut Module) {
    effect(
        NAME,
        &["function: closure"],
        "Calls a function when the client has received the last byte of its answer or has disconnected: \
         `after(|| kv::incr(\"answers\"))`. The captured values are copied now, at most 4 MiB. The function \
         runs in the background; an error that it throws is logged and counted.",
    )
    .with_namespace(FnNamespace::Global)
    .set_into_module(module, |function: FnPtr| after(&function));
}

fn after(function: &FnPtr) -> RhaiResultOf<()> {
    let call = running(NAME)?;
    let mut kept = 0;
    let function = own(function, &mut kept, 0)?;
    // If the step runs again after a pause, the function is already scheduled.
    if call::was_reported() {
        return Ok(());
    }
    let script = call.caller.script.get().and_then(Weak::upgrade);
    let script =
        script.ok_or_else(|| fail(NAME, "cannot run a function after the answer outside of a turn"))?;
    script.leave(function, kept, &call.turn).map_err(|why| fail(NAME, why))
}

/// Returns the function with copies of its captured variables, which are emptied at the end of the call.
fn own(function: &FnPtr, kept: &mut usize, depth: usize) -> RhaiResultOf<FnPtr> {
    let mut function = function.clone();
    for value in function.iter_curry_mut() {
        *value = copy(value, kept, depth + 1)?;
    }
    Ok(function)
}

fn copy(value: &Dynamic, kept: &mut usize, depth: usize) -> RhaiResultOf<Dynamic> {
    if depth > MAX_DEPTH {
        return Err(fail(NAME, format!("a captured value exceeded its limit of {MAX_DEPTH} levels")));
    }
    let mut keep = |bytes: usize| {
        *kept += bytes + ELEMENT;
        match *kept > MAX_KEPT {
            true => Err(fail(
                NAME,
                "the captured values exceeded their limit of 4 MiB; copy only the needed parts to variables",
            )),
            false => Ok(()),
        }
    };
    let map = || value.read_lock::<Live>().map(|map| map.shape);
    if let Some(shape) = map().or_else(|| value.read_lock::<List>().map(|list| list.shape)) {
        let json = json_of(value)?;
        keep(json.size_estimate())?;
        return Ok(live(&json.deep_clone(), shape));
    }
    if value.read_lock::<OpenAnswer>().is_some() {
        return Err(fail(
            NAME,
            "cannot capture a stream that is being read: it ends with its turn; read it before",
        ));
    }
    if let Some(function) = value.read_lock::<FnPtr>() {
        return own(&function, kept, depth).map(Dynamic::from);
    }
    if let Ok(items) = value.as_array_ref() {
        keep(0)?;
        let items: Vec<Dynamic> =
            items.iter().map(|item| copy(item, kept, depth + 1)).collect::<Result<_, _>>()?;
        return Ok(items.into());
    }
    if let Ok(map) = value.as_map_ref() {
        keep(0)?;
        let entries = map.iter().map(|(key, item)| Ok((key.clone(), copy(item, kept, depth + 1)?)));
        return Ok(entries.collect::<RhaiResultOf<rhai::Map>>()?.into());
    }
    let bytes = match (value.as_immutable_string_ref(), value.as_blob_ref()) {
        (Ok(text), _) => text.len(),
        (_, Ok(blob)) => blob.len(),
        _ => value.read_lock::<valvehouse_dialect::value::Bytes>().map_or(0, |bytes| bytes.0.len()),
    };
    keep(bytes)?;
    Ok(value.flatten_clone())
}
