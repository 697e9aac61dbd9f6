//! The output of a tool call, and the content of its message to the model.

use crate::chat::message;
use crate::tool::{self, ToolContent, ToolResult};
use std::borrow::Cow;
use valvehouse_json::Json;

/// The output of a call after the filters.
pub(super) struct CallOutput {
    /// The value.
    pub(super) value: Json,
    /// The content of the value, if the value is its short form.
    pub(super) content: Option<Json>,
    /// The arguments used, if a person changed them while the call was held.
    pub(super) changed: Option<Json>,
}

impl From<Json> for CallOutput {
    fn from(value: Json) -> Self {
        Self { value, content: None, changed: None }
    }
}

impl From<ToolResult> for CallOutput {
    fn from(result: ToolResult) -> Self {
        Self { value: result.value, content: result.content, changed: None }
    }
}

impl CallOutput {
    /// Returns the output with a value whose resources are texts where they encode a text.
    pub(super) fn readable(self) -> Self {
        let readable = match ToolContent::readable(&self.value) {
            Cow::Borrowed(_) => None,
            Cow::Owned(value) => Some(value),
        };
        match readable {
            None => self,
            Some(value) => {
                let content = Some(self.content.unwrap_or(self.value));
                Self { value, content, changed: self.changed }
            }
        }
    }

    /// Returns the content of the tool's message to the model, a text or a list of parts. If a person changed the
    /// arguments, it includes the arguments used.
    pub(super) fn into_message(self, arguments: Option<&Json>) -> Json {
        let content = ToolContent::of(self.content.as_ref().unwrap_or(&self.value));
        let Some(arguments) = arguments else {
            return match content {
                Some(content) => content.into_message(),
                None if self.value.as_str().is_some() => self.value,
                None => self.value.to_string().into(),
            };
        };
        let note = Json::from([
            ("note", "a person changed the arguments of this call before it ran".into()),
            ("arguments", arguments.deep_clone()),
        ]);
        let result = match content.map(ToolContent::into_message) {
            Some(Json::Array(parts)) => {
                return [vec![message::text_part(&note.to_string())], parts.items()].concat().into();
            }
            Some(text) if ToolContent::of(&self.value).is_some() => text,
            _ => self.value,
        };
        note.edit("result", result);
        note.to_string().into()
    }
}

/// Returns the content of a tool message for a failure, with the images of its content.
pub(super) fn failure(message: &str, content: Option<&Json>) -> Json {
    let content = content.and_then(ToolContent::of);
    tool::failure(message, content.iter().flat_map(ToolContent::media))
}
