//! The functions that scripts can call, a file per theme, and the reference that describes them.
//!
//! [`engine`] creates engines with these functions, [`reference`](mod@reference) reads their documentation from such an
//! engine. This package does not know how a script is declared, loaded or run.

#![warn(clippy::missing_errors_doc)]

pub mod engine;
pub mod functions;
pub mod reference;

/// Unit tests have the same memory limits as the binary.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();
