//! A script as a filter: calls its hooks with the parameters they declare and converts their results into verdicts.

mod runner;

#[cfg(test)]
mod tests;
