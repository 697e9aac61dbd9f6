//! Tokens, signed and checked.

use crate::algorithm::Algorithm;
use crate::error::JwtError;
use crate::key::{SigningKey, VerifyingKey};
use crate::provider::install;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Header, Validation, decode, encode};
use serde_json::Value;

/// The most bytes of a token.
pub const MAX_TOKEN: usize = 64 << 10;

/// Signs claims, with the name of the key in the header where there is one.
///
/// # Errors
/// Returns an error if the key cannot sign so.
pub fn sign(
    claims: &Value,
    algorithm: Algorithm,
    key: &SigningKey,
    key_id: Option<String>,
) -> Result<String, JwtError> {
    install();
    let header = Header { kid: key_id, ..Header::new(algorithm.as_library()) };
    encode(&header, claims, &key.0).map_err(|_| JwtError::BadKey("it is not a private key for the algorithm"))
}

/// Checks the signature of a token, which has to be of this algorithm, and returns its claims. Nothing of the claims is
/// checked.
///
/// # Errors
/// Returns the reason why the token is rejected.
pub fn verify(token: &str, algorithm: Algorithm, key: &VerifyingKey) -> Result<Value, JwtError> {
    install();
    let parts: Vec<&str> = token.split('.').collect();
    let [header, _, _] = parts[..] else { return Err(JwtError::NotAToken) };
    let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| JwtError::NotAToken)?;
    let header: Value = serde_json::from_slice(&header).map_err(|_| JwtError::NotAToken)?;
    if header["alg"].as_str() != Some(algorithm.as_str()) {
        return Err(JwtError::OtherAlgorithm);
    }
    if header.get("crit").is_some() {
        return Err(JwtError::Critical);
    }
    let mut validation = Validation::new(algorithm.as_library());
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let claims = decode::<Value>(token, &key.0, &validation).map_err(|error| match error.kind() {
        ErrorKind::InvalidSignature => JwtError::WrongSignature,
        ErrorKind::InvalidKeyFormat | ErrorKind::InvalidRsaKey(_) | ErrorKind::InvalidEcdsaKey => {
            JwtError::BadKey("it is not a public key for the algorithm")
        }
        _ => JwtError::NotAToken,
    })?;
    match claims.claims {
        claims @ Value::Object(_) => Ok(claims),
        _ => Err(JwtError::NotAToken),
    }
}
