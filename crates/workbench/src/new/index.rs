//! The page about the scripts that come along: `docs/collection.md`.

use super::options::ShippedFiles;
use super::shipped::{self, Shipped};
use valvehouse_core::words::count;
use valvehouse_script::Kind;
use valvehouse_terminal::{CommandError, Console, Exit};

const HEAD: &str = "# The collection

Scripts that come with valvehouse, each with its tests beside it in [`filters/`](../filters) and [`tools/`](../tools).
`valvehouse new --list` shows them, `valvehouse new filter mask --from redact` makes a copy with its tests, and
`valvehouse valves spec NAME` tells what can be set. This page is printed by `valvehouse new --list --markdown`.

A filter that **runs where a model lists it** waits for `filters = [\"NAME\"]` in a model's settings; a **toggle** for a
request that names it in `filter_ids`. All others run on every chat; what they do then is in their line.
";

/// Prints the page.
pub(super) fn print(files: ShippedFiles, out: &Console) -> Result<Exit, CommandError> {
    out.line(page(files).trim_end())?;
    Ok(Exit::Done)
}

/// All of it, as Markdown.
fn page(files: ShippedFiles) -> String {
    let mut page = HEAD.to_owned();
    for kind in [Kind::Filter, Kind::Tool] {
        let all: Vec<Shipped> =
            shipped::all(files).into_iter().filter(|shipped| shipped.kind == kind).collect();
        page.push_str(&format!("\n## {}\n\n", count(all.len(), kind.word())));
        let (last, rule) = if kind == Kind::Filter { ("runs", "---") } else { ("tag", "---") };
        page.push_str(&format!("| | what it does | {last} |\n|---|---|{rule}|\n"));
        for shipped in all {
            let folder = if kind == Kind::Filter { "filters" } else { "tools" };
            let (id, does) = (shipped.id, shipped.says("description").replace('|', "\\|"));
            let last = if kind == Kind::Filter { runs(&shipped) } else { shipped.tags().join(", ") };
            page.push_str(&format!("| [{id}](../{folder}/{id}.rhai) | {does} | {last} |\n"));
        }
    }
    page
}

/// The cases in which a filter runs.
fn runs(shipped: &Shipped) -> String {
    let is_toggle = shipped.text.lines().any(|line| line.starts_with("const toggle = true"));
    match shipped.says("global") == "false" {
        _ if is_toggle => "as a toggle".to_owned(),
        true => "where a model lists it".to_owned(),
        false if !shipped.says("needs").is_empty() => {
            let names: Vec<String> =
                shipped.says("needs").split(',').map(|name| format!("`{}`", name.trim())).collect();
            format!("on every chat, once {} is set", names.join(" or "))
        }
        false => "on every chat".to_owned(),
    }
}
