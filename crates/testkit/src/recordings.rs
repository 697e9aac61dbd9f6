//! Recorded answers for tests. They are kept beside the project, not in it: a clone has none.

use std::path::{Path, PathBuf};

/// A recording's text; `None`, with a note, without recordings.
pub fn recorded(name: &str) -> Option<String> {
    Some(std::fs::read_to_string(folder()?.join(name)).unwrap())
}

/// The folder of the recordings.
pub fn folder() -> Option<PathBuf> {
    let folder = match std::env::var_os("VALVEHOUSE_RECORDINGS") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings"),
    };
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no recordings in {}", folder.display());
    None
}
