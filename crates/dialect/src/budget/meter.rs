//! The usage and the limits of a thread's running call.

use super::limits::{Budget, ExceededLimit, ended};
use super::processor;
use crate::call::{self, clock};
use rhai::EvalAltResult;
use std::cell::Cell;
use std::time::{Duration, Instant};
use valvehouse_core::context::{Claim, LoadExceeded, Share};
use valvehouse_core::metrics::CallCost;
use valvehouse_executor as executor;
use valvehouse_memory as memory;

thread_local! {
    static METER: Meter = const { Meter::new() };
    /// `true` while a part of a call runs concurrently with other parts.
    static IS_BRANCH: Cell<bool> = const { Cell::new(false) };
}

/// The usage and the limits of a thread's running call. The first two fields are read at every operation, the next
/// two at every fourth.
#[derive(Clone)]
struct Meter {
    operations: Cell<u64>,
    limit: Cell<u64>,
    /// The maximum of the thread's allocated bytes at any operation so far.
    peak: Cell<isize>,
    /// The tick after which the clock is checked in detail.
    deadline: Cell<u64>,
    budget: Cell<Budget>,
    /// The bytes that the thread had allocated when the call began; `fixed` is the part of them that is never
    /// copied.
    memory: Cell<isize>,
    fixed: Cell<isize>,
    /// The times of the budget in ticks: the running time, the running time until the first check, and the
    /// wall-clock time.
    ticks: Cell<[u64; 3]>,
    /// The tick after which the running time is checked; before it, it cannot be used up.
    look: Cell<u64>,
    /// The tick after which the call exceeds its wall-clock time.
    wall: Cell<u64>,
    /// The time of this thread at which the running time is used up; `None` before the first check.
    end: Cell<Option<Duration>>,
    /// The time spent waiting.
    waited: Cell<Duration>,
    /// The tick after which the running time is used up if the call never waited.
    used_up: Cell<u64>,
    /// The processor time of this thread at the start of the call, without that of others while it waited; `true`
    /// if it was read at that tick.
    processor: Cell<(Option<Duration>, bool)>,
    /// The reason to end the call at its next operation, regardless of its budgets.
    doomed: Cell<Option<ExceededLimit>>,
}

impl Meter {
    const fn new() -> Self {
        Self {
            operations: Cell::new(0),
            limit: Cell::new(u64::MAX),
            peak: Cell::new(isize::MAX),
            deadline: Cell::new(u64::MAX),
            budget: Cell::new(Budget::UNLIMITED),
            memory: Cell::new(0),
            fixed: Cell::new(0),
            ticks: Cell::new([u64::MAX; 3]),
            look: Cell::new(u64::MAX),
            wall: Cell::new(u64::MAX),
            end: Cell::new(None),
            waited: Cell::new(Duration::ZERO),
            used_up: Cell::new(u64::MAX),
            processor: Cell::new((None, false)),
            doomed: Cell::new(None),
        }
    }

    /// Begins a call.
    fn start(&self, budget: Budget) {
        let memory = memory::net();
        self.operations.set(0);
        self.limit.set(budget.operations);
        self.memory.set(memory);
        self.fixed.set(memory::fixed());
        self.peak.set(memory);
        if self.budget.replace(budget) != budget {
            let look = if processor::IS_KNOWN { budget.time / 4 } else { budget.time };
            self.ticks.set([budget.time, look, budget.wall].map(ticks_of));
        }
        let ([time, look, wall], now) = (self.ticks.get(), clock::now());
        self.wall.set(now.saturating_add(wall));
        self.end.set(None);
        self.waited.set(Duration::ZERO);
        self.doomed.set(None);
        self.used_up.set(now.saturating_add(time));
        self.processor.set(processor::at_tick(now));
        self.look.set(now.saturating_add(look));
        self.set_deadline();
        self.set_limits();
    }

    /// Sets the limits that the allocator watches: the mark from which a copy of everything the call holds would
    /// not fit its memory, and the ceiling at which the call is abandoned. The ceiling is twice the memory limit,
    /// or the limit plus [`BEYOND`] bytes if this is more.
    fn set_limits(&self) {
        let limit = self.memory_limit();
        let base = self.memory.get();
        let ceiling = base.saturating_add(limit).saturating_add(limit.max(BEYOND));
        let lowest_mark = base.saturating_add(most_held(limit, 0));
        memory::MemoryLimits { mark: self.mark(), lowest_mark, ceiling }.set();
    }

    fn memory_limit(&self) -> isize {
        isize::try_from(self.budget.get().memory).unwrap_or(isize::MAX)
    }

    /// Returns the maximum number of net bytes the thread may have allocated, given the texts it holds now.
    fn mark(&self) -> isize {
        let fixed = memory::fixed().saturating_sub(self.fixed.get());
        self.memory.get().saturating_add(most_held(self.memory_limit(), fixed))
    }

    /// Returns `true` while a call runs.
    fn is_running(&self) -> bool {
        self.limit.get() != u64::MAX
    }

    /// Suspends the call and returns its state; no call runs then.
    fn put_aside(&self) -> Self {
        let aside = self.clone();
        self.stop();
        aside
    }

    fn go_on(&self, aside: Self) {
        self.operations.set(aside.operations.get());
        self.limit.set(aside.limit.get());
        self.peak.set(aside.peak.get());
        self.deadline.set(aside.deadline.get());
        self.budget.set(aside.budget.get());
        self.ticks.set(aside.ticks.get());
        self.memory.set(aside.memory.get());
        self.fixed.set(aside.fixed.get());
        self.look.set(aside.look.get());
        self.wall.set(aside.wall.get());
        self.end.set(aside.end.get());
        self.waited.set(aside.waited.get());
        self.doomed.set(aside.doomed.get());
        self.used_up.set(aside.used_up.get());
        self.processor.set(aside.processor.get());
        self.set_limits();
    }

    fn stop(&self) {
        self.limit.set(u64::MAX);
        self.peak.set(isize::MAX);
        self.deadline.set(u64::MAX);
        memory::clear_limits();
    }

    fn set_deadline(&self) {
        self.deadline.set(self.look.get().min(self.wall.get()).min(clock::now() + SLICE));
    }

    /// Returns the limit that the call exceeds after this number of operations.
    #[inline(never)]
    fn exceeded_at(&self, operations: u64) -> Option<ExceededLimit> {
        let memory = memory::net();
        if memory > self.peak.get() {
            self.peak.set(memory);
        }
        if operations > self.limit.get()
            && let Some(exceeded) = self.passed_a_limit(operations, memory)
        {
            return Some(exceeded);
        }
        if clock::now() > self.deadline.get()
            && let Some(exceeded) = self.looked_at()
        {
            return Some(exceeded);
        }
        if operations.is_multiple_of(LOOK_UP) {
            clock::want();
            return call::is_over().then_some(ExceededLimit::Over);
        }
        None
    }

    /// Returns the exceeded limit of operations or memory. The allocator requests the check of memory.
    #[cold]
    fn passed_a_limit(&self, operations: u64, memory: isize) -> Option<ExceededLimit> {
        let budget = self.budget.get();
        if let Some(exceeded) = self.doomed.get() {
            return Some(exceeded);
        }
        if memory > self.mark() {
            return Some(ExceededLimit::Memory(budget.memory));
        }
        self.limit.set(budget.operations);
        self.set_limits();
        (operations > budget.operations).then_some(ExceededLimit::Operations(budget.operations))
    }

    /// Checks the clock: returns an exceeded time limit, or yields to other calls.
    #[cold]
    fn looked_at(&self) -> Option<ExceededLimit> {
        // A thread that waits seconds for a processor runs few operations meanwhile: without this, the clock would
        // stop, and the deadline below would not be reached until the thousandth operation.
        clock::want();
        let budget = self.budget.get();
        if clock::now() > self.wall.get() {
            return Some(ExceededLimit::Wall(budget.wall));
        }
        if clock::now() > self.look.get()
            && let Some(exceeded) = self.used_up(budget.time)
        {
            return Some(exceeded);
        }
        // A part yields to the other parts; a whole call yields to other calls.
        if executor::is_here() {
            let given_way = if is_branch() {
                executor::yield_now()
            } else {
                match claim_held() {
                    Ok(_held) => with_clock_stopped(|| aside(executor::yield_now)),
                    Err(exceeded) => return Some(exceeded),
                }
            };
            if given_way.is_err() {
                return Some(ExceededLimit::Over);
            }
        }
        self.set_deadline();
        None
    }

    /// Returns the time limit that a finished call exceeded after its last operation. The time within a native is
    /// checked only afterwards.
    #[inline]
    fn overran(&self) -> Option<ExceededLimit> {
        if clock::now() <= self.used_up.get() || !self.is_running() {
            return None;
        }
        self.has_overrun()
    }

    #[cold]
    fn has_overrun(&self) -> Option<ExceededLimit> {
        let time = self.budget.get().time;
        let passed = time + Duration::from_millis(clock::now().saturating_sub(self.used_up.get()));
        let is_over = match (self.end.get(), self.processor.get()) {
            (Some(end), _) => processor::time_of_this_thread().is_some_and(|now| now > end),
            // The call was never checked: the processor time at its start is known exactly or includes earlier work
            // of the thread.
            (None, (Some(began), is_exact)) => {
                let most = if is_exact { time } else { time.saturating_mul(UNSEEN) };
                processor::processor_time().is_some_and(|now| now.saturating_sub(began) > most)
            }
            // The thread may have been preempted for a while.
            (None, (None, _)) => passed > time.saturating_mul(UNSEEN),
        };
        is_over.then_some(ExceededLimit::Time(time))
    }

    /// Returns the limit if the running time is used up; called only when this is possible.
    fn used_up(&self, time: Duration) -> Option<ExceededLimit> {
        let Some(now) = processor::time_of_this_thread() else { return Some(ExceededLimit::Time(time)) };
        // The time used before the first check is unknown and not counted: the thread may have been preempted
        // throughout.
        let end = self.end.get().unwrap_or_else(|| now.saturating_add(time));
        if now > end {
            return Some(ExceededLimit::Time(time));
        }
        self.end.set(Some(end));
        self.look.set(in_ticks(end - now));
        None
    }
}

/// The suspended calls of one request may together hold this multiple of the memory limit of the next call.
const CALLS_HELD: usize = 4;
/// The minimum number of bytes above its memory limit at which a call is abandoned. No native of this crate takes
/// more.
const BEYOND: isize = 64 << 20;
/// The number of bytes above its memory limit that a call may hold while Rhai copies a value.
const COPYING: isize = 16 << 20;
/// The number of operations between checks of the clock; so few operations are always short.
const LOOK: u64 = 4;
/// The number of operations between checks whether the turn has ended.
const LOOK_UP: u64 = 1024;
/// The number of ticks after which a call yields.
const SLICE: u64 = 2;

/// The factor on the running time that may pass for an unchecked call whose processor time is not known exactly.
const UNSEEN: u32 = 4;

/// Returns the maximum number of bytes that a call may hold. It is at most `limit`, and at most the amount that can
/// be copied once within `limit` and [`COPYING`]. `fixed` bytes are never copied.
fn most_held(limit: isize, fixed: isize) -> isize {
    let with_copy = limit.saturating_add(COPYING).saturating_add(fixed.clamp(0, limit)) / 2;
    limit.min(with_copy)
}

/// Applies a budget to the thread until it is dropped. Only a nested call has an outer state to restore.
pub struct Guard(Option<Box<Meter>>);

impl Guard {
    /// Starts a call with this budget on this thread.
    pub fn enter(budget: Budget) -> Self {
        clock::want();
        METER.with(|meter| {
            let outer = meter.is_running().then(|| Box::new(meter.put_aside()));
            meter.start(budget);
            Self(outer)
        })
    }

    /// Returns the cost of the call so far.
    pub fn spent(&self) -> CallCost {
        METER.with(|meter| CallCost {
            operations: meter.operations.get(),
            memory: u64::try_from(meter.peak.get().saturating_sub(meter.memory.get())).unwrap_or(0),
            kept: u64::try_from(memory::net().saturating_sub(meter.memory.get())).unwrap_or(0),
            waited: meter.waited.get(),
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        METER.with(|meter| match self.0.take() {
            Some(outer) => meter.go_on(*outer),
            None => meter.stop(),
        });
    }
}

/// Returns `true` if a part of a call runs concurrently with other parts.
pub(super) fn is_branch() -> bool {
    IS_BRANCH.get()
}

pub(super) fn set_branch(is_branch: bool) {
    IS_BRANCH.set(is_branch);
}

/// Counts one operation of the running call, and returns the limit it exceeds.
#[inline]
pub(super) fn tick() -> Option<ExceededLimit> {
    METER.with(|meter| {
        let operations = meter.operations.get() + 1;
        meter.operations.set(operations);
        if operations <= meter.limit.get() && !operations.is_multiple_of(LOOK) {
            return None;
        }
        meter.exceeded_at(operations)
    })
}

/// Counts a function call as an operation.
pub(crate) fn called() -> Result<(), Box<EvalAltResult>> {
    tick().map_or(Ok(()), |exceeded| Err(ended(exceeded)))
}

/// Adds the operations that a native's work is worth, and checks every limit.
///
/// Must be called before the work and never while a value is locked, because other calls may run meanwhile.
///
/// # Errors
/// Returns the limit that the call exceeds.
#[inline]
pub fn charge(operations: u64) -> Result<(), ExceededLimit> {
    METER.with(|meter| {
        if !meter.is_running() {
            return Ok(());
        }
        let sum = meter.operations.get().saturating_add(operations);
        meter.operations.set(sum);
        meter.exceeded_at(sum).map_or(Ok(()), Err)
    })
}

/// Checks the time limits of a call that has finished.
///
/// # Errors
/// Returns the limit that the call exceeds.
pub fn check_end() -> Result<(), ExceededLimit> {
    METER.with(|meter| meter.overran().map_or(Ok(()), Err))
}

/// The number of nanoseconds per byte of a native that reads a text once, character by character.
pub const WALK: u64 = 6;

/// The work of natives that is charged as one operation, in nanoseconds. Estimates are those of the slowest input.
const WORK_OF_AN_OPERATION: u64 = 400;

/// Charges a native's work that takes `nanoseconds` for each byte, as [`charge_work`] does.
///
/// # Errors
/// Returns the limit that the call exceeds.
#[inline]
pub fn charge_bytes(bytes: usize, nanoseconds: u64) -> Result<(), ExceededLimit> {
    charge_work(Duration::from_nanos(nanoseconds.saturating_mul(bytes as u64)))
}

/// Charges a native's work as operations, by its estimated time. Work that does not fit the budget is refused in
/// advance, because nothing can interrupt it. No other call runs meanwhile, so that a value may be locked.
///
/// # Errors
/// Returns the limit that the call exceeds.
pub fn charge_work(work: Duration) -> Result<(), ExceededLimit> {
    let operations = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX) / WORK_OF_AN_OPERATION;
    METER.with(|meter| {
        if operations == 0 || !meter.is_running() {
            return Ok(());
        }
        let sum = meter.operations.get().saturating_add(operations);
        meter.operations.set(sum);
        let exceeded = (sum > meter.limit.get()).then(|| meter.passed_a_limit(sum, memory::net())).flatten();
        exceeded.map_or(Ok(()), Err)
    })
}

/// Checks that a native may allocate this number of additional bytes.
///
/// # Errors
/// Returns the limit that the call exceeds.
#[inline]
pub fn reserve(bytes: usize) -> Result<(), ExceededLimit> {
    METER.with(|meter| {
        let limit = meter.budget.get().memory;
        match meter.is_running() && held().saturating_add(bytes) > limit {
            true => Err(ExceededLimit::Memory(limit)),
            false => Ok(()),
        }
    })
}

/// Returns the number of bytes that the running call holds; 0 outside of a call.
pub(super) fn held() -> usize {
    METER.with(|meter| match meter.is_running() {
        true => usize::try_from(memory::net().saturating_sub(meter.memory.get())).unwrap_or(0),
        false => 0,
    })
}

/// Adds the bytes that the running call holds to the load of its request while other calls use its thread.
pub(super) fn claim_held() -> Result<Option<Claim>, ExceededLimit> {
    let most = METER.with(|meter| meter.budget.get().memory).saturating_mul(CALLS_HELD);
    call::claim(Share::Bytes, held(), most).map_err(|LoadExceeded| ExceededLimit::Held(most))
}

/// Returns the memory limit of the running call if it is exceeded.
pub(super) fn passed_memory() -> Option<ExceededLimit> {
    METER.with(|meter| {
        let limit = meter.budget.get().memory;
        (meter.is_running() && held() > limit).then_some(ExceededLimit::Memory(limit))
    })
}

/// Returns the maximum number of operations of the running call.
pub fn operation_limit() -> u64 {
    METER.with(|meter| meter.budget.get().operations)
}

/// Returns the running time limit of the running call.
pub fn time_limit() -> Duration {
    METER.with(|meter| meter.budget.get().time)
}

/// Ends the running call at its next operation, for limits that must apply even if the interpreter discards the
/// error of a native.
pub fn doom(exceeded: ExceededLimit) {
    METER.with(|meter| {
        if meter.is_running() {
            meter.doomed.set(Some(exceeded));
            meter.limit.set(0);
        }
    });
}

/// Requests a check of the running call before its next operation. Called by the allocator.
pub(super) fn look_soon() {
    METER.with(|meter| {
        if meter.is_running() {
            meter.limit.set(0);
        }
    });
}

/// Clears the running call of this thread: it is never continued.
pub(super) fn forget() {
    METER.with(Meter::stop);
}

/// Subtracts operations that do not count for the running call.
pub(crate) fn forgive(operations: u64) {
    METER.with(|meter| meter.operations.set(meter.operations.get().saturating_sub(operations)));
}

/// Returns the tick after which the running call exceeds its wall-clock time, and its budget.
pub(super) fn limits() -> (u64, Budget) {
    METER.with(|meter| (meter.wall.get(), meter.budget.get()))
}

/// Sets the tick after which the running call exceeds its wall-clock time.
pub(super) fn set_wall(tick: u64) {
    METER.with(|meter| {
        meter.wall.set(tick);
        meter.set_deadline();
    });
}

/// Runs other calls on this thread meanwhile: the running call is suspended, and their allocations do not count
/// toward its memory.
pub(super) fn aside<T>(others: impl FnOnce() -> T) -> T {
    let call = call::put_aside();
    let meter = METER.with(Meter::put_aside);
    let (before, fixed) = (memory::net(), memory::fixed());

    let result = others();

    let grown = memory::net().saturating_sub(before);
    let more_fixed = memory::fixed().saturating_sub(fixed);
    meter.fixed.set(meter.fixed.get().saturating_add(more_fixed));
    meter.memory.set(meter.memory.get().saturating_add(grown));
    meter.peak.set(meter.peak.get().saturating_add(grown));
    METER.with(|here| here.go_on(meter));
    call::go_on(call);
    result
}

/// Runs code whose time does not count as running time of the call.
pub(super) fn with_clock_stopped<T>(other: impl FnOnce() -> T) -> T {
    let end = METER.with(|meter| meter.end.get());
    let used = end.and_then(|_| processor::time_of_this_thread());
    let ((began, is_exact), computed) =
        (METER.with(|meter| meter.processor.get()), processor::processor_time());
    let (left, ticks) = (Instant::now(), clock::now());

    let result = other();

    METER.with(|meter| {
        let more = used.and_then(|used| Some(processor::time_of_this_thread()?.saturating_sub(used)));
        let others =
            computed.and_then(|computed| Some(processor::processor_time()?.saturating_sub(computed)));
        let began = began.map(|began| began.saturating_add(others.unwrap_or(Duration::ZERO)));
        meter.processor.set((began, is_exact));
        meter.end.set(end.map(|end| end.saturating_add(more.unwrap_or(Duration::ZERO))));
        meter.waited.set(meter.waited.get() + left.elapsed());
        let passed = clock::now().saturating_sub(ticks);
        meter.look.set(meter.look.get().saturating_add(passed));
        meter.used_up.set(meter.used_up.get().saturating_add(passed));
        meter.set_deadline();
    });
    result
}

/// Adds the processor time that another thread spent on the call to its running time.
///
/// # Errors
/// Returns the limit that the call exceeds.
pub fn spend(time: Duration) -> Result<(), ExceededLimit> {
    METER.with(|meter| {
        let (began, is_exact) = meter.processor.get();
        meter.processor.set((began.map(|began| began.saturating_sub(time)), is_exact));
        meter.end.set(meter.end.get().map(|end| end.saturating_sub(time)));
        let passed = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        meter.look.set(meter.look.get().saturating_sub(passed));
        meter.used_up.set(meter.used_up.get().saturating_sub(passed));
        meter.set_deadline();
    });
    charge(0)
}

/// Returns the tick at which a duration from now has passed.
fn in_ticks(time: Duration) -> u64 {
    clock::now().saturating_add(ticks_of(time))
}

/// Returns the number of ticks after which a duration has passed. The current tick may be almost over, hence one
/// more.
fn ticks_of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget { operations: 1_000, time: Duration::from_millis(2), ..Budget::UNLIMITED };

    fn passes(time: Duration, work: impl Fn()) {
        let began = Instant::now();
        while began.elapsed() < time {
            work();
        }
    }

    #[test]
    fn time_without_the_processor_does_not_count_against_a_call() {
        let _guard = Guard::enter(BUDGET);
        passes(Duration::from_millis(60), || std::thread::sleep(Duration::from_millis(1)));
        assert_eq!(check_end(), Ok(()));
    }

    /// The clock stops after two seconds without a use. A call with operations of 30 ms each reaches a multiple of
    /// [`LOOK_UP`] only after half a minute: each check of its deadline has to keep the clock running.
    #[test]
    fn each_deadline_check_keeps_the_clock_running() {
        let _guard = Guard::enter(Budget { operations: 1_000, ..Budget::UNLIMITED });
        let before = clock::wishes();
        for look in 1..=5 {
            let deadline = METER.with(|meter| meter.deadline.get());
            while clock::now() <= deadline {
                std::thread::yield_now();
            }
            charge(1).unwrap_or_else(|exceeded| panic!("{exceeded}"));
            let operations = METER.with(|meter| meter.operations.get());
            assert!(operations < LOOK_UP, "{operations}");
            assert_eq!(clock::wishes() - before, look, "after {operations} operations");
        }
    }

    #[test]
    fn a_doomed_call_ends_at_each_further_operation_and_the_next_call_does_not() {
        let budget = Budget { operations: 1_000, ..Budget::UNLIMITED };
        let guard = Guard::enter(budget);
        assert_eq!(charge(1), Ok(()));
        doom(ExceededLimit::Replay);
        // The interpreter may discard the first error.
        assert_eq!([charge(1), charge(1)], [Err(ExceededLimit::Replay); 2]);
        drop(guard);
        let _next = Guard::enter(budget);
        assert_eq!(charge(1), Ok(()));
    }

    #[test]
    fn work_that_does_not_fit_the_budget_is_refused_in_advance() {
        let _guard = Guard::enter(Budget { operations: 1_000, ..Budget::UNLIMITED });
        let work = |operations: u64| charge_work(Duration::from_nanos(operations * WORK_OF_AN_OPERATION));
        assert_eq!([work(1_000), work(1)], [Ok(()), Err(ExceededLimit::Operations(1_000))]);
    }

    #[test]
    fn a_call_over_budget_within_a_native_function_ends_after_it() {
        let _guard = Guard::enter(BUDGET);
        let began = processor::processor_time();
        while processor::processor_time()
            .zip(began)
            .is_some_and(|(now, began)| now - began < Duration::from_millis(30))
        {}
        assert_eq!(check_end(), Err(ExceededLimit::Time(BUDGET.time)));
    }
}
