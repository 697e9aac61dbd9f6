//! Conversion of emitted events for clients: to Open WebUI's form, or to text for clients that do not accept
//! events.

use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::ops::Range;
use url::Url;
use valvehouse_core::chat::{Head, delta, response};
use valvehouse_core::context::EmittedEvent;
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;

/// The maximum size of the text for the events of one answer, in bytes.
const MAX_TEXT: usize = 1 << 20;

/// The characters that could end a URL between parentheses, or have another meaning there.
const UNSAFE: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'(').add(b')').add(b'<').add(b'>').add(b'\\').add(b'`');

/// The types of images that are allowed in `data:` URLs.
const IMAGES: [&str; 4] =
    ["image/png;base64,", "image/jpeg;base64,", "image/gif;base64,", "image/webp;base64,"];

/// The places of text for events in the whole text of an answer, in bytes, and the original text if an event
/// replaced it.
#[derive(Default)]
pub(crate) struct RenderedText {
    places: Vec<Range<usize>>,
    original: Option<String>,
}

impl RenderedText {
    /// Returns `true` if the answer has no text for events.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.original.is_none()
    }

    /// Returns the texts of an answer, which are parts of its whole text in their order, without the text of events.
    pub(crate) fn without(&self, texts: &[String]) -> Vec<String> {
        if let Some(original) = &self.original {
            let rest = texts.iter().skip(1).map(|_| String::new());
            return std::iter::once(original.clone()).chain(rest).take(texts.len()).collect();
        }
        let mut start = 0;
        let cut = texts.iter().map(|text| {
            let (mut left, mut from) = (String::with_capacity(text.len()), 0);
            for place in &self.places {
                let within = |at: usize| at.saturating_sub(start).min(text.len());
                let (begin, end) = (within(place.start).max(from), within(place.end).max(from));
                left.extend(text.get(from..begin));
                from = end;
            }
            left.extend(text.get(from..));
            start += text.len();
            left
        });
        cut.collect()
    }
}

/// Returns an event in Open WebUI's form, which names HTML `embeds`.
pub(super) fn for_open_webui(event: Json) -> Json {
    let html = match event.text("type").as_deref() {
        Some("html") => event.at_path("data.content"),
        _ => return event,
    };
    Json::from([("type", "embeds".into()), ("data", Json::from([("embeds", vec![html].into())]))])
}

/// The text for the events of one answer, of the listed kinds only.
pub(crate) struct EventText {
    kinds: Vec<String>,
    model: String,
    head: Option<Head>,
    /// Set if the first chunk was created for an event, so that later chunks use its id.
    is_own: bool,
    text: Progress,
    /// The length of the text of the answer so far, in bytes.
    length: usize,
    rendered: RenderedText,
}

/// The progress of the text.
#[derive(Default)]
struct Progress {
    bytes: usize,
    begun: bool,
    /// The number of line breaks at the end.
    line_ends: usize,
    /// Set if the next text starts a paragraph, because it does not belong to a replacement.
    is_apart: bool,
    sources: Vec<String>,
}

impl EventText {
    /// Creates the converter for an answer of this model.
    pub(crate) fn new(kinds: &[String], model: &str) -> Self {
        Self {
            kinds: kinds.to_vec(),
            model: model.to_owned(),
            head: None,
            is_own: false,
            text: Progress::default(),
            length: 0,
            rendered: RenderedText::default(),
        }
    }

    /// Returns the places of text for events. Called at the end of the answer.
    pub(super) fn take_rendered(&mut self) -> RenderedText {
        std::mem::take(&mut self.rendered)
    }

    /// Returns the chunk for an event, if it has any text now.
    pub(super) fn chunk_of(&mut self, event: &Json) -> Option<StreamChunk> {
        let text = self.text_of(event)?;
        Some(self.chunk(text))
    }

    /// Returns the chunks to send for a chunk of the answer. The sources of all events are sent before its
    /// end.
    pub(super) fn chunks(&mut self, chunk: StreamChunk) -> Vec<StreamChunk> {
        if self.head.is_none()
            && let Some(id) = chunk.event.text("id")
        {
            let head = Head::with_id(id.as_str(), chunk.event.text_or_empty("model"));
            let created = chunk.event.integer("created");
            let created = created.and_then(|created| u64::try_from(created).ok()).unwrap_or(head.created);
            self.head = Some(Head { created, ..head });
        }
        let mut before = Vec::new();
        let content = chunk.event.at_path("choices.0.delta.content");
        if let Some(content) = content.as_str().filter(|content| !content.is_empty()) {
            if self.text.is_apart {
                let gap = self.text.paragraph(String::new());
                before.extend((!gap.is_empty()).then(|| self.chunk(gap)));
            }
            self.text.add(content);
            self.length += content.len();
        }
        if delta::finishes(&chunk.event) {
            before.extend(self.text.take_sources().map(|text| self.chunk(text)));
        }
        let chunk = match (&self.head, self.is_own) {
            (Some(head), true) if chunk.event.get("id").is_some() => {
                let event = chunk.event.deep_clone();
                // This copy is not shared, so it accepts any value.
                event.edit("id", head.id.as_str());
                event.edit("created", head.created);
                // The first chunk already contained the role.
                event.at_path("choices.0.delta").remove("role");
                StreamChunk::received(Bytes::new(), event, chunk.name.clone())
            }
            _ => chunk,
        };
        before.into_iter().chain([chunk]).collect()
    }

    /// Inserts the text of events into a complete answer, and returns its places. The position of events relative to
    /// the model call is unknown: their text comes first, and a replacement replaces all text before it.
    pub(super) fn write_into(mut self, answer: &Json, events: &[EmittedEvent]) -> RenderedText {
        let message = response::message_of(answer);
        let Json::Text(content) = message.get("content").unwrap_or_else(|| "".into()) else {
            return RenderedText::default();
        };
        let (mut before, mut content) = (String::new(), content.to_string());
        let mut original = None;
        for EmittedEvent(event) in events {
            let is_whole = matches!(event.text("type").as_deref(), Some("replace" | "chat:message"));
            let Some(text) = self.text_of(event) else { continue };
            match is_whole {
                true => {
                    self.text = Progress {
                        bytes: self.text.bytes,
                        sources: self.text.sources,
                        ..Progress::default()
                    };
                    let replacement = event.at_path("data.content").str_or_empty().to_owned();
                    original.get_or_insert(std::mem::replace(&mut content, replacement));
                    before = String::new();
                }
                false => before.push_str(&text),
            }
        }
        let between =
            if before.is_empty() || before.ends_with('\n') || content.is_empty() { "" } else { "\n\n" };
        self.text.add(&format!("{before}{between}{content}"));
        let sources = self.text.take_sources().unwrap_or_default();
        if before.is_empty() && sources.is_empty() && original.is_none() {
            return RenderedText::default();
        }
        let start = before.len() + between.len();
        let end = start + content.len();
        let places = [0..start, end..end + sources.len()].into_iter().filter(|place| !place.is_empty());
        message.edit("content", format!("{before}{between}{content}{sources}"));
        RenderedText { places: places.collect(), original }
    }

    fn chunk(&mut self, text: String) -> StreamChunk {
        let end = self.length + text.len();
        self.rendered.places.push(std::mem::replace(&mut self.length, end)..end);
        let is_first = self.head.is_none();
        if is_first {
            self.is_own = true;
        }
        let model = &self.model;
        let head = self.head.get_or_insert_with(|| Head::new(model.as_str()));
        let delta = Json::from([("content", text.into())]);
        if is_first {
            delta.edit("role", "assistant");
        }
        StreamChunk::new(head.chunk(delta, None))
    }

    /// Returns the text of an event; `None` if it has none, or none until the end.
    fn text_of(&mut self, event: &Json) -> Option<String> {
        let kind = event.text_or_empty("type");
        let kind = match kind.as_str() {
            "message" | "delta" | "chat:message:delta" => "message",
            "replace" | "chat:message" => "replace",
            "status" => "status",
            "files" | "chat:message:files" => "files",
            "citation" | "source" => "citation",
            _ => return None,
        };
        if !self.kinds.iter().any(|enabled| enabled == kind) || self.text.bytes > MAX_TEXT {
            return None;
        }
        let data = event.field("data");
        let text = match kind {
            "message" if self.text.is_apart => self.text.paragraph(data.string("content")),
            "message" => data.string("content"),
            "replace" => self.text.paragraph(data.string("content")),
            "status" => {
                let hidden = data.get("hidden").is_some_and(|hidden| hidden == true.into());
                let line = data.string("description").replace('\n', " ");
                if hidden || line.is_empty() {
                    String::new()
                } else {
                    self.text.paragraph(format!("> {line}\n\n"))
                }
            }
            "files" => {
                let links: Vec<String> = data.list("files").iter().filter_map(link_of_file).collect();
                if links.is_empty() {
                    String::new()
                } else {
                    self.text.paragraph(format!("{}\n\n", links.join("\n")))
                }
            }
            _ => {
                self.text.sources.extend(source(&data));
                String::new()
            }
        };
        if text.is_empty() {
            return None;
        }
        self.text.bytes += text.len();
        self.text.add(&text);
        self.text.is_apart = kind == "replace";
        Some(text)
    }
}

impl Progress {
    /// Records a text that is sent.
    fn add(&mut self, text: &str) {
        let own = text.len() - text.trim_end_matches('\n').len();
        self.line_ends = if own == text.len() { self.line_ends + own } else { own };
        self.begun |= !text.is_empty();
        self.is_apart &= text.is_empty();
    }

    /// Returns a text as a new paragraph.
    fn paragraph(&self, text: String) -> String {
        let missing = if self.begun { 2_usize.saturating_sub(self.line_ends) } else { 0 };
        format!("{}{text}", "\n".repeat(missing))
    }

    /// Returns the list of sources and clears it.
    fn take_sources(&mut self) -> Option<String> {
        let mut sources = std::mem::take(&mut self.sources);
        sources.dedup();
        (!sources.is_empty()).then(|| self.paragraph(format!("Sources:\n{}", sources.join("\n"))))
    }
}

/// Returns an image or a link to another file, in Markdown.
fn link_of_file(file: &Json) -> Option<String> {
    let url = file.text("url").filter(|url| !url.is_empty())?;
    let name = file.text("name").filter(|name| !name.is_empty());
    let name = plain(name.as_deref().unwrap_or("file"));
    let is_image = file.text("type").is_some_and(|kind| kind.starts_with("image"));
    Some(match safe_url(&url, is_image) {
        Some(url) if is_image => format!("![{name}]({url})"),
        Some(url) => format!("[{name}]({url})"),
        None => name,
    })
}

/// Returns a URL encoded for use between parentheses: one of the web, of this site, or with an image in it. `None`
/// for others, such as `javascript:…`, which clients must not open.
fn safe_url(text: &str, is_image: bool) -> Option<String> {
    let text = text.trim();
    let is_of_site = text.starts_with('/') && !text[1..].starts_with(['/', '\\']);
    if is_of_site {
        return Some(utf8_percent_encode(text, UNSAFE).to_string());
    }
    let url = Url::parse(text).ok()?;
    match url.scheme() {
        "http" | "https" => Some(utf8_percent_encode(url.as_str(), UNSAFE).to_string()),
        "data" if is_image => {
            let is_shown = IMAGES.iter().any(|kind| url.path().starts_with(kind));
            is_shown.then(|| utf8_percent_encode(url.as_str(), UNSAFE).to_string())
        }
        _ => None,
    }
}

/// Returns a line for the list of sources.
fn source(data: &Json) -> Option<String> {
    let url = data.at_path("source.url");
    let url = url.as_str().map(str::to_owned).or_else(|| {
        let of_document = data.at_path("metadata.0.source");
        of_document.as_str().filter(|source| source.contains("://")).map(str::to_owned)
    });
    let name = data.at_path("source.name").as_str().map(str::to_owned).or_else(|| url.clone())?;
    Some(match url.and_then(|url| safe_url(&url, false)) {
        Some(url) => format!("- [{}]({url})", plain(&name)),
        None => format!("- {}", plain(&name)),
    })
}

/// Returns a name without brackets and line breaks.
fn plain(name: &str) -> String {
    name.replace(['[', ']', '\n', '\r', '\\', '<', '>', '`'], " ").trim().to_owned()
}
