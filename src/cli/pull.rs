//! `valvehouse pull` and `valvehouse diff`: the scripts of the store compared with those of a folder.

use super::args;
use super::script_folder::{ScriptFolder, changes, stored};
use valvehouse_config::Config;
use valvehouse_core::text::count;
use valvehouse_host::admin;
use valvehouse_json::Json;
use valvehouse_os::{Folders, WriteMode};
use valvehouse_store as store;
use valvehouse_terminal::{CommandError, Console, Exit, clean};

pub(super) async fn run(args: &args::Pull, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let folder = ScriptFolder::of(args.folder.as_deref(), config);
    let store = store::open_to_read(&config.store).await?;
    let (set, files) = stored(&store, args.generation).await?;
    store.close().await;
    let here = folder.files()?;
    let changes = changes(&here, &files);
    let lost: Vec<&str> =
        changes.iter().filter(|(_, before, _)| before.is_some()).map(|(path, ..)| *path).collect();
    if !lost.is_empty() && !args.force {
        return Err(CommandError::data(format!(
            "cannot write the scripts of generation {}: the folder has different files; compare them with valvehouse diff, or replace them with --force:\n  {}",
            set.generation,
            lost.join("\n  ")
        )));
    }
    for (path, _, text) in &changes {
        let Some(place) = folder.place(path) else {
            return Err(CommandError::data(format!("cannot write {path}: it is not a path within a folder")));
        };
        write(&place, *text).map_err(|why| CommandError::data(format!("cannot write {path}: {why}")))?;
    }
    if out.is_json() {
        let written: Vec<Json> = changes.iter().map(|(path, ..)| (*path).into()).collect();
        out.json(&Json::from([("generation", set.generation.into()), ("changed", written.into())]))?;
    } else {
        let (all, changed) = (count(files.len(), "file"), count(changes.len(), "change"));
        out.line(&format!("the folder now has the {all} of generation {}: {changed}", set.generation))?;
    }
    Ok(Exit::Done)
}

/// Writes a file atomically, or removes it.
fn write(place: &std::path::Path, text: Option<&str>) -> Result<(), String> {
    let Some(text) = text else {
        return std::fs::remove_file(place).map_err(|error| error.to_string());
    };
    let folder = place.parent().ok_or("it has no folder")?;
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let folder = folder.canonicalize().map_err(|error| error.to_string())?;
    let name = place.file_name().ok_or("it has no name")?;
    let path = folder.join(name).display().to_string();
    let written = Folders::new(&[folder]).write(&path, text, WriteMode::default());
    written.map(drop).map_err(|failure| failure.message)
}

pub(super) async fn diff(args: &args::Diff, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let folder = ScriptFolder::existing(args.folder.as_deref(), config)?;
    let store = store::open_to_read(&config.store).await?;
    let (set, files) = stored(&store, args.generation).await?;
    store.close().await;
    let here = folder.files()?;
    let changes = changes(&files, &here);
    if out.is_json() {
        let changes = changes.iter().map(|(path, before, after)| {
            let what = if before.is_none() {
                "added"
            } else if after.is_none() {
                "removed"
            } else {
                "changed"
            };
            Json::from([("path", (*path).into()), ("change", what.into())])
        });
        let changes: Vec<Json> = changes.collect();
        out.json(&Json::from([("generation", set.generation.into()), ("changes", changes.into())]))?;
    } else {
        for (path, before, after) in &changes {
            let names = [
                before.map_or_else(
                    || "/dev/null".to_owned(),
                    |_| format!("generation {}/{path}", set.generation),
                ),
                after.map_or_else(|| "/dev/null".to_owned(), |_| format!("folder/{path}")),
            ];
            let names = names.each_ref().map(String::as_str);
            out.line(&clean(&admin::diff(before.unwrap_or(""), after.unwrap_or(""), names)))?;
        }
        let changes = count(changes.len(), "change");
        out.note(&format!("{changes} from generation {} to the folder", set.generation));
    }
    Ok(if changes.is_empty() { Exit::Done } else { Exit::Findings })
}
