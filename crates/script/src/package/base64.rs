//! `base64::…`: text to base64 and back.

use super::argument::{RhaiResultOf, fail};
use super::output::check_size;
use ::base64::Engine as _;
use ::base64::alphabet;
use ::base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rhai::plugin::*;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

#[export_module]
pub(super) mod functions {
    /// A text as base64, in the standard alphabet and padded.
    #[rhai_fn(return_raw)]
    pub fn encode(text: &str) -> RhaiResultOf<String> {
        check_size("base64::encode", text.len().div_ceil(3) * 4)?;
        Ok(STANDARD.encode(text))
    }

    /// The text behind base64, standard or URL-safe, padded or not. Fails when it is no base64, or
    /// when the bytes behind it are no UTF-8 text.
    #[rhai_fn(return_raw)]
    pub fn decode(text: &str) -> RhaiResultOf<String> {
        let alphabet = if text.contains(['-', '_']) { URL_SAFE } else { STANDARD };
        let bytes = alphabet
            .decode(text)
            .map_err(|error| fail("base64::decode", format!("this is not base64: {error}")))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            fail("base64::decode", format!("what is encoded is not UTF-8 text (byte {at})"))
        })?;
        check_size("base64::decode", text.len())?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use crate::package::tests::{gives, refuses};

    #[test]
    fn base64_goes_both_ways() {
        gives(&[
            (r#"base64::encode("hällo")"#, r#""aMOkbGxv""#),
            (r#"base64::encode("a")"#, r#""YQ==""#),
            (r#"base64::decode("YQ==") + base64::decode("YQ")"#, r#""aa""#),
            (r#"base64::decode("Pz8_") + base64::decode("Pz8/")"#, r#""??????""#),
            (r#"base64::decode("")"#, r#""""#),
        ]);
    }

    #[test]
    fn what_is_no_base64_and_what_is_no_text_are_told_apart() {
        refuses(&[
            (r#"base64::decode("a b")"#, "not base64"),
            (r#"base64::decode("/w==")"#, "not UTF-8 text (byte 0)"),
            ("base64::encode(big(7_000_000))", "9333336 bytes or more; at most 8 MiB"),
        ]);
    }
}
