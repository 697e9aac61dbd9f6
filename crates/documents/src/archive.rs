//! ZIP archives: their files by name, unpacked within limits.

use super::error::DocumentError;
use flate2::read::DeflateDecoder;
use std::collections::BTreeMap;
use std::io::Read;

/// The maximum number of files in an archive.
const MAX_FILES: usize = 4_096;
/// The maximum number of bytes that the read files unpack to in total.
const MAX_UNPACKED: usize = 64 << 20;
/// The number of unpacked bytes between two checks of `is_stopped`.
const CHECK_EVERY: u64 = 64 << 10;
/// The maximum length of the end record with its comment, in bytes.
const MAX_END: usize = 65_535 + END;
/// The sizes of the end record, of a directory entry and of a file header, in bytes.
const END: usize = 22;
const ENTRY: usize = 46;
const HEAD: usize = 30;

/// An archive.
pub(crate) struct Archive<'a> {
    bytes: &'a [u8],
    files: BTreeMap<String, PackedFile>,
    left: usize,
}

/// A packed file.
struct PackedFile {
    head: usize,
    size: usize,
    is_deflated: bool,
    is_readable: bool,
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let part = bytes.get(at..at.checked_add(length)?)?;
    Some(part.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

impl<'a> Archive<'a> {
    /// Reads the directory of an archive.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, DocumentError> {
        const DAMAGED: DocumentError = DocumentError::Damaged("it is not a ZIP archive");
        let first = bytes.len().saturating_sub(MAX_END);
        let tail = &bytes[first..];
        let end = tail.windows(4).rposition(|four| four == b"PK\x05\x06").ok_or(DAMAGED)? + first;
        let count = number(bytes, end + 10, 2).ok_or(DAMAGED)?;
        let mut at = number(bytes, end + 16, 4).ok_or(DAMAGED)?;
        if count > MAX_FILES {
            return Err(DocumentError::Damaged("it has too many files"));
        }
        let mut files = BTreeMap::new();
        for _ in 0..count {
            let entry = bytes.get(at..).filter(|rest| rest.starts_with(b"PK\x01\x02")).ok_or(DAMAGED)?;
            let field = |place, length| number(entry, place, length).ok_or(DAMAGED);
            let (flags, method) = (field(8, 2)?, field(10, 2)?);
            let (name, extra, comment) = (field(28, 2)?, field(30, 2)?, field(32, 2)?);
            let packed = PackedFile {
                head: field(42, 4)?,
                size: field(20, 4)?,
                is_deflated: method == 8,
                is_readable: flags & 1 == 0 && matches!(method, 0 | 8),
            };
            let name = entry.get(ENTRY..ENTRY + name).ok_or(DAMAGED)?;
            files.insert(String::from_utf8_lossy(name).into_owned(), packed);
            at += ENTRY + name.len() + extra + comment;
        }
        Ok(Self { bytes, files, left: MAX_UNPACKED })
    }

    /// Returns `true` if there is a file with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Returns the names with this prefix, sorted.
    pub(crate) fn names(&self, beginning: &str) -> Vec<String> {
        self.files.keys().filter(|name| name.starts_with(beginning)).cloned().collect()
    }

    /// Unpacks a file. `is_stopped` is called often, and ends the work when it returns `true`.
    ///
    /// # Errors
    /// Returns an error if the file is missing, damaged or encrypted, exceeds the limit, or is stopped.
    pub(crate) fn file(
        &mut self,
        name: &str,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<String, DocumentError> {
        const DAMAGED: DocumentError = DocumentError::Damaged("a file of the archive is cut off");
        let packed =
            self.files.get(name).ok_or(DocumentError::Damaged("a file of the archive is missing"))?;
        if !packed.is_readable {
            return Err(DocumentError::Packed);
        }
        let name = number(self.bytes, packed.head + 26, 2).ok_or(DAMAGED)?;
        let extra = number(self.bytes, packed.head + 28, 2).ok_or(DAMAGED)?;
        let start = packed.head + HEAD + name + extra;
        let content = self.bytes.get(start..start.saturating_add(packed.size)).ok_or(DAMAGED)?;
        let mut source: Box<dyn Read + '_> = match packed.is_deflated {
            true => Box::new(DeflateDecoder::new(content)),
            false => Box::new(content),
        };
        let mut unpacked = Vec::new();
        while source.by_ref().take(CHECK_EVERY).read_to_end(&mut unpacked).map_err(|_| DAMAGED)? > 0 {
            if unpacked.len() > self.left {
                return Err(DocumentError::TooLarge { what: "XML", limit_mb: MAX_UNPACKED >> 20 });
            }
            if is_stopped() {
                return Err(DocumentError::Stopped);
            }
        }
        self.left -= unpacked.len();
        Ok(String::from_utf8(unpacked)
            .unwrap_or_else(|invalid| String::from_utf8_lossy(invalid.as_bytes()).into_owned()))
    }
}
