//! Removes the key from response bytes that pass unparsed, because some services repeat the key that they
//! received.

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt};
use memchr::memmem::Finder;
use valvehouse_core::error::Error;
use valvehouse_grants::Secret;

/// The minimum length of a masked key. Shorter keys are placeholders for services without keys, and may be
/// words of an answer.
const SHORTEST: usize = 16;
const MASK: &[u8] = b"***";

type Body = BoxStream<'static, Result<Bytes, Error>>;

/// Returns a body in which the key is masked.
pub(super) fn hidden(body: Body, key: Option<&Secret>) -> Body {
    let Some(key) = finder(key) else { return body };
    let hiding = Hiding { body, key: key.into_owned(), held: Bytes::new() };
    stream::unfold(Some(hiding), |hiding| async { hiding?.next().await }).boxed()
}

/// Returns bytes in which the key is masked.
pub(super) fn without(body: Bytes, key: Option<&Secret>) -> Bytes {
    finder(key).and_then(|key| masked(&body, &key)).unwrap_or(body)
}

fn finder(key: Option<&Secret>) -> Option<Finder<'_>> {
    key.filter(|key| key.expose().len() >= SHORTEST).map(|key| Finder::new(key.expose()))
}

/// Returns the masked bytes; `None` in the usual case that they do not contain the key.
fn masked(bytes: &[u8], key: &Finder<'_>) -> Option<Bytes> {
    let mut rest = bytes;
    let mut out = BytesMut::new();
    while let Some(at) = key.find(rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(MASK);
        rest = &rest[at + key.needle().len()..];
    }
    if rest.len() == bytes.len() {
        return None;
    }
    out.extend_from_slice(rest);
    Some(out.freeze())
}

struct Hiding {
    body: Body,
    key: Finder<'static>,
    /// The bytes at the end that may be the start of the key.
    held: Bytes,
}

impl Hiding {
    async fn next(mut self) -> Option<(Result<Bytes, Error>, Option<Self>)> {
        loop {
            match self.body.next().await {
                Some(Ok(bytes)) => {
                    let shown = self.pass(bytes);
                    if !shown.is_empty() {
                        return Some((Ok(shown), Some(self)));
                    }
                }
                Some(Err(error)) => return Some((Err(error), Some(self))),
                None if self.held.is_empty() => return None,
                None => return Some((Ok(self.held), None)),
            }
        }
    }

    fn pass(&mut self, bytes: Bytes) -> Bytes {
        let mut bytes = match std::mem::take(&mut self.held) {
            held if held.is_empty() => bytes,
            held => [held, bytes].concat().into(),
        };
        if let Some(masked) = masked(&bytes, &self.key) {
            bytes = masked;
        }
        self.held = bytes.split_off(self.begins(&bytes));
        bytes
    }

    /// Returns the position at which a key starts that may continue in the next bytes; the length if there is
    /// none.
    fn begins(&self, bytes: &[u8]) -> usize {
        let key = self.key.needle();
        let first = bytes.len().saturating_sub(key.len() - 1);
        (first..bytes.len()).find(|at| key.starts_with(&bytes[*at..])).unwrap_or(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-sk-0123456789abcdef";

    async fn passed(text: &str, size: usize) -> (String, usize) {
        let chunks: Vec<_> =
            text.as_bytes().chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let body = hidden(stream::iter(chunks).boxed(), Some(&Secret::new(KEY)));
        let came: Vec<Bytes> = body.map(Result::unwrap).collect().await;
        (String::from_utf8(came.concat()).unwrap(), came.len())
    }

    #[tokio::test]
    async fn the_key_is_masked_across_chunk_boundaries() {
        let text = format!("data: {{\"a\":\"{KEY}\",\"b\":\"sk-{KEY}{KEY}\"}}\n\nsk-sk-0123 sk-");
        let masked = text.replace(KEY, "***");
        for size in 1..=text.len() {
            assert_eq!(passed(&text, size).await.0, masked, "chunks of {size}");
        }
    }

    #[tokio::test]
    async fn a_body_without_the_key_passes_unchanged() {
        let text = "data: one\n\n".repeat(5);
        assert_eq!(passed(&text, 11).await, (text.clone(), 5), "nothing waits for what comes next");
    }
}
