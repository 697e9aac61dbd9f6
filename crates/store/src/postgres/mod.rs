//! The shared store: a database of Postgres, on which hosts of several machines live.

mod listener;
mod open;
mod pooler;
mod schema;

#[cfg(test)]
mod tests;

pub(crate) use listener::Listener;
pub(crate) use open::{Server, migrate, missing_steps, without_key};
