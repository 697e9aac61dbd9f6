//! The folder in which a program starts.

use crate::failure::Failure;
use std::path::PathBuf;

/// The folder a program starts in.
#[derive(Debug)]
pub(super) struct Workplace {
    pub(super) path: PathBuf,
    /// `true` if it is made for this one run, and removed after it.
    fresh: bool,
}

impl Workplace {
    /// A granted folder.
    pub(super) fn granted(path: PathBuf) -> Self {
        Self { path, fresh: false }
    }

    /// An empty folder that is gone when this is dropped.
    pub(super) fn fresh() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("valvehouse-{}", uuid::Uuid::new_v4().simple()));
        make(&path).map_err(|error| {
            Failure::new(format!("cannot make the folder {} to run a program in: {error}", path.display()))
        })?;
        Ok(Self { path, fresh: true })
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if self.fresh
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!("cannot take away {}: {error}", self.path.display());
        }
    }
}

/// For this user only: others share the folder it is made in.
fn make(path: &std::path::Path) -> std::io::Result<()> {
    let mut folder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(path)
}
