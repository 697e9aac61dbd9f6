//! The result of a tool call: a value or an error.

use crate::context::Context;
use crate::error::Rejection;
use std::fmt;
use valvehouse_json::Json;

/// The result of a tool.
#[derive(Debug, Clone)]
pub struct ToolResult {
    /// The value, which scripts and filters read. It may be content itself: `{content: [block, …],
    /// structuredContent?}` or one block; see [`ToolContent`](super::ToolContent).
    pub value: Json,
    /// The content of the value in the same form, for models and MCP clients, if the value is its short form. It applies
    /// only if no filter changes the value, and must not contain more than the value.
    pub content: Option<Json>,
    /// The context for the rest of the turn, if the tool changed it.
    pub context: Option<Context>,
}

impl ToolResult {
    /// Converts a result or an error to JSON.
    pub(crate) fn to_json(result: &Result<Self, ToolError>) -> Json {
        match result {
            Ok(Self { value, content, context }) => {
                let context = context.as_ref().map(|context| {
                    Json::from([
                        ("variables", context.variables().deep_clone()),
                        ("metadata", context.metadata().deep_clone()),
                    ])
                });
                Json::from([
                    ("value", value.deep_clone()),
                    ("content", content.as_ref().map(Json::deep_clone).into()),
                    ("context", context.into()),
                ])
            }
            Err(error) => Json::from([
                ("error", error.message.as_str().into()),
                ("fatal", error.fatal.into()),
                ("status", i64::from(error.status).into()),
                ("is_answer", error.is_answer.into()),
                ("content", error.content.as_ref().map(Json::deep_clone).into()),
            ]),
        }
    }

    /// Reads JSON created by [`ToolResult::to_json`].
    pub(crate) fn from_json(json: &Json) -> Result<Self, ToolError> {
        let is = |name: &str| json.is_true(name);
        let content = json.given("content").map(|content| content.deep_clone());
        if let Some(message) = json.text("error") {
            let status = json.integer("status");
            let status = status.and_then(|status| u16::try_from(status).ok()).unwrap_or(500);
            let message = message.into();
            let (fatal, is_answer) = (is("fatal"), is("is_answer"));
            return Err(ToolError { message, fatal, status, is_answer, content });
        }
        let part = |context: &Json, name: &str| context.field(name).deep_clone();
        let context = json.get("context").filter(|context| !context.is_null());
        let context = context
            .map(|context| Context::with_metadata(part(&context, "variables"), part(&context, "metadata")));
        Ok(Self { value: part(json, "value"), content, context })
    }
}

impl<T: Into<Json>> From<T> for ToolResult {
    fn from(value: T) -> Self {
        Self { value: value.into(), content: None, context: None }
    }
}

/// The error of a tool, which is returned to the model.
#[derive(Debug, Clone)]
pub struct ToolError {
    /// The text for the model.
    pub message: String,
    /// Set if the error ends the turn instead of being returned to the model.
    pub fatal: bool,
    /// The HTTP status for calls without a model, 400 to 599.
    pub status: u16,
    /// Set if the tool itself returned the error with `error(…)`; it is then not retried.
    pub is_answer: bool,
    /// The failure as `{content: [block, …], structuredContent?, isError: true}`, if it has more than its message.
    pub content: Option<Json>,
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

impl ToolError {
    /// Makes the error end the turn.
    #[must_use]
    pub fn fatal(self) -> Self {
        Self { fatal: true, ..self }
    }

    /// Marks the error as returned by the tool itself, so that it is not retried.
    #[must_use]
    pub fn answer(self) -> Self {
        Self { is_answer: true, ..self }
    }
}

impl<T: Into<String>> From<T> for ToolError {
    fn from(message: T) -> Self {
        Self { message: message.into(), fatal: false, status: 500, is_answer: false, content: None }
    }
}

/// Uses the rejection's message and status.
impl From<Rejection> for ToolError {
    fn from(rejection: Rejection) -> Self {
        Self {
            message: rejection.message,
            fatal: rejection.fatal,
            status: rejection.status,
            is_answer: false,
            content: rejection.content,
        }
    }
}
