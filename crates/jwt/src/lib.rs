//! JSON web tokens: signatures by `ring` behind the crate `jsonwebtoken`, and keys as people have them, PEM and JWK.

mod algorithm;
mod error;
mod key;
mod provider;
mod token;

pub use algorithm::Algorithm;
pub use error::JwtError;
pub use key::{SigningKey, VerifyingKey};
pub use provider::install;
pub use token::{MAX_TOKEN, sign, verify};
