//! Measures on live requests whether filters preserve the prompt cache of providers.
//!
//! A provider caches the beginning of a request: tools, then messages. A request that continues a conversation
//! hits the cache as far as its bytes are the same. The hashes of each filter's output are therefore stored by
//! the conversation as the client sent it. If a later request continues that conversation, each filter should
//! return the same beginning again.
//!
//! Hashing takes time, so only a sample is measured: bursts of up to 64 requests and four per second on
//! average, or fewer if they are long.

use super::facts::RequestFacts;
use crate::metrics::PromptCacheCounter;
use memchr::memmem::Finder;
use parking_lot::Mutex;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use valvehouse_json::Json;

/// The maximum number of stored conversations, by hook.
const MAX_CONVERSATIONS: usize = 1_000;
/// The budget used by one measurement, in milliseconds; each block of bytes uses the same again.
const SHARE: u64 = 250;
const SHARE_BYTES: usize = 64 << 10;
/// The maximum unspent budget, in milliseconds.
const MAX_UNSPENT: u64 = 16_000;
/// The maximum number of bytes hashed for one request, over all its filters.
const MAX_HASHED: usize = 4 << 20;

/// The parts of a body that are hashed.
const PARTS: [&str; 2] = ["messages", "tools"];

/// The start of a cache mark in encoded JSON; within a text, its quotes would be escaped.
static MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"cache_control\":"));

/// The conversations of a host that were measured recently.
#[derive(Debug)]
pub(super) struct PromptCaches {
    started: Instant,
    hasher: RandomState,
    /// The time at which the budget is fully restored, in milliseconds since the start.
    spent_until: AtomicU64,
    known: Mutex<Conversations>,
}

#[derive(Debug, Default)]
struct Conversations {
    by_hash: HashMap<u64, Vec<CachedPart>>,
    /// The keys in order of insertion.
    order: VecDeque<u64>,
}

/// The part of a filter's output that a provider may have cached.
#[derive(Debug)]
struct CachedPart {
    call_metrics: Arc<PromptCacheCounter>,
    /// The number of hashed pieces.
    length: usize,
    /// The hash of all pieces.
    hash: u64,
}

/// The hashes of a body by piece: its tools, if any, and each message or part of a message.
#[derive(Debug)]
struct Prints {
    /// The hash of each piece.
    own: Vec<u64>,
    /// The hash of each piece with all pieces before it.
    chained: Vec<u64>,
    /// The number of pieces up to the last cache mark.
    marked: Option<usize>,
    /// The index of the first piece of the last message.
    last: usize,
}

/// The measurement of one request in a chain.
#[derive(Debug)]
pub(crate) struct PromptCacheWatch {
    caches: Arc<PromptCaches>,
    client: Arc<Prints>,
    left: Vec<(Arc<PromptCacheCounter>, Arc<Prints>)>,
    /// The messages and tools that were hashed last, and their hashes.
    last: Option<([Json; 2], Arc<Prints>)>,
    seed: u64,
    hashed: usize,
    /// The start of the request, in milliseconds since the start of the host.
    now: u64,
}

impl PromptCaches {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            hasher: RandomState::new(),
            spent_until: AtomicU64::new(0),
            known: Mutex::default(),
        })
    }

    /// Returns the time since the start, in milliseconds.
    fn ms(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns `true` if the budget permits a measurement.
    fn has_budget(&self, now: u64) -> bool {
        self.spent_until.load(Relaxed) <= now.saturating_add(MAX_UNSPENT)
    }

    fn spend(&self, now: u64, bytes: usize) {
        let share = SHARE + SHARE * u64::try_from(bytes / SHARE_BYTES).unwrap_or(0);
        let later = |until: u64| Some(until.max(now) + share);
        // The closure always returns a value, so this cannot fail.
        let _ = self.spent_until.fetch_update(Relaxed, Relaxed, later);
    }
}

impl PromptCacheWatch {
    /// Starts a measurement if the budget permits it. `body` is the request body, or the context of a hook with
    /// its `messages`.
    pub(super) fn begin(
        caches: &Arc<PromptCaches>,
        (request, started): (&RequestFacts, Instant),
        hook: &'static str,
        body: &Json,
    ) -> Option<Box<Self>> {
        let now = caches.ms(started);
        if !caches.has_budget(now) || !request.is_of_client() {
            return None;
        }
        let seed = caches.hasher.hash_one((hook, request.model.as_str(), request.user.as_str()));
        let mut hashed = 0;
        let client = Arc::new(Prints::of(body, &caches.hasher, seed, &mut hashed)?);
        let parts = PARTS.map(|part| body.field(part));
        // If the values were changed before, their change flags are meaningless.
        let is_known = !parts.iter().any(Json::is_changed);
        let last = is_known.then(|| (parts, client.clone()));
        Some(Box::new(Self { caches: caches.clone(), client, left: Vec::new(), last, seed, hashed, now }))
    }

    /// Hashes the output of a filter.
    pub(crate) fn after(&mut self, call_metrics: &Arc<PromptCacheCounter>, body: &Json) {
        let is_same = |(part, before): (&str, &Json)| {
            // Null stands for a missing part.
            (body.field(part).ptr_eq(before) || before.is_null() && body.get(part).is_none())
                && !before.is_changed()
        };
        let prints = match &self.last {
            Some((parts, prints)) if PARTS.into_iter().zip(parts).all(is_same) => prints.clone(),
            _ => match Prints::of(body, &self.caches.hasher, self.seed, &mut self.hashed) {
                Some(prints) => Arc::new(prints),
                None => return,
            },
        };
        self.left.push((call_metrics.clone(), prints));
    }

    /// Counts for each filter whether its output starts like that of the latest request that this one
    /// continues, and stores this request.
    pub(crate) fn finish(self) {
        let Self { caches, client, left, hashed, now, .. } = self;
        caches.spend(now, hashed);
        let mut known = caches.known.lock();
        if let Some(before) = client.chained.iter().rev().find_map(|hash| known.by_hash.get(hash)) {
            for ((call_metrics, now), before) in left.iter().zip(before) {
                if !Arc::ptr_eq(call_metrics, &before.call_metrics) {
                    // The filter, or its version, differs from that of the stored request.
                    break;
                }
                let Some(last) = before.length.checked_sub(1) else { continue };
                let is_kept = now.chained.get(last) == Some(&before.hash);
                call_metrics.add(is_kept);
                if !is_kept {
                    // The outputs of later filters cannot be compared.
                    break;
                }
            }
        }
        let Some(whole) = client.chained.last() else { return };
        let sent = left.into_iter().map(|(call_metrics, prints)| {
            let length = prints.cached(&client);
            let hash = length.checked_sub(1).and_then(|last| prints.chained.get(last)).copied().unwrap_or(0);
            CachedPart { call_metrics, length, hash }
        });
        if known.by_hash.insert(*whole, sent.collect()).is_none() {
            known.order.push_back(*whole);
        }
        if known.order.len() > MAX_CONVERSATIONS
            && let Some(oldest) = known.order.pop_front()
        {
            known.by_hash.remove(&oldest);
        }
    }
}

impl Prints {
    /// Returns the hashes of a body; `None` if it has no messages or the byte limit is reached.
    fn of(body: &Json, hasher: &RandomState, seed: u64, hashed: &mut usize) -> Option<Self> {
        let messages = body.get("messages")?;
        let messages = messages.as_array()?.items();
        let mut prints = Self { own: Vec::new(), chained: Vec::new(), marked: None, last: 0 };
        // The buffer holds one piece at a time, as encoded JSON.
        let mut piece = Vec::new();
        let mut add = |prints: &mut Self, piece: &mut Vec<u8>| {
            prints.add(piece, hasher, seed, hashed)?;
            piece.clear();
            Some(())
        };
        if let Some(tools) = body.get("tools").filter(|tools| !tools.is_empty()) {
            tools.encode_raw_into(&mut piece).ok()?;
            add(&mut prints, &mut piece)?;
        }
        for message in &messages {
            prints.last = prints.own.len();
            // A mark belongs to a part, and later parts follow the mark.
            encode_shell(message, &mut piece)?;
            add(&mut prints, &mut piece)?;
            match message.get("content") {
                Some(Json::Array(parts)) => {
                    for part in parts.items() {
                        part.encode_raw_into(&mut piece).ok()?;
                        add(&mut prints, &mut piece)?;
                    }
                }
                Some(content) if !content.is_null() => {
                    // Clients send an unmarked text as a string instead of a list.
                    let is_text = matches!(content, Json::Text(_));
                    piece.extend_from_slice(if is_text { br#"{"type":"text","text":"# } else { b"" });
                    content.encode_raw_into(&mut piece).ok()?;
                    piece.extend_from_slice(if is_text { b"}" } else { b"" });
                    add(&mut prints, &mut piece)?;
                }
                _ => {}
            }
        }
        (!messages.is_empty()).then_some(prints)
    }

    fn add(&mut self, piece: &[u8], hasher: &RandomState, seed: u64, hashed: &mut usize) -> Option<()> {
        if *hashed > MAX_HASHED {
            return None;
        }
        *hashed += piece.len();
        let own = match unmarked(piece) {
            Some(rest) => {
                self.marked = Some(self.own.len() + 1);
                hasher.hash_one(rest)
            }
            None => hasher.hash_one(piece),
        };
        let before = self.chained.last().copied().unwrap_or(seed);
        self.own.push(own);
        self.chained.push(hasher.hash_one((before, own)));
        Some(())
    }

    /// Returns the number of pieces that a provider may have cached: those up to the last mark or, without
    /// marks, those before the client's last message, if it is still present.
    fn cached(&self, client: &Self) -> usize {
        let last = client.own.get(client.last);
        self.marked.or_else(|| self.own.iter().rposition(|own| Some(own) == last)).unwrap_or(self.last)
    }
}

/// Encodes a message without its content.
fn encode_shell(message: &Json, out: &mut Vec<u8>) -> Option<()> {
    let mut is_whole = true;
    out.push(b'{');
    if let Some(fields) = message.as_object() {
        fields.for_each(|key, value| {
            if key == "content" {
                return;
            }
            if out.len() > 1 {
                out.push(b',');
            }
            is_whole &= Json::from(key).encode_into(out).is_ok();
            out.push(b':');
            is_whole &= value.encode_raw_into(out).is_ok();
        });
    }
    out.push(b'}');
    is_whole.then_some(())
}

/// Removes cache marks, which move from message to message during a conversation, from encoded JSON; `None` if
/// there are none.
fn unmarked(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut found = MARK.find(bytes)?;
    let (mut rest, mut out) = (bytes, Vec::with_capacity(bytes.len()));
    loop {
        let (before, mark) = rest.split_at(found);
        let value = mark.get(MARK.needle().len()..).unwrap_or(&[]);
        // A mark is null or an object without nested objects.
        let length = match value.starts_with(b"null") {
            true => 4,
            false => value.iter().position(|byte| *byte == b'}').map_or(value.len(), |end| end + 1),
        };
        let after = value.get(length..).unwrap_or(&[]);
        let is_first = before.trim_ascii_end().ends_with(b"{");
        out.extend_from_slice(before.trim_ascii_end().strip_suffix(b",").unwrap_or(before));
        rest = match after.trim_ascii_start().strip_prefix(b",") {
            Some(next) if is_first => next,
            _ => after,
        };
        match MARK.find(rest) {
            Some(next) => found = next,
            None => {
                out.extend_from_slice(rest);
                return Some(out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_marks_are_ignored_in_comparisons() {
        let plain = br#"{"type":"text","text":"a"}"#.to_vec();
        for marked in [
            r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}"#,
            r#"{"type":"text","cache_control":{"type":"ephemeral"},"text":"a"}"#,
            r#"{"cache_control":{"type":"ephemeral"},"type":"text","text":"a"}"#,
            r#"{"type":"text","text":"a","cache_control":null}"#,
        ] {
            assert_eq!(unmarked(marked.as_bytes()), Some(plain.clone()), "{marked}");
        }
        let two = br#"[{"a":1,"cache_control":{}},{"b":2,"cache_control":{}}]"#;
        assert_eq!(unmarked(two), Some(br#"[{"a":1},{"b":2}]"#.to_vec()));
        assert_eq!(unmarked(br#"{"text":"\"cache_control\":{}"}"#), None);
    }

    #[test]
    fn prompt_cache_measurements_are_limited_to_four_a_second() {
        let caches = PromptCaches::new();
        let mut measured = 0;
        for now in [0, 1_000] {
            while caches.has_budget(now) {
                caches.spend(now, 100);
                measured += 1;
            }
        }
        assert_eq!(measured, 65 + 4);
        // A long request uses more of the budget.
        caches.spend(1_000, 10 << 20);
        assert!(!caches.has_budget(40_000) && caches.has_budget(60_000));
    }
}
