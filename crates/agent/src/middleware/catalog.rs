//! The available middleware by name, and presets of it.

use super::definition::{Middleware, Parts};
use super::typed::MiddlewareSettings;
use super::{approval, call_limit, context_editing, models, pii, tool_retry};
use crate::summary::{NAME as SUMMARIZATION, Summarization};
use valvehouse_core::error::Error;
use valvehouse_core::text::did_you_mean;
use valvehouse_json::Json;

type Maker = fn(&Json, &Parts) -> Result<Middleware, String>;

const KINDS: [(&str, Maker); 8] = [
    (SUMMARIZATION, summarization),
    (call_limit::NAME, call_limit::middleware),
    (approval::NAME, approval::middleware),
    (tool_retry::NAME, tool_retry::middleware),
    (models::RETRY, models::retry),
    (models::FALLBACK, models::fallback),
    (pii::NAME, pii::middleware),
    (context_editing::NAME, context_editing::middleware),
];

impl Middleware {
    /// Creates a middleware from its name and options, an object or null.
    ///
    /// # Errors
    /// Returns a request error with every problem of the name and the options, and its fix.
    pub fn of(name: &str, options: &Json, parts: &Parts) -> Result<Self, Error> {
        let Some((_, make)) = KINDS.iter().find(|(kind, _)| *kind == name) else {
            let kinds = Self::names();
            let hint = did_you_mean(name, kinds.iter().copied());
            let problem =
                format!("unknown middleware {name:?}{hint}; known middleware: {}", kinds.join(", "));
            return Err(Error::invalid(problem, None));
        };
        let made = make(options, parts).map_err(|problems| Error::invalid(problems, None))?;
        Ok(made.with_options(options))
    }

    /// Creates a middleware from its typed form, such as [`CallLimit`](super::CallLimit).
    ///
    /// # Errors
    /// Returns a request error with every problem of the options.
    pub fn new(settings: impl Into<MiddlewareSettings>, parts: &Parts) -> Result<Self, Error> {
        let MiddlewareSettings { name, options, needs_approval, models, summary_model } = settings.into();
        let parts = Parts {
            model: parts.model.clone(),
            summary_model: summary_model.or_else(|| parts.summary_model.clone()),
            others: models.into_iter().chain(parts.others.iter().cloned()).collect(),
            needs_approval: needs_approval.or_else(|| parts.needs_approval.clone()),
        };
        Self::of(&name, &options, &parts)
    }

    /// Returns the names of all middleware.
    pub fn names() -> Vec<&'static str> {
        KINDS.iter().map(|(kind, _)| *kind).collect()
    }

    /// Returns the middleware of a preset, by name with options; `None` for an unknown preset. The presets are
    /// `default`, `minimal`, `production`, `development` and `human_in_loop`.
    pub fn preset(name: &str) -> Option<Vec<(&'static str, Json)>> {
        preset(name)
    }

    /// Returns the names of the presets.
    pub fn presets() -> [&'static str; 5] {
        PRESETS
    }
}

fn summarization(options: &Json, parts: &Parts) -> Result<Middleware, String> {
    let model = parts.summary_model.clone().or_else(|| parts.model.clone());
    let settings = Summarization { model, ..Summarization::read(options)? };
    Ok(Middleware::of_filters(SUMMARIZATION, [settings.filter()]))
}

const PRESETS: [&str; 5] = ["default", "minimal", "production", "development", "human_in_loop"];

fn preset(name: &str) -> Option<Vec<(&'static str, Json)>> {
    Some(match name {
        "default" => vec![limits(20, 50, 10), summary(20), tool_retry(3), model_retry(3)],
        "minimal" => vec![limits(20, 50, 10)],
        "production" => vec![limits(15, 30, 10), summary(15), tool_retry(2), model_retry(2)],
        "development" => {
            let limits = Json::from([("on_limit", "warn_and_continue".into())]);
            vec![(call_limit::NAME, limits), tool_retry(1)]
        }
        "human_in_loop" => {
            let approval = Json::from([("mode", "all".into()), ("timeout_action", "reject".into())]);
            vec![limits(20, 50, 10), summary(20), (approval::NAME, approval)]
        }
        _ => return None,
    })
}

fn limits(models: u64, tools: u64, tools_of_an_answer: u64) -> (&'static str, Json) {
    let options = Json::from([
        ("max_model_calls", models.into()),
        ("max_tool_calls", tools.into()),
        ("max_tool_calls_per_turn", tools_of_an_answer.into()),
    ]);
    (call_limit::NAME, options)
}

fn summary(window: u64) -> (&'static str, Json) {
    (SUMMARIZATION, Json::from([("window_size", window.into()), ("summarize", true.into())]))
}

fn tool_retry(times: u64) -> (&'static str, Json) {
    (tool_retry::NAME, Json::from([("max_retries", times.into())]))
}

fn model_retry(times: u64) -> (&'static str, Json) {
    (models::RETRY, Json::from([("max_retries", times.into())]))
}
