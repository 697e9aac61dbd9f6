//! The bytes that a thread has allocated: a global allocator that counts, so that a call can be held to a
//! limit.
//!
//! The binary installs it; a program that embeds the library does so too, or its scripts' memory is
//! not bounded:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();
//! # fn main() {}
//! ```
//!
//! Advice to the system on this program's memory: [`in_small_pages`], [`give_back_code`].

mod counting;
mod pages;

/// Unit tests are held to the limits of the binary.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

pub use counting::{
    CountingAllocator, MemoryLimits, call_at_limits, clear_limits, fixed, give_back_pages, is_installed, net,
    uncounted,
};
pub use pages::{give_back_code, in_small_pages};
