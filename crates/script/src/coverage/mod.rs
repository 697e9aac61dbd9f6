//! The lines of a script that ran, as `valvehouse test --coverage` counts them.
//!
//! Rhai could tell of every statement it runs, at the price of each call of every host. Here only a script
//! that is compiled for it does, with a probe before each statement (`instrument`).

mod recorder;

#[cfg(test)]
mod tests;

pub use recorder::Coverage;
pub(crate) use recorder::Lines;
