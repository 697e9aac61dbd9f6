//! Functions that only tests may call, beside all that scripts may: a file per theme.

mod assertions;
mod calls;
mod fixtures;
mod modules;
mod observations;
mod registration;

pub(super) use calls::saying;
pub(crate) use modules::modules;
