//! `hash::…`: digests in lower-case hexadecimal.

use hmac::{Hmac, Mac};
use md5::Md5;
use rhai::plugin::*;
use sha2::{Digest, Sha256};
use valvehouse_core::words::hex;

#[export_module]
pub(super) mod functions {
    /// The SHA-256 of a text, 64 hexadecimal digits.
    pub fn sha256(text: &str) -> String {
        hex(&Sha256::digest(text))
    }

    /// The MD5 of a text, 32 hexadecimal digits; for checksums, not for secrets.
    pub fn md5(text: &str) -> String {
        hex(&Md5::digest(text))
    }

    /// The HMAC-SHA-256 of a text under a key, 64 hexadecimal digits.
    pub fn hmac_sha256(key: &str, text: &str) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(key.as_bytes());
        let mac = mac.expect("HMAC takes a key of any length").chain_update(text);
        hex(&mac.finalize().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use crate::package::tests::{gives, refuses};

    #[test]
    fn digests_are_the_published_ones() {
        let abc = r#""ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad""#;
        let jefe = r#""5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843""#;
        gives(&[
            (r#"hash::sha256("abc")"#, abc),
            (r#"hash::md5("")"#, r#""d41d8cd98f00b204e9800998ecf8427e""#),
            (r#"hash::hmac_sha256("Jefe", "what do ya want for nothing?")"#, jefe),
        ]);
        refuses(&[
            ("hash::sha256(5)", "sha256 (i64)"),
            ("hash::md5(())", "md5 (())"),
            (r#"hash::hmac_sha256("k")"#, "hmac_sha256 (&str"),
        ]);
    }
}
