//! The options of a run of tests.

use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The tests to run, and what is shown and written of them.
#[derive(Debug, Clone, Default)]
pub struct TestOptions {
    /// Test files, scripts, folders or ids; all tests of the project where there are none.
    pub paths: Vec<PathBuf>,
    /// A text that the names of tests have to contain.
    pub filter: Option<String>,
    /// Is `true` if golden files are written anew.
    pub update: bool,
    /// Is `true` if the hooks, tools and lines that tests reach are shown.
    pub coverage: bool,
    /// The number of tests that run at a time; without it as many as there are processors.
    pub jobs: Option<NonZeroUsize>,
    /// The file for a report as JUnit's XML.
    pub junit: Option<PathBuf>,
    /// Is `true` if what passing tests print is shown.
    pub show_output: bool,
}
