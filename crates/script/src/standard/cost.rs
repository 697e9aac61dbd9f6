//! The cost of every function of Rhai's standard packages.

use rhai::{Array, Blob, Dynamic, FnPtr, ImmutableString, Map};
use std::any::TypeId;

/// The growth of a function's work with its arguments, and the checks before it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    /// At most one pass over a text, array or map within the engine's limits, and at most one copy of it: a few
    /// milliseconds. Called as it is.
    OnePass,
    /// Goes over a text character by character.
    Walk,
    /// Calls a function of the script or the engine for each element, which is an operation each. Called as it is.
    Counted,
    /// Copies or compares what its arguments refer to: they are measured first.
    Measured,
    /// Writes its arguments as text: each reference counts each time it is written.
    Text,
    /// The same, with texts as literals.
    Escaped,
    /// Writes a map as JSON. Rhai's goes on into what closures capture: what holds a function is refused.
    Json,
    /// Replaces texts: the result is measured before it is built.
    Replacement,
    /// Cuts a text into an array: its elements are counted before it is built.
    Pieces,
    /// Makes an array of the characters of a text.
    Characters,
    /// Goes over a text several times, into a copy of up to three times its size.
    Recoding,
    /// Puts a value into an array many times.
    Padding,
    /// Orders an array by the built-in order.
    Sorting,
    /// Orders an array in place by a function. Ours: Rhai's goes on after an error.
    SortingBy,
    /// The same, on a copy.
    OrderingBy,
    /// Removes what repeats. Ours, as above.
    Deduplication,
    /// Parses a text into values: they are counted first.
    Parsing,
}

impl Cost {
    /// Returns `true` if the function is called through a wrapper.
    pub(super) fn is_metered(self) -> bool {
        !matches!(self, Self::OnePass | Self::Counted)
    }
}

/// The cost of a function of a name and parameter types; `None` if it is not declared.
pub(super) fn cost(name: &str, parameters: &[TypeId]) -> Option<Cost> {
    use Cost::*;
    let is = |index: usize, of: TypeId| parameters.get(index) == Some(&of);
    let (text, array, map, blob) =
        (TypeId::of::<ImmutableString>(), TypeId::of::<Array>(), TypeId::of::<Map>(), TypeId::of::<Blob>());
    let (any, function) = (TypeId::of::<Dynamic>(), TypeId::of::<FnPtr>());
    let starts = |of: TypeId| is(0, of);
    let holds = [text, array, map, blob, any, function];
    // Numbers, characters, ranges, times: nothing to measure. `sleep` is ours, see `package/turn.rs`.
    if !parameters.iter().any(|parameter| holds.contains(parameter)) {
        return Some(OnePass);
    }
    if starts(blob) {
        return of_blob(name);
    }
    Some(match name {
        "to_string" | "print" => Text,
        "to_debug" | "debug" => Escaped,
        "+" | "+=" | "append" if parameters.contains(&any) => Text,
        "to_json" => Json,
        "parse_json" => Parsing,
        "replace" if starts(text) => Replacement,
        "split" if starts(text) && is(1, TypeId::of::<rhai::INT>()) => OnePass,
        "split" | "split_rev" if starts(text) => Pieces,
        "to_chars" => Characters,
        "to_upper" | "to_lower" | "make_upper" | "make_lower" if starts(text) => Recoding,
        "pad" if starts(array) => Padding,
        "pad" if starts(text) => OnePass, // ours, see `package/padding.rs`
        "sort" | "sort_desc" | "order" | "order_desc" if parameters.len() == 1 => Sorting,
        "sort" | "sort_by" => SortingBy,
        "order" | "order_by" => OrderingBy,
        "dedup" => Deduplication,
        "==" | "!=" | "+" | "+=" | "append" if starts(array) || starts(map) => Measured,
        "extract" | "splice" | "split" | "values" | "mixin" | "fill_with" | "index_of" | "contains"
        | "zip"
            if starts(array) || starts(map) =>
        {
            Measured
        }
        "all" | "drain" | "filter" | "find" | "find_map" | "for_each" | "map" | "reduce" | "reduce_rev"
        | "retain" | "some" => Counted,
        "chop" | "clear" | "get" | "insert" | "is_empty" | "keys" | "len" | "pop" | "push" | "remove"
        | "reverse" | "set" | "shift" | "truncate" | "get$len" | "get$is_empty"
            if starts(array) || starts(map) =>
        {
            OnePass
        }
        "crop" | "sub_string" if starts(text) => Walk,
        "+" | "+=" | "-" | "-=" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "append" | "bytes" | "chars"
        | "clear" | "contains" | "ends_with" | "get" | "get$bytes" | "get$chars" | "get$is_empty"
        | "get$len" | "index_of" | "is_empty" | "len" | "max" | "min" | "parse_float" | "parse_int"
        | "pop" | "remove" | "set" | "starts_with" | "to_blob" | "trim" | "truncate"
            if !starts(any) =>
        {
            OnePass
        }
        "exit" | "get$tag" | "set$tag" | "set_tag" | "tag" | "take" => OnePass,
        "get$name" | "name" | "is_anonymous" | "get$is_anonymous" if starts(function) => OnePass,
        "get_fn_metadata_list" => OnePass,
        _ => return None,
    })
}

/// A blob has at most as many bytes as an array has elements.
fn of_blob(name: &str) -> Option<Cost> {
    use Cost::*;
    Some(match name {
        "to_string" | "print" => Text,
        "to_debug" | "debug" => Escaped,
        "!=" | "+" | "+=" | "==" | "append" | "as_string" | "chop" | "clear" | "contains" | "drain"
        | "extract" | "get" | "get$is_empty" | "get$len" | "insert" | "is_empty" | "len" | "pad"
        | "parse_be_float" | "parse_be_int" | "parse_le_float" | "parse_le_int" | "pop" | "push"
        | "remove" | "retain" | "reverse" | "set" | "shift" | "splice" | "split" | "to_array"
        | "truncate" | "write_ascii" | "write_be" | "write_le" | "write_utf8" => OnePass,
        _ => return None,
    })
}
