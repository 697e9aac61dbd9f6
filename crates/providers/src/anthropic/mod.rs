//! Anthropic, and any service that speaks its Messages.

mod provider;
mod stream;
#[cfg(test)]
mod tests;

pub use provider::Anthropic;
