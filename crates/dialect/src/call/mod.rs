//! The running call of a script: its plugin, its turn, its clock, what it may reach and what it logs.

pub mod clock;
pub mod log;
pub mod redaction;
pub mod resources;
mod running_call;

pub(crate) use running_call::{
    AnswerPositions, built, claim, count_line, forget, go_on, is_of_guard, is_over, note_built, note_warning,
    plugin, put_aside, remember_captured, with,
};
pub use running_call::{
    Call, ChunkSink, Later, RunningCall, ScriptCaller, current, current_that_may_pause, in_turn, now_ms,
    was_reported, write_to,
};
