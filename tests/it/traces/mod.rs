//! The operators' view of requests: lists, steps, the feed, tries and replays.

#[cfg(feature = "otlp")]
mod collector;
mod feed;
mod replay;
mod contents;
mod at_the_command_line;
mod dry_run;
mod stored;

use crate::host::{Answer, TestHost, until};
use serde_json::Value;

/// A text that no trace may contain unless contents were requested.
pub(crate) const CANARY: &str = "canary-7f3a";

/// Returns the trace of a response once it has ended.
pub(crate) async fn trace_of(host: &TestHost, answer: &Answer) -> Value {
    ended(host, answer.header("x-valvehouse-trace").expect("an answer names its trace")).await
}

/// Returns a trace once it has ended.
pub(crate) async fn ended(host: &TestHost, id: &str) -> Value {
    until("a trace has ended", || async { detail(host, id).await["running"] == false }).await;
    detail(host, id).await
}

pub(crate) async fn detail(host: &TestHost, id: &str) -> Value {
    let answer = host.get(&format!("/api/v1/traces/{id}")).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    answer.json()
}

/// Returns `name hook outcome` of each step.
pub(crate) fn steps(trace: &Value) -> Vec<String> {
    let steps = trace["steps"].as_array().expect("a trace has steps").iter();
    let word = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
    steps.map(|step| ["name", "hook", "outcome"].map(|key| word(step, key)).join(" ")).collect()
}

/// Returns the step of a plugin's hook.
pub(crate) fn step<'a>(trace: &'a Value, name: &str, hook: &str) -> &'a Value {
    let steps = trace["steps"].as_array().expect("a trace has steps");
    let found = steps.iter().find(|step| step["name"] == name && step["hook"] == hook);
    found.unwrap_or_else(|| panic!("no {name} {hook} in {trace:#}"))
}
