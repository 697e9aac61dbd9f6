//! The result of a call: a value, or an error.

use crate::context::Context;
use crate::fault::Refusal;
use std::fmt;
use valvehouse_json::Json;

/// A tool's answer.
#[derive(Debug, Clone)]
pub struct ToolResult {
    /// The value.
    pub value: Json,
    /// The context to go on with, when the tool changed it.
    pub context: Option<Context>,
}

impl ToolResult {
    /// A result or failure as JSON.
    pub(crate) fn to_json(result: &Result<Self, ToolError>) -> Json {
        match result {
            Ok(Self { value, context }) => {
                let context = context.as_ref().map(|context| {
                    Json::from([
                        ("variables", context.variables().copy()),
                        ("metadata", context.metadata().copy()),
                    ])
                });
                Json::from([("value", value.copy()), ("context", context.into())])
            }
            Err(error) => Json::from([
                ("error", error.message.as_str().into()),
                ("fatal", error.fatal.into()),
                ("status", i64::from(error.status).into()),
                ("is_answer", error.is_answer.into()),
            ]),
        }
    }

    /// Reads what [`ToolResult::to_json`] wrote.
    pub(crate) fn from_json(json: &Json) -> Result<Self, ToolError> {
        let is = |name: &str| json.is_true(name);
        if let Some(message) = json.text("error") {
            let status = json.get("status").and_then(|status| status.as_i64());
            let status = status.and_then(|status| u16::try_from(status).ok()).unwrap_or(500);
            let message = message.into();
            return Err(ToolError { message, fatal: is("fatal"), status, is_answer: is("is_answer") });
        }
        let part = |context: &Json, name: &str| context.field(name).copy();
        let context = json.get("context").filter(|context| !context.is_null());
        let context = context
            .map(|context| Context::with_metadata(part(&context, "variables"), part(&context, "metadata")));
        Ok(Self { value: part(json, "value"), context })
    }
}

impl<T: Into<Json>> From<T> for ToolResult {
    fn from(value: T) -> Self {
        Self { value: value.into(), context: None }
    }
}

/// A tool's failure, told to the model.
#[derive(Debug, Clone)]
pub struct ToolError {
    /// The text that the model reads.
    pub message: String,
    /// Stop the whole turn instead.
    pub fatal: bool,
    /// The status of the answer where no model is told: 400 to 599.
    pub status: u16,
    /// The tool's own answer, returned with `error(…)`: it is not retried, as a failure on the way to it is.
    pub is_answer: bool,
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

impl ToolError {
    /// The same, to stop the whole turn.
    #[must_use]
    pub fn fatal(self) -> Self {
        Self { fatal: true, ..self }
    }

    /// The same as the tool's own answer, which is not retried.
    #[must_use]
    pub fn answer(self) -> Self {
        Self { is_answer: true, ..self }
    }
}

impl<T: Into<String>> From<T> for ToolError {
    fn from(message: T) -> Self {
        Self { message: message.into(), fatal: false, status: 500, is_answer: false }
    }
}

/// A decision of the tool's own: its words, its status.
impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        Self { message: refusal.message, fatal: refusal.fatal, status: refusal.status, is_answer: false }
    }
}
