//! Fixes of mistakes in valid syntax: misspelled names, lost values, missing declarations.

use super::foreign;
use valvehouse_script::diagnostic::{Cause, Diagnostic, Fix, FixEdit, Spot, is_part};

/// Returns the edit that fixes a problem of a script's text, if it is unambiguous.
pub fn fix(problem: &Diagnostic, source: &str) -> Option<Fix> {
    let spot = Spot::of(problem, source)?;
    let fix = of_cause(problem, &spot)?;
    let is_inside = |edit: &FixEdit| {
        source.is_char_boundary(edit.at.start)
            && source.is_char_boundary(edit.at.end)
            && edit.at.start <= edit.at.end
    };
    fix.edits.iter().all(is_inside).then_some(fix)
}

fn of_cause(problem: &Diagnostic, spot: &Spot<'_>) -> Option<Fix> {
    match &*problem.cause {
        Cause::Name(near) => misspelt(near, spot),
        Cause::Written { found, instead } => {
            let at = if found.starts_with(is_part) { spot.word(found) } else { spot.sign(found) };
            Some(Fix::replace(at?, instead))
        }
        Cause::Path(path) => of_module(path, spot),
        Cause::Key { found, instead } => renamed_key(found, instead, spot),
        Cause::Needless(text) => {
            let word = text.trim_end_matches([' ', '.']);
            let at = spot.word(word)?.start;
            let title = format!("Remove `{}`", text.trim_end());
            spot.source[at..].starts_with(text).then(|| Fix::new(title, at..at + text.len(), ""))
        }
        Cause::NeedlessLine(name) => needless_line(name, spot),
        Cause::Missing(token) => Some(Fix::new(format!("Add `{token}`"), spot.at..spot.at, token)),
        Cause::NewVariable => Some(Fix::new("Declare it with `let`", spot.at..spot.at, "let ")),
        Cause::Parameter(name) => parameter(name, spot),
        Cause::HeldFunction => {
            let name = spot.name_at(spot.at)?;
            Some(Fix::new("Write `.call`", name.end..name.end, ".call"))
        }
        Cause::Capability(capability) => Some(requirement(capability, spot.source)),
        Cause::NotReturned => {
            // Of `let answer = error(…)`, the value is returned.
            let declared = spot.before().trim_end().strip_suffix("let").map(str::len);
            let begins = declared.map_or(spot.at, |at| spot.line.start + at);
            let value = declared.map_or(Some(0), |_| spot.rest().find("= ").map(|at| at + 2))?;
            Some(Fix::new("Return the answer", begins..spot.at + value, "return "))
        }
        Cause::Foreign(syntax) => foreign::fix(*syntax, spot),
        Cause::Other => problem.code.fix(spot),
    }
}

/// Replaces `http.get` by `http::get`, and the names of other languages by those of the host.
fn of_module(path: &str, spot: &Spot<'_>) -> Option<Fix> {
    let module = spot.name_at(spot.at)?;
    let dot = module.end;
    let name = spot.source[dot..].starts_with('.').then(|| spot.name_at(dot + 1)).flatten()?;
    path.starts_with(&spot.source[module.clone()]).then(|| Fix::replace(module.start..name.end, path))
}

/// Removes a line that is only a statement with this name.
fn needless_line(name: &str, spot: &Spot<'_>) -> Option<Fix> {
    let row = spot.row().trim();
    let is_here = row == name || row.starts_with("import ") || row.starts_with("from ");
    let end = spot.line.end + usize::from(spot.source[spot.line.end..].starts_with('\n'));
    let shown = if row == name { format!("`{name}`") } else { name.to_owned() };
    is_here.then(|| Fix::new(format!("Remove {shown}"), spot.line.start..end, ""))
}

/// Replaces a misspelled name such as `regex::find_al` or `.kep_last(…)`.
fn misspelt(near: &str, spot: &Spot<'_>) -> Option<Fix> {
    // The position of a quoted key is its quote.
    let at = spot.at + usize::from(spot.rest().starts_with('"'));
    let mut first = spot.name_at(at)?;
    let mut last = first.clone();
    while spot.source[last.end..].starts_with("::")
        && let Some(next) = spot.name_at(last.end + 2)
    {
        last = next;
    }
    let parts = near.split("::").count();
    let written = spot.source[first.start..last.end].split("::").count();
    if parts < written || parts == 1 {
        first = last.clone();
    }
    let text = if written < parts { near.rsplit("::").next()? } else { near };
    // A path is replaced completely, a name only in its last part.
    let at = if text.contains("::") { first.start..last.end } else { last };
    Some(Fix::replace(at, text))
}

/// Renames a key of a declaration: `ge`, `desciption`.
fn renamed_key(old: &str, new: &str, spot: &Spot<'_>) -> Option<Fix> {
    // The search begins at the problem and ends with the declaration of this valve.
    let code = &spot.code[spot.at..];
    let end = code.find("\n}").unwrap_or(code.len());
    let is_key =
        |at: &usize| !code[..*at].ends_with(is_part) && code[at + old.len()..].trim_start().starts_with(':');
    let at = code[..end].match_indices(old).map(|(at, _)| at).find(is_key)?;
    Some(Fix::replace(spot.at + at..spot.at + at + old.len(), new))
}

/// Declares a capability in the opening comment, which is added if missing.
pub(super) fn requirement(capability: &str, source: &str) -> Fix {
    let title = format!("Declare `requirements: {capability}`");
    let text = source.trim_start_matches('\u{feff}');
    let start = source.len() - text.len() + (text.len() - text.trim_start().len());
    let end = source[start..].find("*/").map(|end| start + end);
    let Some(end) = end.filter(|_| source[start..].starts_with("/*")) else {
        return Fix::new(title, start..start, format!("/*\nrequirements: {capability}\n*/\n"));
    };
    let mut at = start;
    for line in source[start..end].split_inclusive('\n') {
        let content = line.trim_start_matches("/*").trim_start_matches([' ', '\t', '*']);
        if content.starts_with("requirements:") {
            let line_end = at + line.trim_end().len();
            let is_empty = content.trim_end() == "requirements:";
            let text = if is_empty { format!(" {capability}") } else { format!(", {capability}") };
            return Fix::new(title, line_end..line_end, text);
        }
        at += line.len();
    }
    let before = &source[start..end];
    let is_own_line = before.ends_with('\n');
    let text = if is_own_line {
        format!("requirements: {capability}\n")
    } else {
        format!("\nrequirements: {capability}\n")
    };
    let at = if is_own_line { end } else { start + before.trim_end().len() };
    Fix::new(title, at..end, text)
}

/// Adds a parameter to the function around the problem.
fn parameter(name: &str, spot: &Spot<'_>) -> Option<Fix> {
    let begins = spot.code[..spot.at].rfind("fn ")?;
    let open = begins + spot.code[begins..].find('(')?;
    let close = open + spot.code[open..].find(')')?;
    let is_empty = spot.code[open + 1..close].trim().is_empty();
    let text = if is_empty { name.to_owned() } else { format!(", {name}") };
    Some(Fix::new(format!("Add the parameter `{name}`"), close..close, text))
}
