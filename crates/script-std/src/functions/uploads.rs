//! `uploads::…`: the files that the client sent with the request, which are those of `__files__`.
//!
//! Clients send files in several forms: Open WebUI sends its own records, some with the extracted text; others send
//! `data:` URLs. Nothing is fetched here.

use super::argument::{RhaiResultOf, effect, fail, running};
use super::output::{check_size, check_text, check_walk};
use super::{documents, markup};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use rhai::{Array, Dynamic, Module};
use valvehouse_dialect::budget;
use valvehouse_dialect::call::redaction::excerpt;
use valvehouse_dialect::value::{Bytes, Shape, live};
use valvehouse_json::Json;

/// The maximum number of files that are read.
const MAX_FILES: usize = 256;

/// The module `uploads::…`.
pub(super) fn module() -> Module {
    let mut module = Module::new();
    effect(
        "list",
        &["Array"],
        "Returns the files that the client sent with the request: `#{ id, name, type, size, has_content }`. `type` is \
         the media type; values that the client did not send are `()`. `has_content` is true if uploads::text() or \
         uploads::bytes() can read it.",
    )
    .set_into_module(&mut module, list);
    effect(
        "text",
        &["file", "String"],
        "Returns the text of a file, by its id, name or index: the text that the client extracted, or what \
         documents::text() reads (text, HTML, DOCX, XLSX, PPTX, PDF). Fails for other types, and if the client sent \
         no content.",
    )
    .set_into_module(&mut module, |file: Dynamic| text(&file));
    effect(
        "bytes",
        &["file", "Bytes"],
        "Returns the bytes of a file, by its id, name or index, at most 8 MiB. Fails if the client sent no content.",
    )
    .set_into_module(&mut module, |file: Dynamic| bytes(&file));
    module
}

/// A file of the request.
struct Upload {
    id: Option<String>,
    name: Option<String>,
    media_type: Option<String>,
    size: Option<i64>,
    /// The text that the client extracted.
    text: Option<String>,
    /// The `data:` URL of its content.
    data: Option<String>,
}

impl Upload {
    fn of(entry: &Json) -> Self {
        // Open WebUI's record of the file; a message part has its file under the same key.
        let file = entry.field("file");
        let meta = file.field("meta");
        let first = |places: &[(&Json, &str)]| {
            let texts = places.iter().filter_map(|(of, key)| of.text(key).map(String::from));
            texts.into_iter().find(|text| !text.is_empty())
        };
        let urls = [(entry, "url"), (&file, "file_data"), (entry, "data"), (&file, "url")];
        let urls = urls.iter().filter_map(|(of, key)| of.text(key).map(String::from));
        let data = urls.into_iter().find(|url| url.starts_with("data:"));
        let from_url =
            data.as_deref().and_then(|url| Some(url["data:".len()..].split([';', ',']).next()?.to_owned()));
        let name = first(&[(entry, "name"), (&meta, "name"), (&file, "filename"), (entry, "filename")]);
        let media_type = first(&[(&meta, "content_type"), (entry, "content_type"), (&file, "content_type")])
            .or(from_url.filter(|media| !media.is_empty()))
            .or_else(|| by_name(name.as_deref()?).map(str::to_owned));
        let sizes = [meta.get("size"), entry.get("size"), file.get("size")];
        Self {
            id: first(&[(entry, "id"), (&file, "id"), (&file, "file_id")]),
            name,
            media_type,
            size: sizes.into_iter().flatten().find_map(|size| size.as_i64()),
            text: file.field("data").text("content").map(String::from).filter(|text| !text.is_empty()),
            data,
        }
    }

    fn all(function: &str) -> RhaiResultOf<Vec<Self>> {
        let call = running(function)?;
        let files = call.turn.facts().files.items();
        Ok(files.iter().take(MAX_FILES).map(Self::of).collect())
    }

    fn find(function: &str, name_or_index: &Dynamic) -> RhaiResultOf<Self> {
        let mut all = Self::all(function)?;
        let count = all.len();
        let place = match (name_or_index.as_int(), name_or_index.as_immutable_string_ref()) {
            (Ok(index), _) => usize::try_from(index).ok().filter(|index| *index < count),
            (_, Ok(word)) => {
                let is = |own: &Option<String>| own.as_deref() == Some(word.as_str());
                all.iter()
                    .position(|file| is(&file.id))
                    .or_else(|| all.iter().position(|file| is(&file.name)))
            }
            _ => return Err(fail(function, "`file` must be an id, a name or an index")),
        };
        match place {
            Some(place) => Ok(all.swap_remove(place)),
            None => {
                let given = excerpt(&name_or_index.to_string());
                let what =
                    format!("unknown file `{given}`: the request has {count}; uploads::list() returns them");
                Err(fail(function, what))
            }
        }
    }

    fn shown(&self) -> String {
        let name = self.name.as_deref().or(self.id.as_deref()).unwrap_or("file");
        excerpt(name)
    }

    fn content(&self, function: &str) -> RhaiResultOf<Vec<u8>> {
        let Some(url) = &self.data else {
            if let Some(text) = &self.text {
                return Ok(text.clone().into_bytes());
            }
            let name = self.shown();
            return Err(fail(
                function,
                format!(
                    "cannot read `{name}`: the client did not send its content; send the file as a data: URL"
                ),
            ));
        };
        let damaged = || fail(function, format!("cannot read `{}`: its data: URL is damaged", self.shown()));
        let (head, body) = url.split_once(',').ok_or_else(damaged)?;
        check_size(function, body.len() / 4 * 3)?;
        Bytes::charge(body.len())?;
        budget::reserve(body.len()).map_err(budget::ended)?;
        if !head.ends_with(";base64") {
            return Ok(percent_encoding::percent_decode_str(body).collect());
        }
        STANDARD.decode(body).or_else(|_| STANDARD_NO_PAD.decode(body)).map_err(|_| damaged())
    }
}

/// Returns the media type of a text file by the extension of its name.
fn by_name(name: &str) -> Option<&'static str> {
    let (_, end) = name.rsplit_once('.')?;
    Some(match end.to_ascii_lowercase().as_str() {
        "txt" | "log" | "rst" => "text/plain",
        "md" | "markdown" => "text/markdown",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "htm" | "html" => "text/html",
        "json" => "application/json",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "pdf" => "application/pdf",
        _ => return None,
    })
}

fn list() -> RhaiResultOf<Array> {
    let all = Upload::all("uploads::list")?;
    let shown = all.iter().map(|file| {
        let json = Json::from([
            ("id", file.id.as_deref().into()),
            ("name", file.name.as_deref().into()),
            ("type", file.media_type.as_deref().into()),
            ("size", file.size.into()),
            ("has_content", (file.data.is_some() || file.text.is_some()).into()),
        ]);
        live(&json, Shape::Plain)
    });
    Ok(shown.collect())
}

fn text(name_or_index: &Dynamic) -> RhaiResultOf<String> {
    const FUNCTION: &str = "uploads::text";
    let file = Upload::find(FUNCTION, name_or_index)?;
    if let Some(text) = &file.text {
        check_text(FUNCTION, text.len())?;
        check_walk(text, 1)?;
        return Ok(text.clone());
    }
    let bytes = file.content(FUNCTION)?;
    if file.media_type.as_deref().is_some_and(|media_type| media_type.starts_with("text/html"))
        && let Ok(page) = std::str::from_utf8(&bytes)
    {
        check_walk(page, 4)?;
        let text = markup::text(page);
        check_text(FUNCTION, text.len())?;
        return Ok(text);
    }
    documents::text(&format!("{FUNCTION} of `{}`", file.shown()), &bytes)
}

fn bytes(name_or_index: &Dynamic) -> RhaiResultOf<Bytes> {
    const FUNCTION: &str = "uploads::bytes";
    let content = Upload::find(FUNCTION, name_or_index)?.content(FUNCTION)?;
    Bytes::new(content)
}
