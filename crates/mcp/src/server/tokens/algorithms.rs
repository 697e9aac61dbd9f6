//! The algorithms of signatures that are taken from authorization servers.

use jsonwebtoken::Algorithm;

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
