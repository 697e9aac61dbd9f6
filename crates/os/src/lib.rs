//! The resources of this machine that plugins may reach, as far as an operator granted it: folders, programs,
//! environment variables.

mod failure;
mod folders;
mod programs;
mod variables;

pub use failure::Failure;
pub use folders::{
    CreatedFolder, EntryKind, FileText, FolderEntry, Folders, GlobMatches, GlobQuery, GrepQuery, Lines,
    Listing, Match, Matches, WriteMode, WriteResult,
};
pub use programs::{Command, Options, Output, Programs};
pub use variables::Variables;
