//! Records the running versions of plugins, so that the next start finds them if this process ends abnormally.
//!
//! A serving host opens a [`CrashRecord`]: a small file in `.valvehouse/`, mapped into memory. Each thread has a
//! slot in it and stores the version it runs, at the cost of one or two stores. The file is deleted when the host
//! ends normally. A remaining file belongs to a process that has ended: the next start reads it, determines which
//! version ended the process, and puts that version into [`Quarantine`].
//!
//! Plugins that were merely running when a healthy host was killed are not blamed:
//!
//! - If the process ended by its own fault (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, such as after a stack
//!   overflow or a failed allocation), only the version that ran on the thread of the fault is blamed.
//! - If the process was ended from outside (SIGKILL, out of memory, power loss), two kinds of versions are blamed:
//!   one whose file had been loading for [`LONG_LOAD`] or longer, and one that ran for [`LONG_CALL`] or longer
//!   without yielding, for the second time within [`MEMORY`]. Scripts yield every few milliseconds, so only a script
//!   that is stuck in a single native runs that long.

mod fault;
mod quarantine;
mod record;
mod slot;
mod verdict;

pub use quarantine::{Quarantine, QuarantineEntry};
pub use record::CrashRecord;
pub use slot::{Mark, RunVersion, loading, running, stopped};
pub use verdict::{LONG_CALL, LONG_LOAD, MEMORY};

/// Records that the budgets' clock has reached this millisecond.
pub(crate) use slot::beat;
