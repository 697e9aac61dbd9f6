//! The error of a host that cannot be opened.

use valvehouse_core::error::Error;
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

/// Converts to the error type of turns, which has the responsible party and tells whether to try again.
impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Config(message) => Self::Host(message),
            OpenError::Store(error) => error.into(),
        }
    }
}
