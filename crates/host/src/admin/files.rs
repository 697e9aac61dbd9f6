//! The files of plugins: reads, writes and removes them within their folder, also through links.

use super::rejection::AdminError;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use valvehouse_os::{Folders, WriteMode};

/// The maximum size of a script in bytes; the history stores no larger ones.
const MAX: u64 = 1 << 20;

/// A plugin's file in the folder of its kind.
pub(super) struct File {
    folder: PathBuf,
    place: String,
}

impl File {
    /// Creates a reference to a file from its path within a folder.
    pub(super) fn new(folder: &Path, place: &str) -> Self {
        Self { folder: folder.to_owned(), place: place.to_owned() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(&self.place)
    }

    /// Returns the current text; `None` if the file does not exist. A text that the history cannot store is
    /// rejected, because it would be lost.
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
        // Opening a pipe would block.
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

    /// Replaces the content of a file atomically. The target of a link is written only if it is within the
    /// folder.
    pub(super) fn write(&self, text: &str) -> Result<(), AdminError> {
        std::fs::create_dir_all(&self.folder).map_err(|error| self.failed("create the folder", &error))?;
        let path = self.really()?;
        let parents = self.path().parent().is_some_and(|folder| !folder.exists());
        let how = WriteMode { parents, ..WriteMode::default() };
        self.folders()?.write(&path, text, how)?;
        Ok(())
    }

    /// Removes the file; of a link, only the link itself.
    pub(super) fn remove(&self) -> Result<(), AdminError> {
        let path = self.really()?;
        self.folders()?.remove(&path)?;
        Ok(())
    }

    fn folders(&self) -> Result<Folders, AdminError> {
        Ok(Folders::new(&[self.real_folder()?]))
    }

    /// Returns the absolute path, which does not depend on the working directory.
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
