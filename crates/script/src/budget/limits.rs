//! The limits of a call, and the error of a call that exceeds one.

use rhai::{Dynamic, EvalAltResult, Position};
use std::time::Duration;

/// The limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Operations of the interpreter.
    pub operations: u64,
    /// Own running time: waiting does not count.
    pub time: Duration,
    /// Bytes it may hold at a time, where the counting allocator is installed.
    pub memory: usize,
    /// Time by the clock on the wall, waiting and all.
    pub wall: Duration,
    /// Applies the limit also while a person is asked, who may well take longer.
    pub hurries_people: bool,
}

impl Budget {
    /// For what is not a script of anybody's.
    pub(super) const UNLIMITED: Self = Self {
        operations: u64::MAX,
        time: Duration::MAX,
        memory: usize::MAX,
        wall: Duration::MAX,
        hurries_people: false,
    };
}

/// The reason a call was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExceededLimit {
    Operations(u64),
    Memory(usize),
    /// All calls of the request that wait hold more bytes than this.
    Held(usize),
    Time(Duration),
    Wall(Duration),
    /// It writes a text of more bytes than this.
    Text(usize),
    /// The call is abandoned.
    Over,
    /// It asked a question that cannot be answered now, and runs again after the answer.
    Paused,
    /// It runs again and made another host call than before it paused.
    Replay,
}

impl std::fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Operations(limit) => write!(f, "exceeded its limit of {limit} operations"),
            Self::Memory(limit) => write!(f, "exceeded its memory limit of {} MB", limit >> 20),
            Self::Held(limit) => {
                write!(
                    f,
                    "was stopped: the waiting scripts of one request exceeded their memory limit of {} MB",
                    limit >> 20
                )
            }
            Self::Time(limit) => write!(f, "exceeded its computing time limit of {} ms", limit.as_millis()),
            Self::Wall(limit) => {
                write!(f, "did not end within {} ms", limit.as_millis())
            }
            Self::Text(limit) => {
                write!(f, "cannot convert a value to text: the text exceeded its limit of {} MB", limit >> 20)
            }
            Self::Paused => f.write_str("is waiting for a person's answer"),
            Self::Replay => f.write_str(
                "cannot continue after its pause: it made a different host call than in its first run; \
                 resume the run with `retry`, which repeats the step",
            ),
            Self::Over => f.write_str("was stopped: the request was canceled"),
        }
    }
}

/// The end of a call that no script can catch.
pub(crate) fn ended(exceeded: ExceededLimit) -> Box<EvalAltResult> {
    EvalAltResult::ErrorTerminated(Dynamic::from(exceeded), Position::NONE).into()
}
