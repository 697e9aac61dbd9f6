//! The embedded store: one SQLite file, opened by as many processes as like.

pub(crate) mod forget;
pub(crate) mod open;

#[cfg(test)]
mod conversation_tests;
#[cfg(test)]
mod tests;
