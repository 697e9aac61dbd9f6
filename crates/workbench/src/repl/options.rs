//! The options of a session.

/// The script and the user of a session.
#[derive(Debug, Clone, Default)]
pub struct ReplOptions {
    /// The script to begin with: the id of a plugin, or a file.
    pub plugin: Option<String>,
    /// The id of the user who asks.
    pub user: Option<String>,
    /// Is `true` if lines reach what the script may reach, and keep what it keeps.
    pub live: bool,
}
