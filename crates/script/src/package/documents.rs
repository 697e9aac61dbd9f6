//! `documents::…`: extracts the text of office documents, PDF files and other files.

use super::argument::{RhaiResultOf, TextOrBytes, effect, fail, running, with_bytes};
use super::markup;
use super::output::{check_text, check_walk};
use crate::budget::{self, processor_time};
use crate::documents::Kind;
use rhai::Module;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const FUNCTION: &str = "documents::text";

/// The module `documents::…`.
pub(super) fn module() -> Module {
    let mut module = Module::new();
    effect(
        "text",
        &["data: TextOrBytes", "String"],
        "Returns the text of a document, at most 4 MiB: DOCX, XLSX (rows as lines, cells separated by tabs), PPTX, PDF \
         (pages separated by an empty line), HTML, and files that are text. Fails for others, such as images, for \
         encrypted ones, and for PDF files without text, such as scans.",
    )
    .set_into_module(&mut module, |data: TextOrBytes| {
        with_bytes(FUNCTION, "data", &data, |bytes| text(FUNCTION, bytes))
    });
    module
}

/// The maximum number of documents that are read at the same time; others wait. Each may need 100 MB.
const READ_AT_ONCE: usize = 3;

fn reading() -> Arc<Semaphore> {
    static READING: OnceLock<Arc<Semaphore>> = OnceLock::new();
    READING.get_or_init(|| Arc::new(Semaphore::new(READ_AT_ONCE))).clone()
}

/// Returns the text of a document. Archives and PDF files are read on a separate thread while the script waits, and its
/// processor time counts as that of the script.
pub(super) fn text(function: &str, bytes: &[u8]) -> RhaiResultOf<String> {
    if let Some(kind) = Kind::of(bytes) {
        let call = running(function)?;
        budget::reserve(bytes.len()).map_err(budget::ended)?;
        let (bytes, limit) = (bytes.to_vec(), budget::time_limit());
        // The reading stops when the wait ends for any reason.
        let waiting = Arc::new(());
        let is_over = Arc::downgrade(&waiting);
        let read_next = reading();
        let work = move |_permit: OwnedSemaphorePermit| {
            let began = processor_time();
            let spent = || began.and_then(|began| Some(processor_time()?.saturating_sub(began)));
            let is_stopped = || is_over.strong_count() == 0 || spent().is_some_and(|spent| spent > limit);
            let read = kind.text(&bytes, &is_stopped);
            (read, spent().unwrap_or(Duration::ZERO))
        };
        let done = budget::wait(&call.turn, async {
            let permit = read_next.acquire_owned().await.map_err(|error| error.to_string())?;
            tokio::task::spawn_blocking(move || work(permit)).await.map_err(|error| error.to_string())
        });
        drop(waiting);
        let (read, spent) =
            done?.map_err(|error| fail(function, format!("the operation was stopped: {error}")))?;
        budget::spend(spent).map_err(budget::ended)?;
        let text = read.map_err(|error| fail(function, error))?;
        check_text(function, text.len())?;
        return Ok(text);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| {
        fail(function, "cannot read the document: it is neither DOCX, XLSX, PPTX, PDF, HTML nor UTF-8 text")
    })?;
    let begins: String = text.trim_start().chars().take(14).collect::<String>().to_ascii_lowercase();
    if begins.starts_with("<!doctype html") || begins.starts_with("<html") {
        check_walk(text, 4)?;
        let text = markup::text(text);
        check_text(function, text.len())?;
        return Ok(text);
    }
    check_text(function, text.len())?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::package::tests::{gives, refuses};

    #[test]
    fn text_and_html_documents_are_read_and_others_rejected() {
        gives(&[
            (r#"documents::text("a, b")"#, r#""a, b""#),
            (r#"documents::text(" <!DOCTYPE html><p>a &amp; b</p>")"#, r#""a & b""#),
            (r#"documents::text("<html><p>a")"#, r#""a""#),
            (r#"documents::text("<html")"#, r#""""#),
        ]);
        refuses(&[
            (r#"documents::text(base64::decode_bytes("/w=="))"#, "neither DOCX"),
            ("documents::text(5)", "`data` must be a text or bytes"),
        ]);
    }
}
