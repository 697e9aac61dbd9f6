//! Concurrent changes.

use super::{SHOUTS, filter_with_answer, new};
use crate::host::TestHost;
use futures::future::join_all;
use serde_json::json;

const WRITERS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_each_create_a_version_and_the_last_one_runs() {
    let host = TestHost::new().filter("shouts", filter_with_answer("first")).start().await;
    let writes = (0..WRITERS).map(|number| {
        let body = json!({"content": filter_with_answer(&format!("word {number}"))});
        let host = &host;
        async move { host.api_post("/id/shouts/update", &body).await }
    });
    let answers = join_all(writes).await;
    assert!(answers.iter().all(|answer| answer["state"] == "live"));
    let all = host.api_get("/id/shouts/history").await;
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), WRITERS + 1);
    for pair in all.windows(2) {
        assert_eq!(pair[0]["before"], pair[1]["after"], "each builds on the one before");
    }
    assert!(all[..WRITERS].iter().all(|entry| entry["by"] == "local" && entry["action"] == "update"));
    let function = host.api_get("/id/shouts").await;
    assert_eq!(function["hash"], all[0]["after"]);
    let word = host.ask("x").await.text();
    assert_eq!(function["content"], filter_with_answer(&word), "what runs is what was written last");
    assert_eq!(std::fs::read_to_string(host.path_of("shouts")).unwrap(), filter_with_answer(&word));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_twenty_concurrent_conditional_updates_succeeds() {
    let host = TestHost::new().filter("shouts", filter_with_answer("first")).start().await;
    let seen = host.api_get("/id/shouts").await["hash"].clone();
    let writes = (0..WRITERS).map(|number| {
        let body = json!({"content": filter_with_answer(&format!("word {number}")), "expected_hash": seen});
        let host = &host;
        async move { host.api("POST", "/id/shouts/update", &body).await.status }
    });
    let mut statuses = join_all(writes).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200], vec![409; WRITERS - 1]].concat());
    let made = (0..WRITERS).map(|_| {
        let (host, body) = (&host, new("fresh", SHOUTS));
        async move { host.api("POST", "/create", &body).await.status }
    });
    let mut statuses = join_all(made).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200], vec![409; WRITERS - 1]].concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_even_number_of_concurrent_toggles_leaves_a_function_unchanged() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    let switches = (0..WRITERS).map(|_| host.api_post("/id/shouts/toggle", &serde_json::Value::Null));
    let answers = join_all(switches).await;
    assert_eq!(answers.iter().filter(|answer| answer["is_active"] == false).count(), WRITERS / 2);
    assert_eq!(host.api_get("/id/shouts").await["is_active"], true);
    assert_eq!(host.api_history("shouts").await.len(), WRITERS + 1);
}
