//! Signatures of tokens, made and checked by `ring`.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    self, EcdsaKeyPair, RsaKeyPair, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};
use std::sync::Once;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| Ok(Box::new(Signer::of(*algorithm, key)?)),
    verifier_factory: |algorithm, key| Ok(Box::new(Verifier::of(*algorithm, key)?)),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes the library sign and check with `ring`.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if PROVIDER.install_default().is_err() {
            tracing::warn!("tokens are signed and verified by another library of this process");
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
    Secret(hmac::Key),
}

impl Verifier {
    fn of(algorithm: Algorithm, key: &DecodingKey) -> Result<Self, Error> {
        if key.family() != algorithm.family() {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let key = match algorithm {
            Algorithm::HS256 => Key::Secret(hmac::Key::new(hmac::HMAC_SHA256, key.try_get_as_bytes()?)),
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
            Key::Secret(key) => hmac::verify(key, message, signature),
        };
        verified.map_err(|_| ::signature::Error::new())
    }
}

impl JwtVerifier for Verifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

struct Signer {
    algorithm: Algorithm,
    key: Private,
}

enum Private {
    Secret(hmac::Key),
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKeyPair>),
}

impl Signer {
    fn of(algorithm: Algorithm, key: &EncodingKey) -> Result<Self, Error> {
        if key.family() != algorithm.family() {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let der = key.as_bytes();
        let bad = |_| Error::from(ErrorKind::InvalidKeyFormat);
        let key = match algorithm {
            Algorithm::HS256 => Private::Secret(hmac::Key::new(hmac::HMAC_SHA256, der)),
            Algorithm::RS256 => {
                let pair = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der));
                Private::Rsa(Box::new(pair.map_err(bad)?))
            }
            Algorithm::ES256 => {
                let curve = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
                let pair = EcdsaKeyPair::from_pkcs8(curve, der, &SystemRandom::new());
                Private::Ec(Box::new(pair.map_err(bad)?))
            }
            _ => return Err(ErrorKind::InvalidAlgorithm.into()),
        };
        Ok(Self { algorithm, key })
    }
}

impl ::signature::Signer<Vec<u8>> for Signer {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, ::signature::Error> {
        let random = SystemRandom::new();
        match &self.key {
            Private::Secret(key) => Ok(hmac::sign(key, message).as_ref().to_vec()),
            Private::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .map(|()| signature)
                    .map_err(|_| ::signature::Error::new())
            }
            Private::Ec(pair) => {
                let signature = pair.sign(&random, message).map_err(|_| ::signature::Error::new())?;
                Ok(signature.as_ref().to_vec())
            }
        }
    }
}

impl JwtSigner for Signer {
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
