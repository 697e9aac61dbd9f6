//! Tools for authors of scripts: formatting, fixes of problems, and answers to editors.

pub mod editor;
pub mod fix;
pub mod format;

/// Unit tests have the same memory limits as the binary.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();
