//! Hosts that are killed while a key with a budget is used: nothing that a client got is missing in the sums of the key.

use super::serve::Project;
use crate::upstream::{MODEL, Reply, Upstream, UpstreamRequest, chunk};
use serde_json::json;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;
use valvehouse::store::Store;
use valvehouse_testkit::by_length;

/// The number of kills, without and with VALVEHOUSE_CASES.
const MIN_KILLS: usize = 4;
const MAX_KILLS: usize = 100;
/// The number of clients.
const CLIENTS: usize = 6;
/// The tokens of each answer.
const TOKENS: i64 = 10;

/// Answers whole or streamed, with the tokens at the end.
fn answer(request: &UpstreamRequest) -> Reply {
    let usage = json!({"prompt_tokens": TOKENS - 1, "completion_tokens": 1, "total_tokens": TOKENS});
    if request.json()["stream"] == json!(true) {
        let end = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL,
            "choices": [], "usage": usage});
        let last = chunk(&json!({}), Some("stop"));
        return Reply::begun(["hi"]).then(format!("{last}data: {end}\n\ndata: [DONE]\n\n"));
    }
    let message = json!({"role": "assistant", "content": "hi"});
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_host_forgets_no_token_that_a_client_got() {
    let kills = by_length(MIN_KILLS, MAX_KILLS);
    let upstream = Upstream::start().await;
    upstream.script(answer);
    let project = Project::new(&upstream.url());
    project.configure("[server]\nrequire_key = true\n");
    let created = Command::new(env!("CARGO_BIN_EXE_valvehouse"))
        .args(["key", "create", "--name", "ci", "--tokens-per-day", "1G"])
        .current_dir(project.folder())
        .output()
        .unwrap();
    let key = String::from_utf8(created.stdout).unwrap().trim().to_owned();
    let answered = Arc::new(AtomicI64::new(0));
    let mut random = fastrand::Rng::with_seed(11);
    for kill in 0..kills {
        let mut server = project.serve().await;
        let before = answered.load(SeqCst);
        let clients = (0..CLIENTS).map(|client| {
            let (chats, answered) = (server.chats_with(&key), answered.clone());
            async move {
                // Half of the turns are streamed.
                for turn in client.. {
                    match chats.answers("hi", turn % 2 == 0).await {
                        Some(true) => _ = answered.fetch_add(1, SeqCst),
                        Some(false) => panic!("turn {turn} was refused"),
                        None => return,
                    }
                }
            }
        });
        let mut talking = Box::pin(futures::future::join_all(clients));
        let some_answers = async {
            while answered.load(SeqCst) == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_micros(random.u64(0..40_000))).await;
        };
        tokio::select! {
            _ = &mut talking => panic!("nobody killed the host"),
            () = some_answers => server.dies(),
        }
        talking.await;
        server.kill();
        let (counted, acknowledged) = (counted(&project).await, TOKENS * answered.load(SeqCst));
        assert!(counted >= acknowledged, "{counted} of {acknowledged} tokens counted after kill {kill}");
        // What was in progress is counted, and nothing else.
        let most = acknowledged + TOKENS * (CLIENTS * (kill + 1)) as i64;
        assert!(counted <= most, "{counted} counted, at most {most} used after kill {kill}");
    }
}

/// Returns the tokens that the sums of the key contain, in a day or, around midnight, in two.
async fn counted(project: &Project) -> i64 {
    let store = Store::sqlite(&project.folder().join(".valvehouse/state.db")).await.unwrap();
    let rows = store.kv_all().await.unwrap();
    store.close().await;
    let days =
        rows.iter().filter(|row| row.key.starts_with("ci tokens ") && row.key.matches('-').count() == 2);
    days.filter_map(|row| row.value.as_i64()).sum()
}
