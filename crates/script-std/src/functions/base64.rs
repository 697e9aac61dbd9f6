//! `base64::…`: encodes and decodes text and bytes.

use super::argument::{RhaiResultOf, TextOrBytes, fail, with_bytes};
use super::output::check_size;
use ::base64::Engine as _;
use ::base64::alphabet;
use ::base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rhai::plugin::*;
use valvehouse_dialect::value::Bytes;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const UNPADDED: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, GeneralPurposeConfig::new().with_encode_padding(false));
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

#[export_module]
pub(super) mod functions {
    /// Encodes a text or bytes as base64, in the standard alphabet and padded.
    #[rhai_fn(return_raw)]
    pub fn encode(data: TextOrBytes) -> RhaiResultOf<String> {
        with_bytes("base64::encode", "data", &data, |bytes| {
            check_size("base64::encode", bytes.len().div_ceil(3) * 4)?;
            Ok(STANDARD.encode(bytes))
        })
    }

    /// Encodes a text or bytes as base64 in the alphabet of URLs, without padding, as in a JWT.
    #[rhai_fn(return_raw)]
    pub fn encode_url(data: TextOrBytes) -> RhaiResultOf<String> {
        with_bytes("base64::encode_url", "data", &data, |bytes| {
            check_size("base64::encode_url", bytes.len().div_ceil(3) * 4)?;
            Ok(UNPADDED.encode(bytes))
        })
    }

    /// Decodes base64, standard or URL-safe, padded or not, or a URL of the form `data:image/png;base64,…`, as bytes.
    #[rhai_fn(return_raw)]
    pub fn decode_bytes(text: &str) -> RhaiResultOf<Bytes> {
        let text = match text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
            Some((_, encoded)) => encoded,
            None => text,
        };
        Bytes::new(decoded("base64::decode_bytes", text)?)
    }

    /// Decodes base64, standard or URL-safe, padded or not, as text. Fails if the input is not base64 or the bytes
    /// are not UTF-8.
    #[rhai_fn(return_raw)]
    pub fn decode(text: &str) -> RhaiResultOf<String> {
        let bytes = decoded("base64::decode", text)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            fail(
                "base64::decode",
                format!(
                    "the decoded bytes are not UTF-8 text: invalid byte at offset {at}; use \
                     base64::decode_bytes"
                ),
            )
        })?;
        check_size("base64::decode", text.len())?;
        Ok(text)
    }
}

fn decoded(function: &str, text: &str) -> RhaiResultOf<Vec<u8>> {
    Bytes::charge(text.len())?;
    let alphabet = if text.contains(['-', '_']) { URL_SAFE } else { STANDARD };
    alphabet.decode(text).map_err(|error| fail(function, format!("the text is not valid base64: {error}")))
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    #[test]
    fn base64_is_encoded_and_decoded() {
        gives(&[
            (r#"base64::encode("hällo")"#, r#""aMOkbGxv""#),
            (r#"base64::encode("a")"#, r#""YQ==""#),
            (r#"base64::decode("YQ==") + base64::decode("YQ")"#, r#""aa""#),
            (r#"base64::decode("Pz8_") + base64::decode("Pz8/")"#, r#""??????""#),
            (r#"base64::decode("")"#, r#""""#),
            (r#"base64::encode(base64::decode_bytes("/w=="))"#, r#""/w==""#),
            (r#"base64::decode_bytes("data:image/png;base64,/wA=").hex()"#, r#""ff00""#),
            (r#"base64::encode_url(base64::decode_bytes("/w=="))"#, r#""_w""#),
            (r#"base64::encode(blob(2, 255))"#, r#""//8=""#),
            (r#"base64::decode_bytes("aGk=").text()"#, r#""hi""#),
            (r#"base64::decode_bytes("aGk=").len() + base64::decode_bytes("aGk=")[-1]"#, "107"),
            (
                r#"(base64::decode_bytes("aGk=") + base64::decode_bytes("aGk=")).extract(1, 2).text()"#,
                r#""ih""#,
            ),
            (r#"base64::decode_bytes("iVBORw==").data_url()"#, r#""data:image/png;base64,iVBORw==""#),
            (r#"type_of(base64::decode_bytes("aGk="))"#, r#""blob""#),
        ]);
    }

    #[test]
    fn invalid_base64_and_bytes_that_are_not_text_have_different_errors() {
        refuses(&[
            (r#"base64::decode("a b")"#, "not valid base64"),
            (r#"base64::decode("/w==")"#, "not UTF-8 text: invalid byte at offset 0"),
            (r#"base64::decode_bytes("aP8=").text()"#, "byte 1 is not UTF-8; keep them as bytes"),
            (r#"base64::decode_bytes("aGk=")[2]"#, "index 2 is out of range: the value has 2 bytes"),
            (r#"base64::encode(5)"#, "`data` must be a text or bytes, not number"),
            (r#"json::stringify(base64::decode_bytes("aGk="))"#, "bytes are not a JSON value"),
            (r#"base64::decode_bytes("aGk=").data_url("no type")"#, "invalid media type"),
            ("base64::encode(big(7_000_000))", "9333336 bytes and exceed its limit"),
        ]);
    }
}
