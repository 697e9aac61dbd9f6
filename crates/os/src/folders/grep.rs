//! The search for lines of files by a regular expression.

use super::file;
use super::glob::Pattern;
use super::glob::Walk;
use super::granted_folder::Folders;
use super::resolve::Place;
use crate::failure::Failure;
use cap_std::fs::{Dir, OpenOptions};
use regex::{Regex, RegexBuilder};
use std::ops::ControlFlow;
use std::path::Path;
use valvehouse_core::text::shortened;
use valvehouse_json::Json;

/// The maximum number of returned matches.
const MAX_MATCHES: usize = 500;
/// The maximum size of their text in bytes.
const MAX_TEXT: usize = 256 << 10;
/// The maximum length of a returned line in bytes.
const MAX_LINE: usize = 1_000;
/// The maximum number of lines around a match.
const MAX_AROUND: usize = 20;
/// The maximum memory of a compiled pattern in bytes.
const MAX_PATTERN: usize = 1 << 20;
/// The maximum length of a pattern in bytes; parsing needs about a hundred times as much memory.
const MAX_PATTERN_LENGTH: usize = 64 << 10;

/// The parameters of a search for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrepQuery<'a> {
    /// The regular expression, matched against each line; `(?i)` ignores case.
    pub pattern: &'a str,
    /// The file or folder to search; `None` for all granted folders.
    pub path: Option<&'a str>,
    /// A pattern that the paths of files have to match.
    pub glob: Option<&'a str>,
    /// The number of lines before and after each match.
    pub context: usize,
}

/// A matching line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The path of the file.
    pub path: String,
    /// The number of the line, from 1.
    pub line: usize,
    /// The line without its line break.
    pub text: String,
    /// The lines before it.
    pub before: Vec<String>,
    /// The lines after it.
    pub after: Vec<String>,
}

/// The matching lines, by path and number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matches {
    /// The lines.
    pub matches: Vec<Match>,
    /// The number of files that were searched.
    pub files: usize,
    /// The number of files that were skipped because they are not text, are too large, or cannot be read.
    pub skipped: usize,
    /// `true` if there are more matches, or not every folder was searched.
    pub cut: bool,
}

impl Folders {
    /// Returns the lines of files that match a regular expression. Links are not followed.
    ///
    /// # Errors
    /// Returns an error if the expression is invalid, or if the folder is not granted or cannot be read.
    pub fn grep(&self, what: GrepQuery<'_>) -> Result<Matches, Failure> {
        let mut search = Search::new(what)?;
        let start = self.place_or_all(what.path.unwrap_or("."))?;
        if let Some(place) = &start {
            let dir = place.open()?;
            let metadata = dir.metadata(place.inside()).map_err(|error| place.failure("search", &error))?;
            if !metadata.is_dir() {
                let text = text_of(&dir, place.inside()).map_err(|error| error.at(place, "search"))?;
                let cut = search.text(place, &text).is_break();
                return Ok(Matches { cut, files: 1, ..search.found });
            }
        }
        let cut = Walk::below(self, start.clone(), |met| {
            if !search.is_meant(&met.place, start.as_ref()) {
                return ControlFlow::Continue(());
            }
            // The visited entry itself is opened, so that a link that replaced it cannot lead elsewhere.
            let text = met.entry.open_with(&nonblocking()).map_err(file::NoFile::from).and_then(|file| {
                file::check(&file.metadata()?)?;
                file::text(file)
            });
            match text {
                Ok(text) => search.text(&met.place, &text),
                Err(_) => {
                    search.found.skipped += 1;
                    ControlFlow::Continue(())
                }
            }
        })?;
        Ok(Matches { cut, ..search.found })
    }
}

fn nonblocking() -> OpenOptions {
    let mut options = OpenOptions::new();
    file::without_waiting(options.read(true));
    options
}

fn text_of(dir: &Dir, path: &Path) -> Result<String, file::NoFile> {
    file::open(dir, path, OpenOptions::new().read(true)).and_then(file::text)
}

/// A search in progress.
struct Search {
    pattern: Regex,
    glob: Option<Pattern>,
    context: usize,
    found: Matches,
    bytes: usize,
}

impl Search {
    fn new(what: GrepQuery<'_>) -> Result<Self, Failure> {
        if what.pattern.len() > MAX_PATTERN_LENGTH {
            let most = MAX_PATTERN_LENGTH >> 10;
            return Err(Failure::new(format!("the pattern exceeded its limit of {most} KiB")));
        }
        let pattern = RegexBuilder::new(what.pattern).size_limit(MAX_PATTERN).build().map_err(|error| {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or(&why).trim_start_matches("error: ");
            Failure::new(format!("invalid pattern `{}`: {why}", what.pattern))
        })?;
        let glob = what.glob.map(Pattern::new).transpose()?;
        let context = what.context.min(MAX_AROUND);
        Ok(Self { pattern, glob, context, found: Matches::default(), bytes: 0 })
    }

    fn is_meant(&self, place: &Place<'_>, below: Option<&Place<'_>>) -> bool {
        self.glob.as_ref().is_none_or(|glob| glob.fits(place, below))
    }

    fn text(&mut self, place: &Place<'_>, text: &str) -> ControlFlow<()> {
        self.found.files += 1;
        let mut numbers = text.lines().enumerate().filter(|(_, line)| self.pattern.is_match(line)).peekable();
        if numbers.peek().is_none() {
            return ControlFlow::Continue(());
        }
        let numbers: Vec<usize> = numbers.map(|(number, _)| number).take(MAX_MATCHES + 1).collect();
        let lines: Vec<&str> = text.lines().collect();
        let path = place.shown();
        for number in numbers {
            let around = |from: usize, to: usize| lines[from..to].iter().map(|line| short(line)).collect();
            let end = (number + 1 + self.context).min(lines.len());
            let found = Match {
                path: path.clone(),
                line: number + 1,
                text: short(lines[number]),
                before: around(number.saturating_sub(self.context), number),
                after: around(number + 1, end),
            };
            self.bytes += found.bytes();
            if self.found.matches.len() == MAX_MATCHES || self.bytes > MAX_TEXT {
                return ControlFlow::Break(());
            }
            self.found.matches.push(found);
        }
        ControlFlow::Continue(())
    }
}

/// Returns a line, shortened if it is too long.
fn short(line: &str) -> String {
    shortened(line.to_owned(), MAX_LINE)
}

impl Match {
    fn bytes(&self) -> usize {
        let around = self.before.iter().chain(&self.after).map(String::len).sum::<usize>();
        self.path.len() + self.text.len() + around
    }

    fn into_json(self) -> Json {
        let found =
            Json::from([("path", self.path.into()), ("line", self.line.into()), ("text", self.text.into())]);
        for (key, lines) in [("before", self.before), ("after", self.after)] {
            if !lines.is_empty() {
                found.edit(key, lines.into_iter().map(Json::from).collect::<Vec<_>>());
            }
        }
        found
    }
}

impl Matches {
    /// Returns the result as JSON for a model or a script.
    pub fn into_json(self) -> Json {
        let matches: Vec<Json> = self.matches.into_iter().map(Match::into_json).collect();
        Json::from([
            ("matches", matches.into()),
            ("files", self.files.into()),
            ("skipped", self.skipped.into()),
            ("cut", self.cut.into()),
        ])
    }
}
