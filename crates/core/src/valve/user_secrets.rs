//! The secrets of all users of a host, so that the turns of one do not show what a script kept of another.
//!
//! Users choose these values, and many users have many. They are looked for at once, whatever their number; and only
//! those that look like a secret count: a common word would be taken out of everybody's texts, and its absence would
//! tell that somebody has chosen it.

use super::encodings::{CUT, REDACTED, forms};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use valvehouse_json::Json;

/// Secrets that are looked for; of more the oldest go.
const MAX_SECRETS: usize = 4_096;
/// The bytes by which a form is found.
const START: usize = 8;
/// Texts without a digit or a sign have to be this long, in characters.
const LONG: usize = 16;
/// Longer values are looked for by their beginning, in bytes.
const MAX_BYTES: usize = 4_096;
/// Entries of the first look.
const FILTER_BITS: usize = 1 << 20;
/// The characters that URLs leave as they are.
const URL: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Secrets by the beginnings of their forms.
#[derive(Default)]
pub(super) struct UserSecrets {
    /// The values in the order in which they came, with their forms.
    order: VecDeque<(String, Vec<String>)>,
    /// The forms by their first bytes.
    by_start: HashMap<u64, Vec<String>>,
    /// A filter for the first bytes of texts: no form begins where no bit is set.
    filter: Vec<u64>,
}

/// Returns `true` if a value is one that nobody else has by chance.
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
    (usize::try_from(mixed / 64).unwrap_or_default(), 1 << (mixed % 64))
}

impl UserSecrets {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Looks for a value from now on.
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
            self.by_start.entry(start).or_default().push(form.clone());
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
        forms.is_some_and(|forms| forms.iter().any(|form| form == value))
    }

    /// The first look keeps its bits: it only costs a second one.
    fn forget_first(&mut self) {
        let Some((_, forms)) = self.order.pop_front() else { return };
        for form in forms {
            let Some(start) = start_of(form.as_bytes()) else { continue };
            if let Some(known) = self.by_start.get_mut(&start) {
                if let Some(at) = known.iter().position(|known| *known == form) {
                    known.swap_remove(at);
                }
                if known.is_empty() {
                    self.by_start.remove(&start);
                }
            }
        }
    }

    /// The forms that may begin here.
    fn beginning_with(&self, bytes: &[u8]) -> &[String] {
        let Some(start) = start_of(bytes) else { return &[] };
        let (word, bit) = bit_of(start);
        match self.filter.get(word) {
            Some(bits) if bits & bit != 0 => self.by_start.get(&start).map(Vec::as_slice).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Returns the text without the secrets. A secret that was cut off with `…` is replaced as well.
    pub(super) fn redact<'a>(&self, text: Cow<'a, str>) -> Cow<'a, str> {
        if self.is_empty() {
            return text;
        }
        let bytes = text.as_bytes();
        let mut found: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        while at + START <= bytes.len() {
            let rest = &bytes[at..];
            let forms = self.beginning_with(rest);
            let whole = forms.iter().filter(|form| rest.starts_with(form.as_bytes())).map(String::len).max();
            let length = whole.or_else(|| cut_off(forms, text.get(at..)?));
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

/// Returns the length of what stands before a cut, if one of the forms begins with it.
fn cut_off(forms: &[String], text: &str) -> Option<usize> {
    let longest = forms.iter().map(String::len).max()?;
    let mut near = text.char_indices().take_while(|(at, _)| *at < longest);
    let (cut, _) = near.find(|(_, letter)| *letter == CUT).filter(|(cut, _)| *cut >= START)?;
    forms.iter().any(|form| form.starts_with(&text[..cut])).then_some(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(secrets: &UserSecrets, text: &str) -> String {
        secrets.redact(text.into()).into_owned()
    }

    #[test]
    fn secrets_of_users_are_found_in_every_form_and_common_words_are_none() {
        let mut secrets = UserSecrets::default();
        assert_eq!(redacted(&secrets, "canary-9b7e"), "canary-9b7e");
        for value in ["canary-9b7e", "wörd & \"more\" 77", "660011223344", "password", "a b c d e", "short1"]
        {
            secrets.add(value);
        }
        for (text, wanted) in [
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
            assert!(seen == wanted || text.starts_with("Y2") && seen.starts_with("***"), "{text}: {seen}");
        }
    }

    #[test]
    fn of_too_many_secrets_the_oldest_go_and_all_others_are_found() {
        let mut secrets = UserSecrets::default();
        let value = |number: usize| format!("secret-{number:05}");
        (0..MAX_SECRETS + 7).for_each(|number| secrets.add(&value(number)));
        secrets.add(&value(MAX_SECRETS));
        assert_eq!(secrets.order.len(), MAX_SECRETS);
        for number in 0..MAX_SECRETS + 7 {
            let is_found = redacted(&secrets, &value(number)) == "***";
            assert_eq!(is_found, number >= 7, "{number}");
        }
    }
}
