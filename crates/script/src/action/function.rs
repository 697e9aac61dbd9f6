//! The function `action` of a script, and its buttons.

use crate::declare::hooks::Param;
use std::time::Duration;

/// A script's `action`, and its buttons.
pub(crate) struct ActionFunction {
    pub(super) params: Vec<Param>,
    pub(super) timeout: Duration,
    pub(super) buttons: Vec<Button>,
}

/// A button under a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    /// The id for clients: the script's id, or `id.button` if the script lists several.
    pub id: String,
    /// The id for scripts: the button's own id, or the script's if it lists none.
    pub own_id: String,
    /// The label.
    pub name: String,
    /// The URL of the icon.
    pub icon: Option<String>,
}
