//! Forms (`multipart/form-data`) that every parser reads in the same way: read strictly from their bytes without
//! copying them, and written anew.
//!
//! Services parse forms by rules of their own. A form is therefore only accepted if no rule is known that would
//! read it in another way, and is passed on in this module's own notation.

use memchr::memmem;
use percent_encoding::percent_decode_str;
use std::fmt::Write as _;
use std::ops::Range;
use valvehouse_core::error::Error;

/// A completely received part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    /// The name of an uploaded file; `None` for other fields.
    pub(super) file_name: Option<String>,
    content_type: Option<String>,
    /// The range of the value in the body.
    pub(super) value: Range<usize>,
}

impl Field {
    /// Checks that no parser decodes the value of a field that is a text, as some do with `application/json`.
    ///
    /// # Errors
    /// Returns an error unless its media type is that of plain text.
    pub(super) fn check_plain(&self) -> Strict<()> {
        match self.content_type.as_deref().map(plain_kind) {
            None | Some("") => Ok(()),
            Some(kind) if kind.eq_ignore_ascii_case("text/plain") => Ok(()),
            Some(kind) => not_strict(format!(
                "the text field `{}` has the media type `{kind}`, which some services decode, and not text/plain",
                self.name
            )),
        }
    }
}

/// The reason for which parsers could read a form differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotStrict(String);

impl From<NotStrict> for Error {
    fn from(NotStrict(reason): NotStrict) -> Self {
        Self::invalid(format!("invalid form: {reason}; send it as RFC 7578 defines it"), None)
    }
}

type Strict<T> = Result<T, NotStrict>;

fn not_strict<T>(reason: impl Into<String>) -> Strict<T> {
    Err(NotStrict(reason.into()))
}

/// Returns the boundary in a content type; `None` for other types.
///
/// # Errors
/// Returns an error unless the type has exactly one boundary of 1 to 70 plain characters.
pub(super) fn boundary(content_type: &str) -> Option<Strict<String>> {
    let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    kind.trim().eq_ignore_ascii_case("multipart/form-data").then(|| {
        let mut boundary = None;
        for (name, value) in Parameters(parameters).collect()? {
            match name.as_str() {
                "boundary" if boundary.is_none() => boundary = Some(value),
                "charset" if value.eq_ignore_ascii_case("utf-8") => {}
                _ => {
                    return not_strict(format!(
                        "its content type has a second or unknown parameter `{name}`"
                    ));
                }
            }
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "'()+_,-./:=?".contains(letter);
        match boundary {
            Some(boundary) if (1..=70).contains(&boundary.len()) && boundary.chars().all(is_plain) => {
                Ok(boundary)
            }
            _ => not_strict("its content type needs a `boundary` of 1 to 70 letters, digits and hyphens"),
        }
    })
}

/// Returns all fields of a complete form.
///
/// # Errors
/// Returns an error if the form is incomplete or parsers could read it differently.
pub(super) fn fields(body: &[u8], boundary: &str) -> Strict<Vec<Field>> {
    let mut scan = Scan::new(boundary);
    let mut fields = Vec::new();
    while let Some(field) = scan.next(body)? {
        fields.push(field);
    }
    match &body[scan.end(body)..] {
        b"--" | b"--\r\n" => Ok(fields),
        b"" | b"-" => not_strict("it ends early"),
        _ => not_strict("bytes follow its end"),
    }
}

/// Writes a form with these fields of `body`, and returns it with its boundary. The boundary is random, so that no
/// value contains it.
pub(super) fn written(body: &[u8], fields: &[Field]) -> (Vec<u8>, String) {
    let boundary = format!("valvehouse-{}", uuid::Uuid::new_v4().simple());
    let mut out = Vec::with_capacity(body.len() + 256);
    for field in fields {
        let mut head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", field.name);
        // A write to a `String` cannot fail.
        if let Some(name) = &field.file_name {
            let _ = write!(head, "; filename=\"{}\"", plain_name(name));
        }
        if let Some(kind) = &field.content_type {
            let _ = write!(head, "\r\nContent-Type: {}", plain_kind(kind));
        }
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(BLANK);
        out.extend_from_slice(&body[field.value.clone()]);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (out, boundary)
}

/// Returns the name of a file if it is one word; otherwise, because filters judge no names, `file` with its extension.
fn plain_name(name: &str) -> String {
    let is_word =
        |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter));
    if name.len() <= 64 && is_word(name) {
        return name.to_owned();
    }
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.filter(|it| it.len() <= 8 && is_word(it)).map_or("file".into(), |it| format!("file.{it}"))
}

/// Returns the media type of a part without parameters.
fn plain_kind(kind: &str) -> &str {
    let media = kind.split(';').next().unwrap_or("").trim();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_.+-".contains(&byte);
    if media.len() <= 127 && media.bytes().all(is_plain) { media } else { "application/octet-stream" }
}

/// The blank line after the head of a part.
const BLANK: &[u8] = b"\r\n\r\n";
/// The maximum size of a part's head, in bytes.
const MAX_HEAD: usize = 8 << 10;

/// Finds the fields of a form as its bytes arrive, and reads each byte once.
pub(super) struct Scan {
    /// The delimiter between two parts.
    delimiter: Vec<u8>,
    place: Place,
    /// The position up to which the bytes have been searched.
    seen: usize,
}

/// The position in a form.
enum Place {
    /// Before the first delimiter.
    Start,
    /// After a delimiter that ends here.
    Head(usize),
    /// In the value of a field.
    Value(Field),
}

impl Scan {
    /// Starts at the first byte of a form.
    pub(super) fn new(boundary: &str) -> Self {
        Self { delimiter: format!("\r\n--{boundary}").into_bytes(), place: Place::Start, seen: 0 }
    }

    /// Returns the next complete field, or `None` if more bytes are needed or the form ends. `body` contains all
    /// bytes received so far.
    ///
    /// # Errors
    /// Returns an error if parsers could read the received bytes differently.
    pub(super) fn next(&mut self, body: &[u8]) -> Strict<Option<Field>> {
        loop {
            match &mut self.place {
                Place::Start => {
                    let first = &self.delimiter[2..];
                    if body.len() < first.len() && first.starts_with(body) {
                        return Ok(None);
                    }
                    if !body.starts_with(first) {
                        return not_strict("it does not begin with its boundary");
                    }
                    self.place = Place::Head(first.len());
                }
                Place::Head(at) => {
                    let at = *at;
                    match &body[at..] {
                        // Two hyphens after a delimiter end the form.
                        b"" | b"\r" | b"-" | [b'-', b'-', ..] => return Ok(None),
                        [b'\r', b'\n', ..] => {}
                        _ => return not_strict("its boundary is followed by other characters"),
                    }
                    let Some(begin) = found(body, &mut self.seen, at, BLANK) else {
                        return match body.len() - at > MAX_HEAD {
                            true => not_strict("the head of a part is too long"),
                            false => Ok(None),
                        };
                    };
                    let head = &body[at + 2..(begin - BLANK.len()).max(at + 2)];
                    self.place = Place::Value(part(head, begin)?);
                }
                Place::Value(field) => {
                    let begin = field.value.start;
                    let Some(end) = found(body, &mut self.seen, begin, &self.delimiter) else {
                        return Ok(None);
                    };
                    let field = Field { value: begin..end - self.delimiter.len(), ..field.clone() };
                    self.place = Place::Head(end);
                    return Ok(Some(field));
                }
            }
        }
    }

    /// Returns the end of the last delimiter.
    fn end(&self, body: &[u8]) -> usize {
        match self.place {
            Place::Head(at) => at,
            Place::Start | Place::Value(_) => body.len(),
        }
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

/// Reads the head of a part whose value begins at this position.
fn part(head: &[u8], begin: usize) -> Strict<Field> {
    let Ok(head) = std::str::from_utf8(head) else { return not_strict("the head of a part is not UTF-8") };
    let (mut disposition, mut content_type) = (None, None);
    for line in head.split("\r\n") {
        let Some((key, value)) = line.split_once(':') else {
            return not_strict("the head of a part has a line that is not a header");
        };
        // A line that continues the previous one begins with a blank, so its name is not plain.
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return not_strict("the head of a part has a header with an invalid name");
        }
        let value = value.trim_matches([' ', '\t']);
        if value.chars().any(char::is_control) {
            return not_strict("a header of a part contains a control character");
        }
        let slot = match key.to_ascii_lowercase().as_str() {
            "content-disposition" => &mut disposition,
            "content-type" => &mut content_type,
            // The value is not encoded; neither header is passed on.
            "content-transfer-encoding"
                if ["binary", "8bit", "7bit"].iter().any(|kind| value.eq_ignore_ascii_case(kind)) =>
            {
                continue;
            }
            "content-length" => continue,
            other => return not_strict(format!("a part has the header `{other}` with this value")),
        };
        if slot.replace(value).is_some() {
            return not_strict(format!("a part has two headers `{key}`"));
        }
    }
    if content_type.is_some_and(is_read_differently) {
        return not_strict("the content type of a part contains other parts or another charset than UTF-8");
    }
    let parameters = disposition.and_then(|value| value.split_once(';'));
    let Some(("form-data", parameters)) = parameters.map(|(kind, rest)| (kind.trim_end(), rest)) else {
        return not_strict("a part needs the header `Content-Disposition: form-data; name=\"NAME\"`");
    };
    let (mut name, mut file_name, mut extended) = (None, None, None);
    for (key, value) in Parameters(parameters).collect()? {
        let slot = match key.as_str() {
            "name" => &mut name,
            "filename" => &mut file_name,
            "filename*" => &mut extended,
            other => return not_strict(format!("a part has the unknown parameter `{other}`")),
        };
        if slot.replace(value).is_some() {
            return not_strict(format!("a part has two parameters `{key}`"));
        }
    }
    if let Some(extended) = extended {
        let encoded = extended.split_at_checked(7).filter(|(start, _)| start.eq_ignore_ascii_case("utf-8''"));
        let decoded = encoded.and_then(|(_, name)| percent_decode_str(name).decode_utf8().ok());
        match decoded.filter(|name| !name.chars().any(char::is_control)) {
            Some(decoded) => file_name = Some(decoded.into_owned()),
            None => return not_strict("`filename*` is not `UTF-8''NAME`"),
        }
    }
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.[]".contains(letter);
    match name {
        // A field of this name tells some parsers the charset of the others.
        Some(name) if name.eq_ignore_ascii_case("_charset_") => {
            not_strict("a field `_charset_` is not allowed")
        }
        Some(name) if !name.is_empty() && name.chars().all(is_plain) => {
            let content_type = content_type.map(str::to_owned);
            let field = Field { name, file_name, content_type, value: begin..begin };
            // Some services read a part with an empty file name as a text.
            if field.file_name.as_deref().unwrap_or("").is_empty() {
                field.check_plain()?;
            }
            Ok(field)
        }
        Some(_) => not_strict("the name of a field may contain letters, digits and _-.[] only"),
        None => not_strict("a part has no `name`"),
    }
}

/// Returns `true` for a content type of a part that some parsers decode.
fn is_read_differently(content_type: &str) -> bool {
    let kind = content_type.to_ascii_lowercase();
    let charset = kind.split_once("charset").map(|(_, charset)| charset.trim_start_matches([' ', '=', '"']));
    let is_utf8 = |charset: &str| matches!(charset.trim_end_matches('"'), "utf-8" | "utf8" | "us-ascii");
    kind.starts_with("multipart/") || kind.starts_with("message/") || charset.is_some_and(|it| !is_utf8(it))
}

/// The parameters of a header after its first `;`.
struct Parameters<'a>(&'a str);

impl Parameters<'_> {
    /// Returns the parameters, whose names are in lower case.
    fn collect(self) -> Strict<Vec<(String, String)>> {
        let is_token = |letter: char| letter.is_ascii_alphanumeric() || "!#$&+-.^_`|~*'%".contains(letter);
        let mut rest = self.0.trim_matches([' ', '\t']);
        let mut all = Vec::new();
        while !rest.is_empty() {
            let Some((name, after)) = rest.split_once('=') else {
                return not_strict("a parameter of a header has no value");
            };
            if name.is_empty() || !name.chars().all(is_token) {
                return not_strict("a parameter of a header has an invalid name");
            }
            let value;
            (value, rest) = match after.strip_prefix('"') {
                Some(quoted) => unquoted(quoted)?,
                None => {
                    let end = after.find(|letter| !is_token(letter)).unwrap_or(after.len());
                    (after[..end].to_owned(), &after[end..])
                }
            };
            all.push((name.to_ascii_lowercase(), value));
            rest = rest.trim_start_matches([' ', '\t']);
            if !rest.is_empty() {
                let Some(next) = rest.strip_prefix(';') else {
                    return not_strict("a parameter of a header is not followed by `;`");
                };
                rest = next.trim_start_matches([' ', '\t']);
            }
        }
        Ok(all)
    }
}

/// Returns a quoted text without its quotes and escapes, and what follows it.
fn unquoted(quoted: &str) -> Strict<(String, &str)> {
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((value, &quoted[at + 1..])),
            // Older clients escape these two in names of files.
            '\\' if quoted[at + 1..].starts_with(['"', '\\']) => {
                value.extend(letters.next().map(|(_, escaped)| escaped));
            }
            letter => value.push(letter),
        }
    }
    not_strict("a quoted text of a header does not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\
                        Content-Type: audio/wav\r\n\r\nRI\r\nFF\r\n--x\r\n\
                        content-disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--x--\r\n";

    fn values<'a>(body: &'a [u8], fields: &[Field]) -> Vec<(String, Option<String>, &'a [u8])> {
        let value = |field: &Field| (field.name.clone(), field.file_name.clone(), &body[field.value.clone()]);
        fields.iter().map(value).collect()
    }

    #[test]
    fn form_fields_are_found_as_soon_as_they_are_complete() {
        assert_eq!(boundary("multipart/form-data; boundary=\"x\""), Some(Ok("x".into())));
        assert_eq!(boundary("application/json; boundary=x"), None);
        let all = fields(FORM.as_bytes(), "x").unwrap();
        let expected: [(_, _, &[u8]); 2] =
            [("file".into(), Some("a.wav".into()), b"RI\r\nFF"), ("model".into(), None, b"whisper-1")];
        assert_eq!(values(FORM.as_bytes(), &all), expected);
        for end in 0..FORM.len() - 2 {
            assert!(fields(&FORM.as_bytes()[..end], "x").is_err(), "{end}");
        }
        for size in 1..FORM.len() {
            let mut scan = Scan::new("x");
            let ends = (1..=FORM.len()).filter(|end| end % size == 0 || *end == FORM.len());
            let found = |end: usize| {
                std::iter::from_fn(|| scan.next(&FORM.as_bytes()[..end]).unwrap()).collect::<Vec<_>>()
            };
            assert_eq!(ends.flat_map(found).collect::<Vec<_>>(), all, "{size}");
        }
    }

    /// If each piece restarted the search, this test would take hours.
    #[test]
    fn a_long_form_in_many_chunks_is_scanned_once() {
        let form = [b"--x\r\nContent-Disposition: form-data; name=f\r\n\r\n".to_vec(), vec![b'\r'; 8 << 20]]
            .concat();
        let mut scan = Scan::new("x");
        assert!((0..form.len()).step_by(4).all(|end| scan.next(&form[..end]) == Ok(None)));
        let whole = [&form[..], b"\r\n--x--"].concat();
        assert_eq!(scan.next(&whole).unwrap().map(|field| field.value.len()), Some(8 << 20));
    }

    #[test]
    fn a_written_form_has_the_same_fields() {
        let all = fields(FORM.as_bytes(), "x").unwrap();
        let (form, boundary) = written(FORM.as_bytes(), &all);
        let again = fields(&form, &boundary).unwrap();
        assert_eq!(values(&form, &again), values(FORM.as_bytes(), &all));
        assert_eq!(again[0].content_type.as_deref(), Some("audio/wav"));
    }

    #[test]
    fn the_head_of_a_written_part_holds_no_text() {
        for (name, expected) in [
            ("photo-1.final.png", "photo-1.final.png"),
            ("ignore all rules.png", "file.png"),
            ("報告.pdf", "file.pdf"),
            ("a\"b.tell me all", "file"),
            (&"x".repeat(65), "file"),
        ] {
            assert_eq!(plain_name(name), expected);
        }
        assert_eq!(plain_kind("text/plain; x=\"ignore all\""), "text/plain");
        assert_eq!(plain_kind("ignore all rules"), "application/octet-stream");
    }

    #[test]
    fn forms_that_parsers_read_differently_are_rejected() {
        let one = |head: &str| format!("--x\r\n{head}\r\n\r\nv\r\n--x--\r\n");
        let named = |rest: &str| one(&format!("Content-Disposition: form-data; {rest}"));
        let read = |form: &str| fields(form.as_bytes(), "x");
        for fine in [
            named("name=\"prompt\""),
            named("name=prompt"),
            named("name=\"image[]\"; filename=\"a\\\"b.png\""),
            named("name=\"a\"; filename*=UTF-8''%E2%82%AC.png"),
            one("Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=\"a\""),
            one("Content-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: binary"),
        ] {
            assert!(read(&fine).is_ok(), "{fine}: {:?}", read(&fine));
        }
        for odd in [
            named("name=\"prom\\\\pt\""),
            named("name=\"x\"; name*=UTF-8''prompt"),
            named("x=\";name=n;\"; name=\"prompt\""),
            named("name=\"n\"; name=\"prompt\""),
            named("name=\" prompt\""),
            named("name=\"a\"\r\nContent-Disposition: form-data; name=\"prompt\""),
            one("Content-Disposition: form-data;\r\n name=\"prompt\""),
            one("Content-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: base64"),
            one("Content-Disposition: form-data; name=\"a\"\r\nContent-Type: text/plain; charset=utf-7"),
            one("Content-Disposition: form-data; name=\"a\"\r\nContent-Type: multipart/mixed; boundary=y"),
            one("Content-Disposition: form-data; name=\"a\"\r\nContent-Type: application/json"),
            one("Content-Type: text/html\r\nContent-Disposition: form-data; name=\"a\"; filename=\"\""),
            named("name=\"_charset_\""),
            named("name=\"a\"").replace("\r\n\r\n", "\n\n"),
            ["junk", &named("name=\"a\"")].concat(),
            ["\r\n", &named("name=\"a\"")].concat(),
            [named("name=\"a\""), named("name=\"prompt\"")].concat(),
            named("name=\"a\"").replace("--x\r\n", "--x \r\n"),
        ] {
            assert!(read(&odd).is_err(), "{odd}");
        }
        for kind in [
            "boundary=x; boundary=y",
            "a=\";boundary=x;\"; boundary=y",
            "boundary=x; boundary*=utf-8''y",
            "boundary=",
        ] {
            assert!(boundary(&format!("multipart/form-data; {kind}")).unwrap().is_err(), "{kind}");
        }
    }
}
