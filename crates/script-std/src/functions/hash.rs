//! `hash::…`: digests and signatures of texts and bytes.

use super::argument::{RhaiResultOf, TextOrBytes, fail, with_bytes};
use hmac::{Hmac, Mac};
use md5::Md5;
use rhai::plugin::*;
use sha2::{Digest, Sha256, Sha384, Sha512};
use valvehouse_core::text::hex;
use valvehouse_dialect::call::redaction::excerpt;
use valvehouse_dialect::value::Bytes;

#[export_module]
pub(super) mod functions {
    /// Returns the SHA-256 of a text or of bytes, 64 hexadecimal digits.
    #[rhai_fn(return_raw)]
    pub fn sha256(data: TextOrBytes) -> RhaiResultOf<String> {
        with_bytes("hash::sha256", "data", &data, |bytes| Ok(hex(&Sha256::digest(bytes))))
    }

    /// Returns the MD5 of a text or of bytes, 32 hexadecimal digits; for checksums only.
    #[rhai_fn(return_raw)]
    pub fn md5(data: TextOrBytes) -> RhaiResultOf<String> {
        with_bytes("hash::md5", "data", &data, |bytes| Ok(hex(&Md5::digest(bytes))))
    }

    /// Returns the HMAC-SHA-256 of a text or of bytes with a key, 64 hexadecimal digits.
    #[rhai_fn(return_raw)]
    pub fn hmac_sha256(key: TextOrBytes, data: TextOrBytes) -> RhaiResultOf<String> {
        Ok(hex(&signed("hash::hmac_sha256", "sha256", &key, &data)?))
    }

    /// Returns the digest of a text or of bytes, as bytes: `algorithm` is `"sha256"`, `"sha384"`, `"sha512"` or
    /// `"md5"`.
    #[rhai_fn(return_raw)]
    pub fn digest(algorithm: &str, data: TextOrBytes) -> RhaiResultOf<Bytes> {
        let digest = with_bytes("hash::digest", "data", &data, |bytes| {
            Ok(match algorithm {
                "sha256" => Sha256::digest(bytes).to_vec(),
                "sha384" => Sha384::digest(bytes).to_vec(),
                "sha512" => Sha512::digest(bytes).to_vec(),
                "md5" => Md5::digest(bytes).to_vec(),
                _ => return Err(unknown("hash::digest", algorithm, "sha256, sha384, sha512 or md5")),
            })
        });
        Bytes::new(digest?)
    }

    /// Returns the HMAC of a text or of bytes with a key, as bytes, which can be the key of another call: `algorithm` is
    /// `"sha256"`, `"sha384"` or `"sha512"`.
    #[rhai_fn(return_raw)]
    pub fn hmac(algorithm: &str, key: TextOrBytes, data: TextOrBytes) -> RhaiResultOf<Bytes> {
        Bytes::new(signed("hash::hmac", algorithm, &key, &data)?)
    }
}

fn unknown(function: &str, algorithm: &str, known: &str) -> Box<EvalAltResult> {
    fail(function, format!("unknown algorithm `{}`: expected {known}", excerpt(algorithm)))
}

fn signed(function: &str, algorithm: &str, key: &Dynamic, data: &Dynamic) -> RhaiResultOf<Vec<u8>> {
    with_bytes(function, "key", key, |key| {
        with_bytes(function, "data", data, |data| match algorithm {
            "sha256" => Ok(mac::<Hmac<Sha256>>(key, data)),
            "sha384" => Ok(mac::<Hmac<Sha384>>(key, data)),
            "sha512" => Ok(mac::<Hmac<Sha512>>(key, data)),
            _ => Err(unknown(function, algorithm, "sha256, sha384 or sha512")),
        })
    })
}

fn mac<M: Mac + hmac::digest::KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mac = <M as Mac>::new_from_slice(key);
    let mac = mac.expect("HMAC takes a key of any length").chain_update(data);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    #[test]
    fn digests_equal_the_published_ones() {
        let abc = r#""ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad""#;
        let jefe = r#""5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843""#;
        gives(&[
            (r#"hash::sha256("abc")"#, abc),
            (r#"hash::sha256("abc".to_blob())"#, abc),
            (r#"hash::digest("sha256", "abc").hex()"#, abc),
            (r#"hash::digest("sha512", "abc").len() + hash::digest("sha384", "").len()"#, "112"),
            (r#"hash::md5("")"#, r#""d41d8cd98f00b204e9800998ecf8427e""#),
            (r#"hash::hmac_sha256("Jefe", "what do ya want for nothing?")"#, jefe),
            (r#"hash::hmac("sha256", "Jefe".to_blob(), "what do ya want for nothing?").hex()"#, jefe),
        ]);
        refuses(&[
            ("hash::sha256(5)", "`data` must be a text or bytes, not number"),
            ("hash::md5(())", "`data` must be a text or bytes, not ()"),
            (r#"hash::hmac_sha256("k")"#, "hmac_sha256 (string"),
            (
                r#"hash::hmac("sha1", "k", "d")"#,
                "unknown algorithm `sha1`: expected sha256, sha384 or sha512",
            ),
        ]);
    }

    /// The signing key of AWS's published example of Signature Version 4.
    #[test]
    fn chained_hmacs_give_the_published_signing_key() {
        let code = r#"
            let key = "AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
            for part in ["20150830", "us-east-1", "iam", "aws4_request"] { key = hash::hmac("sha256", key, part); }
            key.hex()
        "#;
        gives(&[(code, r#""c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9""#)]);
    }
}
