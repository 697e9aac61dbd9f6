//! The body of a request: read completely, limited in size, and parsed.

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use ruzstd::decoding::StreamingDecoder;
use std::io::Read as _;
use std::time::Duration;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_json::Json;

/// The maximum number of bytes that are read from an oversized body.
const MAX_DRAIN: usize = 128 << 20;
/// The maximum time for which an oversized body is read.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// Reads a complete body of at most `max_mb` MiB, without a byte order mark.
pub(crate) async fn read(body: Body, max_mb: u64) -> Result<Bytes, Error> {
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let limit = usize::try_from(max_mb.saturating_mul(1024 * 1024)).unwrap_or(usize::MAX);
    let announced = usize::try_from(HttpBody::size_hint(&body).lower()).unwrap_or(limit).min(limit);
    let mut chunks = body.into_data_stream();
    let mut whole = BytesMut::new();
    let mut first = Bytes::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| unreadable(&error, max_mb))?;
        if first.len() + whole.len() + chunk.len() > limit {
            drain(chunks).await;
            return Err(too_large(max_mb));
        }
        // Most bodies arrive in one chunk, which is not copied.
        match (first.is_empty(), whole.is_empty()) {
            (true, true) => first = chunk,
            (_, is_first) => {
                if is_first {
                    whole.reserve(announced);
                    whole.extend_from_slice(&std::mem::take(&mut first));
                }
                whole.extend_from_slice(&chunk);
            }
        }
    }
    let bytes = if whole.is_empty() { first } else { whole.freeze() };
    Ok(if bytes.starts_with(BOM) { bytes.slice(BOM.len()..) } else { bytes })
}

fn unreadable(error: &axum::Error, max_mb: u64) -> Error {
    let source = std::error::Error::source(error);
    if source.is_some_and(|source| source.to_string().contains("length limit")) {
        return too_large(max_mb);
    }
    Error::invalid(format!("cannot read the request body: {error}"), None)
}

/// Reads a complete body, and decompresses it if it is compressed with zstd, as Codex does with long bodies.
///
/// # Errors
/// Returns a request error for any other compression, for invalid zstd, and for a body that is larger than
/// `max_mb` MiB before or after decompression.
pub(crate) async fn read_plain(headers: &HeaderMap, body: Body, max_mb: u64) -> Result<Bytes, Error> {
    if packing(headers).is_none_or(|packing| !packing.eq_ignore_ascii_case("zstd")) {
        unpacked(headers)?;
        return read(body, max_mb).await;
    }
    let bytes = read(body, max_mb).await?;
    let unpacked = tokio::task::spawn_blocking(move || unpack(&bytes, max_mb)).await;
    unpacked.unwrap_or_else(|error| Err(Error::Host(format!("cannot decompress a request body: {error}"))))
}

/// Decompresses all zstd frames in a body.
fn unpack(bytes: &[u8], max_mb: u64) -> Result<Bytes, Error> {
    let invalid = |error: &dyn std::fmt::Display| {
        Error::invalid(format!("cannot read the request body as zstd: {error}"), None)
    };
    let limit = max_mb.saturating_mul(1024 * 1024);
    let (mut rest, mut out) = (bytes, Vec::new());
    while !rest.is_empty() {
        let mut frame = StreamingDecoder::new(&mut rest).map_err(|error| invalid(&error))?;
        let left = limit.saturating_sub(u64::try_from(out.len()).unwrap_or(u64::MAX));
        frame.by_ref().take(left + 1).read_to_end(&mut out).map_err(|error| invalid(&error))?;
        if u64::try_from(out.len()).is_ok_and(|length| length > limit) {
            return Err(too_large(max_mb));
        }
    }
    Ok(out.into())
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

/// Parses a body as JSON.
pub(crate) fn parsed(bytes: &Bytes) -> Result<Json, Error> {
    Json::parse_shared(bytes)
        .map_err(|error| Error::invalid(format!("the request body is not valid JSON: {error}"), None))
}

/// Discards the rest of an oversized body, because a client that is interrupted while it sends never reads
/// the response. If the rest is too large or too slow, the connection is closed.
pub(crate) async fn drain(mut chunks: BodyDataStream) {
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
