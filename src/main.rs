//! The `valvehouse` binary.

use std::time::Duration;
use valvehouse::cli::{self, Exit};
use valvehouse::executor::STACK;

#[global_allocator]
static ALLOCATOR: valvehouse::memory::CountingAllocator = valvehouse::memory::CountingAllocator::new();

/// The time for which a blocked thread may delay the end; a thread that reads from a terminal would block
/// forever.
const TIMEOUT: Duration = Duration::from_millis(200);

fn main() -> Exit {
    cli::take_sockets();
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
    // A task runs on a thread with the configured stack size.
    let command = runtime.spawn(cli::run(std::env::args_os().collect()));
    // The panic was reported by its hook.
    let exit = runtime.block_on(command).unwrap_or(Exit::Internal);
    runtime.shutdown_timeout(TIMEOUT);
    exit
}
