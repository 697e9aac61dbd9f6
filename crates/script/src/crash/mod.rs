//! The versions of plugins that run, kept where the next start finds them when this process ends abnormally.
//!
//! A host that serves opens a [`CrashRecord`]: a small file in `.valvehouse/`, mapped into memory. Each thread has a
//! slot in it and stores there which version runs, for the price of a store or two. The file is deleted when the
//! host ends in order. A file that is left over was left by a process that is gone: the next start reads it,
//! decides which version ended the process, and puts that version into [`Quarantine`].
//!
//! Plugins that were merely running when a healthy host was killed are not blamed:
//!
//! - The process was ended by a fault of its own (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, as after a stack
//!   overflow or a failed allocation): only the version that ran on the thread of the fault.
//! - It was ended from outside (SIGKILL, the system out of memory, power): a version whose file was being loaded
//!   for [`LONG_LOAD`] or more; and a version that ran for [`LONG_CALL`] or more without letting others go first,
//!   the second time within [`MEMORY`]. Scripts let others go first every few milliseconds, so that only one that
//!   is stuck in a single function comes to that.

mod fault;
mod quarantine;
mod record;
mod slot;
mod verdict;

pub use quarantine::{Quarantine, QuarantineEntry};
pub use record::CrashRecord;
pub use slot::RunVersion;
pub use slot::{Mark, loading, running, stopped};
pub use verdict::{LONG_CALL, LONG_LOAD, MEMORY};

/// Stores that the clock of budgets has come to this millisecond.
pub(crate) use slot::beat;
