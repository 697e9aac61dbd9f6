//! Signatures of tokens, checked by `ring`.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use std::sync::Once;

/// The algorithms that are taken: signatures that nobody makes without the issuer's private key.
pub(super) const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(Error::from(ErrorKind::InvalidAlgorithm)),
    verifier_factory: |algorithm, key| Ok(Box::new(Verifier::of(*algorithm, key)?)),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes the library check signatures with `ring`.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if PROVIDER.install_default().is_err() {
            tracing::warn!("signatures of tokens are checked by another library of this process");
        }
    });
}

struct Verifier {
    algorithm: Algorithm,
    key: Key,
}

enum Key {
    Rsa(&'static RsaParameters, RsaPublicKeyComponents<Vec<u8>>),
    Other(UnparsedPublicKey<Vec<u8>>),
}

impl Verifier {
    fn of(algorithm: Algorithm, key: &DecodingKey) -> Result<Self, Error> {
        if key.family() != algorithm.family() {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let key = match algorithm {
            Algorithm::RS256 => rsa(&signature::RSA_PKCS1_2048_8192_SHA256, key)?,
            Algorithm::RS384 => rsa(&signature::RSA_PKCS1_2048_8192_SHA384, key)?,
            Algorithm::RS512 => rsa(&signature::RSA_PKCS1_2048_8192_SHA512, key)?,
            Algorithm::PS256 => rsa(&signature::RSA_PSS_2048_8192_SHA256, key)?,
            Algorithm::PS384 => rsa(&signature::RSA_PSS_2048_8192_SHA384, key)?,
            Algorithm::PS512 => rsa(&signature::RSA_PSS_2048_8192_SHA512, key)?,
            Algorithm::ES256 => other(&signature::ECDSA_P256_SHA256_FIXED, key)?,
            Algorithm::ES384 => other(&signature::ECDSA_P384_SHA384_FIXED, key)?,
            Algorithm::EdDSA => other(&signature::ED25519, key)?,
            _ => return Err(ErrorKind::InvalidAlgorithm.into()),
        };
        Ok(Self { algorithm, key })
    }
}

fn rsa(parameters: &'static RsaParameters, key: &DecodingKey) -> Result<Key, Error> {
    let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else {
        return Err(ErrorKind::InvalidKeyFormat.into());
    };
    let bare = |number: &[u8]| number.iter().copied().skip_while(|byte| *byte == 0).collect();
    Ok(Key::Rsa(parameters, RsaPublicKeyComponents { n: bare(n), e: bare(e) }))
}

fn other(algorithm: &'static dyn VerificationAlgorithm, key: &DecodingKey) -> Result<Key, Error> {
    Ok(Key::Other(UnparsedPublicKey::new(algorithm, key.try_get_as_bytes()?.to_vec())))
}

impl ::signature::Verifier<Vec<u8>> for Verifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), ::signature::Error> {
        let verified = match &self.key {
            Key::Rsa(parameters, key) => key.verify(parameters, message, signature),
            Key::Other(key) => key.verify(message, signature),
        };
        verified.map_err(|_| ::signature::Error::new())
    }
}

impl JwtVerifier for Verifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rsa_signature_of_rfc_7515_is_valid_for_its_message_and_algorithm_alone() {
        install();
        let modulus = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
        let message = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
        let key = DecodingKey::from_rsa_components(modulus, "AQAB").unwrap();
        let verify = |message: &str, algorithm| {
            jsonwebtoken::crypto::verify(signature, message.as_bytes(), &key, algorithm)
        };
        assert!(verify(message, Algorithm::RS256).unwrap());
        assert!(!verify(&message.replace("eyJpc3", "eyJpc2"), Algorithm::RS256).unwrap());
        assert!(!verify(message, Algorithm::RS512).unwrap());
        // A public key is not the secret of a HMAC.
        assert!(verify(message, Algorithm::HS256).is_err());
    }
}
