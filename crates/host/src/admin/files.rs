//! The files of plugins: read, written and taken away within their folder, wherever links may lead.

use super::rejection::AdminError;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use valvehouse_os::{Folders, WriteMode};

/// Longer files are not scripts, and no history keeps them.
const MAX: u64 = 1 << 20;

/// A plugin's file in the folder of its kind.
pub(super) struct File {
    folder: PathBuf,
    place: String,
}

impl File {
    /// The file at a place within a folder.
    pub(super) fn new(folder: &Path, place: &str) -> Self {
        Self { folder: folder.to_owned(), place: place.to_owned() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(&self.place)
    }

    /// The text in it now; `None` if it is not there. A text that cannot be kept must not be overwritten.
    pub(super) fn text(&self) -> Result<Option<String>, AdminError> {
        let path = self.path();
        let refused = |why: String| {
            let shown = path.display();
            let message = format!("cannot change {shown}: {why}; move it away first; nothing was changed");
            Err(AdminError::conflict(message, "file_not_changed"))
        };
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return refused(format!("it cannot be read: {error}")),
        };
        // A pipe would hold up whoever opens it.
        if !metadata.is_file() {
            return refused("it is not a regular file".into());
        }
        let mut bytes = Vec::new();
        let read = std::fs::File::open(&path).and_then(|file| file.take(MAX + 1).read_to_end(&mut bytes));
        match (read, String::from_utf8(bytes)) {
            (Err(error), _) => refused(format!("it cannot be read: {error}")),
            (Ok(length), _) if length as u64 > MAX => refused("it is larger than 1 MiB".into()),
            (_, Err(_)) => refused("it is not UTF-8 text".into()),
            (Ok(_), Ok(text)) => Ok(Some(text)),
        }
    }

    /// Replaces the content of a file atomically. What a link points to is written within the
    /// folder only.
    pub(super) fn write(&self, text: &str) -> Result<(), AdminError> {
        std::fs::create_dir_all(&self.folder).map_err(|error| self.failed("create the folder", &error))?;
        let path = self.really()?;
        let parents = self.path().parent().is_some_and(|folder| !folder.exists());
        let how = WriteMode { parents, ..WriteMode::default() };
        self.folders()?.write(&path, text, how)?;
        Ok(())
    }

    /// Takes it away; of a link only itself.
    pub(super) fn remove(&self) -> Result<(), AdminError> {
        let path = self.really()?;
        self.folders()?.remove(&path)?;
        Ok(())
    }

    fn folders(&self) -> Result<Folders, AdminError> {
        Ok(Folders::new(&[self.real_folder()?]))
    }

    /// The whole path, which means the same wherever this process stands.
    fn really(&self) -> Result<String, AdminError> {
        Ok(self.real_folder()?.join(&self.place).display().to_string())
    }

    fn real_folder(&self) -> Result<PathBuf, AdminError> {
        self.folder.canonicalize().map_err(|error| self.failed("find the folder", &error))
    }

    fn failed(&self, doing: &str, error: &io::Error) -> AdminError {
        let message = format!("cannot {doing} {}: {error}; nothing was changed", self.folder.display());
        AdminError::conflict(message, "file_not_changed")
    }
}
