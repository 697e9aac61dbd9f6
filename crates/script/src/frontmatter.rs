//! The comment that a file opens with, as pairs of keys and values.

use std::collections::HashMap;

/// The `key: value` lines of the block comment that a file opens with; of two with one key the last counts.
pub fn frontmatter(source: &str) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (key, value) in every_pair(source) {
        match places.get(key) {
            Some(place) => pairs[*place].1 = value,
            None => {
                places.insert(key, pairs.len());
                pairs.push((key.to_owned(), value));
            }
        }
    }
    pairs
}

/// The same with every duplicate.
pub(super) fn every_pair(source: &str) -> Vec<(&str, String)> {
    let mut pairs = Vec::new();
    for line in opening_comment(source).split(['\n', '\r']) {
        let Some((key, value)) = line.split_once(':') else { continue };
        let key = key.trim_start();
        if key.is_empty() || !key.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '_') {
            continue;
        }
        pairs.push((key, value.trim().to_owned()));
    }
    pairs
}

/// Returns the block comment that a file opens with. A comment may hold others, as in Rhai, so that the
/// comment read here is the one that the compiler passes over.
pub(super) fn opening_comment(source: &str) -> &str {
    let text = source.trim_start_matches('\u{feff}').trim_start();
    let Some(rest) = text.strip_prefix("/*") else { return &text[..0] };
    let (mut at, mut open) = (0, 1);
    while let Some(found) = rest[at..].find(['*', '/']) {
        at += found;
        let marks = &rest[at..];
        if marks.starts_with("*/") {
            open -= 1;
        } else if marks.starts_with("/*") {
            open += 1;
        } else {
            at += 1;
            continue;
        }
        if open == 0 {
            return &rest[..at];
        }
        at += 2;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frontmatter_is_read_line_by_line() {
        let pairs = frontmatter(
            "\u{feff}\n/*\r\ntitle: A: b\r\n  author: Ann\r\nauthor-url: x\r\nkey1: y\r\nno pair\r\ntitle : z\r\nTitle:B\r\ntitle: C\r\nempty:\r\n*/\nfn x() {}",
        );
        let expected = [("title", "C"), ("author", "Ann"), ("Title", "B"), ("empty", "")];
        assert_eq!(pairs, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert!(frontmatter("// x\n/*\ntitle: A\n*/").is_empty());
        let nested = frontmatter("/*\n/* title: A */\nsecurity: true\n*/\n/*\nglobal: false\n*/");
        assert_eq!(nested, [("security".to_owned(), "true".to_owned())]);
    }
}
