//! The body of a request: read completely, limited in size, and parsed.

use crate::arrival::TooSlow;
use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use ruzstd::decoding::StreamingDecoder;
use std::io::Read as _;
use std::time::Duration;
use tokio::sync::Semaphore;
use valvehouse_core::context::{HeldMemory, MemoryLimit};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The maximum number of bytes that are read from an oversized body.
const MAX_DRAIN: usize = 128 << 20;
/// The maximum time for which an oversized body is read.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// The size from which a body counts toward the memory of the host, in bytes.
const COUNTED: usize = 16 << 10;
/// The number of copies of a body that the host holds at most: as received, and as JSON.
const COPIES: usize = 2;

/// The maximum number of compressed bodies that are decompressed at a time, because each needs a window.
static UNPACKING: Semaphore = Semaphore::const_new(4);

/// The limits of a host for bodies.
#[derive(Clone)]
pub(crate) struct BodyLimits {
    /// The maximum size of one body, in MiB.
    pub(crate) max_mb: u64,
    /// The memory of all requests.
    pub(crate) memory: MemoryLimit,
}

impl BodyLimits {
    pub(crate) fn of(app: &App) -> Self {
        Self { max_mb: app.config.server.max_body_mb, memory: app.memory.clone() }
    }
}

/// Returns bytes whose memory counts for the host until the last part of them is dropped.
pub(crate) fn counted(bytes: Bytes, held: impl Send + 'static) -> Bytes {
    Bytes::from_owner(CountedBytes { bytes, _held: held })
}

/// Bytes and the memory for which they count.
struct CountedBytes<H> {
    bytes: Bytes,
    _held: H,
}

impl<H> AsRef<[u8]> for CountedBytes<H> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a complete body within these limits, without a byte order mark.
///
/// # Errors
/// Returns a request error if the body is too large or ends early, and an error if the requests of the host hold
/// too much memory.
pub(crate) async fn read(body: Body, limits: &BodyLimits) -> Result<Bytes, Error> {
    let max_mb = limits.max_mb;
    let mut received = ReceivedBytes::new(&limits.memory);
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let limit = usize::try_from(max_mb.saturating_mul(1024 * 1024)).unwrap_or(usize::MAX);
    let mut chunks = body.into_data_stream();
    let mut whole = BytesMut::new();
    let mut first = Bytes::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| unreadable(&error, max_mb))?;
        if received.bytes + chunk.len() > limit {
            drop((first, whole, received));
            drain(chunks).await;
            return Err(too_large(max_mb));
        }
        if let Err(error) = received.add(chunk.len()) {
            drop((first, whole));
            drain(chunks).await;
            return Err(error);
        }
        // Most bodies arrive in one chunk, which is not copied. No memory is reserved for announced bytes.
        match (first.is_empty(), whole.is_empty()) {
            (true, true) => first = chunk,
            (_, is_first) => {
                if is_first {
                    whole.extend_from_slice(&std::mem::take(&mut first));
                }
                whole.extend_from_slice(&chunk);
            }
        }
    }
    let bytes = received.count(if whole.is_empty() { first } else { whole.freeze() });
    Ok(if bytes.starts_with(BOM) { bytes.slice(BOM.len()..) } else { bytes })
}

/// The bytes received so far, which count for the memory of the host if they are many.
pub(crate) struct ReceivedBytes {
    held: HeldMemory,
    bytes: usize,
    /// The size from which more bytes are counted.
    threshold: usize,
}

impl ReceivedBytes {
    /// Starts without bytes.
    pub(crate) fn new(memory: &MemoryLimit) -> Self {
        Self { held: memory.share(), bytes: 0, threshold: COUNTED }
    }

    /// Adds received bytes.
    ///
    /// # Errors
    /// Returns an error if the requests of the host hold too much memory.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        if self.bytes > self.threshold {
            let more = COUNTED.max(bytes);
            self.held.grow(COPIES * more)?;
            self.threshold += more;
        }
        Ok(())
    }

    /// Returns these bytes, which count until they are dropped.
    pub(crate) fn count(self, bytes: Bytes) -> Bytes {
        if self.held.is_empty() { bytes } else { counted(bytes, self.held) }
    }
}

/// Returns the error of a body that cannot be read to its end.
pub(crate) fn unreadable(error: &axum::Error, max_mb: u64) -> Error {
    // Layers wrap the error of the connection.
    let mut sources = std::iter::successors(std::error::Error::source(error), |error| error.source());
    if sources.any(|source| source.is::<TooSlow>()) {
        return Error::Request {
            message: format!("cannot read the request body: {error}"),
            param: None,
            code: Some("request_timeout"),
            kind: RequestErrorKind::Timeout,
        };
    }
    if error.to_string().contains("length limit") {
        return too_large(max_mb);
    }
    Error::invalid(format!("cannot read the request body: {error}"), None)
}

/// Reads a complete body, and decompresses it if it is compressed with zstd, as Codex does with long bodies.
///
/// # Errors
/// Returns a request error for any other compression, for invalid zstd, and for a body that exceeds the limits
/// before or after decompression.
pub(crate) async fn read_plain(headers: &HeaderMap, body: Body, limits: &BodyLimits) -> Result<Bytes, Error> {
    if packing(headers).is_none_or(|packing| !packing.eq_ignore_ascii_case("zstd")) {
        unpacked(headers)?;
        return read(body, limits).await;
    }
    let bytes = read(body, limits).await?;
    let limits = limits.clone();
    let _permit = UNPACKING.acquire().await;
    let unpacked = tokio::task::spawn_blocking(move || unpack(&bytes, &limits)).await;
    unpacked.unwrap_or_else(|error| Err(Error::Host(format!("cannot decompress a request body: {error}"))))
}

/// Decompresses all zstd frames in a body.
fn unpack(bytes: &[u8], limits: &BodyLimits) -> Result<Bytes, Error> {
    let invalid = |error: &dyn std::fmt::Display| {
        Error::invalid(format!("cannot read the request body as zstd: {error}"), None)
    };
    let (max_mb, held) = (limits.max_mb, limits.memory.share());
    let limit = max_mb.saturating_mul(1024 * 1024);
    let too_large = || too_large(max_mb);
    let (mut rest, mut out) = (bytes, Vec::new());
    while !rest.is_empty() {
        let mut frame = StreamingDecoder::new(&mut rest).map_err(|error| invalid(&error))?;
        loop {
            let slice = u64::try_from(COUNTED).unwrap_or(u64::MAX);
            let read = frame.by_ref().take(slice).read_to_end(&mut out).map_err(|error| invalid(&error))?;
            if read == 0 {
                break;
            }
            if u64::try_from(out.len()).is_ok_and(|length| length > limit) {
                return Err(too_large());
            }
            // Until the frame ends, its window is another copy.
            held.grow((COPIES + 1) * read)?;
        }
    }
    Ok(counted(out.into(), held))
}

fn packing(headers: &HeaderMap) -> Option<&str> {
    let packing = headers.get(header::CONTENT_ENCODING).and_then(|packing| packing.to_str().ok());
    packing.filter(|packing| !packing.is_empty() && !packing.eq_ignore_ascii_case("identity"))
}

/// Rejects a compressed body, which could not be parsed.
pub(crate) fn unpacked(headers: &HeaderMap) -> Result<(), Error> {
    match packing(headers) {
        None => Ok(()),
        Some(packing) => Err(Error::invalid(
            format!(
                "cannot read the request body: content-encoding {packing} is not supported; send it without"
            ),
            None,
        )),
    }
}

/// The maximum number of values in a body.
const MAX_VALUES: usize = 1 << 20;
/// The number of values from which they count toward the memory of the host.
const COUNTED_VALUES: usize = 4096;
/// The approximate memory of a value and its copies beside its text, in bytes.
const VALUE: usize = 128;

/// Parses a body as JSON.
///
/// # Errors
/// Returns a request error if it is not valid or has too many values.
pub(crate) fn parsed(bytes: &Bytes) -> Result<Json, Error> {
    parse(bytes).map(|(json, _)| json)
}

/// Parses a body as JSON whose values count toward this memory.
///
/// # Errors
/// Returns the errors of [`parsed`], and an error if the requests of the host hold too much memory.
pub(crate) fn parsed_within(bytes: &Bytes, memory: &HeldMemory) -> Result<Json, Error> {
    let (json, values) = parse(bytes)?;
    if values > COUNTED_VALUES {
        memory.grow(values * VALUE)?;
    }
    Ok(json)
}

fn parse(bytes: &Bytes) -> Result<(Json, usize), Error> {
    Json::parse_shared_within(bytes, MAX_VALUES).map_err(|error| match error.has_too_many_values() {
        true => Error::Request {
            message: format!("the request body exceeded its limit of {MAX_VALUES} JSON values"),
            param: None,
            code: Some("request_too_large"),
            kind: RequestErrorKind::TooLarge,
        },
        false => Error::invalid(format!("the request body is not valid JSON: {error}"), None),
    })
}

/// Discards the rest of an oversized body, because a client that is interrupted while it sends never reads
/// the response. If the rest is too large or too slow, the connection is closed.
pub(crate) async fn drain<E>(mut chunks: impl Stream<Item = Result<Bytes, E>> + Unpin) {
    let rest = async {
        let mut read = 0;
        while let Some(Ok(chunk)) = chunks.next().await {
            read += chunk.len();
            if read > MAX_DRAIN {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIME, rest).await;
}

/// Returns the error for a body that is larger than `server.max_body_mb`.
pub(crate) fn too_large(max_mb: u64) -> Error {
    Error::Request {
        message: format!("the request body exceeded its limit of {max_mb} MB ([server] max_body_mb)"),
        param: None,
        code: Some("request_too_large"),
        kind: RequestErrorKind::TooLarge,
    }
}
