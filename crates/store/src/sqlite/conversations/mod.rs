//! Conversations in rows. Writers wait for the disk.

mod checkpoints;
mod messages;
mod rows;
mod runs;
mod transactions;
mod transfer;

#[cfg(test)]
mod tests;
