//! The language of scripts: Rhai with budgets, metered natives, live values and a few steps that are added to the code.
//!
//! The natives that work on more than one value are measured ([`standard`]), every operation counts toward the
//! [`budget`] of its [`call`], values of the host's JSON are live ([`value`]), and [`instrument`] adds the steps that
//! Rhai lacks. This package does not know plugins, hooks or the functions of the host: whoever creates an engine passes
//! them to [`language::engine`].

#![warn(clippy::missing_errors_doc)]

pub mod answer;
pub mod budget;
pub mod call;
pub mod crash;
pub mod instrument;
pub mod interpreter;
pub mod language;
pub mod standard;
pub mod syntax;
pub mod value;

/// Unit tests have the same memory limits as the binary.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();
