//! The secrets of all users of a host, redacted so that the turns of one user do not show what a script stored
//! for another.
//!
//! Users choose these values, and there can be many, so all are searched at once, independent of their number.
//! Only distinctive values count: redacting a common word would damage all texts and reveal that somebody chose
//! it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use valvehouse_json::Json;

/// The maximum number of searched secrets; the oldest are removed first.
const MAX_SECRETS: usize = 4_096;
/// The number of bytes by which a form is looked up.
const START: usize = 8;
/// The minimum length, in characters, of a secret without digits and symbols.
const LONG: usize = 16;
/// The maximum length in bytes; longer values are searched by their beginning.
const MAX_BYTES: usize = 4_096;
/// The number of bits in the prefilter.
const FILTER_BITS: usize = 1 << 20;
/// The characters that URLs leave unescaped.
const URL: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Secrets, indexed by the beginnings of their forms.
#[derive(Default)]
pub(super) struct UserSecrets {
    /// The values with their forms, in order of addition.
    order: VecDeque<(String, Vec<String>)>,
    /// The forms by their first bytes.
    by_start: HashMap<u64, Forms>,
    /// A prefilter for the first bytes of a form: if the bit is not set, no form starts there.
    filter: Vec<u64>,
}

/// Sorted forms with the same beginning. The cost at each position of a text barely depends on their number,
/// because users choose both the forms and the texts.
#[derive(Default)]
struct Forms(Vec<Form>);

struct Form {
    text: String,
    /// The index of the longest other form that is a prefix of this one.
    beginning: Option<usize>,
}

impl Forms {
    fn add(&mut self, text: &str) {
        let at = self.0.partition_point(|form| form.text.as_str() < text);
        self.0.insert(at, Form { text: text.to_owned(), beginning: None });
        self.link();
    }

    fn remove(&mut self, text: &str) {
        let at = self.0.partition_point(|form| form.text.as_str() < text);
        if self.0.get(at).is_some_and(|form| form.text == text) {
            self.0.remove(at);
            self.link();
        }
    }

    /// Recomputes the prefix links.
    fn link(&mut self) {
        // The forms that are prefixes of the last one, the longest at the end.
        let mut open: Vec<usize> = Vec::new();
        for at in 0..self.0.len() {
            while open.last().is_some_and(|last| !self.0[at].text.starts_with(&self.0[*last].text)) {
                open.pop();
            }
            self.0[at].beginning = open.last().copied();
            open.push(at);
        }
    }

    /// Returns the length of the longest form that is a prefix of these bytes.
    fn longest(&self, bytes: &[u8]) -> Option<usize> {
        // Prefixes sort before the bytes, and every form in between has those prefixes as well.
        let behind = self.0.partition_point(|form| form.text.as_bytes() <= bytes);
        let mut at = behind.checked_sub(1)?;
        let common = self.0[at].text.bytes().zip(bytes).take_while(|(one, other)| one == *other).count();
        while self.0[at].text.len() > common {
            at = self.0[at].beginning?;
        }
        Some(self.0[at].text.len())
    }

    /// Returns `true` if a form starts with these bytes.
    fn begins_with(&self, bytes: &[u8]) -> bool {
        let at = self.0.partition_point(|form| form.text.as_bytes() < bytes);
        self.0.get(at).is_some_and(|form| form.text.as_bytes().starts_with(bytes))
    }
}

/// Returns `true` if a value is unlikely to occur by chance.
fn is_distinctive(value: &str) -> bool {
    let count = value.chars().count();
    let has_sign = value.chars().any(|letter| !letter.is_alphabetic() && !letter.is_whitespace());
    value.len() >= START && count >= START && (has_sign || count >= LONG)
}

fn start_of(bytes: &[u8]) -> Option<u64> {
    bytes.get(..START)?.try_into().ok().map(u64::from_ne_bytes)
}

fn bit_of(start: u64) -> (usize, u64) {
    let mixed = start.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - FILTER_BITS.trailing_zeros());
    ((mixed / 64) as usize, 1 << (mixed % 64))
}

impl UserSecrets {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Adds a value.
    pub(super) fn add(&mut self, value: &str) {
        let end = value.char_indices().map(|(at, _)| at).find(|at| *at > MAX_BYTES).unwrap_or(value.len());
        let value = &value[..end];
        if !is_distinctive(value) || self.knows(value) {
            return;
        }
        let mut all = forms(value);
        let json = Json::from(value).to_string();
        all.push(json[1..json.len() - 1].to_owned());
        for set in [NON_ALPHANUMERIC, URL] {
            let url = utf8_percent_encode(value, set).to_string();
            all.extend([url.replace("%20", "+"), url.to_lowercase(), url]);
        }
        all.retain(|form| form.len() >= START);
        all.sort();
        all.dedup();
        self.filter.resize(FILTER_BITS / 64, 0);
        for form in &all {
            let Some(start) = start_of(form.as_bytes()) else { continue };
            self.by_start.entry(start).or_default().add(form);
            let (word, bit) = bit_of(start);
            self.filter[word] |= bit;
        }
        self.order.push_back((value.to_owned(), all));
        if self.order.len() > MAX_SECRETS {
            self.forget_first();
        }
    }

    fn knows(&self, value: &str) -> bool {
        let forms = start_of(value.as_bytes()).and_then(|start| self.by_start.get(&start));
        forms.is_some_and(|forms| forms.longest(value.as_bytes()) == Some(value.len()))
    }

    /// Removes the oldest value. The prefilter retains its bits, which costs only a second lookup.
    fn forget_first(&mut self) {
        let Some((_, forms)) = self.order.pop_front() else { return };
        for form in forms {
            let Some(start) = start_of(form.as_bytes()) else { continue };
            if let Some(known) = self.by_start.get_mut(&start) {
                known.remove(&form);
                if known.0.is_empty() {
                    self.by_start.remove(&start);
                }
            }
        }
    }

    /// Returns the forms that may start at these bytes.
    fn beginning_with(&self, bytes: &[u8]) -> Option<&Forms> {
        let start = start_of(bytes)?;
        let (word, bit) = bit_of(start);
        let is_set = self.filter.get(word).is_some_and(|bits| bits & bit != 0);
        is_set.then(|| self.by_start.get(&start)).flatten()
    }

    /// Returns the text without secrets. A secret truncated with `…` is replaced as well.
    pub(super) fn redact<'a>(&self, text: Cow<'a, str>) -> Cow<'a, str> {
        if self.is_empty() {
            return text;
        }
        let bytes = text.as_bytes();
        let mut found: Vec<(usize, usize)> = Vec::new();
        let mut cuts = text.match_indices(CUT).map(|(cut, _)| cut).peekable();
        let mut at = 0;
        while at + START <= bytes.len() {
            let length = self.beginning_with(&bytes[at..]).and_then(|forms| {
                forms.longest(&bytes[at..]).or_else(|| {
                    // The bytes before a truncation count as well, if a form starts with them.
                    while cuts.next_if(|cut| *cut < at).is_some() {}
                    let before = bytes.get(at..*cuts.peek()?).filter(|before| before.len() >= START)?;
                    forms.begins_with(before).then_some(before.len())
                })
            });
            found.extend(length.map(|length| (at, at + length)));
            at += length.unwrap_or(1);
        }
        if found.is_empty() {
            return text;
        }
        let (mut out, mut from) = (String::with_capacity(text.len()), 0);
        for (start, end) in found {
            out.push_str(&text[from..start]);
            out.push_str(REDACTED);
            from = end;
        }
        out.push_str(&text[from..]);
        out.into()
    }
}

/// The replacement for a secret.
pub(super) const REDACTED: &str = "***";
/// The mark of a truncated text.
pub(super) const CUT: char = '…';

/// Returns the encodings of a secret without escapes: plain, hexadecimal and base64.
pub(super) fn forms(secret: &str) -> Vec<String> {
    let hex = secret.bytes().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    // A host name is written in lower case.
    let mut forms = vec![secret.to_owned(), secret.to_lowercase(), hex.to_uppercase(), hex];
    for before in 0..3 {
        let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
        // Characters that also encode bits of neighboring bytes are not determined by the secret alone.
        let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            forms.extend(encoded.get(first..last).map(str::to_owned));
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(secrets: &UserSecrets, text: &str) -> String {
        secrets.redact(text.into()).into_owned()
    }

    #[test]
    fn user_secrets_are_redacted_in_every_form_but_common_words_are_not() {
        let mut secrets = UserSecrets::default();
        assert_eq!(redacted(&secrets, "canary-9b7e"), "canary-9b7e");
        for value in ["canary-9b7e", "wörd & \"more\" 77", "660011223344", "password", "a b c d e", "short1"]
        {
            secrets.add(value);
        }
        for (text, expected) in [
            ("x canary-9b7e.", "x ***."),
            ("canary-9b7ecanary-9b7e", "******"),
            ("canary-9b7 660011223344", "canary-9b7 ***"),
            ("wörd & \"more\" 77", "***"),
            (r#""wörd & \"more\" 77""#, "\"***\""),
            ("w%C3%B6rd%20%26%20%22more%22%2077", "***"),
            ("63616e6172792d39623765", "***"),
            ("Y2FuYXJ5LTliN2U=", "***U="),
            ("it is canary-9b…", "it is ***…"),
            ("it is can…", "it is can…"),
            ("a password, short1, a b c d e", "a password, short1, a b c d e"),
        ] {
            let seen = redacted(&secrets, text);
            assert!(seen == expected || text.starts_with("Y2") && seen.starts_with("***"), "{text}: {seen}");
        }
    }

    #[test]
    fn of_secrets_with_a_common_prefix_the_longest_match_is_redacted() {
        let mut forms = Forms::default();
        let mut all: Vec<String> =
            (8..600).flat_map(|count| ["B", "", "c"].map(|end| "a".repeat(count) + end)).collect();
        all.extend((8..40).map(|count| "b".repeat(count)));
        all.iter().rev().for_each(|form| forms.add(form));
        for text in ["aaaaaaaaB", "aaaaaaaab", "aaaaaaa", "aaaaaaaacc", "bbbbbbbbbbc", "abcdefghij", ""]
            .map(str::to_owned)
            .into_iter()
            .chain((0..700).map(|count| "a".repeat(count) + "Bc"))
        {
            let naive = all.iter().filter(|form| text.starts_with(form.as_str())).map(String::len).max();
            assert_eq!(forms.longest(text.as_bytes()), naive, "{text}");
            assert_eq!(
                forms.begins_with(text.as_bytes()),
                all.iter().any(|form| form.starts_with(&text)),
                "{text}"
            );
        }
        for form in all.drain(..all.len() - 32) {
            forms.remove(&form);
        }
        assert_eq!(forms.longest(b"aaaaaaaaaaaa"), None);
        assert_eq!(forms.longest(b"bbbbbbbbb"), Some(9));
    }

    #[test]
    fn at_the_limit_the_oldest_user_secrets_are_forgotten() {
        let mut secrets = UserSecrets::default();
        let value = |number: usize| format!("secret-{number:05}");
        (0..MAX_SECRETS + 7).for_each(|number| secrets.add(&value(number)));
        secrets.add(&value(MAX_SECRETS));
        assert_eq!(secrets.order.len(), MAX_SECRETS);
        for number in (0..14).chain((14..MAX_SECRETS + 7).step_by(101)) {
            let is_found = redacted(&secrets, &value(number)) == "***";
            assert_eq!(is_found, number >= 7, "{number}");
        }
    }
}
