//! A script as a filter: its hooks called with what they ask for, its answers turned into verdicts.

mod runner;

#[cfg(test)]
mod tests;
