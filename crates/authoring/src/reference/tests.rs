//! Tests that the pages of the reference are complete and have the format of their readers.

use super::*;
use crate::testing::test_functions;
use std::collections::BTreeSet;
use valvehouse_script::{Kind, Script, Settings, SourceFile};
use valvehouse_script_std::engine;
use valvehouse_script_std::reference::{Function, FunctionOrigin, Param, functions};

#[test]
fn every_host_function_has_a_description_and_named_parameters() {
    let own = || {
        let hosts = functions().iter().filter(|function| function.origin == FunctionOrigin::Host);
        hosts.chain(test_functions())
    };
    let undocumented: Vec<String> = own()
        .filter(|function| {
            let is_bare = |param: &Param| param.name.starts_with('_') || param.name.is_empty();
            function.doc.is_empty() || function.params.iter().any(is_bare)
        })
        .map(Function::signature)
        .collect();
    assert!(undocumented.is_empty(), "undocumented:\n{}", undocumented.join("\n"));
    for (name, expected) in [
        ("find", "regex::find(text, pattern: text) -> any"),
        ("window", "kv::user::window(key: text, seconds: number, limit: integer) -> window"),
        ("last", "messages.last(role: text) -> message"),
        ("get", "http::get(url: text, options: map) -> http_answer"),
        ("json", "answer.json() -> any"),
        ("deny", "deny(message, status: integer)"),
        ("assert_eq", "assert_eq(actual, expected)"),
        ("http", "canned::http(method: text, url: text, answer)"),
    ] {
        let all: Vec<String> =
            own().filter(|function| function.name == name).map(Function::signature).collect();
        assert!(all.iter().any(|signature| signature == expected), "{expected} is not among {all:#?}");
    }
}

#[test]
fn every_host_function_is_on_the_reference_page() {
    let page = document();
    for function in functions()
        .iter()
        .filter(|function| function.origin == FunctionOrigin::Host && !function.module.contains("::"))
    {
        let is_documented = page.contains(&format!("`{}`\\\n", function.signature()))
            || function.is_method
                && page.contains(&function.signature().split_once('.').unwrap().1.replace('|', "\\|"));
        assert!(is_documented, "{} is not on the page", function.signature());
    }
    assert!(!page.contains("\n\n\n"), "a section is empty");
}

#[test]
fn the_page_in_docs_equals_the_printed_one() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    if std::env::var_os("VALVEHOUSE_UPDATE").is_some() {
        std::fs::write(&page, document()).unwrap();
    }
    let written = std::fs::read_to_string(page).unwrap_or_default();
    assert!(
        written == document(),
        "docs/reference.md is not what is printed: cargo run -- definitions --reference > docs/reference.md"
    );
}

#[test]
fn the_examples_of_the_reference_load_without_warnings() {
    for theme in super::theme::THEMES.iter().filter(|theme| !theme.example.is_empty()) {
        let file = SourceFile::new(Kind::Filter, "example", "filters/example.rhai", theme.example);
        let script = Script::compile(&file, &Settings::default());
        let script = script.unwrap_or_else(|problems| panic!("{}: {problems:#?}", theme.title));
        assert!(script.warnings.is_empty(), "{}: {:?}", theme.title, script.warnings);
    }
}

#[test]
fn definitions_have_the_format_of_rhai() {
    let files = definitions();
    let text =
        |name: &str| files.iter().find(|(file, _)| file == name).map(|(_, text)| text.as_str()).unwrap();
    let own = engine::new();
    let own: std::collections::HashMap<String, String> = own.definitions().modules().collect();
    // The lines are equal if the definition adds nothing to Rhai's own.
    for module in ["hash", "base64", "url", "regex"] {
        let lines = |text: &str| {
            let lines = text
                .lines()
                .filter(|line| line.starts_with("fn "))
                .map(|line| line.replace("string", "String").replace("AnyMap", "Map").replace("FnPtr", "Fn"))
                .map(|line| line.replace("TextOrBytes", "?").replace("-> Bytes", "-> Blob"));
            lines.collect::<BTreeSet<_>>()
        };
        assert_eq!(lines(text(&format!("{module}.d.rhai"))), lines(&own[module]), "{module}");
    }
    assert!(text("kv.d.rhai").contains("\nmodule user {\n"));
    assert!(text("values.d.rhai").contains("\nfn get text(message: message) -> String;\n"));
    assert!(text("http.d.rhai").contains("/// Needs `requirements: http`."));
}
