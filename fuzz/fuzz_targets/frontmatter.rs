//! Scripts: any text compiles or has problems whose places lie within it, and what a script says of
//! itself is what a reader written apart from ours finds in its opening comment.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::{LazyLock, Mutex, mpsc};
use valvehouse::filter::FailurePolicy;
use valvehouse::script::{Kind, Diagnostic, Script, Settings, Severity, SourceFile, claims_of};

fuzz_target!(|text: &str| {
    // The stack of whoever compiles in the host is as large; the fuzzer's own is not.
    static WORKER: LazyLock<Mutex<(mpsc::Sender<String>, mpsc::Receiver<()>)>> = LazyLock::new(|| {
        let (sender, texts) = mpsc::channel::<String>();
        let (done, receiver) = mpsc::channel();
        let work = move || {
            for text in texts {
                try_text(&text);
                let _ = done.send(());
            }
        };
        std::thread::Builder::new().stack_size(256 << 20).spawn(work).expect("threads can be started");
        Mutex::new((sender, receiver))
    });
    let worker = WORKER.lock().expect("a panic ends the process");
    worker.0.send(text.to_owned()).expect("the worker lives as long as the process");
    worker.1.recv().expect("the worker lives as long as the process");
});

fn try_text(text: &str) {
    let pairs = read_plainly(text);
    let says = |key: &str, value: &str| pairs.iter().any(|(k, v)| k == key && v.eq_ignore_ascii_case(value));
    let of_itself = (says("security", "true"), !says("global", "false"));
    assert_eq!(claims_of(text), of_itself);
    let settings = Settings::default();
    for kind in [Kind::Filter, Kind::Tool] {
        let file = SourceFile::new(kind, "fuzzed", "filters/fuzzed.rhai", text);
        match Script::compile(&file, &settings) {
            Ok(script) => {
                let manifest = &script.manifest;
                assert_eq!(manifest.frontmatter, pairs);
                assert_eq!((manifest.security, manifest.global), of_itself);
                let goes_on = says("on_error", "continue") && !manifest.security;
                assert_eq!(manifest.failure_policy, if goes_on { FailurePolicy::FailOpen } else { FailurePolicy::FailClosed });
                assert_eq!(manifest.hold, says("hold", "true"));
                script.warnings.iter().for_each(|problem| check(problem, text, Severity::Warning));
                assert!(script.priority().is_finite());
            }
            Err(problems) => {
                assert!(problems.iter().any(|problem| problem.severity == Severity::Error), "{problems:?}");
                problems.iter().for_each(|problem| check(problem, text, problem.severity));
            }
        }
    }
}

/// A problem that can be shown, at a place that is there.
fn check(problem: &Diagnostic, text: &str, severity: Severity) {
    assert_eq!(problem.severity, severity, "{problem}");
    assert!(!problem.message.is_empty());
    assert!(problem.to_string().contains("filters/fuzzed.rhai"));
    let Some(line) = problem.line else {
        assert_eq!(problem.column, None);
        return;
    };
    // A lone carriage return ends a line for Rhai, and for nobody else: places behind it are one off.
    if text.replace("\r\n", "").contains('\r') {
        return;
    }
    // A missing end is missing behind the last line.
    let text = text.trim_start_matches('\u{feff}');
    let lines: Vec<&str> = text.split('\n').collect();
    assert!((1..=lines.len() + 1).contains(&line), "line {line} of {}: {problem}", lines.len());
    let there = lines.get(line - 1).copied().unwrap_or_default();
    assert_eq!(problem.excerpt, there.trim_end(), "{problem}");
    let column = problem.column.expect("a line comes with a column");
    assert!((1..=there.chars().count() + 2).contains(&column), "column {column}: {problem}");
}

/// The opening comment, letter by letter: `key: value` a line, keys of letters and `_` directly before
/// the colon, the last of a name wins at the place of the first. Comments nest, as in Rhai.
fn read_plainly(text: &str) -> Vec<(String, String)> {
    let mut letters = text.trim_start_matches('\u{feff}').chars().skip_while(|letter| letter.is_whitespace());
    if (letters.next(), letters.next()) != (Some('/'), Some('*')) {
        return Vec::new();
    }
    let mut letters = letters.peekable();
    let (mut block, mut depth) = (String::new(), 1);
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('*', Some('/')) => depth -= 1,
            ('/', Some('*')) => depth += 1,
            _ => {
                block.push(letter);
                continue;
            }
        }
        if depth == 0 {
            break;
        }
        block.push(letter);
        block.extend(letters.next());
    }
    let mut pairs: Vec<(String, String)> = Vec::new();
    for line in block.split('\n') {
        let line = line.trim();
        let length = line.bytes().take_while(|byte| byte.is_ascii_alphabetic() || *byte == b'_').count();
        let (key, rest) = line.split_at(length);
        if let (false, Some(value)) = (key.is_empty(), rest.strip_prefix(':')) {
            let value = value.trim().to_owned();
            match pairs.iter().position(|(known, _)| known == key) {
                Some(place) => pairs[place].1 = value,
                None => pairs.push((key.to_owned(), value)),
            }
        }
    }
    pairs
}
