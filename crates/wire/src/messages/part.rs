//! Parts of a message's content (texts, images, documents), and fields that are passed on without translation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use compact_str::CompactString;
use valvehouse_core::chat::media::missing;
use valvehouse_core::error::Error;
use valvehouse_json::{Json, Object};

/// Converts a chat content, a text or a list of parts, to blocks. `place` is its path in error messages.
pub(super) fn blocks(content: &Json, place: &str) -> Result<Vec<Json>, Error> {
    match content {
        Json::Text(text) => Ok(text_block(text).into_iter().collect()),
        Json::Array(parts) => {
            let parts = parts.items().into_iter().enumerate();
            let blocks = parts.map(|(at, part)| block(&part, &format!("{place}[{at}]")));
            Ok(blocks.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        }
        _ => Ok(Vec::new()),
    }
}

/// Converts the content of a tool's result to blocks. A sentence stands for a part that Anthropic does not accept there.
pub(super) fn result_blocks(content: &Json, place: &str) -> Result<Vec<Json>, Error> {
    let Json::Array(parts) = content else { return blocks(content, place) };
    let part = |part: Json| match &*part.text_or_empty("type") {
        "input_audio" | "video_url" => missing(&part),
        "file" if !is_document(&part.field("file")) => missing(&part),
        _ => part,
    };
    let parts: Vec<Json> = parts.items().into_iter().map(part).collect();
    blocks(&parts.into(), place)
}

/// Returns `true` if Anthropic accepts a file: a PDF, a text, an address or an uploaded file.
fn is_document(file: &Json) -> bool {
    let kind = file.text("file_data").and_then(|url| DataUrl::read(&url).map(|data| data.kind));
    match kind {
        Some(kind) => kind == "application/pdf" || kind.starts_with("text/"),
        None => ["file_id", "file_url"].iter().any(|key| file.given(key).is_some()),
    }
}

/// Returns a text block, `None` for an empty text, which Anthropic rejects.
pub(super) fn text_block(text: &str) -> Option<Json> {
    (!text.is_empty()).then(|| Json::from([("type", "text".into()), ("text", text.into())]))
}

fn block(part: &Json, place: &str) -> Result<Option<Json>, Error> {
    let cannot = |what: &str| {
        Error::invalid(format!("cannot send {place} to Anthropic's models: {what}"), Some("messages"))
    };
    if let Json::Text(text) = part {
        return Ok(text_block(text));
    }
    let kind = part.text_or_empty("type");
    Ok(match &*kind {
        "text" if part.text("text").is_some_and(|text| text.is_empty()) => None,
        "" | "input_text" | "output_text" => text_block(&part.text_or_empty("text")),
        "refusal" => text_block(&part.text_or_empty("refusal")),
        "image_url" => Some(image(part, place)?),
        "file" if part.get("file").is_some() => Some(document(part, place)?),
        "input_audio" => return Err(cannot("it is audio; send its transcript")),
        "video_url" => return Err(cannot("it is a video; send images of it")),
        // The part already has Anthropic's format.
        _ => Some(part.deep_clone()),
    })
}

fn image(part: &Json, place: &str) -> Result<Json, Error> {
    let url = part.at_path("image_url.url");
    let Some(url) = url.as_str().or(part.get("image_url").as_ref().and_then(Json::as_str)).map(str::to_owned)
    else {
        let message = format!("missing {place}.image_url.url; send a data: URL or a web address");
        return Err(Error::invalid(message, Some("messages")));
    };
    let source = match DataUrl::read(&url) {
        Some(data) => base64_source(&data.kind, data.base64(place)?.into()),
        None => Json::from([("type", "url".into()), ("url", url.into())]),
    };
    let fields = [("type", "image".into()), ("source", source)];
    Ok(with_others(fields, others(part, &["type", "image_url"])))
}

fn document(part: &Json, place: &str) -> Result<Json, Error> {
    let file = part.field("file");
    let wrong = |what: String| Error::invalid(format!("invalid {place}.file: {what}"), Some("messages"));
    let source = match (file.text("file_data"), file.given("file_id")) {
        (Some(url), _) => {
            let data = DataUrl::read(&url);
            let data = data.ok_or_else(|| {
                wrong("expected file_data as a data: URL such as data:application/pdf;base64,…".into())
            })?;
            match &*data.kind {
                "application/pdf" => base64_source(&data.kind, data.base64(place)?.into()),
                kind if kind.starts_with("text/") => Json::from([
                    ("type", "text".into()),
                    ("media_type", "text/plain".into()),
                    ("data", data.text(place)?.into()),
                ]),
                kind => {
                    let what = format!("expected application/pdf or text for Anthropic's models, got {kind}");
                    return Err(wrong(what));
                }
            }
        }
        (None, Some(id)) => Json::from([("type", "file".into()), ("file_id", id)]),
        (None, None) => match file.given("file_url") {
            Some(url) => Json::from([("type", "url".into()), ("url", url)]),
            None => return Err(wrong("expected file_data, file_id or file_url".into())),
        },
    };
    let document =
        with_others([("type", "document".into()), ("source", source)], others(part, &["type", "file"]));
    if let (None, Some(title)) = (document.get("title"), file.given("filename")) {
        // The document was created above, so the write cannot fail.
        document.edit("title", title);
    }
    Ok(document)
}

fn base64_source(kind: &str, data: Json) -> Json {
    Json::from([("type", "base64".into()), ("media_type", kind.into()), ("data", data)])
}

/// Converts a block of a request to a part of a chat message.
pub(super) fn part(block: &Json) -> Json {
    let source = block.field("source");
    let kind = (block.text_or_empty("type"), source.text_or_empty("type"));
    let data = || {
        let kind = source.text_or_empty("media_type");
        Json::from(format!("data:{kind};base64,{}", source.text_or_empty("data")))
    };
    match (&*kind.0, &*kind.1) {
        ("image", "base64") => image_part(block, data()),
        ("image", "url") => image_part(block, source.field("url")),
        ("document", "base64") => file_part(block, "file_data", data()),
        ("document", "url") => file_part(block, "file_url", source.field("url")),
        ("document", "file") => file_part(block, "file_id", source.field("file_id")),
        _ => block.deep_clone(),
    }
}

fn file_part(block: &Json, key: &str, value: Json) -> Json {
    // A document without a title has no file name.
    let name = block.given("title").map(|title| ("filename", title));
    let file = Json::from_fields(name.into_iter().chain([(key, value)]));
    with_others([("type", "file".into()), ("file", file)], others(block, &["type", "source", "title"]))
}

fn image_part(block: &Json, url: Json) -> Json {
    let fields = [("type", "image_url".into()), ("image_url", Json::from([("url", url)]))];
    with_others(fields, others(block, &["type", "source"]))
}

/// `data:KIND;base64,DATA`
struct DataUrl<'a> {
    kind: String,
    is_base64: bool,
    data: &'a str,
}

impl<'a> DataUrl<'a> {
    fn read(url: &'a str) -> Option<Self> {
        let scheme = url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:"))?;
        let (head, data) = url[scheme.len()..].split_once(',')?;
        let mut words = head.split(';');
        let kind = words.next()?.trim().to_ascii_lowercase();
        // `image/jpg` is a common misspelling.
        let kind = if kind == "image/jpg" { "image/jpeg".to_owned() } else { kind };
        Some(Self { kind, is_base64: words.any(|word| word.trim().eq_ignore_ascii_case("base64")), data })
    }

    fn base64(&self, place: &str) -> Result<String, Error> {
        if self.is_base64 { Ok(self.data.to_owned()) } else { Ok(STANDARD.encode(self.bytes(place)?)) }
    }

    fn text(&self, place: &str) -> Result<String, Error> {
        String::from_utf8(self.bytes(place)?)
            .map_err(|_| Error::invalid(format!("invalid {place}: expected text in UTF-8"), Some("messages")))
    }

    fn bytes(&self, place: &str) -> Result<Vec<u8>, Error> {
        if !self.is_base64 {
            return Ok(percent_encoding::percent_decode_str(self.data).collect());
        }
        STANDARD.decode(self.data).map_err(|error| {
            Error::invalid(format!("invalid {place}: expected base64: {error}"), Some("messages"))
        })
    }
}

/// Returns the non-null fields of an object that are not in a list.
pub(super) fn others(of: &Json, except: &[&str]) -> Vec<(CompactString, Json)> {
    let fields = of.entries();
    let is_other = |(key, value): &(CompactString, Json)| !except.contains(&&**key) && !value.is_null();
    fields.into_iter().filter(is_other).map(|(key, value)| (key, value.deep_clone())).collect()
}

/// Creates an object of these fields and the others.
pub(super) fn with_others<const N: usize>(
    fields: [(&str, Json); N],
    others: Vec<(CompactString, Json)>,
) -> Json {
    let fields = fields.into_iter().map(|(key, value)| (key.into(), value));
    fields.chain(others).collect::<Object>().into()
}
