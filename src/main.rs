//! The `valvehouse` binary.

use std::time::Duration;
use valvehouse::cli::{self, Exit};
use valvehouse::executor::STACK;

#[global_allocator]
static ALLOCATOR: valvehouse::memory::CountingAllocator = valvehouse::memory::CountingAllocator::new();

/// The time for which a thread may hold up the end: one that waits for a terminal would for ever.
const PATIENCE: Duration = Duration::from_millis(200);

fn main() -> Exit {
    valvehouse::memory::in_small_pages();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .on_thread_park(valvehouse::memory::give_back_pages)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start threads: {error}");
            return Exit::Internal;
        }
    };
    // As a task, so that it runs on a thread with such a stack too.
    let command = runtime.spawn(cli::run(std::env::args_os().collect()));
    // A panic has been told where it happened.
    let exit = runtime.block_on(command).unwrap_or(Exit::Internal);
    runtime.shutdown_timeout(PATIENCE);
    exit
}
