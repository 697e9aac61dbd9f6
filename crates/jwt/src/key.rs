//! Keys as people have them: PEM, and JWK for public ones.

use crate::algorithm::Algorithm;
use crate::error::JwtError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{DecodingKey, EncodingKey};
use serde_json::Value;

/// The most bytes of a key.
const MAX_KEY: usize = 64 << 10;
/// The identifiers of RSA, of elliptic curves, and of the curve P-256.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
/// The tags of DER.
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

/// A key that signs.
pub struct SigningKey(pub(crate) EncodingKey);

/// A key that checks signatures.
pub struct VerifyingKey(pub(crate) DecodingKey);

impl SigningKey {
    /// The key of an algorithm: the secret for HS256, a PEM of the private key for the others.
    ///
    /// # Errors
    /// Returns an error if it is not such a key.
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Result<Self, JwtError> {
        let labels = ["PRIVATE KEY", "RSA PRIVATE KEY"];
        match algorithm {
            Algorithm::Hs256 => secret(key).map(EncodingKey::from_secret).map(Self),
            Algorithm::Rs256 => Ok(Self(EncodingKey::from_rsa_der(&pem(key, &labels)?.1))),
            Algorithm::Es256 => Ok(Self(EncodingKey::from_ec_der(&pem(key, &labels[..1])?.1))),
        }
    }
}

impl VerifyingKey {
    /// The key of an algorithm: the secret for HS256, a PEM of the public key for the others.
    ///
    /// # Errors
    /// Returns an error if it is not such a key.
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Result<Self, JwtError> {
        match algorithm {
            Algorithm::Hs256 => secret(key).map(DecodingKey::from_secret).map(Self),
            Algorithm::Rs256 => match pem(key, &["PUBLIC KEY", "RSA PUBLIC KEY"])? {
                ("PUBLIC KEY", der) => rsa(public(&der, RSA).ok_or(OTHER_KIND)?.1),
                (_, der) => rsa(&der),
            },
            Algorithm::Es256 => {
                let der = pem(key, &["PUBLIC KEY"])?.1;
                let (curve, point) = public(&der, EC).ok_or(OTHER_KIND)?;
                let is_p256 = of_tag(curve, IDENTIFIER).is_some_and(|(curve, _)| curve == P256);
                match is_p256 && point.len() == 65 && point[0] == 4 {
                    true => Ok(Self(DecodingKey::from_ec_der(point))),
                    false => Err(JwtError::BadKey("ES256 needs a key of the curve P-256")),
                }
            }
        }
    }

    /// The public key of a JWK.
    ///
    /// # Errors
    /// Returns an error if it is not one of this algorithm.
    pub fn of_jwk(algorithm: Algorithm, jwk: &Value) -> Result<Self, JwtError> {
        let text = |name: &str| jwk[name].as_str().filter(|text| text.len() <= MAX_KEY).unwrap_or("");
        if !matches!(&jwk["alg"], Value::Null) && text("alg") != algorithm.as_str() {
            return Err(JwtError::BadKey("its `alg` does not match the expected algorithm"));
        }
        if jwk.get("d").is_some() {
            return Err(JwtError::BadKey("it is a private key; use the public key"));
        }
        let read = match (algorithm, text("kty"), text("crv")) {
            (Algorithm::Rs256, "RSA", _) => DecodingKey::from_rsa_components(text("n"), text("e")),
            (Algorithm::Es256, "EC", "P-256") => DecodingKey::from_ec_components(text("x"), text("y")),
            _ => return Err(OTHER_KIND),
        };
        read.map(Self).map_err(|_| JwtError::BadKey("its numbers are missing or are not valid base64"))
    }
}

const OTHER_KIND: JwtError = JwtError::BadKey("its type does not match the algorithm");

/// The secret of HS256. A public key is refused: everyone who has it could sign.
fn secret(key: &[u8]) -> Result<&[u8], JwtError> {
    match key.trim_ascii() {
        [] => Err(JwtError::EmptySecret),
        key if key.starts_with(b"-----BEGIN ") => Err(JwtError::PemAsSecret),
        _ if key.len() > MAX_KEY => Err(JwtError::BadKey("it has more than 64 KiB")),
        _ => Ok(key),
    }
}

/// The label of a PEM and the bytes in it.
fn pem(text: &[u8], labels: &[&'static str]) -> Result<(&'static str, Vec<u8>), JwtError> {
    let wrong = JwtError::NotPem(labels[0]);
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= MAX_KEY).ok_or(wrong)?.trim();
    if text.starts_with("-----BEGIN EC PRIVATE KEY-----") {
        return Err(JwtError::Sec1);
    }
    let body = |label: &&'static str| {
        let rest = text.strip_prefix("-----BEGIN ")?.strip_prefix(*label)?.strip_prefix("-----")?;
        let body = rest.strip_suffix("-----")?.strip_suffix(*label)?.strip_suffix("-----END ")?;
        Some((*label, body))
    };
    let (label, body) = labels.iter().find_map(body).ok_or(wrong)?;
    let letters: String = body.split_whitespace().collect();
    let der = STANDARD
        .decode(letters)
        .map_err(|_| JwtError::BadKey("the content of the PEM is not valid base64"))?;
    Ok((label, der))
}

/// The parameters and the key in the description of a public key of a kind.
fn public<'a>(der: &'a [u8], kind: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (whole, _) = of_tag(der, SEQUENCE)?;
    let (about, rest) = of_tag(whole, SEQUENCE)?;
    let (identifier, parameters) = of_tag(about, IDENTIFIER)?;
    let (bits, _) = of_tag(rest, BITS)?;
    // The first byte counts the bits that are left over.
    let (0, key) = bits.split_first().map(|(first, rest)| (*first, rest))? else { return None };
    (identifier == kind).then_some((parameters, key))
}

/// A public key of RSA: two numbers.
fn rsa(der: &[u8]) -> Result<VerifyingKey, JwtError> {
    let numbers = || {
        let (whole, _) = of_tag(der, SEQUENCE)?;
        let (modulus, rest) = of_tag(whole, INTEGER)?;
        let (exponent, _) = of_tag(rest, INTEGER)?;
        Some(VerifyingKey(DecodingKey::from_rsa_raw_components(modulus, exponent)))
    };
    numbers().ok_or(JwtError::BadKey("the content of the PEM is not an RSA public key"))
}

/// The content of a value in DER, and what is behind it; `None` where there is none of this tag.
fn of_tag(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (own, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    (*own == tag).then(|| rest.split_at_checked(length)).flatten()
}
