//! `random::…`: random values that are not suitable as secrets; use `uuid()` for those.

use super::argument::{AnyArray, RhaiResultOf, fail, items};
use super::host_calls;
use rhai::plugin::*;
use valvehouse_json::Json;

#[export_module]
pub(super) mod functions {
    /// Returns a whole number from `a` to `b`, both included.
    #[rhai_fn(volatile, return_raw)]
    pub fn int(a: i64, b: i64) -> RhaiResultOf<i64> {
        if a > b {
            return Err(fail(
                "random::int",
                format!("the first number must not be above the second: {a} > {b}"),
            ));
        }
        host_calls::once("random::int", || vec![Json::from(a), b.into()].into(), || Ok(fastrand::i64(a..=b)))
    }

    /// Returns a number from 0 up to, but not including, 1.
    #[rhai_fn(volatile)]
    pub fn float() -> f64 {
        host_calls::value("random::float", fastrand::f64)
    }

    /// Returns one element of an array. Fails for an empty array.
    #[rhai_fn(volatile, return_raw)]
    pub fn choice(array: AnyArray) -> RhaiResultOf<Dynamic> {
        let items = items("random::choice", "array", &array)?;
        let Some(last) = items.len().checked_sub(1) else {
            return Err(fail("random::choice", "the array is empty"));
        };
        let place = host_calls::value("random::choice", || fastrand::usize(0..=last) as i64);
        // A step that runs again uses the index of its first run.
        let item = usize::try_from(place).ok().and_then(|place| items.get(place).cloned());
        item.ok_or_else(|| fail("random::choice", "the array is shorter than in the first run of this step"))
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    #[test]
    fn random_numbers_stay_in_their_range() {
        gives(&[
            ("random::int(7, 7)", "7"),
            ("let n = random::int(-2, 2); n >= -2 && n <= 2", "true"),
            ("let f = random::float(); f >= 0.0 && f < 1.0", "true"),
            (
                "random::int(-9223372036854775807, 9223372036854775807) != random::int(0, 9223372036854775807)",
                "true",
            ),
        ]);
        refuses(&[("random::int(2, 1)", "2 > 1")]);
    }

    #[test]
    fn a_random_choice_is_an_element_of_the_list() {
        gives(&[("random::choice([5])", "5"), ("[1, 2].contains(random::choice([1, 2]))", "true")]);
        refuses(&[
            ("random::choice([])", "array is empty"),
            ("random::choice(5)", "must be an array, not number"),
        ]);
    }
}
