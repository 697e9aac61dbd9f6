//! The function `pipe` of a script, and the models it implements.

use crate::declare::hooks::Param;
use std::time::Duration;

/// A script's `pipe`, and the models it implements.
pub(crate) struct PipeFunction {
    pub(super) params: Vec<Param>,
    pub(super) timeout: Duration,
    pub(super) offers: Vec<Offer>,
}

/// A model that a script offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The id for clients: the script's id, or `id.model` if the script lists several.
    pub id: String,
    /// The display name.
    pub name: String,
}
