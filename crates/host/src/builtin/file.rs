//! The tools `file_read file_write file_list file_glob file_grep file_mkdir`, which access granted folders.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use valvehouse_config::Grants;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;
use valvehouse_os::{Failure, Folders, GlobQuery, GrepQuery, Lines, WriteMode};

/// Returns the tools that have a grant, each with its own granted folders.
pub(super) fn tools(grants: &dyn Fn(&str) -> Grants) -> Vec<Tool> {
    let granted = [
        tool("file_read", grants, read),
        tool("file_write", grants, write),
        tool("file_list", grants, list),
        tool("file_glob", grants, glob),
        tool("file_grep", grants, grep),
        tool("file_mkdir", grants, make),
    ];
    granted.into_iter().flatten().collect()
}

/// Creates a tool from a function of its granted folders; `None` if there are none.
fn tool<A>(
    name: &'static str,
    grants: &dyn Fn(&str) -> Grants,
    act: fn(&Folders, A) -> Result<Json, Failure>,
) -> Option<Tool>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
{
    let grants = grants(name);
    if grants.files.is_empty() {
        return None;
    }
    let folders = Folders::new(&grants.files);
    let names: Vec<String> = folders.names().map(|name| format!("`{name}`")).collect();
    let run = move |args: A| act(&folders, args).map_err(|failure| failure.message_for(name).into());
    let tool = Tool::blocking(name, run).tag("file");
    let description = format!("{} The folders are: {}.", tool.spec.description, names.join(", "));
    Some(tool.description(&description))
}

/// Reads a text file, whole or some of its lines. Returns the text with the numbers of its first and last line and of all lines; `cut` is true when it was more than 1 MiB.
#[derive(Deserialize, JsonSchema)]
struct Reading {
    /// The file, as file_list names it, e.g. data/notes.txt
    path: String,
    /// The first line to read
    #[serde(default = "first_line")]
    #[schemars(range(min = 1))]
    first_line: usize,
    /// The last line to read; without it, to the end
    #[schemars(range(min = 1))]
    last_line: Option<usize>,
}

fn first_line() -> usize {
    1
}

/// Writes a text file: replaces its content, or appends to it with `append`. Returns how many bytes were written and whether the file is new.
#[derive(Deserialize, JsonSchema)]
struct Writing {
    /// The file, e.g. data/notes.txt
    path: String,
    /// The whole new text, or what is appended; at most 1 MiB
    text: String,
    /// Add the text at the end of the file
    #[serde(default)]
    append: bool,
    /// Create missing parent folders
    #[serde(default)]
    parents: bool,
}

/// Lists what is in a folder: names, paths, kinds (file, folder, link, other) and sizes. Begin here to see the granted folders.
#[derive(Deserialize, JsonSchema)]
struct Listing {
    /// The folder; . for the list of granted folders
    #[serde(default = "all_folders")]
    path: String,
}

fn all_folders() -> String {
    ".".to_owned()
}

/// Finds files whose paths match a pattern, in all subfolders. Returns the paths in alphabetical order.
#[derive(Deserialize, JsonSchema)]
struct Globbing {
    /// * and ? within a name, ** across folders, {a,b}, [a-z]; e.g. **/*.md
    pattern: String,
    /// Only below this folder; the pattern is relative to it
    path: Option<String>,
}

/// Searches the lines of text files for a regular expression. Returns path, line number and text of each matching line.
#[derive(Deserialize, JsonSchema)]
struct Searching {
    /// A regular expression without look-around; (?i) at its beginning ignores case
    pattern: String,
    /// Only in this file, or below this folder
    path: Option<String>,
    /// Only in files whose paths match this pattern, e.g. **/*.rs
    glob: Option<String>,
    /// Number of lines to return before and after each match
    #[serde(default)]
    #[schemars(range(max = 20))]
    context: usize,
}

/// Creates a folder and its missing parent folders. Returns whether it is new.
#[derive(Deserialize, JsonSchema)]
struct NewFolder {
    /// The folder, e.g. data/2026/notes
    path: String,
}

fn read(folders: &Folders, args: Reading) -> Result<Json, Failure> {
    let lines = Lines { first: args.first_line, last: args.last_line };
    folders.read(&args.path, lines).map(|read| read.into_json())
}

fn write(folders: &Folders, args: Writing) -> Result<Json, Failure> {
    let how = WriteMode { append: args.append, parents: args.parents };
    folders.write(&args.path, &args.text, how).map(|written| written.into_json())
}

fn list(folders: &Folders, args: Listing) -> Result<Json, Failure> {
    folders.list(&args.path).map(|listing| listing.into_json())
}

fn glob(folders: &Folders, args: Globbing) -> Result<Json, Failure> {
    let query = GlobQuery { pattern: &args.pattern, path: args.path.as_deref() };
    folders.glob(query).map(|found| found.into_json())
}

fn grep(folders: &Folders, args: Searching) -> Result<Json, Failure> {
    let query = GrepQuery {
        pattern: &args.pattern,
        path: args.path.as_deref(),
        glob: args.glob.as_deref(),
        context: args.context,
    };
    folders.grep(query).map(|matches| matches.into_json())
}

fn make(folders: &Folders, args: NewFolder) -> Result<Json, Failure> {
    folders.make(&args.path).map(|made| made.into_json())
}
