//! The limits of a call, and the error of a call that exceeds one.

use rhai::{Dynamic, EvalAltResult, Position};
use std::time::Duration;

/// The limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The maximum number of operations of the interpreter.
    pub operations: u64,
    /// The maximum running time, without waiting.
    pub time: Duration,
    /// The maximum number of bytes held at a time. Enforced if the counting allocator is installed.
    pub memory: usize,
    /// The maximum wall-clock time, including waiting.
    pub wall: Duration,
    /// Applies the `wall` limit also while a person is asked, instead of granting more time.
    pub hurries_people: bool,
}

/// The running time per operation of a budget, in microseconds. It is many times what an operation takes on a fast
/// processor, so that operations run out first on a slow one too.
const MICROSECONDS_OF_AN_OPERATION: u64 = 4;

impl Budget {
    /// Returns the budget with this number of operations, and with the running time that they take at most. A
    /// running time without a limit remains so.
    #[must_use]
    pub const fn with_operations(self, operations: u64) -> Self {
        let time = match self.time {
            Duration::MAX => Duration::MAX,
            _ => Duration::from_micros(operations.saturating_mul(MICROSECONDS_OF_AN_OPERATION)),
        };
        Self { operations, time, ..self }
    }

    /// Returns the budget with its running time multiplied.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        match self.time {
            Duration::MAX => self,
            time => Self { time: time.mul_f64(factor), ..self },
        }
    }

    /// The budget of code that is not part of a plugin.
    pub(super) const UNLIMITED: Self = Self {
        operations: u64::MAX,
        time: Duration::MAX,
        memory: usize::MAX,
        wall: Duration::MAX,
        hurries_people: false,
    };
}

/// The reason why a call was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceededLimit {
    /// The number of operations.
    Operations(u64),
    /// The allocated memory, in bytes.
    Memory(usize),
    /// All waiting calls of the request together hold more than this number of bytes.
    Held(usize),
    /// The running time.
    Time(Duration),
    /// The time including waiting.
    Wall(Duration),
    /// A text would be longer than this number of bytes.
    Text(usize),
    /// The turn of the call has ended.
    Over,
    /// The call asked a question that cannot be answered now; it runs again after the answer.
    Paused,
    /// The call ran again and made another host call than before it paused.
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

/// Returns the error that ends a call and that no script can catch.
pub fn ended(exceeded: ExceededLimit) -> Box<EvalAltResult> {
    EvalAltResult::ErrorTerminated(Dynamic::from(exceeded), Position::NONE).into()
}
