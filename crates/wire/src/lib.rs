//! The chat protocols: a folder for each, with its requests, answers and streams, read and written. A server reads
//! what a client sends and writes what it receives; a provider writes and reads the same for a service. [`service`] has
//! what a service of each kind accepts, as data.
//!
//! Inside the host, a chat has the format of OpenAI's chat API, as scripts and filters know it. No I/O.

#![warn(clippy::missing_errors_doc)]

pub mod messages;
pub mod service;
