//! Calls of Rust functions on tasks and threads of the runtime, whose timeout ends the wait for them.

use super::result::{ToolError, ToolResult};
use tokio::task::{JoinError, JoinHandle};

type Task = JoinHandle<Result<ToolResult, ToolError>>;

/// Runs a blocking function on a blocking thread.
pub(crate) async fn blocking(
    run: impl FnOnce() -> Result<ToolResult, ToolError> + Send + 'static,
) -> Result<ToolResult, ToolError> {
    let span = tracing::Span::current();
    answer_of(tokio::task::spawn_blocking(move || span.in_scope(run))).await
}

/// Waits for a task, which is aborted if the wait is dropped.
pub(super) async fn answer_of(task: Task) -> Result<ToolResult, ToolError> {
    let mut task = AbortOnDrop(task);
    (&mut task.0).await.unwrap_or_else(|error| Err(failed(error)))
}

struct AbortOnDrop(Task);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the error of a task without a result.
fn failed(error: JoinError) -> ToolError {
    match error.try_into_panic() {
        // The panic continues in the caller.
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => "the call was canceled: the runtime is shutting down".into(),
    }
}
