//! Silent failures that may not grow in number: defaults in place of missing or failed values, and ignored
//! errors of writes into JSON.
//!
//! `exceptions.txt` has a ceiling for each package, `default crates/core 80`; it only shrinks. Tests are not
//! counted.

use crate::words::{self, EXCEPTIONS};
use crate::{relative, root};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The number of `unwrap_or_default`.
pub(crate) const DEFAULT: &str = "default";
/// The number of `let _ = value.set(key, …)` and `drop(value.set(key, …))`.
pub(crate) const IGNORED: &str = "ignored-set";

#[derive(Debug, Default, PartialEq)]
struct Count {
    defaults: usize,
    ignored: usize,
}

#[test]
fn silent_defaults_and_ignored_writes_into_json_are_rare() {
    let say =
        "say what absence means: `json.field(key)`, `.list(key)`, `.text_or_empty(key)`, or handle the error";
    let write = "write into a new object with `put`, into a live one with `edit`, or handle the error";
    check_counts([(DEFAULT, say), (IGNORED, write)], |text| {
        let Count { defaults, ignored } = count(text.parse().unwrap());
        [defaults, ignored]
    });
}

#[test]
fn silent_defaults_are_found_in_code_but_not_in_tests() {
    let text = r#"
        fn one() {
            let _ = body.set("key", value(1, 2));
            let _ = cell.set(value);
            let kept = map.set("key", 1);
            match key { "a" => drop(said.set(&key, 1)), _ => drop(cell.set((1, 2))) }
            body.get("a").unwrap_or_default();
            call(|| a.map(Option::unwrap_or_default));
        }
        #[cfg(test)]
        mod tests { fn two() { let _ = body.set("key", 1); body.get("a").unwrap_or_default(); } }
        #[cfg(test)]
        use a::b;
        fn three() { text.unwrap_or_default() }
    "#;
    assert_eq!(count(text.parse().unwrap()), Count { defaults: 3, ignored: 2 });
}

/// Compares the counts of each package with their ceilings; each rule has its help, and `of` counts in one file.
pub(crate) fn check_counts<const N: usize>(rules: [(&str, &str); N], of: impl Fn(&str) -> [usize; N]) {
    let (counts, mut wrong) = (counts(of), Vec::new());
    for (number, (rule, help)) in rules.into_iter().enumerate() {
        let listed = words::listed().into_iter().filter(|(name, ..)| name == rule);
        let mut ceilings: BTreeMap<PathBuf, usize> =
            listed.map(|(_, path, ceiling)| (path, ceiling)).collect();
        for (package, found) in &counts {
            let (found, ceiling) = (found[number], ceilings.remove(package).unwrap_or(0));
            if found != ceiling {
                let why = if found > ceiling { "too many" } else { "fewer than listed" };
                wrong.push(format!(
                    "{}: {found} where {ceiling} are listed, {why}: {help}",
                    package.display()
                ));
                wrong.push(format!("  {EXCEPTIONS}: `{rule} {} {found}`", package.display()));
            }
        }
        let unknown = ceilings.keys();
        wrong.extend(unknown.map(|path| format!("{EXCEPTIONS}: {rule} {}: no such package", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the code of a file before its tests, without blanks.
pub(crate) fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    code.chars().filter(|letter| !letter.is_whitespace()).collect()
}

/// Returns the counts by package folder; those of the root package are under `src`, those of the translator under `port`.
pub(crate) fn counts<const N: usize>(of: impl Fn(&str) -> [usize; N]) -> BTreeMap<PathBuf, [usize; N]> {
    let mut paths = Vec::new();
    for folder in ["crates", "port", "src"] {
        words::sources(&root().join(folder), &mut paths);
    }
    let mut counts: BTreeMap<PathBuf, [usize; N]> = BTreeMap::new();
    for path in paths {
        let own = relative(&path);
        if is_of_tests(&own) {
            continue;
        }
        let parts: Vec<_> = own.iter().collect();
        let depth = if parts[0] == "crates" { 2 } else { 1 };
        let package = parts[..depth].iter().collect();
        let found = of(&std::fs::read_to_string(&path).unwrap());
        let sums = counts.entry(package).or_insert([0; N]);
        sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
    }
    counts
}

fn is_of_tests(path: &Path) -> bool {
    path.iter().any(|part| {
        let stem = Path::new(part).file_stem().unwrap_or_default().to_string_lossy();
        ["testkit", "tests", "benches", "examples"].contains(&&*stem) || stem.ends_with("_tests")
    })
}

fn count(stream: TokenStream) -> Count {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut sum = Count::default();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(hash) if hash.as_char() == '#' && is_cfg_test(tokens.get(at + 1)) => {
                at = end_of_item(&tokens, at + 2);
                continue;
            }
            TokenTree::Group(group) => {
                let inside = count(group.stream());
                sum.defaults += inside.defaults;
                sum.ignored += inside.ignored;
                let is_drop = at > 0 && is_word(&tokens[at - 1], "drop");
                if is_drop && sets_last(&group.stream().into_iter().collect::<Vec<_>>()) {
                    sum.ignored += 1;
                }
            }
            word if is_word(word, "unwrap_or_default") => sum.defaults += 1,
            word if is_word(word, "let") && tokens.get(at + 1).is_some_and(|next| is_word(next, "_")) => {
                let is_end =
                    |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';');
                let length = tokens[at..].iter().position(is_end).unwrap_or(tokens.len() - at);
                if sets_last(&tokens[at..at + length]) {
                    sum.ignored += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    sum
}

/// Returns `true` for an expression that ends in `.set(a, b)`.
fn sets_last(tokens: &[TokenTree]) -> bool {
    let [.., name, TokenTree::Group(group)] = tokens else { return false };
    let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
    is_word(name, "set")
        && group.delimiter() == Delimiter::Parenthesis
        && group.stream().into_iter().any(|token| is_comma(&token))
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(own) if own == word)
}

fn is_cfg_test(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.stream().to_string().replace(' ', "") == "cfg(test)")
}

/// Returns the place after an item: after its braces or its semicolon.
fn end_of_item(tokens: &[TokenTree], start: usize) -> usize {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(mark) => mark.as_char() == ';',
        _ => false,
    };
    tokens[start..].iter().position(is_end).map_or(tokens.len(), |length| start + length + 1)
}
