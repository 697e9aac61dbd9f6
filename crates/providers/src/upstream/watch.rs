//! Metrics of answers in progress: their start, their end, and the token counts that the service reports.

use super::extras::Recorder;
use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt};
use memchr::memmem::Finder;
use serde::Deserialize;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use valvehouse_core::chat::response;
use valvehouse_core::error::Error;
use valvehouse_core::metrics::{ProviderCallGuard, ProviderOutcome};
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::{Json, raw_value};

/// The number of bytes at the end of an unparsed answer that are searched for `usage`.
const TAIL: usize = 4 * 1024;

/// Finds the token counts in the items of an answer.
pub(super) trait Looks<T>: Send + Unpin + 'static {
    fn looks(&mut self, item: &T, asking: &mut ProviderCallGuard);

    /// Handles the end of the answer.
    fn last(&mut self, asking: &mut ProviderCallGuard) {
        let _ = asking;
    }
}

/// The token counts of a parsed answer, and the extras to record.
pub(super) struct LastWords(pub(super) Option<Recorder>);

impl Looks<StreamChunk> for LastWords {
    fn looks(&mut self, chunk: &StreamChunk, asking: &mut ProviderCallGuard) {
        if let Some(recorder) = &mut self.0 {
            recorder.see(&chunk.event);
        }
        if let Some(usage) = response::usage_of(&chunk.event) {
            asking.record_usage(&usage);
        }
    }

    fn last(&mut self, _: &mut ProviderCallGuard) {
        if let Some(recorder) = &mut self.0 {
            recorder.end();
        }
    }
}

/// The end of an answer that is forwarded unparsed.
#[derive(Default)]
pub(super) struct LastBytes(Vec<u8>);

impl Looks<Bytes> for LastBytes {
    fn looks(&mut self, bytes: &Bytes, _: &mut ProviderCallGuard) {
        // The bytes are copied, because they would keep a whole read buffer alive.
        self.0.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        if self.0.len() >= 2 * TAIL {
            self.0.drain(..self.0.len() - TAIL);
        }
    }

    fn last(&mut self, asking: &mut ProviderCallGuard) {
        record_usage_in(&self.0, asking);
    }
}

/// The usage of most answers, which is read without a document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

/// Records the usage at the end of an unparsed answer.
pub(super) fn record_usage_at_the_end(body: &[u8], asking: &mut ProviderCallGuard) {
    record_usage_in(&body[body.len().saturating_sub(TAIL)..], asking);
}

/// Records the last object with the key `usage`.
fn record_usage_in(bytes: &[u8], asking: &mut ProviderCallGuard) {
    static KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"usage\""));
    let places: Vec<usize> = KEY.find_iter(bytes).collect();
    let objects =
        places.into_iter().rev().filter_map(|place| object_after(&bytes[place + KEY.needle().len()..]));
    for rest in objects {
        let mut plain = serde_json::Deserializer::from_slice(rest).into_iter::<PlainUsage>();
        if let Some(Ok(usage)) = plain.next() {
            return asking.record_tokens([usage.prompt_tokens, usage.completion_tokens, usage.total_tokens]);
        }
        if let Some(usage) = raw_value(rest).and_then(|object| Json::parse(object).ok()) {
            return asking.record_usage(&usage);
        }
    }
}

/// Returns the text from the object after a colon on.
fn object_after(key: &[u8]) -> Option<&[u8]> {
    let value = key.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    value.starts_with(b"{").then_some(value)
}

pub(super) fn watched<T: Send + 'static>(
    items: BoxStream<'static, Result<T, Error>>,
    asking: ProviderCallGuard,
    looks: impl Looks<T>,
) -> BoxStream<'static, Result<T, Error>> {
    WatchedStream { items, asking, looks }.boxed()
}

/// An answer in progress. If it is dropped before its end, its reader disconnected.
struct WatchedStream<T, L> {
    items: BoxStream<'static, Result<T, Error>>,
    asking: ProviderCallGuard,
    looks: L,
}

impl<T, L: Looks<T>> Stream for WatchedStream<T, L> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let polled = this.items.poll_next_unpin(context);
        match &polled {
            Poll::Ready(Some(Ok(item))) => {
                this.asking.receives();
                this.looks.looks(item, &mut this.asking);
            }
            Poll::Ready(Some(Err(error))) => this.asking.fails(error),
            Poll::Ready(None) => {
                this.looks.last(&mut this.asking);
                this.asking.ends(ProviderOutcome::Whole);
            }
            Poll::Pending => {}
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use valvehouse_core::metrics::Service;
    use valvehouse_core::trace::CalledModel;

    #[test]
    fn usage_is_found_at_the_end_of_a_stream_however_it_is_cut() {
        let body = br#"data: {"usage":null}

data: {"choices":[],"usage": {"prompt_tokens":7,"completion_tokens":5}}

data: [DONE]

"#;
        for size in [1, 7, 4096] {
            let (service, mut looks) = (Arc::new(Service::default()), LastBytes::default());
            let mut asking = service.ask(None, CalledModel { provider: "openai", model: "gpt" });
            let padding = vec![b' '; 3 * TAIL];
            for chunk in padding.chunks(size).chain(body.chunks(size)) {
                looks.looks(&Bytes::copy_from_slice(chunk), &mut asking);
                assert!(looks.0.len() < 2 * TAIL);
            }
            looks.last(&mut asking);
            asking.ends(ProviderOutcome::Whole);
            assert_eq!(service.tokens(), [7, 5], "chunks of {size}");
        }
        for nothing in
            [&b"{\"usage\": \"much\"}"[..], b"{\"usage\": {}}", b"{\"usage\": {\"prompt_tokens\":1"]
        {
            let service = Arc::new(Service::default());
            let mut asking = service.ask(None, CalledModel { provider: "openai", model: "gpt" });
            record_usage_at_the_end(nothing, &mut asking);
            asking.ends(ProviderOutcome::Whole);
            assert_eq!(service.tokens(), [0, 0]);
        }
    }
}
