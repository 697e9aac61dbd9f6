//! Names of tools, and fields that depend on the tools of a request.

use super::draft::Draft;
use super::kind::ServiceKind;
use super::limit::TextLimit;
use compact_str::CompactString;
use std::collections::{HashMap, HashSet};
use valvehouse_core::chat::ONLY_ANTHROPIC;
use valvehouse_core::chat::delta::call_name;
use valvehouse_json::Json;

/// The fields that services refuse without tools.
const DEPENDENT: [&str; 2] = ["tool_choice", "parallel_tool_calls"];

/// Shortens names beyond the limit wherever the request has them, and remembers the client's.
pub(super) fn shorten_names(draft: &mut Draft, limit: &TextLimit) {
    let tools = draft.list("tools");
    let parts = draft.tool_parts();
    let mut names: Vec<CompactString> = tools.iter().map(call_name).collect();
    for (at, _) in &parts {
        names.extend(names_of(draft.message(*at)));
    }
    names.extend(draft.given("tool_choice").iter().flat_map(chosen));
    if names.iter().all(|name| limit.fits(name)) {
        return;
    }
    let renamed = renamed(&names, limit);
    if tools.iter().any(|tool| renamed.contains_key(&call_name(tool))) {
        let tools = tools.iter().map(|tool| match renamed.contains_key(&call_name(tool)) {
            true => with_name(tool, &renamed),
            false => tool.clone(),
        });
        draft.set("tools", tools.collect::<Vec<_>>().into(), "tools.name");
    }
    if let Some(choice) =
        draft.given("tool_choice").filter(|choice| chosen(choice).iter().any(|own| renamed.contains_key(own)))
    {
        draft.set("tool_choice", with_names(&choice, &renamed), "tools.name");
    }
    for (at, _) in parts {
        if names_of(draft.message(at)).iter().any(|name| renamed.contains_key(name)) {
            let message = draft.edit(at, "tools.name");
            message.list("tool_calls").iter().for_each(|call| rename(call, &renamed));
            rename_key(&message, "name", &renamed);
        }
    }
    draft.renamed = renamed.into_iter().map(|(own, short)| (short, own)).collect();
}

/// The names for the service, by the client's.
type NameMap = HashMap<CompactString, CompactString>;

fn renamed(names: &[CompactString], limit: &TextLimit) -> NameMap {
    let mut taken: HashSet<CompactString> = names.iter().filter(|name| limit.fits(name)).cloned().collect();
    let mut renamed = NameMap::new();
    for name in names.iter().filter(|name| !limit.fits(name)) {
        if renamed.contains_key(name) {
            continue;
        }
        let mut short = (0..).map(|attempt| CompactString::from(limit.shorten(name, attempt)));
        let Some(short) = short.find(|short| taken.insert(short.clone())) else { continue };
        renamed.insert(name.clone(), short);
    }
    renamed
}

/// Returns the names of the tools in a message: those of its calls, or that of a result.
fn names_of(message: &Json) -> Vec<CompactString> {
    let calls = message.list("tool_calls");
    match calls.is_empty() {
        true => message.text("name").into_iter().collect(),
        false => calls.iter().map(call_name).collect(),
    }
}

/// Returns the names of the tools in a choice.
fn chosen(choice: &Json) -> Vec<CompactString> {
    let allowed = choice.field("allowed_tools");
    if !allowed.is_null() {
        return allowed.list("tools").iter().map(call_name).filter(|name| !name.is_empty()).collect();
    }
    let name = call_name(choice);
    match name.is_empty() {
        // Anthropic's form.
        true => choice.text("name").into_iter().collect(),
        false => vec![name],
    }
}

fn with_name(tool: &Json, renamed: &NameMap) -> Json {
    let tool = tool.deep_clone();
    rename(&tool, renamed);
    tool
}

fn with_names(choice: &Json, renamed: &NameMap) -> Json {
    let choice = choice.deep_clone();
    rename(&choice, renamed);
    rename_key(&choice, "name", renamed);
    choice.field("allowed_tools").list("tools").iter().for_each(|tool| rename(tool, renamed));
    choice
}

/// Renames the function or custom tool of a tool, a call or a choice, which must be a copy.
fn rename(value: &Json, renamed: &NameMap) {
    for key in ["function", "custom"] {
        rename_key(&value.field(key), "name", renamed);
    }
}

fn rename_key(value: &Json, key: &str, renamed: &NameMap) {
    if let Some(short) = value.text(key).and_then(|name| renamed.get(&name)) {
        value.edit(key, &**short);
    }
}

/// Removes the tools that a choice does not allow, and replaces the choice by its mode.
pub(super) fn keep_allowed(draft: &mut Draft) {
    let Some(choice) = draft.given("tool_choice") else { return };
    if choice.text("type").is_none_or(|kind| kind != "allowed_tools") {
        return;
    }
    let allowed: HashSet<CompactString> = chosen(&choice).into_iter().collect();
    let tools = draft.list("tools");
    let left: Vec<Json> = tools.iter().filter(|tool| allowed.contains(&call_name(tool))).cloned().collect();
    if left.len() < tools.len() {
        draft.set("tools", left.into(), "tools");
    }
    let mode = choice.at_path("allowed_tools.mode");
    draft.set("tool_choice", mode.as_str().unwrap_or("auto").into(), "tool_choice");
}

/// Removes tools with the name of an earlier one.
pub(super) fn drop_repeated(draft: &mut Draft) {
    let tools = draft.list("tools");
    let mut names = HashSet::new();
    let mut is_first = |tool: &Json| {
        let name = Some(call_name(tool)).filter(|name| !name.is_empty()).or_else(|| tool.text("name"));
        name.is_none_or(|name| names.insert(name))
    };
    let first: Vec<Json> = tools.iter().filter(|tool| is_first(tool)).cloned().collect();
    if first.len() < tools.len() {
        draft.set("tools", first.into(), "tools");
    }
}

/// Removes empty lists of tools, the fields that need tools, and the choice of a tool that is not there.
pub(super) fn drop_dependent(draft: &mut Draft, kind: ServiceKind) {
    for (list, choice) in [("functions", "function_call"), ("tools", "")] {
        if draft.contains(list) && draft.given(list).is_none_or(|list| list.is_empty()) {
            draft.remove(list);
            if !choice.is_empty() {
                draft.remove(choice);
            }
        }
    }
    // Other services do not receive the tools that Anthropic runs.
    let is_sent =
        |tool: &Json| tool.get("function").is_some() || tool.text("type").is_none_or(|own| own == "custom");
    let drops_hosted = draft.contains(ONLY_ANTHROPIC) && !kind.is_messages();
    let tools = draft.list("tools");
    let tools: Vec<Json> = tools.into_iter().filter(|tool| !drops_hosted || is_sent(tool)).collect();
    if tools.is_empty() {
        DEPENDENT.iter().for_each(|key| draft.remove(key));
        return;
    }
    if let Some(choice) = draft.given("tool_choice") {
        drop_missing_choice(draft, &choice, &tools);
    }
}

fn drop_missing_choice(draft: &mut Draft, choice: &Json, tools: &[Json]) {
    let names: HashSet<CompactString> = tools
        .iter()
        .flat_map(|tool| [call_name(tool), tool.text_or_empty("name")])
        .filter(|name| !name.is_empty())
        .collect();
    let wanted = chosen(choice);
    let missing = wanted.iter().filter(|name| !names.contains(*name)).count();
    if missing == 0 {
        return;
    }
    if missing == wanted.len() {
        draft.remove("tool_choice");
        return;
    }
    let choice = choice.deep_clone();
    let allowed = choice.field("allowed_tools");
    let left = allowed.list("tools").into_iter().filter(|tool| names.contains(&call_name(tool)));
    allowed.put("tools", left.collect::<Vec<_>>());
    draft.set("tool_choice", choice, "tool_choice");
}
