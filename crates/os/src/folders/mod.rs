//! Granted folders, by open folder: any path, also while things are moved or linked, ends inside or in an
//! error.
//!
//! Notations of a path:
//! - Relative paths begin with the name of a granted folder: `data/notes/x.txt` for `/srv/data`.
//!   Where only one folder is granted, its name may be left out: `notes/x.txt`.
//! - Two folders of the same name are distinguished by their parent folders: `old/data`, `new/data`.
//! - Absolute paths are fine when they begin with a granted folder.
//! - `.` is all there is: the one folder, or the list of them.
//! - `..`, backslashes and control characters are refused, harmless or not.
//!
//! Answers always name paths in full, `data/notes/x.txt`, so that each can be used again. Links are
//! followed as long as they stay inside; nothing reveals whether a path outside exists.

mod file;
mod glob;
mod granted;
mod grep;
mod list;
mod place;
mod read;
mod write;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

pub use glob::{GlobMatches, GlobQuery};
pub use granted::Folders;
pub use grep::{GrepQuery, Match, Matches};
pub use list::{EntryKind, FolderEntry, Listing};
pub use read::{FileText, Lines};
pub use write::{CreatedFolder, WriteMode, WriteResult};
