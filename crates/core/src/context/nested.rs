//! Calls of tools that scripts make, nested in each other.
//!
//! The work of one request in its scripts, with the questions, tools and parts that they start.
//!
//! Each call has budgets of its own. What one request starts multiplies: a tool that asks a model, whose tools ask
//! models. So the sums are bounded as well.

use super::pause::Pauses;
use crate::words::hex;
use sha2::{Digest, Sha256};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use tokio::sync::{Semaphore, SemaphorePermit};
use valvehouse_json::Json;

/// The runner of a turn, for code that knows its type.
pub(crate) type Runner = Arc<dyn Any + Send + Sync>;

/// A call of a tool that a script makes.
#[derive(Debug)]
pub(super) struct Within {
    plugin: String,
    tool: String,
    /// Names the call in each run of its step; "" where nothing is recorded.
    place: String,
    depth: usize,
    load: Arc<Load>,
    outer: Option<Arc<Self>>,
}

/// The call of a tool that a script's question to a model is a part of.
#[derive(Debug, Clone)]
pub struct Nesting(pub(super) Arc<Within>);

/// The reason for which a script may not call one more tool.
#[derive(Debug)]
pub struct TooManyCalls(String);

impl fmt::Display for TooManyCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TooManyCalls {}

/// The name under which is recorded what happens within calls of tools by scripts.
pub(super) fn recorded_by(by: &str, place: &str) -> String {
    format!("{by} in {place}")
}

impl Within {
    /// One more call.
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
                "cannot call `{tool}`: the scripts of one request may call {MAX_CALLS} tools"
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

    /// Waits until it may run; it runs until what this returns is dropped.
    pub(super) async fn admitted(&self) -> Option<SemaphorePermit<'_>> {
        self.load.admitted(self.depth).await
    }

    /// The tools that are being called, the first one first.
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

/// The most calls of tools by scripts that may be nested.
pub(super) const MAX_DEPTH: usize = 4;
/// The most that run at a time at each depth: each has a budget of its own.
const MAX_AT_A_TIME: usize = 8;
/// The most calls of tools by the scripts of one request.
pub(super) const MAX_CALLS: u32 = 256;

/// A kind of work that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Questions of scripts to models.
    Questions,
    /// Parts of calls that wait beside each other.
    Parts,
    /// Bytes that waiting calls hold.
    Bytes,
}

/// The work of one request: the sums of what is under way, and the calls of tools by its scripts.
#[derive(Debug)]
pub struct Load {
    shares: [AtomicUsize; 3],
    /// Calls of tools so far.
    calls: AtomicU32,
    /// Calls of tools that run, at each depth.
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

/// A part of the load of a request, until it is dropped.
#[derive(Debug)]
pub struct Claim {
    load: Arc<Load>,
    share: Share,
    amount: usize,
}

/// The load of a request would be larger than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadExceeded;

impl Load {
    /// Adds to one share of the load, which may be `most` in all.
    ///
    /// # Errors
    ///
    /// Returns an error if it would be more; nothing is added then.
    pub fn claim(self: &Arc<Self>, share: Share, amount: usize, most: usize) -> Result<Claim, LoadExceeded> {
        let sum = &self.shares[share as usize];
        let add = |sum: usize| sum.checked_add(amount).filter(|sum| *sum <= most);
        sum.fetch_update(Relaxed, Relaxed, add).map_err(|_| LoadExceeded)?;
        Ok(Claim { load: self.clone(), share, amount })
    }

    /// Counts one more call of a tool; `false` if there were as many as there may be.
    pub(super) fn count_call(&self) -> bool {
        self.calls.fetch_add(1, Relaxed) < MAX_CALLS
    }

    /// Waits until a call of this depth, from 1, may run; it runs until what this returns is dropped. Calls wait only
    /// for others of their depth, so that none waits for a call that waits for it.
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
    fn a_claim_counts_until_it_is_dropped_and_each_share_by_itself() {
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
