//! Fixes of syntax from Python or JavaScript.

use super::edit::{Fix, Spot, is_part};
use super::semantics::quoted;
use valvehouse_script::diagnostic::{Code, Diagnostic, comprehension, signature};

/// Functions of other languages that have another name here.
const RENAMED: [(&str, &str); 10] = [
    ("startsWith", "starts_with"),
    ("endsWith", "ends_with"),
    ("toLowerCase", "to_lower"),
    ("toUpperCase", "to_upper"),
    ("includes", "contains"),
    ("has_key", "contains"),
    ("length", "len"),
    ("size", "len"),
    ("toString", "to_string"),
    ("substr", "sub_string"),
];

pub(super) fn fix(problem: &Diagnostic, spot: &Spot<'_>) -> Option<Fix> {
    let message = problem.message.as_str();
    match problem.code {
        Code::UnknownFunction if message.ends_with("it is a variable") => {
            let name = spot.name_at(spot.at)?;
            Some(Fix::new("Write `.call`", name.end..name.end, ".call"))
        }
        Code::UnknownFunction => {
            let name = spot.name_at(spot.at)?;
            let (_, new) = RENAMED.iter().find(|(old, _)| *old == &spot.source[name.clone()])?;
            Some(Fix::replace(name, new))
        }
        Code::ForeignSyntax => {
            of_module(problem, spot).or_else(|| of_message(message, spot)).or_else(|| of_line(message, spot))
        }
        _ => None,
    }
}

/// Replaces `http.get` by `http::get`, and the names of other languages by those of the host.
fn of_module(problem: &Diagnostic, spot: &Spot<'_>) -> Option<Fix> {
    let help = problem.help.as_deref()?;
    let path = match help.strip_prefix("write `::` before a function of a module: `") {
        Some(rest) => rest.strip_suffix('`')?,
        // The same arguments in the same order.
        None => help.strip_prefix("write `")?.split_once('(').map(|(path, _)| path).filter(|path| {
            ["json::stringify", "json::parse", "time::unix", "random::int", "random::float", "base64::encode"]
                .contains(path)
        })?,
    };
    let module = spot.name_at(spot.at)?;
    let dot = module.end;
    let name = spot.source[dot..].starts_with('.').then(|| spot.name_at(dot + 1)).flatten()?;
    let is_function = !path.contains(' ') && path.starts_with(&spot.source[module.clone()]);
    is_function.then(|| Fix::replace(module.start..name.end, path))
}

fn of_message(message: &str, spot: &Spot<'_>) -> Option<Fix> {
    let word = |old: &str, new: &str| spot.word(old).map(|at| Fix::replace(at, new));
    let sign = |old: &str, new: &str| spot.sign(old).map(|at| Fix::replace(at, new));
    match message.strip_prefix("undefined variable: ") {
        Some(nothing @ ("null" | "nil" | "undefined" | "none")) => return nothing_of(nothing, spot),
        Some("elif") => return word("elif", "else if"),
        Some("self") if spot.rest().starts_with("self.valves") => {
            return Some(Fix::new("Remove `self.`", spot.at..spot.at + "self.".len(), ""));
        }
        _ => {}
    }
    match message {
        "unknown keyword `elif`" => word("elif", "else if"),
        "unknown keyword `raise`" => raise(spot),
        "unknown keyword `lambda`" => lambda(spot),
        "unknown keyword `async`" => {
            let at = spot.word("async")?;
            Some(Fix::new("Remove `async`", at.start..at.end + 1, ""))
        }
        "unknown keyword `await`" => {
            let at = spot.word("await")?;
            Some(Fix::new("Remove `await`", at.start..at.end + 1, ""))
        }
        "unknown operator `===`" => sign("===", "=="),
        "unknown operator `!==`" => sign("!==", "!="),
        "unknown operator `++`" => step(spot, "++", "+="),
        "unknown operator `--`" => step(spot, "--", "-="),
        "unknown keyword `var`" => word("var", "let"),
        "cannot read JavaScript: a script is written in Rhai"
            if spot.row().trim_start().starts_with("function ") =>
        {
            word("function", "fn")
        }
        "a variable has no declared type" => declared_type(spot),
        "unknown keyword `is`" => is(spot),
        "unknown prefix `f` of a text" => filled(spot),
        "invalid declaration of a variable" => {
            let before = spot.before().trim_end();
            let start = before.rfind(|letter| !is_part(letter)).map_or(0, |at| at + 1);
            let start = spot.line.start + start;
            Some(Fix::replace(start..spot.line.start + before.len(), "let"))
        }
        "`:` is not a range" => range(spot),
        "`=` assigns and is not a condition" => {
            (spot.source[spot.at..].starts_with('=')).then(|| Fix::replace(spot.at..spot.at + 1, "=="))
        }
        "`//` begins a comment" => {
            let at = spot.at + spot.rest().find("//")?;
            Some(Fix::replace(at..at + 2, "/"))
        }
        "three quotes do not begin a text of several lines" => three_quotes(spot),
        "a comment begins with `//`" => {
            let at = spot.sign("#")?;
            Some(Fix::replace(at, "//"))
        }
        "single quotes are for one character" => single_quotes(spot),
        "unknown operator `?`" => ternary(spot),
        "the condition must precede the values" => conditional(spot),
        "`for` needs brackets around two variables" => two_variables(spot),
        "`{` starts a block, not a map" => map(spot),
        "invalid closure: `=>` is only for `switch`" => arrow(spot),
        "list comprehensions are not supported" => {
            let (at, text) = comprehension(spot.row(), spot.at - spot.line.start)?;
            Some(spot.replace_in_line(at, &text))
        }
        "a parameter has no type or default" => {
            let (at, names) = signature(spot.row(), spot.at - spot.line.start)?;
            Some(spot.replace_in_line(at, &format!("({names})")))
        }
        _ => None,
    }
}

/// Fixes `x++`.
fn step(spot: &Spot<'_>, sign: &str, operator: &str) -> Option<Fix> {
    let at = spot.sign(sign)?;
    Some(Fix::new(format!("Write `{operator} 1`"), at, format!(" {operator} 1")))
}

/// Fixes `let x: int = 5;`.
fn declared_type(spot: &Spot<'_>) -> Option<Fix> {
    let rest = &spot.code[spot.at..spot.line.end];
    let end = rest.find('=').or_else(|| rest.find(';'))?;
    let length = rest[..end].trim_end().len();
    Some(Fix::new("Remove the type", spot.at..spot.at + length, ""))
}

/// Removes a line that is not needed.
fn of_line(message: &str, spot: &Spot<'_>) -> Option<Fix> {
    let is_import = message == "the host's modules are available without an import";
    let row = spot.row().trim();
    let is_here = is_import && (row.starts_with("import ") || row.starts_with("from "))
        || message == "unknown keyword `pass`" && row == "pass";
    let title = if is_import { "Remove the import" } else { "Remove `pass`" };
    let end = spot.line.end + usize::from(spot.source[spot.line.end..].starts_with('\n'));
    is_here.then(|| Fix::new(title, spot.line.start..end, ""))
}

/// Replaces the word by `()`, also in `x is None`.
fn nothing_of(word: &str, spot: &Spot<'_>) -> Option<Fix> {
    spot.word(word).map(|at| Fix::replace(at, "()"))
}

/// Fixes `x is None` and `x is not None`.
fn is(spot: &Spot<'_>) -> Option<Fix> {
    let at = spot.word("is")?;
    let rest = &spot.code[at.end..spot.line.end];
    let behind = rest.trim_start();
    if let Some(rest) = behind.strip_prefix("not ") {
        let end = spot.line.end - rest.len() - 1;
        return Some(Fix::replace(at.start..end, "!="));
    }
    Some(Fix::replace(at, "=="))
}

/// Fixes `raise "why"` and `raise Exception("why")`; an error with a status has another form here.
fn raise(spot: &Spot<'_>) -> Option<Fix> {
    let at = spot.word("raise")?;
    let rest = &spot.source[at.end..spot.line.end];
    let begins = rest.len() - rest.trim_start().len();
    let name = rest[begins..].split(|letter| !is_part(letter)).next()?;
    let Some(reason) = rest[begins + name.len()..].strip_prefix('(').filter(|_| !name.is_empty()) else {
        return Some(Fix::replace(at, "throw"));
    };
    let close = reason.rfind(')')?;
    let is_whole = reason[close + 1..].trim_end_matches([' ', '}']) == ";";
    let is_plain = is_whole && name != "HTTPException" && !reason[..close].is_empty();
    let end = spot.line.end - (reason.len() - close) + 1;
    is_plain.then(|| Fix::replace(at.start..end, &format!("throw {}", &reason[..close])))
}

/// Fixes `lambda a, b: a + b`.
fn lambda(spot: &Spot<'_>) -> Option<Fix> {
    let at = spot.word("lambda")?;
    let rest = &spot.code[at.end..spot.line.end];
    let colon = rest.find(':')?;
    let params = rest[..colon].trim();
    let are_names = params.chars().all(|letter| is_part(letter) || ", ".contains(letter));
    are_names.then(|| Fix::replace(at.start..at.end + colon + 1, &format!("|{params}|")))
}

/// Replaces `f"Hello {name}"` by a text in backticks.
fn filled(spot: &Spot<'_>) -> Option<Fix> {
    let row = spot.row();
    let from = (0..row.len()).filter(|at| {
        let is_text = row.get(*at..).is_some_and(|rest| rest.starts_with("f\""));
        is_text && !row[..*at].ends_with(is_part)
    });
    let start = from.min_by_key(|at| (spot.line.start + at).abs_diff(spot.at))?;
    let length = quoted(&row[start + 1..])?;
    let inner = &row[start + 2..start + length];
    // A format specifier, an escaped bracket or a nested text needs more than other brackets.
    if inner.contains(['`', '\\', ':', '!', '$', '\'']) || inner.contains("{{") || inner.contains("}}") {
        return None;
    }
    let start = spot.line.start + start;
    Some(Fix::new(
        "Write the text in backticks",
        start..start + length + 1,
        format!("`{}`", inner.replace('{', "${")),
    ))
}

/// Turns the text in three quotes at the start of a file into a comment.
fn three_quotes(spot: &Spot<'_>) -> Option<Fix> {
    const QUOTES: &str = "\"\"\"";
    let open = spot.line.start + spot.row().find(QUOTES)?;
    let is_first = spot.source[..open].trim_start_matches('\u{feff}').trim().is_empty();
    let close = open + QUOTES.len() + spot.source[open + QUOTES.len()..].find(QUOTES)?;
    let inner = &spot.source[open + QUOTES.len()..close];
    (is_first && !inner.contains("*/")).then(|| {
        let fix = Fix::new("Write the description as a comment", open..open + QUOTES.len(), "/*");
        fix.and(close..close + QUOTES.len(), "*/")
    })
}

/// Fixes `[1:3]`, `[-4:]` and `[:3]` of a list or a text.
fn range(spot: &Spot<'_>) -> Option<Fix> {
    let row = spot.code_row();
    let column = spot.at - spot.line.start;
    let colons = row.match_indices(':').map(|(at, _)| at);
    let colon = colons.min_by_key(|at| at.abs_diff(column))?;
    let open = row[..colon].rfind('[')?;
    let close = colon + row[colon..].find(']')?;
    let (from, to) = (row[open + 1..colon].trim(), row[colon + 1..close].trim());
    let is_bound = |bound: &str| bound.chars().all(|letter| is_part(letter) || "-.".contains(letter));
    if !is_bound(from) || !is_bound(to) || from.is_empty() && to.is_empty() {
        return None;
    }
    let part = match (from, to) {
        // `[:-1]` needs the length of the value.
        (_, to) if to.starts_with('-') => return None,
        (from, "") => from.to_owned(),
        ("", to) => format!("0..{to}"),
        // The end is relative to a start from the end.
        (from, _) if from.starts_with('-') => return None,
        (from, to) => format!("{from}..{to}"),
    };
    let start = spot.line.start;
    Some(Fix::replace(start + open..start + close + 1, &format!(".extract({part})")))
}

/// Fixes `'abc'`.
fn single_quotes(spot: &Spot<'_>) -> Option<Fix> {
    let row = spot.row();
    let column = spot.at - spot.line.start;
    let open = row.match_indices('\'').map(|(at, _)| at).min_by_key(|at| at.abs_diff(column))?;
    let close = open + 1 + row[open + 1..].find('\'')?;
    let inner = &row[open + 1..close];
    let start = spot.line.start;
    (!inner.contains(['"', '\\']))
        .then(|| Fix::replace(start + open..start + close + 1, &format!("\"{inner}\"")))
}

/// Returns the value after `=` or `return`, up to the end of a statement in this line.
fn value<'a>(spot: &Spot<'a>) -> Option<(std::ops::Range<usize>, &'a str)> {
    let code = spot.code_row();
    let assigned = code.find(" = ").map(|at| at + 3);
    let returned = code.find("return ").map(|at| at + 7);
    let start = assigned.or(returned)?;
    let end = start + code[start..].find(';')?;
    (start < end).then(|| {
        let at = spot.line.start + start..spot.line.start + end;
        (at.clone(), &spot.source[at])
    })
}

/// Fixes `let x = a ? b : c;`.
fn ternary(spot: &Spot<'_>) -> Option<Fix> {
    let (at, text) = value(spot)?;
    let code = &spot.code[at.clone()];
    let (question, colon) = (code.find(" ? ")?, code.rfind(" : ")?);
    let is_one = code.matches('?').count() == 1 && code.matches(" : ").count() == 1 && question < colon;
    let (condition, yes, no) = (&text[..question], text.get(question + 3..colon)?, &text[colon + 3..]);
    is_one.then(|| {
        Fix::new("Write `if … { … } else { … }`", at, format!("if {condition} {{ {yes} }} else {{ {no} }}"))
    })
}

/// Fixes `let x = a if c else b;`.
fn conditional(spot: &Spot<'_>) -> Option<Fix> {
    let (at, text) = value(spot)?;
    let code = &spot.code[at.clone()];
    let (begin, other) = (code.find(" if ")?, code.rfind(" else ")?);
    let is_one = code.matches(" if ").count() == 1 && code.matches(" else ").count() == 1 && begin < other;
    let (yes, condition, no) = (&text[..begin], text.get(begin + 4..other)?, &text[other + 6..]);
    is_one.then(|| {
        Fix::new("Write `if … { … } else { … }`", at, format!("if {condition} {{ {yes} }} else {{ {no} }}"))
    })
}

/// Fixes `for k, v in map {`.
fn two_variables(spot: &Spot<'_>) -> Option<Fix> {
    let code = spot.code_row();
    let names = code.find("for ")? + 4;
    let within = names + code[names..].find(" in ")?;
    let start = spot.line.start;
    let text = format!("({})", code[names..within].trim());
    Some(Fix::replace(start + names..start + within, &text))
}

/// Fixes `{ "key": value }`.
fn map(spot: &Spot<'_>) -> Option<Fix> {
    let open = spot.source[spot.line.start..spot.at].rfind('{')? + spot.line.start;
    Some(Fix::replace(open..open + 1, "#{"))
}

/// Fixes `(x) => x * 2` and `x => x * 2`.
fn arrow(spot: &Spot<'_>) -> Option<Fix> {
    let at = spot.sign("=>")?;
    let before = spot.code[spot.line.start..at.start].trim_end();
    let start = match before.strip_suffix(')') {
        Some(inner) => inner.rfind('(')?,
        None => before.rfind(|letter| !is_part(letter)).map_or(0, |at| at + 1),
    };
    let params = before[start..].trim_matches(['(', ')']).trim();
    let are_names = params.chars().all(|letter| is_part(letter) || ", ".contains(letter));
    are_names.then(|| Fix::replace(spot.line.start + start..at.end, &format!("|{params}|")))
}
