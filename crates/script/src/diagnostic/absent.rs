//! Finds the name of a missing value in the source when a run fails because of `()`.

use valvehouse_dialect::answer::{Operand, ThrownError};

use rhai::{EvalAltResult, Position};

/// The maximum length of a shown name, in bytes.
const MAX_NAME: usize = 80;

/// Returns the expression whose value `()` caused the error: `body.metadata` in `body.metadata.seen = true`.
pub(super) fn name_of<'a>(error: &EvalAltResult, source: &'a str, position: Position) -> Option<&'a str> {
    let line = source.lines().nth(position.line()?.checked_sub(1)?)?;
    let column = position.position()?.checked_sub(1)?;
    let at = line.char_indices().nth(column).map(|(at, _)| at)?;
    let (before, behind) = line.split_at(at);
    let (before, behind) = (before.trim_end(), behind.trim_start());
    let name = match error {
        EvalAltResult::ErrorDotExpr(text, _) if text.contains("for type '()'") => {
            chain_before(without_dot(before))
        }
        EvalAltResult::ErrorIndexingType(text, _) if text.starts_with("() [") => chain_before(before),
        EvalAltResult::ErrorFunctionNotFound(signature, _) => {
            let (name, kinds) = signature.split_once(" (")?;
            let is_first = kinds.starts_with("()");
            match name.starts_with(|letter: char| letter.is_alphabetic() || letter == '_') {
                true if !is_first => None,
                true if before.ends_with('.') => chain_before(without_dot(before)),
                true => chain_after(behind.strip_prefix(name)?.trim_start().strip_prefix('(')?),
                false if is_first => chain_before(before),
                false if kinds.ends_with(", ())") => chain_after(without_operator(behind)),
                false => None,
            }
        }
        EvalAltResult::ErrorRuntime(value, _) => {
            let thrown = value.read_lock::<ThrownError>()?;
            match thrown.absent? {
                Operand::Left => chain_before(before),
                Operand::Right => chain_after(without_operator(behind)),
            }
        }
        _ => None,
    };
    name.filter(|name| {
        name.len() <= MAX_NAME && name.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
    })
}

fn without_dot(text: &str) -> &str {
    let text = text.strip_suffix('.').unwrap_or(text);
    text.strip_suffix('?').unwrap_or(text).trim_end()
}

fn without_operator(text: &str) -> &str {
    text.trim_start_matches(['<', '>', '=', '+', '-', '*', '/', '%', '!']).trim_start()
}

fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '.' | '?' | ':')
}

/// Returns the chain of properties and indexes at the end of a text.
fn chain_before(text: &str) -> Option<&str> {
    let mut begin = text.len();
    let mut open = 0_usize;
    for (at, letter) in text.char_indices().rev() {
        match letter {
            ']' | ')' => open += 1,
            '[' | '(' if open > 0 => open -= 1,
            _ if open > 0 || is_part(letter) => {}
            _ => break,
        }
        begin = at;
    }
    Some(&text[begin..]).filter(|chain| open == 0 && !chain.is_empty())
}

/// Returns the chain of properties and indexes at the start of a text.
fn chain_after(text: &str) -> Option<&str> {
    let mut end = 0;
    let mut open = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '[' | '(' => open += 1,
            ']' | ')' if open > 0 => open -= 1,
            _ if open > 0 || is_part(letter) => {}
            _ => break,
        }
        end = at + letter.len_utf8();
    }
    Some(&text[..end]).filter(|chain| open == 0 && !chain.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_chain_ends_with_its_expression() {
        for (text, chain) in [
            ("    body.metadata", "body.metadata"),
            ("if x > 1 && body.messages[0].nope", "body.messages[0].nope"),
            ("let t = f(a, b).c", "f(a, b).c"),
            ("let t = (1 + body?.x", "body?.x"),
        ] {
            assert_eq!(chain_before(text), Some(chain), "{text}");
        }
        assert_eq!(chain_before("x = "), None);
        assert_eq!(chain_before("a]"), None);
        assert_eq!(chain_after("body.options.limit { x }"), Some("body.options.limit"));
        assert_eq!(chain_after("x[\"a b\"]) + 1"), Some("x[\"a b\"]"));
        assert_eq!(chain_after("{"), None);
    }
}
