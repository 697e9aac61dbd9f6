//! A global allocator that counts what each thread takes.

// The one place that needs it: whoever hands out memory has to name it.
#![allow(unsafe_code)]

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    /// Bytes allocated less bytes freed. What another thread frees is missing here, so that only
    /// differences within one piece of work mean anything.
    static NET: Cell<isize> = const { Cell::new(0) };
}

/// Bytes this thread has allocated and not freed; 0 where another allocator is installed.
pub fn net() -> isize {
    NET.get()
}

/// Does what takes memory for somebody else than who is counted.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let before = NET.get();
    let made = work();
    NET.set(before);
    made
}

/// Mimalloc, counting per thread.
pub struct Counting(MiMalloc);

impl Counting {
    /// For `#[global_allocator]`.
    pub const fn new() -> Self {
        Self(MiMalloc)
    }
}

impl Default for Counting {
    fn default() -> Self {
        Self::new()
    }
}

fn count(bytes: isize) {
    // A cell without a destructor is there to the thread's last moment.
    NET.set(NET.get().wrapping_add(bytes));
}

// SAFETY: every call is handed to mimalloc as it came, whose contract is the same; counting neither
// allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}
