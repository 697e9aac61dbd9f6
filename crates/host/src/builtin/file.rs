//! The tools `file_read file_write file_list file_glob file_grep file_mkdir`, which access granted folders.

use super::native::native;
use futures::future::BoxFuture;
use valvehouse_config::Grants;
use valvehouse_core::context::Turn;
use valvehouse_core::tool::{Handler, Tool, ToolError, ToolResult};
use valvehouse_json::Json;
use valvehouse_os::{Failure, Folders, GlobQuery, GrepQuery, Lines, WriteMode};

/// Returns the tools that have a grant, each with its own granted folders.
pub(super) fn tools(grants: &dyn Fn(&str) -> Grants) -> Vec<Tool> {
    let granted = |kind: &Kind| {
        let grants = grants(kind.name);
        (!grants.files.is_empty()).then(|| kind.tool(Folders::new(&grants.files)))
    };
    KINDS.iter().filter_map(granted).collect()
}

/// A tool.
struct Kind {
    name: &'static str,
    description: &'static str,
    /// The parameters in the JSON form that scripts declare.
    parameters: &'static str,
    act: Act,
}

/// The function that does the work of a tool.
type Act = fn(&Folders, &Json) -> Result<Json, Failure>;

const KINDS: [Kind; 6] = [
    Kind {
        name: "file_read",
        description: "Reads a text file, whole or some of its lines. Returns the text with the numbers of \
                      its first and last line and of all lines; `cut` is true when it was more than 1 MiB.",
        parameters: r#"{
            "path": {"type": "string", "required": true, "description": "The file, as file_list names it, e.g. data/notes.txt"},
            "first_line": {"type": "integer", "minimum": 1, "default": 1, "description": "The first line to read"},
            "last_line": {"type": "integer", "minimum": 1, "description": "The last line to read; without it, to the end"}
        }"#,
        act: read,
    },
    Kind {
        name: "file_write",
        description: "Writes a text file: replaces its content, or appends to it with `append`. Returns how \
                      many bytes were written and whether the file is new.",
        parameters: r#"{
            "path": {"type": "string", "required": true, "description": "The file, e.g. data/notes.txt"},
            "text": {"type": "string", "required": true, "description": "The whole new text, or what is appended; at most 1 MiB"},
            "append": {"type": "boolean", "default": false, "description": "Add the text at the end of the file"},
            "parents": {"type": "boolean", "default": false, "description": "Create missing parent folders"}
        }"#,
        act: write,
    },
    Kind {
        name: "file_list",
        description: "Lists what is in a folder: names, paths, kinds (file, folder, link, other) and sizes. \
                      Begin here to see the granted folders.",
        parameters: r#"{
            "path": {"type": "string", "default": ".", "description": "The folder; . for the list of granted folders"}
        }"#,
        act: list,
    },
    Kind {
        name: "file_glob",
        description: "Finds files whose paths match a pattern, in all subfolders. Returns the paths in \
                      alphabetical order.",
        parameters: r#"{
            "pattern": {"type": "string", "required": true, "description": "* and ? within a name, ** across folders, {a,b}, [a-z]; e.g. **/*.md"},
            "path": {"type": "string", "description": "Only below this folder; the pattern is relative to it"}
        }"#,
        act: glob,
    },
    Kind {
        name: "file_grep",
        description: "Searches the lines of text files for a regular expression. Returns path, line number and text of each matching line.",
        parameters: r#"{
            "pattern": {"type": "string", "required": true, "description": "A regular expression without look-around; (?i) at its beginning ignores case"},
            "path": {"type": "string", "description": "Only in this file, or below this folder"},
            "glob": {"type": "string", "description": "Only in files whose paths match this pattern, e.g. **/*.rs"},
            "context": {"type": "integer", "minimum": 0, "maximum": 20, "default": 0, "description": "Number of lines to return before and after each match"}
        }"#,
        act: grep,
    },
    Kind {
        name: "file_mkdir",
        description: "Creates a folder and its missing parent folders. Returns whether it is new.",
        parameters: r#"{
            "path": {"type": "string", "required": true, "description": "The folder, e.g. data/2026/notes"}
        }"#,
        act: make,
    },
];

impl Kind {
    fn tool(&self, folders: Folders) -> Tool {
        let names: Vec<String> = folders.names().map(|name| format!("`{name}`")).collect();
        let description = format!("{} The folders are: {}.", self.description, names.join(", "));
        let tool = FileTool { name: self.name, folders, act: self.act };
        native(self.name, "file", &description, self.parameters, tool)
    }
}

struct FileTool {
    name: &'static str,
    folders: Folders,
    act: Act,
}

impl Handler for FileTool {
    fn call(&self, args: Json, _: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        let (folders, act) = (self.folders.clone(), self.act);
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || act(&folders, &args)).await;
            let done = done.map_err(|error| format!("the tool ended early: {error}"))?;
            done.map(ToolResult::from).map_err(|failure| failure.message_for(self.name).into())
        })
    }
}

fn read(folders: &Folders, args: &Json) -> Result<Json, Failure> {
    let lines = Lines { first: number(args, "first_line").unwrap_or(1), last: number(args, "last_line") };
    folders.read(&text(args, "path"), lines).map(|read| read.into_json())
}

fn write(folders: &Folders, args: &Json) -> Result<Json, Failure> {
    let how = WriteMode { append: truth(args, "append"), parents: truth(args, "parents") };
    folders.write(&text(args, "path"), &text(args, "text"), how).map(|written| written.into_json())
}

fn list(folders: &Folders, args: &Json) -> Result<Json, Failure> {
    folders.list(&text(args, "path")).map(|listing| listing.into_json())
}

fn glob(folders: &Folders, args: &Json) -> Result<Json, Failure> {
    let (pattern, path) = (text(args, "pattern"), args.text("path"));
    folders.glob(GlobQuery { pattern: &pattern, path: path.as_deref() }).map(|found| found.into_json())
}

fn grep(folders: &Folders, args: &Json) -> Result<Json, Failure> {
    let (pattern, path, glob) = (text(args, "pattern"), args.text("path"), args.text("glob"));
    let context = number(args, "context").unwrap_or(0);
    let what = GrepQuery { pattern: &pattern, path: path.as_deref(), glob: glob.as_deref(), context };
    folders.grep(what).map(|matches| matches.into_json())
}

fn make(folders: &Folders, args: &Json) -> Result<Json, Failure> {
    folders.make(&text(args, "path")).map(|made| made.into_json())
}

/// Returns a text argument; required arguments were checked before the call.
fn text(args: &Json, name: &str) -> String {
    args.string(name)
}

fn number(args: &Json, name: &str) -> Option<usize> {
    args.get(name)?.as_i64().map(|number| usize::try_from(number).unwrap_or(0))
}

fn truth(args: &Json, name: &str) -> bool {
    args.get(name).and_then(|value| value.as_bool()).unwrap_or(false)
}
