//! Words that are not allowed: beginnings of documentation and names that are hard to read.
//!
//! `exceptions.txt` lists the places that still have them, with a count for each rule and file. A count may
//! only shrink: a place too many fails, and a count that is too high fails as well.

use crate::cuts::CUT_TEXT;
use crate::errors::{CLOSED_ERROR, ERRORS_DOC, TEXT_ERROR};
use crate::messages::{BARE_ERROR, ODD_ERROR};
use crate::messages_read::READ_MESSAGE;
use crate::silences::{DEFAULT, IGNORED};
use crate::size::LONG_FUNCTION;
use crate::{relative, root};
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The folders with sources, relative to the workspace.
const FOLDERS: &[&str] = &["benches", "crates", "examples", "fuzz", "port", "src", "tests", "tools"];

/// The list of current exceptions: a rule, a file and a count on each line.
pub(crate) const EXCEPTIONS: &str = "tests/structure/exceptions.txt";

/// Words that begin a clause in place of a noun.
const PRONOUNS: &[&str] = &[
    "How",
    "However",
    "What",
    "Whatever",
    "When",
    "Whenever",
    "Where",
    "Wherever",
    "Whether",
    "Which",
    "Whichever",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
    "Why",
];

/// First words of a limit's name; use `MAX_…`, `MIN_…` or `…_THRESHOLD`.
const LIMITS: &[&str] = &["FEW", "LONGEST", "MOST", "NEAR", "WORTH"];

/// Participles that do not end in "ed", and past tenses.
const PARTICIPLES: &[&str] = &[
    "Begun", "Bound", "Broken", "Built", "Came", "Caught", "Chosen", "Cut", "Done", "Drawn", "Found",
    "Given", "Gone", "Heard", "Held", "Hidden", "Kept", "Known", "Laid", "Left", "Lost", "Made", "Meant",
    "Met", "Put", "Ran", "Said", "Seen", "Sent", "Shown", "Spelt", "Spoken", "Taken", "Thrown", "Told",
    "Written",
];

/// The disallowed negation; it is allowed in "there is no …" and a few set phrases.
const IS_NO: &str = concat!("is", " no ");
const BEFORE_NO: &[&str] = &["there", "There"];
const AFTER_NO: &[&str] = &["better", "longer", "reason", "such"];

/// Nouns that end in "ed".
const NOUNS: &[&str] = &["Embed", "Feed", "Need", "Seed", "Speed"];

/// A rule about words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    Beginning,
    OneWord,
    Limit,
    Participle,
    PublicTwice,
    Negation,
}

impl Rule {
    const ALL: [Self; 6] =
        [Self::Beginning, Self::OneWord, Self::Limit, Self::Participle, Self::PublicTwice, Self::Negation];

    /// Returns the name of the rule in the list of exceptions.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Beginning => "beginning",
            Self::OneWord => "one-word",
            Self::Limit => "limit",
            Self::Participle => "participle",
            Self::PublicTwice => "public-twice",
            Self::Negation => "negation",
        }
    }

    /// Returns a hint for the fix.
    const fn help(self) -> &'static str {
        match self {
            Self::Beginning => {
                "begin with a verb in the third person or a noun: \"Returns …\", \"The number of …\""
            }
            Self::OneWord => "write a sentence or leave the comment out",
            Self::Limit => "name a limit `MAX_…`, `MIN_…` or `…_THRESHOLD`",
            Self::Participle => "name a type after the thing it is: a noun",
            Self::PublicTwice => "give one of the types another name",
            Self::Negation => "write \"is not a …\"",
        }
    }
}

/// A place that breaks a rule.
#[derive(Debug, Clone, PartialEq)]
struct Finding {
    rule: Rule,
    path: PathBuf,
    line: usize,
    words: String,
}

/// A public type, and the place of its definition.
struct PublicType {
    name: String,
    path: PathBuf,
    line: usize,
}

/// The findings of one file.
struct File<'a> {
    path: &'a Path,
    findings: Vec<Finding>,
    public: Vec<PublicType>,
}

/// The findings in all sources of the workspace.
static FINDINGS: LazyLock<Vec<Finding>> = LazyLock::new(|| {
    let mut paths = vec![root().join("build.rs")];
    for folder in FOLDERS {
        sources(&root().join(folder), &mut paths);
    }
    assert!(paths.len() > 500, "only {} sources", paths.len());
    let texts: Vec<(PathBuf, String)> =
        paths.iter().map(|path| (relative(path), std::fs::read_to_string(path).unwrap())).collect();
    find(texts.iter().map(|(path, text)| (path.as_path(), text.as_str())))
});

#[test]
fn documentation_begins_with_a_verb_or_a_noun() {
    check(Rule::Beginning);
}

#[test]
fn documentation_is_more_than_one_word() {
    check(Rule::OneWord);
}

#[test]
fn limits_are_named_as_limits() {
    check(Rule::Limit);
}

#[test]
fn types_are_named_by_nouns() {
    check(Rule::Participle);
}

#[test]
fn public_types_have_names_of_their_own() {
    check(Rule::PublicTwice);
}

#[test]
fn negations_use_not() {
    check(Rule::Negation);
}

#[test]
fn the_list_of_exceptions_has_known_rules_once_for_each_file() {
    let listed = listed();
    let mut seen = BTreeSet::new();
    for (rule, path, count) in &listed {
        let is_known = Rule::ALL.iter().any(|one| one.as_str() == rule)
            || [
                DEFAULT,
                IGNORED,
                CUT_TEXT,
                BARE_ERROR,
                ODD_ERROR,
                READ_MESSAGE,
                LONG_FUNCTION,
                CLOSED_ERROR,
                ERRORS_DOC,
                TEXT_ERROR,
            ]
            .contains(&&**rule);
        assert!(is_known, "{EXCEPTIONS}: unknown rule {rule}");
        assert!(seen.insert((rule, path)), "{EXCEPTIONS}: {rule} {} twice", path.display());
        assert!(*count > 0, "{EXCEPTIONS}: {rule} {} 0: remove the line", path.display());
    }
    assert!(listed.is_sorted(), "{EXCEPTIONS}: the lines are not sorted");
}

#[test]
fn each_rule_finds_its_words_in_code_only() {
    let one = r###"
        //! Where it is.
        //! How it goes on is not looked at.

        /// The text `/// What` in a string, and a plain comment, are not documentation.
        // Who reads this?
        pub const TEXT: &str = "
            /// What
        ";
        /// What it is.
        ///
        /// Which is the second paragraph.
        const MOST_WORDS: usize = 1;
        const MOSTLY: usize = 1;
        const MAX_WORDS: usize = 1;

        /// Spoken.
        pub(crate) struct Told;
        /// `[server]`
        struct Server;
        /// `Whether` is quoted here.
        pub struct Feed {
            /// Whether it
            field: bool,
        }
        wrapped! {
            /// When it is.
            pub enum Answer { Asked, Kept }
        }
        pub trait Shared {}
        // This is% no list.
        // There is% no list, it is% no longer one, and of this% no word is found.
    "###
    .replace('%', "");
    let one = one.as_str();
    let other =
        "pub struct Answer;\nstruct Feed;\npub struct Own;\nuse super::one::Shared;\nfn kept(Kept: Kept) {}";
    let found = find([(Path::new("one.rs"), one), (Path::new("other.rs"), other)]);
    let found: Vec<String> = found
        .iter()
        .map(|one| format!("{} {}:{} {}", one.rule.as_str(), one.path.display(), one.line, one.words))
        .collect();
    let expected = [
        "beginning one.rs:2 Where it is.",
        "beginning one.rs:10 What it is.",
        "limit one.rs:13 MOST_WORDS",
        "one-word one.rs:17 Spoken.",
        "participle one.rs:18 Told",
        "beginning one.rs:23 Whether it",
        "beginning one.rs:27 When it is.",
        "participle one.rs:30 Shared",
        concat!("negation one.rs:31 // This is", " no list."),
        "public-twice one.rs:28 Answer, also at other.rs:1",
        "public-twice other.rs:1 Answer, also at one.rs:28",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_count_that_is_too_low_and_one_that_is_too_high_fail() {
    let finding = |line, words: &str| Finding {
        rule: Rule::Limit,
        path: PathBuf::from("one.rs"),
        line,
        words: words.to_owned(),
    };
    let findings = [finding(3, "MOST_KEYS"), finding(7, "MOST_TRIES")];
    let allowed = |count| vec![("limit".to_owned(), PathBuf::from("one.rs"), count)];
    assert_eq!(wrong(Rule::Limit, &findings, &allowed(2)), Vec::<String>::new());
    assert_eq!(wrong(Rule::Participle, &findings, &allowed(2)), Vec::<String>::new());
    assert_eq!(wrong(Rule::Limit, &findings, &[]), ["one.rs:3: MOST_KEYS", "one.rs:7: MOST_TRIES"]);
    let lines = wrong(Rule::Limit, &findings, &allowed(1));
    assert_eq!(lines, ["one.rs:3: MOST_KEYS", "one.rs:7: MOST_TRIES"]);
    let lines = wrong(Rule::Limit, &findings, &allowed(3));
    assert_eq!(lines, ["tests/structure/exceptions.txt: `limit one.rs 3` is too much: write 2"]);
    let lines = wrong(Rule::Limit, &[], &allowed(3));
    assert_eq!(lines, ["tests/structure/exceptions.txt: `limit one.rs 3` is too much: remove the line"]);
}

/// Compares the findings of a rule with the list of exceptions.
fn check(rule: Rule) {
    let wrong = wrong(rule, &FINDINGS, &listed());
    assert!(wrong.is_empty(), "{}:\n{}", rule.help(), wrong.join("\n"));
}

/// Returns a line for each place in a file that has more of them than listed, and for each count that is too
/// high.
fn wrong(rule: Rule, findings: &[Finding], listed: &[(String, PathBuf, usize)]) -> Vec<String> {
    let mut by_file: BTreeMap<&Path, Vec<&Finding>> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.rule == rule) {
        by_file.entry(&finding.path).or_default().push(finding);
    }
    let mut allowed: BTreeMap<&Path, usize> = listed
        .iter()
        .filter(|(name, ..)| name == rule.as_str())
        .map(|(_, path, count)| (path.as_path(), *count))
        .collect();
    let mut wrong = Vec::new();
    for (path, findings) in by_file {
        let count = allowed.remove(path).unwrap_or_default();
        if findings.len() > count {
            wrong
                .extend(findings.iter().map(|one| format!("{}:{}: {}", path.display(), one.line, one.words)));
        } else if findings.len() < count {
            wrong.push(too_high(rule, path, count, &format!("write {}", findings.len())));
        }
    }
    wrong.extend(allowed.iter().map(|(path, count)| too_high(rule, path, *count, "remove the line")));
    wrong
}

fn too_high(rule: Rule, path: &Path, count: usize, help: &str) -> String {
    format!("{EXCEPTIONS}: `{} {} {count}` is too much: {help}", rule.as_str(), path.display())
}

/// Reads the list of exceptions: rule, path and count.
pub(crate) fn listed() -> Vec<(String, PathBuf, usize)> {
    let text = std::fs::read_to_string(root().join(EXCEPTIONS)).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            [rule, path, count] => (rule.to_owned(), PathBuf::from(path), count.parse().unwrap()),
            _ => panic!("{EXCEPTIONS}: expected a rule, a path and a count, got `{line}`"),
        })
        .collect()
}

/// Adds all Rust sources below a folder.
pub(crate) fn sources(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        let name = entry.file_name().unwrap().to_string_lossy();
        if entry.is_dir() {
            if name != "target" && name != "node_modules" && !name.starts_with('.') {
                sources(&entry, paths);
            }
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            paths.push(entry);
        }
    }
}

/// Returns `true` if a line has the disallowed negation.
fn has_negation(line: &str) -> bool {
    line.match_indices(IS_NO).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + IS_NO.len()..]);
        let is_word = !before.ends_with(char::is_alphanumeric);
        let after = after.split(|char: char| !char.is_alphanumeric()).next().unwrap_or_default();
        is_word
            && !BEFORE_NO.iter().any(|word| before.trim_end().ends_with(word))
            && !AFTER_NO.contains(&after)
    })
}

/// Returns the findings in all of these texts.
fn find<'a>(texts: impl IntoIterator<Item = (&'a Path, &'a str)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut public: BTreeMap<String, Vec<PublicType>> = BTreeMap::new();
    for (path, text) in texts {
        let stream: TokenStream = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut file = File { path, findings: Vec::new(), public: Vec::new() };
        file.read(stream);
        file.read_negations(text);
        findings.append(&mut file.findings);
        for one in file.public {
            public.entry(one.name.clone()).or_default().push(one);
        }
    }
    for types in public.values() {
        for one in types {
            let others: Vec<String> = types
                .iter()
                .filter(|other| other.path != one.path)
                .map(|other| format!("{}:{}", other.path.display(), other.line))
                .collect();
            if !others.is_empty() {
                let words = format!("{}, also at {}", one.name, others.join(", "));
                findings.push(Finding {
                    rule: Rule::PublicTwice,
                    path: one.path.clone(),
                    line: one.line,
                    words,
                });
            }
        }
    }
    findings
}

impl File<'_> {
    /// Reads the tokens of a file or group, including those in macros.
    fn read(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if let Some((line, text, next)) = documentation(&tokens, at) {
                self.documentation(line, &text);
                at = next;
                continue;
            }
            match &tokens[at] {
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Ident(keyword) => {
                    if let Some(TokenTree::Ident(name)) = tokens.get(at + 1) {
                        let is_public =
                            at > 0 && matches!(&tokens[at - 1], TokenTree::Ident(one) if one == "pub");
                        self.definition(&keyword.to_string(), &name.to_string(), name.span(), is_public);
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            at += 1;
        }
    }

    fn read_negations(&mut self, text: &str) {
        for (index, line) in text.lines().enumerate().filter(|(_, line)| has_negation(line)) {
            self.add(Rule::Negation, index + 1, line.trim());
        }
    }

    fn documentation(&mut self, line: usize, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some(first) = words.first() else { return };
        if words.len() == 1 && !first.starts_with('`') {
            self.add(Rule::OneWord, line, text.trim());
        } else if PRONOUNS.contains(&first.trim_end_matches(|c: char| !c.is_alphanumeric())) {
            let beginning = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            self.add(Rule::Beginning, line, beginning.trim());
        }
    }

    fn definition(&mut self, keyword: &str, name: &str, span: Span, is_public: bool) {
        let line = span.start().line;
        match keyword {
            "const" | "static" if LIMITS.contains(&name.split('_').next().unwrap_or_default()) => {
                self.add(Rule::Limit, line, name);
            }
            "enum" | "struct" | "trait" | "type" | "union" => {
                if is_participle(name) {
                    self.add(Rule::Participle, line, name);
                }
                if is_public && is_of_a_package(self.path) {
                    self.public.push(PublicType { name: name.to_owned(), path: self.path.to_owned(), line });
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, rule: Rule, line: usize, words: &str) {
        self.findings.push(Finding { rule, path: self.path.to_owned(), line, words: words.to_owned() });
    }
}

/// Returns `true` for files of packages, and `false` for tests, benches and fuzz targets.
fn is_of_a_package(path: &Path) -> bool {
    let is_test = |part: &std::ffi::OsStr| {
        let stem = Path::new(part).file_stem().unwrap_or_default().to_string_lossy();
        ["benches", "examples", "fuzz", "testkit", "tests", "tools"].contains(&&*stem)
            || stem.ends_with("_tests")
    };
    !path.iter().any(is_test)
}

/// Returns `true` if a type's name is a single participle.
fn is_participle(name: &str) -> bool {
    let is_one_word = name.chars().skip(1).all(|c| c.is_ascii_lowercase());
    is_one_word && (PARTICIPLES.contains(&name) || name.ends_with("ed") && !NOUNS.contains(&name))
}

/// Returns the doc comment at a place: its line, its whole text, and the place after it. Returns `None` if no
/// doc comment starts there.
fn documentation(tokens: &[TokenTree], start: usize) -> Option<(usize, String, usize)> {
    let (first, mut text, is_inner, mut at) = doc_line(tokens, start)?;
    while let Some((_, line, inner, next)) = doc_line(tokens, at)
        && inner == is_inner
    {
        text.push('\n');
        text.push_str(&line);
        at = next;
    }
    Some((first, text, at))
}

/// Returns one line of a doc comment, which is `#[doc = "…"]` or `#![doc = "…"]` among tokens: its line, its
/// text, `true` for an inner one, and the place after it.
fn doc_line(tokens: &[TokenTree], at: usize) -> Option<(usize, String, bool, usize)> {
    let TokenTree::Punct(hash) = tokens.get(at)? else { return None };
    if hash.as_char() != '#' {
        return None;
    }
    let is_inner = matches!(tokens.get(at + 1), Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
    let at = at + 1 + usize::from(is_inner);
    let TokenTree::Group(group) = tokens.get(at)? else { return None };
    if group.delimiter() != Delimiter::Bracket {
        return None;
    }
    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
    match &inside[..] {
        [TokenTree::Ident(doc), TokenTree::Punct(equals), TokenTree::Literal(text)]
            if doc == "doc" && equals.as_char() == '=' =>
        {
            let text = syn::parse_str::<syn::LitStr>(&text.to_string()).ok()?.value();
            Some((hash.span().start().line, text, is_inner, at + 1))
        }
        _ => None,
    }
}
