//! Loads the script files of a folder; unreadable ones are reported as problems.
//!
//! A scan of the folder costs one `stat` per file. A file is read again if its stamp has changed, or if it was read
//! so soon after it was written that another save could result in the same stamp. If no stamp has changed, the
//! previous result is returned.

mod file;
mod folder;
mod listing;
mod set;

#[cfg(test)]
mod tests;

pub use file::{
    FolderScan, LoadedFile, beginning, is_id, read_file, read_tests, read_text, script_of_tests,
    tests_of_script,
};
pub use folder::Loader;
pub use set::SourceSet;
