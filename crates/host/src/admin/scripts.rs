//! Scripts that operators write and delete.
//!
//! The steps are always the same: the text is compiled apart from the running plugins, the current text is
//! stored in the history, the file is replaced atomically, the change is recorded, and the host reloads.

use super::change::{FileChange, compile, file_of, keep, written_down};
use super::files::File;
use super::plugins::{Admin, known};
use super::rejection::AdminError;
use crate::plugin::{Plugin, State};
use crate::reload::compiler::aside;
use crate::reload::removed_plugin::adoptable;
use crate::snapshot::Snapshot;
use crate::writer::{CompiledText, ReloadLock};
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_core::text::is_id;
use valvehouse_dialect::crash::Quarantine;
use valvehouse_json::Json;
use valvehouse_script::{Code, Diagnostic, Kind, Script};
use valvehouse_store::{Action, Edit, FileEdit, SettingsEdit, now};

/// The precondition of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// No plugin with the id exists.
    Nothing,
    /// A plugin with the id exists.
    Something,
    /// A plugin whose file has this hash.
    Hash(String),
    /// Any state is accepted.
    Whatever,
}

impl Admin {
    /// Writes a text to a plugin's file, or creates the file.
    ///
    /// # Errors
    /// Returns a refusal if the text does not load, or if the file or the store cannot be written.
    pub async fn write(
        &self,
        kind: Kind,
        id: &str,
        text: &str,
        expected: ExpectedVersion,
        by: &str,
    ) -> Result<Arc<Snapshot>, AdminError> {
        let (id, text, by) = (id.to_owned(), text.to_owned(), by.to_owned());
        self.whole(id.clone(), async move |host| {
            // The text is compiled without the lock, so a slow compilation does not delay other changes.
            let writer = host.writer().await?;
            let (file, _) = place_of(&writer, &host.snapshot(), kind, &id, &expected)?;
            let job = writer.aside(|| writer.compile_job(kind, &file.path(), &text, None));
            drop(writer);
            let compiled = job.ok().map(CompiledText::of);

            let writer = host.writer().await?;
            let change = NewText { kind, id: &id, text: &text, expected: &expected, by: &by };
            write(&writer, &host.snapshot(), change, compiled).await.map(drop)
        })
        .await
    }

    /// Returns the problems that a text would have as the file of a plugin, which need not exist. Nothing is stored.
    ///
    /// # Errors
    /// Returns a refusal for an invalid id, and if the file or the store cannot be read.
    pub async fn check(&self, kind: Kind, id: &str, text: &str) -> Result<Vec<Diagnostic>, AdminError> {
        let writer = self.host.writer().await?;
        let (file, _) = place_of(&writer, &self.host.snapshot(), kind, id, &ExpectedVersion::Whatever)?;
        let job = writer.aside(|| writer.compile_job(kind, &file.path(), text, None));
        let stored = writer.stored_valves(id);
        drop(writer);
        Ok(match job.map(|job| aside(|| job.run())) {
            Err(problem) => vec![problem],
            Ok(Err(problems)) => problems,
            Ok(Ok(script)) => {
                let misfits = stored_must_fit(&script, &stored, text).err();
                script
                    .findings()
                    .into_iter()
                    .chain(misfits.into_iter().flat_map(|error| error.problems))
                    .collect()
            }
        })
    }

    /// Deletes a plugin's file together with its settings. A guard is deleted only if that is confirmed:
    /// without the confirmation, its absence would block every request.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin or an unconfirmed guard, and if the file or the store cannot
    /// be changed.
    pub async fn delete(&self, id: &str, confirmed: bool, by: &str) -> Result<Arc<Snapshot>, AdminError> {
        let (id, by) = (id.to_owned(), by.to_owned());
        self.whole(id.clone(), async move |host| {
            let writer = host.writer().await?;
            let snapshot = host.snapshot();
            let plugin = known(&snapshot, &id)?;
            delete(&writer, plugin, confirmed, &by).await?;
            drop(writer);
            if plugin.security {
                // The first scan reports the guard as missing; its confirmed removal takes effect in the next
                // one.
                host.reload().await;
            }
            Ok(())
        })
        .await
    }

    /// Confirms the removal of a guard whose file is missing.
    ///
    /// # Errors
    /// Returns a refusal if no guard of this id is missing, and if the store cannot be written.
    pub async fn confirm_removal(&self, id: &str, by: &str) -> Result<Arc<Snapshot>, AdminError> {
        let snapshot = self.host.snapshot();
        let plugin = known(&snapshot, id)?;
        if plugin.state != State::Missing {
            let message = format!("cannot accept the removal of `{id}`: {} exists", plugin.path.display());
            return Err(AdminError::conflict(message, "not_missing"));
        }
        self.host.store().confirm_removal(id, by).await?;
        Ok(self.host.reload_with(id).await)
    }

    /// Confirms the pending change of a guard: a weakening, or the removal of its file.
    ///
    /// # Errors
    /// Returns a refusal if no change is pending, and if the store cannot be written.
    pub async fn confirm(&self, id: &str, by: &str) -> Result<Arc<Snapshot>, AdminError> {
        let snapshot = self.host.snapshot();
        let plugin = known(&snapshot, id)?;
        if plugin.state == State::Missing {
            return self.confirm_removal(id, by).await;
        }
        let Some(pending) = &plugin.pending else {
            let message = format!("cannot confirm a change of `{id}`: none is pending");
            return Err(AdminError::conflict(message, "nothing_pending"));
        };
        self.host.store().confirm(id, pending, by).await?;
        Ok(self.host.reload_with(id).await)
    }

    /// Releases the versions of a plugin that are quarantined after a crash.
    ///
    /// # Errors
    /// Returns a refusal if no version of the plugin is quarantined, and if the store cannot be written.
    pub async fn release(&self, id: &str, by: &str) -> Result<Arc<Snapshot>, AdminError> {
        let snapshot = self.host.snapshot();
        known(&snapshot, id)?;
        let (project, plugin) = (snapshot.plan().project.clone(), id.to_owned());
        let released = tokio::task::spawn_blocking(move || Quarantine::release(&project, &plugin)).await;
        let released = released.map_err(std::io::Error::other).and_then(|released| released);
        let released = released.map_err(|error| Error::Host(format!("cannot release `{id}`: {error}")))?;
        if released == 0 {
            let message = format!("cannot release `{id}`: none of its versions is quarantined");
            return Err(AdminError::conflict(message, "not_quarantined"));
        }
        tracing::info!(plugin = id, by, "released from quarantine");
        Ok(self.host.reload_with(id).await)
    }

    /// Assigns a plugin the stored data of a removed one with its id, or deletes that data.
    ///
    /// # Errors
    /// Returns a conflict if nothing is set aside.
    pub async fn adopt(&self, id: &str, drop: bool, by: &str) -> Result<Arc<Snapshot>, AdminError> {
        let snapshot = self.host.snapshot();
        let plugin = known(&snapshot, id)?;
        let text = plugin.script.as_ref().map(|script| script.file.text.to_string());
        let store = self.host.store();
        let Some(number) = adoptable(store, id, &text.unwrap_or_default()).await? else {
            let message = format!("cannot adopt stored data for `{id}`: none is set aside");
            return Err(AdminError::conflict(message, "nothing_set_aside"));
        };
        match drop {
            false => store.adopt(id, number, by).await?,
            true => store.drop_aside(id, number, by).await?,
        };
        Ok(self.host.reload().await)
    }
}

/// A new text for a plugin.
struct NewText<'a> {
    kind: Kind,
    id: &'a str,
    text: &'a str,
    expected: &'a ExpectedVersion,
    by: &'a str,
}

async fn write(
    writer: &ReloadLock<'_>,
    snapshot: &Snapshot,
    change: NewText<'_>,
    compiled: Option<CompiledText>,
) -> Result<u64, AdminError> {
    let NewText { kind, id, text, expected, by } = change;
    let (file, before) = place_of(writer, snapshot, kind, id, expected)?;
    let script = compile(writer, kind, &file, text, None, compiled)?;
    stored_must_fit(&script, &writer.stored_valves(id), text)?;
    let action = if snapshot.plugins.contains_key(id) { Action::Update } else { Action::Create };
    FileChange { id, kind, file, text, before, settings: None, action, by }.put(writer).await
}

/// Returns the file of a plugin and its current text, or an error if it differs from the expected version.
fn place_of(
    writer: &ReloadLock<'_>,
    snapshot: &Snapshot,
    kind: Kind,
    id: &str,
    expected: &ExpectedVersion,
) -> Result<(File, Option<String>), AdminError> {
    if !is_id(id) {
        let message = format!(
            "invalid id `{}`: expected 1 to 64 characters of a-z, 0-9, `_` and `-`",
            id.escape_debug()
        );
        return Err(AdminError::invalid(message, "id"));
    }
    if id.starts_with('_') {
        let message = format!("invalid id `{id}`: files that begin with `_` are modules; choose another id");
        return Err(AdminError::invalid(message, "id"));
    }
    let plugin = snapshot.plugins.get(id);
    if *expected != ExpectedVersion::Nothing && *expected != ExpectedVersion::Whatever {
        known(snapshot, id)?;
    }
    let file = file_of(writer, plugin.map(|plugin| &**plugin), kind, id, None)?;
    let before = writer.aside(|| file.text())?;
    match expected {
        ExpectedVersion::Nothing if plugin.is_some() || before.is_some() => {
            let why = match before {
                Some(_) => format!("{} exists", file.path().display()),
                None => "its file is missing; update it, restore a version, or accept its removal".to_owned(),
            };
            let message = format!("the id `{id}` is taken: {why}");
            return Err(AdminError::conflict(message, "id_taken"));
        }
        ExpectedVersion::Hash(hash)
            if before.as_deref().map(valvehouse_store::hash).as_ref() != Some(hash) =>
        {
            let message = format!(
                "cannot change `{id}`: it has changed since it was read; read it again and repeat the change"
            );
            return Err(AdminError::conflict(message, "changed_meanwhile"));
        }
        _ => {}
    }
    Ok((file, before))
}

async fn delete(
    writer: &ReloadLock<'_>,
    plugin: &Plugin,
    confirmed: bool,
    by: &str,
) -> Result<u64, AdminError> {
    let id = &*plugin.id;
    if plugin.security && !confirmed {
        let message = format!(
            "cannot delete `{id}`: it is a guard, and without its file every request would be refused; to delete it anyway, add ?confirm=true"
        );
        return Err(AdminError::conflict(message, "guard"));
    }
    let file = file_of(writer, Some(plugin), plugin.kind, id, None)?;
    let before = writer.aside(|| file.text())?;
    keep(writer, plugin.kind, id, &file, before.as_deref()).await?;
    let since = now();
    writer.aside(|| file.remove())?;
    let nothing = Json::object();
    let settings = Some(SettingsEdit { valves: &nothing, enabled: None, global: None, audit: None });
    let edit = Edit { plugin: id, by, action: Action::Delete, since, file: FileEdit::Goes, settings };
    written_down(writer, &edit, &file, before.as_deref()).await
}

/// Returns an error if a stored value does not fit the valves that the script declares: a new version must
/// not discard settings silently.
fn stored_must_fit(script: &Script, stored: &Json, text: &str) -> Result<(), AdminError> {
    let (id, path) = (script.id(), &script.file.path);
    let declared = script.manifest.valves.fields().iter();
    let misfits = declared.filter_map(|field| {
        let value = stored.get(&field.name).filter(|value| !value.is_null())?;
        let error = script.manifest.valves.check(&field.name, &value).err()?;
        let problem = Diagnostic::new(Code::ValveMisfit, id, path, format!("the stored {error}"))
            .at_word(text, &field.name);
        Some(problem.help(format!("reset it first: valvehouse valves reset {id} {}", field.name)))
    });
    let misfits: Vec<Diagnostic> = misfits.collect();
    if misfits.is_empty() {
        Ok(())
    } else {
        Err(AdminError::unfit("the stored valves do not fit the script", misfits))
    }
}
