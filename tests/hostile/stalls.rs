//! Clients that stall: 200 connections to every route, in each way in which a client can stop, within the memory
//! limit of the host.

use super::host::Host;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use valvehouse_testkit::by_length;
use valvehouse_testkit::command::exchange;

const CONNECTIONS: usize = 200;
/// `max_memory_mb`, and what connections and freed memory may take beside it and a fresh host, in bytes.
const LIMIT: u64 = 64 << 20;
const BESIDE: u64 = 128 << 20;
/// The size of a body that stalls: 200 of them exceed the limit.
const BODY: usize = 400 << 10;
/// One of so many routes is tried without `VALVEHOUSE_CASES`.
const SAMPLE: usize = 24;

const CONFIG: &str = r#"
[server]
max_memory_mb = 64
"#;

/// The way in which a client stalls.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stall {
    /// Sends a part of the head.
    Head,
    /// Sends a large part of a longer body.
    Body,
    /// Sends a part of the body byte by byte.
    SlowBody,
    /// Sends requests and reads no answer.
    NeverReads,
    /// Sends nothing.
    Idle,
}

const STALLS: [Stall; 5] = [Stall::Head, Stall::Body, Stall::SlowBody, Stall::NeverReads, Stall::Idle];

/// A connection with the bytes that its client still sends.
struct Client {
    stream: TcpStream,
    rest: Vec<u8>,
    at: usize,
}

impl Client {
    fn connect(address: &str, rest: Vec<u8>) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self { stream, rest, at: 0 }
    }

    /// Sends at most so many bytes. Returns `false` if nothing more can be sent now.
    fn send(&mut self, most: usize) -> bool {
        let end = self.rest.len().min(self.at.saturating_add(most));
        match self.stream.write(&self.rest[self.at..end]) {
            Ok(sent) => {
                self.at += sent;
                sent > 0 && self.at < self.rest.len()
            }
            Err(error) => {
                // A host may refuse the request and close the connection.
                if error.kind() != ErrorKind::WouldBlock {
                    self.at = self.rest.len();
                }
                false
            }
        }
    }
}

/// A method and a path of a route, with a content type and the begin of its body.
#[derive(Debug)]
struct Route {
    method: String,
    path: String,
    kind: &'static str,
    begin: &'static str,
}

/// Returns all described routes, those that take a body with JSON and with a form.
fn routes(address: &str) -> Vec<Route> {
    let request = "GET /openapi.json HTTP/1.0\r\nhost: localhost\r\n\r\n";
    let (_, document) = exchange(address, request, Duration::from_secs(60)).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let json = ("application/json", "{\"model\":\"calm\",\"stream\":true,\"input\":\"");
    let form = (
        "multipart/form-data; boundary=x",
        "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.rhai\"\r\n\r\n",
    );
    let mut routes = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "patch", "delete"] {
            for (kind, begin) in [json, form] {
                if operations.get(method).is_some() && (method != "get" || kind == json.0) {
                    let path = path.replace(['{', '}', '*'], "");
                    routes.push(Route { method: method.to_uppercase(), path, kind, begin });
                }
            }
        }
    }
    routes
}

/// Returns the bytes that a client sends before it stalls.
fn bytes(route: &Route, stall: Stall) -> Vec<u8> {
    let Route { method, path, kind, begin } = route;
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n");
    let with_body = |length: usize, sent: usize| {
        let mut bytes = format!("{head}content-length: {length}\r\n\r\n{begin}").into_bytes();
        bytes.resize(bytes.len() + sent, b'y');
        bytes
    };
    match stall {
        Stall::Head => format!("{head}x-long: {}", "y".repeat(6 << 10)).into_bytes(),
        Stall::Body => with_body(32 << 20, BODY),
        Stall::SlowBody => with_body(32 << 20, 16),
        Stall::NeverReads => {
            let chat = r#"{"model":"calm","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
            format!("{head}content-length: {}\r\n\r\n{chat}", chat.len()).repeat(8).into_bytes()
        }
        Stall::Idle => Vec::new(),
    }
}

/// Opens connections that stall, until all have sent what they send or the host reads no more.
fn stall(address: &str, bytes: &[u8], stall: Stall) -> Vec<Client> {
    let mut clients: Vec<Client> =
        (0..CONNECTIONS).map(|_| Client::connect(address, bytes.to_vec())).collect();
    let (step, pause) = match stall {
        Stall::SlowBody => (bytes.len() / 12, Duration::from_millis(2)),
        _ => (usize::MAX, Duration::from_millis(5)),
    };
    let mut calm = 0;
    while calm < 5 && clients.iter().any(|client| client.at < client.rest.len()) {
        let before: usize = clients.iter().map(|client| client.at).sum();
        clients.iter_mut().for_each(|client| {
            client.send(step);
        });
        let after: usize = clients.iter().map(|client| client.at).sum();
        calm = if after == before { calm + 1 } else { 0 };
        std::thread::sleep(pause);
    }
    clients
}

/// Returns the memory that requests hold, in bytes, once the host answers.
fn held(address: &str) -> u64 {
    let request = "GET /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n";
    let (_, metrics) = exchange(address, request, Duration::from_secs(60)).unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix("valvehouse_request_memory_bytes "));
    line.unwrap().trim().parse().unwrap()
}

/// Checks a peak of resident memory beside that of a fresh host, and that the requests release all of theirs.
fn is_within(host: &Host, fresh: u64, peak: u64, what: &str) {
    let more = peak.saturating_sub(fresh);
    assert!(more <= LIMIT + BESIDE, "{what}: {} MiB are resident beside {}", more >> 20, fresh >> 20);
    let address = host.address();
    let begun = Instant::now();
    while held(&address) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {} are still held", held(&address));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn two_hundred_stalled_connections_to_any_route_keep_within_the_memory_limit() {
    let mut host = Host::start_with(CONFIG, 6 << 20, []);
    let address = host.address();
    let all = routes(&address);
    assert!(all.len() > 100, "{}", all.len());
    let sample = by_length(SAMPLE, 1);
    let (fresh, mut peaks) = (host.resident(), STALLS.map(|_| 0));
    for (number, route) in all.iter().enumerate() {
        for (kind, how) in STALLS.into_iter().enumerate() {
            // Only the path of a route decides what happens to its body.
            let is_once = matches!(how, Stall::Head | Stall::Idle) && number > 0;
            if is_once || (number + kind) % sample != 0 {
                continue;
            }
            host.reset_peak();
            let clients = stall(&address, &bytes(route, how), how);
            peaks[kind] = peaks[kind].max(host.resident());
            drop(clients);
            is_within(&host, fresh, peaks[kind], &format!("{how:?} at {} {}", route.method, route.path));
        }
    }
    println!("peaks in MiB: {:?}", STALLS.iter().zip(peaks.map(|peak| peak >> 20)).collect::<Vec<_>>());
    assert!(host.ask("calm", "hello", false).is(200));
    host.end();
}

/// A message of a WebSocket that does not end.
#[test]
fn two_hundred_unfinished_messages_of_sockets_keep_within_the_memory_limit() {
    let mut host = Host::start_with(&format!("{CONFIG}max_sockets_each = 200\n"), 6 << 20, []);
    let address = host.address();
    let upgrade = "GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut clients: Vec<Client> =
        (0..CONNECTIONS).map(|_| Client::connect(&address, upgrade.as_bytes().to_vec())).collect();
    let mut upgraded = 0;
    for client in &mut clients {
        client.send(usize::MAX);
        client.stream.set_nonblocking(false).unwrap();
        client.stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut head = [0; 512];
        let read = client.stream.read(&mut head).unwrap_or(0);
        upgraded += usize::from(head[..read].starts_with(b"HTTP/1.1 101"));
        client.stream.set_nonblocking(true).unwrap();
        // The begin of a text of 32 MiB whose mask is zero.
        client.rest = [&[0x81, 0xff][..], &(32_u64 << 20).to_be_bytes(), &[0; 4], &vec![b' '; BODY]].concat();
        client.at = 0;
    }
    assert!(upgraded > CONNECTIONS / 4, "{upgraded}");
    let fresh = host.reset_peak();
    for _ in 0..100 {
        clients.iter_mut().for_each(|client| {
            client.send(usize::MAX);
        });
        std::thread::sleep(Duration::from_millis(10));
    }
    let peak = host.resident();
    drop(clients);
    println!("{upgraded} sockets, peak {} MiB", peak >> 20);
    is_within(&host, fresh, peak, "sockets");
    assert!(host.ask("calm", "hello", false).is(200));
    host.end();
}
