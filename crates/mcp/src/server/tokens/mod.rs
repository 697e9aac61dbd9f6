//! Bearer tokens of authorization servers: JSON web tokens are checked with the published keys of their
//! issuers, others at the introspection endpoint.

mod check;
mod held_token;
mod introspection;
mod issuer;
#[cfg(test)]
mod tests;

pub use check::{Bearer, TokenChecker, TokenRejection};
pub use held_token::HeldToken;
