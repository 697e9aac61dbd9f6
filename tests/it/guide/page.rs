//! A page of the guide as a list of steps. An invisible HTML comment above a block gives its kind:
//!
//! - `file: PATH`, `add: PATH`: the content of a file, or text to append to it;
//! - `run`, `run: CODE`: a command and its exit code; a `text` block that follows is the output;
//! - `serve`: a host to start in another terminal; a `text` block that follows is its first output;
//! - `terminal`: the further output of that host;
//! - `hook: inlet(body)`: the body of a hook, which runs in a small chat; `…, with kv` adds that requirement.
//!
//! Blocks of `python` are only compiled. `…` in an output matches any text; on a line of its own it matches
//! any lines.

use std::path::Path;

/// One step of a page.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) does: Does,
}

#[derive(Debug)]
pub(super) enum Does {
    Saves { path: String, text: String },
    Adds { path: String, text: String },
    Types { text: String, code: i32, output: Option<String> },
    Starts { text: String, output: Option<String> },
    Sees { output: String },
    Calls { hook: String, text: String },
    HasBefore { python: String },
}

/// Returns the steps of a page in order.
pub(super) fn steps(path: &Path) -> Vec<Step> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut steps: Vec<Step> = Vec::new();
    let mut note = None;
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(comment) = line.strip_prefix("<!-- ") {
            note = comment.strip_suffix(" -->");
        } else if let Some(language) = line.strip_prefix("```") {
            let block: String =
                lines.by_ref().map_while(|(_, line)| (line != "```").then(|| format!("{line}\n"))).collect();
            let place = format!("{}:{}", path.display(), number + 1);
            match (note.take(), language) {
                (None, "text") => shows(steps.last_mut(), block, &place),
                (note, language) => {
                    steps.push(Step { line: number + 1, does: does(note, language, block, &place) });
                }
            }
        } else if !line.is_empty() {
            note = None;
        }
    }
    steps
}

fn does(note: Option<&str>, language: &str, text: String, place: &str) -> Does {
    let (word, about) = note.map(|note| note.split_once(": ").unwrap_or((note, ""))).unwrap_or_default();
    let about = about.to_owned();
    match (word, language) {
        ("file", _) => Does::Saves { path: about, text },
        ("add", _) => Does::Adds { path: about, text },
        ("run", "sh") => Does::Types { text, code: about.parse().unwrap_or(0), output: None },
        ("serve", "sh") => Does::Starts { text, output: None },
        ("terminal", "text") => Does::Sees { output: text },
        ("hook", "rhai") => Does::Calls { hook: about, text },
        ("", "python") => Does::HasBefore { python: text },
        _ => panic!("{place}: nobody tries this block of {language:?}: {note:?} is above it"),
    }
}

/// Sets the expected output of the previous step.
fn shows(before: Option<&mut Step>, text: String, place: &str) {
    match before.map(|step| &mut step.does) {
        Some(Does::Types { output: output @ None, .. } | Does::Starts { output: output @ None, .. }) => {
            *output = Some(text);
        }
        _ => panic!("{place}: a block of text follows what it is the output of, or has `terminal` above it"),
    }
}

/// Returns `true` if an output matches that of a page.
pub(super) fn fits(shown: &str, actual: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    };
    lines_fit(&lines(shown), &lines(actual))
}

fn lines_fit(shown: &[String], actual: &[String]) -> bool {
    match shown.split_first() {
        None => actual.is_empty(),
        Some((line, rest)) if line.trim() == "…" => {
            (0..=actual.len()).any(|skipped| lines_fit(rest, &actual[skipped..]))
        }
        Some((line, rest)) => actual
            .split_first()
            .is_some_and(|(first, others)| line_fits(line, first) && lines_fit(rest, others)),
    }
}

/// Returns `true` if a line matches; each `…` matches any text.
pub(super) fn line_fits(shown: &str, actual: &str) -> bool {
    let mut pieces = shown.split('…');
    let Some(mut rest) = actual.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn an_output_matches_if_only_elided_parts_differ() {
    assert!(fits("one\ntwo …\n…\nend\n", "one\ntwo and a half\n\nthree\nend\n\n"));
    assert!(fits("…\nend", "end") && fits("a…c…e", "abcde"));
    assert!(!fits("one\n", "one\ntwo\n") && !fits("a…c", "abcd") && !fits("…\nend", "end of it"));
}
