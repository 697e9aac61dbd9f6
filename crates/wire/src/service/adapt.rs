//! Application of the rules of a service to a request.

use super::draft::Draft;
use super::kind::ServiceKind;
use super::names::Names;
use super::rule::Rule;
use super::table::rules_of;
use compact_str::CompactString;
use valvehouse_core::chat::Outline;
use valvehouse_core::error::Error;
use valvehouse_json::Json;

/// A request that was changed for its service.
#[derive(Debug)]
pub struct Adaptation {
    /// The request. Unchanged values are shared with the original.
    pub body: Json,
    /// The names of the changed fields, without duplicates.
    pub fields: Vec<CompactString>,
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
    for row in rules_of(kind) {
        if draft.traits().is_none_or(|messages| row.may_apply(messages, draft.keys)) {
            row.rule.apply(&mut draft, kind)?;
        }
    }
    Ok(draft.finish().map(|(body, fields, renamed)| Adaptation { body, fields, names: Names::new(renamed) }))
}

/// Returns `false` if no rule changes a request for this model, whose bytes are sent unread.
pub fn may_apply(kind: ServiceKind, outline: &Outline<'_>, model: &str) -> bool {
    outline.messages.is_rich || rules_of(kind).iter().any(|row| row.may_change(outline, model))
}

/// Returns `true` if a service expects the thinking of all answers back if there are tools.
pub fn expects_thoughts(kind: ServiceKind) -> bool {
    rules_of(kind).iter().any(|row| row.rule == Rule::Thoughts)
}
