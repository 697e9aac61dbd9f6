//! The filters around models and tools, and their options.

use super::find::Kind;
use super::hide::{RedactedValue, Settings, Strategy};
use crate::middleware::definition::{Middleware, Parts};
use crate::middleware::options::Options;
use std::sync::Arc;
use valvehouse_core::error::{PluginError, Rejection};
use valvehouse_core::filter::{Filter, FilterContext, Verdict};
use valvehouse_json::Json;

pub(in crate::middleware) const NAME: &str = "pii";
const BEFORE_MODELS: f64 = -2000.0;
const AROUND_TOOLS: f64 = 9000.0;

pub(in crate::middleware) fn middleware(options: &Json, _: &Parts) -> Result<Middleware, String> {
    let mut options = Options::of(NAME, options);
    let strategies = [
        ("warn", Strategy::Warn),
        ("block", Strategy::Block),
        ("redact", Strategy::Redact),
        ("mask", Strategy::Mask),
        ("hash", Strategy::Hash),
    ];
    let strategy = options.word("strategy", &strategies, Strategy::Warn);
    let kinds = match options.texts("kinds") {
        None => Kind::ALL.to_vec(),
        Some(names) => kinds(&names, &mut options),
    };
    let key = options.text("key", "");
    options.done()?;
    // Without a configured key, hashes are stable only for the lifetime of this process.
    let key = if key.is_empty() { uuid::Uuid::new_v4().as_bytes().to_vec() } else { key.into_bytes() };
    let settings = Arc::new(Settings { strategy, kinds, key });
    let of = |part: &'static str| {
        let settings = settings.clone();
        move |ctx: FilterContext| settings.look_through(ctx, part)
    };
    let filters = [
        Filter::pre_chat(NAME, of("messages")).priority(BEFORE_MODELS),
        Filter::pre_invocation(NAME, of("args")).priority(AROUND_TOOLS),
        Filter::post_invocation(NAME, of("result")).priority(AROUND_TOOLS),
    ];
    Ok(Middleware::of_filters(NAME, filters))
}

fn kinds(names: &[String], options: &mut Options<'_>) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for name in names {
        match Kind::ALL.into_iter().find(|kind| kind.name() == name) {
            Some(kind) => kinds.push(kind),
            None => {
                let known = Kind::ALL.map(Kind::name).join(", ");
                options.problem(format!("has the unknown kind {name:?} in `kinds`: use {known}"));
            }
        }
    }
    if names.is_empty() {
        options.problem("has no `kinds` to look for: list some, or leave the key out for all");
    }
    kinds
}

impl Settings {
    fn look_through(&self, ctx: FilterContext, part: &str) -> Result<Verdict, PluginError> {
        let value = ctx.value.field(part);
        let broke = |error: &dyn std::fmt::Display| {
            PluginError::new(format!("cannot search the {part} for personal data: {error}"))
        };
        // A copy made through text is a tree, in which repeated containers are expanded; the encoder limits its
        // size.
        let text = value.encode().map_err(|error| broke(&error))?;
        let value = Json::parse(&text).map_err(|error| broke(&error))?;
        let hidden = if part == "messages" { self.hide_in_messages(&value) } else { self.hide(&value) };
        let RedactedValue { value, found } = hidden;
        if found.is_empty() {
            return Ok(Verdict::Continue(ctx));
        }
        let found: Vec<&str> = found.into_iter().map(Kind::name).collect();
        let found = found.join(", ");
        match self.strategy {
            Strategy::Block => {
                let told = format!("cannot pass on personal data: the {part} contain it: {found}");
                return Ok(Verdict::Reject(Rejection { fatal: true, ..Rejection::new(told) }));
            }
            Strategy::Warn => {
                tracing::warn!(middleware = NAME, "personal data in the {part}: {found}");
            }
            Strategy::Redact | Strategy::Mask | Strategy::Hash => {
                ctx.value.set(part, value).map_err(|error| broke(&error))?;
            }
        }
        Ok(Verdict::Continue(ctx))
    }
}
