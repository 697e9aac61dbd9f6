//! The deletion of what is stored of one user.

use crate::error::StoreError;
use crate::kv::Kv;
use crate::record::{UserRecords, scope_of};
use crate::store::Store;

/// Deletes all that is stored of a user, and returns the numbers of what was there. The maps are those of the running
/// host, or loaded for this.
///
/// # Errors
/// Returns an error if the store fails. Calling it again deletes the rest.
pub async fn forget_user(store: &dyn Store, kv: &Kv, user: &str) -> Result<UserRecords, StoreError> {
    let entries = kv.clear_scope(&scope_of(user));
    kv.flush_all().await?;
    // Maps that are not written by themselves.
    let changes = kv.take_changes();
    if !changes.is_empty()
        && let Err(error) = store.kv_write(&changes).await
    {
        kv.give_back(&changes);
        return Err(error);
    }
    let records = store.forget_user(user).await?;
    Ok(UserRecords { entries: records.entries.max(entries), ..records })
}
