//! A cheap load generator and a cheap model service, so that the server is measured: HTTP/1.1 over keep-alive
//! connections, each of which sends the next request as soon as the response is complete.

use futures::future::join_all;
use std::io;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The number of events of a stream, without its start and end.
pub(crate) const EVENTS: usize = 200;

/// The measurements of several connections.
#[derive(Default, Clone)]
pub(crate) struct LoadFigures {
    pub(crate) took: Duration,
    pub(crate) answers: Vec<Duration>,
    pub(crate) events: usize,
    pub(crate) lost: usize,
}

/// Returns a chat request with this number of bytes of messages, streamed or not.
pub(crate) fn request(messages: usize, length: usize, stream: bool) -> Vec<u8> {
    let text = "The quick brown fox said \\\"hello\\\" to the lazy dog; it was a plain day. ";
    let content = text.repeat(length.div_ceil(text.len()));
    let turns: Vec<String> = (0..messages)
        .map(|index| {
            let role = if index % 2 == 0 { "user" } else { "assistant" };
            format!(r#"{{"role":"{role}","content":"{content}"}}"#)
        })
        .collect();
    let turns = turns.join(",");
    let body = format!(r#"{{"model":"mock","stream":{stream},"temperature":0.7,"messages":[{turns}]}}"#);
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Runs this number of connections for this time.
pub(crate) async fn run(url: &str, request: &[u8], connections: usize, time: Duration) -> LoadFigures {
    let (began, address) = (Instant::now(), url.trim_start_matches("http://"));
    let all = join_all((0..connections).map(|_| one(address, request, began + time))).await;
    let mut seen = LoadFigures { took: began.elapsed(), ..LoadFigures::default() };
    for one in all {
        seen.answers.extend(one.answers);
        seen.events += one.events;
        seen.lost += one.lost;
    }
    seen
}

async fn one(address: &str, request: &[u8], until: Instant) -> LoadFigures {
    let (mut seen, mut kept) = (LoadFigures::default(), None);
    while Instant::now() < until {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => match Connection::open(address).await {
                Ok(connection) => connection,
                Err(_) => {
                    seen.lost += 1;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
            },
        };
        let began = Instant::now();
        match connection.ask(request).await {
            Ok(events) => {
                seen.answers.push(began.elapsed());
                seen.events += events;
                kept = Some(connection);
            }
            Err(_) => seen.lost += 1,
        }
    }
    seen
}

/// A connection with the received part of the current response.
pub(crate) struct Connection {
    stream: TcpStream,
    came: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, came: Vec::with_capacity(64 * 1024) })
    }

    /// Reads a complete successful response. Returns its number of events.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<usize> {
        self.came.clear();
        self.stream.write_all(request).await?;
        let head = self.line_ends(0, b"\r\n\r\n").await?;
        let text = String::from_utf8_lossy(&self.came[..head]).to_ascii_lowercase();
        if !text.starts_with("http/1.1 200") {
            return Err(io::Error::other(text));
        }
        match header(&text, "content-length: ").and_then(|length| length.parse::<usize>().ok()) {
            Some(length) => self.until(head + length).await.map(|()| 0),
            None => self.chunks(head).await,
        }
    }

    /// Reads chunks to their end. Returns the number of complete events.
    async fn chunks(&mut self, mut at: usize) -> io::Result<usize> {
        let (mut events, mut last) = (0, 0);
        loop {
            let begin = self.line_ends(at, b"\r\n").await?;
            let line = String::from_utf8_lossy(&self.came[at..begin - 2]).into_owned();
            let length = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            self.until(begin + length + 2).await?;
            if length == 0 {
                return Ok(events);
            }
            for byte in &self.came[begin..begin + length] {
                // An empty line ends an event.
                events += usize::from(*byte == b'\n' && last == b'\n');
                last = *byte;
            }
            self.came.drain(..begin + length + 2);
            at = 0;
        }
    }

    /// Returns the end of the first occurrence after a position.
    async fn line_ends(&mut self, from: usize, sign: &[u8]) -> io::Result<usize> {
        loop {
            let found = memchr::memmem::find(&self.came[from..], sign);
            if let Some(place) = found {
                return Ok(from + place + sign.len());
            }
            self.more().await?;
        }
    }

    async fn until(&mut self, length: usize) -> io::Result<()> {
        while self.came.len() < length {
            self.more().await?;
        }
        Ok(())
    }

    async fn more(&mut self) -> io::Result<()> {
        self.came.reserve(16 * 1024);
        match self.stream.read_buf(&mut self.came).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A model's service: a short answer, or a stream whose events are written separately.
#[allow(clippy::print_stderr)] // that is how `Server::start` reads the address
pub(crate) async fn service() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    eprintln!("http://{}", listener.local_addr().unwrap());
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        // A client that disconnects is not an error.
        tokio::spawn(async move { drop(answers(stream).await) });
    }
}

async fn answers(stream: TcpStream) -> io::Result<()> {
    let mut connection = Connection { stream, came: Vec::new() };
    let (plain, events) = (plain(), events());
    loop {
        connection.came.clear();
        let head = connection.line_ends(0, b"\r\n\r\n").await?;
        let text = String::from_utf8_lossy(&connection.came[..head]).to_ascii_lowercase();
        if header(&text, "transfer-encoding: ").is_some() {
            return Err(io::Error::other("a request has to say how long it is"));
        }
        let length = header(&text, "content-length: ").and_then(|length| length.parse().ok()).unwrap_or(0);
        connection.until(head + length).await?;
        let body = &connection.came[head..];
        if memchr::memmem::find(body, br#""stream":true"#).is_none() {
            connection.stream.write_all(&plain).await?;
            continue;
        }
        for event in &events {
            connection.stream.write_all(event).await?;
            tokio::task::yield_now().await;
        }
    }
}

fn plain() -> Vec<u8> {
    let text = "A sentence or two of plain text, about as long as a short answer is. ".repeat(3);
    let body = format!(
        r#"{{"id":"chatcmpl-mock","object":"chat.completion","created":1700000000,"model":"mock","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}}}"#
    );
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The chunks in wire format, the first with the head, the last with the end.
fn events() -> Vec<Vec<u8>> {
    let event = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let mut texts = vec![event(r#"{"role":"assistant","content":""}"#, "null")];
    texts.extend((0..EVENTS).map(|place| event(&format!(r#"{{"content":"piece {place} "}}"#), "null")));
    texts.extend([event("{}", "\"stop\""), "data: [DONE]\n\n".to_owned()]);
    let chunk = |text: &String| format!("{:x}\r\n{text}\r\n", text.len()).into_bytes();
    let mut all: Vec<Vec<u8>> = texts.iter().map(chunk).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    all[0].splice(0..0, head.bytes());
    all.push(b"0\r\n\r\n".to_vec());
    all
}
