//! Files by a pattern of their paths.

use super::granted::Folders;
use super::place::Place;
use super::walk::Walk;
use crate::failure::Failure;
use globset::{GlobBuilder, GlobMatcher};
use std::ops::ControlFlow;
use valvehouse_json::Json;

/// Most paths that are given.
const MOST: usize = 2_000;
/// Longest pattern, in bytes.
const LONGEST: usize = 1_000;

/// The search for paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Globbing<'a> {
    /// `*` and `?` within a name, `**` across folders, `{a,b}`, `[a-z]`. Matched against the path in
    /// full, the path within its granted folder, and the absolute path.
    pub pattern: &'a str,
    /// Only below this folder.
    pub path: Option<&'a str>,
}

/// The files that fit, by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Their paths in full.
    pub paths: Vec<String>,
    /// Is `true` if there are more, or not every folder was looked through.
    pub cut: bool,
}

impl Folders {
    /// The files whose paths fit a pattern. Links are not followed.
    pub fn glob(&self, what: Globbing<'_>) -> Result<Found, Failure> {
        let pattern = Pattern::new(what.pattern)?;
        let start = self.place_or_all(what.path.unwrap_or("."))?;
        let below = start.clone().filter(|_| what.path.is_some());
        let mut paths = Vec::new();
        let cut = Walk::below(self, start, |met| {
            if !pattern.fits(&met.place, below.as_ref()) {
                return ControlFlow::Continue(());
            }
            if paths.len() == MOST {
                return ControlFlow::Break(());
            }
            paths.push(met.place.shown());
            ControlFlow::Continue(())
        })?;
        paths.sort();
        Ok(Found { paths, cut })
    }
}

/// A pattern of paths.
pub(super) struct Pattern(GlobMatcher);

impl Pattern {
    pub(super) fn new(pattern: &str) -> Result<Self, Failure> {
        if pattern.len() > LONGEST {
            let message = format!("a pattern of {} bytes is too long: at most {LONGEST}", pattern.len());
            return Err(Failure::new(message));
        }
        let shown = pattern.strip_prefix("./").unwrap_or(pattern);
        let glob = GlobBuilder::new(shown).literal_separator(true).build();
        let glob = glob.map_err(|error| {
            Failure::new(format!("the pattern `{pattern}` cannot be read: {}", error.kind()))
        })?;
        Ok(Self(glob.compile_matcher()))
    }

    /// Returns `true` if a place fits, in any of the ways it may be said.
    pub(super) fn fits(&self, place: &Place<'_>, below: Option<&Place<'_>>) -> bool {
        let sayings = place.sayings();
        let from = below.and_then(|below| {
            let [full, ..] = &sayings;
            full.strip_prefix(&below.shown())?.strip_prefix('/')
        });
        from.into_iter().chain(sayings.iter().map(String::as_str)).any(|said| self.0.is_match(said))
    }
}

impl Found {
    /// The same for a model or a script.
    pub fn into_json(self) -> Json {
        let paths: Vec<Json> = self.paths.into_iter().map(Json::from).collect();
        Json::from([("paths", paths.into()), ("cut", self.cut.into())])
    }
}
