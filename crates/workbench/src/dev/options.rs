//! The options of a session.

use valvehouse_host::ReplayModels;

/// The options of `valvehouse dev`.
#[derive(Debug, Clone)]
pub struct DevOptions {
    /// The model in the suggested command; `None` for the first one.
    pub model: Option<String>,
    /// The detail of the steps of a request.
    pub open: StepDetail,
    /// The models for the replay of the last request after a save; `None` disables the replay.
    pub replay: Option<ReplayModels>,
    /// Disables tests after a save.
    pub no_tests: bool,
}

/// The detail of the steps of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepDetail {
    /// Every step, with its cost and all its changes.
    Always,
    /// A line for each step that changed a value or failed.
    Changed,
    /// No steps.
    Never,
}
