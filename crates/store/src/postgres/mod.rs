//! The shared store: a Postgres database for hosts on several computers.

mod listener;
mod open;
mod pooler;
mod schema;

#[cfg(test)]
mod tests;

pub(crate) use listener::Listener;
pub(crate) use open::{Server, migrate, missing_steps, without_key};
