//! Records the thread of a fault that ends the process.

// A signal handler for fatal faults requires unsafe code.
#![cfg_attr(unix, allow(unsafe_code))]

#[cfg(unix)]
use super::slot::{FAULT, ID, LOADING, WORDS_OF_PROCESS, Words, place_of};
#[cfg(unix)]
use super::slot::{OWN, Own};
#[cfg(unix)]
use std::sync::atomic::Ordering::Relaxed;

#[cfg(not(unix))]
pub(super) fn watch_faults() {}

/// Installs a handler that records the thread of a fatal fault and then calls the previous handler.
#[cfg(unix)]
pub(super) fn watch_faults() {
    for (number, old) in FAULTS.into_iter().zip(&BEFORE) {
        // SAFETY: an all-zero action is valid, and is filled in below.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both pointers are valid, and the handler is async-signal-safe.
        if unsafe { libc::sigaction(number, &action, &mut before) } == 0 {
            // Never freed, because the handler may read it at any time.
            old.store(Box::into_raw(Box::new(before)), std::sync::atomic::Ordering::Release);
        }
    }
}

#[cfg(unix)]
const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];
#[cfg(unix)]
static BEFORE: [std::sync::atomic::AtomicPtr<libc::sigaction>; FAULTS.len()] =
    [const { std::sync::atomic::AtomicPtr::new(std::ptr::null_mut()) }; FAULTS.len()];

/// The signal handler: stores one word, writes one line, and calls the previous handler.
#[cfg(unix)]
extern "C" fn on_error(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if let Some(words) = WORDS_OF_PROCESS.get() {
        let thread = match OWN.get() {
            Own::Slot(number, own) if own[0].load(Relaxed) != 0 => {
                write_version((own[0].load(Relaxed) & (LOADING - 1)) as u32, words);
                u64::from(number) + 1
            }
            _ => 0,
        };
        let fault = u64::from(signal.unsigned_abs() & 0xff) | thread << 8;
        // Only the first fault is recorded; later ones are consequences.
        let _ = words[FAULT].compare_exchange(0, fault, Relaxed, Relaxed);
    }
    let place = FAULTS.iter().position(|fault| *fault == signal).unwrap_or(0);
    let before = BEFORE[place].load(std::sync::atomic::Ordering::Acquire);
    if before.is_null() {
        return;
    }
    // SAFETY: the previous action is valid and never freed. Unlike a fault, a signal sent by a program does not
    // recur: it is raised again and delivered when this handler returns.
    unsafe {
        libc::sigaction(signal, before, std::ptr::null_mut());
        if !info.is_null() && (*info).si_code <= 0 {
            libc::raise(signal);
        }
    }
}

/// Writes the id of a version to stderr, using only async-signal-safe calls.
#[cfg(unix)]
fn write_version(number: u32, words: Words) {
    let Some(version) = words.get(place_of(number.max(1))..) else { return };
    let mut id = [0; ID * 8];
    for (bytes, word) in id.chunks_exact_mut(8).zip(version) {
        bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
    }
    let length = id.iter().position(|byte| *byte == 0).unwrap_or(id.len());
    let parts: [&[u8]; 3] = [b"fatal: the plugin `", &id[..length], b"` ended this process\n"];
    for part in parts {
        // SAFETY: the bytes are valid for their length. A failed write is ignored: the message is best effort.
        let _ = unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
}
