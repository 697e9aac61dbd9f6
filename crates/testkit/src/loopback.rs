//! A server on loopback that answers byte for byte what a test gives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server on loopback that counts requests and sends canned answers, byte for byte.
pub struct Server {
    pub port: u16,
    hits: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub async fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (hits, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
        let counted = hits.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Relaxed);
                tokio::spawn(serve(stream, answer.clone()));
            }
        });
        Self { port, hits, task }
    }

    /// Accepts and then says nothing.
    pub async fn silent() -> Self {
        Self::start(|_| Vec::new()).await
    }

    pub fn hits(&self) -> usize {
        self.hits.load(Relaxed)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads request after request; an empty answer is none.
async fn serve(mut stream: TcpStream, answer: Arc<impl Fn(&str) -> Vec<u8>>) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
            continue;
        }
        request.clear();
        let _ = stream.write_all(&answer(&text)).await;
    }
}

/// An answer with a body.
pub fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub fn redirect(status: u16, to: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Moved\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}
