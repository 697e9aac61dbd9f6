//! The command: creates files, and reports them.

use super::options::{NewKind, NewOptions};
use super::scaffold::{self, NewFile, ShippedFiles, kind_of, word};
use super::{examples, next_steps};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use valvehouse_config::{Config, read_regular};
use valvehouse_host::app;
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, FolderScan, Kind, LoadedFile, Loader, Script, is_id, read_file};
use valvehouse_terminal::{CommandError, Console, Exit, files, report};

/// Runs the parts that need no valid project: creating a project, and listing the shipped scripts.
pub fn without_project(
    options: &NewOptions,
    files: ShippedFiles,
    out: &Console,
) -> Option<Result<Exit, CommandError>> {
    if options.markdown {
        return Some(examples::print(files, out));
    }
    if options.only_lists() {
        return Some(examples::list(files, options.what, out));
    }
    (options.what == Some(NewKind::Project)).then(|| project(options, out))
}

fn project(options: &NewOptions, out: &Console) -> Result<Exit, CommandError> {
    if options.hook.is_some() || options.from.is_some() || options.place.is_some() {
        return Err(CommandError::usage(
            "`new project` always creates a filter and a tool; it accepts only --force",
        ));
    }
    let folder = PathBuf::from(options.name.as_deref().unwrap_or("."));
    let place = |file: &NewFile| folder.join(file.folder.map_or("", Kind::folder)).join(&file.path);
    let mut files: Vec<(PathBuf, String)> =
        scaffold::project().into_iter().map(|file| (place(&file), file.text)).collect();
    // An existing `.gitignore` is left unchanged.
    files.retain(|(path, _)| !(path.ends_with(".gitignore") && path.exists()));
    let made = write(&files, options.force)?;
    print_result(&made, &next_steps::of_project(&folder), &[], out)
}

/// Creates a script or a module in a project.
///
/// # Errors
///
/// Returns the reason why it cannot be created.
pub async fn run(
    options: &NewOptions,
    files: ShippedFiles,
    config: &Config,
    out: &Console,
) -> Result<Exit, CommandError> {
    let what = options.what.unwrap_or(NewKind::Filter);
    check_options(options, what)?;
    let example = match &options.from {
        Some(name) => Some(examples::find(files, name, what)?),
        None => None,
    };
    let name = options.name.as_deref().or(example.as_ref().map(|example| example.id)).ok_or_else(|| {
        CommandError::usage(format!("missing name of the {0}: valvehouse new {0} house_style", word(what)))
    })?;
    let id = id_of(name, what)?;
    let new = match &example {
        Some(example) => examples::copy(example, &id),
        None => scaffold::files(what, &id, options.hook, options.place),
    };
    let place = |file: &NewFile| {
        let folder = file.folder.map_or(&*config.project, |kind| app::folder_of(config, kind));
        folder.join(&file.path)
    };
    let files: Vec<(PathBuf, String)> = new.into_iter().map(|file| (place(&file), file.text)).collect();
    let Some((script, _)) = files.first() else { return Ok(Exit::Done) };
    if what == NewKind::Module {
        let made = write(&files, options.force)?;
        return print_result(&made, &next_steps::of_module(config, script), &[], out);
    }
    is_free(&id, script, config)?;
    let made = write(&files, options.force)?;
    let kind = kind_of(what).unwrap_or(Kind::Filter);
    let (compiled, problems) = compiled(kind, app::folder_of(config, kind), script, config).await;
    print_result(&made, &next_steps::of_script(config, &id, compiled), &problems, out)
}

fn check_options(options: &NewOptions, what: NewKind) -> Result<(), CommandError> {
    if options.hook.is_some() && what != NewKind::Filter {
        return Err(CommandError::usage(format!("a {} has no hooks; use --hook with a filter", word(what))));
    }
    if options.place.is_some() && what != NewKind::Module {
        return Err(CommandError::usage("use --in with a module: valvehouse new module words --in tools"));
    }
    if options.from.is_some() && what == NewKind::Module {
        return Err(CommandError::usage(
            "modules are copied with the scripts that import them; use --from with a filter, a tool or an action",
        ));
    }
    Ok(())
}

/// Returns the name if it is a valid id, or an error with the nearest valid one.
fn id_of(name: &str, what: NewKind) -> Result<String, CommandError> {
    // A file that begins with `_` is not loaded as a plugin.
    if is_id(name) && (what == NewKind::Module || !name.starts_with('_')) {
        return Ok(name.to_owned());
    }
    let corrected = corrected(name, what);
    Err(CommandError::usage(format!(
        "invalid name `{name}` of a {0}: expected 1 to 64 characters of a-z, 0-9, `_` and `-` that do not begin with `_`; try: valvehouse new {0} {corrected}",
        word(what)
    )))
}

fn corrected(name: &str, what: NewKind) -> String {
    let stem = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let stem = stem.strip_suffix(".rhai").unwrap_or(stem).to_lowercase();
    let letter = |letter: char| if is_id(&letter.to_string()) { letter } else { '_' };
    let corrected: String = stem.chars().map(letter).collect();
    let parts: Vec<&str> = corrected.split('_').filter(|part| !part.is_empty()).collect();
    let corrected: String = parts.join("_").chars().take(64).collect();
    if corrected.is_empty() { format!("my_{}", word(what)) } else { corrected }
}

/// Checks that no other file has this id.
fn is_free(id: &str, path: &Path, config: &Config) -> Result<(), CommandError> {
    let looks = app::folders_of(config).map(|(kind, folder)| Loader::default().look(kind, folder));
    let found = looks.into_iter().fold(FolderScan::default(), FolderScan::and);
    let read = found.files.get(id).map(|read| &read.file.path);
    let unread = found.problems.iter().filter(|problem| problem.id == id).map(|problem| &problem.path);
    match read.into_iter().chain(unread).find(|other| *other != path) {
        Some(other) => Err(CommandError::usage(format!(
            "{} already has that name, and names of plugins must be unique; choose another name",
            report::near(other).display()
        ))),
        None => Ok(()),
    }
}

/// Writes new files; existing ones are replaced only with `force`. Files with the same content are unchanged.
fn write(made: &[(PathBuf, String)], force: bool) -> Result<Vec<PathBuf>, CommandError> {
    let new: Vec<&(PathBuf, String)> = made.iter().filter(|(path, text)| !is_written(path, text)).collect();
    if !force && let Some((path, _)) = new.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        return Err(there_already(path));
    }
    if force {
        files::write_texts(new.iter().map(|(path, text)| (path.as_path(), text.as_str())))?;
    } else {
        new.iter().try_for_each(|(path, text)| put(path, text))?;
    }
    Ok(made.iter().map(|(path, _)| path.clone()).collect())
}

/// Returns `true` if a regular file of this text is there.
fn is_written(path: &Path, text: &str) -> bool {
    read_regular(path, text.len() as u64).is_ok_and(|bytes| bytes == text.as_bytes())
}

fn put(path: &Path, text: &str) -> Result<(), CommandError> {
    let made = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        // The file may have been created meanwhile; a link is not followed.
        OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
    };
    made().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => there_already(path),
        _ => CommandError::data(format!("cannot write {}: {error}", report::near(path).display())),
    })
}

fn there_already(path: &Path) -> CommandError {
    let path = report::near(path);
    CommandError::usage(format!(
        "{} already exists; choose another name, or replace it with --force",
        path.display()
    ))
}

/// Compiles a new script as a host would, and returns it with its problems, such as a missing grant.
async fn compiled(
    kind: Kind,
    root: &Path,
    path: &Path,
    config: &Config,
) -> (Option<Script>, Vec<Diagnostic>) {
    let granted = app::stored_grants(config).await;
    let script = read_file(kind, root, path).map_err(|problem| vec![problem]).and_then(
        |LoadedFile { file, .. }| Script::compile(&file, &app::settings_of(config, &granted, kind, &file.id)),
    );
    match script {
        Ok(script) => {
            let warnings = script.warnings.clone();
            (Some(script), warnings)
        }
        Err(problems) => (None, problems),
    }
}

/// Reports the files as the result, and the next steps as messages.
fn print_result(
    made: &[PathBuf],
    next: &[next_steps::Step],
    problems: &[Diagnostic],
    out: &Console,
) -> Result<Exit, CommandError> {
    let paths = made.iter().map(|path| report::near(path).display().to_string());
    if out.is_json() {
        let next: Vec<Json> = next.iter().map(|step| step.command.as_str().into()).collect();
        out.json(&Json::from([
            ("files", paths.map(Json::from).collect::<Vec<_>>().into()),
            ("next", next.into()),
            ("problems", report::all_as_json(problems)),
        ]))?;
        return Ok(Exit::Done);
    }
    for path in paths {
        out.line(&path)?;
    }
    for problem in problems {
        out.note(&format!("\n{}", report::shown(problem, out.talk())));
    }
    out.note(&format!("\nnext:\n{}", next_steps::shown(next, out.talk())));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_id_is_corrected() {
        for (name, id) in [
            ("Turn Limit", "turn_limit"),
            ("filters/mask.rhai", "mask"),
            ("_words", "words"),
            ("a--b__c", "a--b_c"),
            ("größe", "gr_e"),
            ("…", "my_filter"),
        ] {
            assert_eq!(corrected(name, NewKind::Filter), id);
            assert!(id_of(&corrected(name, NewKind::Filter), NewKind::Filter).is_ok());
        }
        let long = corrected(&"x".repeat(100), NewKind::Tool);
        assert!(id_of(&long, NewKind::Tool).is_ok());
    }
}
