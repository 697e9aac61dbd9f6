//! The error of a host that cannot be opened.

use valvehouse_store as store;

/// The error of a host that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The settings are invalid or refer to something that is unavailable.
    #[error("{0}")]
    Config(String),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] store::StoreError),
}
