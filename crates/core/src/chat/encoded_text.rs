//! Text files in requests: documents in base64, and data URLs with a text type.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{self, GeneralPurpose, GeneralPurposeConfig};
use compact_str::CompactString;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use valvehouse_json::{Json, Object};

/// The maximum length of the head of a data URL in base64, in bytes.
const MAX_HEAD: usize = 256;
/// The length of the begin of data that tells whether it may be a text, in characters of base64.
const SAMPLE: usize = 1024;

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
        match is_base64 {
            true => (is_text_type(media) || holds_text(&text[head..])).then_some(Self::Base64(head)),
            false => Some(Self::Percent(head)),
        }
    }

    /// Returns the encoding of a text file under a key that usually holds a medium.
    pub(super) fn of_file(key: &str, text: &str, of: &Object) -> Option<Self> {
        if let Some(encoding) = Self::of_url(text) {
            return Some(encoding);
        }
        let media = || ["media_type", "mime_type", "mimeType"].into_iter().find_map(|key| of.get(key));
        let is_text = match (key, media().as_ref().and_then(Json::as_str)) {
            _ if head(text).is_some() => false,
            ("data", None) => false,
            ("data" | "file_data", media) => media.is_some_and(is_text_type) || holds_text(text),
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
                && !holds_text(&text[head..])
        })
    }

    /// Returns the text in a file.
    pub(super) fn decode(self, file: &str) -> CompactString {
        match self {
            Self::Base64(head) => text_in(&decoded(file.get(head..).unwrap_or(""))),
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

/// Returns the media type of a data URL, `true` if its data is in base64, and the length of its head. White space before
/// the URL does not count, as in browsers.
fn head(text: &str) -> Option<(&str, bool, usize)> {
    let url = text.trim_start();
    let scheme = url.get(..5)?;
    if !scheme.eq_ignore_ascii_case("data:") {
        return None;
    }
    let start = text.len() - url.len() + 5;
    // A quoted parameter may contain a comma.
    let comma =
        match text.as_bytes().windows(8).take(MAX_HEAD).position(|end| end.eq_ignore_ascii_case(b";base64,"))
        {
            Some(at) => at + 7,
            None => start + text[start..].find(',')?,
        };
    let mut parameters = text.get(start..comma)?.split(';').map(str::trim);
    let media = parameters.next().filter(|media| !media.contains(char::is_whitespace))?;
    let is_base64 = parameters.any(|parameter| parameter.eq_ignore_ascii_case("base64"));
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
    media.starts_with("text/") || TEXTS.contains(&&*media) || media.ends_with("+xml")
}

/// Returns `true` if data in base64 is a text, whatever its declared type.
fn holds_text(data: &str) -> bool {
    let has_text = |bytes: &[u8]| {
        let text = text_in(bytes);
        !text.is_empty()
            && !text.contains(|letter: char| {
                letter == char::REPLACEMENT_CHARACTER || letter.is_control() && !letter.is_whitespace()
            })
    };
    // The begin of most media tells that they are none.
    let begin = data.char_indices().nth(SAMPLE).map_or(data, |(end, _)| &data[..end]);
    let sample = decoded(begin);
    let is_likely = match std::str::from_utf8(&sample) {
        Err(error) if error.error_len().is_none() => has_text(&sample[..error.valid_up_to()]),
        _ => has_text(&sample),
    };
    is_likely && (begin.len() == data.len() || has_text(&decoded(data)))
}

/// Returns the text of a file in UTF-8, or in UTF-16 with a byte order mark or of ASCII letters.
fn text_in(bytes: &[u8]) -> CompactString {
    let of_utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units).into()
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => of_utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => of_utf16(rest, u16::from_be_bytes),
        [first, 0, ..] if *first != 0 && bytes.chunks_exact(2).all(|pair| pair[1] == 0) => {
            of_utf16(bytes, u16::from_le_bytes)
        }
        [0, second, ..] if *second != 0 && bytes.chunks_exact(2).all(|pair| pair[0] == 0) => {
            of_utf16(bytes, u16::from_be_bytes)
        }
        _ => CompactString::from_utf8_lossy(bytes),
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

/// Decodes base64 in all its variants, as the most lenient reader does: other characters are skipped, and data
/// continues after its padding.
fn decoded(data: &str) -> Vec<u8> {
    let data = percent_decode_str(data).decode_utf8_lossy();
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
            r#"{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0xLjQKJeLjz9M="}}"#,
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}"#,
        ] {
            assert_eq!(changed(part), (Vec::new(), part.to_owned()));
        }
    }
}
