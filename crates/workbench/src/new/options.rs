//! The options of new files.

use valvehouse_core::filter::Hook;
use valvehouse_script::Kind;

/// The paths and texts of the scripts that come along, below `filters/` and `tools/`.
pub type ShippedFiles = &'static [(&'static str, &'static str)];

/// The files to make, and their name.
#[derive(Debug, Clone)]
pub struct NewOptions {
    /// The kind of files; `None` where they are listed only.
    pub what: Option<NewKind>,
    /// Their name; of a project its folder.
    pub name: Option<String>,
    /// The moment at which a filter acts.
    pub hook: Option<Hook>,
    /// The script to copy; empty for a list of all.
    pub from: Option<String>,
    /// Is `true` if the scripts that come along are listed.
    pub list: bool,
    /// Is `true` if the page about them is printed.
    pub markdown: bool,
    /// The kind of scripts that a module is for.
    pub place: Option<Kind>,
    /// Is `true` if files that are there are replaced.
    pub force: bool,
}

/// The kind of new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewKind {
    /// A script that looks at requests and answers.
    Filter,
    /// A script that models may call.
    Tool,
    /// Functions that scripts import.
    Module,
    /// A folder to begin with.
    Project,
}

impl NewOptions {
    /// Returns `true` if only the list of what comes along is to be shown.
    pub(super) fn only_lists(&self) -> bool {
        self.list || self.from.as_deref() == Some("")
    }
}
