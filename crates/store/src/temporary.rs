//! The folder of a temporary store.

use crate::sqlite::open::private_folder;
use std::path::{Path, PathBuf};

/// A folder of a random name among the temporary files. It is removed when it is dropped.
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub(crate) fn new() -> std::io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("valvehouse-{}", uuid::Uuid::new_v4()));
        private_folder().create(&folder)?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!("cannot remove {}: {error}", self.0.display());
        }
    }
}
