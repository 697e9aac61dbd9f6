//! Calls of tools that scripts make, nested in each other.

use super::load::{Load, MAX_CALLS, MAX_DEPTH};
use super::pause::Pauses;
use crate::words::hex;
use sha2::{Digest, Sha256};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use tokio::sync::SemaphorePermit;
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
