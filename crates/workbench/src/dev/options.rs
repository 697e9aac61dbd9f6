//! The options of a session.

use valvehouse_host::ReplayModels;

/// The options of `valvehouse dev`.
#[derive(Debug, Clone)]
pub struct DevOptions {
    /// The model that the command to try names; the first one where none is named.
    pub model: Option<String>,
    /// The detail of the steps of a request.
    pub open: StepDetail,
    /// The models that answer when a save runs the last request again; `None` where it does not.
    pub replay: Option<ReplayModels>,
    /// Runs no tests on save.
    pub no_tests: bool,
}

/// The detail of the steps of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepDetail {
    /// Every step, with its cost and all that it changed.
    Always,
    /// A line for each step that changed something or went wrong.
    Changed,
    /// No steps.
    Never,
}
