//! The budget of a key under a rush at two hosts of one database.

use crate::host::{Answer, TestHost, chat_body, until};
use crate::upstream::{MODEL, Reply};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use valvehouse_testkit::postgres::Postgres;

/// The tokens of a request, and the budget in requests.
const TOKENS: u64 = 10;
const REQUESTS: u64 = 1_000;
/// The clients that ask at the same time.
const CLIENTS: u64 = 64;
/// The documented time until a host knows what the others counted, with room for a slow machine.
const EXCHANGE: Duration = Duration::from_millis(500);

async fn ask(host: &TestHost, key: &str) -> Answer {
    Answer::of(host.posting(chat_body(MODEL, "hi").to_string()).bearer_auth(key)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_exceed_the_budget_of_a_key_by_no_more_than_the_documented_bound() {
    let Some(database) = Postgres::start() else { return };
    let settings = format!(
        "[server]\nrequire_key = true\n[admin]\nkey = \"sk-operator\"\n[store]\nurl = \"{}\"\nkey = \"the same key on every host of this test\"\n",
        database.database()
    );
    let hosts = [0; 2].map(|_| TestHost::new().config(&settings));
    let hosts: Vec<Arc<TestHost>> =
        futures::future::join_all(hosts.map(|host| host.start())).await.into_iter().map(Arc::new).collect();
    for host in &hosts {
        host.upstream.script(|_| {
            let message = json!({"role": "assistant", "content": "answer"});
            Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": TOKENS - 1, "completion_tokens": 1, "total_tokens": TOKENS}}))
            .after(Duration::from_millis(50))
        });
    }
    let rights = json!({"name": "ci", "rights": {"tokens_per_day": TOKENS * REQUESTS}});
    let request = hosts[0].request("POST", "/api/v1/keys").bearer_auth("sk-operator");
    let key = Answer::of(request.body(rights.to_string())).await;
    let key = key.json()["key"].as_str().unwrap().to_owned();
    until("both hosts know the key", || async { ask(&hosts[1], &key).await.status == 200 }).await;

    // The fastest that both hosts answered within one exchange is what they can exceed it by, and what is in progress.
    let answered = Arc::new(AtomicU64::new(1));
    let began = Instant::now();
    let clients = (0..CLIENTS).map(|number| {
        let (host, key, answered) = (hosts[number as usize % 2].clone(), key.clone(), answered.clone());
        tokio::spawn(async move {
            loop {
                match ask(&host, &key).await {
                    answer if answer.status == 200 => _ = answered.fetch_add(1, Relaxed),
                    answer => return answer,
                }
            }
        })
    });
    for refused in futures::future::join_all(clients).await {
        let refused = refused.unwrap();
        assert!(refused.status == 429 && refused.body().contains("insufficient_quota"), "{}", refused.body());
    }
    let (answered, took) = (answered.load(Relaxed), began.elapsed());
    let rate = answered as f64 / took.as_secs_f64();
    let bound = REQUESTS + CLIENTS + (rate * EXCHANGE.as_secs_f64()).ceil() as u64;
    assert!((REQUESTS..=bound).contains(&answered), "{answered} answered of {REQUESTS}, at most {bound}");

    // Nothing that was answered is missing in the sum.
    until("the sums are complete", || async {
        let sums = hosts.iter().map(|host| async {
            let request = host.request("GET", "/api/v1/keys/ci").bearer_auth("sk-operator");
            Answer::of(request).await.json()["use"]["tokens_today"].as_u64()
        });
        futures::future::join_all(sums).await.iter().all(|sum| *sum == Some(answered * TOKENS))
    })
    .await;
}
