//! Tests of lines that authors with experience in Python or JavaScript write, with the reported problem and the
//! fixed line. `lines.txt` and `mistakes.txt` contain the expected output; `VALVEHOUSE_UPDATE=1 cargo test -p
//! valvehouse-authoring fix::` updates them.

use super::fix;
use std::path::Path;
use valvehouse_script::diagnostic::{Code, Diagnostic, Fix, Severity};
use valvehouse_script::{Kind, Settings};
use valvehouse_script::{Script, read_text};

const LINES: &str = include_str!("lines.txt");

/// Returns a hook with this line in it.
fn script_of(line: &str) -> String {
    format!(
        "fn inlet(body) {{\n    let words = text::words(\"a\");\n    {line}\n    print(words);\n    body\n}}\n"
    )
}

fn problems(source: &str) -> Vec<Diagnostic> {
    let folder = Path::new("filters");
    let kind = if source.contains("fn handler(") { Kind::Tool } else { Kind::Filter };
    let read = match read_text(kind, folder, &folder.join("x.rhai"), source) {
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
    let place = |problem: &Diagnostic| match problem.line {
        Some(3) => String::new(),
        Some(line) => format!(" (line {})", line as isize - 3),
        None => " (line ?)".to_owned(),
    };
    format!("> {line}\n{}", explained(&script_of(line), place))
}

/// Returns the problems of a script with their places, and what each fix makes of it.
fn explained(source: &str, place: impl Fn(&Diagnostic) -> String) -> String {
    let mut report = String::new();
    for problem in problems(source) {
        report.push_str(&format!("  {}{} {}\n", problem.code, place(&problem), problem.message));
        if let Some(help) = &problem.help {
            report.push_str(&format!("    help: {help}\n"));
        }
        if let Some(fix) = fix(&problem, source) {
            let fixed = fixed(&problem, &fix, source);
            let changed = fixed.lines().filter(|fixed| !source.lines().any(|line| line == *fixed));
            let changed: Vec<&str> = changed.map(str::trim).collect();
            report.push_str(&format!("    fix: {}: {}\n", fix.title, changed.join(" / ")));
        }
    }
    report
}

/// Applies a fix: its problem is gone, and there are not more errors than before. It may reveal a problem that the
/// fixed one hid.
fn fixed(problem: &Diagnostic, fix: &Fix, source: &str) -> String {
    let fixed = fix.applied(source);
    let left = problems(&fixed);
    let is_same = |other: &Diagnostic| {
        (other.code, &other.message, other.line, other.column)
            == (problem.code, &problem.message, problem.line, problem.column)
    };
    assert!(!left.iter().any(is_same), "the fix leaves {problem}\n{fixed}");
    let errors = |problems: &[Diagnostic]| {
        problems.iter().filter(|problem| problem.severity == Severity::Error).count()
    };
    assert!(errors(&left) <= errors(&problems(source)), "the fix of {problem} makes it worse:\n{fixed}");
    fixed
}

#[test]
fn idioms_of_other_languages_are_explained_and_fixed() {
    let lines = LINES.lines().filter_map(|line| line.strip_prefix("> "));
    let report: String = lines.map(report_of).collect();
    expected(&report, LINES, "lines.txt");
}

/// The mistakes that authors of Python and Open WebUI make in their first hour: a name, the text that an exact help
/// contains or `works`, the script, and its problems.
const MISTAKES: &str = include_str!("mistakes.txt");

#[test]
fn mistakes_of_the_first_hour_get_the_help_that_mends_them() {
    let place = |problem: &Diagnostic| {
        format!(" {}:{}", problem.line.unwrap_or_default(), problem.column.unwrap_or_default())
    };
    let (mut report, mut all, mut vague) = (String::new(), 0, Vec::new());
    for case in MISTAKES.trim_start_matches("=== ").split("\n=== ") {
        let (head, rest) = case.split_once('\n').unwrap();
        let (name, exact) = head.split_once(" | ").unwrap();
        let source = &rest[..rest.find("---").unwrap()];
        let explained = explained(source, place);
        all += 1;
        // What authors of Python write may also be right here.
        let is_exact = if exact == "works" { explained.is_empty() } else { explained.contains(exact) };
        if !is_exact {
            vague.push(name);
        }
        report.push_str(&format!("=== {head}\n{source}---\n{explained}"));
    }
    println!("{} of {all} mistakes get an exact help; not: {vague:?}", all - vague.len());
    assert!(all == 160 && vague.len() * 100 <= all * 5, "{} of {all}: {vague:?}", vague.len());
    expected(&report, MISTAKES, "mistakes.txt");
}

/// Returns all scripts of these tests, and the broken ones of the program's tests.
fn scripts() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/it/broken");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|extension| extension == "rhai"));
    let broken = scripts.map(|path| std::fs::read_to_string(path).unwrap());
    let lines = LINES.lines().filter_map(|line| line.strip_prefix("> ")).map(script_of);
    let mistakes = MISTAKES.trim_start_matches("=== ").split("\n=== ").map(|case| {
        let (_, rest) = case.split_once('\n').unwrap();
        rest[..rest.find("---").unwrap()].to_owned()
    });
    let tool =
        "const parameters = #{ a: #{ type: \"string\", desciption: \"A\" } };\nfn handler(args) { args.a }\n";
    lines.chain(mistakes).chain(broken).chain([tool.to_owned()]).collect()
}

#[test]
fn applying_every_offered_fix_leaves_fewer_problems() {
    let mut codes = std::collections::BTreeSet::new();
    for source in scripts() {
        let (mut text, mut applied) = (source.clone(), Vec::new());
        let offered =
            |text: &str| problems(text).into_iter().find_map(|problem| Some((fix(&problem, text)?, problem)));
        while let Some((fix, problem)) = offered(&text) {
            text = fixed(&problem, &fix, &text);
            codes.insert(problem.code.to_string());
            applied.push(fix.title);
            assert!(applied.len() < 20, "the fixes do not end: {applied:?}\n{source}\n{text}");
        }
        let (before, left) = (problems(&source).len(), problems(&text).len());
        // Each problem is gone, but a syntax error may have hidden another one.
        assert!(left <= before, "{applied:?} of {before} leave {left}:\n{text}\n{:?}", shown(&text));
    }
    for code in [
        "V101", "V103", "V104", "V204", "V213", "V301", "V304", "V502", "V606", "V608", "V612", "V613",
        "V617",
    ] {
        assert!(codes.contains(code), "no script here has a fix of {code}: {codes:?}");
    }
}

#[test]
fn a_hint_that_names_one_change_offers_it() {
    let more = [
        "/*\nrequirements: htp\n*/\nfn inlet(body) { http::get(\"https://a.test\"); }",
        "/*\nneeds: toekn\n*/\nconst Valves = #{ token: \"\" };\nfn inlet(body, valves) { print(valves.token); }",
        "fn pipe(body, __tools__) { __tools__.len().to_string() }",
    ];
    let mut offered = 0;
    for source in scripts().into_iter().chain(more.map(str::to_owned)) {
        for problem in problems(&source).into_iter().filter(|problem| problem.line.is_some()) {
            let hint = problem.help.as_deref().unwrap_or_default();
            let is_capability =
                hint.starts_with("add a line to the opening comment of the file: requirements: ");
            if is_capability || hint.starts_with("did you mean `") {
                assert!(fix(&problem, &source).is_some(), "no fix of {problem}");
                offered += 1;
            }
        }
    }
    assert!(offered > 25, "{offered}");
    for source in more {
        assert!(problems(source).iter().any(|problem| fix(problem, source).is_some()), "{source}");
    }
}

/// Compares a report with the file that contains it, or updates the file.
fn expected(report: &str, expected: &str, file: &str) {
    if std::env::var_os("VALVEHOUSE_UPDATE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fix").join(file);
        std::fs::write(path, report).unwrap();
        return;
    }
    for (line, expected) in report.lines().zip(expected.lines()) {
        assert_eq!(line, expected);
    }
    assert_eq!(report, expected);
}

/// Returns the problems of a script as `line:column code message; help`.
fn shown(source: &str) -> Vec<String> {
    let one = |problem: Diagnostic| {
        let place = format!("{}:{}", problem.line.unwrap_or(0), problem.column.unwrap_or(0));
        format!("{place} {} {}; {}", problem.code, problem.message, problem.help.unwrap_or_default())
    };
    problems(source).into_iter().map(one).collect()
}

#[test]
fn a_description_in_three_quotes_becomes_a_comment() {
    let source =
        "\"\"\"\ntitle: X\nrequirements: kv\n\"\"\"\nfn inlet(body) {\n    kv::set(\"a\", 1);\n    body\n}\n";
    let found = problems(source);
    assert_eq!((found[0].line, found[0].column), (Some(1), Some(1)), "{found:?}");
    let fixed = fix(&found[0], source).unwrap().applied(source);
    assert!(fixed.starts_with("/*\ntitle: X"), "{fixed}");
    assert_eq!(problems(&fixed), [], "{fixed}");
}

#[test]
fn a_caret_points_at_the_word_that_is_wrong() {
    for (source, place) in [
        ("def inlet(body):\n    return body\n", (1, 1)),
        ("async fn inlet(body) { body }\n", (1, 1)),
        ("import re\nfn inlet(body) { body }\n", (1, 1)),
        ("fn inlet(body) {\n    raise \"no\";\n}\n", (2, 5)),
        ("fn inlet(body) {\n    let f = lambda m: m;\n    body\n}\n", (2, 13)),
        ("fn inlet(body) {\n    if body.stream is True { }\n    body\n}\n", (2, 20)),
        ("fn inlet(body)\n    body\n", (1, 15)),
        ("fn inlet(body) {\n    if body.model = 1 { }\n    body\n}\n", (2, 19)),
    ] {
        let found = problems(source);
        assert_eq!((found[0].line, found[0].column), (Some(place.0), Some(place.1)), "{source}: {found:?}");
    }
}

#[test]
fn the_syntax_errors_of_several_functions_are_reported_at_once() {
    let source = "fn one(body) {\n    let x = ;\n}\n\nfn two(body) {\n    body.x = 5 5;\n}\n\nfn inlet(body) {\n    body\n}\n\nfn three() {\n    if x = 1 { }\n}\n";
    let lines: Vec<usize> = problems(source).into_iter().filter_map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 6, 14]);
    let python = "def inlet(self, body):\n    return body\n\ndef outlet(self, body):\n    return body\n";
    let lines: Vec<usize> = problems(python).into_iter().filter_map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 4]);
    let names = "fn inlet(body) {\n    body.a = one;\n    body.b = two + one;\n    body\n}\n";
    let lines: Vec<usize> = problems(names).into_iter().filter_map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 3]);
    let both = "fn inlet(body) {\n    body.a = nowhere(1);\n    body.b = one;\n    body.c = two + three;\n    body\n}\n";
    let lines: Vec<usize> = problems(both).into_iter().filter_map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 3, 4, 4], "{:?}", shown(both));
    let open = "fn one() {\n    if true {\n}\n\nfn inlet(body) {\n    body\n}\n";
    assert_eq!(problems(open).len(), 1, "{:?}", shown(open));
}

#[test]
fn constants_that_want_to_be_declarations_are_reported() {
    let inlet = "fn inlet(body) { body }\n";
    for (constant, code, help) in [
        ("const toggel = true;", Code::UnknownKey, "did you mean `toggle`?"),
        ("const Valve = #{ a: 1 };", Code::UnknownKey, "did you mean `Valves`?"),
        ("const UserValve = #{ a: 1 };", Code::UnknownKey, "did you mean `UserValves`?"),
        ("const file_handlr = true;", Code::UnknownKey, "did you mean `file_handler`?"),
        ("const callback = true;", Code::UnknownKey, "did you mean `callbacks`?"),
        ("const priority = 5;", Code::UnknownKey, "write `priority: 5` in the comment"),
        ("const hold = true;", Code::UnknownKey, "write `hold: true` in the comment"),
        ("const global = false;", Code::UnknownKey, "write `global: false` in the comment"),
        ("const on_error = \"continue\";", Code::UnknownKey, "write `on_error: continue` in the comment"),
        ("const security = true;", Code::UnclearGuard, "write `security: true` in the comment"),
        ("const Security = true;", Code::UnclearGuard, "write `security: true` in the comment"),
        ("const securty = true;", Code::UnclearGuard, "write `security: true` in the comment"),
        ("const guard = 1;", Code::UnclearGuard, "write `security: true` in the comment"),
    ] {
        let found = problems(&format!("{constant}\n{inlet}"));
        let [problem] = &found[..] else { panic!("{constant}: {found:?}") };
        assert!(
            problem.code == code && problem.help.as_ref().unwrap().starts_with(help),
            "{constant}: {problem}"
        );
    }
    for constant in ["const LIMIT = 5;", "const security = false;"] {
        assert_eq!(problems(&format!("{constant}\n{inlet}")), [], "{constant}");
    }
    let used = "const hold = 5;\nfn inlet(body) { body.n = hold; body }\n";
    assert_eq!(problems(used), []);
}

#[test]
fn a_call_of_the_kernel_needs_the_capability_for_tools() {
    let call = "fn pre_chat(ctx) { ctx.facts = ctx.kernel.invoke(\"lookup\", #{}); ctx }\n";
    let found = problems(call);
    assert!(found.iter().any(|problem| problem.code == Code::NotDeclared), "{:?}", shown(call));
    let declared = format!("/*\nrequirements: tools\n*/\n{call}");
    assert_eq!(shown(&declared), Vec::<String>::new());
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
