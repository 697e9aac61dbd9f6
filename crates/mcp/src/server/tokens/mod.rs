//! Bearer tokens of authorization servers: JSON web tokens, checked with the keys that their issuers publish.

mod check;
mod algorithms;
mod issuer;
#[cfg(test)]
mod tests;

pub use check::{Bearer, TokenChecker, TokenRefusal};
