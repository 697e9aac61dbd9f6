//! The embedded store: one SQLite file, which any number of processes may share.

pub(crate) mod erase;
pub(crate) mod forget;
pub(crate) mod open;

#[cfg(test)]
mod conversation_tests;
#[cfg(test)]
mod tests;
