//! Going through folders and all below them.

use super::granted::Folders;
use super::list::{Kind, entries};
use super::place::Place;
use crate::failure::Failure;
use cap_std::fs::{Dir, DirEntry};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// The deepest folder that is looked into.
const DEEPEST: usize = 64;
/// The most entries that are looked at.
const MOST: usize = 200_000;
/// The longest time of a walk.
const LONGEST: Duration = Duration::from_secs(10);

/// A walk in progress, and what is left of it.
pub(super) struct Walk {
    left: usize,
    end: Instant,
    /// Is `true` if something was left out, because there was too much.
    pub(super) cut: bool,
}

/// A file that a walk meets.
pub(super) struct Met<'a> {
    /// The place of the entry.
    pub(super) place: Place<'a>,
    /// The entry, to be opened.
    pub(super) entry: DirEntry,
}

impl Walk {
    /// Visits the files below a place, or below all granted folders; by name, each folder's own files
    /// and folders in one order. Links are not followed.
    pub(super) fn below(
        folders: &Folders,
        start: Option<Place<'_>>,
        mut visit: impl FnMut(&Met<'_>) -> ControlFlow<()>,
    ) -> Result<bool, Failure> {
        let mut walk = Self { left: MOST, end: Instant::now() + LONGEST, cut: false };
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
        visit: &mut dyn FnMut(&Met<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        // A folder that cannot be read, or is gone by now, hides none of the others.
        let Ok((entries, more)) = entries(dir) else { return ControlFlow::Continue(()) };
        self.cut |= more;
        for (name, entry) in entries {
            if self.left == 0 || Instant::now() > self.end {
                return ControlFlow::Break(());
            }
            self.left -= 1;
            let place = place.below(&name);
            match Kind::of(&entry) {
                Kind::File => visit(&Met { place, entry })?,
                Kind::Folder if depth == 0 => self.cut = true,
                Kind::Folder => {
                    if let Ok(below) = entry.open_dir() {
                        self.visit(&below, &place, depth - 1, visit)?;
                    }
                }
                Kind::Link | Kind::Other => {}
            }
        }
        ControlFlow::Continue(())
    }
}
