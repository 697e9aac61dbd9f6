//! A connection of a WebSocket whose received bytes count toward the memory of the host until their message is
//! complete, and which passes long frames on in parts: its reader reserves memory for a whole frame as soon as its
//! head has arrived.

use crate::arrival::Arrival;
use crate::body::ReceivedBytes;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use valvehouse_core::context::MemoryLimit;

/// The maximum size of a part of a frame, in bytes. A multiple of four, so that each part begins with the first byte
/// of the mask.
const PART: u64 = 64 << 10;
/// The maximum length of the head of a frame, in bytes.
const MAX_HEAD: usize = 14;
/// The bit of the last frame of a message, and that of a control frame, which may not be divided.
const FIN: u8 = 0x80;
const CONTROL: u8 = 0x08;
/// The bit of a masked frame.
const MASKED: u8 = 0x80;

/// A connection and the memory for which the current message counts.
pub(super) struct CountedIo<S> {
    inner: S,
    memory: MemoryLimit,
    received: ReceivedBytes,
    /// The size up to which frames are divided. The reader rejects longer ones.
    max_frame: u64,
    /// The head of the frame that arrives, as far as it has arrived.
    head: Vec<u8>,
    /// The bytes of a head that the reader receives next.
    next: Vec<u8>,
    /// The number of bytes of the current part that have not arrived, and that of the parts after it.
    part: u64,
    rest: u64,
    /// Set while frames of the message are missing, and for a frame that is not part of one.
    is_continued: bool,
    is_control: bool,
    /// The wait for the rest of a message.
    arrival: Arrival,
}

/// Returns the length of the head of a frame that begins with these bytes, as far as they tell it.
fn head_length(head: &[u8]) -> usize {
    let Some(second) = head.get(1) else { return 2 };
    let length = match second & !MASKED {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    2 + length + if second & MASKED == 0 { 0 } else { 4 }
}

impl<S> CountedIo<S> {
    pub(super) fn new(inner: S, memory: MemoryLimit, max_frame: u64, arrival: Arrival) -> Self {
        let received = ReceivedBytes::new(&memory);
        Self {
            inner,
            memory,
            received,
            max_frame,
            head: Vec::with_capacity(MAX_HEAD),
            next: Vec::with_capacity(MAX_HEAD),
            part: 0,
            rest: 0,
            is_continued: false,
            is_control: false,
            arrival,
        }
    }

    /// Reads the head of a frame that has arrived, and passes it on for the first part of the frame.
    fn begin_frame(&mut self) {
        let length = match (self.head[1] & !MASKED, &self.head[2..]) {
            (126, [a, b, ..]) => u64::from(u16::from_be_bytes([*a, *b])),
            (127, [a, b, c, d, e, f, g, h, ..]) => u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
            (length, _) => u64::from(length),
        };
        self.rest = length;
        self.is_control = self.head[0] & CONTROL != 0;
        if !self.is_control {
            self.is_continued = self.head[0] & FIN == 0;
        }
        if length <= PART || length > self.max_frame || self.is_control {
            (self.part, self.rest) = (length, 0);
            self.next.append(&mut self.head);
        } else {
            self.next_part(self.head[0] & !FIN);
        }
    }

    /// Passes on the head of the next part, with the kind of the frame or, for later parts, that of a continuation.
    fn next_part(&mut self, kind: u8) {
        self.part = self.rest.min(PART);
        self.rest -= self.part;
        let end = if self.rest == 0 { self.head[0] & FIN } else { 0 };
        let is_masked = self.head[1] & MASKED;
        self.next.extend([kind | end, is_masked | 127]);
        self.next.extend(self.part.to_be_bytes());
        if is_masked != 0 {
            self.next.extend_from_slice(&self.head[10..]);
        }
        if self.rest == 0 {
            self.head.clear();
        }
    }

    /// Returns the memory of the current message, and starts the next one.
    pub(super) fn complete(&mut self) -> ReceivedBytes {
        self.arrival.reset();
        std::mem::replace(&mut self.received, ReceivedBytes::new(&self.memory))
    }
}

impl<S: AsyncRead + Unpin> CountedIo<S> {
    /// Reads at most so many bytes of the connection. Returns their number.
    fn read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let most = most.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        if let Poll::Ready(read) = Pin::new(&mut self.inner).poll_read(context, &mut part) {
            read?;
        } else if self.is_continued || self.part > 0 || !self.head.is_empty() {
            let slow = ready!(self.arrival.poll_late(context));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, slow)));
        } else {
            return Poll::Pending;
        }
        let count = part.filled().len();
        // Pings extend no message.
        self.arrival.receive(if self.is_control { 0 } else { count });
        buffer.advance(count);
        match self.received.add(count) {
            Ok(()) => Poll::Ready(Ok(count)),
            Err(error) => Poll::Ready(Err(io::Error::new(io::ErrorKind::OutOfMemory, error.to_string()))),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.next.is_empty() {
                let count = self.next.len().min(buffer.remaining());
                buffer.put_slice(&self.next[..count]);
                self.next.drain(..count);
                return Poll::Ready(Ok(()));
            }
            if self.part > 0 {
                let most = usize::try_from(self.part).unwrap_or(usize::MAX);
                let count = ready!(self.read(context, buffer, most))?;
                self.part -= count as u64;
                return Poll::Ready(Ok(()));
            }
            if self.rest > 0 {
                self.next_part(0);
                continue;
            }
            let mut head = [0; MAX_HEAD];
            let missing = head_length(&self.head) - self.head.len();
            let mut more = ReadBuf::new(&mut head[..missing]);
            if ready!(self.read(context, &mut more, missing))? == 0 {
                return Poll::Ready(Ok(()));
            }
            self.head.extend_from_slice(more.filled());
            if self.head.len() == head_length(&self.head) {
                self.begin_frame();
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{SinkExt as _, StreamExt as _};
    use std::time::Duration;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Error;
    use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

    const MAX: usize = 1 << 20;

    async fn pair(buffer: usize) -> [WebSocketStream<CountedIo<tokio::io::DuplexStream>>; 2] {
        let memory = MemoryLimit::new(64 << 20);
        let (client, server) = tokio::io::duplex(buffer);
        let config = WebSocketConfig::default().max_message_size(Some(MAX)).max_frame_size(Some(MAX));
        let open = |io, role, config| {
            WebSocketStream::from_raw_socket(
                CountedIo::new(io, memory.clone(), MAX as u64, Arrival::new(Duration::ZERO)),
                role,
                Some(config),
            )
        };
        [
            open(client, Role::Client, WebSocketConfig::default()).await,
            open(server, Role::Server, config).await,
        ]
    }

    #[tokio::test]
    async fn messages_of_any_length_arrive_unchanged_in_parts() {
        let part = usize::try_from(PART).unwrap();
        for buffer in [1 << 10, 1 << 20] {
            for length in [0, 1, 125, 126, 65_535, part, part + 1, 2 * part, 3 * part + 7, MAX] {
                let [mut client, mut server] = pair(buffer).await;
                let sent: String = ('a'..='z').cycle().take(length).collect();
                let sends = async {
                    client.send(Message::text(sent.clone())).await.unwrap();
                    client.send(Message::Ping("p".into())).await.unwrap();
                };
                let (received, ()) = tokio::join!(server.next(), sends);
                assert_eq!(received.unwrap().unwrap().into_text().unwrap().as_str(), sent, "{length}");
                assert!(server.next().await.unwrap().unwrap().is_ping(), "{length}");
            }
        }
    }

    #[tokio::test]
    async fn a_frame_over_the_limit_is_rejected_by_its_head() {
        let [mut client, mut server] = pair(1 << 10).await;
        let sends = client.send(Message::text("y".repeat(MAX + 1)));
        let (received, _) = tokio::join!(
            async {
                let received = server.next().await.unwrap();
                drop(server);
                received
            },
            sends
        );
        assert!(matches!(received, Err(Error::Capacity(_))), "{received:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn pings_extend_no_unfinished_message() {
        use tokio::io::AsyncWriteExt as _;
        const PING: &[u8] = &[0x89, 0x80, 0, 0, 0, 0];
        const OPEN: &[u8] = &[0x01, 0x81, 0, 0, 0, 0, b'x'];
        const CUT: &[u8] = &[0x81, 0x82, 0, 0, 0, 0, b'x'];
        for (begun, sends_pings, is_closed) in
            [(OPEN, true, true), (&OPEN[..5], false, true), (CUT, false, true), (PING, true, false)]
        {
            let (mut client, server) = tokio::io::duplex(1 << 10);
            let limit = Arrival::new(Duration::from_secs(60));
            let io = CountedIo::new(server, MemoryLimit::new(64 << 20), MAX as u64, limit);
            let mut server = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
            client.write_all(begun).await.unwrap();
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                    // A ping within a frame would be part of it.
                    if sends_pings && client.write_all(PING).await.is_err() {
                        break;
                    }
                }
            });
            let ended = async {
                loop {
                    match server.next().await {
                        Some(Ok(message)) if message.is_ping() => {}
                        other => break other,
                    }
                }
            };
            match tokio::time::timeout(Duration::from_secs(130), ended).await {
                Ok(Some(Err(Error::Io(error)))) if is_closed => {
                    assert_eq!(error.kind(), io::ErrorKind::TimedOut)
                }
                Err(_) if !is_closed => {}
                other => panic!("{begun:?}: {other:?}"),
            }
        }
    }

    /// Each of these reserves as much as it announces otherwise.
    #[tokio::test]
    async fn an_announced_frame_reserves_no_memory() {
        use tokio::io::AsyncWriteExt as _;
        let (mut client, server) = tokio::io::duplex(1 << 10);
        let head = [&[0x81, 0xff][..], &(1_u64 << 20).to_be_bytes(), &[0; 4]].concat();
        client.write_all(&head).await.unwrap();
        let mut server =
            CountedIo::new(server, MemoryLimit::new(64 << 20), 1 << 20, Arrival::new(Duration::ZERO));
        let mut bytes = [0; 64];
        let read = tokio::io::AsyncReadExt::read(&mut server, &mut bytes).await.unwrap();
        let expected = [&[0x01, 0xff][..], &PART.to_be_bytes(), &[0; 4]].concat();
        assert_eq!(bytes[..read], expected);
    }
}
