//! Tests of lines that authors with experience in Python or JavaScript write, with the reported problem and the
//! fixed line. `lines.txt` contains the expected output; `VALVEHOUSE_UPDATE=1 cargo test -p valvehouse-script
//! lines_of` updates it.

use super::fix;
use crate::diagnostic::{Code, Diagnostic};
use crate::settings::Settings;
use crate::source::Kind;
use crate::{Script, read_text};
use std::path::Path;

const LINES: &str = include_str!("lines.txt");

/// Returns a hook with this line in it.
fn script_of(line: &str) -> String {
    format!(
        "fn inlet(body) {{\n    let words = text::words(\"a\");\n    {line}\n    print(words);\n    body\n}}\n"
    )
}

fn problems(source: &str) -> Vec<Diagnostic> {
    let folder = Path::new("filters");
    let read = match read_text(Kind::Filter, folder, &folder.join("x.rhai"), source) {
        Ok(read) => read,
        Err(problem) => return vec![problem],
    };
    let settings = Settings::default();
    let mut found = Script::check(&read.file, &settings);
    // Missing grants are irrelevant here.
    found.retain(|problem| problem.code != Code::NotGranted);
    found
}

/// Returns the problems of a line, and the line after each fix.
fn report_of(line: &str) -> String {
    let source = script_of(line);
    let mut report = format!("> {line}\n");
    for problem in problems(&source) {
        let place = problem.line.map_or_else(|| "?".to_owned(), |line| (line as isize - 3).to_string());
        let place = if place == "0" { String::new() } else { format!(" (line {place})") };
        report.push_str(&format!("  {}{place} {}\n", problem.code, problem.message));
        if let Some(help) = &problem.help {
            report.push_str(&format!("    help: {help}\n"));
        }
        if let Some(fix) = fix(&problem, &source) {
            let fixed = fix.applied(&source);
            let is_gone = !problems(&fixed).iter().any(|other| {
                (other.code, &other.message, other.line, other.column)
                    == (problem.code, &problem.message, problem.line, problem.column)
            });
            assert!(is_gone, "{line}: the fix leaves {problem}\n{fixed}");
            let changed = fixed.lines().filter(|fixed| !source.lines().any(|line| line == *fixed));
            let changed: Vec<&str> = changed.map(str::trim).collect();
            report.push_str(&format!("    fix: {}: {}\n", fix.title, changed.join(" / ")));
        }
    }
    report
}

#[test]
fn idioms_of_other_languages_are_explained_and_fixed() {
    let lines = LINES.lines().filter_map(|line| line.strip_prefix("> "));
    let report: String = lines.map(report_of).collect();
    if std::env::var_os("VALVEHOUSE_UPDATE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fix/lines.txt");
        std::fs::write(path, report).unwrap();
        return;
    }
    for (line, expected) in report.lines().zip(LINES.lines()) {
        assert_eq!(line, expected);
    }
    assert_eq!(report, LINES);
}

#[test]
fn messages_name_script_types_instead_of_rust_types() {
    for line in LINES.lines() {
        for word in ["i64", "f64", "ImmutableString", "alloc::", "core::", "rhai::", "&str", "Dynamic"] {
            assert!(!line.contains(word), "{line}");
        }
    }
}

#[test]
fn a_missing_capability_is_added_to_the_opening_comment() {
    for (source, expected) in [
        (
            "fn inlet(body) { http::get(\"x\") }",
            "/*\nrequirements: http\n*/\nfn inlet(body) { http::get(\"x\") }",
        ),
        ("/*\ntitle: x\n*/\n", "/*\ntitle: x\nrequirements: http\n*/\n"),
        ("/* title: x */\n", "/* title: x\nrequirements: http\n*/\n"),
        ("/*\nrequirements: kv\n*/\n", "/*\nrequirements: kv, http\n*/\n"),
        ("/*\nrequirements:\n*/\n", "/*\nrequirements: http\n*/\n"),
        ("\u{feff}\n/*\nrequirements: kv\n*/\n", "\u{feff}\n/*\nrequirements: kv, http\n*/\n"),
    ] {
        assert_eq!(super::semantics::requirement("http", source).applied(source), expected, "{source:?}");
    }
}

#[test]
fn fixing_a_whole_script_leaves_no_problem() {
    for (source, expected) in [
        (
            "/*\nrequirements: kv, llm\n*/\nfn inlet(body) { kv::set(\"a\", 1); body }",
            Some("requirements: kv\n"),
        ),
        (
            "/*\nrequirements: llm, kv\n*/\nfn inlet(body) { kv::set(\"a\", 1); body }",
            Some("requirements: kv\n"),
        ),
        ("/*\ntitle: a\nrequirements: llm\n*/\nfn inlet(body) { body }", Some("/*\ntitle: a\n*/")),
        ("fn inlet(body) { print(__user__.id); body }", Some("fn inlet(body, __user__)")),
        ("fn inlet(body) { let unused = 1; body }", Some("let _unused = 1;")),
        ("fn inlet(body) { if body.stream { error(\"no\"); }\n    body }", Some("return error(\"no\");")),
        (
            "fn inlet(body) { let t = body.model.trim(); body.model = t; body }",
            Some("let t = text::trim(body.model);"),
        ),
        (
            "fn inlet(body) { let t = body.messages.last().text.replace(\"a\", \"b\"); body.model = t; body }",
            Some("let t = text::replace(body.messages.last().text, \"a\", \"b\");"),
        ),
        (
            "const Valves = #{ limit: #{ value: 4, ge: 1 } };\nfn inlet(body, valves) { print(valves.limit); body }",
            Some("#{ value: 4, minimum: 1 }"),
        ),
        (
            "const Valves = #{ limit: 4 };\nfn inlet(body, valves) { print(self.valves.limit); body }",
            Some("print(valves.limit);"),
        ),
        ("fn inlet(body) { let n = 1; body.model = \"at ${n}\"; body }", Some("body.model = `at ${n}`;")),
    ] {
        let found = problems(source);
        let [problem] = &found[..] else { panic!("{source}: {found:?}") };
        let fixed = fix(problem, source).map(|fix| fix.applied(source));
        let fixed = fixed.unwrap_or_else(|| panic!("no fix of {problem}"));
        assert!(expected.is_some_and(|part| fixed.contains(part)), "{fixed}");
        assert_eq!(problems(&fixed), [], "{fixed}");
    }
}
