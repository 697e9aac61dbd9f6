//! Tokens: how much of a model's window a text or a conversation takes.
//!
//! Exact for the texts of OpenAI's models, whoever provides them; for any other model an estimate of four
//! bytes a token.

mod counter;
mod vocabulary;

pub use counter::{BESIDE, Count, Counter, DEFAULT_MODEL, of_messages, prepare};
