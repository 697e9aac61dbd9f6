//! The model that answers without a network, so that every part of the house can be seen working.

mod arguments;
mod mention;
mod provider;

pub use provider::Demo;
