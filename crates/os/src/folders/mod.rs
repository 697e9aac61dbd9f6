//! Granted folders, by open folder: whatever a path says, and whatever is moved or linked while it is
//! followed, it ends inside or it ends in an error.
//!
//! How a path is said:
//! - Relative paths begin with the name of a granted folder: `data/notes/x.txt` for `/srv/data`.
//!   Where only one folder is granted, its name may be left out: `notes/x.txt`.
//! - Two folders of the same name are told apart by what they stand in: `old/data`, `new/data`.
//! - Absolute paths are fine when they begin with a granted folder.
//! - `.` is all there is: the one folder, or the list of them.
//! - `..`, backslashes and control characters are refused, harmless or not.
//!
//! Answers always name paths in full, `data/notes/x.txt`, so that each can be said again. Links are
//! followed as long as they stay inside; nothing tells whether something outside is there.

mod file;
mod glob;
mod grep;
mod list;
mod names;
mod place;
mod read;
mod remove;
mod walk;
mod write;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

pub use glob::{Found, Globbing};
pub use grep::{Grepping, Match, Matches};
pub use list::{Entry, Kind, Listing};
pub use read::{Lines, Read};
pub use write::{Made, Writing, Written};

use std::path::PathBuf;

/// The folders a plugin may use.
#[derive(Debug, Clone, Default)]
pub struct Folders {
    granted: Vec<Granted>,
}

/// One of them.
#[derive(Debug, Clone)]
struct Granted {
    /// What paths call it.
    name: String,
    /// Where it is.
    path: PathBuf,
}

impl Folders {
    /// These folders and what is in them.
    pub fn new(granted: &[PathBuf]) -> Self {
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in granted.iter().map(|path| names::plain(path)) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        let names = names::distinct(&paths);
        let granted = names.into_iter().zip(paths).map(|(name, path)| Granted { name, path });
        Self { granted: granted.collect() }
    }

    /// What paths call them, in the order of the grant.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.granted.iter().map(|folder| folder.name.as_str())
    }
}
