//! A script as a filter: calls its hooks with the parameters they declare and converts their results into verdicts.

mod runner;

pub(crate) use runner::{has_text_above, too_long};

#[cfg(test)]
mod tests;
