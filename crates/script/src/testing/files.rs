//! Files that a test puts there, in a folder of its own.

use std::path::{Path, PathBuf};

/// Files of one test, gone with it.
pub(super) struct Files(PathBuf);

impl Files {
    pub(super) fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("valvehouse-test-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&path)
            .map_err(|why| format!("cannot make a folder for the test's files: {why}"))?;
        Ok(Self(path))
    }

    pub(super) fn add(&self, path: &str, text: &str) -> Result<(), String> {
        let relative = Path::new(path);
        let is_plain = |part| matches!(part, std::path::Component::Normal(_));
        if relative.components().count() < 2 || !relative.components().all(is_plain) {
            return Err(format!("`{path}` must be a folder and a file in it, as in data/notes.txt"));
        }
        let whole = self.0.join(relative);
        let folder = whole.parent().unwrap_or(&self.0);
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&whole, text));
        written.map_err(|why| format!("cannot write {}: {why}", whole.display()))
    }

    /// Returns the folders that stand for the granted ones.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        folders.sort();
        folders
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // In the system's folder for what may go.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
