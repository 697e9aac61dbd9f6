//! Fixes of syntax from Python or JavaScript.

use valvehouse_script::diagnostic::{Fix, Spot, Syntax, comprehension, is_part, quoted, signature};

pub(super) fn fix(syntax: Syntax, spot: &Spot<'_>) -> Option<Fix> {
    match syntax {
        Syntax::Arrow => arrow(spot),
        Syntax::AssignedCondition => {
            spot.rest().starts_with('=').then(|| Fix::replace(spot.at..spot.at + 1, "=="))
        }
        Syntax::BraceMap => map(spot),
        Syntax::Comprehension => {
            let (at, text) = comprehension(spot.row(), spot.at - spot.line.start)?;
            Some(spot.replace_in_line(at, &text))
        }
        Syntax::Conditional => conditional(spot),
        Syntax::Declaration => {
            let before = spot.before().trim_end();
            let start = before.rfind(|letter| !is_part(letter)).map_or(0, |at| at + 1);
            Some(spot.replace_in_line(start..before.len(), "let"))
        }
        Syntax::Decrement => step(spot, "--", "-="),
        Syntax::Divisor => {
            let at = spot.at + spot.rest().find("//")?;
            Some(Fix::replace(at..at + 2, "/"))
        }
        Syntax::Filled => filled(spot),
        Syntax::Increment => step(spot, "++", "+="),
        Syntax::Is => is(spot),
        Syntax::Lambda => lambda(spot),
        Syntax::Raise => raise(spot),
        Syntax::Signature => {
            let (at, names) = signature(spot.row(), spot.at - spot.line.start)?;
            Some(spot.replace_in_line(at, &format!("({names})")))
        }
        Syntax::SingleQuotes => single_quotes(spot),
        Syntax::Slice => range(spot),
        Syntax::Ternary => ternary(spot),
        Syntax::ThreeQuotes => three_quotes(spot),
        Syntax::TwoVariables => two_variables(spot),
        Syntax::Type => declared_type(spot),
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
