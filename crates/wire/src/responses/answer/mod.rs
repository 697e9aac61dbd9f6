//! Answers of the Responses API.

pub(super) mod output;
mod read;
mod resource;

pub use output::compaction;
pub use read::read;
pub(super) use read::{annotation, error_in, failed, finish_reason, head, name_of, opaque, shown};
pub(super) use resource::incomplete_reason;
pub use resource::{Resource, ResponseState};
