//! The module of wrappers that an engine finds before Rhai's own functions, and the lookup of these functions.

use super::cost::{Cost, cost};
use super::measure::{self, Live, Scale, Size, TooLarge};
use super::sorting::{self, Comparer};
use crate::budget::{self, ExceededLimit};
use crate::value::{
    in_order_of, is_container, json_of, json_text_of, report_container_element, report_element,
};
use rhai::packages::{Package, StandardPackage};
use rhai::{
    Array, Blob, Caches, Dynamic, Engine, EvalAltResult, EvalContext, FnArgsVec, FnNamespace, FnPtr,
    FuncMetadata, FuncRegistration, ImmutableString, Map, Module, NativeCallContext, RhaiFunc, Scope, Shared,
};
use std::any::TypeId;
use std::ops::{Range, RangeInclusive};
use std::sync::OnceLock;
use std::time::Duration;

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// The number of bytes that a native processes per charged operation.
const BYTES: usize = 512;
/// The number of elements that a native copies or compares per charged operation.
const ELEMENTS: usize = 16;
/// The time in which the interpreter writes an element into a text, in nanoseconds.
const ELEMENT_TIME: usize = 800;
/// The time in which it writes a byte as part of a literal, in nanoseconds.
const ESCAPE_TIME: usize = 40;
/// The memory of an element of a new array with its own short text, in bytes.
const TEXT: usize = 80;

/// Returns Rhai's unmodified standard packages.
pub(crate) fn packages() -> Shared<Module> {
    static PACKAGES: OnceLock<StandardPackage> = OnceLock::new();
    PACKAGES.get_or_init(StandardPackage::new).as_shared_module()
}

/// Returns the wrappers, which must be registered after the packages.
pub(crate) fn metered() -> Shared<Module> {
    static METERED: OnceLock<Shared<Module>> = OnceLock::new();
    METERED
        .get_or_init(|| {
            let mut engine = Engine::new_raw();
            engine.register_global_module(packages());
            let mut module = Module::new();
            for function in functions(&engine) {
                if let Some(cost) = cost(&function.name, &function.param_types)
                    && cost.is_metered()
                    && let Some(original) = original(&engine, &function)
                {
                    register(&mut module, &function, cost, original);
                }
            }
            module.build_index();
            module.into()
        })
        .clone()
}

/// Returns all functions of the standard packages.
pub(super) fn functions(engine: &Engine) -> Vec<FuncMetadata> {
    engine.collect_fn_metadata(None, |info| Some(info.metadata.clone()), true)
}

fn register(module: &mut Module, function: &FuncMetadata, cost: Cost, original: RhaiFunc) {
    let ordered = KeyOrder::of(function, cost);
    let name = function.name.clone();
    let is_form = matches!(cost, Cost::Text | Cost::Escaped) && function.num_params == 1;
    let (is_method, is_pure, is_volatile) =
        (original.is_method(), original.is_pure(), original.is_volatile());
    let call = move |context: Option<NativeCallContext<'_>>, args: &mut [&mut Dynamic]| {
        let Some(context) = context else { return call_original(&original, None, args) };
        match called_instead(cost, &context, args) {
            Some(answer) => answer,
            None => match before(cost, context.engine(), args) {
                Ok(()) if cost == Cost::Search => searched(&name, &original, context, args),
                Ok(()) => ordered.call(&original, context, args),
                Err(_) if is_form => Ok(without_form(args)),
                Err(error) => Err(error),
            },
        }
    };
    let func = Shared::new(call);
    let func = match is_method {
        true => RhaiFunc::Method { func, has_context: true, is_pure, is_volatile },
        false => RhaiFunc::Pure { func, has_context: true, is_pure, is_volatile },
    };
    FuncRegistration::new(function.name.as_str())
        .with_namespace(FnNamespace::Global)
        .with_params_info(function.params_info.iter())
        .set_into_module_raw(module, &function.param_types, func);
}

/// The results that have the key order of a map.
#[derive(Clone, Copy)]
enum KeyOrder {
    /// Other results.
    Nothing,
    /// The values of the map.
    Values,
    /// The sum of the map and another one.
    Sum,
    /// The JSON text of a value.
    Json,
}

impl KeyOrder {
    fn of(function: &FuncMetadata, cost: Cost) -> Self {
        let is_of_map = function.param_types.first() == Some(&TypeId::of::<Map>());
        match function.name.as_str() {
            "values" if is_of_map => Self::Values,
            "+" if is_of_map => Self::Sum,
            _ if matches!(cost, Cost::Json) => Self::Json,
            _ => Self::Nothing,
        }
    }

    /// Calls the original function.
    fn call(
        self,
        original: &RhaiFunc,
        context: NativeCallContext<'_>,
        args: &mut [&mut Dynamic],
    ) -> Answer<Dynamic> {
        // `+` consumes its operands.
        let tag = match self {
            Self::Nothing => return call_original(original, Some(context), args),
            _ => args.first().map(|map| map.tag()),
        };
        let mut result = call_original(original, Some(context), args)?;
        match (self, args, tag) {
            (Self::Values, [map], _) => Ok(in_order_of(map, result)),
            (Self::Json, [map], Some(tag)) if tag != 0 => Ok(json_text_of(map).unwrap_or(result)),
            (Self::Sum, _, Some(tag)) => {
                result.set_tag(tag);
                Ok(result)
            }
            _ => Ok(result),
        }
    }
}

/// Searches an array for a value. If it is not found, an element of another type that reads the same is reported.
fn searched(
    name: &str,
    original: &RhaiFunc,
    context: NativeCallContext<'_>,
    args: &mut [&mut Dynamic],
) -> Answer<Dynamic> {
    let position = context.call_position();
    // The search consumes it.
    let value = args.get(1).and_then(|value| Sought::of(value));
    let found = call_original(original, Some(context), args)?;
    let is_missing = found.as_bool().is_ok_and(|is_there| !is_there) || found.as_int().is_ok_and(|at| at < 0);
    if is_missing
        && let Some(value) = value
        && let Some(array) = args.first().and_then(|array| array.as_array_ref().ok())
    {
        match value {
            Sought::Single(value) => report_element(array.iter(), &value, name, position)?,
            Sought::Container(value) => {
                let containers = array.iter().filter(|element| is_container(element));
                let containers = containers.filter_map(|element| json_of(element).ok());
                report_container_element(containers, &value, name, position)?;
            }
        }
    }
    Ok(found)
}

/// A value that is searched.
enum Sought {
    Single(Dynamic),
    Container(valvehouse_json::Json),
}

impl Sought {
    /// Copies a value; `None` if no value of another type reads the same.
    fn of(value: &Dynamic) -> Option<Self> {
        match is_container(value) {
            true => json_of(value).ok().map(Self::Container),
            false if value.is_blob() => None,
            false => Some(Self::Single(value.clone())),
        }
    }
}

fn call_original(
    original: &RhaiFunc,
    context: Option<NativeCallContext<'_>>,
    args: &mut [&mut Dynamic],
) -> Answer<Dynamic> {
    let context = context.filter(|_| original.has_context());
    match original {
        RhaiFunc::StaticPlugin { func } => func.call(context, args),
        RhaiFunc::Plugin { func } => func.call(context, args),
        RhaiFunc::Pure { func, .. } | RhaiFunc::Method { func, .. } => func(context, args),
        _ => Ok(Dynamic::UNIT),
    }
}

/// Returns the empty text that replaces the text of a value that is too large. An error is unsuitable: a function
/// that writes several values into one text would interpret it as a missing text form, and write the value without
/// a limit. A value that is not shared is replaced by `()`, since the interpreter would turn it into an error. The
/// call ends at its next operation.
fn without_form(args: &mut [&mut Dynamic]) -> Dynamic {
    if let Some(value) = args.first_mut().filter(|value| !value.is_shared()) {
        **value = Dynamic::UNIT;
    }
    ImmutableString::new().into()
}

/// Runs the replacement of a Rhai function; returns `None` if the function itself has to be called.
fn called_instead(
    cost: Cost,
    context: &NativeCallContext<'_>,
    args: &mut [&mut Dynamic],
) -> Option<Answer<Dynamic>> {
    match cost {
        Cost::Sorting => {
            let sorted = sorting::sorted_numbers(context, &*args.first()?.as_array_ref().ok()?)?;
            Some(sorted.map(|array| match context.fn_name().starts_with("order") {
                true => Dynamic::from(array),
                false => {
                    replace_array(args, array);
                    Dynamic::UNIT
                }
            }))
        }
        Cost::SortingBy => Some(with_comparer(context, args, sorting::sorted_by).map(|array| {
            replace_array(args, array);
            Dynamic::UNIT
        })),
        Cost::OrderingBy => Some(with_comparer(context, args, sorting::sorted_by).map(Dynamic::from)),
        Cost::Deduplication => Some(with_comparer(context, args, sorting::deduplicated).map(|array| {
            replace_array(args, array);
            Dynamic::UNIT
        })),
        _ => None,
    }
}

/// Passes a copy of the array and the comparer to a sorting function.
fn with_comparer(
    context: &NativeCallContext<'_>,
    args: &mut [&mut Dynamic],
    order: impl FnOnce(&NativeCallContext<'_>, Array, &Comparer) -> Answer<Array>,
) -> Answer<Array> {
    let array = args.first().and_then(|array| array.as_array_ref().ok().map(|array| array.clone()));
    let comparer = match args.get(1) {
        Some(name) if name.is_string() => Comparer::Function(FnPtr::new(name.to_string())?),
        Some(function) => {
            function.read_lock::<FnPtr>().map_or(Comparer::Equality, |it| Comparer::Function(it.clone()))
        }
        None => Comparer::Equality,
    };
    // Each comparison copies two elements, in addition to this copy of the array.
    budget::charge(0).map_err(budget::ended)?;
    order(context, array.unwrap_or_default(), &comparer)
}

fn replace_array(args: &mut [&mut Dynamic], array: Array) {
    if let Some(first) = args.first_mut()
        && let Some(mut place) = first.write_lock::<Array>()
    {
        *place = array;
    }
}

/// Charges, reserves and checks the work of a call in advance.
fn before(cost: Cost, engine: &Engine, args: &mut [&mut Dynamic]) -> Answer<()> {
    match cost {
        Cost::Measured | Cost::Search => {
            let size = size(engine, args, Live::Reference).map_err(TooLarge::into_error)?;
            charge(size.elements / ELEMENTS + size.bytes / BYTES)
        }
        Cost::Sorting => {
            let size = size(engine, args, Live::Reference).map_err(TooLarge::into_error)?;
            let rounds = size.elements.max(1).ilog2() as usize + 1;
            charge(rounds * (size.elements / ELEMENTS + size.bytes / BYTES))
        }
        Cost::Text => before_text(engine, args, false),
        Cost::Escaped => before_text(engine, args, true),
        Cost::Json => {
            if args.iter().any(|arg| measure::holds_function(arg)) {
                return Err(crate::value::error("a function is not a JSON value"));
            }
            before_text(engine, args, true)
        }
        Cost::Walk => charge_walk(args),
        Cost::Replacement => before_replacement(engine, args),
        Cost::Pieces => before_pieces(engine, args),
        Cost::Characters => {
            charge_walk(args)?;
            let Some(whole) = text(args, 0) else { return Ok(()) };
            before_array(engine, &whole, whole.chars().take(engine.max_array_size() + 1).count())
        }
        Cost::Recoding => {
            charge_walk(args)?;
            let bytes = text(args, 0).map_or(0, |text| text.len());
            charge(bytes / (BYTES / 8))?;
            reserve(bytes.saturating_mul(4))
        }
        Cost::Padding => before_padding(engine, args),
        Cost::Parsing => before_parsing(engine, args),
        Cost::OnePass | Cost::Counted | Cost::SortingBy | Cost::OrderingBy | Cost::Deduplication => Ok(()),
    }
}

/// Measures the text form of the arguments; small values without references are skipped. A function that writes
/// several values into one text ignores the error of a text form, so the call is also ended at its next operation.
/// Texts within arrays and maps are written as literals; with `escapes`, other texts are too.
fn before_text(engine: &Engine, args: &[&mut Dynamic], escapes: bool) -> Answer<()> {
    let is_small = |value: &Dynamic| match value.as_immutable_string_ref() {
        Ok(text) => text.len() < BYTES,
        Err(_) => !(value.is_array() || value.is_map() || value.is_blob() || value.is_variant()),
    };
    if args.iter().all(|arg| is_small(arg)) {
        return Ok(());
    }
    let size = size(engine, args, Live::Content).map_err(|too_large| {
        budget::doom(ExceededLimit::Text(engine.max_string_size()));
        too_large.into_error()
    })?;
    let copied = args.iter().filter_map(|arg| arg.as_immutable_string_ref().ok().map(|text| text.len()));
    let escaped = if escapes { size.bytes } else { size.bytes.saturating_sub(copied.sum()) };
    let nanoseconds = size.elements.saturating_mul(ELEMENT_TIME) + escaped.saturating_mul(ESCAPE_TIME);
    let time = Duration::from_nanos(nanoseconds as u64);
    // Each byte may be written as an escape of six bytes.
    let checked = budget::charge_work(time)
        .map_err(budget::ended)
        .and_then(|()| charge(size.elements + size.bytes / BYTES))
        .and_then(|()| reserve(size.bytes.saturating_mul(6)));
    checked.inspect_err(|error| {
        if let EvalAltResult::ErrorTerminated(why, _) = &**error
            && let Some(exceeded) = why.read_lock::<ExceededLimit>()
        {
            budget::doom(*exceeded);
        }
    })
}

/// Charges a pass over the text of the first argument in advance.
fn charge_walk(args: &[&mut Dynamic]) -> Answer<()> {
    let bytes = args.first().and_then(|arg| arg.as_immutable_string_ref().ok().map(|text| text.len()));
    budget::charge_bytes(bytes.unwrap_or(0), budget::WALK).map_err(budget::ended)
}

fn before_replacement(engine: &Engine, args: &[&mut Dynamic]) -> Answer<()> {
    charge_walk(args)?;
    let Some(whole) = text(args, 0) else { return Ok(()) };
    charge(whole.len() / BYTES)?;
    let (Some(needle), Some(substitute)) = (text_or_char(args, 1), text_or_char(args, 2)) else {
        return Ok(());
    };
    if substitute.len() <= needle.len() {
        return Ok(());
    }
    let count = match needle.is_empty() {
        true => whole.chars().count() + 1,
        false => whole.matches(needle.as_str()).count(),
    };
    let more = count.saturating_mul(substitute.len() - needle.len());
    let bytes = whole.len().saturating_add(more);
    if bytes > engine.max_string_size() {
        return Err(TooLarge::Text.into_error());
    }
    charge(bytes / BYTES)?;
    reserve(bytes * 2)
}

fn before_pieces(engine: &Engine, args: &[&mut Dynamic]) -> Answer<()> {
    charge_walk(args)?;
    let Some(whole) = text(args, 0) else { return Ok(()) };
    let max = engine.max_array_size();
    let segments = args.get(2).and_then(|count| count.as_int().ok());
    let segments = segments.map_or(max + 1, |count| usize::try_from(count).unwrap_or(0));
    let pieces = match text_or_char(args, 1) {
        Some(delimiter) if delimiter.is_empty() => whole.chars().take(max + 1).count() + 2,
        Some(delimiter) => whole.matches(delimiter.as_str()).take(max + 1).count() + 1,
        // Splits at white space.
        None => whole.split_whitespace().take(max + 1).count(),
    };
    before_array(engine, &whole, pieces.min(segments))
}

/// Charges for splitting a text into an array of `pieces` texts, and reserves the memory of the array.
fn before_array(engine: &Engine, whole: &str, pieces: usize) -> Answer<()> {
    if pieces > engine.max_array_size() {
        return Err(TooLarge::Array.into_error());
    }
    charge(pieces / ELEMENTS + whole.len() / BYTES)?;
    reserve(pieces * TEXT + whole.len())
}

fn before_padding(engine: &Engine, args: &[&mut Dynamic]) -> Answer<()> {
    let length = args.get(1).and_then(|length| length.as_int().ok()).unwrap_or(0);
    let length = usize::try_from(length).unwrap_or(0);
    let has = args.first().and_then(|array| array.as_array_ref().ok().map(|array| array.len())).unwrap_or(0);
    let missing = length.saturating_sub(has);
    if missing == 0 {
        return Ok(());
    }
    let mut scale = Scale::of(engine, Live::Reference);
    if let Some(item) = args.get(2) {
        scale.add(item).map_err(TooLarge::into_error)?;
    }
    let elements = missing.saturating_mul(scale.size().elements + 1);
    if elements.saturating_add(has) > engine.max_array_size() {
        return Err(TooLarge::Array.into_error());
    }
    charge(elements / ELEMENTS)?;
    reserve(elements * size_of::<Dynamic>() * 2)
}

/// Counts the values of a JSON text by the signs before or after them.
fn before_parsing(engine: &Engine, args: &[&mut Dynamic]) -> Answer<()> {
    let Some(json) = text(args, 0) else { return Ok(()) };
    charge(json.len() / (BYTES / 8))?;
    let (mut values, mut is_quoted, mut is_escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'[' | b'{' | b',' if !is_quoted => values += 1,
            _ => {}
        }
    }
    if values > engine.max_array_size() {
        return Err(TooLarge::Array.into_error());
    }
    reserve(json.len() + values * TEXT * 2)
}

/// Checks that a value, with everything it references, is within the limits of a script.
///
/// # Errors
///
/// Returns an error that no script can catch.
pub(crate) fn check_size(engine: &Engine, value: &Dynamic) -> Answer<()> {
    match value.is_array() || value.is_map() || value.is_fnptr() {
        true => Scale::of(engine, Live::Captured).add(value).map_err(TooLarge::into_error),
        false => Ok(()),
    }
}

/// Returns the size of all arguments. Each of them may be as large as a single value.
fn size(engine: &Engine, args: &[&mut Dynamic], live: Live) -> Result<Size, TooLarge> {
    args.iter().try_fold(Size::default(), |sum, arg| {
        let mut scale = Scale::of(engine, live);
        scale.add(arg)?;
        let Size { bytes, elements } = scale.size();
        Ok(Size { bytes: sum.bytes + bytes, elements: sum.elements + elements })
    })
}

fn text(args: &[&mut Dynamic], index: usize) -> Option<ImmutableString> {
    args.get(index)?.as_immutable_string_ref().ok().map(|text| text.clone())
}

fn text_or_char(args: &[&mut Dynamic], index: usize) -> Option<ImmutableString> {
    match args.get(index)?.as_char() {
        Ok(character) => Some(character.to_string().into()),
        Err(_) => text(args, index),
    }
}

fn charge(operations: usize) -> Answer<()> {
    if operations == 0 {
        return Ok(());
    }
    budget::charge(operations as u64).map_err(budget::ended)
}

fn reserve(bytes: usize) -> Answer<()> {
    budget::reserve(bytes).map_err(budget::ended)
}

/// A type that no function names: a function that accepts it accepts any value.
#[derive(Debug, Clone, Copy)]
struct Anything;

/// Returns the function that an engine calls for these parameters. It is called twice with empty values, because
/// the interpreter caches a lookup at the second call.
pub(super) fn original(engine: &Engine, function: &FuncMetadata) -> Option<RhaiFunc> {
    let (mut global, mut caches) = (engine.new_global_runtime_state(), Caches::new());
    for _ in 0..2 {
        let mut samples: FnArgsVec<Dynamic> = function.param_types.iter().map(sample).collect();
        let mut args: FnArgsVec<&mut Dynamic> = samples.iter_mut().collect();
        // Only the lookup matters, not the result.
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
