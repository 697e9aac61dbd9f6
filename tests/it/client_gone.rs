//! A client that disconnects ends all work for it in any state: the connection to the service is closed
//! within 100 ms.

use crate::host::{TestHost, chat_body, streaming};
use crate::upstream::{Gate, MODEL, Reply, Upstream};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LOOKS: &str = "fn stream(event) { event }\nfn outlet(body) { body }";
const HOLDS: &str = "/*\nhold: true\n*/\nfn outlet(body) { body }";
const SOON: Duration = Duration::from_millis(100);

/// Sends a request, reads up to a text and disconnects. Returns how long the service's connection stayed
/// open.
async fn leaves(
    host: &TestHost,
    service: &Upstream,
    body: &Value,
    after: Option<&str>,
    times: usize,
) -> Duration {
    let address = host.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let mut socket = TcpStream::connect(&address).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all([head, body].concat().as_bytes()).await.unwrap();
    service.wait_for_requests(times).await;
    let mut read = Vec::new();
    while after.is_some_and(|word| !String::from_utf8_lossy(&read).contains(word)) {
        assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0, "{}", String::from_utf8_lossy(&read));
    }
    let left = Instant::now();
    drop(socket);
    service.was_deserted(times).await;
    left.elapsed()
}

/// Disconnects five times and checks the median, because the machine may be busy once.
async fn is_aborted_soon(what: &str, host: &TestHost, service: &Upstream, body: &Value, after: Option<&str>) {
    let before = service.requests().len();
    let mut took = Vec::new();
    for times in 1..=5 {
        took.push(leaves(host, service, body, after, before + times).await);
    }
    took.sort();
    assert!(took[2] < SOON, "{what}: {took:?}");
}

#[tokio::test]
async fn a_disconnect_cancels_the_service_call_at_every_stage() {
    let silent = || Gate::closed();
    for source in [None, Some(LOOKS), Some(HOLDS)] {
        let setup = TestHost::new().config("[server]\nkeep_alive_ms = 20\n");
        let host = match source {
            Some(source) => setup.filter("looks", source).start().await,
            None => setup.start().await,
        };
        let service = &host.upstream;
        let held = source == Some(HOLDS);
        let word = |word| Some(word).filter(|_| !held);
        for body in [chat_body(MODEL, "hi"), streaming(MODEL, "hi")] {
            service.reply(Reply::text("never").behind(&silent()));
            is_aborted_soon(&format!("{source:?}: no headers yet"), &host, service, &body, None).await;
        }
        let body = streaming(MODEL, "hi");
        for (what, reply, after) in [
            ("no word yet", Reply::raw("text/event-stream", "").then_gate(&silent()), None),
            ("silent", Reply::begun(["one"]).then_gate(&silent()), word("one")),
            ("still there", Reply::begun(["one"]).then_gate(&silent()), word("keep-alive")),
            ("within an event", Reply::begun(["one"]).then("data: {\"i").then_gate(&silent()), word("one")),
            ("only comments", Reply::raw("text/event-stream", ": hm\n\n").then_for_ever(": hm\n\n"), None),
            (
                "talking",
                Reply::begun(["one"]).then_for_ever(
                    "data: {\"id\":\"chatcmpl-mock\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"more\"}}]}\n\n",
                ),
                word("more"),
            ),
        ] {
            service.reply(reply);
            is_aborted_soon(&format!("{source:?}: {what}"), &host, service, &body, after).await;
        }
    }
}

#[tokio::test]
async fn a_disconnect_cancels_the_http_call_of_a_tool() {
    let service = Upstream::start().await;
    service.reply(Reply::text("never").behind(&Gate::closed()));
    let url = service.url();
    let address = url.trim_start_matches("http://").trim_end_matches("/v1");
    let tool = format!("/*\nrequirements: http\n*/\nfn handler(args) {{ http::get(\"{url}/x\").text }}");
    let config = format!(
        "[[models]]\nname = \"helper\"\nprovider = \"demo\"\nmodel = \"demo\"\ntools = [\"look\"]\n[grants.look]\nhttp = [\"{address}\"]\n"
    );
    for filter in [LOOKS, HOLDS] {
        let host = TestHost::new().config(&config).tool("look", &tool).filter("looks", filter).start().await;
        for body in [chat_body("helper", "/look"), streaming("helper", "/look")] {
            is_aborted_soon(&format!("{filter}: a tool"), &host, &service, &body, None).await;
        }
        // An abandoned call does not count as a failure of the tool.
        assert_eq!(host.snapshot().plugins["look"].state_name(), "live");
    }
}
