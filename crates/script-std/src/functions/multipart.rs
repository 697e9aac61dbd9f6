//! Multipart bodies, as forms with files send them.

use super::argument::{RhaiResultOf, fail, items, with_bytes};
use bytes::Bytes;
use rhai::{Dynamic, Map};
use valvehouse_dialect::call::redaction::excerpt;
use valvehouse_dialect::value::json_of;
use valvehouse_json::Json;

/// The maximum number of parts in a body.
const MAX_PARTS: usize = 100;

/// Returns the body of these parts and its content type. A part is a text, a number, a bool, bytes, or a file `#{
/// data, name, type }`; a list is several parts with the same name.
pub(super) fn body(function: &str, parts: Vec<(String, Dynamic)>) -> RhaiResultOf<(Bytes, String)> {
    let boundary = format!("valvehouse-{}", uuid::Uuid::new_v4().simple());
    let mut body = Body { function, boundary: &boundary, bytes: Vec::new(), count: 0 };
    for (name, value) in parts {
        match value.is_array() {
            true => items(function, &name, &value)?.iter().try_for_each(|one| body.add(&name, one))?,
            false => body.add(&name, &value)?,
        }
    }
    body.bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let bytes = Bytes::from(body.bytes);
    Ok((bytes, format!("multipart/form-data; boundary={boundary}")))
}

struct Body<'a> {
    function: &'a str,
    boundary: &'a str,
    bytes: Vec<u8>,
    count: usize,
}

impl Body<'_> {
    fn add(&mut self, name: &str, value: &Dynamic) -> RhaiResultOf<()> {
        self.count += 1;
        if self.count > MAX_PARTS {
            return Err(fail(self.function, format!("`multipart` exceeded its limit of {MAX_PARTS} parts")));
        }
        let field = |map: &Map, key: &str| map.get(key).cloned().filter(|value| !value.is_unit());
        if let Some(map) = value.read_lock::<Map>() {
            let text = |key: &str, default: &str| match field(&map, key) {
                None => Ok(default.to_owned()),
                Some(value) => value
                    .into_string()
                    .map_err(|_| fail(self.function, format!("`multipart.{name}.{key}` must be a text"))),
            };
            let (file, kind) = (text("name", name)?, text("type", "application/octet-stream")?);
            let Some(data) = field(&map, "data") else {
                return Err(fail(
                    self.function,
                    format!("missing `data` of `multipart.{name}`: a file is `#{{ data, name, type }}`"),
                ));
            };
            let function = self.function;
            return with_bytes(function, &format!("multipart.{name}.data"), &data, |bytes| {
                self.part(name, Some((&file, &kind)), bytes)
            });
        }
        let text = match json_of(value) {
            Ok(plain @ (Json::Bool(_) | Json::Number(_))) => Some(plain.to_string()),
            _ => None,
        };
        match text {
            Some(text) => self.part(name, None, text.as_bytes()),
            None if value.is_string() => with_bytes(self.function, name, value, |bytes| Ok(bytes.to_vec()))
                .and_then(|bytes| self.part(name, None, &bytes)),
            None => {
                let what = format!("multipart.{name}");
                let bytes = with_bytes(self.function, &what, value, |bytes| Ok(bytes.to_vec()))?;
                self.part(name, Some((name, "application/octet-stream")), &bytes)
            }
        }
    }

    fn part(&mut self, name: &str, file: Option<(&str, &str)>, data: &[u8]) -> RhaiResultOf<()> {
        if let Some((_, kind)) = file
            && (!kind.contains('/') || !kind.bytes().all(|byte| matches!(byte, b' '..=b'~')))
        {
            return Err(fail(
                self.function,
                format!("invalid media type `{}`: expected a type such as image/png", excerpt(kind)),
            ));
        }
        let mut head =
            format!("--{}\r\ncontent-disposition: form-data; name=\"{}\"", self.boundary, quoted(name));
        if let Some((file, kind)) = file {
            head.push_str(&format!("; filename=\"{}\"\r\ncontent-type: {kind}", quoted(file)));
        }
        head.push_str("\r\n\r\n");
        valvehouse_dialect::budget::reserve(head.len() + data.len())
            .map_err(valvehouse_dialect::budget::ended)?;
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(data);
        self.bytes.extend_from_slice(b"\r\n");
        Ok(())
    }
}

/// Escapes a name within quotes as browsers do, so that it cannot end the line or the quotes.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}
