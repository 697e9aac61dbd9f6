//! Calls and their results in the conversation.

use super::draft::{Draft, Part};
use super::turns;
use compact_str::CompactString;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use valvehouse_core::chat::delta::call_name;
use valvehouse_core::chat::{CONTENT_BLOCKS, secrets};
use valvehouse_core::error::Error;
use valvehouse_core::text::hex;
use valvehouse_json::Json;

/// Adds the ids of calls to results without one, and ids to calls without one.
///
/// A result belongs to the open call of its `name`, to the only open call, or to the call at its place if
/// there is one result for each call.
pub(super) fn pair_results(draft: &mut Draft) -> Result<(), Error> {
    let mut open: Vec<(CompactString, CompactString)> = Vec::new();
    let parts = draft.tool_parts();
    for (place, (at, part)) in parts.iter().enumerate() {
        match part {
            Part::Calls => open = calls_with_ids(draft, *at),
            Part::Result => {
                let id = draft.message(*at).text_or_empty("tool_call_id");
                if !id.is_empty() {
                    if let Some(known) = open.iter().position(|(own, _)| *own == id) {
                        open.remove(known);
                    }
                    continue;
                }
                let unnamed = parts[place..].iter().take_while(|(_, part)| *part == Part::Result);
                let unnamed = unnamed
                    .filter(|(at, _)| draft.message(*at).text_or_empty("tool_call_id").is_empty())
                    .count();
                let name = draft.message(*at).text_or_empty("name");
                let named = open.iter().position(|(_, own)| !name.is_empty() && *own == name);
                let Some(known) = named.or((open.len() == 1 || open.len() == unnamed).then_some(0)) else {
                    return Err(unpaired(*at, open.len()));
                };
                if open.is_empty() {
                    return Err(unpaired(*at, 0));
                }
                let (id, _) = open.remove(known);
                draft.edit(*at, "tool_call_id").put("tool_call_id", &*id);
            }
        }
    }
    Ok(())
}

/// Adds the names of their tools to results.
pub(super) fn name_results(draft: &mut Draft) {
    let mut names = HashMap::new();
    for (at, part) in draft.tool_parts() {
        let message = draft.message(at);
        match part {
            Part::Calls => {
                let calls = message.list("tool_calls");
                names.extend(calls.iter().map(|call| (call.text_or_empty("id"), call_name(call))));
            }
            Part::Result if message.text_or_empty("name").is_empty() => {
                let name = names.get(&message.text_or_empty("tool_call_id")).filter(|name| !name.is_empty());
                if let Some(name) = name {
                    draft.edit(at, "messages.name").put("name", name.as_str());
                }
            }
            Part::Result => {}
        }
    }
}

/// Removes fields from calls that other services add to them.
pub(super) fn drop_call_fields(draft: &mut Draft, names: &[&str]) {
    let has_any = |call: &Json| names.iter().any(|name| call.get(name).is_some());
    for (at, part) in draft.tool_parts() {
        if part != Part::Calls || !draft.message(at).list("tool_calls").iter().any(has_any) {
            continue;
        }
        for call in draft.edit(at, "messages.tool_calls").list("tool_calls") {
            names.iter().for_each(|name| _ = call.remove(name));
        }
    }
}

/// Removes thoughts that a service signed or encrypted, and leaves those that are text.
pub(super) fn drop_secrets(draft: &mut Draft) {
    for at in 0..draft.len() {
        if let Some(plain) = secrets::without(draft.message(at), &|_| true) {
            draft.edit(at, "messages.thinking").put(CONTENT_BLOCKS, plain.field(CONTENT_BLOCKS));
        }
    }
    drop_call_fields(draft, &["extra_content"]);
    turns::drop_fields(draft, &["reasoning_details"]);
}

fn unpaired(at: usize, open: usize) -> Error {
    let message = format!(
        "missing messages[{at}].tool_call_id: {open} calls before it have no result; send the id of the call that it \
         answers"
    );
    Error::invalid(message, Some("messages"))
}

/// Returns the ids and names of the calls of a message, with an id for each.
fn calls_with_ids(draft: &mut Draft, at: usize) -> Vec<(CompactString, CompactString)> {
    let calls = draft.message(at).list("tool_calls");
    let mut out = Vec::with_capacity(calls.len());
    for (number, call) in calls.iter().enumerate() {
        let mut id = call.text_or_empty("id");
        if id.is_empty() && call.is_object() {
            id = id_of(at, number, &call_name(call));
            let own = draft.edit(at, "tool_calls.id").list("tool_calls");
            own[number].put("id", &*id);
        }
        out.push((id, call_name(call)));
    }
    out
}

/// Returns the id of a call without one, by its place and name: the same in each request of the conversation.
pub(super) fn id_of(at: usize, number: usize, name: &str) -> CompactString {
    let digest = Sha256::digest(format!("{at} {number} {name}"));
    format!("call_{}", hex(&digest[..12])).into()
}

/// Replaces empty arguments of calls by an empty object.
pub(super) fn write_arguments(draft: &mut Draft) {
    for (at, part) in draft.tool_parts() {
        if part != Part::Calls {
            continue;
        }
        let is_bare = |call: &Json| {
            let function = call.field("function");
            function.is_object()
                && function.text("arguments").is_none_or(|text| text.trim().is_empty())
                && !function.field("arguments").is_object()
        };
        let bare: Vec<usize> = places(&draft.message(at).list("tool_calls"), is_bare);
        if bare.is_empty() {
            continue;
        }
        let calls = draft.edit(at, "tool_calls.function.arguments").list("tool_calls");
        for number in bare {
            calls[number].field("function").put("arguments", "{}");
        }
    }
}

/// Removes empty lists of calls.
pub(super) fn drop_empty_calls(draft: &mut Draft) {
    for at in 0..draft.len() {
        let Json::Object(fields) = draft.message(at) else { continue };
        let is_empty = |calls: Option<&Json>| {
            calls.is_some_and(|calls| calls.as_array().is_some_and(|calls| calls.is_empty()))
        };
        if fields.with("tool_calls", is_empty)
            && let Json::Object(fields) = draft.edit(at, "tool_calls")
        {
            fields.remove("tool_calls");
        }
    }
}

/// Returns the places of the values for which a function returns `true`.
pub(super) fn places(values: &[Json], is_meant: impl Fn(&Json) -> bool) -> Vec<usize> {
    values.iter().enumerate().filter(|(_, value)| is_meant(value)).map(|(at, _)| at).collect()
}
