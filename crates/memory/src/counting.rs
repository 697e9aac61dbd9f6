//! A global allocator that counts what each thread takes.

// The one place that needs it: whoever hands out memory has to name it.
#![allow(unsafe_code)]

#[cfg(feature = "mimalloc")]
use mimalloc::MiMalloc as Allocator;
#[cfg(not(feature = "mimalloc"))]
use std::alloc::System as Allocator;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
#[cfg(feature = "mimalloc")]
use std::ffi::c_void;
use std::sync::OnceLock;

thread_local! {
    /// Bytes allocated less bytes freed. What another thread frees is missing here, so that only
    /// differences within one piece of work mean anything.
    static NET: Cell<isize> = const { Cell::new(0) };
}

/// The smallest allocation that is looked at for the ceiling: what grows without end asks for more than this before
/// long, and hardly anything of the host's does while it holds a lock.
const LARGE: usize = 1 << 20;
/// The smallest allocation of bytes alone that is taken for a text, which is shared and never copied.
const WIDE: usize = 128 << 10;
/// The largest room for the elements of an array.
const MAX_ELEMENTS: usize = 2 << 20;

thread_local! {
    /// There were large allocations since the thread gave pages back.
    static HAD_LARGE: Cell<bool> = const { Cell::new(false) };
    /// The net bytes of texts: see [`fixed`].
    static FIXED: Cell<isize> = const { Cell::new(0) };
    /// The most net bytes that the thread may have allocated before [`PASSED`] is called.
    static MARK: Cell<isize> = const { Cell::new(isize::MAX) };
    /// The mark that comes into force when a text is freed.
    static LOWEST_MARK: Cell<isize> = const { Cell::new(isize::MAX) };
    /// The most net bytes that the thread may have allocated before [`EXCEEDED`] is called.
    static CEILING: Cell<isize> = const { Cell::new(isize::MAX) };
}

static PASSED: OnceLock<fn()> = OnceLock::new();
static EXCEEDED: OnceLock<fn()> = OnceLock::new();

/// Sets the functions that are called when a thread passes its limits; the first ones set stay. `passed` is called
/// within an allocation beyond the mark, which is removed before; it may do nothing but take note of that. `exceeded`
/// is called before a large allocation beyond the ceiling; if it returns, the allocation goes ahead and the ceiling is
/// removed.
pub fn call_at_limits(passed: fn(), exceeded: fn()) {
    PASSED.get_or_init(|| passed);
    EXCEEDED.get_or_init(|| exceeded);
}

/// The limits of a thread in net bytes: see [`call_at_limits`].
#[derive(Debug, Clone, Copy)]
pub struct MemoryLimits {
    /// The mark now.
    pub mark: isize,
    /// The mark that comes into force when a text is freed.
    pub lowest_mark: isize,
    /// The ceiling.
    pub ceiling: isize,
}

impl MemoryLimits {
    const NONE: Self = Self { mark: isize::MAX, lowest_mark: isize::MAX, ceiling: isize::MAX };

    /// Puts the limits in force on this thread.
    pub fn set(self) {
        MARK.set(self.mark);
        LOWEST_MARK.set(self.lowest_mark);
        CEILING.set(self.ceiling);
    }

    fn current() -> Self {
        Self { mark: MARK.get(), lowest_mark: LOWEST_MARK.get(), ceiling: CEILING.get() }
    }
}

/// Takes the limits of this thread away.
pub fn clear_limits() {
    MemoryLimits::NONE.set();
}

/// Returns the part of this thread's net bytes that an interpreter which copies arrays and maps never copies: large
/// texts, and what is larger than the elements of an array may be.
pub fn fixed() -> isize {
    FIXED.get()
}

/// Does what must not be abandoned on its way, since others wait for it.
fn protected<T>(work: impl FnOnce() -> T) -> T {
    let limits = MemoryLimits::current();
    clear_limits();
    let made = work();
    limits.set();
    made
}

#[cold]
#[inline(never)]
fn passed() {
    MARK.set(isize::MAX);
    if let Some(passed) = PASSED.get() {
        passed();
    }
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

/// Returns the bytes of an allocation that count as fixed: elements of arrays and maps are aligned, texts are not.
fn fixed_part(bytes: usize, align: usize) -> isize {
    let is_fixed = bytes > MAX_ELEMENTS || (bytes >= WIDE && align < align_of::<usize>());
    if is_fixed { bytes.cast_signed() } else { 0 }
}

/// Counts a new allocation, or what one of `before` bytes grows by.
fn count_new(bytes: usize, before: usize, align: usize) {
    let more = bytes.cast_signed() - before.cast_signed();
    let net = NET.get().wrapping_add(more);
    NET.set(net);
    if bytes.max(before) >= WIDE {
        count_wide(bytes, before, align);
    }
    if net > MARK.get() {
        passed();
    }
}

#[inline(never)]
fn count_wide(bytes: usize, before: usize, align: usize) {
    let fixed = fixed_part(bytes, align) - fixed_part(before, align);
    FIXED.set(FIXED.get().wrapping_add(fixed));
    if fixed < 0 {
        MARK.set(MARK.get().min(LOWEST_MARK.get()));
    }
    if bytes >= LARGE {
        HAD_LARGE.set(true);
        if NET.get() > CEILING.get() {
            exceeded(bytes.saturating_sub(before));
        }
    }
}

/// Counts what is freed.
fn count_freed(bytes: usize, align: usize) {
    // A cell without a destructor is there to the thread's last moment.
    NET.set(NET.get().wrapping_sub(bytes.cast_signed()));
    if bytes >= WIDE {
        count_wide(0, bytes, align);
    }
}

#[cfg(feature = "mimalloc")]
unsafe extern "C" {
    /// Mimalloc's own: gives the free pages of this thread back to the system.
    fn mi_collect(force: bool);
    /// Mimalloc's own for usual alignments, which takes a third of the steps of the one for all.
    fn mi_malloc(size: usize) -> *mut c_void;
}

/// The alignment that [`mi_malloc`] guarantees to what is not smaller.
#[cfg(feature = "mimalloc")]
const USUAL_ALIGN: usize = 16;

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

/// Returns `true` if [`CountingAllocator`] is the program's allocator: without it, no limit of memory holds.
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

/// Runs work whose memory is not counted for the current call.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let (net, fixed) = (NET.get(), FIXED.get());
    let made = protected(work);
    NET.set(net);
    FIXED.set(fixed);
    made
}

/// Mimalloc, or the system's allocator without the feature `mimalloc`, counting per thread.
pub struct CountingAllocator(Allocator);

impl CountingAllocator {
    /// For `#[global_allocator]`.
    pub const fn new() -> Self {
        Self(Allocator)
    }
}

impl Default for CountingAllocator {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: every call is handed to the allocator below as it came, whose contract is the same; counting neither
// allocates nor panics. What is called at the ceiling may allocate, before anything of this call is done: it returns,
// or the stack never runs again.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_new(layout.size(), 0, layout.align());
        #[cfg(feature = "mimalloc")]
        if layout.align() <= layout.size().min(USUAL_ALIGN) {
            // SAFETY: the size is not zero, and the alignment is guaranteed.
            return unsafe { mi_malloc(layout.size()) }.cast();
        }
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count_freed(layout.size(), layout.align());
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_new(layout.size(), 0, layout.align());
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_new(size, layout.size(), layout.align());
        // SAFETY: the caller's promises are handed on.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}
