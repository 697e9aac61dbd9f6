//! The limit of what a caller stores.

use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::app::App;

/// Checks that a caller may store so many more bytes.
///
/// # Errors
/// Returns a request error with status 413 if the caller would exceed its limit, and the error of the store.
pub(super) async fn check_room(app: &App, owner: &str, more: usize) -> Result<(), Error> {
    let limit = app.config.server.max_stored_mb_each;
    let stored = app.host.store().stored_size(owner).await?;
    let stored = u64::try_from(stored).unwrap_or(0).saturating_add(more as u64);
    if stored <= limit.saturating_mul(1024 * 1024) {
        return Ok(());
    }
    Err(Error::Request {
        message: format!(
            "the stored responses and conversations of this caller exceeded their limit of {limit} MB ([server] max_stored_mb_each); delete some, or send `store: false`"
        ),
        param: Some("store"),
        code: Some("storage_full"),
        kind: RequestErrorKind::TooLarge,
    })
}
