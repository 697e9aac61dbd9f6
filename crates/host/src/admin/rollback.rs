//! Rollback to a version: its file, valves and switches, in one step.

use super::change::{FileChange, compile, file_of};
use super::plugins::Admin;
use super::rejection::AdminError;
use super::versions::find;
use crate::snapshot::Snapshot;
use crate::writer::ReloadLock;
use std::sync::Arc;
use valvehouse_script::Kind;
use valvehouse_store::{Action, SettingsEdit, Version};

impl Admin {
    /// Restores a version: file, valves and switches. The plugin may have been deleted.
    ///
    /// # Errors
    /// Returns a refusal for an unknown version, and if its file or the store cannot be written.
    pub async fn rollback(&self, id: &str, version: u64, by: &str) -> Result<Arc<Snapshot>, AdminError> {
        let (id, by) = (id.to_owned(), by.to_owned());
        self.whole(id.clone(), async move |host| {
            let writer = host.writer().await?;
            rollback(&writer, &host.snapshot(), &id, version, &by).await.map(drop)
        })
        .await
    }
}

/// Restores a version and returns the new generation of the store. The snapshot provides the plugin's current
/// file.
///
/// # Errors
/// Returns a refusal for an unknown version, and if its file or the store cannot be written.
pub async fn rollback(
    writer: &ReloadLock<'_>,
    snapshot: &Snapshot,
    id: &str,
    number: u64,
    by: &str,
) -> Result<u64, AdminError> {
    let versions = writer.store().history(id).await?;
    let version = find(id, &versions, number)?;
    let text = text_of(writer, id, version).await?;
    let kind = Kind::from_name(&version.kind).unwrap_or(Kind::Filter);
    let plugin = snapshot.plugins.get(id).map(|plugin| &**plugin);
    let file = file_of(writer, plugin, kind, id, Some(&version.place))?;
    let before = writer.aside(|| file.text())?;
    compile(writer, kind, &file, &text, Some(&version.valves), None)?;
    let Version { valves, enabled, global, audit, .. } = version;
    let settings = Some(SettingsEdit { valves, enabled: *enabled, global: *global, audit: *audit });
    FileChange { id, kind, file, text: &text, before, settings, action: Action::Rollback, by }
        .put(writer)
        .await
}

async fn text_of(writer: &ReloadLock<'_>, id: &str, version: &Version) -> Result<String, AdminError> {
    let number = version.number;
    let cannot = |why: &str| {
        let message = format!("cannot restore version {number} of `{id}`: {why}");
        AdminError::conflict(message, "not_to_be_put_back")
    };
    if version.valves.is_null() {
        return Err(cannot("its stored valves can no longer be read"));
    }
    let Some(hash) = &version.hash else {
        return Err(cannot("it is the deletion of the file; delete the file, or name an earlier version"));
    };
    writer.store().source(hash).await?.ok_or_else(|| cannot("its text is no longer stored"))
}
