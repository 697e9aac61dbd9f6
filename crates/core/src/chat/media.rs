//! Images, audio and files as parts of a message, and the sentences that stand for what a service cannot receive.

use super::message::text_part;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use valvehouse_json::Json;

/// The media types of images that the APIs of OpenAI and Anthropic accept.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The media types of audio with their `format` in a chat.
const AUDIO: [(&str, &str); 6] = [
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/wave", "wav"),
    ("audio/vnd.wave", "wav"),
    ("audio/mpeg", "mp3"),
    ("audio/mp3", "mp3"),
];
/// Media types of text outside of `text/`.
const TEXTS: [&str; 8] = [
    "application/json",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/javascript",
    "application/sql",
    "application/x-sh",
];
/// The maximum number of bytes of a text in the place of data.
const MAX_REPLACEMENT: usize = 200;

/// Converts base64 data of a media type to a part of a chat message: an image, audio, a PDF document, or the text
/// that it encodes. Any other type becomes a sentence that names it.
pub(crate) fn part(data: &str, media_type: &str, name: Option<&str>) -> Json {
    let kind = essence(media_type);
    let data = data_url(data).map_or(data, |(_, data)| data);
    if !is_base64(data) {
        // A filter replaced the data by a text.
        let text = &data[..data.floor_char_boundary(MAX_REPLACEMENT)];
        return text_part(&format!("[{kind}: {text}]"));
    }
    if IMAGES.contains(&&*kind) {
        let url = Json::from([("url", format!("data:{kind};base64,{data}").into())]);
        return Json::from([("type", "image_url".into()), ("image_url", url)]);
    }
    if let Some((_, format)) = AUDIO.iter().find(|(own, _)| *own == kind) {
        let audio = Json::from([("data", data.into()), ("format", (*format).into())]);
        return Json::from([("type", "input_audio".into()), ("input_audio", audio)]);
    }
    if kind == "application/pdf" {
        let fields = [
            ("filename", name.unwrap_or("document.pdf").into()),
            ("file_data", format!("data:{kind};base64,{data}").into()),
        ];
        return Json::from([("type", "file".into()), ("file", Json::from(fields))]);
    }
    match decoded(data, &kind) {
        Some(text) => text_part(&text),
        None => {
            let kind = if kind.is_empty() { "unknown type" } else { &kind };
            let name = name.map_or_else(String::new, |name| format!(" `{name}`"));
            text_part(&format!("[A file{name} ({kind}) is missing here: models cannot read this type.]"))
        }
    }
}

/// Returns the text that base64 data of a media type encodes; `None` for other types and data.
pub(crate) fn decoded(data: &str, media_type: &str) -> Option<String> {
    let kind = essence(media_type);
    let is_text = kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || TEXTS.contains(&&*kind)
        || kind.is_empty();
    let data: String = data.split_ascii_whitespace().collect();
    let text = String::from_utf8(STANDARD.decode(data).ok().filter(|_| is_text)?).ok()?;
    let is_control = |letter: char| letter.is_control() && !letter.is_ascii_whitespace();
    (!text.contains(is_control)).then_some(text)
}

/// Returns the media type and the data of `data:TYPE;base64,DATA`.
pub(crate) fn data_url(url: &str) -> Option<(&str, &str)> {
    let scheme = url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:"))?;
    let (kind, data) = url[scheme.len()..].split_once(',')?;
    Some((kind.strip_suffix(";base64")?, data))
}

/// Returns the sentence that stands for a part of a tool's result that a service cannot receive there.
pub fn missing(part: &Json) -> Json {
    let what = match &*part.text_or_empty("type") {
        "tool_reference" => {
            return text_part(&format!("[The tool `{}` is available.]", part.text_or_empty("tool_name")));
        }
        "image_url" => "An image".to_owned(),
        "input_audio" => "Audio".to_owned(),
        "video_url" => "A video".to_owned(),
        "file" => match part.at_path("file.filename").as_str() {
            Some(name) => format!("The file `{name}`"),
            None => "A file".to_owned(),
        },
        kind => format!("Content of the type `{kind}`"),
    };
    text_part(&format!("[{what} of this result is missing here: the model's service cannot receive it.]"))
}

/// Converts a file in a tool's result for services without a way to send it: a text file becomes its text, and an
/// address is named. Other parts are unchanged.
pub fn file_text(part: &Json) -> Json {
    let file = part.field("file");
    let name = file.text("filename").map_or_else(String::new, |name| format!("{name}:\n"));
    let data = file.text("file_data");
    if let Some((kind, data)) = data.as_deref().and_then(data_url)
        && let Some(text) = decoded(data, kind)
    {
        return text_part(&format!("{name}{text}"));
    }
    match file.text("file_url") {
        Some(url) if data.is_none() && file.given("file_id").is_none() => {
            text_part(&format!("[File: {url}]"))
        }
        _ => part.clone(),
    }
}

fn essence(media_type: &str) -> String {
    let kind = media_type.split(';').next().unwrap_or(media_type).trim().to_ascii_lowercase();
    // `image/jpg` is a common misspelling.
    if kind == "image/jpg" { "image/jpeg".into() } else { kind }
}

fn is_base64(data: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=\r\n".contains(&byte);
    !data.is_empty() && data.bytes().all(fits)
}
