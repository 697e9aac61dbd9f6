//! Reading files.

use super::file;
use super::granted_folder::Folders;
use crate::failure::Failure;
use cap_std::fs::OpenOptions;
use std::path::PathBuf;
use valvehouse_json::Json;

/// The maximum size of text returned by one read, in bytes.
const MAX: usize = 1 << 20;
/// The maximum number of bytes returned by one read.
const MAX_BYTES: usize = 8 << 20;

/// A range of lines, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    /// The first line.
    pub first: usize,
    /// The last line; `None` for the end of the file.
    pub last: Option<usize>,
}

impl Lines {
    /// All lines.
    pub const ALL: Self = Self { first: 1, last: None };
}

/// The text of a file or of some of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileText {
    /// The path.
    pub path: String,
    /// The lines with their line breaks.
    pub text: String,
    /// The number of the first line.
    pub first_line: usize,
    /// The number of the last line; one less than the first if the range is empty.
    pub last_line: usize,
    /// The number of lines of the file.
    pub total_lines: usize,
    /// `true` if the text was cut at the limit.
    pub cut: bool,
}

impl Folders {
    /// Returns the text of a file or of some of its lines, at most 1 MiB.
    ///
    /// # Errors
    /// Returns an error if the file is not granted, is not text or cannot be read.
    pub fn read(&self, path: &str, lines: Lines) -> Result<FileText, Failure> {
        let place = self.place(path)?;
        let text = file::open(&place.open()?, place.inside(), OpenOptions::new().read(true))
            .and_then(file::text)
            .map_err(|error| error.at(&place, "read"))?;
        let total = text.split_inclusive('\n').count();
        let first = lines.first.max(1);
        if first > total.max(1) {
            let message = format!("cannot read `{}` from line {first}: it has {total} lines", place.shown());
            return Err(Failure::new(message));
        }
        let last = lines.last.unwrap_or(total).min(total);
        let taken: Vec<&str> =
            text.split_inclusive('\n').skip(first - 1).take((last + 1).saturating_sub(first)).collect();
        let (text, count, cut) = fitting(&taken);
        let last_line = first + count - 1;
        Ok(FileText { path: place.shown(), text, first_line: first, last_line, total_lines: total, cut })
    }

    /// Returns the bytes of a file of at most 8 MiB.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is larger or does not exist, or if the path leads outside of the granted
    /// folders.
    pub fn read_bytes(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let place = self.place(path)?;
        let bytes = file::open(&place.open()?, place.inside(), OpenOptions::new().read(true))
            .and_then(file::bytes)
            .map_err(|error| error.at(&place, "read"))?;
        if bytes.len() > MAX_BYTES {
            let message =
                format!("cannot read `{}`: {} bytes exceed the limit of 8 MiB", place.shown(), bytes.len());
            return Err(Failure::new(message));
        }
        Ok(bytes)
    }

    /// Returns `true` if the path exists.
    ///
    /// # Errors
    /// Returns an error if the path is not granted, whether it exists or not.
    pub fn exists(&self, path: &str) -> Result<bool, Failure> {
        let Some(place) = self.place_or_all(path)? else { return Ok(true) };
        place.open()?.try_exists(place.inside()).map_err(|error| place.failure("look at", &error))
    }

    /// Returns the path of a folder on this computer.
    pub(crate) fn folder(&self, path: &str) -> Result<PathBuf, Failure> {
        let place = self.place(path)?;
        place.open()?.open_dir(place.inside()).map_err(|error| place.failure("open the folder", &error))?;
        Ok(place.path())
    }
}

/// Returns as many whole lines as fit, or the beginning of the first one, with the number of lines, and
/// `true` if something was cut.
fn fitting(lines: &[&str]) -> (String, usize, bool) {
    let mut text = String::new();
    for (count, line) in lines.iter().enumerate() {
        if text.len() + line.len() <= MAX {
            text.push_str(line);
        } else if count == 0 {
            return (line[..line.floor_char_boundary(MAX)].to_owned(), 1, true);
        } else {
            return (text, count, true);
        }
    }
    (text, lines.len(), false)
}

impl FileText {
    /// Returns the text as JSON for a model or a script.
    pub fn into_json(self) -> Json {
        Json::from([
            ("path", self.path.into()),
            ("text", self.text.into()),
            ("first_line", self.first_line.into()),
            ("last_line", self.last_line.into()),
            ("total_lines", self.total_lines.into()),
            ("cut", self.cut.into()),
        ])
    }
}
