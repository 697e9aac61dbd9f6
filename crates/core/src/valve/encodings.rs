//! The encodings in which a secret may stand in a text, and the marks that stand for one.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::fmt::Write as _;

/// The replacement for a secret.
pub(super) const REDACTED: &str = "***";
/// The mark at which texts are cut.
pub(super) const CUT: char = '…';

/// Returns the encodings of a secret without escapes: plain, hexadecimal and base64.
pub(super) fn forms(secret: &str) -> Vec<String> {
    let hex = secret.bytes().fold(String::new(), |mut hex, byte| {
        // Writing to a text cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let mut forms = vec![secret.to_owned(), hex.to_uppercase(), hex];
    for before in 0..3 {
        let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
        // Characters that also hold bits of what stands before or after the secret say nothing of it alone.
        let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            forms.extend(encoded.get(first..last).map(str::to_owned));
        }
    }
    forms
}
