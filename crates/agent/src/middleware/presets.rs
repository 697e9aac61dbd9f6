//! Middleware that goes well together.

use super::{approval, call_limit, models, tool_retry};
use crate::summary;
use valvehouse_json::Json;

pub(super) const NAMES: [&str; 5] = ["default", "minimal", "production", "development", "human_in_loop"];

pub(super) fn named(name: &str) -> Option<Vec<(&'static str, Json)>> {
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
    (summary::NAME, Json::from([("window_size", window.into()), ("summarize", true.into())]))
}

fn tool_retry(times: u64) -> (&'static str, Json) {
    (tool_retry::NAME, Json::from([("max_retries", times.into())]))
}

fn model_retry(times: u64) -> (&'static str, Json) {
    (models::RETRY, Json::from([("max_retries", times.into())]))
}
