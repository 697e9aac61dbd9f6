//! A text on its way into a plugin's file: what it replaces is in the history first, then the file is written whole
//! and the change recorded.

use super::files::File;
use super::rejection::AdminError;
use crate::plugin::Plugin;
use crate::writer::{CompiledText, ReloadLock};
use valvehouse_config::ScriptSource;
use valvehouse_json::Json;
use valvehouse_script::{Kind, Script};
use valvehouse_store::{Action, Edit, FileEdit, SeenFile, SettingsEdit, Source, now};

/// The file of a plugin: where it is, where it was, or where a new one goes.
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
    let place = match plugin {
        Some(plugin) if plugin.kind != kind => {
            let message = format!(
                "the id `{id}` is taken by a {}: filters and tools share one set of ids; choose another id",
                plugin.kind.as_str()
            );
            return Err(AdminError::conflict(message, "id_taken"));
        }
        Some(plugin) => plan.place(kind, &plugin.path),
        None => was.map_or_else(|| format!("{id}.rhai"), str::to_owned),
    };
    Ok(File::new(plan.folder(kind), &place))
}

/// Compiles a text for a file, unless it was compiled before the writer was held.
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

/// A text on its way into a file.
pub(super) struct FileChange<'a> {
    pub(super) id: &'a str,
    pub(super) kind: Kind,
    pub(super) file: File,
    pub(super) text: &'a str,
    /// The text in the file now.
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

/// Writes down what was found in a file before something else takes its place: nothing is lost, also not
/// a version that was saved a moment ago.
pub(super) async fn keep(
    writer: &ReloadLock<'_>,
    kind: Kind,
    id: &str,
    file: &File,
    text: Option<&str>,
) -> Result<(), AdminError> {
    let Some(text) = text else { return Ok(()) };
    let source = Source::new(kind.as_str(), writer.plan().place(kind, &file.path()), text);
    // This runs whatever was recorded meanwhile: a version too many is better than a text that is gone.
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
