//! Parallel work on many items during the start.

use std::num::NonZero;
use std::thread::{Builder, ScopedJoinHandle, available_parallelism};
use valvehouse_executor::STACK;

/// The minimum number of items per thread.
const MIN_PART: usize = 64;

/// Returns the results in the order of the items. Many items are distributed over all processors.
pub(super) fn each<T: Sync, U: Send>(all: &[T], work: impl Fn(&T) -> U + Sync) -> Vec<U> {
    let processors = available_parallelism().map_or(1, NonZero::get);
    let parts = processors.min(all.len() / MIN_PART).max(1);
    let through = |part: &[T]| part.iter().map(&work).collect::<Vec<U>>();
    let (own, others) = all.split_at(all.len() / parts);
    std::thread::scope(|scope| {
        let begin = |part| {
            let begun = Builder::new().stack_size(STACK).spawn_scoped(scope, move || through(part));
            // This thread does the work if no other can be started.
            begun.map_err(|_| part)
        };
        let size = others.len().div_ceil((parts - 1).max(1)).max(1);
        let begun: Vec<Result<ScopedJoinHandle<'_, _>, &[T]>> = others.chunks(size).map(begin).collect();
        let mut done = through(own);
        for part in begun {
            done.extend(match part {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(part) => through(part),
            });
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_results_keep_their_order() {
        for count in [0, 1, 63, 64, 127, 128, 1_000] {
            let all: Vec<usize> = (0..count).collect();
            assert_eq!(each(&all, |one| one * 2), all.iter().map(|one| one * 2).collect::<Vec<_>>());
        }
    }
}
