//! A global allocator that counts what each thread takes.

// The one place that needs it: whoever hands out memory has to name it.
#![allow(unsafe_code)]

#[cfg(feature = "mimalloc")]
use mimalloc::MiMalloc as Allocator;
#[cfg(not(feature = "mimalloc"))]
use std::alloc::System as Allocator;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::OnceLock;

thread_local! {
    /// Bytes allocated less bytes freed. What another thread frees is missing here, so that only
    /// differences within one piece of work mean anything.
    static NET: Cell<isize> = const { Cell::new(0) };
}

/// The smallest allocation that is looked at: what grows without end asks for more than this before long, and hardly
/// anything of the host's does while it holds a lock.
const LARGE: usize = 1 << 20;

thread_local! {
    /// There were large allocations since the thread gave pages back.
    static HAD_LARGE: Cell<bool> = const { Cell::new(false) };
    /// The most net bytes that the thread may have allocated before [`EXCEEDED`] is called.
    static CEILING: Cell<isize> = const { Cell::new(isize::MAX) };
}

static EXCEEDED: OnceLock<fn()> = OnceLock::new();

/// Sets the function that is called before a large allocation of any thread would exceed its ceiling; the first one
/// set stays. If the function returns, the allocation goes ahead and the ceiling is removed.
pub fn call_at_ceiling(exceeded: fn()) {
    EXCEEDED.get_or_init(|| exceeded);
}

/// Sets the most net bytes that this thread may have allocated: see [`call_at_ceiling`].
pub fn set_ceiling(net: isize) {
    CEILING.set(net);
}

/// Takes the ceiling away.
pub fn clear_ceiling() {
    CEILING.set(isize::MAX);
}

/// Does what must not be abandoned on its way, since others wait for it.
fn protected<T>(work: impl FnOnce() -> T) -> T {
    let ceiling = CEILING.replace(isize::MAX);
    let made = work();
    CEILING.set(ceiling);
    made
}

#[cold]
#[inline(never)]
fn exceeded(bytes: usize) {
    // Nothing is allocated yet, and whoever is called may allocate.
    CEILING.set(isize::MAX);
    NET.set(NET.get().wrapping_sub(bytes.cast_signed()));
    if let Some(exceeded) = EXCEEDED.get() {
        exceeded();
    }
    NET.set(NET.get().wrapping_add(bytes.cast_signed()));
}

/// Counts a new allocation, or what one grows by.
fn count_new(bytes: usize, more: isize) {
    let net = NET.get().wrapping_add(more);
    NET.set(net);
    if bytes >= LARGE {
        HAD_LARGE.set(true);
        if net > CEILING.get() {
            exceeded(more.max(0).cast_unsigned());
        }
    }
}

#[cfg(feature = "mimalloc")]
unsafe extern "C" {
    /// Mimalloc's own: gives the free pages of this thread back to the system.
    fn mi_collect(force: bool);
}

/// Gives the free pages of this thread back to the system, if it has had large allocations since this was called last;
/// otherwise costs next to nothing. Mimalloc gives pages back when a thread allocates again, which a thread that goes
/// idle does not do. Does nothing without the feature `mimalloc`.
pub fn give_back_pages() {
    if HAD_LARGE.replace(false) {
        #[cfg(feature = "mimalloc")]
        // SAFETY: the function may be called on any thread at any time outside of the allocator.
        unsafe {
            mi_collect(true)
        };
    }
}

/// Returns `true` if [`Counting`] is the program's allocator: without it, no limit of memory holds.
pub fn is_installed() -> bool {
    let before = net();
    let probe = std::hint::black_box(Vec::<u8>::with_capacity(1));
    let is_counted = net() != before;
    drop(probe);
    is_counted
}

/// Bytes this thread has allocated and not freed; 0 where another allocator is installed.
pub fn net() -> isize {
    NET.get()
}

/// Does what takes memory for somebody else than who is counted.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let before = NET.get();
    let made = protected(work);
    NET.set(before);
    made
}

/// Mimalloc, or the system's allocator without the feature `mimalloc`, counting per thread.
pub struct Counting(Allocator);

impl Counting {
    /// For `#[global_allocator]`.
    pub const fn new() -> Self {
        Self(Allocator)
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

// SAFETY: every call is handed to the allocator below as it came, whose contract is the same; counting neither
// allocates nor panics. What is called at the ceiling may allocate, before anything of this call is done: it returns,
// or the stack never runs again.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_new(layout.size(), layout.size().cast_signed());
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_new(layout.size(), layout.size().cast_signed());
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_new(size, size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}
