//! The fields of a form (`multipart/form-data`), located in its bytes without copying them.

use memchr::memmem;
use std::ops::Range;

/// A completely received field.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    /// Set if the part is an uploaded file.
    pub(super) is_file: bool,
    /// The range of the value in the body.
    pub(super) value: Range<usize>,
}

/// Returns the boundary in a content type; `None` for other types.
pub(super) fn boundary(content_type: &str) -> Option<String> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let named = parameters.split(';').filter_map(|parameter| parameter.trim().split_once('='));
    let mut values = named.filter(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"));
    let boundary = values.next()?.1.trim().trim_matches('"');
    (!boundary.is_empty() && boundary.len() <= 70).then(|| boundary.to_owned())
}

/// Returns the completely received fields.
pub(super) fn fields(body: &[u8], boundary: &str) -> Vec<Field> {
    let mut scan = Scan::new(boundary);
    std::iter::from_fn(|| scan.next(body)).collect()
}

/// Returns `true` for a field name that every parser reads in the same way.
pub(super) fn is_plain(name: &str) -> bool {
    !name.contains(['\\', '*', '%', '\''])
}

/// Returns `true` if a form has been received completely.
pub(super) fn is_whole(body: &[u8], boundary: &str) -> bool {
    let mut scan = Scan::new(boundary);
    while scan.next(body).is_some() {}
    scan.is_over(body)
}

/// The blank line after the head of a part.
const BLANK: &[u8] = b"\r\n\r\n";

/// Finds the fields of a form as its bytes arrive, and reads each byte once.
pub(super) struct Scan {
    /// The delimiter between two parts.
    next: String,
    place: Place,
    /// The position up to which the bytes have been searched.
    seen: usize,
}

/// The position in a form.
enum Place {
    /// Before the first delimiter.
    Preamble,
    /// In the head of a part. The value is the end of its delimiter.
    Head(usize),
    /// In the value of a field, which starts at `begin`. A part without a name is not a field.
    Value { begin: usize, name: Option<String>, is_file: bool },
}

impl Scan {
    /// Starts at the first byte of a form.
    pub(super) fn new(boundary: &str) -> Self {
        Self { next: format!("\r\n--{boundary}"), place: Place::Preamble, seen: 0 }
    }

    /// Returns the next complete field. `body` contains all bytes received so far.
    pub(super) fn next(&mut self, body: &[u8]) -> Option<Field> {
        loop {
            match &mut self.place {
                Place::Preamble => {
                    let delimiter = self.next.trim_start();
                    let end = found(body, &mut self.seen, 0, delimiter.as_bytes())?;
                    self.place = Place::Head(end);
                }
                Place::Head(at) => {
                    let at = *at;
                    // Two hyphens after a delimiter end the form.
                    body.get(at..).filter(|rest| rest.starts_with(b"\r\n"))?;
                    let begin = found(body, &mut self.seen, at, BLANK)?;
                    let head = body.get(at + 2..begin - BLANK.len()).unwrap_or_default();
                    let head = String::from_utf8_lossy(head);
                    let is_file = parameter(&head, "filename").is_some();
                    // A name in the extended notation is not plain: it keeps its star.
                    let extended = parameter(&head, "name*").map(|name| format!("{name}*"));
                    let name = extended.or_else(|| parameter(&head, "name"));
                    self.place = Place::Value { begin, name, is_file };
                }
                Place::Value { begin, name, is_file } => {
                    let (begin, is_file) = (*begin, *is_file);
                    let end = found(body, &mut self.seen, begin, self.next.as_bytes())?;
                    let name = name.take();
                    self.place = Place::Head(end);
                    if let Some(name) = name {
                        return Some(Field { name, is_file, value: begin..end - self.next.len() });
                    }
                }
            }
        }
    }

    /// Returns `true` if the form ends after the last returned field.
    fn is_over(&self, body: &[u8]) -> bool {
        let Place::Head(at) = self.place else { return false };
        body.get(at..).is_some_and(|rest| rest.starts_with(b"--"))
    }
}

/// Returns the end of a pattern after `from`, or records in `seen` how far the bytes were searched.
fn found(body: &[u8], seen: &mut usize, from: usize, pattern: &[u8]) -> Option<usize> {
    // A pattern may start in the bytes that were searched before.
    let from = from.max(seen.saturating_sub(pattern.len() - 1));
    let at = memmem::find(body.get(from..)?, pattern);
    *seen = body.len();
    let end = from + at? + pattern.len();
    *seen = end;
    Some(end)
}

/// Returns a parameter of a part's `content-disposition`.
fn parameter(head: &str, name: &str) -> Option<String> {
    let line = head.lines().find(|line| {
        line.split_once(':').is_some_and(|(key, _)| key.trim().eq_ignore_ascii_case("content-disposition"))
    })?;
    let mut values = line.split(';').filter_map(|parameter| parameter.trim().split_once('='));
    let (_, value) = values.find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
    Some(value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\
                        Content-Type: audio/wav\r\n\r\nRI\r\nFF\r\n--x\r\n\
                        content-disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--x--\r\n";

    #[test]
    fn form_fields_are_found_as_soon_as_they_are_complete() {
        assert_eq!(boundary("multipart/form-data; boundary=\"x\"").as_deref(), Some("x"));
        assert_eq!(boundary("application/json; boundary=x"), None);
        let all = fields(FORM.as_bytes(), "x");
        let all_fields: Vec<_> = all
            .iter()
            .map(|field| (field.name.as_str(), field.is_file, &FORM[field.value.clone()]))
            .collect();
        assert_eq!(all_fields, [("file", true, "RI\r\nFF"), ("model", false, "whisper-1")]);
        for end in 0..FORM.len() {
            let begun = fields(&FORM.as_bytes()[..end], "x");
            assert!(end < FORM.len() - 2 && !is_whole(&FORM.as_bytes()[..end], "x") || end >= FORM.len() - 2);
            assert!(begun.len() <= all.len() && begun.iter().zip(&all).all(|(a, b)| a == b), "{end}");
        }
        for size in 1..FORM.len() {
            let mut scan = Scan::new("x");
            let ends = (1..=FORM.len()).filter(|end| end % size == 0 || *end == FORM.len());
            let bits: Vec<_> = ends
                .flat_map(|end| std::iter::from_fn(|| scan.next(&FORM.as_bytes()[..end])).collect::<Vec<_>>())
                .collect();
            assert!(bits == all && scan.is_over(FORM.as_bytes()), "{size}: {bits:?}");
        }
    }

    /// If each piece restarted the search, this test would take hours.
    #[test]
    fn a_long_form_in_many_chunks_is_scanned_once() {
        let form = [b"--x\r\nContent-Disposition: form-data; name=f\r\n\r\n".to_vec(), vec![b'\r'; 8 << 20]]
            .concat();
        let mut scan = Scan::new("x");
        assert!((0..form.len()).step_by(4).all(|end| scan.next(&form[..end]).is_none()));
        let whole = [&form[..], b"\r\n--x--"].concat();
        assert_eq!(scan.next(&whole).map(|field| field.value.len()), Some(8 << 20));
        assert!(scan.is_over(&whole));
    }

    #[test]
    fn names_that_parsers_read_differently_are_not_plain() {
        let named = |name: &str| {
            let form = format!("--x\r\nContent-Disposition: form-data; {name}\r\n\r\nv\r\n--x--\r\n");
            fields(form.as_bytes(), "x").into_iter().all(|field| is_plain(&field.name))
        };
        assert!(named("name=\"prompt\"") && named("name=prompt") && named("name=\"image[]\""));
        assert!(!named("name=\"prom\\pt\"") && !named("name=\"x\"; name*=UTF-8''prompt"));
    }
}
