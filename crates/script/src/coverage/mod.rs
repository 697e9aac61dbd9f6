//! The executed lines of a script, as recorded by `valvehouse test --coverage`.
//!
//! Rhai could report every statement it runs, but at a cost for every call of every host. Here only a script that
//! is compiled for coverage pays, through a probe before each statement (`instrument`).

mod recorder;

pub use recorder::Coverage;
pub(crate) use recorder::Lines;
