//! Calls of tools that scripts make: how deep they are nested, and how many there are.

use super::pause::Pauses;
use crate::words::hex;
use sha2::{Digest, Sha256};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tokio::sync::{Semaphore, SemaphorePermit};
use valvehouse_json::Json;

/// The runner of a turn, for code that knows its type.
pub(crate) type Runner = Arc<dyn Any + Send + Sync>;

/// The most calls of tools by scripts that may be nested.
const MAX_DEPTH: usize = 4;
/// The most that run at a time in one turn at each depth: each has a budget of its own.
const MAX_AT_A_TIME: usize = 8;
/// The most calls of tools by scripts in one turn, with the questions to models that it asks.
const MAX_CALLS: u32 = 256;

/// The calls of tools by the scripts of a turn, with those of the questions to models that it asks.
#[derive(Debug)]
pub(super) struct Calls {
    count: AtomicU32,
    running: [Semaphore; MAX_DEPTH],
}

impl Default for Calls {
    fn default() -> Self {
        Self { count: AtomicU32::new(0), running: [const { Semaphore::const_new(MAX_AT_A_TIME) }; MAX_DEPTH] }
    }
}

/// A call of a tool that a script makes.
#[derive(Debug)]
pub(super) struct Within {
    plugin: String,
    tool: String,
    /// Names the call in each run of its step; "" where nothing is recorded.
    place: String,
    depth: usize,
    calls: Arc<Calls>,
    outer: Option<Arc<Self>>,
}

/// The calls that a question to a model is a part of.
#[derive(Debug, Clone)]
pub struct Nesting {
    pub(super) calls: Arc<Calls>,
    pub(super) within: Option<Arc<Within>>,
}

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
        calls: &Arc<Calls>,
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
        if calls.count.fetch_add(1, Relaxed) >= MAX_CALLS {
            return Err(TooManyCalls(format!(
                "cannot call `{tool}`: the scripts of one turn may call {MAX_CALLS} tools"
            )));
        }
        let place = pauses.map(|pauses| {
            let before = outer.map(|outer| outer.place.as_str()).unwrap_or_default();
            let by = if before.is_empty() { plugin.to_owned() } else { recorded_by(plugin, before) };
            let digest = hex(&Sha256::digest(args.to_string()));
            let call = format!("{before}/{plugin} {} {tool} {digest}", pauses.place_of(&by));
            let count = pauses.count(&call);
            format!("{call} {count}")
        });
        let place = place.unwrap_or_default();
        let (plugin, tool) = (plugin.to_owned(), tool.to_owned());
        Ok(Arc::new(Self { plugin, tool, place, depth, calls: calls.clone(), outer: outer.cloned() }))
    }

    /// Waits until it may run; it runs until what this returns is dropped. Calls wait only for others of their depth, so
    /// that none waits for a call that waits for it.
    pub(super) async fn admitted(&self) -> Option<SemaphorePermit<'_>> {
        self.calls.running.get(self.depth - 1)?.acquire().await.ok()
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
