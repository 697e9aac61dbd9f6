//! Versions put back: file, valves and switches in one step.

use super::Refused;
use super::scripts::{Put, compile, file_of};
use crate::{Snapshot, Writer};
use valvehouse_script::Kind;
use valvehouse_store::{Action, SettingsEdit, Version};

/// Puts a version back and answers the generation of the store. The snapshot says where the plugin's file
/// is now.
pub async fn rollback(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    id: &str,
    number: u64,
    by: &str,
) -> Result<u64, Refused> {
    let versions = writer.store().history(id).await?;
    let version = super::versions::find(id, &versions, number)?;
    let text = text_of(writer, id, version).await?;
    let kind = if version.kind == Kind::Tool.word() { Kind::Tool } else { Kind::Filter };
    let plugin = snapshot.plugins.get(id).map(|plugin| &**plugin);
    let file = file_of(writer, plugin, kind, id, Some(&version.place))?;
    let before = writer.aside(|| file.text())?;
    compile(writer, kind, &file, &text, Some(&version.valves))?;
    let settings =
        Some(SettingsEdit { valves: &version.valves, enabled: version.enabled, global: version.global });
    Put { id, kind, file, text: &text, before, settings, action: Action::Rollback, by }.put(writer).await
}

async fn text_of(writer: &Writer<'_>, id: &str, version: &Version) -> Result<String, Refused> {
    let number = version.number;
    let cannot = |why: &str| {
        let message = format!("version {number} of `{id}` cannot be put back: {why}");
        Refused::conflict(message, "not_to_be_put_back")
    };
    if version.valves.is_null() {
        return Err(cannot("what was set then cannot be read any more"));
    }
    let Some(hash) = &version.hash else {
        return Err(cannot("it is the one in which the file was deleted; delete it, or name an earlier one"));
    };
    writer.store().source(hash).await?.ok_or_else(|| cannot("its text is not kept any more"))
}
