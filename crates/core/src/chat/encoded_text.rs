//! Text files in requests: documents in base64, and data URLs with a text type.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{self, GeneralPurpose, GeneralPurposeConfig};
use compact_str::CompactString;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use valvehouse_json::{Json, Object};

/// The encoding of a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EncodedText {
    /// Base64 after this number of bytes, which are the head of a data URL.
    Base64(usize),
    /// Percent-encoding after the head of a data URL.
    Percent(usize),
}

impl EncodedText {
    /// Returns the encoding of a data URL with a text type.
    pub(super) fn of_url(text: &str) -> Option<Self> {
        let (media, is_base64, head) = head(text)?;
        let is_text = is_text_type(media)
            || media.is_empty()
            || (is_unknown(media) && is_base64 && holds_text(&text[head..]));
        is_text.then_some(if is_base64 { Self::Base64(head) } else { Self::Percent(head) })
    }

    /// Returns the encoding of a text file under a key that usually holds a medium.
    pub(super) fn of_file(key: &str, text: &str, of: &Object) -> Option<Self> {
        if let Some(encoding) = Self::of_url(text) {
            return Some(encoding);
        }
        let media = || ["media_type", "mime_type", "mimeType"].into_iter().find_map(|key| of.get(key));
        let is_text = match (key, media().as_ref().and_then(Json::as_str)) {
            _ if head(text).is_some() => false,
            ("data" | "file_data", Some(media)) if !is_unknown(media) => is_text_type(media),
            ("data", None) => false,
            ("data" | "file_data", _) => holds_text(text),
            _ => false,
        };
        is_text.then_some(Self::Base64(0))
    }

    /// Returns `true` for a data URL in base64 that is not a text.
    pub(super) fn is_medium(text: &str) -> bool {
        head(text).is_some_and(|(media, is_base64, head)| {
            is_base64
                && !is_text_type(media)
                && text[head..].bytes().all(|byte| is_digit(byte) || byte == b'=')
        })
    }

    /// Returns the text in a file.
    pub(super) fn decode(self, file: &str) -> CompactString {
        match self {
            Self::Base64(head) => CompactString::from_utf8_lossy(&decoded(file.get(head..).unwrap_or(""))),
            Self::Percent(head) => {
                percent_decode_str(file.get(head..).unwrap_or("")).decode_utf8_lossy().into()
            }
        }
    }

    /// Returns a file with this text in place of its own.
    pub(super) fn encode(self, file: &str, text: &str) -> String {
        match self {
            Self::Base64(head) => [&file[..head], &general_purpose::STANDARD.encode(text)].concat(),
            Self::Percent(head) => {
                format!("{}{}", &file[..head], utf8_percent_encode(text, NON_ALPHANUMERIC))
            }
        }
    }
}

/// Returns the media type of a data URL, `true` if its data is in base64, and the length of its head.
fn head(text: &str) -> Option<(&str, bool, usize)> {
    let scheme = text.get(..5)?;
    if !scheme.eq_ignore_ascii_case("data:") {
        return None;
    }
    let comma = text.find(',')?;
    let mut parameters = text[5..comma].split(';').map(str::trim);
    let media = parameters.next().filter(|media| !media.contains(char::is_whitespace))?;
    let mut is_base64 = false;
    for parameter in parameters {
        match parameter.split_once('=') {
            None if parameter.eq_ignore_ascii_case("base64") => is_base64 = true,
            Some((name, _)) if name.eq_ignore_ascii_case("charset") => {}
            // An ordinary text.
            _ => return None,
        }
    }
    Some((media, is_base64, comma + 1))
}

/// Returns `true` for the types of texts.
fn is_text_type(media: &str) -> bool {
    const TEXTS: [&str; 8] = [
        "application/json",
        "application/ld+json",
        "application/x-ndjson",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/javascript",
        "application/sql",
    ];
    let media = media.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    media.starts_with("text/")
        || TEXTS.contains(&&*media)
        || media.ends_with("+xml") && media != "image/svg+xml"
}

/// Returns `true` if a type does not tell whether a file is a text.
fn is_unknown(media: &str) -> bool {
    matches!(media.trim().to_ascii_lowercase().as_str(), "" | "application/octet-stream")
}

/// Returns `true` if data in base64 is a text.
fn holds_text(data: &str) -> bool {
    let bytes = decoded(data);
    let is_text = |text: &str| !text.contains(|letter: char| letter.is_control() && !letter.is_whitespace());
    !bytes.is_empty() && std::str::from_utf8(&bytes).is_ok_and(is_text)
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

/// Decodes base64 in all its variants, as the most lenient reader does: other characters are skipped, and data
/// continues after its padding.
fn decoded(data: &str) -> Vec<u8> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    let parts = data.split('=').filter_map(|part| {
        let mut digits: Vec<u8> = part.bytes().filter(|byte| is_digit(*byte)).collect();
        for digit in &mut digits {
            *digit = match *digit {
                b'-' => b'+',
                b'_' => b'/',
                other => other,
            };
        }
        if digits.len() % 4 == 1 {
            digits.pop();
        }
        LENIENT.decode(digits).ok()
    });
    parts.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::event;

    /// The texts of a user message with one part, and the part after each text was changed.
    fn changed(part: &str) -> (Vec<String>, String) {
        let body = format!(r#"{{"messages":[{{"role":"user","content":[{part}]}}]}}"#);
        let body = Json::parse(body.as_bytes()).unwrap();
        let mut texts = Vec::new();
        for place in event::texts(&body) {
            texts.push(place.text().to_string());
            place.set_text(&place.text().replace("secret", "***"));
        }
        (texts, body.at_path("messages.0.content.0").to_string())
    }

    #[test]
    fn text_files_are_decoded_and_encoded_again() {
        for (part, changed_part) in [
            (
                r#"{"type":"file","file":{"file_data":"data:text/plain;base64,YSBzZWNyZXQ="}}"#,
                r#"{"type":"file","file":{"file_data":"data:text/plain;base64,YSAqKio="}}"#,
            ),
            (
                r#"{"file_data":"DATA:text/csv;charset=utf-8;BASE64,YSBz ZWNyZXQ"}"#,
                r#"{"file_data":"DATA:text/csv;charset=utf-8;BASE64,YSAqKio="}"#,
            ),
            (r#"{"file_data":"YSBzZWNyZXQ="}"#, r#"{"file_data":"YSAqKio="}"#),
            (r#"{"image_url":"data:,a%20secret"}"#, r#"{"image_url":"data:,a%20%2A%2A%2A"}"#),
            (r#"{"url":"data:text/plain,a%20%73ecret"}"#, r#"{"url":"data:text/plain,a%20%2A%2A%2A"}"#),
            (
                r#"{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"YSBzZWNyZXQ="}}"#,
                r#"{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"YSAqKio="}}"#,
            ),
        ] {
            let (texts, after) = changed(part);
            assert_eq!((texts, after.as_str()), (vec!["a secret".to_owned()], changed_part));
        }
    }

    #[test]
    fn media_are_no_texts() {
        for part in [
            r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}"#,
            r#"{"type":"input_audio","input_audio":{"data":"YSBzZWNyZXQ=","format":"wav"}}"#,
            r#"{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0x"}}"#,
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}"#,
        ] {
            assert_eq!(changed(part), (Vec::new(), part.to_owned()));
        }
    }
}
