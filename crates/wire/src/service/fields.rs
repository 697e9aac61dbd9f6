//! Fields of a request beside its messages and tools.

use super::draft::Draft;
use super::limit::TextLimit;
use valvehouse_core::chat::ONLY_ANTHROPIC;
use valvehouse_core::chat::effort::{
    Effort, claude, effort_of_thinking, has_fixed_sampling, least_effort, thinks_without_tools,
};
use valvehouse_json::Json;

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

/// Switches thinking off for models that think only without tools.
pub(super) fn drop_effort(draft: &mut Draft) {
    const FIELD: &str = "reasoning_effort";
    let of_thinking = draft.given(ONLY_ANTHROPIC).and_then(|own| effort_of_thinking(&own.field("thinking")));
    let is_given = match draft.given(FIELD) {
        Some(effort) => effort.as_str() != Some("none"),
        None => of_thinking.is_some_and(|effort| effort.name != "none"),
    };
    if is_given && !draft.list("tools").is_empty() && thinks_without_tools(&draft.model()) {
        draft.set(FIELD, "none".into(), FIELD);
    }
}

/// Switches thinking off if a tool is forced.
pub(super) fn stop_thinking(draft: &mut Draft) {
    let choice = draft.given("tool_choice");
    let is_forced = choice.is_some_and(|choice| match choice.as_str() {
        Some(word) => matches!(word, "required" | "any"),
        None => choice.as_object().is_some(),
    });
    if is_forced && draft.given("reasoning_effort").is_none_or(|effort| effort.as_str() != Some("none")) {
        draft.set("reasoning_effort", "none".into(), "reasoning_effort");
    }
}

/// Replaces a level of thinking by the nearest one of OpenAI's protocols, and removes it for a model that knows none.
pub(super) fn lower_level(draft: &mut Draft) {
    const FIELD: &str = "reasoning_effort";
    let Some(given) = draft.given(FIELD) else { return };
    if least_effort(&draft.model()).is_none() {
        draft.remove(FIELD);
        return;
    }
    if let Some(level) = given.as_str().and_then(Effort::of).filter(|level| level.openai != level.name) {
        draft.set(FIELD, level.openai.into(), FIELD);
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
