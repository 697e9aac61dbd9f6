//! Reads archives and PDF files while a script waits.

use super::argument::{RhaiResultOf, fail, running};
use super::output::check_text;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use valvehouse_dialect::budget::{self, processor_time};
use valvehouse_documents::DocumentKind;

/// The maximum number of documents that are read at the same time; others wait. Each may need 100 MB.
const READ_AT_ONCE: usize = 3;

fn reading() -> Arc<Semaphore> {
    static READING: OnceLock<Arc<Semaphore>> = OnceLock::new();
    READING.get_or_init(|| Arc::new(Semaphore::new(READ_AT_ONCE))).clone()
}

/// Returns the text of an archive or a PDF file. It is read on a separate thread while the script waits, and its
/// processor time counts as that of the script.
pub(super) fn text(function: &str, kind: DocumentKind, bytes: &[u8]) -> RhaiResultOf<String> {
    let call = running(function)?;
    budget::reserve(bytes.len()).map_err(budget::ended)?;
    let (bytes, limit) = (bytes.to_vec(), budget::time_limit());
    // The reading stops when the wait ends for any reason.
    let waiting = Arc::new(());
    let is_over = Arc::downgrade(&waiting);
    let read_next = reading();
    let work = move |_permit: OwnedSemaphorePermit| {
        let began = processor_time();
        let spent = || began.and_then(|began| Some(processor_time()?.saturating_sub(began)));
        let is_stopped = || is_over.strong_count() == 0 || spent().is_some_and(|spent| spent > limit);
        let read = kind.text(&bytes, &is_stopped);
        (read, spent().unwrap_or(Duration::ZERO))
    };
    let done = budget::wait(&call.turn, async {
        let permit = read_next.acquire_owned().await.map_err(|error| error.to_string())?;
        tokio::task::spawn_blocking(move || work(permit)).await.map_err(|error| error.to_string())
    });
    drop(waiting);
    let (read, spent) =
        done?.map_err(|error| fail(function, format!("the operation was stopped: {error}")))?;
    budget::spend(spent).map_err(budget::ended)?;
    let text = read.map_err(|error| fail(function, error))?;
    check_text(function, text.len())?;
    Ok(text)
}
