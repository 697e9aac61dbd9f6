//! What one call of a script may spend, and the clock that ends it.
//!
//! Rhai's own limits leak: operations restart within callbacks, nothing bounds time. Here one
//! `on_progress` per engine reads thread-locals that a guard sets around each call, so that every
//! operation counts, whoever started it.
//!
//! Own running time is what a thread had of a processor: on a busy machine a call may stand still for
//! longer than it may run. Half of the time is granted by the wall clock, which costs nothing to read;
//! only who needs more than that is asked what it really used.

use super::call;
use crate::context::Turn;
use crate::memory;
use rhai::{Dynamic, Engine, EvalAltResult, Position};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

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
    /// Nobody waits for what it does any more.
    Over,
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Operations(limit) => write!(f, "used up its budget of {limit} operations"),
            Self::Memory(limit) => write!(f, "used up its memory of {} MB", limit >> 20),
            Self::Time(limit) => write!(f, "used up its time of {} ms", limit.as_millis()),
            Self::Wall(limit) => write!(f, "did not end within {} ms", limit.as_millis()),
            Self::Over => f.write_str("was ended: nobody waits for this request any more"),
        }
    }
}

thread_local! {
    static METER: Meter = const { Meter::new() };
}

/// What the running call of a thread has spent and may spend: the first four are read at every
/// operation.
struct Meter {
    operations: Cell<u64>,
    limit: Cell<u64>,
    /// Of what the thread may have allocated.
    memory: Cell<isize>,
    /// Ticks at which the call is looked at more closely.
    deadline: Cell<u64>,
    budget: Cell<Budget>,
    /// Ticks at which the call ends whatever it does.
    wall: Cell<u64>,
    /// Processor time of this thread at which the call ends; none before half of its time is over.
    end: Cell<Option<Duration>>,
}

impl Meter {
    const fn new() -> Self {
        Self {
            operations: Cell::new(0),
            limit: Cell::new(u64::MAX),
            memory: Cell::new(isize::MAX),
            deadline: Cell::new(u64::MAX),
            budget: Cell::new(Budget::UNLIMITED),
            wall: Cell::new(u64::MAX),
            end: Cell::new(None),
        }
    }

    /// Begins a call.
    fn start(&self, budget: Budget) {
        self.operations.set(0);
        self.limit.set(budget.operations);
        self.memory.set(memory::net().saturating_add(isize::try_from(budget.memory).unwrap_or(isize::MAX)));
        self.wall.set(in_ticks(budget.wall));
        self.budget.set(budget);
        self.end.set(None);
        self.look_again_in(if processor::IS_KNOWN { budget.time / 2 } else { budget.time });
    }

    /// Whether a call runs.
    fn is_running(&self) -> bool {
        self.limit.get() != u64::MAX
    }

    /// How far it is, to be gone on with later.
    fn state(&self) -> Self {
        Self {
            operations: self.operations.clone(),
            limit: self.limit.clone(),
            memory: self.memory.clone(),
            deadline: self.deadline.clone(),
            budget: self.budget.clone(),
            wall: self.wall.clone(),
            end: self.end.clone(),
        }
    }

    fn go_on(&self, state: &Self) {
        self.operations.set(state.operations.get());
        self.limit.set(state.limit.get());
        self.memory.set(state.memory.get());
        self.deadline.set(state.deadline.get());
        self.budget.set(state.budget.get());
        self.wall.set(state.wall.get());
        self.end.set(state.end.get());
    }

    fn stop(&self) {
        self.limit.set(u64::MAX);
        self.memory.set(isize::MAX);
        self.deadline.set(u64::MAX);
    }

    fn look_again_in(&self, time: Duration) {
        self.deadline.set(in_ticks(time).min(self.wall.get()));
    }

    /// One more operation, and what it exceeds.
    fn tick(&self) -> Option<Exceeded> {
        let operations = self.operations.get() + 1;
        self.operations.set(operations);
        if operations > self.limit.get() {
            return Some(Exceeded::Operations(self.limit.get()));
        }
        if memory::net() > self.memory.get() {
            return Some(Exceeded::Memory(self.budget.get().memory));
        }
        if clock::now() > self.deadline.get()
            && let Some(exceeded) = self.used_up()
        {
            return Some(exceeded);
        }
        (operations.is_multiple_of(LOOK_UP) && call::is_over()).then_some(Exceeded::Over)
    }

    /// Which time is used up, asked when the clock says that it may be.
    #[cold]
    fn used_up(&self) -> Option<Exceeded> {
        let budget = self.budget.get();
        if clock::now() > self.wall.get() {
            return Some(Exceeded::Wall(budget.wall));
        }
        let Some(used) = processor::time_of_this_thread() else {
            return Some(Exceeded::Time(budget.time));
        };
        match self.end.get() {
            Some(end) if used > end => return Some(Exceeded::Time(budget.time)),
            Some(end) => self.look_again_in(end - used),
            None => {
                let rest = budget.time / 2;
                self.end.set(Some(used.saturating_add(rest)));
                self.look_again_in(rest);
            }
        }
        None
    }
}

/// Operations between two looks at whether anybody still waits for the result.
const LOOK_UP: u64 = 1024;

/// Sets a budget for the calling thread until it is dropped. A call within a call is rare: only then
/// there is a state to come back to.
pub(crate) struct Guard(Option<Box<Meter>>);

impl Guard {
    pub(crate) fn enter(budget: Budget) -> Self {
        clock::want();
        METER.with(|meter| {
            let outer = meter.is_running().then(|| Box::new(meter.state()));
            meter.start(budget);
            Self(outer)
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        METER.with(|meter| match &self.0 {
            Some(outer) => meter.go_on(outer),
            None => meter.stop(),
        });
    }
}

/// The tick at which a time from now is over.
fn in_ticks(time: Duration) -> u64 {
    // A tick may be almost over now: one more keeps the promise.
    let ticks = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    clock::now().saturating_add(ticks)
}

/// Waits for something with the clock of own running time stopped, as long as the call may last and
/// somebody waits for it. For threads that may block: those of scripts that say that they wait.
pub(crate) fn wait<F: Future>(turn: &Turn, future: F) -> Result<F::Output, Box<EvalAltResult>> {
    METER.with(|meter| {
        let wall = meter.wall.get();
        let own = meter.deadline.get().saturating_sub(clock::now());
        let until_wall = Duration::from_millis(wall.saturating_sub(clock::now()));
        let result = tokio::runtime::Handle::current().block_on(async {
            tokio::select! {
                biased;
                output = future => Ok(output),
                () = turn.over() => Err(Exceeded::Over),
                () = tokio::time::sleep(until_wall) => Err(Exceeded::Wall(meter.budget.get().wall)),
            }
        });
        meter.deadline.set(clock::now().saturating_add(own).min(wall));
        result.map_err(|exceeded| {
            EvalAltResult::ErrorTerminated(Dynamic::from(exceeded), Position::NONE).into()
        })
    })
}

/// Waits for a person: as above, but where people may take their time it does not count at all.
pub(crate) fn wait_for_person<F: Future>(turn: &Turn, future: F) -> Result<F::Output, Box<EvalAltResult>> {
    METER.with(|meter| {
        if meter.budget.get().hurries_people {
            return wait(turn, future);
        }
        let (began, wall) = (clock::now(), meter.wall.replace(u64::MAX));
        let result = wait(turn, future);
        let wall = wall.saturating_add(clock::now().saturating_sub(began));
        meter.wall.set(wall);
        meter.deadline.set(meter.deadline.get().min(wall));
        result
    })
}

/// Makes an engine obey the budget of the thread it runs on.
pub(crate) fn obey(engine: &mut Engine) {
    engine.on_progress(|_| METER.with(Meter::tick).map(Dynamic::from));
}

/// What a thread had of the processors, where the system says so.
mod processor {
    use std::time::Duration;

    pub(super) const IS_KNOWN: bool = cfg!(any(target_os = "linux", target_os = "macos"));

    #[cfg(any(target_os = "linux", target_os = "macos"))]
    pub(super) fn time_of_this_thread() -> Option<Duration> {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).ok()
    }

    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    pub(super) fn time_of_this_thread() -> Option<Duration> {
        None
    }
}

/// A clock that is read for the price of a load: a thread counts milliseconds while scripts run.
mod clock {
    use super::*;

    static TICKS: AtomicU64 = AtomicU64::new(0);
    static WANTED: AtomicBool = AtomicBool::new(false);
    static PARKED: AtomicBool = AtomicBool::new(false);
    static TICKER: OnceLock<std::thread::Thread> = OnceLock::new();

    /// Idle ticks before the thread goes to sleep.
    const IDLE: u32 = 2_000;

    pub(super) fn now() -> u64 {
        TICKS.load(Relaxed)
    }

    /// Says that a call runs, so that the clock must go on.
    pub(super) fn want() {
        if !WANTED.load(Relaxed) {
            WANTED.store(true, Relaxed);
        }
        let ticker = TICKER.get_or_init(start);
        if PARKED.load(Relaxed) {
            PARKED.store(false, Relaxed);
            ticker.unpark();
        }
    }

    fn start() -> std::thread::Thread {
        let spawned =
            std::thread::Builder::new().name("script-clock".into()).stack_size(64 * 1024).spawn(tick);
        spawned.map(|handle| handle.thread().clone()).unwrap_or_else(|_| std::thread::current())
    }

    fn tick() {
        let mut idle = 0;
        let mut last = std::time::Instant::now();
        let mut rest = Duration::ZERO;
        loop {
            std::thread::sleep(Duration::from_millis(1));
            // A late wake-up counts as all the milliseconds it took.
            let now = std::time::Instant::now();
            let passed = now - last + rest;
            last = now;
            rest = Duration::from_nanos(u64::from(passed.subsec_nanos() % 1_000_000));
            TICKS.fetch_add(passed.as_millis() as u64, Relaxed);
            idle = if WANTED.swap(false, Relaxed) { 0 } else { idle + 1 };
            if idle > IDLE {
                PARKED.store(true, Relaxed);
                std::thread::park();
                last = std::time::Instant::now();
                idle = 0;
            }
        }
    }
}
