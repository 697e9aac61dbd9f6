//! The content of a draft and its open points, for people and for programs.

use super::host::Problem;
use super::output::{line, message};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use valvehouse_port::{Draft, LineCount, Note, NoteKind, PluginKind};

/// Shows the files, and a summary of the notes by kind.
pub(super) fn print(
    draft: &Draft,
    paths: &[PathBuf],
    checked: &Option<Vec<Problem>>,
    is_json: bool,
) -> io::Result<()> {
    if is_json {
        return line(&as_json(draft, paths, checked).to_string());
    }
    for path in paths {
        line(&path.display().to_string())?;
    }
    let LineCount { all, .. } = draft.lines;
    line(&format!(
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
        line(title)?;
        for (kind, notes) in groups {
            line(&format!("  {} ({})", kind.label(), kind.page()))?;
            for note in notes {
                line(&format!("    line {}: {}", note.line, note.text))?;
            }
        }
    }
    for problem in checked.iter().flatten().filter(|problem| problem.is_error()) {
        message(&format!("\n{}", as_text(problem)));
    }
    Ok(())
}

fn as_json(draft: &Draft, paths: &[PathBuf], checked: &Option<Vec<Problem>>) -> Value {
    json!({
        "kind": draft.kind.as_str(),
        "id": draft.id,
        "files": paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "lines": draft.lines.all,
        "translated": draft.lines.translated(),
        "notes": draft.notes.iter().map(note_as_json).collect::<Vec<_>>(),
        "problems": checked.as_ref().map(|problems| problems.iter().map(|problem| &problem.0).collect::<Vec<_>>()),
    })
}

fn note_as_json(note: &Note) -> Value {
    json!({
        "kind": note.kind.label(),
        "text": note.text,
        "line": note.line,
        "todo": note.is_todo,
        "page": note.kind.page(),
    })
}

/// A problem as `valvehouse check` prints it, without the line of the script.
fn as_text(problem: &Problem) -> String {
    let number = |key: &str| problem.0[key].as_u64().map_or_else(String::new, |number| format!(":{number}"));
    let help = problem.text("help");
    format!(
        "{}{}{}: error[{}]: {}{}",
        problem.text("file"),
        number("line"),
        number("column"),
        problem.text("code"),
        problem.text("message"),
        if help.is_empty() { String::new() } else { format!("\n   = help: {help}") }
    )
}

fn by_kind<'a>(notes: impl Iterator<Item = &'a Note>) -> BTreeMap<NoteKind, Vec<&'a Note>> {
    let mut groups: BTreeMap<NoteKind, Vec<&Note>> = BTreeMap::new();
    for note in notes {
        groups.entry(note.kind).or_default().push(note);
    }
    groups
}
