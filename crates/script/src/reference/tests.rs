//! Tests that the reference is complete and lists nothing that does not exist.

use super::*;
use crate::testing::test_functions;
use crate::value::PROPERTIES;
use crate::{Kind, Script, Settings, SourceFile, engine, hooks, manifest};
use std::collections::BTreeSet;
use valvehouse_config::Capability;
use valvehouse_core::callback::Callback;
use valvehouse_core::filter::Hook;

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
fn the_reference_lists_every_function_of_the_engine() {
    let named: BTreeSet<(&str, &str)> =
        functions().iter().map(|function| (&*function.module, &*function.name)).collect();
    let registered = engine::new().collect_fn_metadata(
        None,
        |info| {
            let name = info.metadata.name.to_string();
            let is_word = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
            is_word.then(|| (info.namespace.to_string(), name))
        },
        true,
    );
    // `invoke` is documented with `ctx.kernel`.
    let language = ["to_debug", "get_fn_metadata_list", "tag", "set_tag", "__call_tool__", "invoke"];
    let missing: BTreeSet<&(String, String)> = registered
        .iter()
        .filter(|(module, name)| !named.contains(&(module, name)) && !language.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_computed_property_is_documented_and_works() {
    let getters = engine::new().collect_fn_metadata(
        None,
        |info| Some(info.metadata.name.strip_prefix("get$")?.to_owned()),
        false,
    );
    let words: BTreeSet<&str> =
        handles().iter().flat_map(|handle| &handle.words).map(|word| word.name.as_str()).collect();
    for name in getters.iter().map(String::as_str).chain(PROPERTIES.iter().map(|property| property.name)) {
        let is_of_lists = ["len", "is_empty"].contains(&name);
        assert!(words.contains(name) || is_of_lists, "`{name}` is not a word of any value");
    }
    let undocumented: Vec<String> = handles()
        .iter()
        .flat_map(|handle| {
            handle.words.iter().filter(|word| word.doc.is_empty()).map(|word| word.signature(handle.name))
        })
        .collect();
    assert!(undocumented.is_empty(), "{undocumented:?}");
    assert!(handles().iter().all(|handle| !handle.about.is_empty()));
}

#[test]
fn every_hook_parameter_constant_and_capability_is_described() {
    let names =
        |role: ScriptRole| entries().iter().filter(move |entry| entry.role == role).map(|entry| entry.name);
    let filters: BTreeSet<&str> = names(ScriptRole::Filter).collect();
    assert_eq!(filters, Hook::ALL.map(Hook::name).into_iter().chain([hooks::DONE, "tick"]).collect());
    for hook in Hook::ALL {
        let subject = entry(hook.name()).and_then(|entry| entry.subject).map(|(name, _)| name);
        assert_eq!(subject, hooks::subject_name(hook), "{hook}");
    }
    let callbacks: BTreeSet<&str> = names(ScriptRole::Callback).collect();
    assert_eq!(callbacks, Callback::names().map(|(name, _)| name).collect());
    let named = |keys: &[KeyDoc]| keys.iter().map(|key| key.name).collect::<BTreeSet<_>>();
    let others = [hooks::OF_TOOLS.0, hooks::OF_PIPES.0, hooks::OF_ACTIONS.0];
    assert_eq!(named(PARAMETERS), hooks::param_names().chain(others).collect());
    assert_eq!(named(CONSTANTS), manifest::CONSTANTS.into());
    assert_eq!(named(CAPABILITIES), Capability::ALL.map(Capability::name).into());
    for (key, values) in manifest::SWITCHES {
        let described = frontmatter().iter().find(|described| described.name == key);
        assert_eq!(described.map(|described| described.values), Some(values), "{key}");
    }
    for kind in PARAMETERS
        .iter()
        .map(|key| key.kind)
        .chain(handles().iter().flat_map(|handle| handle.words.iter().map(|word| word.kind)))
    {
        if let Type::Handle(name) | Type::ListOf(name) = kind {
            assert!(handle(name).is_some(), "there is no {name}");
        }
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
