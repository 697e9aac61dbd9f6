//! Hosts that are killed while scripts store data, and hosts with a full disk: everything acknowledged is
//! stored, and nothing is acknowledged that could not be stored.

use super::serve::{Project, Server};
use crate::upstream::{Reply, Upstream};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use valvehouse_testkit::by_length;

/// The number of kills, without and with VALVEHOUSE_CASES.
const MIN_KILLS: usize = 3;
const MAX_KILLS: usize = 300;
/// The number of hosts that run in parallel.
const LANES: usize = 3;
/// The number of clients of each host.
const CLIENTS: usize = 4;

/// Stores the text of each request at the beginning and at the end of its turn.
const STORES: &str = r#"/*
requirements: kv
*/
fn inlet(body) {
    kv::set("in-" + body.messages[-1].text, 1);
    kv::incr("count");
    body
}
fn outlet(body) {
    let user_messages = body.messages.filter(|message| message.role == "user");
    kv::update("out-" + user_messages[-1].text, |old| 1);
    body
}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_host_loses_no_acknowledged_write() {
    let kills = by_length(MIN_KILLS, MAX_KILLS);
    let lanes = (0..LANES).map(|lane| {
        let kills = kills / LANES + usize::from(lane < kills % LANES);
        tokio::spawn(kill_often(lane, kills))
    });
    let mut acknowledged = 0;
    for lane in futures::future::join_all(lanes).await {
        acknowledged += lane.unwrap();
    }
    println!("killed {kills} hosts, {acknowledged} turns acknowledged, none of their writes lost");
    assert!(acknowledged > kills, "there was something to lose: {acknowledged}");
}

/// Kills a host repeatedly while clients use it. Returns the number of acknowledged turns.
async fn kill_often(lane: usize, kills: usize) -> usize {
    let upstream = Upstream::start().await;
    upstream.script(|request| Reply::fitting(request, "hi"));
    let project = Project::new(&upstream.url());
    project.filter("stores", STORES);
    let mut random = fastrand::Rng::with_seed(lane as u64 + 7);
    let acknowledged: Arc<Mutex<HashSet<String>>> = Arc::default();
    for kill in 0..kills {
        let mut server = project.serve().await;
        let before = acknowledged.lock().unwrap().len();
        let clients = (0..CLIENTS).map(|client| {
            let (chats, acknowledged) = (server.chats(), acknowledged.clone());
            async move {
                for turn in 0.. {
                    let text = format!("{lane}-{kill}-{client}-{turn}");
                    // Every second turn is streamed; it is acknowledged when its stream has ended.
                    match chats.answers(&text, turn % 2 == 0).await {
                        Some(true) => _ = acknowledged.lock().unwrap().insert(text),
                        Some(false) => panic!("{text} was refused"),
                        None => return,
                    }
                }
            }
        });
        let mut talking = Box::pin(futures::future::join_all(clients));
        // Waits for one acknowledged turn and then for a random time within the next ones.
        let first = async {
            while acknowledged.lock().unwrap().len() == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_micros(random.u64(0..40_000))).await;
        };
        tokio::select! {
            _ = &mut talking => panic!("nobody killed the host"),
            () = first => server.dies(),
        }
        talking.await;
        server.kill();
        let stored = project.stored("stores").await;
        let acknowledged = acknowledged.lock().unwrap();
        for text in acknowledged.iter() {
            for key in [format!("in-{text}"), format!("out-{text}")] {
                assert!(stored.contains_key(&key), "{key} was acknowledged and is lost, kill {kill}");
            }
        }
        let count = stored["count"].as_i64().unwrap_or_default();
        assert!(count >= acknowledged.len() as i64, "{count} of {} counted", acknowledged.len());
    }
    let acknowledged = acknowledged.lock().unwrap();
    acknowledged.len()
}

/// Stores as much as the message requests.
const FILLS: &str = r#"/*
requirements: kv
*/
fn inlet(body) {
    let prompt = body.messages[-1].text;
    if prompt.starts_with("fill") { let text = "x"; text.pad(60_000, "x"); kv::set(prompt, text); }
    body
}
"#;

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_with_a_full_disk_rejects_writes_with_the_reason() {
    let upstream = Upstream::start().await;
    upstream.script(|request| Reply::fitting(request, "hi"));
    let project = Project::new(&upstream.url());
    project.filter("fills", FILLS);
    // No file may grow beyond 2 MiB.
    let server: Server = project.serve_within(4096).await;
    assert!(server.is_ready().await);
    let chats = server.chats();
    let filled = AtomicUsize::new(0);
    let refused = loop {
        let turn = filled.fetch_add(1, SeqCst);
        assert!(turn < 200, "it never got full");
        let (status, body) = chats.asks(&format!("fill {turn}")).await;
        if status != 200 {
            break (status, body);
        }
    };
    let (status, body) = refused;
    assert_eq!(status, 503, "{body}");
    let error = &body["error"];
    let code = error["code"].as_str().unwrap();
    assert!(["store_full", "store_failing"].contains(&code), "{body}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("disk"), "{message}");
    assert!(!message.contains("state.db") && !message.contains('/'), "no place is named: {message}");
    assert!(!server.is_ready().await, "it is not ready for more");
    assert_eq!(chats.asks("hello").await.0, 200, "what stores nothing is answered");
    // Everything acknowledged is stored.
    let last = filled.load(SeqCst) - 1;
    drop(server);
    let stored = project.stored("fills").await;
    for turn in 0..last {
        assert!(stored.contains_key(&format!("fill {turn}")), "{turn} of {last}");
    }
}
