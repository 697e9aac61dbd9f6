//! Services that fail, send wrong data or send nothing: for any bytes from the socket, the client receives
//! one well-formed response or one error within a short time, and the connection to the service is closed.

use crate::host::{Answer, TIMEOUT, TestHost};
use crate::upstream::{Reply, chunk};
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;

const LOOKS: &str = "fn stream(event) { event }\nfn outlet(body) { body }";
const EVENTS: &str = "text/event-stream";

/// The result that a client received.
#[derive(Debug, PartialEq)]
enum Got {
    /// A complete response with this text.
    Text(String),
    /// This text, followed by an error that contains the second text.
    Cut(String, String),
    /// An error with this status that contains this text.
    Refused(u16, String),
}

impl Got {
    fn of(answer: &Answer, looked: bool) -> Self {
        if answer.status != 200 {
            return Self::Refused(answer.status, answer.message());
        }
        if !answer.is_stream() {
            return Self::Text(answer.text());
        }
        // Without a filter, only the end of the stream comes from the host.
        let events = if looked { answer.events() } else { crate::well_formed::lines_of(answer.body()) };
        let words = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
        let text: String = words.collect();
        let errors: Vec<&Value> = events.iter().filter(|event| !event["error"].is_null()).collect();
        match errors.as_slice() {
            [] => Self::Text(text),
            [error] => Self::Cut(text, error["error"]["message"].as_str().unwrap().to_owned()),
            _ => panic!("more than one error: {}", answer.body()),
        }
    }

    fn is_like(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Text(got), Self::Text(text)) => got == text,
            (Self::Cut(got, why), Self::Cut(text, words)) => got == text && why.contains(words),
            (Self::Refused(got, why), Self::Refused(status, words)) => got == status && why.contains(words),
            _ => false,
        }
    }
}

fn text(text: &str) -> Got {
    Got::Text(text.to_owned())
}

fn cut(text: &str, words: &str) -> Got {
    Got::Cut(text.to_owned(), words.to_owned())
}

fn refused(status: u16, words: &str) -> Got {
    Got::Refused(status, words.to_owned())
}

/// Two hosts with short timeouts for their service: one without a filter, and one with a filter that reads the stream.
struct Hosts([TestHost; 2]);

impl Hosts {
    async fn start() -> Self {
        Self::with("response_ms = 2000, idle_ms = 1000").await
    }

    async fn with(timeouts: &str) -> Self {
        let setup = || TestHost::new().provider(&format!("timeouts = {{ {timeouts} }}"));
        Self([setup().start().await, setup().filter("looks", LOOKS).start().await])
    }

    /// Checks that both hosts give the same result.
    async fn both(&self, what: &str, reply: Reply, expected: Got) {
        self.each(what, reply, &expected, &expected).await;
    }

    /// Checks the results of the two hosts.
    async fn each(&self, what: &str, reply: Reply, relayed: &Got, looked_at: &Got) {
        let [relays, looks] = &self.0;
        let got = async |host: &TestHost, looked: bool, expected: &Got| {
            host.upstream.reply(reply.clone());
            let answer = host.stream("hi").await;
            let got = Got::of(&answer, looked);
            assert!(
                got.is_like(expected),
                "{what}, looked at: {looked}: {got:?} instead of {expected:?}\n{}",
                answer.body()
            );
        };
        tokio::join!(got(relays, false, relayed), got(looks, true, looked_at));
    }
}

fn end() -> String {
    chunk(&json!({}), Some("stop")) + "data: [DONE]\n\n"
}

fn text_chunk(word: &str) -> String {
    chunk(&json!({"content": word}), None)
}

/// Returns a complete stream of one word.
fn one() -> String {
    chunk(&json!({"role": "assistant", "content": "one"}), None) + end().as_str()
}

fn whole(text: &str) -> Value {
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
}

#[tokio::test]
async fn an_interrupted_stream_ends_in_one_error() {
    let hosts = Hosts::start().await;
    hosts.both("cut between events", Reply::begun(["one"]).then_cut(), cut("one", "ended early")).await;
    hosts
        .both(
            "cut within",
            Reply::begun(["one"]).then("data: {\"id\":").then_cut(),
            cut("one", "ended early"),
        )
        .await;
    hosts.both("ends without an end", Reply::begun(["one"]), cut("one", "ended early")).await;
    hosts.both("ends within", Reply::begun(["one"]).then("data: {\"id\":"), cut("one", "ended early")).await;
    hosts.both("cut before anything", Reply::bytes(EVENTS, "").then_cut(), refused(502, "ended early")).await;
    let only_one = [(0, None), (1, None), (0, Some("stop"))].map(|(index, why)| {
        let delta = if why.is_some() { json!({}) } else { json!({"role": "assistant", "content": "one"}) };
        let choice = json!({"index": index, "delta": delta, "finish_reason": why});
        let event = json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice]});
        format!("data: {event}\n\n")
    });
    let reply = Reply::raw(EVENTS, only_one.concat());
    hosts.both("one of two choices is cut", reply.clone(), cut("oneone", "ended early")).await;
    let done = reply.then("data: [DONE]\n\n");
    hosts
        .each("one of two has no end", done, &text("oneone"), &cut("oneone", "choice 1 ended without"))
        .await;
}

#[tokio::test]
async fn a_silent_stream_ends_in_one_error() {
    let hosts = Hosts::with("response_ms = 1500, idle_ms = 300").await;
    let long = Duration::from_secs(30);
    hosts
        .both(
            "stalls",
            Reply::begun(["one"]).then_pause(long),
            cut("one", "sent no further part of its response within 0.3 s"),
        )
        .await;
    hosts
        .both(
            "stalls within",
            Reply::begun(["one"]).then("data: {").then_pause(long),
            cut("one", "sent no further part"),
        )
        .await;
    hosts
        .both(
            "says nothing",
            Reply::begun(["one"]).after(long),
            refused(504, "sent no response within 1.5 s"),
        )
        .await;
    hosts
        .both("says no byte", Reply::raw(EVENTS, "").then_pause(long), refused(504, "sent no response"))
        .await;
}

#[tokio::test]
async fn invalid_json_in_a_stream_is_one_error_if_a_filter_reads_it() {
    let hosts = Hosts::start().await;
    let broken = Reply::begun(["one"]).then("data: {\"id\": nonsense}\n\n").then(end());
    let host = &hosts.0[1];
    host.upstream.reply(broken);
    let got = Got::of(&host.stream("hi").await, true);
    assert!(got.is_like(&cut("one", "not valid JSON")), "{got:?}");
    let reply = Reply::bytes(
        EVENTS,
        &b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xff\"}}]}\n\n"[..],
    );
    host.upstream.reply(reply);
    let got = Got::of(&host.stream("hi").await, true);
    assert!(got.is_like(&refused(502, "not valid JSON")), "{got:?}");
}

#[tokio::test]
async fn an_error_body_with_a_success_status_is_an_error() {
    let hosts = Hosts::start().await;
    let error = json!({"error": {"message": "busy", "code": 429}});
    hosts.both("JSON", Reply::json(&error), refused(429, "busy")).await;
    hosts
        .both("JSON under the name of events", Reply::raw(EVENTS, error.to_string()), refused(429, "busy"))
        .await;
    let event = format!("data: {error}\n\n");
    hosts.each("an event", Reply::raw(EVENTS, event.clone()), &cut("", "busy"), &refused(429, "busy")).await;
    hosts.both("an event later", Reply::begun(["one"]).then(event.clone()), cut("one", "busy")).await;
    let named = format!("event: error\n{event}");
    hosts.both("a named event", Reply::begun(["one"]).then(named), cut("one", "busy")).await;
    let finish = chunk(&json!({}), Some("stop"));
    let late = Reply::begun(["one"]).then(finish).then(event).then("data: [DONE]\n\n");
    hosts.both("an event after the end", late, cut("one", "busy")).await;
    for (looked, host) in [false, true].into_iter().zip(&hosts.0) {
        host.upstream.reply(Reply::json(&error));
        assert!(Got::of(&host.ask("hi").await, looked).is_like(&refused(429, "busy")));
    }
}

#[tokio::test]
async fn the_body_of_an_answer_outweighs_its_content_type() {
    let hosts = Hosts::start().await;
    hosts
        .both("a page", Reply::raw("text/html", "<html>Welcome</html>"), refused(502, "text/html instead of"))
        .await;
    hosts
        .both("an unnamed page", Reply::raw("text/plain", "Welcome"), refused(502, "text/plain instead of"))
        .await;
    hosts.both("events as text", Reply::raw("text/plain", one()), text("one")).await;
    hosts.both("events as JSON", Reply::raw("application/json", one()), text("one")).await;
    hosts.both("a whole answer", Reply::json(&whole("one two")), text("one two")).await;
    hosts.both("a whole answer as events", Reply::raw(EVENTS, whole("one").to_string()), text("one")).await;
    hosts.both("nothing as JSON", Reply::raw("application/json", ""), refused(502, "it is empty")).await;
    hosts.both("nothing", Reply::raw(EVENTS, ""), refused(502, "it is empty")).await;
    let end = Reply::raw(EVENTS, "data: [DONE]\n\n");
    hosts.each("only an end", end, &text(""), &refused(502, "without a response")).await;
    for (looked, host) in [false, true].into_iter().zip(&hosts.0) {
        host.upstream.reply(Reply::raw(EVENTS, one()));
        assert_eq!(Got::of(&host.ask("hi").await, looked), text("one"), "a stream that was not requested");
        host.upstream.reply(Reply::raw("text/html", "<html>Welcome</html>"));
        assert!(Got::of(&host.ask("hi").await, looked).is_like(&refused(502, "text/html instead of")));
    }
}

#[tokio::test]
async fn every_line_ending_is_read() {
    let hosts = Hosts::start().await;
    for (name, change) in [
        ("CRLF", (|text| text.replace('\n', "\r\n")) as fn(String) -> String),
        ("CR", |text| text.replace('\n', "\r")),
        ("a mark", |text| format!("\u{feff}{text}")),
        ("a mark and CR", |text| format!("\u{feff}{}", text.replace('\n', "\r"))),
        ("no last line", |text| text.trim_end().to_owned()),
        ("no last word", |text| text.replace("data: [DONE]", "").trim_end().to_owned()),
        ("comments", |text| text.replace("data:", ": hm\n\ndata:")),
        ("no spaces", |text| text.replace("data: ", "data:")),
        ("names and ids", |text| text.replace("data:", "id: 7\nretry: 3\nevent: message\ndata:")),
    ] {
        let body = change(one());
        hosts.both(name, Reply::raw(EVENTS, body.clone()), text("one")).await;
        hosts.both(name, Reply::raw(EVENTS, body).in_pieces_of(1), text("one")).await;
    }
}

#[tokio::test]
async fn events_with_unusual_line_endings_are_sent_at_once() {
    let hosts = Hosts::with("idle_ms = 600_000").await;
    // A single CR ends a line too, so events of such a service are forwarded at once.
    let body = chunk(&json!({"role": "assistant", "content": "one"}), None).replace('\n', "\r");
    for host in &hosts.0 {
        host.upstream.reply(Reply::raw(EVENTS, format!("{body}{body}")).then_pause(TIMEOUT * 2));
        let mut response = host.begin("hi").await;
        let first = tokio::time::timeout(TIMEOUT, response.chunk()).await;
        let first = first.expect("it does not wait for more").unwrap().unwrap();
        assert!(String::from_utf8_lossy(&first).contains("one"));
    }
}

#[tokio::test]
async fn a_long_line_passes_and_an_endless_one_is_an_error() {
    let hosts = Hosts::start().await;
    let long = "x".repeat(1024 * 1024);
    hosts.both("1 MiB", Reply::begun([long.as_str()]).then(end()), text(&long)).await;
    let endless = Bytes::from(vec![b'x'; 17 * 1024 * 1024]);
    let reply = Reply::begun(["one"]).then("data: ").then_bytes(endless).then_pause(Duration::from_secs(30));
    hosts.both("no end", reply, cut("one", "a line exceeded its limit of 16 MiB")).await;
}

#[tokio::test]
async fn compressed_answers_are_decompressed_or_rejected() {
    let hosts = Hosts::start().await;
    let gzip = |text: &str| {
        let mut command = std::process::Command::new("gzip");
        let mut child = command
            .arg("-c")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("gzip is on this machine");
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        Bytes::from(child.wait_with_output().unwrap().stdout)
    };
    let packed = |kind: &str, text: &str| Reply::bytes(kind, gzip(text)).header("content-encoding", "gzip");
    hosts.both("events", packed(EVENTS, &one()), text("one")).await;
    hosts.both("JSON", packed("application/json", &whole("one").to_string()), text("one")).await;
    let unknown = Reply::raw(EVENTS, one()).header("content-encoding", "zstd");
    hosts.both("an unknown packing", unknown, refused(502, "content-encoding zstd")).await;
    let torn = Reply::bytes(EVENTS, gzip(&one()).slice(..40)).header("content-encoding", "gzip");
    for (looked, host) in [false, true].into_iter().zip(&hosts.0) {
        host.upstream.reply(torn.clone());
        let got = Got::of(&host.stream("hi").await, looked);
        assert!(!matches!(got, Got::Text(_)), "{got:?}");
        // The result does not depend on the encodings that the client accepts.
        host.upstream.reply(packed(EVENTS, &one()));
        let request = host.posting(crate::host::streaming(crate::upstream::MODEL, "hi").to_string());
        let answer = Answer::of(request.header("accept-encoding", "gzip, br")).await;
        assert_eq!((answer.header("content-encoding"), Got::of(&answer, looked)), (None, text("one")));
    }
}

#[tokio::test]
async fn a_service_that_sends_only_comments_is_dropped_when_the_client_disconnects() {
    let hosts = Hosts::start().await;
    for host in &hosts.0 {
        host.upstream.reply(Reply::raw(EVENTS, ": hm\n\n").then_for_ever(": hm\n\n"));
        let request = host.posting(crate::host::streaming(crate::upstream::MODEL, "hi").to_string());
        let answer = tokio::time::timeout(Duration::from_millis(300), Answer::tried(request)).await;
        assert!(answer.is_err(), "there is no answer yet");
        host.upstream.was_deserted(1).await;
    }
}

#[tokio::test]
async fn reading_stops_after_an_error() {
    let hosts = Hosts::start().await;
    let host = &hosts.0[1];
    host.upstream.reply(Reply::begun(["one"]).then("data: nonsense\n\n").then_for_ever("data: {}\n\n"));
    assert!(Got::of(&host.stream("hi").await, true).is_like(&cut("one", "not valid JSON")));
    host.upstream.was_deserted(1).await;
}

#[tokio::test]
async fn a_silent_stream_sends_keep_alive_comments() {
    for looked in [false, true] {
        for (every, has_comments) in [(50, true), (0, false)] {
            let setup = TestHost::new().config(&format!("[server]\nkeep_alive_ms = {every}\n"));
            let setup = if looked { setup.filter("looks", LOOKS) } else { setup };
            let host = setup.start().await;
            let pause = Duration::from_millis(400);
            let reply = Reply::begun(["one"]).then_pause(pause).then(text_chunk(" two")).then(end());
            host.upstream.reply(reply);
            let answer = host.stream("hi").await;
            let comments = answer.body().matches(": keep-alive\n\n").count();
            assert_eq!(has_comments, comments > 0, "{}", answer.body());
            assert!(comments <= 9, "{}", answer.body());
            assert_eq!(answer.text(), "one two");
            // Never inside an event.
            let second = text_chunk(" two");
            let (start, rest) = second.split_at(20);
            let reply = Reply::begun(["one"]).then(format!("event: message\n{start}"));
            host.upstream.reply(reply.then_pause(pause).then(rest).then(end()));
            assert_eq!(host.stream("hi").await.text(), "one two");
        }
    }
}
