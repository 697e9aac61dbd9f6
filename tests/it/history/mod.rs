//! The history of plugins: every change with its author, the differences between versions, and the rollback
//! to each of them.

mod by_hand;
mod commands;
mod rollback;

use crate::functions::{SHOUTS, filter_with_answer};
use crate::host::TestHost;
use serde_json::{Value, json};

#[tokio::test]
async fn every_change_is_listed_with_author_time_and_content() {
    let host = TestHost::new().filter("shouts", filter_with_answer("one")).start().await;
    host.api_post("/id/shouts/update", &json!({"content": SHOUTS})).await;
    host.api_post("/id/shouts/valves/update", &json!({"times": 2, "word": "ho"})).await;
    host.api_post("/id/shouts/valves/update", &json!({"times": 3})).await;
    host.api_post("/id/shouts/valves/update", &json!({"times": 3})).await;
    host.api_post("/id/shouts/toggle", &Value::Null).await;
    let all = host.api_get("/id/shouts/history").await;
    let all = all.as_array().unwrap();
    let changes: Vec<_> =
        all.iter().map(|entry| (&entry["version"], &entry["action"], &entry["valves_changed"])).collect();
    assert_eq!(
        changes,
        [
            (&json!(5), &json!("toggle"), &json!([])),
            (&json!(4), &json!("valves"), &json!(["word", "times"])),
            (&json!(3), &json!("valves"), &json!(["word", "times"])),
            (&json!(2), &json!("update"), &json!([])),
            (&json!(1), &json!("file"), &json!([])),
        ],
        "what changes nothing is not listed"
    );
    assert_eq!((&all[4]["before"], &all[3]["before"]), (&Value::Null, &all[4]["after"]));
    assert_eq!(all[3]["after"].as_str().unwrap().len(), 64);
    assert!(all.iter().all(|entry| entry["at"].as_i64().unwrap() > 1_700_000_000));
    let by: Vec<&str> = all.iter().map(|entry| entry["by"].as_str().unwrap()).collect();
    assert_eq!(by, ["local", "local", "local", "local", "file"]);
}

#[tokio::test]
async fn a_version_shows_its_difference_from_the_previous_and_the_current_one() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    let longer = SHOUTS.replace("maximum: 3", "maximum: 9");
    host.api_post("/id/shouts/update", &json!({"content": longer})).await;
    host.api_post("/id/shouts/valves/update", &json!({"times": 7, "token": "canary-7"})).await;
    let second = host.api_get("/id/shouts/history/2").await;
    assert_eq!((&second["content"], &second["action"]), (&json!(longer), &json!("update")));
    let diff = second["diff"].as_str().unwrap();
    assert!(diff.starts_with("--- version 1\n+++ version 2\n@@ "), "{diff}");
    assert!(diff.contains("\n-    times: #{ value: 1, minimum: 1, maximum: 3 },\n+    times: #{ value: 1, minimum: 1, maximum: 9 },\n"));
    assert_eq!(second["valves_diff"], json!([]));
    let third = host.api_get("/id/shouts/history/3").await;
    assert_eq!((&third["diff"], &third["valves"]), (&json!(""), &json!({"times": 7, "token": "********"})));
    let set = json!([
        {"key": "times", "before": null, "after": 7},
        {"key": "token", "before": null, "after": "********"},
    ]);
    assert_eq!(third["valves_diff"], set);
    let back = host.api_get("/id/shouts/history/1?against=current").await;
    let diff = back["diff"].as_str().unwrap();
    assert!(
        diff.contains("\n+    times: #{ value: 1, minimum: 1, maximum: 3 },\n"),
        "what going back changes: {diff}"
    );
    assert_eq!(back["valves_diff"][0], json!({"key": "times", "before": 7, "after": null}));
    let first = host.api_get("/id/shouts/history/1").await;
    assert!(first["diff"].as_str().unwrap().starts_with("--- nothing\n+++ version 1\n"), "{first}");
    host.api("GET", "/id/shouts/history/9", &Value::Null).await.denied(404, "stored versions: 1 to 3");
    host.api("GET", "/id/shouts/history/x", &Value::Null).await.denied(400, "whole number");
    host.api("GET", "/id/shouts/history/1?against=them", &Value::Null).await.denied(400, "`against`");
}

#[tokio::test]
async fn a_function_that_never_loaded_has_no_history_yet() {
    let host = TestHost::new().filter("never", crate::functions::BROKEN).start().await;
    assert_eq!(host.api_get("/id/never/history").await, json!([]));
    host.api("GET", "/id/never/history/1", &Value::Null).await.denied(404, "unknown version 1");
}
