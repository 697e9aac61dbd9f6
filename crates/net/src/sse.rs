//! Server-sent events: parsing from arbitrary chunks of bytes, and writing.
//!
//! ```
//! use valvehouse_net::sse::Parser;
//! let mut parser = Parser::default();
//! parser.push(b"data: {\"a\":");
//! parser.push(b"1}\n\n");
//! assert_eq!(parser.next().unwrap().unwrap().data, "{\"a\":1}");
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use compact_str::CompactString;
use std::collections::VecDeque;

/// The maximum length of a line in bytes; services send whole images in one line.
pub const MAX_LINE: usize = 16 * 1024 * 1024;

/// The maximum size of an event in bytes.
pub const MAX_EVENT: usize = 16 * 1024 * 1024;

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The value of `event:`.
    pub name: Option<CompactString>,
    /// The `data:` lines, joined by line feeds.
    pub data: Bytes,
}

/// The error of a stream that cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooLong {
    /// A line is longer than [`MAX_LINE`].
    #[error("a line exceeded its limit of {} MiB", MAX_LINE >> 20)]
    Line,
    /// An event is larger than [`MAX_EVENT`].
    #[error("an event exceeded its limit of {} MiB", MAX_EVENT >> 20)]
    Event,
}

/// Appends an event to `out`. Each line of the data is written as a separate `data:` line.
///
/// ```
/// use valvehouse_net::sse;
/// let mut out = Default::default();
/// sse::write(&mut out, None, b"{\n}");
/// assert_eq!(&out[..], b"data: {\ndata: }\n\n");
/// ```
pub fn write(out: &mut BytesMut, name: Option<&str>, data: &[u8]) {
    let head = name.map_or(0, |name| name.len() + b"event: \n".len());
    out.reserve(head + data.len() + b"data: \n\n".len());
    if let Some(name) = name {
        out.put_slice(b"event: ");
        let line = name.split_once(['\n', '\r']).map_or(name, |(line, _)| line);
        out.put_slice(line.as_bytes());
        out.put_u8(b'\n');
    }
    let mut rest = data;
    loop {
        let end = line_end(rest).unwrap_or(rest.len());
        out.put_slice(b"data: ");
        out.put_slice(&rest[..end]);
        out.put_u8(b'\n');
        rest = match &rest[end..] {
            [] => break,
            [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
        };
    }
    out.put_u8(b'\n');
}

/// Returns the place of the first byte that ends a line.
fn line_end(bytes: &[u8]) -> Option<usize> {
    memchr::memchr2(b'\n', b'\r', bytes)
}

/// A parser of events. Pass chunks to [`Parser::push`], then iterate; at the end of the input, call
/// [`Parser::finish`], then iterate once more.
///
/// Lines may end with LF, CRLF or CR. Comments and unknown fields are ignored.
#[derive(Debug, Default)]
pub struct Parser {
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
    /// `true` if the last byte was a CR, so that a following LF belongs to it.
    after_cr: bool,
    /// `true` after the first line, which may begin with a byte order mark.
    begun: bool,
    name: Option<CompactString>,
    data: Option<Vec<u8>>,
    ready: VecDeque<SseEvent>,
    state: State,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    #[default]
    Reading,
    Failing(TooLong),
    Ended,
}

impl Parser {
    /// Parses the next chunk.
    pub fn push(&mut self, mut bytes: &[u8]) {
        if self.after_cr && !bytes.is_empty() {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            self.after_cr = false;
        }
        while self.state == State::Reading {
            let Some(end) = line_end(bytes) else { return self.keep(bytes) };
            self.end_line(&bytes[..end]);
            let rest = &bytes[end + 1..];
            if bytes[end] == b'\r' {
                self.after_cr = rest.is_empty();
                bytes = rest.strip_prefix(b"\n").unwrap_or(rest);
            } else {
                bytes = rest;
            }
        }
    }

    /// Ends the input; an event without a final empty line is complete as well.
    pub fn finish(&mut self) {
        if self.state == State::Reading {
            self.end_line(b"");
            self.dispatch();
        }
        if self.state == State::Reading {
            self.state = State::Ended;
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.partial.len() + bytes.len() > MAX_LINE {
            self.fail(TooLong::Line);
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, bytes: &[u8]) {
        if self.partial.is_empty() && bytes.len() <= MAX_LINE {
            return self.line(bytes);
        }
        self.keep(bytes);
        if self.state == State::Reading {
            let mut line = std::mem::take(&mut self.partial);
            self.line(&line);
            line.clear();
            self.partial = line;
        }
    }

    fn line(&mut self, line: &[u8]) {
        let line = match std::mem::replace(&mut self.begun, true) {
            false => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            true => line,
        };
        if line.is_empty() {
            return self.dispatch();
        }
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or(b"");
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => self.add_data(value),
            b"event" => self.name = Some(String::from_utf8_lossy(value).into()),
            _ => {}
        }
    }

    fn add_data(&mut self, value: &[u8]) {
        match &mut self.data {
            Some(data) if data.len() + value.len() >= MAX_EVENT => self.fail(TooLong::Event),
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            None => self.data = Some(value.to_vec()),
        }
    }

    /// Completes an event; without `data:`, there is none.
    fn dispatch(&mut self) {
        let name = self.name.take().filter(|name| !name.is_empty());
        if let Some(data) = self.data.take() {
            self.ready.push_back(SseEvent { name, data: data.into() });
        }
    }

    fn fail(&mut self, why: TooLong) {
        self.state = State::Failing(why);
        self.partial = Vec::new();
        self.data = None;
    }
}

/// Returns the complete events so far, then the error once if the stream cannot be parsed.
impl Iterator for Parser {
    type Item = Result<SseEvent, TooLong>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(event) = self.ready.pop_front() {
            return Some(Ok(event));
        }
        if let State::Failing(why) = self.state {
            self.state = State::Ended;
            return Some(Err(why));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Events = Vec<Result<(Option<String>, String), TooLong>>;

    fn read(chunks: &[&[u8]]) -> Events {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for chunk in chunks {
            parser.push(chunk);
            events.extend(&mut parser);
        }
        parser.finish();
        events.extend(&mut parser);
        events
            .into_iter()
            .map(|event| {
                event.map(|event| {
                    (event.name.map(Into::into), String::from_utf8_lossy(&event.data).into_owned())
                })
            })
            .collect()
    }

    fn data(text: &str) -> Vec<String> {
        read(&[text.as_bytes()]).into_iter().map(|event| event.unwrap().1).collect()
    }

    #[test]
    fn all_three_line_endings_are_read() {
        for text in ["data: a\n\ndata: b\n\n", "data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r"] {
            assert_eq!(data(text), ["a", "b"], "{text:?}");
        }
    }

    #[test]
    fn comments_unknown_fields_and_events_without_data_are_ignored() {
        let text = ": PROCESSING\n\nid: 7\nretry: 10\nevent: ping\n\ndata:a\ncolour: red\n\n";
        assert_eq!(read(&[text.as_bytes()]), [Ok((None, "a".into()))]);
    }

    #[test]
    fn event_names_spaces_and_multiline_data_are_parsed() {
        let text = "\u{feff}event: error\ndata:  {\ndata\ndata:}\n\n";
        assert_eq!(read(&[text.as_bytes()]), [Ok((Some("error".into()), " {\n\n}".into()))]);
    }

    #[test]
    fn written_events_are_read_back_with_their_line_endings() {
        for (written, read_again) in
            [("", ""), ("{\n}", "{\n}"), ("a\r\nb\rc\n", "a\nb\nc\n"), (" x: y", " x: y")]
        {
            let mut out = BytesMut::new();
            write(&mut out, Some("error"), written.as_bytes());
            assert_eq!(read(&[&out]), [Ok((Some("error".into()), read_again.into()))]);
        }
    }

    #[test]
    fn the_last_event_needs_no_empty_line() {
        assert_eq!(data("data: a\n\ndata: b"), ["a", "b"]);
        assert_eq!(data("data: a\n\ndata: b\n"), ["a", "b"]);
        assert_eq!(data(""), [""; 0]);
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let long = vec![b'x'; MAX_LINE + 1];
        assert_eq!(
            read(&[b"data: a\n\ndata: ", &long, b"\n\n"]),
            [Ok((None, "a".into())), Err(TooLong::Line)]
        );
        let fits = format!("data: {}\n\n", "x".repeat(MAX_LINE - 6));
        assert_eq!(data(&fits)[0].len(), MAX_LINE - 6);
    }

    #[test]
    fn cutting_the_stream_anywhere_gives_the_same_events() {
        let text =
            "\u{feff}: hi\r\n\r\nevent: a\r\ndata: grüße\r\n\r\ndata: b\rdata:c\r\r\ndata\n\n\ndata: end";
        let whole = read(&[text.as_bytes()]);
        assert_eq!(whole.len(), 4);
        for at in 0..=text.len() {
            let (start, end) = text.as_bytes().split_at(at);
            assert_eq!(read(&[start, end]), whole, "cut at {at}");
        }
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(read(&bytes), whole);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(
            text in "(data|event|:|id| |x|\u{feff}|ü|\n|\r|\r\n|: ){0,40}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&chunks), read(&[bytes]));
        }
    }
}
