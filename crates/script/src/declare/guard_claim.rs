//! Determines whether a text claims to be a guard, even in an invalid form.
//!
//! Used both for files that load and for those that do not. A mistake such as `Security: true` must never turn a
//! guard into an ordinary filter, so everything that resembles the claim counts.
//!
//! Also reads the opening comment of a file as pairs of keys and values.

use crate::diagnostic::{Code, Diagnostic, MAX_PROBLEMS};
use crate::load::source::SourceFile;
use std::collections::{HashMap, HashSet};
use valvehouse_dialect::syntax::spans::{self, SpanKind};
use valvehouse_script_std::reference;

/// The key that makes a filter a guard.
const KEY: &str = "security";
/// Values that mean `true`.
const YES: [&str; 9] = ["true", "yes", "on", "1", "y", "t", "ok", "enable", "enabled"];
/// Values that mean `false`.
const NO: [&str; 9] = ["false", "no", "off", "0", "n", "f", "none", "disabled", "never"];
/// Other keys that probably mean a guard.
const OTHER_KEYS: [&str; 4] = ["guard", "isguard", "guarded", "isguarded"];
/// Keys that are only for readers; the host does not use them.
const FOR_PEOPLE: [&str; 14] = [
    "id",
    "name",
    "type",
    "date",
    "tags",
    "author_email",
    "funding_url",
    "git_url",
    "homepage",
    "repository",
    "source",
    "changelog",
    "keywords",
    "required_open_webui_version",
];

/// The claim of a text to be a guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    /// An ordinary filter.
    No,
    /// A guard.
    Guard,
    /// It claims to be a guard in an invalid form.
    Unclear {
        /// The byte at which the line begins.
        at: usize,
        /// The line.
        line: String,
    },
}

impl Claim {
    /// Reads the claim of a text that compiles: only comments count.
    pub(crate) fn of(source: &str) -> Self {
        let pairs = every_pair(source);
        let values: Vec<&str> =
            pairs.iter().filter(|(key, _)| *key == KEY).map(|(_, value)| value.as_str()).collect();
        let is = |word: &str| values.iter().all(|value| value.eq_ignore_ascii_case(word));
        if !values.is_empty() && is("true") {
            return Self::Guard;
        }
        if !values.is_empty() && !is("false") {
            let at = source.find(KEY).unwrap_or(0);
            return Self::Unclear { at, line: format!("{KEY}: {}", values.join(", ")) };
        }
        let header = header_end(source);
        let comments = spans::of(source).into_iter().filter(|(piece, _)| *piece == SpanKind::Comment);
        for (_, range) in comments {
            let is_header = range.start < header;
            for (at, line) in lines(&source[range.clone()]) {
                if claims(line, is_header) {
                    return Self::Unclear { at: range.start + at, line: line.trim().to_owned() };
                }
            }
        }
        Self::No
    }

    /// Reads the claim of a text that does not compile or is not valid UTF-8: every line counts.
    pub(crate) fn of_broken(source: &str) -> Self {
        match Self::of(source) {
            Self::No => {}
            claim => return claim,
        }
        // In UTF-16, each ASCII character has a zero byte next to it.
        let bare: String = source.chars().filter(|letter| *letter != '\0').collect();
        let found =
            lines(&bare).find(|(_, line)| claims(line, false) || claims(line, true) && line.contains(KEY));
        found.map_or(Self::No, |(at, line)| Self::Unclear { at, line: line.trim().to_owned() })
    }

    pub(crate) fn is_made(&self) -> bool {
        *self != Self::No
    }
}

/// Returns the byte position at which the opening comments of a text end.
fn header_end(source: &str) -> usize {
    let comments: Vec<_> =
        spans::of(source).into_iter().filter(|(piece, _)| *piece == SpanKind::Comment).collect();
    let mut end = 0;
    for (_, range) in comments {
        let between = source[end..range.start]
            .trim_matches(|letter: char| letter.is_whitespace() || letter == '\u{feff}');
        if !between.is_empty() {
            break;
        }
        end = range.end;
    }
    end
}

/// Returns the lines of a text, with any line endings, and their byte positions.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let ends = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
    text.split(ends).map(move |line| (line.as_ptr() as usize - text.as_ptr() as usize, line))
}

/// Returns `true` if a character around a key in a comment is decoration.
fn is_decoration(letter: char) -> bool {
    letter.is_whitespace() || is_invisible(letter) || "/*#;>|\"'`-–—•!·@<[({".contains(letter)
}

fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{ad}' | '\0')
}

const SEPARATORS: [char; 8] = [':', '=', '：', '＝', '﹕', '∶', '→', '꞉'];

/// Returns the key and value of a line that resembles a pair; the value is empty if there is only a word.
fn pair(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches(is_decoration);
    let (key, value) = match line.split_once(SEPARATORS) {
        Some(pair) => pair,
        // Without a separator, as in `security true`.
        None => line.trim().split_once(char::is_whitespace)?,
    };
    let is_pair = key.chars().count() <= 32 && key.split_whitespace().count() <= 3;
    is_pair.then(|| {
        (
            key,
            value.trim_matches(|c: char| {
                is_invisible(c) || SEPARATORS.contains(&c) || c == '>' || c.is_whitespace()
            }),
        )
    })
}

/// Returns a key without differences of case and punctuation.
pub(crate) fn folded(key: &str) -> String {
    key.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns the first word of a value, without surrounding quotes and commas.
fn first_word(value: &str) -> String {
    let value = value.trim();
    let is_end = |letter: char| letter.is_whitespace() || ",;".contains(letter);
    let word = value.split_once(is_end).map_or(value, |(word, _)| word);
    let word = word.trim_matches(|letter: char| !letter.is_alphanumeric());
    word.to_lowercase()
}

fn is_yes(value: &str) -> bool {
    let word = first_word(value);
    let is_near = word.chars().count() >= 3 && strsim::damerau_levenshtein(&word, "true") <= 1;
    YES.contains(&&*word) || is_near
}

/// Returns `true` if a line of a comment claims that the file is a guard.
fn claims(line: &str, is_header: bool) -> bool {
    // One line may contain several pairs: `/* title: Guard; security: true */`.
    let parts = line.split([',', ';', '|', '{']).skip(1).filter_map(pair);
    if parts.into_iter().any(|(key, value)| folded(key) == KEY && is_yes(value)) {
        return true;
    }
    // The key may follow other text if a line break was lost: `title: Guardsecurity: true`.
    let lower = line.to_lowercase();
    let behind = lower.rfind(KEY).filter(|at| is_header && *at > 0).map(|at| lower[at + KEY.len()..].trim());
    let is_at_end = behind.and_then(|rest| rest.strip_prefix(SEPARATORS)).is_some_and(|value| {
        value.split_whitespace().filter(|word| *word != "*/").count() == 1 && is_yes(value)
    });
    if is_at_end {
        return true;
    }
    let Some((key, value)) = pair(line) else { return false };
    let has_separator = line.contains(SEPARATORS);
    let (words, key) = (value.split_whitespace().count(), folded(key));
    if key == KEY {
        let word = first_word(value);
        let is_short = has_separator && words == 1 && !NO.contains(&&*word);
        return (is_yes(value) && (has_separator || words == 1)) || (is_header && is_short);
    }
    if !is_header || !(has_separator || words == 1) {
        return false;
    }
    is_near(&key) && is_yes(value)
}

/// Returns `true` if a folded key is almost the key of a guard.
fn is_near(key: &str) -> bool {
    key.starts_with("secur")
        || key.ends_with(KEY)
        || OTHER_KEYS.contains(&key)
        || (key.chars().count() >= 5 && strsim::damerau_levenshtein(key, KEY) <= 2)
}

/// Returns `true` for a constant whose name is almost the key of a guard.
pub(crate) fn is_claim_of_constant(name: &str) -> bool {
    is_near(&folded(name))
}

/// Returns the problems of the keys in the opening comments: unclear claims are errors, others are warnings.
pub(crate) fn problems(file: &SourceFile, source: &str) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let claim = Claim::of(source);
    let is_unclear = matches!(claim, Claim::Unclear { .. });
    if let Claim::Unclear { at, line } = claim {
        let what = format!("cannot read `{line}` as the key `security` of a guard");
        let help = "write `security: true` (or `security: false`) on a separate line of the block comment at the start of the file";
        problems.push(Diagnostic::of(Code::UnclearGuard, file, what).at_byte(source, at).help(help));
    }
    problems.extend(unknown_keys(file, source, is_unclear));
    problems
}

/// Returns the problems of keys in the opening comments that the host does not read.
fn unknown_keys(file: &SourceFile, source: &str, is_unclear: bool) -> Vec<Diagnostic> {
    let known = || reference::frontmatter().iter().map(|key| key.name);
    let read: HashSet<String> = frontmatter(source).into_iter().map(|(key, _)| key).collect();
    let problem =
        |at, what: String| Diagnostic::of(Code::UnknownKey, file, what).at_byte(source, at).warning();
    let mut problems = Vec::new();
    let mut seen_names = HashSet::new();
    let header = &source[..header_end(source)];
    let opening = opening_comment(source);
    let inside = opening.as_ptr() as usize - source.as_ptr() as usize;
    for (at, line) in lines(header) {
        if problems.len() == MAX_PROBLEMS {
            break;
        }
        let indent = line.len() - line.trim_start_matches(is_decoration).len();
        let place = at + indent;
        let Some((key, _)) = pair(line).filter(|_| line.contains(SEPARATORS)) else { continue };
        let name = key.trim();
        let is_key = |name: &str| name.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '_');
        let is_inside = !opening.is_empty() && (inside..inside + opening.len()).contains(&place);
        let is_read =
            is_inside && is_key(key) && !name.is_empty() && read.contains(name) && reads_as(line, name);
        if name.is_empty() || !seen_names.insert(name.to_owned()) {
            continue;
        }
        let same = known().find(|known| folded(known) == folded(name));
        if is_read {
            if known().any(|known| known == name) || FOR_PEOPLE.contains(&name) {
                continue;
            }
            let near =
                same.or_else(|| valvehouse_core::text::nearest(name, known()).filter(|_| name.len() > 3));
            if is_unclear && near == Some(KEY) {
                continue;
            }
            let problem = problem(place, format!("unknown key `{name}` in the opening comment"));
            problems.push(match near {
                Some(near) => problem.meant(near),
                None => problem.help(format!("the keys are {}", known().collect::<Vec<_>>().join(", "))),
            });
        } else if let Some(near) = same.filter(|near| !(read.contains(*near) || is_unclear && *near == KEY)) {
            let help =
                format!("write `{near}: …` on a separate line of the block comment at the start of the file");
            problems.push(problem(place, format!("cannot read `{name}` as the key `{near}`")).help(help));
        }
    }
    problems
}

/// Returns `true` if a line is a pair with this key, in the form that the opening comment requires.
fn reads_as(line: &str, name: &str) -> bool {
    let line = line.trim_start_matches(['\u{feff}', ' ', '\t']);
    let line = line.strip_prefix("/*").unwrap_or(line).trim_start();
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))
}

/// Returns the `key: value` pairs of the opening block comment. The last of several equal keys is used.
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

/// Returns the pairs of the opening comment, including duplicates.
pub(crate) fn every_pair(source: &str) -> Vec<(&str, String)> {
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

/// Returns the opening block comment of a file. Comments may be nested, as in Rhai, so that this is the same
/// comment that the compiler skips.
pub(crate) fn opening_comment(source: &str) -> &str {
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

    const CODE: &str = "fn inlet(body) { body }";

    #[test]
    fn the_opening_comment_declares_a_guard() {
        for head in [
            "/*\nsecurity: true\n*/",
            "\u{feff}\r\n/*\r\nsecurity: true\r\n*/",
            "/* security: true */",
            "/*\n  security:true\n*/",
            "/*\nsecurity: True\nsecurity: true\n*/",
            "/*\rtitle: A\rsecurity: true\r*/\n",
        ] {
            assert_eq!(Claim::of(&format!("{head}\n{CODE}")), Claim::Guard, "{head:?}");
        }
    }

    #[test]
    fn misspelled_guard_declarations_still_claim_to_be_a_guard() {
        let heads = [
            "/*\nsecurity: yes\n*/",
            "/*\nsecurity: on\n*/",
            "/*\nsecurity: 1\n*/",
            "/*\nsecurity: \"true\"\n*/",
            "/*\nsecurity: true,\n*/",
            "/*\nsecurity: tru\n*/",
            "/*\nsecurity: true # a guard\n*/",
            "/*\nsecurity:\n*/",
            "/*\nsecurity: true\nsecurity: false\n*/",
            "/*\nSecurity: true\n*/",
            "/*\nSECURITY: TRUE\n*/",
            "/*\nsecurity : true\n*/",
            "/*\nsecurity = true\n*/",
            "/*\nsecurity true\n*/",
            "/*\nsecurity := true\n*/",
            "/*\nsecurity => true\n*/",
            "/*\nsecurity：true\n*/",
            "/*\nsecuirty: true\n*/",
            "/*\nsecure: true\n*/",
            "/*\nsecurty: yes\n*/",
            "/*\nsecurity_filter: true\n*/",
            "/*\nis_security: true\n*/",
            "/*\ns\u{0435}curity: true\n*/",
            "/*\nsecu\u{200b}rity: true\n*/",
            "/*\nguard: true\n*/",
            "/*\n\"security\": true\n*/",
            "/*\n- security: true\n*/",
            "/*\n# security: true\n*/",
            "/**\n * security: true\n */",
            "/*\n * security: true\n */",
            "/* title: A; security: true */",
            "/* title: A, security: true */",
            "// a note\n/*\nsecurity: true\n*/",
            "// security: true",
            "//! security: true\n",
            "/// security: true\n",
            "/* a note */\n/*\nsecurity: true\n*/",
            "/*\ntitle: Asecurity: true\n*/",
            "const A = 1;\n/*\nsecurity: true\n*/",
        ];
        for head in heads {
            let claim = Claim::of(&format!("{head}\n{CODE}"));
            assert!(matches!(claim, Claim::Unclear { .. }), "{head:?}: {claim:?}");
        }
        for head in [
            "security: true\n*/",
            "---\nsecurity: true\n---",
            "*\nsecurity: true\n*/",
            "\"/*\nsecurity: true\n*/",
        ] {
            assert!(Claim::of_broken(&format!("{head}\n{CODE}")).is_made(), "{head:?}");
        }
    }

    #[test]
    fn ordinary_filters_do_not_claim_to_be_a_guard() {
        for text in [
            CODE,
            "/*\ntitle: Security: what it does\n*/",
            "/*\nsecurity: false\n*/",
            "/*\nSecurity: false\n*/",
            "/*\nseverity: high\n*/",
            "/*\ndescription: A filter for security teams\nsecurity_url: https://example.com\n*/",
            "/*\nA text about security and what is true of it.\n*/",
            "const Valves = #{\n    security: true,\n};",
            "fn inlet(body) {\n    // security: escape what comes from outside\n    body\n}",
            "fn inlet(body) {\n    let x = \"// security: true\";\n    body\n}",
        ] {
            assert_eq!(Claim::of(text), Claim::No, "{text:?}");
        }
    }

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
