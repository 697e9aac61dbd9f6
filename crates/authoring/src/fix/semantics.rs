//! Fixes of mistakes in valid syntax: misspelled names, lost values, missing declarations.

use super::edit::{Fix, Spot, is_part};
use valvehouse_script::diagnostic::{Code, Diagnostic};

pub(super) fn fix(problem: &Diagnostic, spot: &Spot<'_>) -> Option<Fix> {
    let help = problem.help.as_deref().unwrap_or_default();
    if let Some(near) = help.strip_prefix("did you mean `").and_then(|rest| rest.split('`').next()) {
        return misspelt(near, spot);
    }
    match problem.code {
        Code::NotDeclared => {
            let (_, capability) = help.split_once("requirements: ")?;
            Some(requirement(capability, spot.source))
        }
        Code::BadValve | Code::BadTool => renamed_key(&problem.message, spot),
        Code::UnusedCapability => unused_capability(spot),
        Code::UnknownVariable if help.starts_with("declare a new variable") => {
            Some(Fix::new("Declare it with `let`", spot.at..spot.at, "let "))
        }
        Code::UnknownVariable if help.starts_with("add `") => parameter(help.split('`').nth(1)?, spot),
        Code::UnusedVariable => {
            let name = spot.name_at(spot.at)?;
            let text = format!("_{}", &spot.source[name.clone()]);
            // A variable that is only assigned is named again.
            let rest = spot.code[name.end..].split("\nfn ").next()?;
            let mut words = rest.split(|letter| !is_part(letter));
            let is_alone = !words.any(|word| word == &text[1..]);
            is_alone.then(|| Fix::new(format!("Rename to `{text}`"), name, text))
        }
        Code::LostAnswer if help.starts_with("write `return ") => {
            // Of `let answer = error(…)`, the value is returned.
            let declared = spot.before().trim_end().strip_suffix("let").map(str::len);
            let begins = declared.map_or(spot.at, |at| spot.line.start + at);
            let value = declared.map_or(Some(0), |_| spot.rest().find("= ").map(|at| at + 2))?;
            Some(Fix::new("Return the answer", begins..spot.at + value, "return "))
        }
        Code::UnfilledText => backticks(spot),
        Code::LostResult => in_place(help, spot),
        Code::IdleComparison if help.starts_with("assign with a single `=`") => {
            let sign = spot.sign("==")?;
            Some(Fix::replace(sign, "="))
        }
        Code::Syntax if problem.message.starts_with("missing `") => {
            let token = problem.message.split('`').nth(1)?;
            Some(Fix::new(format!("Add `{token}`"), spot.at..spot.at, token))
        }
        _ => None,
    }
}

/// Replaces a misspelled name such as `regex::find_al` or `.kep_last(…)`.
fn misspelt(near: &str, spot: &Spot<'_>) -> Option<Fix> {
    let mut first = spot.name_at(spot.at)?;
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
fn renamed_key(message: &str, spot: &Spot<'_>) -> Option<Fix> {
    let (_, rest) = message.split_once("unknown key `")?;
    let (old, rest) = rest.split_once('`')?;
    let new = ["here it is `", "did you mean `"].iter().find_map(|words| rest.split_once(words))?.1;
    let new = new.split('`').next()?;
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

/// Removes a capability from the list in the opening comment.
fn unused_capability(spot: &Spot<'_>) -> Option<Fix> {
    let name = spot.name_at(spot.at)?;
    let capability = spot.source[name.clone()].to_owned();
    let title = format!("Remove `{capability}`");
    let row = spot.row();
    let (_, list) = row.split_once("requirements:")?;
    if list.trim() == capability {
        // The whole line is removed, unless the comment begins or ends in it.
        let is_alone = row.trim_start_matches([' ', '\t', '*']).starts_with("requirements:");
        let end = spot.line.end + usize::from(spot.source[spot.line.end..].starts_with('\n'));
        return is_alone.then(|| Fix::new(title, spot.line.start..end, ""));
    }
    let behind = &spot.source[name.end..spot.line.end];
    if let Some(rest) = behind.trim_start().strip_prefix(',') {
        let end = spot.line.end - rest.trim_start().len();
        return Some(Fix::new(title, name.start..end, ""));
    }
    let before = spot.before().trim_end().strip_suffix(',')?;
    Some(Fix::new(title, spot.line.start + before.len()..name.end, ""))
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

/// Replaces the double quotes of a text with `${…}` by backticks.
fn backticks(spot: &Spot<'_>) -> Option<Fix> {
    let text = spot.rest();
    let length = quoted(text)?;
    let inner = &text[1..length - 1];
    if inner.contains(['`', '\\']) {
        return None;
    }
    Some(Fix::new("Write the text in backticks", spot.at..spot.at + length, format!("`{inner}`")))
}

/// Returns the length of a text in double quotes at the start.
pub(super) fn quoted(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('"')?;
    let mut is_escaped = false;
    for (at, letter) in inner.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// Replaces `name.to_upper();` by `name.make_upper();`.
fn in_place(help: &str, spot: &Spot<'_>) -> Option<Fix> {
    let method = help.strip_prefix("write `make_")?.split('(').next()?;
    let old = format!("to_{method}");
    let at = spot.word(&old)?;
    Some(Fix::replace(at, &format!("make_{method}")))
}
