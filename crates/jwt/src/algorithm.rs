//! Ways to sign.

/// A way to sign. There is none without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-256: both sides have the secret.
    Hs256,
    /// RSA with SHA-256.
    Rs256,
    /// ECDSA with the curve P-256 and SHA-256.
    Es256,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hs256, Self::Rs256, Self::Es256];

    /// The name in tokens.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }

    /// The algorithm of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }

    pub(crate) const fn as_library(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Hs256 => jsonwebtoken::Algorithm::HS256,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
        }
    }
}
