//! The error of a host that cannot be opened.

use valvehouse_store as store;

/// The error of a host that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The settings name something that cannot be had.
    #[error("{0}")]
    Config(String),
    /// The store.
    #[error(transparent)]
    Store(#[from] store::StoreError),
}
