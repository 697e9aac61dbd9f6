//! The hooks in the engine and in the allocator through which budgets act.
//!
//! The second line: a call that allocates far beyond its budget within one native is left behind.
//!
//! The meter looks between operations, and natives of ours reserve what they take. Rhai itself copies an array or map
//! with all it holds wherever it is an operand, an argument or assigned: the allocator notes when what a call holds could
//! not be copied once within its memory, and the next operation ends it. Should a native be missed, the allocator
//! calls [`abandon`] before a large allocation that passes twice the call's budget. An allocator may neither fail nor
//! unwind; but the call runs on a stack of its own, which is never run again. The request gets its budget error, and the
//! plugin is not called any more until it is saved again: each abandoned call costs what it held.

use super::limits::{Budget, ExceededLimit, ended};
use super::meter;
use crate::call;
use rhai::{Dynamic, Engine, EvalAltResult};
use valvehouse_core::executor;
use valvehouse_memory as memory;

/// The error of a call that was left behind.
pub(crate) fn abandoned(budget: Budget) -> Box<EvalAltResult> {
    ended(ExceededLimit::Memory(budget.memory))
}

/// Leaves the running call behind; returns if it runs where that cannot be done.
fn abandon() {
    meter::forget();
    call::forget();
    executor::abandon();
}

/// Makes an engine limit the budget of the thread it runs on.
pub(crate) fn limit(engine: &mut Engine) {
    memory::call_at_limits(meter::look_soon, abandon);
    engine.on_progress(|_| meter::tick().map(Dynamic::from));
}
