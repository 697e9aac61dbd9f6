//! The order of numbers and texts, and of lists of them, for the functions that sort.

use crate::budget;
use crate::value::{List, error};
use rhai::{Dynamic, EvalAltResult, FLOAT, INT};
use std::cmp::Ordering;

/// The number of compared bytes that are charged as one operation.
const COMPARED_BYTES: usize = 1_024;

/// Compares two numbers, two texts, or two lists of them element by element.
///
/// # Errors
/// Returns an error for values of other kinds or of different kinds.
pub fn compared(name: &str, a: &Dynamic, b: &Dynamic) -> Result<Ordering, Box<EvalAltResult>> {
    let (Ok(first), Ok(second)) = (a.as_array_ref(), b.as_array_ref()) else {
        return compared_values(name, a, b);
    };
    for (a, b) in first.iter().zip(second.iter()) {
        budget::charge(1).map_err(budget::ended)?;
        match compared_values(name, a, b)? {
            Ordering::Equal => {}
            order => return Ok(order),
        }
    }
    Ok(first.len().cmp(&second.len()))
}

fn compared_values(name: &str, a: &Dynamic, b: &Dynamic) -> Result<Ordering, Box<EvalAltResult>> {
    let whole = |value: &Dynamic| value.as_int().or_else(|_| value.as_bool().map(INT::from));
    let number = |value: &Dynamic| value.as_float().or_else(|_| whole(value).map(|number| number as FLOAT));
    let order = match (a.as_int(), b.as_int()) {
        (Ok(a), Ok(b)) => Some(a.cmp(&b)),
        _ => match (number(a), number(b)) {
            (Ok(a), Ok(b)) => a.partial_cmp(&b),
            _ => match (a.as_immutable_string_ref(), b.as_immutable_string_ref()) {
                (Ok(a), Ok(b)) => {
                    let compared = a.len().min(b.len()) / COMPARED_BYTES;
                    budget::charge(compared as u64).map_err(budget::ended)?;
                    Some(a.cmp(&b))
                }
                _ => None,
            },
        },
    };
    order.ok_or_else(|| {
        error(format!("{name}: expected only numbers or only texts, got {} and {}", kind_of(b), kind_of(a)))
    })
}

/// Returns the kind of a value with an article.
pub fn kind_of(value: &Dynamic) -> &'static str {
    match () {
        () if value.is_unit() => "()",
        () if value.is_int() || value.is_float() => "a number",
        () if value.is_string() || value.is_char() => "a text",
        () if value.is_bool() => "a boolean",
        () if value.is_array() || value.is::<List>() => "a list",
        () if value.is_fnptr() => "a function",
        () => "a map",
    }
}
