//! Bearer tokens of authorization servers: JSON web tokens, checked with the keys that their issuers publish, and others,
//! checked at the introspection endpoint.

mod check;
mod held;
mod introspection;
mod issuer;
#[cfg(test)]
mod tests;

pub use check::{Bearer, TokenChecker, TokenRejection};
pub use held::HeldToken;
