//! Rhai's own functions, found as the interpreter finds them.

use rhai::{
    Array, Blob, Caches, Dynamic, Engine, EvalContext, FnArgsVec, FnPtr, FuncMetadata, ImmutableString, Map,
    RhaiFunc, Scope,
};
use std::any::TypeId;
use std::ops::{Range, RangeInclusive};

/// A value of a type that no function names: what takes it takes any value.
#[derive(Debug, Clone, Copy)]
struct Anything;

/// The function that an engine calls for these parameters. It is called twice with empty values, since the interpreter
/// keeps what it found at the second call.
pub(super) fn original(engine: &Engine, function: &FuncMetadata) -> Option<RhaiFunc> {
    let (mut global, mut caches) = (engine.new_global_runtime_state(), Caches::new());
    for _ in 0..2 {
        let mut samples: FnArgsVec<Dynamic> = function.param_types.iter().map(sample).collect();
        let mut args: FnArgsVec<&mut Dynamic> = samples.iter_mut().collect();
        // The result does not matter.
        let _ = EvalContext::new(engine, &mut global, &mut caches, &mut Scope::new(), None)
            .call_native_fn_raw(function.name.as_str(), true, &mut args);
    }
    let found = caches.fn_resolution_cache_mut().dict.values().flatten().next();
    found.map(|entry| entry.func.clone())
}

fn sample(of: &TypeId) -> Dynamic {
    if *of == TypeId::of::<ImmutableString>() {
        ImmutableString::new().into()
    } else if *of == TypeId::of::<Array>() {
        Array::new().into()
    } else if *of == TypeId::of::<Map>() {
        Map::new().into()
    } else if *of == TypeId::of::<Blob>() {
        Blob::new().into()
    } else if *of == TypeId::of::<char>() {
        'x'.into()
    } else if *of == TypeId::of::<rhai::INT>() {
        Dynamic::ZERO
    } else if *of == TypeId::of::<rhai::FLOAT>() {
        Dynamic::FLOAT_ZERO
    } else if *of == TypeId::of::<bool>() {
        Dynamic::FALSE
    } else if *of == TypeId::of::<FnPtr>() {
        FnPtr::new("sample").map_or(Dynamic::UNIT, Dynamic::from)
    } else if *of == TypeId::of::<Range<rhai::INT>>() {
        Dynamic::from(Range::<rhai::INT> { start: 0, end: 0 })
    } else if *of == TypeId::of::<RangeInclusive<rhai::INT>>() {
        Dynamic::from(RangeInclusive::<rhai::INT>::new(0, 0))
    } else if *of == TypeId::of::<()>() {
        Dynamic::UNIT
    } else {
        Dynamic::from(Anything)
    }
}
