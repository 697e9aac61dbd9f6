//! Functions that only tests may call, in addition to those of scripts: one file per theme.

mod assertions;
mod calls;
mod fixtures;
mod modules;
mod observations;
mod registration;

pub(super) use calls::body_of;
pub(super) use modules::modules;
pub use modules::test_functions;
