//! The resources of the operating system that an operator can grant to plugins: folders, programs and
//! environment variables.

mod failure;
mod folders;
mod memory;
mod programs;
mod variables;

pub use failure::Failure;
pub use folders::{
    CreatedFolder, EntryKind, FileText, FolderEntry, Folders, GlobMatches, GlobQuery, GrepQuery, Lines,
    Listing, Match, Matches, WriteMode, WriteResult,
};
pub use memory::available_memory;
pub use programs::{Command, Options, Output, Programs};
pub use variables::Variables;
