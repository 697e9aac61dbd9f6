//! Deletion of a user's records.

use crate::error::StoreError;
use crate::kv::Kv;
use crate::record::{UserRecords, scope_of, scope_of_chat, scopes_of_chats};
use crate::store::Store;
use std::collections::HashSet;

/// Deletes all records of a user, and returns their numbers. `kv` has the maps of the running host, or maps
/// loaded for this call.
///
/// # Errors
/// Returns an error if the store fails. Calling it again deletes the rest.
pub async fn forget_user(store: &Store, kv: &Kv, user: &str) -> Result<UserRecords, StoreError> {
    let chats = store.user_chats(user).await?;
    let scopes = std::iter::once(scope_of(user));
    let scopes: HashSet<String> =
        scopes.chain(chats.iter().map(|chat| scope_of_chat(&chat.id, None))).collect();
    let own_chats = scopes_of_chats(user);
    let entries = kv.clear_scopes(|scope| scopes.contains(scope) || scope.starts_with(&own_chats));
    kv.flush_all().await?;
    // Maps without a write function do not write themselves.
    let changes = kv.take_changes();
    if !changes.is_empty()
        && let Err(error) = store.kv_write(&changes).await
    {
        kv.give_back(&changes);
        return Err(error);
    }
    let records = store.forget_user(user, &chats).await?;
    Ok(UserRecords { entries: records.entries.max(entries), ..records })
}
