//! Functions on a whole list, under the names that other languages use for them.

use super::argument::{AnyArray, RhaiResultOf};
use rhai::plugin::*;
use rhai::{Array, FLOAT, FnPtr, INT};
use std::cmp::Ordering;
use std::ops::Range;
use valvehouse_dialect::budget;
use valvehouse_dialect::standard::{compared, kind_of};
use valvehouse_dialect::value::{List, error, numbers_of};

/// The number of elements that are charged as one operation.
const ELEMENTS: usize = 16;

#[export_module]
pub(super) mod functions {
    /// Returns the numbers from 0 to `count - 1`, as `0..count`: `for i in range(3) { … }`. A range also has the
    /// functions of arrays: `range(3).map(|i| i * 2)`.
    #[rhai_fn(global)]
    pub fn range(count: i64) -> Range<i64> {
        Range { start: 0, end: count }
    }

    /// Returns the sum of a list of numbers; 0 if it is empty.
    #[rhai_fn(global, return_raw)]
    pub fn sum(context: NativeCallContext<'_>, list: AnyArray) -> RhaiResultOf<Dynamic> {
        total(&context, &list)
    }

    /// Returns the largest number or text of a list. Fails if the list is empty.
    #[rhai_fn(global, name = "max", return_raw)]
    pub fn max_of(context: NativeCallContext<'_>, list: AnyArray) -> RhaiResultOf<Dynamic> {
        extreme(&context, "max", &list, Ordering::Greater)
    }

    /// Returns the smallest number or text of a list. Fails if the list is empty.
    #[rhai_fn(global, name = "min", return_raw)]
    pub fn min_of(context: NativeCallContext<'_>, list: AnyArray) -> RhaiResultOf<Dynamic> {
        extreme(&context, "min", &list, Ordering::Less)
    }

    /// Returns a whole number as it is.
    #[rhai_fn(global, name = "round", name = "floor", name = "ceiling")]
    pub fn whole(x: INT) -> INT {
        x
    }

    /// Returns the square root of a number.
    #[rhai_fn(global)]
    pub fn sqrt(x: INT) -> FLOAT {
        (x as FLOAT).sqrt()
    }

    /// Returns the number of a digit, an element of a text.
    #[rhai_fn(global, return_raw)]
    pub fn parse_int(digit: char) -> RhaiResultOf<INT> {
        digit.to_digit(10).map(INT::from).ok_or_else(|| error(format!("parse_int: `{digit}` is not a digit")))
    }

    /// Returns a sorted copy of a list of numbers or texts, like `list.order()`.
    #[rhai_fn(global, return_raw)]
    pub fn sorted(context: NativeCallContext<'_>, list: AnyArray) -> RhaiResultOf<Dynamic> {
        let mut items = elements(&context, "sorted", &list)?;
        budget::charge(items.len() as u64).map_err(budget::ended)?;
        let mut failed = None;
        items.sort_by(|a, b| {
            compared("sorted", a, b).unwrap_or_else(|error| {
                failed.get_or_insert(error);
                Ordering::Equal
            })
        });
        failed.map_or(Ok(items.into()), Err)
    }

    /// Returns a copy of a list, sorted by the key that a closure returns, the largest first if `reverse`.
    #[rhai_fn(global, name = "sorted", return_raw)]
    pub fn sorted_reverse(
        context: NativeCallContext<'_>,
        list: AnyArray,
        key: FnPtr,
        reverse: bool,
    ) -> RhaiResultOf<Array> {
        let mut sorted = in_order(&context, &list, key, reverse)?;
        if reverse {
            sorted.reverse();
        }
        Ok(sorted)
    }

    /// Returns the element of a list with the largest key that a closure returns: `max(list, |x| x.price)`.
    #[rhai_fn(global, name = "max", return_raw)]
    pub fn max_by(context: NativeCallContext<'_>, list: AnyArray, key: FnPtr) -> RhaiResultOf<Dynamic> {
        Ok(in_order(&context, &list, key, true)?.pop().unwrap_or(Dynamic::UNIT))
    }

    /// Returns the element of a list with the smallest key that a closure returns: `min(list, |x| x.price)`.
    #[rhai_fn(global, name = "min", return_raw)]
    pub fn min_by(context: NativeCallContext<'_>, list: AnyArray, key: FnPtr) -> RhaiResultOf<Dynamic> {
        Ok(in_order(&context, &list, key, false)?.into_iter().next().unwrap_or(Dynamic::UNIT))
    }

    /// Returns a copy of a list, sorted by the key that a closure returns: `sorted(list, |x| x.price)`.
    #[rhai_fn(global, name = "sorted", return_raw)]
    pub fn sorted_by(context: NativeCallContext<'_>, list: AnyArray, key: FnPtr) -> RhaiResultOf<Array> {
        in_order(&context, &list, key, false)
    }
}

/// Returns the elements of a list, sorted by the key that a closure returns. Elements with the same key stay in their
/// order, or are reversed if `is_reversed`: read from the end, the list then has them in their order.
fn in_order(
    context: &NativeCallContext<'_>,
    list: &Dynamic,
    key: FnPtr,
    is_reversed: bool,
) -> RhaiResultOf<Array> {
    let mut items = elements(context, "sorted", list)?;
    if is_reversed {
        items.reverse();
    }
    let mut items = Dynamic::from(items);
    let sorted: Dynamic = context.call_native_fn_raw("order", true, &mut [&mut items, &mut key.into()])?;
    elements(context, "sorted", &sorted)
}

/// Returns the elements of a list, native or live, or of a range.
pub(super) fn elements(context: &NativeCallContext<'_>, name: &str, list: &Dynamic) -> RhaiResultOf<Array> {
    if let Some(numbers) = numbers_of(list, context.engine())? {
        return Ok(numbers);
    }
    let items = match (list.as_array_ref(), list.read_lock::<List>()) {
        (Ok(array), _) => array.to_vec(),
        (_, Some(list)) => list.elements(),
        _ => return Err(error(format!("{name}: expected a list, got {}", kind_of(list)))),
    };
    budget::charge((items.len() / ELEMENTS) as u64).map_err(budget::ended)?;
    Ok(items)
}

fn total(context: &NativeCallContext<'_>, list: &Dynamic) -> RhaiResultOf<Dynamic> {
    let (mut whole, mut broken, mut is_whole): (INT, FLOAT, bool) = (0, 0.0, true);
    for (index, item) in elements(context, "sum", list)?.iter().enumerate() {
        if let Ok(number) = item.as_int() {
            whole =
                whole.checked_add(number).ok_or_else(|| error("sum: the sum is too large for an integer"))?;
        } else if let Ok(number) = item.as_float() {
            broken += number;
            is_whole = false;
        } else {
            return Err(error(format!(
                "sum: expected numbers, got {} at index {index}; convert them first: `list.map(|x| parse_int(x))`",
                kind_of(item)
            )));
        }
    }
    Ok(if is_whole { whole.into() } else { (whole as FLOAT + broken).into() })
}

fn extreme(
    context: &NativeCallContext<'_>,
    name: &str,
    list: &Dynamic,
    ordering: Ordering,
) -> RhaiResultOf<Dynamic> {
    let mut items = elements(context, name, list)?.into_iter();
    let mut found = items.next().ok_or_else(|| {
        error(format!("{name}: the list is empty; test it first: `if !list.is_empty() {{ … }}`"))
    })?;
    // A single element must be ordered too.
    compared(name, &found, &found)?;
    for item in items {
        if compared(name, &item, &found)? == ordering {
            found = item;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    #[test]
    fn functions_of_other_languages_work_on_lists_of_both_kinds() {
        gives(&[
            ("let n = 0; for i in range(4) { n += i; } n", "6"),
            ("let n = 0; for i in range(-1) { n += 1; } n", "0"),
            ("sum([1, 2, 3])", "6"),
            ("sum([])", "0"),
            ("sum([1, 0.5])", "1.5"),
            ("sum(json::parse(\"[1, 2.5]\"))", "3.5"),
            ("max([3, 9, 4])", "9"),
            ("max([3, 9.5, 4])", "9.5"),
            ("max(3, 9)", "9"),
            ("min([\"b\", \"a\"])", "\"a\""),
            ("min(json::parse(\"[4, 2]\"))", "2"),
            ("sorted([3, 1, 2])", "[1,2,3]"),
            ("sorted(json::parse(\"[3, 1]\"))", "[1,3]"),
            ("let a = [2, 1]; sorted(a); a", "[2,1]"),
            ("max([[\"x\", 1], [\"y\", 1]], |r| r[1])[0]", "\"x\""),
            ("min([[\"x\", 1], [\"y\", 1]], |r| r[1])[0]", "\"x\""),
            ("sorted([\"bb\", \"aa\", \"c\"], |w| w.len(), true)", "[\"bb\",\"aa\",\"c\"]"),
        ]);
    }

    #[test]
    fn values_without_sum_or_order_are_named() {
        refuses(&[
            ("sum([1, \"2\"])", "sum: expected numbers, got a text at index 1"),
            ("sum(7)", "sum: expected a list, got a number"),
            ("sum([9223372036854775807, 1])", "too large for an integer"),
            ("max([])", "max: the list is empty"),
            ("max([1, \"a\"])", "max: expected only numbers or only texts, got a number and a text"),
            ("min([()])", "min: expected only numbers or only texts, got () and ()"),
            ("max(\"abc\")", "max: expected a list, got a text"),
            ("sorted(#{})", "sorted: expected a list, got a map"),
        ]);
    }
}
