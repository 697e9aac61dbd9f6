//! The chat protocols: a folder for each, with its requests, answers and streams, read and written. A server reads
//! what a client sends and writes what it receives; a provider writes and reads the same for a service. [`service`] has
//! what a service of each kind accepts, as data.
//!
//! Inside the host, a chat has the format of OpenAI's chat API, as scripts and filters know it. No I/O.

#![warn(clippy::missing_errors_doc)]

mod answer_error;
mod calls;
pub mod left_out;
pub mod messages;
pub mod ollama;
pub mod openai;
pub mod responses;
pub mod service;
mod stream_reader;

pub use answer_error::{AnswerError, is_error, settled, status_in, unwrapped};
pub use stream_reader::{ServiceEvent, StreamReader};
