//! The wording of errors: *cannot do a thing: the reason; the fix*, in lower case and without a full stop.
//!
//! A text is a string with at least three words; SQL and tests do not count. `exceptions.txt` has the number of errors in
//! each package that give no reason because their words are one: "cannot call tools outside of a turn".

use crate::silences;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The number of errors with another opening, a capital letter or a full stop.
pub(crate) const ODD_ERROR: &str = "odd-error";
/// The number of errors that say what failed or what is wrong, and neither a reason nor an expectation nor a fix.
pub(crate) const BARE_ERROR: &str = "bare-error";

/// The openings of errors.
const OPENINGS: [&str; 4] = ["cannot ", "unknown ", "missing ", "invalid "];
/// The same in other words.
const OTHERS: [&str; 7] =
    ["can not ", "can't ", "could not ", "couldn't ", "failed to ", "unable to ", "unrecognized "];

/// The first words of strings that are SQL.
const SQL: &[&str] = &[
    "ALTER", "CREATE", "DELETE", "DROP", "INSERT", "LISTEN", "LOCK", "NOTIFY", "ORDER", "PRAGMA", "SELECT",
    "SET", "UPDATE", "WHERE", "WITH",
];

#[test]
fn errors_state_the_action_the_reason_and_the_fix() {
    let odd = "begin with `cannot`, `unknown`, `missing` or `invalid` in lower case, end without a full stop";
    let bare = "add the reason and the fix: `cannot read {path}: {reason}; check its rights`";
    silences::check_counts([(ODD_ERROR, odd), (BARE_ERROR, bare)], |text| {
        let texts = texts(text.parse().unwrap());
        [texts.iter().filter(|text| is_odd(text)).count(), texts.iter().filter(|text| is_bare(text)).count()]
    });
}

#[test]
fn odd_and_bare_errors_are_found() {
    for odd in ["Cannot read the file", "failed to read the file", "unknown tool `x`.", "Could not read it"] {
        assert!(is_odd(odd), "{odd}");
    }
    for bare in ["cannot read the file", "invalid name `{name}`"] {
        assert!(is_bare(bare) && !is_odd(bare), "{bare}");
    }
    for good in [
        "cannot read {path}: {error}",
        "unknown tool `x`",
        "invalid `n`: expected a number",
        "Cannons are loud.",
    ] {
        assert!(!is_bare(good) && !is_odd(good), "{good}");
    }
}

/// Returns `true` for an error that does not begin or end like others.
fn is_odd(text: &str) -> bool {
    let lower = text.to_lowercase();
    let begins = |openings: &[&str]| openings.iter().any(|opening| lower.starts_with(opening));
    begins(&OTHERS)
        || begins(&OPENINGS)
            && (text.starts_with(char::is_uppercase) || text.ends_with('.') && !text.ends_with("..."))
}

/// Returns `true` for an error that ends after its first clause.
fn is_bare(text: &str) -> bool {
    ["cannot ", "invalid "].iter().any(|opening| text.starts_with(opening))
        && ![": ", ";", " because ", "expected "].iter().any(|more| text.contains(more))
}

#[test]
fn messages_are_extracted_from_code_outside_of_tests() {
    let source = r##"
        //! Not this one, it is documentation.
        #[error("cannot read {0}: it is gone")]
        fn f() {
            warn!(file, "left {file} \
                         as it was");
            query("SELECT a FROM b WHERE c");
            let short = "two words";
        }
        #[cfg(test)]
        mod tests { fn g() { panic!("not this one here"); } }
    "##;
    let texts = texts(source.parse().unwrap());
    assert_eq!(texts, ["cannot read {0}: it is gone", "left {file} as it was"]);
}

/// Returns the texts among tokens, each as one line.
fn texts(tokens: TokenStream) -> Vec<String> {
    let mut texts = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                if matches!(tokens.peek(), Some(TokenTree::Punct(_))) {
                    tokens.next();
                }
                let Some(TokenTree::Group(attribute)) = tokens.peek() else { continue };
                let attribute = attribute.stream();
                let written = attribute.to_string();
                if written.starts_with("doc") {
                    tokens.next();
                } else if written.replace(' ', "") == "cfg(test)" {
                    // Skips the next item, up to its body or its end.
                    let _ = tokens.by_ref().find(|token| match token {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        TokenTree::Punct(punct) => punct.as_char() == ';',
                        _ => false,
                    });
                }
            }
            TokenTree::Group(group) => texts.extend(self::texts(group.stream())),
            TokenTree::Literal(literal) => {
                let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) else { continue };
                let text = text.value();
                let words: Vec<&str> = text.split_whitespace().collect();
                if words.len() >= 3
                    && !SQL.contains(&words[0])
                    && words.iter().any(|word| word.len() > 1 && word.chars().all(char::is_alphabetic))
                {
                    texts.push(text.lines().map(str::trim).collect::<Vec<_>>().join(" ⏎ "));
                }
            }
            _ => {}
        }
    }
    texts
}
