//! Enforces budgets through hooks in the engine and in the allocator.
//!
//! The meter checks between operations, and natives of this crate reserve their memory in advance. Rhai itself
//! copies an array or map with all its content wherever it is an operand, an argument or assigned: when a copy of
//! everything a call holds would no longer fit its memory, the allocator records it, and the next operation ends
//! the call.
//!
//! If a native allocates far more without a check, the allocator calls [`abandon`] before a large allocation that
//! exceeds the ceiling that the meter sets. An allocator must neither fail nor unwind, but the call runs on its own
//! stack, which is never resumed. The request receives its budget error, and the plugin is not called again until
//! it is saved again. An abandoned call leaks the memory it held.

use super::limits::{Budget, ExceededLimit, ended};
use super::meter;
use crate::call;
use rhai::{Dynamic, Engine, EvalAltResult};
use valvehouse_executor as executor;
use valvehouse_memory as memory;

/// Returns the error of an abandoned call.
pub fn abandoned(budget: Budget) -> Box<EvalAltResult> {
    ended(ExceededLimit::Memory(budget.memory))
}

/// Abandons the running call. Returns only if the call runs where this is impossible.
fn abandon() {
    meter::forget();
    call::forget();
    executor::abandon();
}

/// Makes an engine enforce the budget of the thread it runs on.
pub fn limit(engine: &mut Engine) {
    memory::call_at_limits(meter::look_soon, abandon);
    engine.on_progress(|_| meter::tick().map(Dynamic::from));
}
