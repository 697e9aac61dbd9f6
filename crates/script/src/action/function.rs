//! The function `action` of a script, and the buttons it is behind.

use crate::hooks::Param;
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
    /// The name for clients: the script's id, or `id.button` where it lists several.
    pub id: String,
    /// The name for scripts: the script's id, or the button's own.
    pub own_id: String,
    /// The label for people.
    pub name: String,
    /// The URL of an icon; `None` where there is none.
    pub icon: Option<String>,
}
