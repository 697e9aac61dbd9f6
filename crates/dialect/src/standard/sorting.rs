//! Sorting by a function of the script, which ends with the call's budget.
//!
//! Rhai's own functions ignore errors of the comparer and results that are not whole numbers: the list would stay as it
//! is without an error.

use super::comparison::compared;
use crate::value::error;
use rhai::{Array, Dynamic, EvalAltResult, FnPtr, NativeCallContext};
use std::cmp::Ordering;

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// A comparison of two elements.
pub(super) enum Comparer {
    Function(FnPtr),
    /// The operator `==`.
    Equality,
}

impl Comparer {
    /// Returns the result of the comparer.
    fn compare(&self, context: &NativeCallContext<'_>, a: &Dynamic, b: &Dynamic) -> Answer<Dynamic> {
        let (mut a, mut b) = (a.clone(), b.clone());
        match self {
            Self::Function(function) => function.call_raw(context, None, [a, b]),
            Self::Equality => context.call_native_fn_raw("==", true, &mut [&mut a, &mut b]),
        }
    }

    /// Returns the keys of the elements if the comparer is a function of one element, as in `list.order(|x| x.n)`.
    fn keys(&self, context: &NativeCallContext<'_>, items: &[Dynamic]) -> Answer<Option<Array>> {
        let (Self::Function(function), [first, second, ..]) = (self, items) else { return Ok(None) };
        match self.compare(context, second, first).map_err(|error| *error) {
            Err(EvalAltResult::ErrorFunctionNotFound(signature, _))
                if signature.split(' ').next() == Some(function.fn_name()) =>
            {
                let keys = items.iter().map(|item| function.call_raw(context, None, [item.clone()]));
                keys.collect::<Answer<Array>>().map(Some)
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(None),
        }
    }
}

/// Sorts an array with a comparer that returns a negative number, zero or a positive number, or `true` for "first", or
/// by the keys that a function of one element returns. The sort is stable.
///
/// # Errors
///
/// Returns the error of a comparer that fails, and an error if it returns another value.
pub(super) fn sorted_by(context: &NativeCallContext<'_>, array: Array, comparer: &Comparer) -> Answer<Array> {
    let order = match comparer.keys(context, &array)? {
        Some(keys) => order_of(&keys, &mut |a, b| compared(context.fn_name(), a, b))?,
        None => order_of(&array, &mut |a, b| compare(context, comparer, a, b))?,
    };
    Ok(arranged(array, &order))
}

/// Returns the elements in this order of their indexes.
fn arranged(array: Array, order: &[usize]) -> Array {
    let mut items: Vec<Option<Dynamic>> = array.into_iter().map(Some).collect();
    order.iter().filter_map(|index| items.get_mut(*index)?.take()).collect()
}

/// Sorts an array with numbers of both types, which Rhai does not sort; returns `None` for any other.
pub(super) fn sorted_numbers(context: &NativeCallContext<'_>, array: &Array) -> Option<Answer<Array>> {
    let is_mixed = array.iter().any(Dynamic::is_int)
        && array.iter().any(Dynamic::is_float)
        && array.iter().all(|value| value.is_int() || value.is_float());
    is_mixed.then(|| {
        let mut order = order_of(array, &mut |a, b| compared(context.fn_name(), a, b))?;
        if context.fn_name().ends_with("_desc") {
            order.reverse();
        }
        Ok(arranged(array.clone(), &order))
    })
}

/// Removes each element that a comparer finds equal to the previous one.
pub(super) fn deduplicated(
    context: &NativeCallContext<'_>,
    array: Array,
    comparer: &Comparer,
) -> Answer<Array> {
    let mut kept = Array::with_capacity(array.len());
    for item in array {
        let is_same = match kept.last() {
            Some(last) => {
                let answer = comparer.compare(context, last, &item);
                match answer {
                    Ok(answer) => answer.as_bool().unwrap_or(false),
                    Err(error) if matches!(error.unwrap_inner(), EvalAltResult::ErrorTerminated(..)) => {
                        return Err(error);
                    }
                    Err(_) => false,
                }
            }
            None => false,
        };
        if !is_same {
            kept.push(item);
        }
    }
    Ok(kept)
}

fn compare(
    context: &NativeCallContext<'_>,
    comparer: &Comparer,
    a: &Dynamic,
    b: &Dynamic,
) -> Answer<Ordering> {
    let answer = comparer.compare(context, a, b)?;
    if let Ok(is_first) = answer.as_bool() {
        return Ok(if is_first { Ordering::Less } else { Ordering::Greater });
    }
    let number = answer.as_float().or_else(|_| answer.as_int().map(|number| number as f64));
    number.map(|number| number.partial_cmp(&0.0).unwrap_or(Ordering::Equal)).map_err(|kind| {
        error(format!(
            "{}: the function of two elements must return a number (below 0 if the first comes first) or a boolean, \
             got {kind}",
            context.fn_name()
        ))
    })
}

/// Returns the indexes of the elements in sorted order: a bottom-up merge sort.
fn order_of(
    items: &[Dynamic],
    compare: &mut impl FnMut(&Dynamic, &Dynamic) -> Answer<Ordering>,
) -> Answer<Vec<usize>> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    let mut width = 1;
    while width < items.len() {
        let mut merged = Vec::with_capacity(order.len());
        for pair in order.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let ([a, after_a @ ..], [b, after_b @ ..]) = (left, right) {
                // The argument order is that of Rhai: a comparer that returns a bool keeps equal elements in place.
                if compare(&items[*b], &items[*a])? == Ordering::Less {
                    merged.push(*b);
                    right = after_b;
                } else {
                    merged.push(*a);
                    left = after_a;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        order = merged;
        width *= 2;
    }
    Ok(order)
}
