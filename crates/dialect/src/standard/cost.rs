//! Declares the cost of every function of Rhai's standard packages.

use rhai::{Array, Blob, Dynamic, FnPtr, ImmutableString, Map};
use std::any::TypeId;

/// The growth of a function's work with its arguments, which determines the checks before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    /// At most one pass over a text, array or map within the engine's limits, and at most one copy of it, which
    /// takes a few milliseconds. Called without a check.
    OnePass,
    /// Reads a text character by character.
    Walk,
    /// Calls a function of the script or the engine for each element, which counts as an operation. Called without
    /// a check.
    Counted,
    /// Copies or compares everything its arguments reference: they are measured first.
    Measured,
    /// Searches an array for a value: measured first. An element of another type that reads the same is reported.
    Search,
    /// Converts its arguments to text: a value counts each time it is referenced.
    Text,
    /// Converts its arguments to text, with strings as literals.
    Escaped,
    /// Converts a map to JSON. Rhai's function follows the variables that closures capture, so a map with a
    /// function is rejected.
    Json,
    /// Replaces texts: the result is measured before it is built.
    Replacement,
    /// Splits a text into an array: its elements are counted before it is built.
    Pieces,
    /// Creates an array of the characters of a text.
    Characters,
    /// Reads a text several times, and creates a copy of up to three times its size.
    Recoding,
    /// Adds a value to an array many times.
    Padding,
    /// Sorts an array by the built-in order.
    Sorting,
    /// Sorts an array in place by a function. Replaced, because Rhai's own continues after an error.
    SortingBy,
    /// Sorts a copy of an array by a function.
    OrderingBy,
    /// Removes duplicates. Replaced for the same reason.
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

/// Returns the cost of a function by name and parameter types; `None` if it is not declared.
pub(super) fn cost(name: &str, parameters: &[TypeId]) -> Option<Cost> {
    use Cost::*;
    let is = |index: usize, of: TypeId| parameters.get(index) == Some(&of);
    let (text, array, map, blob) =
        (TypeId::of::<ImmutableString>(), TypeId::of::<Array>(), TypeId::of::<Map>(), TypeId::of::<Blob>());
    let (any, function) = (TypeId::of::<Dynamic>(), TypeId::of::<FnPtr>());
    let starts = |of: TypeId| is(0, of);
    let holds = [text, array, map, blob, any, function];
    // Numbers, characters, ranges, times: nothing to measure. `sleep` is replaced by the host.
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
        "pad" if starts(text) => OnePass, // ours, replaced by the host
        "sort" | "sort_desc" | "order" | "order_desc" if parameters.len() == 1 => Sorting,
        "sort" | "sort_by" => SortingBy,
        "order" | "order_by" => OrderingBy,
        "dedup" => Deduplication,
        "==" | "!=" | "+" | "+=" | "append" if starts(array) || starts(map) => Measured,
        "index_of" | "contains" if starts(array) => Search,
        "extract" | "splice" | "split" | "values" | "mixin" | "fill_with" | "contains" | "zip"
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

/// Returns the cost of a function of blobs, which have at most as many bytes as an array has elements.
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
