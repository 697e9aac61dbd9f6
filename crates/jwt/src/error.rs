//! The reasons for which a token is neither made nor taken.

/// The reason why a token cannot be signed or is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// The text is not a token.
    #[error("invalid JSON web token: expected three parts in base64, separated by dots")]
    NotAToken,
    /// Its header names another algorithm than the one that is expected.
    #[error("the token is not signed with the expected algorithm")]
    OtherAlgorithm,
    /// Its header asks for an extension.
    #[error("the token requires an unknown extension (`crit`)")]
    Critical,
    /// Its signature is not that of the key.
    #[error("the signature of the token is not valid")]
    WrongSignature,
    /// The secret of HS256 is empty.
    #[error("the secret is empty")]
    EmptySecret,
    /// The secret of HS256 is a key that others may know.
    #[error("the secret is a PEM key: HS256 needs a shared secret, a string or bytes")]
    PemAsSecret,
    /// The key is not a PEM of the right kind.
    #[error("the key must be a PEM that begins with `-----BEGIN {0}-----`")]
    NotPem(&'static str),
    /// The key is of an old form.
    #[error("the key is an `EC PRIVATE KEY`; convert it: openssl pkcs8 -topk8 -nodes -in key.pem")]
    Sec1,
    /// The key cannot be read, or is of another kind.
    #[error("the key cannot be used: {0}")]
    BadKey(&'static str),
}
