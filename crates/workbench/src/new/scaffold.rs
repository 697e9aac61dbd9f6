//! The contents of new files, which are templates with the name inserted.

use super::options::NewKind;
use std::path::PathBuf;
use valvehouse_config as config;
use valvehouse_core::filter::Hook;
use valvehouse_core::text::title_case;
use valvehouse_script::Kind;

/// A new file, in the project folder or one of its folders.
pub(super) struct NewFile {
    /// The kind of the folder; `None` for the project folder.
    pub(super) folder: Option<Kind>,
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// A script and its test.
type Pair = (&'static str, &'static str);

const INLET: Pair = (include_str!("templates/inlet.rhai"), include_str!("templates/inlet.test.rhai"));
const STREAM: Pair = (include_str!("templates/stream.rhai"), include_str!("templates/stream.test.rhai"));
const CHAT: Pair = (include_str!("templates/pre_chat.rhai"), include_str!("templates/pre_chat.test.rhai"));
const INVOCATION: Pair =
    (include_str!("templates/pre_invocation.rhai"), include_str!("templates/pre_invocation.test.rhai"));
const TOOL: Pair = (include_str!("templates/tool.rhai"), include_str!("templates/tool.test.rhai"));
const ACTION: Pair = (include_str!("templates/action.rhai"), include_str!("templates/action.test.rhai"));
const PIPE: Pair = (include_str!("templates/pipe.rhai"), include_str!("templates/pipe.test.rhai"));
const MODULE: Pair = (include_str!("templates/module.rhai"), include_str!("templates/module.test.rhai"));
const SETTINGS: &str = include_str!("templates/valvehouse.toml");

/// Returns the files of a new script or module. `hook` is that of a filter; scripts of the kind `place` import a module.
pub(super) fn files(what: NewKind, id: &str, hook: Option<Hook>, place: Option<Kind>) -> Vec<NewFile> {
    match what {
        NewKind::Filter | NewKind::Project => {
            let pair = match hook.unwrap_or(Hook::Inlet) {
                Hook::Inlet | Hook::Outlet => INLET,
                Hook::Stream | Hook::StreamEnd => STREAM,
                Hook::PreChat | Hook::PostChat => CHAT,
                Hook::PreInvocation | Hook::PostInvocation => INVOCATION,
            };
            both(Kind::Filter, id, pair)
        }
        NewKind::Tool => both(Kind::Tool, id, TOOL),
        NewKind::Action => both(Kind::Action, id, ACTION),
        NewKind::Pipe => both(Kind::Filter, id, PIPE),
        NewKind::Module => both(place.unwrap_or(Kind::Filter), &format!("lib/{id}"), MODULE),
    }
}

/// Returns the files of a new project.
pub(super) fn project() -> Vec<NewFile> {
    const FILTER: &str = "house_style";
    const FIRST_TOOL: &str = "temperature";
    let settings = SETTINGS.replace("FIRST_FILTER", FILTER).replace("FIRST_TOOL", FIRST_TOOL);
    let own = |path: &str, text: String| NewFile { folder: None, path: path.into(), text };
    let own = vec![
        own("valvehouse.toml", settings),
        own("valvehouse.schema.json", format!("{:#}\n", config::schema())),
        own(".gitignore", ".valvehouse/\n".to_owned()),
    ];
    let filter = files(NewKind::Filter, FILTER, None, None);
    own.into_iter().chain(filter).chain(files(NewKind::Tool, FIRST_TOOL, None, None)).collect()
}

/// Returns the name of a kind of files for messages.
pub(super) fn word(what: NewKind) -> &'static str {
    match what {
        NewKind::Filter => "filter",
        NewKind::Tool => "tool",
        NewKind::Action => "action",
        NewKind::Pipe => "pipe",
        NewKind::Module => "module",
        NewKind::Project => "project",
    }
}

/// Returns the kind of a new script; `None` for a module or a project.
pub(super) fn kind_of(what: NewKind) -> Option<Kind> {
    match what {
        NewKind::Filter | NewKind::Pipe => Some(Kind::Filter),
        NewKind::Tool => Some(Kind::Tool),
        NewKind::Action => Some(Kind::Action),
        NewKind::Module | NewKind::Project => None,
    }
}

/// Returns a script and its test at a path within a folder, named after the last part of the path.
fn both(kind: Kind, path: &str, (script, test): Pair) -> Vec<NewFile> {
    let id = path.rsplit('/').next().unwrap_or(path);
    let file = |end: &str, text| NewFile {
        folder: Some(kind),
        path: format!("{path}{end}").into(),
        text: named(text, id),
    };
    vec![file(".rhai", script), file(".test.rhai", test)]
}

fn named(text: &str, id: &str) -> String {
    let alias = id.replace('-', "_");
    text.replace("TITLE", &title_case(id)).replace("ALIAS", &alias).replace("NAME", id)
}

/// The paths and texts of the shipped scripts in `filters/`, `tools/` and `actions/`.
pub type ShippedFiles = &'static [(&'static str, &'static str)];
