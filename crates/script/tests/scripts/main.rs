//! Scripts as their authors meet them, through what this package makes public.

#![allow(clippy::unwrap_used)]

/// As the binary has it: without it no script's memory would be bounded.
#[global_allocator]
static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();

#[cfg(target_os = "linux")]
mod files;
mod kv;
mod lints;
mod loading;
mod reading;
mod tools;
mod waiting;
