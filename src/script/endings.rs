//! What a hook's last line gives when a `;` stands behind it: nothing, where it is called for what it does.
//!
//! Rhai gives the value of the last statement, with a `;` or without. `body.messages.keep_last(9);` at the end
//! of an `inlet` would hand on a list in place of the body, and `body.remove("tools");` whatever was removed. So
//! behind such a call of a method, or of one of the host's functions, nothing is said to be the value: `()`.
//! Functions of the script's own stay as they are: what they give may be `skip(…)` or `error(…)`.

use super::{package, pieces};
use crate::filter::Hook;
use std::borrow::Cow;

/// Words that a statement with a block begins with.
const BLOCKS: [&str; 7] = ["if", "for", "while", "loop", "do", "switch", "try"];
/// Words that go on with one.
const GOING_ON: [&str; 3] = ["else", "catch", "until"];

/// A script whose hooks give nothing where they only seem to give something. Lines stay where they are.
pub(super) fn settled(source: &str) -> Cow<'_, str> {
    let code = pieces::code_only(source);
    let mut places = Vec::new();
    for (from, to) in bodies(&code) {
        ends_of(&code, from, to, &mut places);
    }
    if places.is_empty() {
        return source.into();
    }
    let mut settled = source.to_owned();
    places.sort_unstable();
    for place in places.into_iter().rev() {
        settled.insert_str(place, "()");
    }
    settled.into()
}

/// What stands between the braces of each hook.
fn bodies(code: &str) -> Vec<(usize, usize)> {
    let hooks = code.match_indices("fn").filter(|(at, _)| !code[..*at].ends_with(is_part));
    hooks
        .filter_map(|(at, word)| {
            let rest = &code[at + word.len()..];
            let name = rest.trim_start();
            let open = name.find('(').filter(|_| name.len() < rest.len())?;
            Hook::named(name[..open].trim_end())?;
            let open = code.len() - name.len() + open;
            let brace = closing(code, open)? + 1;
            let brace = brace + code[brace..].find('{')?;
            Some((brace + 1, closing(code, brace)?))
        })
        .collect()
}

/// Notes the places behind the last statement of a block, on every way through it, that give what nobody wants.
fn ends_of(code: &str, from: usize, to: usize, places: &mut Vec<usize>) {
    let Some((start, end)) = last_statement(code, from, to) else { return };
    let statement = &code[start..end];
    if let Some(call) = statement.strip_suffix(';') {
        if is_done_for_its_effect(code, call.trim_end()) {
            places.push(end);
        }
    } else if first_word(statement) == "if" {
        let mut at = start;
        while let Some(brace) = next_block(code, at, end) {
            let Some(close) = closing(code, brace) else { return };
            ends_of(code, brace + 1, close, places);
            at = close + 1;
        }
    }
}

/// The last statement of a block, with its `;`; none where its value was meant, since there is no `;`.
fn last_statement(code: &str, from: usize, to: usize) -> Option<(usize, usize)> {
    let (mut start, mut at, mut last) = (from, from, None);
    while at < to {
        let letter = code.as_bytes()[at];
        let ends = match letter {
            b'(' | b'[' | b'{' => {
                let is_block = letter == b'{' && !code[..at].ends_with('#');
                at = closing(code, at)?;
                is_block
                    && BLOCKS.contains(&first_word(code[start..].trim_start()))
                    && !GOING_ON.contains(&first_word(code[at + 1..].trim_start()))
            }
            letter => letter == b';',
        };
        at += 1;
        if ends {
            let begin = start + code[start..at].len() - code[start..at].trim_start().len();
            last = (code[begin..at].len() > 1).then_some((begin, at)).or(last);
            start = at;
        }
    }
    last.filter(|_| code[start..to].trim().is_empty())
}

/// The next block of an `if` and what goes on with it; maps in its conditions are none.
fn next_block(code: &str, from: usize, to: usize) -> Option<usize> {
    let mut at = from;
    while at < to {
        match code.as_bytes()[at] {
            b'{' if !code[..at].ends_with('#') => return Some(at),
            b'(' | b'[' | b'{' => at = closing(code, at)? + 1,
            _ => at += 1,
        }
    }
    None
}

/// `body.messages.keep_last(9)`, `kv::incr("asked")`
fn is_done_for_its_effect(code: &str, call: &str) -> bool {
    let Some(open) = call.ends_with(')').then(|| opening(call)).flatten() else { return false };
    let before = call[..open].trim_end();
    let name = &before[before.rfind(|letter| !is_part(letter)).map_or(0, |at| at + 1)..];
    let caller = before[..before.len() - name.len()].trim_end();
    // A value is given, or two are compared.
    if name.is_empty() || has_operator(caller) {
        return false;
    }
    if caller.ends_with("::") {
        let module = first_word(caller);
        return package::modules().iter().any(|(known, _)| *known == module);
    }
    let is_own = code.match_indices(name).any(|(at, _)| {
        let function = code[..at].trim_end().strip_suffix("fn");
        function.is_some_and(|before| !before.ends_with(is_part))
            && !code[at + name.len()..].starts_with(is_part)
    });
    caller.ends_with('.') && !caller.is_empty() && !is_own && !is_keyword(first_word(caller))
}

/// Whether something else than names, dots and brackets stands there.
fn has_operator(caller: &str) -> bool {
    let (mut at, bytes) = (0, caller.as_bytes());
    while at < bytes.len() {
        match bytes[at] {
            b'(' | b'[' | b'{' => match closing(caller, at) {
                Some(close) => at = close + 1,
                None => return true,
            },
            b'.' | b':' | b'_' | b'?' | b' ' | b'\n' | b'\r' | b'\t' => at += 1,
            byte if byte.is_ascii_alphanumeric() || !byte.is_ascii() => at += 1,
            _ => return true,
        }
    }
    false
}

fn is_keyword(word: &str) -> bool {
    ["let", "const", "return", "throw", "break", "continue"].contains(&word) || BLOCKS.contains(&word)
}

fn first_word(text: &str) -> &str {
    &text[..text.find(|letter| !is_part(letter)).unwrap_or(text.len())]
}

fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The bracket that closes the one at a place.
fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_u32;
    code.bytes().enumerate().skip(open).find_map(|(at, byte)| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => return None,
        }
        (depth == 0).then_some(at)
    })
}

/// The bracket that the last one closes.
fn opening(code: &str) -> Option<usize> {
    let mut depth = 0_u32;
    code.bytes().enumerate().rev().find_map(|(at, byte)| {
        match byte {
            b')' | b']' | b'}' => depth += 1,
            b'(' | b'[' | b'{' => depth = depth.saturating_sub(1),
            _ => return None,
        }
        (depth == 0).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_for_its_effect_gives_nothing_on_every_way() {
        for (source, expected) in [
            (
                "fn inlet(body) { body.messages.keep_last(9); }",
                "fn inlet(body) { body.messages.keep_last(9);() }",
            ),
            (
                "fn outlet( body ) {\n  body.remove(\"x;}\"); // done;\n}",
                "fn outlet( body ) {\n  body.remove(\"x;}\");() // done;\n}",
            ),
            ("fn inlet(body) { kv::incr(\"n\"); }", "fn inlet(body) { kv::incr(\"n\");() }"),
            (
                "fn inlet(body) { kv::user::delete(`${a}`); }",
                "fn inlet(body) { kv::user::delete(`${a}`);() }",
            ),
            (
                "fn stream(event) { if a == #{} { x.pop(); } else if b { y.shift(); } }",
                "fn stream(event) { if a == #{} { x.pop();() } else if b { y.shift();() } }",
            ),
            (
                "fn inlet(b) { for m in b.messages { m.pop(); } b.messages[0].content.trim(); }",
                "fn inlet(b) { for m in b.messages { m.pop(); } b.messages[0].content.trim();() }",
            ),
        ] {
            assert_eq!(settled(source), expected);
        }
    }

    #[test]
    fn what_is_meant_to_be_given_stays() {
        for source in [
            "fn inlet(body) { body.messages.keep_last(9) }",
            "fn inlet(body) { body; }",
            "fn inlet(body) { error(\"no\"); }",
            "fn inlet(body) { if bad(body) { refuse(); } }",
            "fn inlet(body) { body.refuse(); } fn refuse() { error(\"no\") }",
            "fn inlet(body) { guard::refuse(\"no\"); }",
            "fn inlet(body) { return body.copy(); }",
            "fn inlet(body) { let x = body.copy(); }",
            "fn inlet(body) { body.x = body.copy(); }",
            "fn inlet(body) { x.y() == z.w(); }",
            "fn helper(body) { body.pop(); }",
            "fn stream(event) { [event.copy()]; }",
            "fn inlet(body) { if a { body.pop(); } body }",
            "fn inlet(body) { ",
            "fn inlet(",
            "fn inlet",
            "// fn inlet(body) { body.pop(); }",
        ] {
            assert_eq!(settled(source), source);
        }
    }
}
