//! Export of traces with OTLP over HTTP, in batches.
//!
//! The JSON encoding is used: every collector accepts it on the same port, and it needs no other crate. Spans
//! and attributes are named by OpenTelemetry's conventions for generative AI; other names begin with
//! `valvehouse.`.

mod exporter;
mod span;

pub use exporter::Exporter;
