//! The options of a run.

/// One hook of a script, or a turn, and what it runs on.
#[derive(Debug, Clone)]
pub struct TrialOptions {
    /// The name of the hook, or `turn` for a whole turn through all filters.
    pub hook: String,
    /// The script: a file, or the id of a plugin.
    pub script: Option<String>,
    /// The body: a file, `-` for stdin, or the JSON itself.
    pub body: Option<String>,
    /// A text in its place: what a user says, or what the model answers.
    pub text: Option<String>,
    /// Valves for this run only.
    pub valves: Vec<(String, String)>,
    /// The model of the turn.
    pub model: Option<String>,
    /// The id of the user who asks.
    pub user: Option<String>,
    /// The id of the chat it happens in.
    pub chat: Option<String>,
    /// The metadata that other hooks left, as a JSON object.
    pub metadata: Option<String>,
    /// Is `true` if the script reaches what it may reach, and keeps what it keeps.
    pub live: bool,
    /// The part of the run that is its result.
    pub print: Print,
}

/// The part of a run that is its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Print {
    /// The outcome, and what it changed.
    Difference,
    /// The value as the hook left it, as JSON.
    Value,
    /// The text in it: of the last message, of the answer.
    Text,
}
