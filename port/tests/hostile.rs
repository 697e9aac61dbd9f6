//! Files that would make a draft large or slow, and files that Python itself rejects.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use valvehouse_port::port;

/// Returns a filter whose hook has these lines, after the lines of the file.
fn filter(file: &str, hook: &str) -> String {
    let hook: String = hook.lines().map(|line| format!("        {line}\n")).collect();
    format!("{file}\nclass Filter:\n    def inlet(self, body):\n{hook}        return body\n")
}

/// Returns the draft of a file with `count` lines `A1 = …`, `A2 = …`, and a hook that reads the last one.
fn chained(first: &str, count: usize, next: impl Fn(&str) -> String) -> String {
    let mut file = format!("import time\nA0 = {first}\n");
    for at in 1..=count {
        writeln!(file, "A{at} = {}", next(&format!("A{}", at - 1))).unwrap();
    }
    port(&filter(&file, &format!("body[\"last\"] = A{count}")), "plugin").unwrap().script
}

#[test]
fn constants_that_double_in_each_line_make_a_short_draft() {
    for script in [
        chained("\"word\"", 200, |one| format!("{one} + {one}")),
        chained("[1]", 200, |one| format!("[{one}, {one}]")),
        chained("{}", 200, |one| format!("{{\"a\": {one}, \"b\": {one}}}")),
        chained("\"word\"", 200, |one| format!("f\"{{{one}}}{{{one}}}\"")),
        chained("time.time()", 200, |one| format!("{one} + {one}")),
    ] {
        assert!(script.len() < 512 * 1024, "{} bytes", script.len());
        assert!(script.contains("TODO"), "{script}");
    }
}

#[test]
fn a_thousand_constants_that_use_each_other_need_no_deep_stack() {
    assert!(chained("time.time()", 5_000, |one| format!("{one} + 1")).contains("TODO"));
}

#[test]
fn a_constant_that_uses_a_computed_one_is_computed() {
    let script = chained("time.time()", 2, |one| format!("{one} + 1"));
    assert!(!script.contains("TODO") && script.contains("a2()"), "{script}");
}

#[test]
fn thousands_of_methods_and_attributes_in_a_chain_are_read_once() {
    let count = 4_000;
    let mut file = String::from("class Filter:\n    def __init__(self):\n        self.a0 = 1\n");
    for at in 1..count {
        writeln!(file, "        self.a{at} = self.a{} + 1", at - 1).unwrap();
    }
    for at in 0..count {
        writeln!(file, "    def step{at}(self, body):\n        return self.step{}(body)", at + 1).unwrap();
    }
    writeln!(file, "    def step{count}(self, body):\n        self.seen = body[\"id\"]\n        return body")
        .unwrap();
    writeln!(
        file,
        "    def inlet(self, body):\n        body[\"last\"] = self.a{}\n        return self.step0(body)",
        count - 1
    )
    .unwrap();
    let script = port(&file, "plugin").unwrap().script;
    assert!(script.contains("fn step3999(body, state)"), "the method at the end of the chain has no state");
}

#[test]
fn tabs_mixed_with_spaces_are_an_error_as_in_python() {
    let error =
        port("class Filter:\n\tdef inlet(self, body):\n\t\tbody[\"a\"] = 1\n        return body\n", "plugin");
    let error = error.unwrap_err().to_string();
    assert!(error.contains("line 4") && error.contains("indentation"), "{error}");
    let tabs =
        "class Filter:\n\tdef inlet(self, body):\n\t\tif body:\n\t\t\tbody[\"a\"] = 1\n\n\t\treturn body\n";
    assert!(port(tabs, "plugin").unwrap().script.contains("body.a = 1"));
}

#[test]
fn statements_of_python_2_are_named() {
    for line in ["print \"hello\"", "print body", "exec \"x\""] {
        let error = port(&filter("", line), "plugin").unwrap_err().to_string();
        assert!(error.contains("Python 2"), "{line}: {error}");
    }
}

#[test]
fn a_name_that_belongs_to_an_outer_scope_is_not_declared_anew() {
    let script = port(
        &filter(
            "COUNT = 0",
            "global COUNT
COUNT += 1
found = []
def keep(one):
    nonlocal found
    found = found + [one]
keep(body[\"id\"])
body[\"found\"] = found",
        ),
        "plugin",
    )
    .unwrap()
    .script;
    assert!(
        !script.contains("let COUNT") && script.contains("TODO `COUNT`, which all calls share"),
        "{script}"
    );
    assert_eq!(script.matches("let found").count(), 1, "{script}");
    assert!(script.contains("    found = found + [one];"), "{script}");
}
