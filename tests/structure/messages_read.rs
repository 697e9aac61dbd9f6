//! Messages that code reads: they are for people, and code that takes a fact out of one breaks when it is worded better.
//!
//! `exceptions.txt` has the number of places in each package that read the message of a foreign library, which says
//! its reason in no other form.

use crate::silences;

/// The number of places that search or cut a message or a hint.
pub(crate) const READ_MESSAGE: &str = "read-message";

const TEXTS: [&str; 4] = ["message", "help", "reason", "error.to_string()"];
const ENDS: [&str; 4] = ["", "()", ".as_str()", ".as_deref()"];
const READS: [&str; 9] = [
    "contains",
    "starts_with",
    "ends_with",
    "strip_prefix",
    "strip_suffix",
    "find",
    "split",
    "split_once",
    "rsplit_once",
];

#[test]
fn no_code_reads_a_message() {
    silences::check_counts(
        [(READ_MESSAGE, "give the value a field for the fact, such as `Diagnostic::cause`")],
        |text| [count(text)],
    );
}

/// Returns the number of places in a file before its tests.
fn count(text: &str) -> usize {
    let code = silences::code_of(text);
    let forms = TEXTS.iter().flat_map(|text| ENDS.iter().map(move |end| format!("{text}{end}.")));
    forms
        .flat_map(|form| READS.iter().map(move |read| format!("{form}{read}(")))
        .map(|form| code.matches(&form).count())
        .sum()
}

#[test]
fn a_message_that_is_read_is_counted() {
    let text = "fn one() { problem.message\n.contains(\"x\"); help.as_deref().split_once('`'); message.len(); }\n\
                #[cfg(test)]\nmod tests { fn two() { message.contains(\"x\"); } }";
    assert_eq!(count(text), 2);
}
