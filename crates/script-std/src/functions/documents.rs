//! `documents::…`: extracts the text of office documents, PDF files and other files.

use super::argument::{RhaiResultOf, TextOrBytes, effect, fail, with_bytes};
use super::markup;
use super::output::{check_text, check_walk};
use rhai::Module;

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

/// Returns the text of a document of any kind.
pub(super) fn text(function: &str, bytes: &[u8]) -> RhaiResultOf<String> {
    #[cfg(feature = "documents")]
    if let Some(kind) = valvehouse_documents::DocumentKind::of(bytes) {
        return super::binary_documents::text(function, kind, bytes);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| {
        let readable = match cfg!(feature = "documents") {
            true => "DOCX, XLSX, PPTX, PDF, HTML nor UTF-8 text",
            false => "HTML nor UTF-8 text, and this host was built without the feature `documents`, which reads others",
        };
        fail(function, format!("cannot read the document: it is neither {readable}"))
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
    use crate::functions::tests::{gives, refuses};

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
