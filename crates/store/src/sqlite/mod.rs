//! The embedded store: one SQLite file, shared by any number of processes.

pub(crate) mod forget;
pub(crate) mod open;

#[cfg(test)]
mod conversation_tests;
#[cfg(test)]
mod tests;
