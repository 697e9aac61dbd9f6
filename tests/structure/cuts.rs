//! Texts that are cut before they are shown. A part of a secret is not recognized as the secret, so an error text of a
//! script is redacted first and then cut: `redaction::excerpt` does both.
//!
//! `exceptions.txt` has the number of cuts in each package that no secret of a plugin reaches: names in the code of
//! scripts, keys of providers after their redaction, lists of an operator's own settings.

use crate::silences;

/// The number of texts that are cut to a number of characters.
pub(crate) const CUT_TEXT: &str = "cut-text";

#[test]
fn texts_are_cut_after_their_redaction() {
    silences::check_counts(
        [(
            CUT_TEXT,
            "use `redaction::excerpt`, which redacts and then cuts, or show the text only if it is short",
        )],
        |text| [count(text)],
    );
}

/// Returns the number of `.chars().take(…)`, `{text:.40}` and the like in a file before its tests.
fn count(text: &str) -> usize {
    let code = silences::code_of(text);
    let takes =
        ["chars()", "escape_debug()"].iter().map(|letters| code.matches(&format!("{letters}.take(")).count());
    takes.sum::<usize>() + code.match_indices(":.").filter(|(at, _)| is_precision(&code[at + 2..])).count()
}

/// Returns `true` for the rest of a placeholder that cuts a text. Numbers have at most three decimals.
fn is_precision(rest: &str) -> bool {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[digits..].starts_with('}') && rest[..digits].parse().is_ok_and(|digits: usize| digits > 3)
        || rest.starts_with("*}")
        || rest
            .split_once("$}")
            .is_some_and(|(name, _)| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_'))
}

#[test]
fn cuts_are_found_before_the_tests_of_a_file() {
    let text = "fn one() { format!(\"{name:.40} {:.2} {name:.*} {name:.width$}\"); name.chars()\n .take(60); list.take(3); }\n\
                #[cfg(test)]\nmod tests { fn two() { name.chars().take(5); } }";
    assert_eq!(count(text), 4);
}
