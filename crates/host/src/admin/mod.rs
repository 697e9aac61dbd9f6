//! The changes of operators to plugins: each is checked first, applied whole, and recorded with its author,
//! so that it can be taken back.
//!
//! [`Admin`] changes what a host runs and answers when the change is live there. The commands have no host:
//! they use [`rollback`] with a writer of their own, and hosts that run follow.

mod change;
mod files;
mod plugins;
mod rejection;
mod rollback;
mod scripts;
mod valves;
mod versions;

pub use plugins::{Admin, known};
pub use rejection::AdminError;
pub use rollback::rollback;
pub use scripts::ExpectedVersion;
pub use valves::{schema, shown};
pub use versions::{Against, Detail, Entry, detail, diff, entries};
