//! What is made of a plugin once, and lasts through the generations in which the plugin is the same.

use std::sync::OnceLock;

/// Made when it is first asked for. A copy of a plugin is another plugin: it makes its own.
pub(super) struct Kept<T>(OnceLock<T>);

impl<T> Kept<T> {
    pub(super) fn or_made(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(make)
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> std::fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "made" } else { "not made yet" })
    }
}
