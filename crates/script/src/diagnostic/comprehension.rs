//! List comprehensions and generators of Python, as chains of `filter` and `map`.

use std::ops::Range;
use valvehouse_dialect::syntax::spans::is_part;

/// Returns the comprehension around a byte of a line: its range, with the brackets and a function such as `any`, and
/// what to write instead.
pub fn in_row(row: &str, at: usize) -> Option<(Range<usize>, String)> {
    let word = at + row.get(at..)?.find("for ").filter(|skipped| *skipped < 2)?;
    let open = opening(row, word)?;
    let close = closing(row, open)?;
    let (element, rest) = (row[open + 1..word].trim(), &row[word + "for ".len()..close]);
    let (variable, rest) = rest.split_once(" in ")?;
    let (list, condition) = match rest.rsplit_once(" if ") {
        Some((list, condition)) => (list.trim(), Some(condition.trim())),
        None => (rest.trim(), None),
    };
    let variable = variable.trim();
    let is_nested = [element, list].iter().any(|part| part.is_empty() || part.contains(" for "));
    if is_nested || !variable.chars().all(is_part) {
        return None;
    }
    let mut chain = list.to_owned();
    if let Some(condition) = condition {
        chain.push_str(&format!(".filter(|{variable}| {condition})"));
    }
    let begins = match row[open..].starts_with('(') {
        true => row[..open].trim_end_matches(is_part).len(),
        false => open,
    };
    let function = &row[begins..open];
    let method = match function {
        "any" => "some",
        "all" => "all",
        _ => "map",
    };
    if method != "map" || element != variable {
        chain.push_str(&format!(".{method}(|{variable}| {element})"));
    }
    let instead = match function {
        "" | "any" | "all" => chain,
        function => format!("{function}({chain})"),
    };
    Some((begins..close + 1, instead))
}

/// Returns the last bracket before a byte that is still open there.
fn opening(row: &str, at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, letter) in row[..at].char_indices().rev() {
        match letter {
            ')' | ']' | '}' => depth += 1,
            '(' | '[' | '{' if depth > 0 => depth -= 1,
            '(' | '[' => return Some(place),
            '{' | ';' => return None,
            _ => {}
        }
    }
    None
}

/// Returns the bracket that closes the one at a byte.
pub(super) fn closing(row: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, letter) in row[open..].char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Some(open + place);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::in_row;

    #[test]
    fn a_comprehension_becomes_a_chain() {
        for (row, instead) in [
            ("let l = [x * 2 for x in list];", "list.map(|x| x * 2)"),
            (
                "let l = [m for m in body.messages if m.role == \"user\"];",
                "body.messages.filter(|m| m.role == \"user\")",
            ),
            ("if any(w in t for w in [\"a\", \"b\"]) {", "[\"a\", \"b\"].some(|w| w in t)"),
            (
                "let n = sum(len(m.content) for m in body.messages);",
                "sum(body.messages.map(|m| len(m.content)))",
            ),
            ("let t = text::join([f(a, [1]) for a in b], \", \");", "b.map(|a| f(a, [1]))"),
        ] {
            let at = row.find("for ").unwrap();
            assert_eq!(in_row(row, at).map(|(_, text)| text).as_deref(), Some(instead), "{row}");
        }
        for row in [
            "for x in list {",
            "f(1); for x in list { g(x) }",
            "[a for a in b for b in c]",
            "let l = [a for (a, b) in c];",
        ] {
            let at = row.find("for ").unwrap();
            assert_eq!(in_row(row, at), None, "{row}");
        }
    }
}
