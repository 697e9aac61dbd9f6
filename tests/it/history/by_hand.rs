//! Files that were edited by hand, by other hosts, and by hosts that died while writing.

use crate::functions::{BROKEN, SHOUTS, filter_with_answer};
use crate::host::TestHost;
use serde_json::json;

fn version(number: u64, by: &str, action: &str) -> (u64, String, String) {
    (number, by.to_owned(), action.to_owned())
}

#[tokio::test]
async fn manual_edits_become_versions_once_they_load() {
    let host = TestHost::new().filter("shouts", filter_with_answer("one")).start().await;
    host.update("shouts", &filter_with_answer("two")).await;
    host.save("shouts", BROKEN);
    host.stands("shouts", "stale").await;
    host.save("shouts", filter_with_answer("three"));
    host.stands("shouts", "live").await;
    crate::host::until("the history is written", || async { host.api_history("shouts").await.len() == 3 })
        .await;
    let all = host.api_history("shouts").await;
    assert_eq!(all, [version(3, "file", "file"), version(2, "file", "file"), version(1, "file", "file")]);
    assert_eq!(host.api_get("/id/shouts/history/2").await["content"], filter_with_answer("two"));
}

#[tokio::test]
async fn a_restart_keeps_history_and_finds_offline_edits() {
    let mut host =
        TestHost::new().filter("shouts", SHOUTS).filter("other", filter_with_answer("one")).start().await;
    host.api_post("/id/shouts/valves/update", &json!({"times": 2})).await;
    host.restart().await;
    assert_eq!(host.api_history("shouts").await.len(), 2, "nothing is new");
    host.stop().await;
    host.save("shouts", SHOUTS.replace("maximum: 3", "maximum: 4"));
    host.delete("other");
    host.restart().await;
    let all = host.api_history("shouts").await;
    assert_eq!(all, [version(3, "file", "file"), version(2, "local", "valves"), version(1, "file", "file")]);
    assert_eq!(host.api_history("other").await, [version(2, "file", "delete"), version(1, "file", "file")]);
}

/// Leaves the state of a host that died between the two writes.
#[tokio::test]
async fn an_unrecorded_write_is_found_by_the_next_scan() {
    let host = TestHost::new().filter("shouts", filter_with_answer("one")).start().await;
    host.save_by_rename("shouts", &filter_with_answer("two"));
    host.app().host.reload().await;
    assert_eq!(host.api_history("shouts").await, [version(2, "file", "file"), version(1, "file", "file")]);
    host.api_post("/id/shouts/rollback", &json!({"version": 1})).await;
    assert_eq!(host.ask("x").await.text(), "one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_on_one_folder_record_each_change_once() {
    let host = TestHost::new().filter("shouts", filter_with_answer("one")).start().await;
    let other = host.another().await;
    host.update("shouts", &filter_with_answer("two")).await;
    for number in 0..5 {
        host.api_post(
            "/id/shouts/update",
            &json!({"content": filter_with_answer(&format!("word {number}"))}),
        )
        .await;
    }
    let live = async || {
        let running = other.host.snapshot();
        let script = running.plugins["shouts"].script.clone();
        script.is_some_and(|script| *script.file.text == *filter_with_answer("word 4"))
    };
    crate::host::until("the other host follows", || async { live().await }).await;
    other.host.reload().await;
    let all = host.api_history("shouts").await;
    let numbers: Vec<u64> = all.iter().map(|(number, _, _)| *number).collect();
    assert_eq!(numbers, [7, 6, 5, 4, 3, 2, 1], "{all:?}");
    assert!(
        all[..5].iter().all(|entry| entry.1 == "local" && entry.2 == "update"),
        "whoever saw it first: {all:?}"
    );
    other.close().await;
}
