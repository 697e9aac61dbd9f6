//! Detection of personal data in texts.

use regex::Regex;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::OnceLock;

/// The kinds of personal data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Email,
    Phone,
    Card,
    Id,
    Ip,
}

impl Kind {
    pub(super) const ALL: [Self; 5] = [Self::Email, Self::Phone, Self::Card, Self::Id, Self::Ip];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Phone => "phone",
            Self::Card => "card",
            Self::Id => "id",
            Self::Ip => "ip",
        }
    }

    const fn pattern(self) -> &'static str {
        match self {
            Self::Email => r"[\pL\pN._%+-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)*\.\pL{2,}",
            // The patterns are: with a country code; North American; Chinese mobile.
            Self::Phone => {
                r"(?:\+|\b00)\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){1,5}|\(\d{3}\) ?\d{3}[ .-]\d{4}|\d{3}[ .-]\d{3}[ .-]\d{4}|1[3-9]\d{9}"
            }
            Self::Card => r"\d(?:[ -]?\d){12,18}",
            // The patterns are: Chinese resident id; US social security number.
            Self::Id => r"\d{17}[\dXx]|\d{3}-\d{2}-\d{4}",
            Self::Ip => r"\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}",
        }
    }

    fn regex(self) -> &'static Regex {
        static PATTERNS: [OnceLock<Regex>; 5] = [const { OnceLock::new() }; 5];
        PATTERNS[self as usize]
            .get_or_init(|| Regex::new(self.pattern()).expect("the pattern is a constant that a test reads"))
    }

    /// Returns the end of a match: a colon after an address belongs to the sentence.
    fn end(self, text: &str, range: &Range<usize>) -> usize {
        let found = &text[range.clone()];
        let is_sentence = self == Self::Ip && found.ends_with(':') && !found.ends_with("::");
        if is_sentence { range.end - 1 } else { range.end }
    }

    /// Returns `true` if a candidate is valid, for example by its check digit.
    fn is(self, found: &str) -> bool {
        match self {
            Self::Email => true,
            Self::Phone => (7..=15).contains(&digits(found).count()),
            Self::Card => has_check_digit(found),
            Self::Id if found.contains('-') => is_social_security_number(found),
            Self::Id => is_resident(found),
            Self::Ip => found.parse::<Ipv4Addr>().is_ok() || is_address(found),
        }
    }
}

/// Returns the matches of these kinds in order. Of overlapping matches, the one that starts first and is
/// longest is returned.
pub(super) fn find(text: &str, kinds: &[Kind]) -> Vec<(Range<usize>, Kind)> {
    let mut all: Vec<(Range<usize>, Kind)> = Vec::new();
    for kind in kinds {
        let found = kind.regex().find_iter(text).map(|found| found.start()..kind.end(text, &found.range()));
        let found = found.filter(|range| *kind == Kind::Email || stands_alone(text, range));
        all.extend(found.filter(|range| kind.is(&text[range.clone()])).map(|range| (range, *kind)));
    }
    all.sort_by_key(|(range, kind)| (range.start, std::cmp::Reverse(range.end), *kind));
    let mut end = 0;
    all.retain(|(range, _)| {
        let is_free = range.start >= end;
        if is_free {
            end = range.end;
        }
        is_free
    });
    all
}

/// Returns `true` if no letter or digit is adjacent to a match, because a part of a longer number is something
/// else. Letters of scripts without spaces may be adjacent.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    ![before, after].into_iter().flatten().any(|letter| letter.is_ascii_alphanumeric())
}

fn digits(text: &str) -> impl DoubleEndedIterator<Item = u32> + '_ {
    text.chars().filter_map(|letter| letter.to_digit(10))
}

/// Returns `true` if the digits have a valid Luhn checksum, as card numbers do, and are not all equal.
fn has_check_digit(text: &str) -> bool {
    let sum: u32 = digits(text)
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit * 2) {
            (0, _) => digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    let first = digits(text).next();
    sum.is_multiple_of(10) && digits(text).any(|digit| Some(digit) != first)
}

/// Returns `true` for a valid Chinese resident id, by the check character of GB 11643.
fn is_resident(text: &str) -> bool {
    const WEIGHTS: [u32; 17] = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
    let sum: u32 = digits(text).zip(WEIGHTS).map(|(digit, weight)| digit * weight).sum();
    let check = b"10X98765432"[(sum % 11) as usize];
    text.bytes().last().is_some_and(|last| last.to_ascii_uppercase() == check)
}

/// Returns `true` for an IPv6 address. Paths in programs look similar but have no digits.
fn is_address(text: &str) -> bool {
    let address = text.parse::<Ipv6Addr>();
    address.is_ok_and(|address| !address.is_unspecified() && !address.is_loopback())
        && digits(text).next().is_some()
}

fn is_social_security_number(text: &str) -> bool {
    !matches!(&text[..3], "000" | "666")
        && !text.starts_with('9')
        && &text[4..6] != "00"
        && &text[7..] != "0000"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(&str, &'static str)> {
        find(text, &Kind::ALL).into_iter().map(|(range, kind)| (&text[range], kind.name())).collect()
    }

    #[test]
    fn each_kind_of_personal_data_is_found_in_its_usual_notations() {
        for (text, expected) in [
            ("mail ann.b+x@mail.example.org.", ("ann.b+x@mail.example.org", "email")),
            ("电话13812345678。", ("13812345678", "phone")),
            ("call +49 228 123-4567!", ("+49 228 123-4567", "phone")),
            ("(555) 123-4567", ("(555) 123-4567", "phone")),
            ("card 4111 1111 1111 1111,", ("4111 1111 1111 1111", "card")),
            ("5500-0000-0000-0004", ("5500-0000-0000-0004", "card")),
            ("ssn 123-45-6789", ("123-45-6789", "id")),
            ("身份证11010519491231002X", ("11010519491231002X", "id")),
            ("from 192.168.10.7:", ("192.168.10.7", "ip")),
            ("2001:db8::1: it says", ("2001:db8::1", "ip")),
            ("ann@example.org2", ("ann@example.org", "email")),
            ("[2001:db8::ff00:42:8329]", ("2001:db8::ff00:42:8329", "ip")),
        ] {
            assert_eq!(found(text), [expected], "{text}");
        }
    }

    #[test]
    fn dates_versions_and_other_numbers_are_not_personal_data() {
        for text in [
            "2026-11-21 16:40:12",
            "version 1.2.3",
            "999.1.1.1",
            "4111111111111112",
            "0000000000000000",
            "a::b",
            "12345678901234567890",
            "order 20261121-0001",
            "3.14159265358979",
            "user@host",
            "::1",
            "16:40:12",
            "900-12-3456",
            "call_13812345678903",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }
}
