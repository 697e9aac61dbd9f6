//! `documents::…`: extracts the text of office documents and other files.

use super::argument::{RhaiResultOf, TextOrBytes, effect, fail, running, with_bytes};
use super::markup;
use super::output::{check_text, check_walk};
use crate::budget::{self, processor_time};
use crate::documents;
use rhai::Module;
use std::time::Duration;

const FUNCTION: &str = "documents::text";

/// The module `documents::…`.
pub(super) fn module() -> Module {
    let mut module = Module::new();
    effect(
        "text",
        &["data: TextOrBytes", "String"],
        "Returns the text of a document, at most 4 MiB: DOCX, XLSX (rows as lines, cells separated by tabs), PPTX, HTML, \
         and files that are text. Fails for others, such as PDF and images, and for encrypted ones.",
    )
    .set_into_module(&mut module, |data: TextOrBytes| {
        with_bytes(FUNCTION, "data", &data, |bytes| text(FUNCTION, bytes))
    });
    module
}

/// Returns the text of a document. An archive is unpacked on a separate thread while the script waits, and its
/// processor time counts as that of the script.
pub(super) fn text(function: &str, bytes: &[u8]) -> RhaiResultOf<String> {
    if documents::is_office(bytes) {
        let call = running(function)?;
        budget::reserve(bytes.len()).map_err(budget::ended)?;
        let bytes = bytes.to_vec();
        let work = move || {
            let began = processor_time();
            let read = documents::text(&bytes);
            let spent = began.and_then(|began| Some(processor_time()?.saturating_sub(began)));
            (read, spent.unwrap_or(Duration::ZERO))
        };
        let done = budget::wait(&call.turn, tokio::task::spawn_blocking(work))?;
        let (read, spent) =
            done.map_err(|error| fail(function, format!("the operation was stopped: {error}")))?;
        budget::spend(spent).map_err(budget::ended)?;
        let text = read.map_err(|error| fail(function, error))?;
        check_text(function, text.len())?;
        return Ok(text);
    }
    if bytes.starts_with(b"%PDF") {
        return Err(fail(
            function,
            "cannot read the text of a PDF file; send it to a model that reads files, or convert it with a granted \
             program (shell::run)",
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| {
        fail(function, "cannot read the document: it is neither DOCX, XLSX, PPTX, HTML nor UTF-8 text")
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
            (r#"documents::text("%PDF-1.7")"#, "cannot read the text of a PDF file"),
            (r#"documents::text(base64::decode_bytes("/w=="))"#, "neither DOCX"),
            ("documents::text(5)", "`data` must be a text or bytes"),
        ]);
    }
}
