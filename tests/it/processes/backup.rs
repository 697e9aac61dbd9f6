//! Backups of a running host's store, and the way back.

use crate::cli::Project;
use crate::host::{TIMEOUT, client};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// Counts its requests durably, and refuses all of them if its valve says so.
const COUNTS: &str = "/*
requirements: kv
*/
const Valves = #{ word: #{ value: \"\", secret: true } };
fn inlet(body, valves) { return skip(`${valves.word} ${kv::incr(\"n\")}`); }
";
const CONFIG: &str = "[[providers]]\nname = \"demo\"\nkind = \"demo\"\nmodels = \"*\"\n";

/// Sends a chat, and returns its answer.
async fn ask(url: &str) -> Option<String> {
    let body = json!({"model": "demo", "messages": [{"role": "user", "content": "x"}]});
    let request = client().post(format!("{url}/v1/chat/completions")).timeout(TIMEOUT);
    let answer =
        request.header("content-type", "application/json").body(body.to_string()).send().await.ok()?;
    let answer: serde_json::Value = serde_json::from_str(&answer.text().await.ok()?).ok()?;
    answer["choices"][0]["message"]["content"].as_str().map(str::to_owned)
}

fn number_in(answer: &str) -> i64 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_busy_host_is_restored_with_all_that_was_acknowledged_and_its_secrets() {
    let project = Project::new().with("valvehouse.toml", CONFIG).filter("counts", COUNTS);
    let server = project.serve("");
    project.run("valves set counts word=secret-word").ends(0);
    let (acknowledged, url) = (Arc::new(AtomicI64::new(0)), server.url());
    let counter = acknowledged.clone();
    let chats = tokio::spawn(async move {
        while let Some(answer) = ask(&url).await {
            counter.store(number_in(&answer), SeqCst);
        }
    });
    while acknowledged.load(SeqCst) < 5 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let before = acknowledged.load(SeqCst);
    project.run("store backup backup.db").ends(0).prints("its key is in backup.key; keep both");
    let after = acknowledged.load(SeqCst);
    project.run("store backup backup.db").ends(69).stderr_has("it exists; name a new file");
    project.run("store restore backup.db").ends(69).stderr_has("a host is running at");
    project.run("store check").ends(0).prints("the store is sound");
    server.last_words();
    chats.await.unwrap();

    let other = Project::new().with("valvehouse.toml", CONFIG).filter("counts", COUNTS);
    for file in ["backup.db", "backup.key"] {
        std::fs::copy(project.path(file), other.path(file)).unwrap();
    }
    for (project, is_kept) in [(&other, false), (&project, true)] {
        let restored = project.run("store restore backup.db").ends(0);
        assert_eq!(restored.out.contains("state-before-restore-"), is_kept, "{}", restored.out);
        let server = project.serve("");
        let answer = ask(&server.url()).await.unwrap();
        assert!(answer.starts_with("secret-word "), "{answer}");
        let number = number_in(&answer);
        assert!((before + 1..=after + 2).contains(&number), "{before} {after} {number}");
    }
}

#[test]
fn a_check_of_a_damaged_store_fails() {
    let project = Project::new().with("valvehouse.toml", CONFIG).filter("counts", COUNTS);
    project.run("store check").ends(69).stderr_has("there is no such file");
    project.run("valves set counts word=secret-word").ends(0);
    project.run("store check").ends(0).prints("encrypted value").prints("the store is sound");
    let file = project.path(".valvehouse/state.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let (middle, page) = (bytes.len() / 2, 4096);
    bytes[middle..middle + page].fill(0xa5);
    std::fs::write(&file, bytes).unwrap();
    let checked = project.run("store check");
    assert_ne!(checked.code, 0, "{}", checked.out);
    let postgres = "store backup b.db --set store.url=postgres://ann@localhost/x --set store.key=0123456789012345678901234567890123456789";
    project.run(postgres).ends(69).stderr_has("pg_dump");
}
