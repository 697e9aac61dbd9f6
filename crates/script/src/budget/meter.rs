//! The use and the limits of the running call of a thread.

use super::limits::{Budget, ExceededLimit, ended};
use super::processor;
use crate::{call, clock};
use rhai::EvalAltResult;
use std::cell::Cell;
use std::time::{Duration, Instant};
use valvehouse_core::context::{Claim, LoadExceeded, Share};
use valvehouse_core::executor;
use valvehouse_core::metrics::CallCost;
use valvehouse_memory as memory;

thread_local! {
    static METER: Meter = const { Meter::new() };
    /// Is `true` while a part of a call runs that waits beside other parts.
    static IS_BRANCH: Cell<bool> = const { Cell::new(false) };
}

/// The use and the limits of the running call of a thread: the first two are read at every
/// operation, the next two at every fourth.
#[derive(Clone)]
struct Meter {
    operations: Cell<u64>,
    limit: Cell<u64>,
    /// The most the thread had allocated at any operation so far.
    peak: Cell<isize>,
    /// Ticks at which the call is looked at more closely.
    deadline: Cell<u64>,
    budget: Cell<Budget>,
    /// The bytes that the thread had allocated when the call began, and the part of it that is never copied.
    memory: Cell<isize>,
    fixed: Cell<isize>,
    /// The budget's times in ticks: of its own time, of a quarter of it, and by the clock on the wall.
    ticks: Cell<[u64; 3]>,
    /// Ticks at which own time is looked at: not yet known to be used up.
    look: Cell<u64>,
    /// The ticks at which the call is ended in any case.
    wall: Cell<u64>,
    /// Time of this thread at which the call ends; none before it was looked at for the first time.
    end: Cell<Option<Duration>>,
    /// The time that it waited for others.
    waited: Cell<Duration>,
    /// Ticks by which a call that used all its own time, and nothing but that, is over.
    used_up: Cell<u64>,
    /// Processor time of this thread when it began, without what others used while it waited, and whether that was
    /// read just then.
    processor: Cell<(Option<Duration>, bool)>,
    /// The reason it ends at its next operation, regardless of its budgets.
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

    /// Sets the limits that the allocator watches: the mark from which a copy of what the call holds would not fit its
    /// memory, and the ceiling at which it ends the call if its own checks failed to, twice its memory limit, or
    /// [`BEYOND`] bytes above that limit if this is more.
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

    /// The most net bytes that the thread may have allocated, with the texts that it holds now.
    fn mark(&self) -> isize {
        let fixed = memory::fixed().saturating_sub(self.fixed.get());
        self.memory.get().saturating_add(most_held(self.memory_limit(), fixed))
    }

    /// Returns `true` while a call runs.
    fn is_running(&self) -> bool {
        self.limit.get() != u64::MAX
    }

    /// Takes its progress, to be resumed later; no call runs then.
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

    /// Returns the limit that the call exceeds after so many operations.
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

    /// Returns the budget that is exceeded: of operations, or of memory, for which the allocator asked to be looked at.
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

    /// Checks the clock: which time is used up, or whether others have to have a turn.
    #[cold]
    fn looked_at(&self) -> Option<ExceededLimit> {
        // A thread that waits for a processor for seconds has few operations in that time: without this, the clock would
        // go to sleep, and the deadline below would stay ahead of it until the thousandth operation.
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
        // A part gives way to the whole, which gives way to others.
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

    /// Returns the time limit that a finished call exceeded since its last operation: the time within a native is
    /// checked only afterward.
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
            // It was never looked at: what it used is known exactly, or with what the thread did before it.
            (None, (Some(began), is_exact)) => {
                let most = if is_exact { time } else { time.saturating_mul(UNSEEN) };
                processor::processor_time().is_some_and(|now| now.saturating_sub(began) > most)
            }
            // A thread may have been held up for a while.
            (None, (None, _)) => passed > time.saturating_mul(UNSEEN),
        };
        is_over.then_some(ExceededLimit::Time(time))
    }

    /// Returns the limit if its own time is used up; called when that is possible.
    fn used_up(&self, time: Duration) -> Option<ExceededLimit> {
        let Some(now) = processor::time_of_this_thread() else { return Some(ExceededLimit::Time(time)) };
        // Use before the first look is not known, and granted on top: a thread may have been
        // held up all the while.
        let end = self.end.get().unwrap_or_else(|| now.saturating_add(time));
        if now > end {
            return Some(ExceededLimit::Time(time));
        }
        self.end.set(Some(end));
        self.look.set(in_ticks(end - now));
        None
    }
}

/// All calls of one request that are put aside may hold this many times the memory of the one that is next.
const CALLS_HELD: usize = 4;
/// Bytes beyond its budget that a call is let go on with, at least: more than any native of ours may take.
const BEYOND: isize = 64 << 20;
/// Bytes beyond its budget that a call may take while Rhai copies a value.
const COPYING: isize = 16 << 20;
/// Bytes that a native may go over without a thought of the time that it takes.
const FORESEEN: usize = 64 << 10;
/// Operations between two looks at the clock: no few of them take long.
const LOOK: u64 = 4;
/// Operations between two looks at whether anybody still waits for the result.
const LOOK_UP: u64 = 1024;
/// Ticks for which a call may keep a lane for itself.
const SLICE: u64 = 2;

/// Times its own time that may pass for a call that was never looked at, where it is not known exactly.
const UNSEEN: u32 = 4;

/// The most that a call may hold within a limit, of which so many bytes are never copied: at most the limit, and no more
/// than can be copied once within the limit and [`COPYING`].
fn most_held(limit: isize, fixed: isize) -> isize {
    let with_copy = limit.saturating_add(COPYING).saturating_add(fixed.clamp(0, limit)) / 2;
    limit.min(with_copy)
}

/// Sets a budget for the calling thread until it is dropped. A call within a call is rare: only then
/// there is a state to come back to.
pub(crate) struct Guard(Option<Box<Meter>>);

impl Guard {
    pub(crate) fn enter(budget: Budget) -> Self {
        clock::want();
        METER.with(|meter| {
            let outer = meter.is_running().then(|| Box::new(meter.put_aside()));
            meter.start(budget);
            Self(outer)
        })
    }

    /// Returns the cost of the call so far.
    pub(crate) fn spent(&self) -> CallCost {
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

/// Returns `true` within a part of a call that waits beside others.
pub(super) fn is_branch() -> bool {
    IS_BRANCH.get()
}

pub(super) fn set_branch(is_branch: bool) {
    IS_BRANCH.set(is_branch);
}

/// One more operation of the running call, and what it exceeds.
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

/// That a function is called is an operation too.
pub(crate) fn called() -> Result<(), Box<EvalAltResult>> {
    tick().map_or(Ok(()), |exceeded| Err(ended(exceeded)))
}

/// Adds the operations that a native's work is worth, and looks at every budget.
///
/// Called before the work is done, and never while a value is locked: on a lane others may run meanwhile.
pub(crate) fn charge(operations: u64) -> Result<(), ExceededLimit> {
    METER.with(|meter| {
        if !meter.is_running() {
            return Ok(());
        }
        let sum = meter.operations.get().saturating_add(operations);
        meter.operations.set(sum);
        meter.exceeded_at(sum).map_or(Ok(()), Err)
    })
}

/// Checks what a call exceeded that has come to its end.
pub(crate) fn check_end() -> Result<(), ExceededLimit> {
    METER.with(|meter| meter.overran().map_or(Ok(()), Err))
}

/// Nanoseconds that a native takes for a byte of a text that it goes over once, character by character.
pub(crate) const WALK: u64 = 6;

/// Checks that a native which takes so many nanoseconds for each of so many bytes is done within the own time of a
/// call, before it begins: nothing ends it in between.
pub(crate) fn foresee(bytes: usize, nanoseconds: u64) -> Result<(), ExceededLimit> {
    // Most texts are short.
    if bytes < FORESEEN {
        return Ok(());
    }
    foresee_time(Duration::from_nanos(nanoseconds.saturating_mul(bytes as u64)))
}

/// Checks that a native which takes this long is done within the own time of a call, before it begins.
pub(crate) fn foresee_time(work: Duration) -> Result<(), ExceededLimit> {
    let time = METER.with(|meter| meter.is_running().then(|| meter.budget.get().time));
    time.filter(|time| work > *time).map_or(Ok(()), |time| Err(ExceededLimit::Time(time)))
}

/// Checks that a native may allocate this many bytes more, before it does.
pub(crate) fn reserve(bytes: usize) -> Result<(), ExceededLimit> {
    METER.with(|meter| {
        let limit = meter.budget.get().memory;
        match meter.is_running() && held().saturating_add(bytes) > limit {
            true => Err(ExceededLimit::Memory(limit)),
            false => Ok(()),
        }
    })
}

/// Returns the bytes that the running call holds; none outside of a call.
pub(super) fn held() -> usize {
    METER.with(|meter| match meter.is_running() {
        true => usize::try_from(memory::net().saturating_sub(meter.memory.get())).unwrap_or(0),
        false => 0,
    })
}

/// Adds what the running call holds to the load of its request, for as long as others have its thread.
pub(super) fn claim_held() -> Result<Option<Claim>, ExceededLimit> {
    let most = METER.with(|meter| meter.budget.get().memory).saturating_mul(CALLS_HELD);
    call::claim(Share::Bytes, held(), most).map_err(|LoadExceeded| ExceededLimit::Held(most))
}

/// Returns the memory of the running call, where it holds more.
pub(super) fn passed_memory() -> Option<ExceededLimit> {
    METER.with(|meter| {
        let limit = meter.budget.get().memory;
        (meter.is_running() && held() > limit).then_some(ExceededLimit::Memory(limit))
    })
}

/// The own running time that the running call may take in all.
pub(crate) fn time_limit() -> Duration {
    METER.with(|meter| meter.budget.get().time)
}

/// Ends the running call at its next operation, for what must not be ignored although the interpreter would
/// ignore the error of the native that found it.
pub(crate) fn doom(exceeded: ExceededLimit) {
    METER.with(|meter| {
        if meter.is_running() {
            meter.doomed.set(Some(exceeded));
            meter.limit.set(0);
        }
    });
}

/// Has the running call looked at before its next operation. Called within an allocation.
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

/// So many operations were none of the running call's own.
pub(crate) fn forgive(operations: u64) {
    METER.with(|meter| meter.operations.set(meter.operations.get().saturating_sub(operations)));
}

/// The tick at which the running call is ended in any case, and its budget.
pub(super) fn limits() -> (u64, Budget) {
    METER.with(|meter| (meter.wall.get(), meter.budget.get()))
}

/// The running call ends at another tick.
pub(super) fn set_wall(tick: u64) {
    METER.with(|meter| {
        meter.wall.set(tick);
        meter.set_deadline();
    });
}

/// Leaves the thread to others for a while: the running call is taken from it, and what they allocate is
/// none of its memory.
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

/// Does what is not running time of the call's own.
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

/// Adds what another thread computed for the call to the call's own time.
pub(crate) fn spend(time: Duration) -> Result<(), ExceededLimit> {
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

/// The tick at which a time from now is over.
fn in_ticks(time: Duration) -> u64 {
    clock::now().saturating_add(ticks_of(time))
}

/// The ticks after which a time is over. A tick may be almost over now: one more keeps the promise.
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
    fn a_call_that_was_only_held_up_has_not_used_its_time() {
        let _guard = Guard::enter(BUDGET);
        passes(Duration::from_millis(60), || std::thread::sleep(Duration::from_millis(1)));
        assert_eq!(check_end(), Ok(()));
    }

    /// The clock sleeps after two seconds without a use. A call whose operations each take 30 ms has none of a number
    /// divisible by [`LOOK_UP`] in half a minute: each look at its deadline has to keep the clock running.
    #[test]
    fn each_look_at_a_deadline_keeps_the_clock_running() {
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
    fn a_call_that_computed_longer_within_one_native_is_ended_after_it() {
        let _guard = Guard::enter(BUDGET);
        let began = processor::processor_time();
        while processor::processor_time()
            .zip(began)
            .is_some_and(|(now, began)| now - began < Duration::from_millis(30))
        {}
        assert_eq!(check_end(), Err(ExceededLimit::Time(BUDGET.time)));
    }
}
