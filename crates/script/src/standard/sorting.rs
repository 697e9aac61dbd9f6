//! Sorting by a function of the script, which ends with the call's budget.
//!
//! Rhai's own functions ignore errors of the comparer, so that a comparer whose budget is exceeded would be called
//! again for every remaining pair.

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
    /// Returns the result of the comparer; `None` if it failed. Returns an error if the call has ended.
    fn compare(&self, context: &NativeCallContext<'_>, a: &Dynamic, b: &Dynamic) -> Answer<Option<Dynamic>> {
        let (mut a, mut b) = (a.clone(), b.clone());
        let answer = match self {
            Self::Function(function) => function.call_raw(context, None, [a, b]),
            Self::Equality => context.call_native_fn_raw("==", true, &mut [&mut a, &mut b]),
        };
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if matches!(error.unwrap_inner(), EvalAltResult::ErrorTerminated(..)) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// Sorts an array with a comparer that returns a negative number, zero or a positive number, or `true` for "first".
/// The sort is stable. As in Rhai, a comparer that fails or returns another value leaves the pair unsorted.
pub(super) fn sorted_by(context: &NativeCallContext<'_>, array: Array, comparer: &Comparer) -> Answer<Array> {
    let order = order_of(&array, &mut |a, b| compare(context, comparer, a, b))?;
    let mut items: Vec<Option<Dynamic>> = array.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|index| items.get_mut(index)?.take()).collect())
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
                let answer = comparer.compare(context, last, &item)?;
                answer.is_some_and(|answer| answer.as_bool().unwrap_or(false))
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
    let number = comparer.compare(context, a, b)?.and_then(|answer| {
        answer.as_int().ok().or_else(|| answer.as_bool().ok().map(|first| if first { -1 } else { 1 }))
    });
    Ok(number.map_or_else(|| a.type_id().cmp(&b.type_id()), |number| number.cmp(&0)))
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
