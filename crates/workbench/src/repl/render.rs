//! The output of results and of functions.

use std::io;
use valvehouse_core::text::did_you_mean;
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, LineResult};
use valvehouse_script_std::reference::{Function, functions as all};
use valvehouse_terminal::{Console, clean, report, table};

/// The maximum number of characters of a value that is shown in one line.
const SHORT: usize = 100;
/// The maximum number of listed functions.
const LISTED: usize = 60;

/// Shows the result of a line.
pub(super) fn came(came: &LineResult, out: &Console) -> io::Result<()> {
    if out.is_json() {
        let (value, kind) = match came {
            LineResult::Nothing => (Json::Null, "nothing"),
            LineResult::Value(value, kind) => (value.clone(), kind.as_str()),
            LineResult::Other(text) => (text.as_str().into(), "other"),
        };
        return out.json(&Json::from([("value", value), ("type", kind.into())]));
    }
    match came {
        LineResult::Nothing => Ok(()),
        LineResult::Value(value, _) => out.line(&short_or_pretty(value)),
        LineResult::Other(text) => out.line(&clean(text)),
    }
}

pub(super) fn short_or_pretty(value: &Json) -> String {
    let short = value.to_string();
    let text = if short.chars().count() <= SHORT { short } else { value.pretty(2) };
    clean(&text)
}

/// Shows the problem of a line.
pub(super) fn problem(problem: &Diagnostic, out: &Console) -> io::Result<()> {
    if out.is_json() {
        return out.json(&Json::from([("error", report::as_json(problem))]));
    }
    out.note(&report::shown(problem, out.talk()));
    Ok(())
}

/// Lists the functions with this text in their names.
pub(super) fn functions(text: &str, out: &Console) -> io::Result<()> {
    let found: Vec<&Function> = all().iter().filter(|function| function.path().contains(text)).collect();
    if found.is_empty() {
        out.note(&format!("unknown function: no name contains `{text}`{}", near(text)));
        return Ok(());
    }
    let first = |function: &Function| {
        function.doc.split_once(['\n', '.']).map_or(&*function.doc, |(first, _)| first).to_owned()
    };
    let row = |function: &&Function| vec![function.signature(), out.results().dim(&first(function))];
    let rows: Vec<Vec<String>> = found.iter().take(LISTED).map(row).collect();
    out.line(&table(&rows))?;
    if found.len() > LISTED {
        out.note(&format!("… and {} more; write more of the name", found.len() - LISTED));
    }
    Ok(())
}

/// Shows the documentation of a function.
pub(super) fn doc(name: &str, out: &Console) -> io::Result<()> {
    let name = name.split('(').next().unwrap_or(name).trim();
    let found: Vec<&Function> =
        all().iter().filter(|function| function.path() == name || function.name == name).collect();
    if found.is_empty() {
        out.note(&format!("unknown function `{name}`{}", near(name)));
    }
    for function in found {
        out.line(&out.results().bold(&function.signature()))?;
        out.line(&format!("  {}", function.doc.replace('\n', "\n  ")))?;
    }
    Ok(())
}

fn near(name: &str) -> String {
    let paths: Vec<String> = all().iter().map(Function::path).collect();
    did_you_mean(name, paths.iter().map(String::as_str))
}
