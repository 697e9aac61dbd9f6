use super::CANARY;
use crate::host::{TIMEOUT, TestHost, streaming};
use crate::upstream::MODEL;
use serde_json::{Value, json};
use std::future::Future;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use valvehouse::app::App;
use valvehouse::config::Config;
use valvehouse::server::NewConnections;

/// A client of the event feed.
struct Feed {
    response: reqwest::Response,
    buffer: String,
}

impl Feed {
    async fn open(host: &TestHost) -> Self {
        let response = host.request("GET", "/api/v1/events").send().await.unwrap();
        let mut feed = Self { response, buffer: String::new() };
        feed.until("valvehouse events").await;
        feed
    }

    async fn until(&mut self, word: &str) {
        while !self.buffer.contains(word) {
            let chunk = in_time(self.response.chunk()).await.unwrap().expect("the feed goes on");
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Returns the next event with a name and skips the events before it.
    async fn next(&mut self, name: &str) -> Value {
        loop {
            self.until("\n\n").await;
            let (event, rest) = self.buffer.split_once("\n\n").unwrap();
            let data = event.strip_prefix(&format!("event: {name}\ndata: ")).map(str::to_owned);
            self.buffer = rest.to_owned();
            if let Some(data) = data {
                return serde_json::from_str(&data).unwrap();
            }
        }
    }
}

async fn in_time<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(TIMEOUT, work).await.expect("what is waited for comes")
}

#[tokio::test]
async fn the_feed_sends_requests_events_generations_and_metrics() {
    let emits = r#"fn inlet(body) { emit(#{ type: "status", data: body.messages[-1].content }); body }"#;
    let host = TestHost::new().filter("emits", emits).start().await;
    let mut feed = Feed::open(&host).await;
    let id = |answer: &crate::host::Answer| answer.header("x-valvehouse-trace").unwrap().to_owned();
    let first = id(&host.chat(&streaming(MODEL, CANARY)).await);
    let begun = feed.next("begun").await;
    assert_eq!(
        (&begun["id"], &begun["running"], &begun["endpoint"]),
        (&json!(first), &json!(true), &json!("chat"))
    );
    let emitted = feed.next("emitted").await;
    assert_eq!(emitted, json!({"trace": first, "plugin": "emits", "type": "status", "event": null}));
    let ended = feed.next("ended").await;
    assert_eq!(
        (&ended["id"], &ended["running"], &ended["status"]),
        (&json!(first), &json!(false), &json!(200))
    );
    // Metrics may have been sent during the request, before its call was counted.
    while feed.next("metrics").await["plugins"]["emits"]["calls"] != 1 {}
    host.save("new", "fn inlet(body) { body }");
    let snapshot = feed.next("snapshot").await;
    assert_eq!(snapshot["changes"], json!([{"what": "loaded", "id": "new"}]));
    assert!(snapshot["generation"].as_u64() > ended["generation"].as_u64());
    assert!(!feed.buffer.contains(CANARY));
    // With contents, the event is complete.
    host.app().traces.keep_contents("emits", true);
    host.chat(&streaming(MODEL, CANARY)).await;
    assert_eq!(feed.next("emitted").await["event"], json!({"type": "status", "data": CANARY}));
}

#[tokio::test]
async fn a_slow_reader_of_the_feed_receives_a_lost_event_and_continues() {
    let host = TestHost::new().start().await;
    let mut feed = Feed::open(&host).await;
    // The client does not read these.
    for _ in 0..20_000 {
        host.app().traces.begin(valvehouse::trace::RequestFacts::default(), false).done();
    }
    let lost = feed.next("lost").await;
    assert!(lost["missed"].as_u64() > Some(0), "{lost}");
    let last = host.app().traces.past()[0].id.clone();
    while feed.next("ended").await["id"] != last.as_str() {}
}

#[tokio::test]
async fn a_host_stops_while_the_feed_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let app = App::open(Config::load_with(folder.path(), [], &[]).unwrap()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/api/v1/events", listener.local_addr().unwrap());
    let (shutdown, stopped) = oneshot::channel::<()>();
    let until = async {
        drop(stopped.await);
        NewConnections::Rejected
    };
    let serving = valvehouse::server::serve(listener, app.clone(), until);
    let serving = tokio::spawn(serving);
    let mut response = crate::host::client().get(url).send().await.unwrap();
    assert!(in_time(response.chunk()).await.unwrap().is_some());
    shutdown.send(()).unwrap();
    while in_time(response.chunk()).await.unwrap().is_some() {}
    in_time(serving).await.unwrap().unwrap();
    in_time(app.close()).await;
}

#[tokio::test]
async fn traces_and_feed_are_for_operators() {
    let host = TestHost::new().config("[admin]\nkey = \"sk-admin\"").start().await;
    for path in ["/api/v1/events", "/api/v1/traces", "/api/v1/traces/x", "/api/v1/traces/contents"] {
        host.get(path).await.refused(401, "operators");
    }
    let open = host.request("GET", "/api/v1/traces").header("authorization", "Bearer sk-admin");
    assert_eq!(crate::host::Answer::of(open).await.status, 200);
}
