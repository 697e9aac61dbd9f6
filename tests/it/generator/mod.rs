//! One generator for all tests of "the same everywhere": the answers of a model, the services that send them, and
//! the content that a client assembles.

pub(crate) mod answer;
pub(crate) mod clients;
pub(crate) mod endpoints;
pub(crate) mod outcome;
pub(crate) mod received;
pub(crate) mod services;

/// The client's tool and the host's tool.
pub(crate) const DOOR: &str = "open_door";
pub(crate) const LOOK: &str = "look";
