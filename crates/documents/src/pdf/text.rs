//! The text of a whole file.

use super::super::error::DocumentError;
use super::super::limits::MAX_TEXT;
use super::file::File;
use super::page::{Page, Reader, loose_pages, pages};
use super::work::Work;

/// The number of first bytes that may precede the file's own beginning.
const MAX_PREFIX: usize = 1_024;
const BEGIN: &[u8] = b"%PDF-";

/// Returns `true` if the bytes begin with the signature of a PDF file.
pub(in super::super) fn is_pdf(bytes: &[u8]) -> bool {
    // A text may quote the signature.
    bytes.starts_with(BEGIN) || begin(bytes).is_some() && std::str::from_utf8(bytes).is_err()
}

fn begin(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(&bytes[..bytes.len().min(MAX_PREFIX)], BEGIN)
}

/// Returns the text of a PDF file: pages are separated by an empty line. `is_stopped` is called often, and ends the
/// reading when it returns `true`.
///
/// # Errors
/// Returns an error if the file is damaged or encrypted, has no text, or exceeds a limit.
pub(in super::super) fn text(bytes: &[u8], is_stopped: &dyn Fn() -> bool) -> Result<String, DocumentError> {
    let bytes = &bytes[begin(bytes).unwrap_or(0)..];
    let work = Work::new(is_stopped);
    let mut file = File::open(bytes, &work)?;
    let mut found = pages(&file)?;
    let (mut text, mut unknown) = read(&file, &found)?;
    if text.is_empty() && unknown == 0 {
        // The table of objects may be damaged or wrong.
        file.search()?;
        found = pages(&file)?;
        if found.is_empty() {
            found = loose_pages(&file)?;
        }
        (text, unknown) = read(&file, &found)?;
    }
    match text.is_empty() {
        false => Ok(text),
        true if found.is_empty() => Err(DocumentError::Damaged("it has no pages")),
        true if unknown > 0 => Err(DocumentError::NoLetters),
        true => Err(DocumentError::NoText),
    }
}

/// Returns the text of pages, and the number of glyphs without letters.
fn read(file: &File<'_>, found: &[Page]) -> Result<(String, usize), DocumentError> {
    let (mut text, mut reader) = (String::new(), Reader::new(file));
    for page in found {
        let own = reader.text(page)?;
        if !text.is_empty() && !own.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&own);
        if text.len() > MAX_TEXT {
            return Err(DocumentError::TooLarge { what: "text", limit_mb: MAX_TEXT >> 20 });
        }
    }
    Ok((text, reader.unknown))
}
