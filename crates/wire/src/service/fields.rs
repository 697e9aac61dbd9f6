//! Fields of a request beside its messages and tools.

use super::draft::Draft;
use super::kind::ServiceKind;
use super::limit::TextLimit;
use super::names_in::{HOLDERS, holds};
use crate::messages::request::REFUSED_BETAS;
use valvehouse_core::chat::asked_effort;
use valvehouse_core::chat::effort::{
    Effort, cannot_stop_thinking, claude, has_fixed_sampling, has_no_levels, level_for, thinks_without_tools,
};
use valvehouse_json::{Json, Object};

/// Shortens a text beyond its limit. A dot in the path leads into an object.
pub(super) fn shorten(draft: &mut Draft, path: &'static str, limit: &TextLimit) {
    let (outer, inner) = match path.split_once('.') {
        Some((outer, inner)) => (outer, Some(inner)),
        None => (path, None),
    };
    let Some(value) = draft.given(outer) else { return };
    let Some(inner) = inner else {
        if let Some(text) = value.as_str().filter(|text| !limit.fits(text)) {
            draft.set(outer, limit.shorten(text, 0).into(), path);
        }
        return;
    };
    let Some(text) = value.at_path(inner).as_str().filter(|text| !limit.fits(text)).map(str::to_owned) else {
        return;
    };
    let copy = value.deep_clone();
    let (holder, key) = match inner.rsplit_once('.') {
        Some((before, key)) => (copy.at_path(before), key),
        None => (copy.clone(), inner),
    };
    holder.edit(key, limit.shorten(&text, 0));
    draft.set(outer, copy, path);
}

/// Raises numbers to the least one. A negative number means no limit and is left out.
pub(super) fn raise(draft: &mut Draft, names: &[&'static str], least: i64) {
    for name in names {
        match draft.given(name).and_then(|value| value.as_f64()) {
            Some(number) if number < 0.0 => draft.remove(name),
            Some(number) if number < least as f64 => draft.set(name, least.into(), name),
            _ => {}
        }
    }
}

/// Gives a field the name that the service knows. A field of both names has the value of the first.
pub(super) fn rename(draft: &mut Draft, name: &'static str, own: &'static str) {
    if let Some(value) = draft.given(name) {
        draft.set(own, value, own);
    }
    draft.remove(name);
}

/// The settings of the choice of tokens, with their defaults.
pub(super) const SAMPLING: [(&str, f64); 4] =
    [("temperature", 1.0), ("top_p", 1.0), ("presence_penalty", 0.0), ("frequency_penalty", 0.0)];

/// Removes the settings of the choice of tokens for models that always think.
pub(super) fn drop_sampling(draft: &mut Draft) {
    for (name, default) in SAMPLING {
        if draft.given(name).is_some_and(|value| value.as_f64() != Some(default))
            && has_fixed_sampling(&draft.model())
        {
            draft.remove(name);
        }
    }
}

/// The settings of the choice of tokens that newer models of Anthropic refuse.
pub(super) const OF_CLAUDE: [&str; 3] = ["temperature", "top_p", "top_k"];

/// Removes the settings of the choice of tokens that a model of Anthropic does not accept, or not together.
pub(super) fn drop_sampling_of_claude(draft: &mut Draft) {
    let model = draft.model();
    let Some((family, version)) = claude(&model) else { return };
    if version >= (5, 0) || (family == "opus" && version >= (4, 7)) {
        OF_CLAUDE.iter().for_each(|name| draft.remove(name));
    } else if version >= (4, 1) && draft.given("temperature").is_some() && draft.given("top_p").is_some() {
        draft.remove("top_p");
    }
}

/// The field with the level of thinking.
const EFFORT: &str = "reasoning_effort";

/// Returns the name of the level of thinking that a request asks for.
fn asked_level(draft: &Draft) -> Option<&'static str> {
    asked(draft).map(|effort| effort.name)
}

/// Switches thinking off for models that think only without tools.
pub(super) fn drop_effort(draft: &mut Draft) {
    let is_given = match draft.given(EFFORT) {
        Some(effort) => effort.as_str() != Some("none"),
        None => asked_level(draft).is_some_and(|level| level != "none"),
    };
    if is_given && !draft.list("tools").is_empty() && thinks_without_tools(&draft.model()) {
        draft.set(EFFORT, "none".into(), EFFORT);
    }
}

/// Returns `true` if a request forces the model to call a tool.
pub(super) fn forces_a_tool(draft: &Draft) -> bool {
    draft.given("tool_choice").is_some_and(|choice| match choice.as_str() {
        Some(word) => matches!(word, "required" | "any"),
        None => choice.as_object().is_some(),
    })
}

/// Switches thinking off if a tool is forced, or lets a model that always thinks choose.
pub(super) fn stop_thinking(draft: &mut Draft) {
    if !forces_a_tool(draft) {
        return;
    }
    let model = draft.model();
    if cannot_stop_thinking(&model) {
        free_choice(draft);
    } else if !has_no_levels(&model) && asked_level(draft) != Some("none") {
        draft.set(EFFORT, "none".into(), EFFORT);
    }
}

/// Lets the model choose whether it calls a tool.
pub(super) fn free_choice(draft: &mut Draft) {
    if forces_a_tool(draft) {
        draft.set("tool_choice", "auto".into(), "tool_choice");
    }
}

/// Returns the level of thinking that a request asks for.
pub(super) fn asked(draft: &Draft) -> Option<&'static Effort> {
    asked_effort(&draft.to_json())
}

/// Sets the level of thinking; `default` removes it.
pub(super) fn set_level(draft: &mut Draft, level: &str) {
    let_think(draft);
    match level {
        "default" => draft.remove(EFFORT),
        level if draft.given(EFFORT).is_none_or(|own| own.as_str() != Some(level)) => {
            draft.set(EFFORT, level.into(), EFFORT);
        }
        _ => {}
    }
}

/// The settings by which clients of any protocol ask for thinking.
const OF_THINKING: [&str; 6] = [EFFORT, "reasoning", "thinking", "think", "enable_thinking", "output_config"];

/// Removes the settings of thinking.
pub(super) fn drop_thinking(draft: &mut Draft) {
    OF_THINKING.iter().for_each(|name| remove_everywhere(draft, name));
}

/// Removes the settings of thinking by which it is switched off.
pub(super) fn let_think(draft: &mut Draft) {
    let holders: Vec<Json> = HOLDERS.iter().filter_map(|holder| draft.given(holder)).collect();
    let is_off = |name: &str, holder: &Json| match holder.field(name) {
        Json::Text(level) => &*level == "none",
        Json::Bool(on) => !on,
        own => {
            own.is_text("type", "disabled")
                || own.is_text("effort", "none")
                || own.get("enabled").is_some_and(|on| on.as_bool() == Some(false))
        }
    };
    let request = draft.to_json();
    for name in OF_THINKING {
        if holders.iter().chain([&request]).any(|holder| is_off(name, holder)) {
            remove_everywhere(draft, name);
        }
    }
}

/// Removes a field, also among the settings of single protocols.
pub(super) fn remove_everywhere(draft: &mut Draft, name: &str) {
    draft.remove(name);
    for holder in HOLDERS {
        let Some(own) = draft.given(holder).filter(|own| own.get(name).is_some()) else { continue };
        let others = own.entries().into_iter().filter(|(key, _)| key != name);
        draft.set(holder, others.collect::<Object>().into(), name);
    }
}

/// Removes a field at any depth within a list of the request.
pub(super) fn remove_within(draft: &mut Draft, list: &'static str, name: &str) {
    if list == "messages" {
        for at in 0..draft.len() {
            if holds(draft.message(at), name) {
                strip(&draft.edit(at, &format!("messages.{name}")), name, false);
            }
        }
        return;
    }
    let items = draft.list(list);
    if items.iter().any(|item| holds(item, name)) {
        let items = Json::from(items).deep_clone();
        strip(&items, name, false);
        draft.set(list, items, &format!("{list}.{name}"));
    }
}

/// Removes a field at any depth of a value. The keys of properties are names, not fields.
fn strip(value: &Json, name: &str, has_names: bool) {
    match value {
        Json::Object(fields) => {
            if !has_names {
                fields.remove(name);
            }
            for (key, inner) in fields.entries() {
                let has_names = !has_names && matches!(&*key, "properties" | "$defs" | "definitions");
                strip(&inner, name, has_names);
            }
        }
        Json::Array(items) => items.items().iter().for_each(|item| strip(item, name, false)),
        _ => {}
    }
}

/// Adds a value of Anthropic's header for betas to those that are not sent.
pub(super) fn refuse_beta(draft: &mut Draft, beta: &str) {
    let mut all = draft.list(REFUSED_BETAS);
    if all.iter().all(|own| own.as_str() != Some(beta)) {
        all.push(beta.into());
        draft.set(REFUSED_BETAS, all.into(), "anthropic-beta");
    }
}

/// Replaces a level of thinking by the nearest one that the model knows, and removes it for a model that knows none.
pub(super) fn lower_level(draft: &mut Draft, kind: ServiceKind) {
    let Some(asked) = asked(draft) else { return };
    let model = draft.model();
    let known = match kind {
        // Groq names the levels of these models in its own way.
        ServiceKind::Groq if model.starts_with("qwen") && asked.name != "none" => Some("default"),
        _ => level_for(&model, asked),
    };
    match known {
        None => draft.remove(EFFORT),
        Some(level) if level != asked.name => draft.set(EFFORT, level.into(), EFFORT),
        Some(_) => {}
    }
}

/// Removes the texts of `stop` beyond the most that a service accepts.
pub(super) fn cut_stops(draft: &mut Draft, most: usize) {
    let stops = draft.list("stop");
    if stops.len() > most {
        draft.set("stop", stops[..most].to_vec().into(), "stop");
    }
}

/// Writes whole numbers with a decimal point or an exponent as integers.
pub(super) fn write_whole(draft: &mut Draft, names: &[&'static str]) {
    for name in names {
        let Some(Json::Number(number)) = draft.given(name) else { continue };
        if let Some(whole) = number.as_i64().filter(|_| !number.is_integer()) {
            draft.set(name, whole.into(), name);
        }
    }
}

/// Removes a field whose condition is not true.
pub(super) fn drop_unneeded(draft: &mut Draft, name: &'static str, needed: &str) {
    if draft.contains(name) && draft.given(needed).and_then(|value| value.as_bool()) != Some(true) {
        draft.remove(name);
    }
}

/// Removes empty texts from `stop`, and with `blank` those of white space alone.
pub(super) fn drop_stops(draft: &mut Draft, blank: bool) {
    let Some(stop) = draft.given("stop") else { return };
    let is_sent = |text: &Json| match text.as_str() {
        Some(text) if blank => !text.trim().is_empty(),
        Some(text) => !text.is_empty(),
        None => true,
    };
    let Json::Array(texts) = &stop else {
        if !is_sent(&stop) {
            draft.remove("stop");
        }
        return;
    };
    let texts = texts.items();
    let sent: Vec<Json> = texts.iter().filter(|text| is_sent(text)).cloned().collect();
    if sent.is_empty() {
        draft.remove("stop");
    } else if sent.len() < texts.len() {
        draft.set("stop", sent.into(), "stop");
    }
}
