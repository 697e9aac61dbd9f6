//! Discards the value of a hook's last statement if a `;` follows it and it is a call with side effects.
//!
//! Rhai returns the value of the last statement, with or without a `;`. A final `body.messages.keep_last(9);` in an
//! `inlet` would return a list instead of the body, and `body.remove("tools");` the removed value. A `()` is
//! therefore inserted after such a call of a method or of a host function. Functions of the script itself are
//! excluded, because they may return `skip(…)` or `error(…)`.

use std::borrow::Cow;
use std::collections::HashSet;
use valvehouse_core::filter::Hook;
use valvehouse_dialect::syntax::spans;
use valvehouse_script_std::functions;

/// Keywords of statements with a block.
const BLOCKS: [&str; 7] = ["if", "for", "while", "loop", "do", "switch", "try"];
/// Keywords that continue such a statement.
const GOING_ON: [&str; 3] = ["else", "catch", "until"];

/// Returns the source with `()` after the final statements of hooks whose value is not meant. Line numbers do not
/// change.
pub(crate) fn settled(source: &str) -> Cow<'_, str> {
    let code = spans::code_only(source);
    let code = Code::of(&code);
    let mut places = Vec::new();
    for (from, to) in code.bodies() {
        code.ends_of(from, to, &mut places);
    }
    if places.is_empty() {
        return source.into();
    }
    places.sort_unstable();
    let mut settled = String::with_capacity(source.len() + 2 * places.len());
    let mut from = 0;
    for place in places {
        settled.push_str(&source[from..place]);
        settled.push_str("()");
        from = place;
    }
    settled.push_str(&source[from..]);
    settled.into()
}

/// The code of a file with lookup tables; every operation takes time linear in its length, for any content.
struct Code<'a> {
    text: &'a str,
    /// The position of the matching bracket for each bracket.
    partners: Vec<Option<u32>>,
    /// The names of the file's functions.
    functions: HashSet<&'a str>,
}

impl<'a> Code<'a> {
    fn of(text: &'a str) -> Self {
        let mut partners = vec![None; text.len()];
        let mut open = Vec::new();
        for (at, byte) in (0_u32..).zip(text.bytes()) {
            match byte {
                b'(' | b'[' | b'{' => open.push(at),
                b')' | b']' | b'}' => {
                    if let Some(opened) = open.pop() {
                        partners[opened as usize] = Some(at);
                        partners[at as usize] = Some(opened);
                    }
                }
                _ => {}
            }
        }
        let functions = definitions(text).map(|(name, _)| name).collect();
        Self { text, partners, functions }
    }

    /// Returns the bracket that matches the one at a position.
    fn partner(&self, at: usize) -> Option<usize> {
        self.partners[at].map(|partner| partner as usize)
    }

    /// Returns the byte range between the braces of each hook.
    fn bodies(&self) -> Vec<(usize, usize)> {
        let hooks = definitions(self.text).filter(|(name, _)| Hook::from_name(name).is_some());
        let body = |(_, behind): (&str, usize)| {
            let open = self.behind_blanks(behind);
            let parameters = self.text[open..].starts_with('(').then(|| self.partner(open)).flatten()?;
            let brace = self.behind_blanks(parameters + 1);
            let close = self.text[brace..].starts_with('{').then(|| self.partner(brace)).flatten()?;
            Some((brace + 1, close))
        };
        hooks.filter_map(body).collect()
    }

    fn behind_blanks(&self, at: usize) -> usize {
        self.text.len() - self.text[at..].trim_start().len()
    }

    /// Records the positions after the last statement of a block, on every branch, where its value is not meant.
    fn ends_of(&self, from: usize, to: usize, places: &mut Vec<usize>) {
        let mut blocks = vec![(from, to)];
        while let Some((from, to)) = blocks.pop() {
            let Some((start, end)) = self.last_statement(from, to) else { continue };
            if self.text[start..end].ends_with(';') {
                if self.is_done_for_its_effect(start, end - 1) {
                    places.push(end);
                }
            } else if first_word(&self.text[start..end]) == "if" {
                let mut at = start;
                while let Some(brace) = self.next_block(at, end) {
                    let Some(close) = self.partner(brace) else { break };
                    blocks.push((brace + 1, close));
                    at = close + 1;
                }
            }
        }
    }

    /// Returns the byte range of the last statement of a block, including its `;`. Returns `None` if an expression
    /// without `;` follows: its value is meant.
    fn last_statement(&self, from: usize, to: usize) -> Option<(usize, usize)> {
        let code = self.text;
        let (mut start, mut at, mut last) = (from, from, None);
        let mut has_block = begins_with(&code[self.behind_blanks(start)..], &BLOCKS);
        while at < to {
            let letter = code.as_bytes()[at];
            let ends = match letter {
                b'(' | b'[' | b'{' => {
                    let is_block = letter == b'{' && !code[..at].ends_with('#');
                    at = self.partner(at)?;
                    is_block && has_block && !begins_with(code[at + 1..].trim_start(), &GOING_ON)
                }
                letter => letter == b';',
            };
            at += 1;
            if ends {
                let begin = start + code[start..at].len() - code[start..at].trim_start().len();
                last = (code[begin..at].len() > 1).then_some((begin, at)).or(last);
                start = at;
                has_block = begins_with(&code[self.behind_blanks(start)..], &BLOCKS);
            }
        }
        last.filter(|_| code[start..to].trim().is_empty())
    }

    /// Returns the next block of an `if` or of its continuation. Maps in conditions are not blocks.
    fn next_block(&self, from: usize, to: usize) -> Option<usize> {
        let mut at = from;
        while at < to {
            match self.text.as_bytes()[at] {
                b'{' if !self.text[..at].ends_with('#') => return Some(at),
                b'(' | b'[' | b'{' => at = self.partner(at)? + 1,
                _ => at += 1,
            }
        }
        None
    }

    /// Returns `true` for a call such as `body.messages.keep_last(9)` or `kv::incr("asked")`.
    fn is_done_for_its_effect(&self, start: usize, end: usize) -> bool {
        let call = self.text[start..end].trim_end();
        let close = (start + call.len()).saturating_sub(1);
        let open = call.ends_with(')').then(|| self.partner(close)).flatten();
        let Some(open) = open.filter(|open| *open >= start) else { return false };
        let before = self.text[start..open].trim_end();
        let name = &before[before.rfind(|letter| !is_part(letter)).map_or(0, |at| at + 1)..];
        let caller = before[..before.len() - name.len()].trim_end();
        // The statement returns a value or compares two.
        if name.is_empty() || self.has_operator(start, start + caller.len()) {
            return false;
        }
        if caller.ends_with("::") {
            let module = first_word(caller);
            return functions::modules().iter().any(|(known, _)| *known == module);
        }
        caller.ends_with('.') && !self.functions.contains(name) && !is_keyword(first_word(caller))
    }

    /// Returns `true` if a byte range contains anything other than names, dots and brackets.
    fn has_operator(&self, from: usize, to: usize) -> bool {
        let (mut at, bytes) = (from, self.text.as_bytes());
        while at < to {
            match bytes[at] {
                b'(' | b'[' | b'{' => match self.partner(at) {
                    Some(close) if close < to => at = close + 1,
                    _ => return true,
                },
                b'.' | b':' | b'_' | b'?' | b' ' | b'\n' | b'\r' | b'\t' => at += 1,
                byte if byte.is_ascii_alphanumeric() || !byte.is_ascii() => at += 1,
                _ => return true,
            }
        }
        false
    }
}

/// Returns the name after each `fn`, and its end.
fn definitions(code: &str) -> impl Iterator<Item = (&str, usize)> {
    let words = code.match_indices("fn").filter(|(at, _)| !code[..*at].ends_with(is_part));
    words.filter_map(|(at, word)| {
        let rest = &code[at + word.len()..];
        let behind = rest.trim_start();
        let name = first_word(behind);
        (behind.len() < rest.len() && !name.is_empty())
            .then(|| (name, code.len() - behind.len() + name.len()))
    })
}

fn begins_with(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_part)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_final_call_with_a_semicolon_returns_nothing() {
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
    fn a_meaningful_final_value_is_returned() {
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
