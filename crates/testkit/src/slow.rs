//! Tests as on a slow machine.

/// The number by which `VALVEHOUSE_SLOW` divides every limit of time, as if the machine were so many times as slow; 1
/// without it.
pub fn slowness() -> u32 {
    std::env::var("VALVEHOUSE_SLOW").map_or(1, |slow| slow.parse().expect("VALVEHOUSE_SLOW is a number"))
}

/// The variables of a host that is as slow.
pub fn slow_variables() -> Option<(&'static str, String)> {
    let slowness = slowness();
    (slowness > 1).then(|| ("VALVEHOUSE__LIMITS__TIME_SCALE", (1.0 / f64::from(slowness)).to_string()))
}
