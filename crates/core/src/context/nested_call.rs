//! Nested tool calls of scripts, and the load of one request.
//!
//! Each call has its own budget, but calls multiply: a tool calls a model, whose tools call models. The totals
//! of a request are therefore limited as well.

use super::pause::Pauses;
use crate::text::hex;
use sha2::{Digest, Sha256};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use tokio::sync::{Semaphore, SemaphorePermit};
use valvehouse_json::Json;

/// The runner of a turn, of a type that the caller chooses.
pub(crate) type Runner = Arc<dyn Any + Send + Sync>;

/// A tool call by a script.
#[derive(Debug)]
pub(super) struct Within {
    plugin: String,
    tool: String,
    /// The name of the call, the same in each run of its step; "" if nothing is recorded.
    place: String,
    depth: usize,
    load: Arc<Load>,
    outer: Option<Arc<Self>>,
}

/// The tool call that a script's model call belongs to.
#[derive(Debug, Clone)]
pub struct NestedCall(pub(super) Arc<Within>);

/// The error of a tool call by a script that exceeds a limit.
#[derive(Debug)]
pub struct TooManyCalls(String);

impl fmt::Display for TooManyCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TooManyCalls {}

/// Returns the name under which host calls within a script's tool calls are recorded.
pub(super) fn recorded_by(by: &str, place: &str) -> String {
    format!("{by} in {place}")
}

impl Within {
    /// Starts one more nested call.
    pub(super) fn enter(
        outer: Option<&Arc<Self>>,
        load: &Arc<Load>,
        plugin: &str,
        tool: &str,
        args: &Json,
        pauses: Option<&Pauses>,
    ) -> Result<Arc<Self>, TooManyCalls> {
        let depth = outer.map_or(0, |outer| outer.depth) + 1;
        if depth > MAX_DEPTH {
            let names = Self::names(outer);
            return Err(TooManyCalls(format!(
                "cannot call `{tool}`: calls of tools by scripts are nested more than {MAX_DEPTH} deep ({names} -> {tool}); \
                 let one of them return without a call"
            )));
        }
        if !load.count_call() {
            return Err(TooManyCalls(format!(
                "cannot call `{tool}`: the scripts of one request may call at most {MAX_CALLS} tools"
            )));
        }
        let place = pauses.map(|pauses| {
            let before = outer.map_or("", |outer| outer.place.as_str());
            let by = if before.is_empty() { plugin.to_owned() } else { recorded_by(plugin, before) };
            let digest = hex(&Sha256::digest(args.to_string()));
            let call = format!("{before}/{plugin} {} {tool} {digest}", pauses.place_of(&by));
            let count = pauses.count(&call);
            format!("{call} {count}")
        });
        let place = place.unwrap_or_default();
        let (plugin, tool) = (plugin.to_owned(), tool.to_owned());
        Ok(Arc::new(Self { plugin, tool, place, depth, load: load.clone(), outer: outer.cloned() }))
    }

    /// Waits until the call may run. It counts as running until the permit is dropped.
    pub(super) async fn admitted(&self) -> Option<SemaphorePermit<'_>> {
        self.load.admitted(self.depth).await
    }

    /// Returns the names of the current tool calls, the outermost first.
    fn names(innermost: Option<&Arc<Self>>) -> String {
        let mut names: Vec<&str> = Vec::new();
        let mut next = innermost;
        while let Some(call) = next {
            names.push(&call.tool);
            next = call.outer.as_ref();
        }
        names.reverse();
        names.join(" -> ")
    }

    pub(super) fn plugin(&self) -> &str {
        &self.plugin
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }
}

/// The maximum nesting depth of tool calls by scripts.
pub(super) const MAX_DEPTH: usize = 4;
/// The maximum number of calls that run at a time at each depth; each has its own budget.
const MAX_AT_A_TIME: usize = 8;
/// The maximum number of tool calls by the scripts of one request.
pub(super) const MAX_CALLS: u32 = 256;

/// A limited kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Model calls by scripts.
    Questions,
    /// Parts of calls that wait concurrently.
    Parts,
    /// Bytes held by waiting calls.
    Bytes,
}

/// The load of one request: the totals of its current work and the tool calls of its scripts.
#[derive(Debug)]
pub struct Load {
    shares: [AtomicUsize; 3],
    /// The number of tool calls so far.
    calls: AtomicU32,
    /// The running tool calls at each depth.
    running: [Semaphore; MAX_DEPTH],
}

impl Default for Load {
    fn default() -> Self {
        Self {
            shares: Default::default(),
            calls: AtomicU32::new(0),
            running: [const { Semaphore::const_new(MAX_AT_A_TIME) }; MAX_DEPTH],
        }
    }
}

/// A claim on the load of a request, released when dropped.
#[derive(Debug)]
pub struct Claim {
    load: Arc<Load>,
    share: Share,
    amount: usize,
}

/// The error of a claim that exceeds the limit of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadExceeded;

impl Load {
    /// Claims an amount of one kind of work; `most` is the limit of the total.
    ///
    /// # Errors
    /// Returns an error if the total would exceed the limit; nothing is claimed then.
    pub fn claim(self: &Arc<Self>, share: Share, amount: usize, most: usize) -> Result<Claim, LoadExceeded> {
        let sum = &self.shares[share as usize];
        let add = |sum: usize| sum.checked_add(amount).filter(|sum| *sum <= most);
        sum.fetch_update(Relaxed, Relaxed, add).map_err(|_| LoadExceeded)?;
        Ok(Claim { load: self.clone(), share, amount })
    }

    /// Counts a tool call. Returns `false` if the limit is reached.
    pub(super) fn count_call(&self) -> bool {
        self.calls.fetch_add(1, Relaxed) < MAX_CALLS
    }

    /// Waits until a call at this depth, counted from 1, may run. It counts as running until the permit is
    /// dropped. Calls wait only for others at their depth, which rules out deadlocks.
    pub(super) async fn admitted(&self, depth: usize) -> Option<SemaphorePermit<'_>> {
        self.running.get(depth - 1)?.acquire().await.ok()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.load.shares[self.share as usize].fetch_sub(self.amount, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_counts_until_it_is_dropped_and_each_resource_is_separate() {
        let load = Arc::new(Load::default());
        let first = load.claim(Share::Parts, 6, 10).unwrap();
        assert!(load.claim(Share::Parts, 5, 10).is_err());
        assert!(load.claim(Share::Bytes, usize::MAX, usize::MAX).is_ok());
        let second = load.claim(Share::Parts, 4, 10).unwrap();
        drop(first);
        assert!(load.claim(Share::Parts, 6, 10).is_ok());
        drop(second);
        assert!(load.claim(Share::Parts, 10, 10).is_ok());
    }
}
