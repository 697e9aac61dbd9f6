//! What one call of a script may spend, and the clock that ends it.
//!
//! Rhai's own limits leak: operations restart within callbacks, nothing bounds time. Here one
//! `on_progress` per engine reads thread-locals that a guard sets around each call, so that every
//! operation counts, whoever started it.
//!
//! Own running time is without what a thread had to wait for a processor: on a busy machine a call may
//! stand still for longer than it may run. A quarter of the time passes by the wall clock, which costs
//! nothing to read; who needs more than that is asked what it really used.

mod abandon;
mod clock;
mod meter;
mod processor;
mod wait;

pub(crate) use abandon::abandoned;
pub(crate) use meter::{Guard, charge, check_end, doom, forgive, reserve, time_limit};
pub(crate) use wait::{called, ended, wait, wait_for_person};

use rhai::{Dynamic, Engine};
use std::time::Duration;
use valvehouse_memory as memory;

/// What one call may spend.
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
    /// Whether that holds while a person is asked too, who may well take longer.
    pub hurries_people: bool,
}

impl Budget {
    /// For what is no script of anybody's.
    const UNLIMITED: Self = Self {
        operations: u64::MAX,
        time: Duration::MAX,
        memory: usize::MAX,
        wall: Duration::MAX,
        hurries_people: false,
    };
}

/// Why a call was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Operations(u64),
    Memory(usize),
    Time(Duration),
    Wall(Duration),
    /// It writes a text of more bytes than this.
    Text(usize),
    /// Nobody waits for what it does any more.
    Over,
    /// It asked what nobody can answer now, and runs again when somebody has.
    Paused,
    /// It runs again and made another host call than before it paused.
    Replay,
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Operations(limit) => write!(f, "used up its budget of {limit} operations"),
            Self::Memory(limit) => write!(f, "used up its memory of {} MB", limit >> 20),
            Self::Time(limit) => write!(f, "used up its time of {} ms", limit.as_millis()),
            Self::Wall(limit) => write!(f, "did not end within {} ms", limit.as_millis()),
            Self::Text(limit) => {
                write!(f, "tried to write a value as a text of more than {} MB", limit >> 20)
            }
            Self::Paused => f.write_str("waits for a person"),
            Self::Replay => f.write_str(
                "cannot go on after its pause: it made another host call than before; resume the run with `retry`, \
                 which runs the step afresh",
            ),
            Self::Over => f.write_str("was ended: nobody waits for this request any more"),
        }
    }
}

/// Milliseconds on the clock of budgets, which goes on while scripts run.
pub(crate) fn ticks() -> u64 {
    clock::now()
}

/// The same where a call begins: the clock may have slept since the last one.
pub(crate) fn ticks_at_start() -> u64 {
    clock::want();
    clock::now()
}

/// Returns the processor time of this thread; `None` if the system does not report it.
pub(crate) fn processor_time() -> Option<Duration> {
    processor::on_processor()
}

/// Makes an engine obey the budget of the thread it runs on.
pub(crate) fn obey(engine: &mut Engine) {
    memory::call_at_ceiling(abandon::abandon);
    engine.on_progress(|_| meter::tick().map(Dynamic::from));
}
