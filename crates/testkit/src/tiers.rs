//! The two lengths of a run of the tests. The default run tries some cases; `tests/run --long`, which sets
//! `VALVEHOUSE_CASES`, tries many and includes the tests that are ignored for it: those that kill hosts repeatedly, wait,
//! or run foreign programs.

use std::str::FromStr;

/// The variable with the number of generated cases; it makes a run a long one.
const CASES: &str = "VALVEHOUSE_CASES";

/// Returns `true` in a long run.
pub fn is_long() -> bool {
    std::env::var_os(CASES).is_some()
}

/// Returns one of two values by the length of the run.
pub fn by_length<T>(default: T, long: T) -> T {
    if is_long() { long } else { default }
}

/// Returns every `step`-th of these, in a long run all.
pub fn sampled<T>(all: impl IntoIterator<Item = T>, step: usize) -> impl Iterator<Item = T> {
    all.into_iter().step_by(by_length(step, 1))
}

/// Returns the number of generated cases: that of `VALVEHOUSE_CASES`, or the usual one.
pub fn cases<N: FromStr>(usual: N) -> N {
    std::env::var(CASES).ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}
