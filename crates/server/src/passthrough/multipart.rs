//! The fields of a form (`multipart/form-data`), found in its bytes without copying them.

use memchr::memmem;
use std::ops::Range;

/// A field that has come whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    /// Whether it is an uploaded file.
    pub(super) is_file: bool,
    /// Its value in the body.
    pub(super) value: Range<usize>,
}

/// Returns the boundary that a content type names.
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

/// Returns the fields that have come whole so far.
pub(super) fn fields(body: &[u8], boundary: &str) -> Vec<Field> {
    read(body, boundary).0
}

/// Returns `true` if a form is read to its end.
pub(super) fn is_whole(body: &[u8], boundary: &str) -> bool {
    read(body, boundary).1
}

fn read(body: &[u8], boundary: &str) -> (Vec<Field>, bool) {
    let delimiter = format!("--{boundary}");
    let next = format!("\r\n{delimiter}");
    let mut found = Vec::new();
    let Some(mut at) = memmem::find(body, delimiter.as_bytes()).map(|at| at + delimiter.len()) else {
        return (found, false);
    };
    // Two hyphens behind a delimiter end the form.
    while let Some(line) = body.get(at..).filter(|rest| rest.starts_with(b"\r\n")) {
        let Some(head) = memmem::find(line, b"\r\n\r\n") else { break };
        let begin = at + head + 4;
        let Some(length) = memmem::find(&body[begin..], next.as_bytes()) else { break };
        let head = String::from_utf8_lossy(&line[2..head.max(2)]);
        if let Some(name) = parameter(&head, "name") {
            let is_file = parameter(&head, "filename").is_some();
            found.push(Field { name, is_file, value: begin..begin + length });
        }
        at = begin + length + next.len();
    }
    (found, body.get(at..).is_some_and(|rest| rest.starts_with(b"--")))
}

/// A parameter of a part's `content-disposition`.
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
    fn fields_are_found_as_soon_as_they_are_whole() {
        assert_eq!(boundary("multipart/form-data; boundary=\"x\"").as_deref(), Some("x"));
        assert_eq!(boundary("application/json; boundary=x"), None);
        let all = fields(FORM.as_bytes(), "x");
        let told: Vec<_> = all
            .iter()
            .map(|field| (field.name.as_str(), field.is_file, &FORM[field.value.clone()]))
            .collect();
        assert_eq!(told, [("file", true, "RI\r\nFF"), ("model", false, "whisper-1")]);
        for end in 0..FORM.len() {
            let begun = fields(&FORM.as_bytes()[..end], "x");
            assert!(end < FORM.len() - 2 && !is_whole(&FORM.as_bytes()[..end], "x") || end >= FORM.len() - 2);
            assert!(begun.len() <= all.len() && begun.iter().zip(&all).all(|(a, b)| a == b), "{end}");
        }
    }
}
