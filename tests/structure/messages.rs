//! The texts that people read: errors, warnings, hints, lines of the log, of the page and of the terminal.
//!
//! `messages.txt` lists them by file, in the order of the source, so that they can be read from top to bottom and a
//! changed text is seen as one: `VALVEHOUSE_UPDATE=1 cargo test --test structure messages`. A text is a string with at
//! least three words; SQL and tests do not count.

use crate::words::sources;
use crate::{relative, root};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::fmt::Write;

/// The list of the texts.
const LIST: &str = "tests/structure/messages.txt";

/// The first words of strings that are SQL.
const SQL: &[&str] = &[
    "ALTER", "CREATE", "DELETE", "DROP", "INSERT", "LISTEN", "LOCK", "NOTIFY", "ORDER", "PRAGMA", "SELECT",
    "SET", "UPDATE", "WHERE", "WITH",
];

#[test]
fn the_messages_equal_the_list() {
    let found = list();
    assert!(found.lines().count() > 1000, "only {} lines", found.lines().count());
    if std::env::var_os("VALVEHOUSE_UPDATE").is_some() {
        std::fs::write(root().join(LIST), &found).unwrap();
    }
    let listed = std::fs::read_to_string(root().join(LIST)).unwrap();
    let new = found.lines().filter(|line| !listed.contains(line)).map(|line| format!("+{line}"));
    let gone = listed.lines().filter(|line| !found.contains(line)).map(|line| format!("-{line}"));
    let changes: Vec<String> = new.chain(gone).collect();
    assert!(
        found == listed,
        "messages changed; if that is meant: VALVEHOUSE_UPDATE=1 cargo test --test structure messages\n{}",
        changes.join("\n")
    );
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

/// Returns the texts of all files, each list under the path of its file.
fn list() -> String {
    let mut paths = Vec::new();
    for folder in ["crates", "port", "src"] {
        sources(&root().join(folder), &mut paths);
    }
    paths.sort();
    let mut list = String::new();
    for path in paths {
        let path = relative(&path);
        let is_test = path.components().any(|part| {
            ["benches", "tests", "tests.rs", "testkit"].iter().any(|name| part.as_os_str() == *name)
        });
        if is_test {
            continue;
        }
        let source = std::fs::read_to_string(root().join(&path)).unwrap();
        let texts = texts(source.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        if !texts.is_empty() {
            writeln!(list, "{}\n    {}", path.display(), texts.join("\n    ")).unwrap();
        }
    }
    list
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
