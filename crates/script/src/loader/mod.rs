//! From a folder to the script files in it; what cannot be read is a problem beside the others.
//!
//! A look at the folder costs a `stat` per file. A file is read again when its stamp changed, or
//! when it was read so soon after it was written that another save could wear the same stamp. Where no
//! stamp is another one, the look before says what there is.

mod file;
mod folder;
mod listing;
mod set;

#[cfg(test)]
mod tests;

pub(crate) use file::REST;
pub use file::{
    FolderScan, LoadedFile, beginning, is_id, read_file, read_tests, read_text, script_of_tests,
    tests_of_script,
};
pub use folder::Loader;
pub use set::SourceSet;
