//! Scripts written, deleted and put back by operators.
//!
//! The order is always the same: the text is compiled beside the running set; what it takes the place of is
//! in the history; the file is written whole; the change is written down; the host reloads.

use super::files::File;
use super::{Admin, Refused, known, rollback};
use crate::{Host, Plugin, Snapshot, Writer, adoptable};
use std::sync::Arc;
use valvehouse_core::fault::Fault;
use valvehouse_core::words::is_id;
use valvehouse_json::Json;
use valvehouse_script::crash::Quarantine;
use valvehouse_script::{Code, Kind, Problem, Script};
use valvehouse_store::{Action, Edit, FileEdit, Seen, SettingsEdit, Source, now};

/// What has to be there for a change to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// No plugin of that id.
    Nothing,
    /// A plugin of that id.
    Something,
    /// A plugin whose file has this hash.
    Hash(String),
    /// It does not matter.
    Whatever,
}

impl Admin {
    /// Puts a text into a plugin's file: a new one where there is none. Refused when it would not load.
    pub async fn write(
        &self,
        kind: Kind,
        id: &str,
        text: &str,
        expected: Expected,
        by: &str,
    ) -> Result<Arc<Snapshot>, Refused> {
        let (id, text, by) = (id.to_owned(), text.to_owned(), by.to_owned());
        self.whole(id.clone(), async move |host| {
            let writer = host.writer().await?;
            write(&writer, &host.snapshot(), kind, &id, &text, &expected, &by).await.map(drop)
        })
        .await
    }

    /// Takes a plugin's file away, with what operators set for it. A guard goes only when that is confirmed:
    /// otherwise every request would be refused for its lack.
    pub async fn delete(&self, id: &str, confirmed: bool, by: &str) -> Result<Arc<Snapshot>, Refused> {
        let (id, by) = (id.to_owned(), by.to_owned());
        self.whole(id.clone(), async move |host| {
            let writer = host.writer().await?;
            let snapshot = host.snapshot();
            let plugin = known(&snapshot, &id)?;
            delete(&writer, plugin, confirmed, &by).await?;
            drop(writer);
            if plugin.security {
                // A guard is missed by one look, and may be gone for the next.
                host.reload().await;
            }
            Ok(())
        })
        .await
    }

    /// Lets a guard go whose file is gone.
    pub async fn confirm_removal(&self, id: &str, by: &str) -> Result<Arc<Snapshot>, Refused> {
        let snapshot = self.host.snapshot();
        let plugin = known(&snapshot, id)?;
        if plugin.state != crate::State::Missing {
            let message = format!("`{id}` is not missing: {} is there", plugin.path.display());
            return Err(Refused::conflict(message, "not_missing"));
        }
        self.host.store().confirm_removal(id, by).await?;
        Ok(self.host.reload_with(id).await)
    }

    /// Confirms what a guard waits for: a change that weakens it, or that its file is gone.
    pub async fn confirm(&self, id: &str, by: &str) -> Result<Arc<Snapshot>, Refused> {
        let snapshot = self.host.snapshot();
        let plugin = known(&snapshot, id)?;
        if plugin.state == crate::State::Missing {
            return self.confirm_removal(id, by).await;
        }
        let Some(pending) = &plugin.pending else {
            let message = format!("nothing of `{id}` waits to be confirmed");
            return Err(Refused::conflict(message, "nothing_pending"));
        };
        self.host.store().confirm(id, pending, by).await?;
        Ok(self.host.reload_with(id).await)
    }

    /// Releases the versions of a plugin that are quarantined after a crash.
    pub async fn release(&self, id: &str, by: &str) -> Result<Arc<Snapshot>, Refused> {
        let snapshot = self.host.snapshot();
        known(&snapshot, id)?;
        let (project, plugin) = (snapshot.plan().project.clone(), id.to_owned());
        let released = tokio::task::spawn_blocking(move || Quarantine::release(&project, &plugin)).await;
        let released = released.map_err(std::io::Error::other).and_then(|released| released);
        let released = released.map_err(|error| Fault::Host(format!("cannot release `{id}`: {error}")))?;
        if released == 0 {
            let message = format!("cannot release `{id}`: none of its versions is quarantined");
            return Err(Refused::conflict(message, "not_quarantined"));
        }
        tracing::info!(plugin = id, by, "released from quarantine");
        Ok(self.host.reload_with(id).await)
    }

    /// Gives a plugin what was stored for a removed one of its id; or drops that.
    ///
    /// # Errors
    /// Returns a conflict if nothing is set aside.
    pub async fn adopt(&self, id: &str, drop: bool, by: &str) -> Result<Arc<Snapshot>, Refused> {
        let snapshot = self.host.snapshot();
        let plugin = known(&snapshot, id)?;
        let text = plugin.script.as_ref().map(|script| script.file.text.to_string());
        let store = self.host.store();
        let Some(number) = adoptable(&**store, id, &text.unwrap_or_default()).await? else {
            let message = format!("nothing is set aside for `{id}`");
            return Err(Refused::conflict(message, "nothing_set_aside"));
        };
        match drop {
            false => store.adopt(id, number, by).await?,
            true => store.drop_aside(id, number, by).await?,
        };
        Ok(self.host.reload().await)
    }

    /// Puts a version back: file, valves and switches as they were then. Brings back what was deleted.
    pub async fn rollback(&self, id: &str, version: u64, by: &str) -> Result<Arc<Snapshot>, Refused> {
        let (id, by) = (id.to_owned(), by.to_owned());
        self.whole(id.clone(), async move |host| {
            let writer = host.writer().await?;
            rollback(&writer, &host.snapshot(), &id, version, &by).await.map(drop)
        })
        .await
    }

    /// Makes a change to its end, also when whoever asked for it goes away meanwhile; and makes it live.
    async fn whole<F>(
        &self,
        id: String,
        change: impl FnOnce(Arc<Host>) -> F,
    ) -> Result<Arc<Snapshot>, Refused>
    where
        F: Future<Output = Result<(), Refused>> + Send + 'static,
    {
        let (host, changing) = (self.host.clone(), change(self.host.clone()));
        let task = tokio::spawn(async move {
            changing.await?;
            Ok(host.reload_with(&id).await)
        });
        task.await
            .unwrap_or_else(|error| Err(Fault::Host(format!("a change was broken off: {error}")).into()))
    }
}

async fn write(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    kind: Kind,
    id: &str,
    text: &str,
    expected: &Expected,
    by: &str,
) -> Result<u64, Refused> {
    if !is_id(id) {
        let message = format!(
            "`{}` cannot be an id: use a-z, 0-9, `_` and `-` only, at most 64 of them",
            id.escape_debug()
        );
        return Err(Refused::invalid(message, "id"));
    }
    if id.starts_with('_') {
        let message =
            format!("`{id}` cannot be an id: files that begin with `_` are modules; choose another id");
        return Err(Refused::invalid(message, "id"));
    }
    let plugin = snapshot.plugins.get(id);
    if *expected != Expected::Nothing && *expected != Expected::Whatever {
        known(snapshot, id)?;
    }
    let file = file_of(writer, plugin.map(|plugin| &**plugin), kind, id, None)?;
    let before = writer.aside(|| file.text())?;
    match expected {
        Expected::Nothing if plugin.is_some() || before.is_some() => {
            let why = match before {
                Some(_) => format!("{} is there", file.path().display()),
                None => {
                    "its file is missed; update it, put a version back, or confirm its removal".to_owned()
                }
            };
            let message = format!("the id `{id}` is taken: {why}");
            return Err(Refused::conflict(message, "id_taken"));
        }
        Expected::Hash(hash) if before.as_deref().map(valvehouse_store::hash).as_ref() != Some(hash) => {
            let message = format!("`{id}` was changed meanwhile: look at it again and repeat the change");
            return Err(Refused::conflict(message, "changed_meanwhile"));
        }
        _ => {}
    }
    let script = compile(writer, kind, &file, text, None)?;
    stored_must_fit(&script, &writer.stored_valves(id), text)?;
    let action = if plugin.is_some() { Action::Update } else { Action::Create };
    Put { id, kind, file, text, before, settings: None, action, by }.put(writer).await
}

async fn delete(writer: &Writer<'_>, plugin: &Plugin, confirmed: bool, by: &str) -> Result<u64, Refused> {
    let id = &*plugin.id;
    if plugin.security && !confirmed {
        let message = format!(
            "`{id}` is a guard: without its file every request would be refused; say that it may go with ?confirm=true"
        );
        return Err(Refused::conflict(message, "guard"));
    }
    let file = file_of(writer, Some(plugin), plugin.kind, id, None)?;
    let before = writer.aside(|| file.text())?;
    keep(writer, plugin.kind, id, &file, before.as_deref()).await?;
    let since = now();
    writer.aside(|| file.remove())?;
    let nothing = Json::object();
    let settings = Some(SettingsEdit { valves: &nothing, enabled: None, global: None });
    let edit = Edit { plugin: id, by, action: Action::Delete, since, file: FileEdit::Goes, settings };
    written_down(writer, &edit, &file, before.as_deref()).await
}

/// The file of a plugin: where it is, where it was, or where a new one goes.
pub(super) fn file_of(
    writer: &Writer<'_>,
    plugin: Option<&Plugin>,
    kind: Kind,
    id: &str,
    was: Option<&str>,
) -> Result<File, Refused> {
    let plan = writer.plan();
    let place = match plugin {
        Some(plugin) if plugin.kind != kind => {
            let message = format!("`{id}` is the id of a {}: ids are one space", plugin.kind.word());
            return Err(Refused::conflict(message, "id_taken"));
        }
        Some(plugin) => plan.place(kind, &plugin.path),
        None => was.map_or_else(|| format!("{id}.rhai"), str::to_owned),
    };
    Ok(File::new(plan.folder(kind), &place))
}

pub(super) fn compile(
    writer: &Writer<'_>,
    kind: Kind,
    file: &File,
    text: &str,
    valves: Option<&Json>,
) -> Result<Script, Refused> {
    let compiled = writer.compile(kind, &file.path(), text, valves);
    compiled.map_err(|problems| Refused::unfit("the script does not load", problems))
}

/// What operators have set has to fit what is declared now: a new version must not undo it in silence.
fn stored_must_fit(script: &Script, stored: &Json, text: &str) -> Result<(), Refused> {
    let (id, path) = (script.id(), &script.file.path);
    let declared = script.manifest.valves.fields().iter();
    let misfits = declared.filter_map(|field| {
        let value = stored.get(&field.name).filter(|value| !value.is_null())?;
        let error = script.manifest.valves.check(&field.name, &value).err()?;
        let problem = Problem::new(Code::ValveMisfit, id, path, format!("the stored {error}"))
            .at_word(text, &field.name);
        Some(problem.help(format!("put it back first: valvehouse valves reset {id} {}", field.name)))
    });
    let misfits: Vec<Problem> = misfits.collect();
    if misfits.is_empty() {
        Ok(())
    } else {
        Err(Refused::unfit("what is set does not fit the script", misfits))
    }
}

/// A text on its way into a file.
pub(super) struct Put<'a> {
    pub(super) id: &'a str,
    pub(super) kind: Kind,
    pub(super) file: File,
    pub(super) text: &'a str,
    /// What is in the file now.
    pub(super) before: Option<String>,
    pub(super) settings: Option<SettingsEdit<'a>>,
    pub(super) action: Action,
    pub(super) by: &'a str,
}

impl Put<'_> {
    pub(super) async fn put(self, writer: &Writer<'_>) -> Result<u64, Refused> {
        let Self { id, kind, file, text, before, settings, action, by } = self;
        keep(writer, kind, id, &file, before.as_deref()).await?;
        let since = now();
        if before.as_deref() != Some(text) {
            writer.aside(|| file.write(text))?;
        }
        let source = Source::new(kind.word(), writer.plan().place(kind, &file.path()), text);
        let edit = Edit { plugin: id, by, action, since, file: FileEdit::Becomes(&source), settings };
        written_down(writer, &edit, &file, before.as_deref()).await
    }
}

/// Writes down what was found in a file before something else takes its place: nothing is lost, also not
/// what somebody saved a moment ago.
async fn keep(
    writer: &Writer<'_>,
    kind: Kind,
    id: &str,
    file: &File,
    text: Option<&str>,
) -> Result<(), Refused> {
    let Some(text) = text else { return Ok(()) };
    let source = Source::new(kind.word(), writer.plan().place(kind, &file.path()), text);
    // Whatever was written down meanwhile: a version too many is better than a text that is gone.
    let seen = Seen { plugin: id.to_owned(), source: Some(source), at: i64::MAX };
    writer.store().record(&[seen]).await?;
    Ok(())
}

/// Writes a change down; where that fails the file becomes what it was.
async fn written_down(
    writer: &Writer<'_>,
    edit: &Edit<'_>,
    file: &File,
    before: Option<&str>,
) -> Result<u64, Refused> {
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
        tracing::error!("{} is changed and the change is not written down: {refused}", path.display());
    }
    Err(error.into())
}
