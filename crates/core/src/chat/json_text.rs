//! Changes of JSON texts, such as arguments of calls: what a filter writes in place of a number becomes a string, so that
//! the text stays valid JSON.

use std::borrow::Cow;
use valvehouse_json::Json;

/// The state of a text that arrives in parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum JsonText {
    #[default]
    Start,
    Outside,
    Text,
    Escape,
    /// In a number or a word.
    Scalar,
    /// In the text that replaces a value.
    Quoted,
    /// In such a text that begins with a bracket, and ends with the other one.
    Bracketed,
    /// The text is not a JSON object.
    Other,
}

impl JsonText {
    const ALL: [Self; 8] = [
        Self::Start,
        Self::Outside,
        Self::Text,
        Self::Escape,
        Self::Scalar,
        Self::Quoted,
        Self::Bracketed,
        Self::Other,
    ];

    /// Returns the state in a stored lane. Most texts are no JSON, and their lanes store none.
    pub(super) fn load(stored: &Json) -> Self {
        if stored.is_null() {
            return Self::Start;
        }
        let place = stored.integer("json").and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| Self::ALL.get(place)).copied().unwrap_or(Self::Other)
    }

    pub(super) fn store(self, stored: &Json) {
        if self != Self::Other {
            stored.edit("json", self as usize);
        }
    }

    /// Returns the next part of a text. In a changed part, values that are not valid JSON are quoted.
    pub(super) fn read<'a>(&mut self, part: &'a str, is_changed: bool) -> Cow<'a, str> {
        let is_other = |first: char| *self == Self::Start && first != '{';
        if part.trim_start_matches([' ', '\n', '\r', '\t']).chars().next().is_some_and(is_other) {
            *self = Self::Other;
        }
        if *self == Self::Other {
            return part.into();
        }
        // The start of a number or a word that begins in this part.
        let (mut out, mut start) = (String::with_capacity(part.len() + 2), None);
        let mut letters = part.chars().peekable();
        while let Some(letter) = letters.next() {
            *self = match (*self, letter) {
                (Self::Start, '{') => Self::Outside,
                (Self::Text, '\\') => Self::Escape,
                (Self::Outside, '"') => Self::Text,
                (Self::Text, '"') => Self::Outside,
                (Self::Text | Self::Escape, _) => Self::Text,
                (Self::Outside, '[') if is_changed && !letters.peek().is_none_or(|next| begins(*next)) => {
                    out.push('"');
                    Self::Bracketed
                }
                (Self::Outside, '{' | '}' | '[' | ']' | ',' | ':' | ' ' | '\n' | '\r' | '\t') => {
                    Self::Outside
                }
                (Self::Outside, _) => {
                    start = Some(out.len());
                    Self::Scalar
                }
                (Self::Scalar, ',' | '}' | ']' | ' ' | '\n' | '\r' | '\t') => {
                    match start.take().filter(|start| Json::parse(&out.as_bytes()[*start..]).is_err()) {
                        None => Self::Outside,
                        Some(_) if !is_changed => {
                            *self = Self::Other;
                            return part.into();
                        }
                        // A space belongs to the text.
                        Some(at) if letter.is_whitespace() => {
                            start = Some(at);
                            Self::Scalar
                        }
                        Some(at) => {
                            let value = Json::from(&out[at..]).to_string();
                            out.replace_range(at.., &value);
                            Self::Outside
                        }
                    }
                }
                // The begin of the value was sent.
                (Self::Scalar, _) if is_changed && start.is_none() && !is_scalar(letter) => continue,
                (Self::Quoted, ',' | '}' | ']') => {
                    out.push('"');
                    Self::Outside
                }
                (Self::Bracketed, ']') => {
                    out.push_str("]\"");
                    *self = Self::Outside;
                    continue;
                }
                (state, _) => state,
            };
            out.push(letter);
        }
        if let Some(at) = start.filter(|at| is_changed && !out[*at..].chars().all(is_scalar)) {
            out.insert(at, '"');
            *self = Self::Quoted;
        }
        out.into()
    }
}

/// Returns `true` if a value in a list can begin with this letter.
fn begins(letter: char) -> bool {
    matches!(letter, '"' | '[' | '{' | ']' | '-' | 't' | 'f' | 'n')
        || letter.is_ascii_digit()
        || letter.is_whitespace()
}

/// Returns `true` for the letters of numbers, `true`, `false` and `null`.
fn is_scalar(letter: char) -> bool {
    letter.is_ascii_digit() || "+-.eEtrufalsn".contains(letter)
}

/// Returns a text that a filter changed, as valid JSON if it was a JSON object before.
pub(super) fn valid<'a>(before: &str, text: &'a str) -> Cow<'a, str> {
    let is_valid = |text: &str| Json::parse(text.as_bytes()).is_ok();
    if !before.trim_start().starts_with('{') || is_valid(text) || !is_valid(before) {
        return text.into();
    }
    let valid = JsonText::default().read(text, true);
    if is_valid(&valid) { valid } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_a_filter_replaced_are_quoted_at_any_cut() {
        for (text, expected) in [
            (r#"{"a":[redacted],"b":***}"#, r#"{"a":"[redacted]","b":"***"}"#),
            (r#"{"a":[[redacted], 2,***],"b":"[x] \"*"}"#, r#"{"a":["[redacted]", 2,"***"],"b":"[x] \"*"}"#),
            (r#"{"a":my card,"b":true}"#, r#"{"a":"my card","b":true}"#),
            (r#"{"a":-1.5e3,"b":[1,null]}"#, r#"{"a":-1.5e3,"b":[1,null]}"#),
        ] {
            assert_eq!(valid(r#"{"a":1}"#, text), expected);
            for cut in 1..text.len() {
                let mut state = JsonText::default();
                let parts = [&text[..cut], &text[cut..]].map(|part| state.read(part, true));
                let joined = parts.concat();
                assert!(Json::parse(joined.as_bytes()).is_ok(), "{joined} {cut}");
            }
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in ["[see](x) *", "{name} is *", r#"{a: 1, b: None}"#, "a", ""] {
            assert_eq!(valid(text, text), text);
            assert_eq!(JsonText::default().read(text, false), text);
        }
        assert_eq!(valid("a", "{*}"), "{*}");
    }
}
