//! Tests of whole scripts: what the steps of the instrumentation and the functions of the host do within a call.

mod coverage;
mod http;
mod mixes;
mod properties;
mod reference;
mod steps;
