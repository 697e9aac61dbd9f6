//! The filters around models and tools, and their options.

use super::find::Kind;
use super::redact::{RedactedValue, Settings};
use crate::middleware::definition::{Middleware, Parts};
use crate::middleware::options::Options;
use crate::middleware::typed::{Pii, PiiStrategy};
use std::sync::Arc;
use valvehouse_core::error::{PluginError, Rejection};
use valvehouse_core::filter::{FilterContext, FilterEntry, Hook, Verdict};
use valvehouse_json::Json;

pub(in crate::middleware) const NAME: &str = Pii::NAME;
const BEFORE_MODELS: f64 = -2000.0;
const AROUND_TOOLS: f64 = 9000.0;

pub(in crate::middleware) fn middleware(options: &Json, _: &Parts) -> Result<Middleware, String> {
    let (mut options, default) = (Options::of(NAME, options), Pii::default());
    let strategy = options.word("strategy", &PiiStrategy::ALL, default.strategy);
    let kinds = match options.texts("kinds") {
        None => Kind::ALL.to_vec(),
        Some(names) => kinds(&names, &mut options),
    };
    let key = options.text("key", &default.key);
    options.done()?;
    // Without a configured key, hashes are stable only for the lifetime of this process.
    let key = if key.is_empty() { uuid::Uuid::new_v4().as_bytes().to_vec() } else { key.into_bytes() };
    let settings = Arc::new(Settings { strategy, kinds, key });
    let of = |part: &'static str| {
        let settings = settings.clone();
        move |ctx: &mut FilterContext| Ok(settings.look_through(ctx, part)?)
    };
    let filters = [
        FilterEntry::closure(NAME, Hook::PreChat, of("messages")).priority(BEFORE_MODELS),
        FilterEntry::closure(NAME, Hook::PreInvocation, of("args")).priority(AROUND_TOOLS),
        FilterEntry::closure(NAME, Hook::PostInvocation, of("result")).priority(AROUND_TOOLS),
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
        options.problem("has no `kinds`: list at least one, or omit the key for all");
    }
    kinds
}

impl Settings {
    fn look_through(&self, ctx: &FilterContext, part: &str) -> Result<Verdict, PluginError> {
        let value = ctx.value.field(part);
        let broke = |error: &dyn std::fmt::Display| {
            PluginError::new(format!("cannot search the {part} for personal data: {error}"))
        };
        // A copy made through text is a tree, in which repeated containers are expanded; the encoder limits its
        // size.
        let text = value.encode().map_err(|error| broke(&error))?;
        let value = Json::parse(&text).map_err(|error| broke(&error))?;
        let hidden = if part == "messages" { self.redact_in_messages(&value) } else { self.redact(&value) };
        let RedactedValue { value, found } = hidden;
        if found.is_empty() {
            return Ok(Verdict::Continue);
        }
        let found: Vec<&str> = found.into_iter().map(Kind::name).collect();
        let found = found.join(", ");
        match self.strategy {
            PiiStrategy::Block => {
                let reason = format!("cannot pass on personal data: the {part} contain it: {found}");
                return Ok(Verdict::Reject(Rejection { fatal: true, ..Rejection::new(reason) }));
            }
            PiiStrategy::Warn => {
                tracing::warn!(middleware = NAME, "personal data in the {part}: {found}");
            }
            PiiStrategy::Redact | PiiStrategy::Mask | PiiStrategy::Hash => {
                ctx.value.set(part, value).map_err(|error| broke(&error))?;
            }
        }
        Ok(Verdict::Continue)
    }
}
