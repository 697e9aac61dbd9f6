//! A script as a filter: its hooks called with what they ask for, its answers turned into verdicts.

mod runner;

pub(crate) use runner::{has_text_above, too_long};

#[cfg(test)]
mod tests;
