//! The reference as a page: `docs/reference.md`.

use super::theme::{THEMES, Theme};
use crate::testing::test_functions;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use valvehouse_dialect::value::Type;
use valvehouse_script_std::reference::{
    CAPABILITIES, CONSTANTS, EntryPoint, Form, Function, FunctionOrigin, Handle, KeyDoc, PARAMETER_KEYS,
    PARAMETERS, ScriptRole, TOOL_KEYS, VALVE_KEYS, entries, frontmatter, functions, handles,
};

const HEAD: &str = "\
# Functions and fields of scripts

Every function, value and key that scripts can use in this host. `valvehouse definitions --reference` \
prints this
page, from the same table that completes words in editors ([editors.md](editors.md)).

A signature names the types of the parameters and of the result: *text*, *number* (with or without a \
point), *integer*,
*boolean*, *array*, *map*, *closure*; *any* is any value, `()` included. A parameter without a type takes \
any value.
Functions that return a value do not change their arguments.
";

/// Returns the whole reference as Markdown.
pub fn document() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(&called_by_the_host());
    page.push_str(&what_scripts_say());
    page.push_str("\n## Functions\n");
    THEMES.iter().for_each(|theme| page.push_str(&theme_section(theme)));
    page.push_str(
        "\n## Values\n\nThese values have keys and methods in addition to those of a list or map. \
                   Keys that a script can assign are marked: *written*.\n",
    );
    handles().iter().for_each(|handle| page.push_str(&handle_section(handle)));
    page.push_str(&of_tests());
    page.push_str(&language());
    page
}

fn of_tests() -> String {
    let mut text = "\n## Functions of tests\n\nFiles `NAME.test.rhai` can also call these: \
         [guide/testing.md](guide/testing.md).\n"
        .to_owned();
    for function in test_functions() {
        let _ = write!(text, "\n- `{}`\\\n  {}\n", function.signature(), indented(&function.doc));
    }
    text
}

fn called_by_the_host() -> String {
    let mut text = "\n## Functions that the host calls\n".to_owned();
    for (role, title) in [
        (ScriptRole::Filter, "Filters: hooks, in the order of a turn"),
        (ScriptRole::Tool, "Tools"),
        (ScriptRole::Pipe, "Models"),
        (ScriptRole::Action, "Buttons under messages, in `actions/`"),
        (ScriptRole::Callback, "Callbacks, with `const callbacks = true`"),
    ] {
        let rows = entries().iter().filter(|entry| entry.role == role);
        let rows = rows.map(|entry| [format!("`{}`", head(entry)), entry.doc.to_owned()]);
        let _ = write!(text, "\n### {title}\n\n{}", table(["function", "call and result"], rows));
    }
    let rows = PARAMETERS.iter().map(|key| [format!("`{}`", key.name), key.doc.to_owned()]);
    let about = "Any of these functions can have the following parameters, by name and in any order.";
    let _ = write!(text, "\n### Parameters\n\n{about}\n\n{}", table(["parameter", "meaning"], rows));
    text
}

/// Returns the call of an entry point, such as `inlet(body)`.
pub(super) fn head(entry: &EntryPoint) -> String {
    let context = if entry.name == "handler" { ", ctx" } else { "" };
    format!("{}({}{context})", entry.name, entry.subject.map_or("", |(name, _)| name))
}

fn what_scripts_say() -> String {
    let mut text = "\n## Declarations of a script\n".to_owned();
    for (title, about, keys) in [
        (
            "The opening comment",
            "Lines `key: value` in the block comment at the beginning of a file, all optional. The host \
             ignores other keys.",
            frontmatter(),
        ),
        ("Capabilities", "The names that `requirements` can list.", CAPABILITIES),
        (
            "Constants",
            "Literal values at the top level of a file; the host reads them without running the file.",
            CONSTANTS,
        ),
        (
            "A valve",
            "`const Valves = #{ name: #{ value: 4, minimum: 1 } }`; a default alone is valid as well.",
            VALVE_KEYS,
        ),
        (
            "An argument of a tool",
            "`const parameters = #{ city: #{ type: \"string\", required: true } }`",
            PARAMETER_KEYS,
        ),
        ("An entry of `tools()`", "", TOOL_KEYS),
    ] {
        let about = if about.is_empty() { String::new() } else { format!("{about}\n\n") };
        let _ =
            write!(text, "\n### {title}\n\n{about}{}", table(["key", "meaning"], keys.iter().map(row_of)));
    }
    text
}

fn row_of(key: &KeyDoc) -> [String; 2] {
    let values: Vec<String> = key.values.iter().map(|value| format!("`{value}`")).collect();
    let values = if values.is_empty() { String::new() } else { format!(" One of {}.", values.join(", ")) };
    [format!("`{}`", key.name), format!("{}{values}", key.doc)]
}

fn theme_section(theme: &Theme) -> String {
    let mut own: Vec<&Function> = functions()
        .iter()
        .filter(|function| function.origin == FunctionOrigin::Host && theme.has(function))
        .collect();
    own.sort_by_key(|function| theme.place(function));
    let mut text = format!("\n### {}\n\n{}\n", theme.title, theme.about);
    let needs = own.iter().find_map(|function| function.capability);
    if let Some(capability) = needs {
        let waits = if own.iter().any(|function| function.may_wait) {
            " A call may wait without blocking other requests."
        } else {
            ""
        };
        let _ =
            writeln!(text, "\nNeeds `requirements: {}` in the opening comment.{waits}", capability.name());
    }
    for function in own {
        let _ = write!(text, "\n- `{}`\\\n  {}\n", function.signature(), indented(&function.doc));
    }
    if !theme.example.is_empty() {
        let _ = write!(text, "\n```rhai\n{}\n```\n", theme.example.trim());
    }
    text
}

fn handle_section(handle: &Handle) -> String {
    let mut text = format!("\n### `{}`\n\n{}", handle.name, handle.about);
    if handle.is_open {
        text.push_str(" It may have further keys.");
    }
    if handle.is_list && handle.element != Type::Any {
        let _ = write!(text, " Each element is a `{}`.", handle.element);
    }
    text.push('\n');
    if handle.words.is_empty() {
        return text;
    }
    let rows = handle.words.iter().map(|word| {
        let signature = word.signature("");
        let written = if word.is_writable { " *written*" } else { "" };
        let name = match word.form {
            Form::Method(_) => signature,
            Form::Key | Form::Property => signature.replace(": any", ""),
        };
        [format!("`{name}`{written}"), word.doc.clone()]
    });
    text.push('\n');
    text.push_str(&table(["field", "meaning"], rows));
    text
}

/// Lists the names of the language's own functions by receiver; its book documents them.
fn language() -> String {
    let mut by_kind: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for function in functions()
        .iter()
        .filter(|function| function.origin == FunctionOrigin::Rhai && function.name != "sleep")
    {
        let kind = match function.params.first().map(|first| first.kind) {
            Some(Type::Text) if function.is_method => "texts",
            Some(Type::Array) => "arrays",
            Some(Type::Map) => "maps",
            Some(Type::Number | Type::Integer) if function.is_method => "numbers",
            Some(Type::Closure) => "closures",
            Some(Type::Range) => "ranges",
            Some(Type::Blob) => "blobs",
            Some(Type::Boolean | Type::Instant | Type::Nothing) | Some(Type::Handle(_) | Type::ListOf(_)) => {
                continue;
            }
            _ => "anywhere",
        };
        by_kind.entry(kind).or_default().insert(&function.name);
    }
    let mut text = "\n## Functions of Rhai\n\nThese functions are part of [Rhai](https://rhai.rs/book/) \
                    and described in its book. Those of arrays and maps work on live values as well: \
                    `filter` and `find` return the same live elements. `eval` and `sleep` \
are not available.\n"
        .to_owned();
    for (kind, names) in by_kind {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let _ = write!(text, "\n- {kind}: {}", names.join(" "));
    }
    text.push('\n');
    text
}

fn table(heads: [&str; 2], rows: impl Iterator<Item = [String; 2]>) -> String {
    let mut text = format!("| {} | {} |\n|---|---|\n", heads[0], heads[1]);
    for [name, about] in rows {
        let about = about.replace('|', "\\|").replace('\n', " ");
        let _ = writeln!(text, "| {} | {about} |", name.replace('|', "\\|"));
    }
    text
}

/// Indents the lines after the first, so that they belong to the same paragraph.
fn indented(doc: &str) -> String {
    doc.lines().collect::<Vec<_>>().join("\n  ")
}
