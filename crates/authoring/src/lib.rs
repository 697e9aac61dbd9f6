//! Tools for authors of scripts: formatting, fixes of problems, answers to editors, tests and the reference.

pub mod editor;
pub mod fix;
pub mod format;
pub mod reference;
pub mod testing;

/// Unit tests have the same memory limits as the binary.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();
