//! Changes of a plugin's file: the current text is stored in the history, the file is replaced atomically,
//! and the change is recorded.

use super::files::File;
use super::rejection::AdminError;
use crate::builtin::is_guarded;
use crate::plugin::Plugin;
use crate::writer::{CompiledText, ReloadLock};
use valvehouse_config::ScriptSource;
use valvehouse_json::Json;
use valvehouse_script::{Kind, Script};
use valvehouse_store::{Action, Edit, FileEdit, SeenFile, SettingsEdit, Source, now};

/// Returns the file of a plugin: its current file, its former file, or the place of a new one.
pub(super) fn file_of(
    writer: &ReloadLock<'_>,
    plugin: Option<&Plugin>,
    kind: Kind,
    id: &str,
    was: Option<&str>,
) -> Result<File, AdminError> {
    let plan = writer.plan();
    if plan.source == ScriptSource::Store {
        let message = format!(
            "cannot change the file of `{id}`: scripts come from the store; change it in their folder, and run: valvehouse apply"
        );
        return Err(AdminError::conflict(message, "scripts_in_store"));
    }
    let owner = match plugin {
        _ if is_guarded(id) => Some("tool of the host"),
        Some(plugin) if plugin.kind != kind => Some(plugin.kind.as_str()),
        _ => None,
    };
    if let Some(owner) = owner {
        let message = format!(
            "the id `{id}` is taken by a {owner}: filters, tools and actions share one set of ids; choose another id"
        );
        return Err(AdminError::conflict(message, "id_taken"));
    }
    let place = match plugin {
        Some(plugin) => plan.place(kind, &plugin.path),
        None => was.map_or_else(|| format!("{id}.rhai"), str::to_owned),
    };
    Ok(File::new(plan.folder(kind), &place))
}

/// Compiles a text for a file, unless it was compiled before the lock was taken.
pub(super) fn compile(
    writer: &ReloadLock<'_>,
    kind: Kind,
    file: &File,
    text: &str,
    valves: Option<&Json>,
    before: Option<CompiledText>,
) -> Result<Script, AdminError> {
    let compiled = writer.compile(kind, &file.path(), text, valves, before);
    compiled.map_err(|problems| AdminError::unfit("the script does not load", problems))
}

/// A new text for a plugin's file.
pub(super) struct FileChange<'a> {
    pub(super) id: &'a str,
    pub(super) kind: Kind,
    pub(super) file: File,
    pub(super) text: &'a str,
    /// The current text of the file.
    pub(super) before: Option<String>,
    pub(super) settings: Option<SettingsEdit<'a>>,
    pub(super) action: Action,
    pub(super) by: &'a str,
}

impl FileChange<'_> {
    pub(super) async fn put(self, writer: &ReloadLock<'_>) -> Result<u64, AdminError> {
        let Self { id, kind, file, text, before, settings, action, by } = self;
        keep(writer, kind, id, &file, before.as_deref()).await?;
        let since = now();
        if before.as_deref() != Some(text) {
            writer.aside(|| file.write(text))?;
        }
        let source = Source::new(kind.as_str(), writer.plan().place(kind, &file.path()), text);
        let edit = Edit { plugin: id, by, action, since, file: FileEdit::Becomes(&source), settings };
        written_down(writer, &edit, &file, before.as_deref()).await
    }
}

/// Stores the current text of a file in the history before it is replaced, so that a text saved a moment ago
/// is not lost.
pub(super) async fn keep(
    writer: &ReloadLock<'_>,
    kind: Kind,
    id: &str,
    file: &File,
    text: Option<&str>,
) -> Result<(), AdminError> {
    let Some(text) = text else { return Ok(()) };
    let source = Source::new(kind.as_str(), writer.plan().place(kind, &file.path()), text);
    // The far future as the time disables the check against later changes: a surplus version is better than a
    // lost text.
    let seen = SeenFile { plugin: id.to_owned(), source: Some(source), at: i64::MAX };
    writer.store().record(&[seen]).await?;
    Ok(())
}

/// Records a change; if that fails, the file is restored.
pub(super) async fn written_down(
    writer: &ReloadLock<'_>,
    edit: &Edit<'_>,
    file: &File,
    before: Option<&str>,
) -> Result<u64, AdminError> {
    let error = match writer.store().edit(edit).await {
        Ok(generation) => return Ok(generation),
        Err(error) => error,
    };
    let undone = writer.aside(|| match before {
        Some(before) => file.write(before),
        None => file.remove(),
    });
    if let Err(refused) = undone {
        let path = file.path();
        tracing::error!(
            "cannot undo the change of {}, which is not recorded in the store: {refused}",
            path.display()
        );
    }
    Err(error.into())
}
