//! The protocols of services with models: what a service of each kind accepts, as data.
//!
//! Requests have the format of OpenAI's chat API, as scripts and filters know it. No I/O.

#![warn(clippy::missing_errors_doc)]

pub mod service;
