//! Access to granted folders. A path never leads outside of them, also if files are moved or linked
//! meanwhile.
//!
//! Notations of a path:
//! - Relative paths begin with the name of a granted folder: `data/notes/x.txt` for `/srv/data`. If only one
//!   folder is granted, its name may be left out: `notes/x.txt`.
//! - Two folders with the same name are distinguished by their parent folders: `old/data`, `new/data`.
//! - Absolute paths are allowed if they begin with a granted folder.
//! - `.` is the only granted folder, or the list of all of them.
//! - `..`, backslashes and control characters are rejected.
//!
//! Results contain full paths, such as `data/notes/x.txt`, which can be used again. Links are followed if
//! they stay inside. Errors do not reveal whether a path outside exists.

mod file;
mod glob;
mod granted_folder;
mod grep;
mod list;
mod resolve;
mod read;
mod write;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

pub use glob::{GlobMatches, GlobQuery};
pub use granted_folder::Folders;
pub use grep::{GrepQuery, Match, Matches};
pub use list::{EntryKind, FolderEntry, Listing};
pub use read::{FileText, Lines};
pub use write::{CreatedFolder, WriteMode, WriteResult};
