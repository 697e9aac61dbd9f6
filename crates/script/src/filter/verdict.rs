//! From what a hook returned to the chain's verdict.

use crate::answer::Answered;
use crate::hooks::subject_name;
use crate::problem::summary_of_run;
use crate::script::Script;
use crate::value::{List, Map, Shape, json_of};
use rhai::Dynamic;
use valvehouse_core::fault::{Breakage, Refusal};
use valvehouse_core::figures::Ending;
use valvehouse_core::filter::{FilterContext, Hook, OnBreak, Verdict, wrong_events};
use valvehouse_json::{Json, MAX_DEPTH, Object};

/// How a hook's own value is held.
pub(super) const fn shape_of(hook: Hook) -> Shape {
    match hook {
        Hook::Inlet | Hook::Outlet => Shape::Body,
        Hook::Stream | Hook::StreamEnd => Shape::Event,
        Hook::PreChat | Hook::PostChat | Hook::PreInvocation | Hook::PostInvocation => Shape::Ctx,
    }
}

pub(super) fn verdict(
    script: &Script,
    hook: Hook,
    ctx: FilterContext,
    value: &Dynamic,
) -> Result<Verdict, Breakage> {
    if let Some(answer) = value.read_lock::<Answered>() {
        return match &*answer {
            Answered::Skip(value) => Ok(Verdict::Skip(value.clone())),
            Answered::Error(refusal) => Ok(Verdict::Error(refusal.clone())),
            Answered::Ok(value, _) => go_on(script, hook, ctx, Some(value.clone())),
        };
    }
    if value.is_unit() {
        return go_on(script, hook, ctx, None);
    }
    let is_map = value.is_map() || value.is::<Map>();
    let is_list = value.is_array() || value.is::<List>();
    let fits = is_map || (is_list && matches!(hook, Hook::Stream | Hook::StreamEnd));
    // `stream_end` may end on a bare text, which is its last piece.
    let text = hook == Hook::StreamEnd && value.is_string();
    if !fits && !text {
        let misfit = wrong(script, hook, &format!("returned {}", article(value.type_name())));
        let hint = "what its last line gives counts, with a `;` behind it as well";
        return Err(Breakage::new(format!("{}; {hint}", misfit.cause)));
    }
    let value = json_of(value).map_err(|error| {
        let why = summary_of_run(&error);
        wrong(script, hook, &format!("returned what cannot be used: {why}"))
    })?;
    go_on(script, hook, ctx, Some(value))
}

/// The chain would refuse the same; here it is counted as broken, and the file is named.
pub(super) fn with_events(script: &Script, hook: Hook, verdict: Verdict) -> Result<Verdict, Breakage> {
    match wrong_events(hook, &verdict) {
        Some(what) => Err(wrong(script, hook, &what)),
        None => Ok(verdict),
    }
}

fn go_on(
    script: &Script,
    hook: Hook,
    ctx: FilterContext,
    returned: Option<Json>,
) -> Result<Verdict, Breakage> {
    let ctx = match returned {
        Some(value) if shape_of(hook) == Shape::Ctx => merge(ctx, &value),
        Some(value) => FilterContext { value, ..ctx },
        None if hook == Hook::StreamEnd => FilterContext { value: Json::array(), ..ctx },
        None => ctx,
    };
    let needs_messages = matches!(hook, Hook::Inlet | Hook::Outlet | Hook::PreChat);
    let has_messages = |body: &Object| body.with("messages", |it| matches!(it, Some(Json::Array(_))));
    if needs_messages && !ctx.value.as_object().is_some_and(has_messages) {
        let kind = ctx.messages().kind();
        return Err(wrong(script, hook, &format!("left `messages` as {kind}; it must be an array")));
    }
    if hook == Hook::PreInvocation && !matches!(ctx.args(), Json::Object(_)) {
        let kind = ctx.args().kind();
        return Err(wrong(script, hook, &format!("left `args` as {kind}; it must be a map")));
    }
    Ok(Verdict::Continue(ctx))
}

fn wrong(script: &Script, hook: Hook, what: &str) -> Breakage {
    let subject = subject_name(hook).unwrap_or("events");
    Breakage::new(format!(
        "{}: {hook} {what}; it returns `{subject}`, nothing, or skip(…)/error(…)",
        script.file.path.display()
    ))
}

/// How a call ended, as the chain takes it.
pub(super) fn ending(script: &Script, hook: Hook, verdict: &Result<Verdict, Breakage>) -> Ending {
    let forgives = script.manifest.on_break == OnBreak::Continue;
    match verdict {
        Ok(Verdict::Continue(_)) => Ending::Continued,
        Ok(Verdict::Skip(_)) => Ending::Skipped,
        Ok(Verdict::Error(_)) if forgives && !hook.is_before() => Ending::RefusalForgiven,
        Ok(Verdict::Error(_)) => Ending::Refused,
        Err(_) if forgives => Ending::BreakageForgiven,
        Err(_) => Ending::Broken,
    }
}

/// A returned ctx: its fields take the place of those of the same name.
fn merge(ctx: FilterContext, returned: &Json) -> FilterContext {
    let same = matches!((&ctx.value, returned), (Json::Object(a), Json::Object(b)) if a.is_same(b));
    if !same && let Json::Object(fields) = returned {
        for (name, value) in fields.entries() {
            ctx.value.edit(&name, value);
        }
    }
    ctx
}

/// Returns `true` if any text of a value is longer than this, in bytes.
pub(super) fn has_text_above(value: &Json, limit: usize, depth: usize) -> bool {
    match value {
        Json::Text(text) => text.len() > limit,
        _ if depth > MAX_DEPTH => false,
        Json::Array(items) => {
            items.with(|items| items.iter().any(|item| has_text_above(item, limit, depth + 1)))
        }
        Json::Object(fields) => {
            let mut any = false;
            fields.for_each(|_, value| any = any || has_text_above(value, limit, depth + 1));
            any
        }
        _ => false,
    }
}

pub(super) fn too_long(limit: usize) -> Refusal {
    Refusal::new(format!(
        "cannot read a text of the request: it is longer than {} MB, the limit of [server] max_text_mb; shorten it, or raise the limit",
        limit >> 20
    ))
    .with_status(413)
}

fn article(type_name: &str) -> String {
    let short = type_name.rsplit("::").next().unwrap_or(type_name);
    let word = match short {
        "i64" => "a whole number",
        "f64" => "a number",
        "bool" => "true or false",
        "ImmutableString" | "string" | "String" => "a string",
        "Vec<rhai::types::dynamic::Dynamic>" | "array" | "List" => "an array",
        "FnPtr" => "a function",
        other => other,
    };
    word.to_owned()
}
