//! Anthropic, and any service that speaks its Messages.

mod provider;
#[cfg(test)]
mod tests;

pub use provider::Anthropic;
