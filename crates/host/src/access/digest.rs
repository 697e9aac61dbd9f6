//! The digest of a key, which is compared and stored instead of the key.

use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;
use valvehouse_config::HASHED;
use valvehouse_core::text::{hex, unhex};

/// The SHA-256 of a key. Keys are long and random, so a key cannot be found from its digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of a key in plain text.
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// Returns the digest of a configured key: plain text, or `sha256:` and the digest in hexadecimal. `None`
    /// if the digest is malformed.
    pub fn configured(text: &str) -> Option<Self> {
        match text.strip_prefix(HASHED) {
            Some(digits) => unhex(digits)?.try_into().ok().map(Self),
            None => Some(Self::of(text)),
        }
    }

    /// Returns `true` if the digests are equal; compares in constant time.
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// Writes the form used in the configuration: `sha256:` and 64 hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HASHED}{}", hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    /// Redacts the digest as well, because a weak key could be found by it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_its_configured_digest_are_the_same() {
        let digest = Digest::of("sk-1");
        let written = digest.to_string();
        assert_eq!(written.len(), "sha256:".len() + 64);
        assert!(Digest::configured(&written).is_some_and(|other| other.is(&digest)));
        assert!(Digest::configured(&written.to_uppercase().replace("SHA256", "sha256")).is_some());
        assert!(Digest::configured("sk-1").is_some_and(|other| other.is(&digest)));
        assert!(!digest.is(&Digest::of(&written)), "the digest itself opens nothing");
        for wrong in ["sha256:", "sha256:12", &format!("{written}0"), &written.replace("sha256:", "sha256:+")]
        {
            assert!(Digest::configured(wrong).is_none(), "{wrong}");
        }
        assert_eq!(format!("{digest:?}"), "***");
    }
}
