//! The search for files by a pattern of their paths, which walks through folders recursively.

use super::granted_folder::Folders;
use super::list::{EntryKind, entries};
use super::resolve::Place;
use crate::failure::Failure;
use cap_std::fs::{Dir, DirEntry};
use globset::{GlobBuilder, GlobMatcher};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use valvehouse_json::Json;

/// The maximum number of returned paths.
const MAX_PATHS: usize = 2_000;
/// The maximum length of a pattern in bytes.
const MAX_LENGTH: usize = 1_000;

/// The parameters of a search for paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobQuery<'a> {
    /// The pattern: `*` and `?` within a name, `**` across folders, `{a,b}`, `[a-z]`. It is matched against
    /// the full path, the path within its granted folder, and the absolute path.
    pub pattern: &'a str,
    /// The folder to search; `None` for all granted folders.
    pub path: Option<&'a str>,
}

/// The matching files, sorted by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobMatches {
    /// The full paths.
    pub paths: Vec<String>,
    /// `true` if there are more paths, or not every folder was searched.
    pub cut: bool,
}

impl Folders {
    /// Returns the files whose paths match a pattern. Links are not followed.
    ///
    /// # Errors
    /// Returns an error if the pattern is invalid, or if the folder is not granted or cannot be read.
    pub fn glob(&self, what: GlobQuery<'_>) -> Result<GlobMatches, Failure> {
        let pattern = Pattern::new(what.pattern)?;
        let start = self.place_or_all(what.path.unwrap_or("."))?;
        let below = start.clone().filter(|_| what.path.is_some());
        let mut paths = Vec::new();
        let cut = Walk::below(self, start, |met| {
            if !pattern.fits(&met.place, below.as_ref()) {
                return ControlFlow::Continue(());
            }
            if paths.len() == MAX_PATHS {
                return ControlFlow::Break(());
            }
            paths.push(met.place.shown());
            ControlFlow::Continue(())
        })?;
        paths.sort();
        Ok(GlobMatches { paths, cut })
    }
}

/// A pattern of paths.
pub(super) struct Pattern(GlobMatcher);

impl Pattern {
    pub(super) fn new(pattern: &str) -> Result<Self, Failure> {
        if pattern.len() > MAX_LENGTH {
            let message =
                format!("a pattern of {} bytes exceeded its limit of {MAX_LENGTH} bytes", pattern.len());
            return Err(Failure::new(message));
        }
        let shown = pattern.strip_prefix("./").unwrap_or(pattern);
        let glob = GlobBuilder::new(shown).literal_separator(true).build();
        let glob =
            glob.map_err(|error| Failure::new(format!("invalid pattern `{pattern}`: {}", error.kind())))?;
        Ok(Self(glob.compile_matcher()))
    }

    /// Returns `true` if a place matches in any of its notations.
    pub(super) fn fits(&self, place: &Place<'_>, below: Option<&Place<'_>>) -> bool {
        let notations = place.notations();
        let from = below.and_then(|below| {
            let [full, ..] = &notations;
            full.strip_prefix(&below.shown())?.strip_prefix('/')
        });
        from.into_iter().chain(notations.iter().map(String::as_str)).any(|notation| self.0.is_match(notation))
    }
}

impl GlobMatches {
    /// Returns the result as JSON for a model or a script.
    pub fn into_json(self) -> Json {
        let paths: Vec<Json> = self.paths.into_iter().map(Json::from).collect();
        Json::from([("paths", paths.into()), ("cut", self.cut.into())])
    }
}

/// The maximum depth of folders that are searched.
const DEEPEST: usize = 64;
/// The maximum number of entries that are visited.
const MAX_ENTRIES: usize = 200_000;
/// The time limit of a walk.
const MAX_TIME: Duration = Duration::from_secs(10);

/// A walk in progress, and its remaining limits.
pub(super) struct Walk {
    left: usize,
    end: Instant,
    /// `true` if entries were left out because of a limit.
    pub(super) cut: bool,
}

/// A file that a walk visits.
pub(super) struct WalkEntry<'a> {
    /// The place of the file.
    pub(super) place: Place<'a>,
    /// The entry, which can be opened.
    pub(super) entry: DirEntry,
}

impl Walk {
    /// Visits the files below a place, or below all granted folders, sorted by name within each folder. Links
    /// are not followed.
    pub(super) fn below(
        folders: &Folders,
        start: Option<Place<'_>>,
        mut visit: impl FnMut(&WalkEntry<'_>) -> ControlFlow<()>,
    ) -> Result<bool, Failure> {
        let mut walk = Self { left: MAX_ENTRIES, end: Instant::now() + MAX_TIME, cut: false };
        let starts = match start {
            Some(start) => vec![start],
            None => folders.places().collect(),
        };
        for start in starts {
            let dir = start.open()?;
            let dir = dir.open_dir(start.inside()).map_err(|error| start.failure("look through", &error))?;
            if walk.visit(&dir, &start, DEEPEST, &mut visit).is_break() {
                walk.cut = true;
                break;
            }
        }
        Ok(walk.cut)
    }

    fn visit(
        &mut self,
        dir: &Dir,
        place: &Place<'_>,
        depth: usize,
        visit: &mut dyn FnMut(&WalkEntry<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        // A folder that cannot be read or was removed must not end the walk.
        let Ok((entries, more)) = entries(dir) else { return ControlFlow::Continue(()) };
        self.cut |= more;
        for (name, entry) in entries {
            if self.left == 0 || Instant::now() > self.end {
                return ControlFlow::Break(());
            }
            self.left -= 1;
            let place = place.below(&name);
            match EntryKind::of(&entry) {
                EntryKind::File => visit(&WalkEntry { place, entry })?,
                EntryKind::Folder if depth == 0 => self.cut = true,
                EntryKind::Folder => {
                    if let Ok(below) = entry.open_dir() {
                        self.visit(&below, &place, depth - 1, visit)?;
                    }
                }
                EntryKind::Link | EntryKind::Other => {}
            }
        }
        ControlFlow::Continue(())
    }
}
