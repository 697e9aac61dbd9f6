//! Application of the rules of a service to a request.

use super::draft::Draft;
use super::kind::ServiceKind;
use super::names::Names;
use super::table::rows_of;
use valvehouse_core::chat::Outline;
use valvehouse_core::error::Error;
use valvehouse_json::Json;

/// A request that was changed for its service.
#[derive(Debug)]
pub struct Adaptation {
    /// The request. Unchanged values are shared with the original.
    pub body: Json,
    /// The names of the changed fields, without duplicates.
    pub fields: Vec<&'static str>,
    /// The names of tools to restore in the answer.
    pub names: Names,
}

/// Applies the rules of a service to a chat request. Returns `None` if the service accepts it as it is. The given
/// request is not changed.
///
/// # Errors
/// Returns a request error that names the message if a request breaks a rule and cannot be repaired.
pub fn adapt(kind: ServiceKind, request: &Json) -> Result<Option<Adaptation>, Error> {
    let Json::Object(body) = request else { return Ok(None) };
    let mut draft = Draft::new(body);
    for row in rows_of(kind) {
        let finds = draft.traits().and_then(|messages| row.rule.finds_in(messages));
        if finds != Some(false) {
            row.rule.apply(&mut draft, kind)?;
        }
    }
    Ok(draft.finish().map(|(body, fields, renamed)| Adaptation { body, fields, names: Names::new(renamed) }))
}

/// The fields about tools. Most rules are about them.
const TOOL_FIELDS: [&str; 4] = ["tools", "tool_choice", "parallel_tool_calls", "functions"];

/// Returns `false` if no rule changes a request for this model, whose bytes are sent unread.
pub fn may_apply(kind: ServiceKind, outline: &Outline<'_>, model: &str) -> bool {
    outline.messages.is_rich
        || TOOL_FIELDS.iter().any(|name| outline.any(name, |_| true))
        || rows_of(kind).any(|row| row.rule.may_change(outline, model))
}
