//! Anthropic, and any service with its Messages API.

mod provider;
#[cfg(test)]
mod tests;

pub use provider::Anthropic;
