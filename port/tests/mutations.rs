//! Broken and hostile files: the port returns a draft or an error, without a panic, an endless loop or a
//! stack overflow.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use valvehouse_port::{PortError, port};

const SOURCES: [&str; 6] = [
    include_str!("plugins/filter.py"),
    include_str!("plugins/tools.py"),
    include_str!("plugins/pipe.py"),
    include_str!("plugins/action.py"),
    include_str!("plugins/letters.py"),
    include_str!("plugins/pages.py"),
];

/// Fragments of Python to insert at wrong places.
const PIECES: [&str; 40] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    ".",
    "=",
    "\n",
    "    ",
    "\t",
    "\\",
    "'",
    "\"",
    "\"\"\"",
    "f\"{",
    "f'{a!r:>{b}}'",
    "lambda x: ",
    "yield ",
    "await ",
    "async ",
    "def f(*a, **k):\n        ",
    "class X:\n    ",
    "if ",
    "elif ",
    "else:",
    "for ",
    "while ",
    "try:\n",
    "except:\n",
    "return ",
    "with ",
    "match x:\n    case _:\n",
    ":= ",
    "not ",
    "é",
    "🦀",
    "self.",
];

#[derive(Debug, Clone)]
enum Mutation {
    Remove(usize, usize),
    Insert(usize, usize),
    Copy(usize, usize, usize),
    Swap(usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = 0..20_000_usize;
    prop_oneof![
        (place.clone(), 0..60_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        (place.clone(), 0..PIECES.len()).prop_map(|(at, piece)| Mutation::Insert(at, piece)),
        (place.clone(), place.clone(), 0..200_usize)
            .prop_map(|(from, to, length)| Mutation::Copy(from, to, length)),
        (place.clone(), place).prop_map(|(a, b)| Mutation::Swap(a, b)),
    ]
}

fn mutated(source: &str, mutations: &[Mutation]) -> String {
    let mut text: Vec<char> = source.chars().collect();
    for mutation in mutations {
        let length = text.len().max(1);
        match mutation {
            Mutation::Remove(at, count) => {
                let at = at % length;
                let end = (at + count).min(text.len());
                text.drain(at.min(end)..end);
            }
            Mutation::Insert(at, piece) => {
                let at = (at % length).min(text.len());
                text.splice(at..at, PIECES[*piece].chars());
            }
            Mutation::Copy(from, to, count) => {
                let from = (from % length).min(text.len());
                let end = (from + count).min(text.len());
                let part: Vec<char> = text[from..end].to_vec();
                let to = (to % length).min(text.len());
                text.splice(to..to, part);
            }
            Mutation::Swap(a, b) if !text.is_empty() => {
                let (a, b) = (a % text.len(), b % text.len());
                text.swap(a, b);
            }
            Mutation::Swap(..) => {}
        }
    }
    text.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn mutated_plugins_are_ported_or_refused(which in 0..SOURCES.len(), mutations in prop::collection::vec(mutation(), 0..6)) {
        let source = mutated(SOURCES[which], &mutations);
        match port(&source, "mutant") {
            Ok(draft) => {
                prop_assert!(draft.lines.left <= draft.lines.all);
                prop_assert!(draft.script.starts_with("/*\n"));
                let last = source.lines().count() + 1;
                prop_assert!(draft.notes.iter().all(|note| note.line <= last));
            }
            Err(PortError::Syntax(error)) => {
                prop_assert!(error.line >= 1 && error.column >= 1);
                prop_assert!(error.line <= source.lines().count() + 1);
            }
            Err(_) => {}
        }
    }

    #[test]
    fn any_text_is_ported_or_refused(text in "\\PC{0,200}") {
        let _ = port(&text, "text");
        let _ = port(&format!("class Filter:\n    def inlet(self, body):\n        {text}\n"), "text");
    }
}

/// Runs a step on a stack as small as that of a test thread.
fn on_a_small_stack(step: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(step).unwrap().join().unwrap();
}

#[test]
fn nesting_is_bounded() {
    on_a_small_stack(|| {
        let plugin = |value: &str| {
            format!("class Filter:\n    def inlet(self, body):\n        x = {value}\n        return body\n")
        };
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("{1: ", "}"),
            ("f(", ")"),
            ("lambda: ", ""),
            ("not ", ""),
            ("-", ""),
            ("a if b else ", "c"),
        ] {
            let inner = if open.starts_with('a') { "" } else { "1" };
            for depth in [20, 55, 100_000 / open.len().max(1)] {
                let value = format!(
                    "{}{inner}{}",
                    open.repeat(depth),
                    close.repeat(if open.starts_with('a') { 1 } else { depth })
                );
                let drafted = port(&plugin(&value), "deep");
                assert!(depth > 55 || drafted.is_ok() || depth > 25, "{open} {depth}: {drafted:?}");
                // Brackets around a value are not part of the tree.
                assert!(depth <= 60 || open == "(" || drafted.is_err(), "{open} {depth} was read");
            }
        }
        let chain = |link: &str| plugin(&format!("a{}", link.repeat(100_000)));
        for link in [" + a", ".b", "[0]", "()", " and a", " < a"] {
            let _ = port(&chain(link), "chain");
        }
    });
}

#[test]
fn blocks_are_bounded() {
    on_a_small_stack(|| {
        for word in ["if a:", "for a in b:", "while a:", "try:", "with a as b:", "def f(a):"] {
            for depth in [10, 40, 200] {
                let mut source = String::from("class Filter:\n    def inlet(self, body):\n");
                for level in 0..depth {
                    source.push_str(&format!("{}{word}\n", "  ".repeat(level + 4)));
                }
                source.push_str(&format!("{}pass\n", "  ".repeat(depth + 4)));
                if word == "try:" {
                    for level in (0..depth).rev() {
                        source
                            .push_str(&format!("{0}except Exception:\n{0}  raise\n", "  ".repeat(level + 4)));
                    }
                }
                let drafted = port(&source, "deep");
                assert_eq!(drafted.is_ok(), depth < 60, "{word} {depth}: {drafted:?}");
            }
        }
    });
}

#[test]
fn many_lines_take_little_time() {
    let start = std::time::Instant::now();
    let mut source = String::from("class Filter:\n    def inlet(self, body):\n");
    for number in 0..18_000 {
        source.push_str(&format!("        a{number} = {number}\n"));
    }
    source.push_str("        return body\n");
    let draft = port(&source, "long").unwrap();
    assert_eq!(draft.lines.left, 0);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn self_referencing_names_are_ported() {
    for source in [
        "A = A\nclass Filter:\n    def inlet(self, body): return A\n",
        "A = B\nB = A\nclass Filter:\n    def inlet(self, body): return A\n",
        "X = X + 1\nclass Filter:\n    def inlet(self, body): return X\n",
        "A = {\"x\": A}\nclass Filter:\n    def inlet(self, body): return A\n",
        "class Filter:\n    def __init__(self):\n        self.a = self.b\n        self.b = self.a\n    def inlet(self, body): return self.a\n",
    ] {
        on_a_small_stack(move || drop(port(source, "loop")));
    }
}

#[test]
fn text_of_the_source_never_becomes_code() {
    let source = "class Filter:\n    def inlet(self, body):\n        pandas.z(\"\"\"\r body } fn outlet(body) { throw \\\"no\\\"; } //\"\"\")\n        return body\n";
    let draft = port(source, "text").unwrap();
    assert!(!draft.script.contains('\r'), "{}", draft.script);
}
