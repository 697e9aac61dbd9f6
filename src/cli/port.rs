//! `valvehouse port`: drafts a script from a plugin in Python.

use super::args;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use valvehouse_config::Config;
use valvehouse_core::text::count;
use valvehouse_host::app::folder_of;
use valvehouse_json::Json;
use valvehouse_port::{Draft, LineCount, MAX_BYTES, Note, NoteKind, PluginKind, PortError};
use valvehouse_script::{Diagnostic, Kind, Script, Settings, Severity, SourceFile, is_id};
use valvehouse_terminal::{CommandError, Console, Exit, files, report};

/// The maximum depth of folders that are measured.
const MAX_DEPTH: usize = 16;

pub(super) fn run(args: &args::Port, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    if let Some(folder) = &args.measure {
        return measure(folder, out);
    }
    let path =
        args.file.as_deref().ok_or_else(|| CommandError::usage("missing file: valvehouse port FILE.py"))?;
    let source = files::read_text(path, MAX_BYTES)?;
    let name = args.id.clone().unwrap_or_else(|| stem(path));
    if args.id.is_some() && !is_id(&name) {
        return Err(CommandError::usage(format!(
            "invalid id `{name}`: expected 1 to 64 characters of a-z, 0-9, `_` and `-`"
        )));
    }
    let mut draft = valvehouse_port::port(&source, &name)
        .map_err(|error| CommandError::data(format!("cannot port {}: {error}", path.display())))?;
    if args.id.is_some() {
        draft.id.clone_from(&name);
    }
    if args.stdout {
        out.piece(&draft.script)?;
        return Ok(Exit::Done);
    }
    let file = place(&draft, config);
    let problems = checked(&draft, &file);
    let drafts = [(file.clone(), &draft.script), (file.with_extension("test.rhai"), &draft.test)];
    if !args.dry_run {
        write(&drafts, args.force)?;
    }
    let paths: Vec<String> =
        drafts.iter().map(|(path, _)| report::near(path).display().to_string()).collect();
    print_draft(&draft, &paths, &problems, out)?;
    let has_errors = problems.iter().any(|problem| problem.severity == Severity::Error);
    Ok(if has_errors { Exit::Findings } else { Exit::Done })
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

fn script_kind(draft: &Draft) -> Kind {
    match draft.kind {
        PluginKind::Tool => Kind::Tool,
        PluginKind::Action => Kind::Action,
        PluginKind::Filter | PluginKind::Pipe => Kind::Filter,
    }
}

fn place(draft: &Draft, config: &Config) -> PathBuf {
    folder_of(config, script_kind(draft)).join(format!("{}.rhai", draft.id))
}

/// Returns the problems that `check` reports for a draft.
fn checked(draft: &Draft, path: &Path) -> Vec<Diagnostic> {
    let file = SourceFile::new(script_kind(draft), draft.id.as_str(), path, draft.script.as_str());
    Script::check(&file, &Settings::default())
}

/// Writes new files; existing ones are replaced only with `force`.
fn write(drafts: &[(PathBuf, &String)], force: bool) -> Result<(), CommandError> {
    let exists = |path: &Path| {
        let path = report::near(path);
        CommandError::usage(format!(
            "{} already exists; choose another name with --id, or replace it with --force",
            path.display()
        ))
    };
    if !force && let Some((path, _)) = drafts.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        return Err(exists(path));
    }
    if force {
        return files::write_texts(drafts.iter().map(|(path, text)| (path.as_path(), text.as_str())));
    }
    for (path, text) in drafts {
        let written = || {
            fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
            // An existing file is an error, and a link is not followed.
            OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
        };
        written().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(path),
            _ => CommandError::data(format!("cannot write {}: {error}", report::near(path).display())),
        })?;
    }
    Ok(())
}

/// Shows the files, and a summary of the notes by kind.
fn print_draft(
    draft: &Draft,
    paths: &[String],
    problems: &[Diagnostic],
    out: &Console,
) -> Result<(), CommandError> {
    if out.is_json() {
        let notes: Vec<Json> = draft.notes.iter().map(note_as_json).collect();
        out.json(&Json::from([
            ("kind", draft.kind.as_str().into()),
            ("id", draft.id.as_str().into()),
            ("files", paths.iter().map(|path| Json::from(path.as_str())).collect::<Vec<_>>().into()),
            ("lines", draft.lines.all.into()),
            ("translated", draft.lines.translated().into()),
            ("notes", notes.into()),
            ("problems", report::all_as_json(problems)),
        ]))?;
        return Ok(());
    }
    for path in paths {
        out.line(path)?;
    }
    let LineCount { all, .. } = draft.lines;
    out.line(&format!(
        "\n{}: {} of {all} lines translated ({} %)",
        match draft.kind {
            PluginKind::Action => "an action".to_owned(),
            kind => format!("a {}", kind.as_str()),
        },
        draft.lines.translated(),
        draft.lines.percent()
    ))?;
    for (title, is_todo) in [("to write, marked TODO:", true), ("to review:", false)] {
        let groups = by_kind(draft.notes.iter().filter(|note| note.is_todo == is_todo));
        if groups.is_empty() {
            continue;
        }
        out.line(title)?;
        for (kind, notes) in groups {
            out.line(&format!("  {} ({})", kind.label(), kind.page()))?;
            for note in notes {
                out.line(&format!("    line {}: {}", note.line, note.text))?;
            }
        }
    }
    for problem in problems.iter().filter(|problem| problem.severity == Severity::Error) {
        out.note(&format!("\n{}", report::shown(problem, out.talk())));
    }
    Ok(())
}

fn by_kind<'a>(notes: impl Iterator<Item = &'a Note>) -> BTreeMap<NoteKind, Vec<&'a Note>> {
    let mut groups: BTreeMap<NoteKind, Vec<&Note>> = BTreeMap::new();
    for note in notes {
        groups.entry(note.kind).or_default().push(note);
    }
    groups
}

fn note_as_json(note: &Note) -> Json {
    Json::from([
        ("kind", note.kind.label().into()),
        ("text", note.text.as_str().into()),
        ("line", note.line.into()),
        ("todo", note.is_todo.into()),
        ("page", note.kind.page().into()),
    ])
}

/// The counts for one kind of plugins.
#[derive(Default)]
struct Row {
    files: usize,
    accepted: usize,
    lines: usize,
    translated: usize,
}

/// Ports all plugins of a folder in memory, and shows the counts.
fn measure(folder: &Path, out: &Console) -> Result<Exit, CommandError> {
    let mut plugins = Vec::new();
    find(folder, 0, &mut plugins)
        .map_err(|error| CommandError::data(format!("cannot read {}: {error}", folder.display())))?;
    plugins.sort();
    let mut rows: BTreeMap<&'static str, Row> = BTreeMap::new();
    let mut skipped: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    for path in &plugins {
        let draft = match files::read_text(path, MAX_BYTES)
            .map(|source| valvehouse_port::port(&source, &stem(path)))
        {
            Ok(Ok(draft)) => draft,
            Ok(Err(error)) => {
                *skipped.entry(reason(&error)).or_default() += 1;
                continue;
            }
            Err(_) => {
                *skipped.entry("cannot be read").or_default() += 1;
                continue;
            }
        };
        let row = rows.entry(draft.kind.as_str()).or_default();
        row.files += 1;
        row.lines += draft.lines.all;
        row.translated += draft.lines.translated();
        let problems = checked(&draft, Path::new("draft.rhai"));
        let first = problems.iter().find(|problem| problem.severity == Severity::Error);
        match first {
            None if draft.is_empty => *codes.entry("no hook".to_owned()).or_default() += 1,
            None => row.accepted += 1,
            Some(problem) => *codes.entry(problem.code.to_string()).or_default() += 1,
        }
        if out.is_json() {
            out.json(&Json::from([
                ("file", path.display().to_string().into()),
                ("kind", draft.kind.as_str().into()),
                ("lines", draft.lines.all.into()),
                ("translated", draft.lines.translated().into()),
                ("accepted", first.is_none().into()),
                ("problem", first.map_or("", |problem| problem.message.as_str()).into()),
            ]))?;
        }
    }
    if out.is_json() {
        return Ok(Exit::Done);
    }
    out.line("kind     files  accepted     lines  translated")?;
    for (kind, row) in &rows {
        out.line(&format!(
            "{kind:<8} {:>5}  {:>3} ({:>3} %) {:>8}  {:>8} %",
            row.files,
            row.accepted,
            share(row.accepted, row.files),
            row.lines,
            share(row.translated, row.lines)
        ))?;
    }
    for (code, files) in codes {
        out.line(&format!("not accepted for {code}: {}", count(files, "file")))?;
    }
    for (reason, files) in skipped {
        out.line(&format!("not ported, {reason}: {}", count(files, "file")))?;
    }
    Ok(Exit::Done)
}

fn share(part: usize, all: usize) -> usize {
    (part * 100).checked_div(all).unwrap_or(0)
}

fn reason(error: &PortError) -> &'static str {
    match error {
        PortError::Syntax(_) => "not Python",
        PortError::TooLong => "too long",
        PortError::NoPlugin => "no plugin",
        _ => "other",
    }
}

/// Finds the Python files below a folder; links are not followed.
fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if kind.is_dir() && !is_hidden && depth < MAX_DEPTH {
            find(&path, depth + 1, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "py") {
            files.push(path);
        }
    }
    Ok(())
}
