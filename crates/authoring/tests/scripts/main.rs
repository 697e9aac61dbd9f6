//! Tests of scripts as their authors write them, through what this package makes public.

#![allow(clippy::unwrap_used)]

/// As the binary has it: without it no script's memory would be bounded.
#[global_allocator]
static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();

mod test_files;
