//! Export of traces: OTLP over HTTP, in batches.
//!
//! In its JSON form, which every collector takes on the same port: it needs no other crate, and no second
//! way out of this process. Spans and attributes are named as OpenTelemetry's conventions for generative AI
//! name them, what they have no name for begins with `valvehouse.`.

mod exporter;
mod span;

pub use exporter::Exporter;
