//! Server-sent events: the same whatever the cuts, the same as a reader written for clearness, and
//! the same after they were written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use valvehouse::net::sse::{Event, MAX_LINE, Parser, write};

fuzz_target!(|input: &[u8]| {
    // The first bytes say where the rest is cut.
    let (cuts, bytes) = input.split_at(input.len().min(8));
    let whole = read(std::iter::once(bytes));
    assert_eq!(read(chunks(bytes, cuts)), whole, "cuts change events");
    assert_eq!(read(bytes.chunks(1)), whole, "single bytes change events");
    assert_eq!(read_plainly(bytes), whole, "a plain reader reads other events");

    let mut written = Default::default();
    for event in &whole {
        write(&mut written, event.name.as_deref(), &event.data);
    }
    assert_eq!(read(chunks(&written, cuts)), whole, "written and read again, events change");

    // Any bytes can be data; line ends become line feeds, and nothing escapes into another event.
    let mut written = Default::default();
    write(&mut written, Some("any"), bytes);
    let again = read(std::iter::once(&written[..]));
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].data, with_line_feeds(bytes));
    assert_eq!(again[0].name.as_deref(), Some("any"));
});

fn chunks<'a>(bytes: &'a [u8], cuts: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let (mut rest, mut turn) = (bytes, 0);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = cuts.get(turn % cuts.len().max(1)).map_or(1, |&cut| usize::from(cut));
        turn += 1;
        // Nothing at all may come too, but not for ever.
        let (chunk, after) = rest.split_at(length.max(turn % 2).min(rest.len()));
        rest = after;
        Some(chunk)
    })
}

/// No input here is long enough for a line to be too long.
fn read<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<Event> {
    let (mut parser, mut events) = (Parser::default(), Vec::new());
    for chunk in chunks {
        assert!(chunk.len() < MAX_LINE);
        parser.push(chunk);
        events.extend(parser.by_ref().map(|event| event.expect("no line is too long")));
    }
    parser.finish();
    events.extend(parser.by_ref().map(|event| event.expect("no line is too long")));
    assert!(parser.next().is_none());
    events
}

/// As the standard describes it, in several passes; what is not ended by an empty line counts too.
fn read_plainly(bytes: &[u8]) -> Vec<Event> {
    let text = with_line_feeds(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let (mut events, mut name, mut data) = (Vec::new(), None, Vec::<&[u8]>::new());
    let lines = text.split(|&byte| byte == b'\n').chain([&b""[..]]);
    for line in lines {
        if line.is_empty() {
            let name = name.take().filter(|name: &String| !name.is_empty());
            if !data.is_empty() {
                let name = name.map(Into::into);
                events.push(Event { name, data: data.join(&b'\n').into() });
            }
            data.clear();
        } else if let Some(value) = value_of(line, b"data") {
            data.push(value);
        } else if let Some(value) = value_of(line, b"event") {
            name = Some(String::from_utf8_lossy(value).into_owned());
        }
    }
    events
}

fn value_of<'a>(line: &'a [u8], field: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(field)? {
        [] => Some(b""),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

fn with_line_feeds(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && bytes[at - 1] == b'\r' => {}
            b'\r' => out.push(b'\n'),
            byte => out.push(byte),
        }
    }
    out
}
