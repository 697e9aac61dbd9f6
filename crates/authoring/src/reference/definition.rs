//! The reference as Rhai's definition files, `.d.rhai`: signatures with documentation, for editors that support
//! them.

use super::document::head;
use super::theme::of_module;
use crate::testing::test_functions;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use valvehouse_core::text::optional;
use valvehouse_dialect::value::Type;
use valvehouse_grants::Capability;
use valvehouse_script_std::reference::{
    Form, Function, FunctionOrigin, Handle, PARAMETERS, entries, functions, handles,
};

/// Returns all files: the name and the text of each.
pub fn definitions() -> Vec<(String, String)> {
    let modules: BTreeSet<&str> = all()
        .filter_map(|function| function.module.split("::").next().filter(|name| !name.is_empty()))
        .collect();
    let fixed = [("global", global()), ("tests", tests()), ("values", values()), ("hooks", hooks())];
    let fixed = fixed.map(|(name, text)| (format!("{name}.d.rhai"), text));
    let modules = modules.into_iter().map(|name| (format!("{name}.d.rhai"), module(name)));
    fixed.into_iter().chain(modules).collect()
}

/// Lists the functions without a module: the host's, then the language's.
fn global() -> String {
    let mut text = "module static;\n".to_owned();
    for origin in [FunctionOrigin::Host, FunctionOrigin::Rhai] {
        let own =
            functions().iter().filter(|function| function.origin == origin && function.module.is_empty());
        own.for_each(|function| text.push_str(&written(function, "")));
    }
    text
}

/// Lists the functions that tests may call without a module.
fn tests() -> String {
    let mut text = "module static;\n".to_owned();
    let own = test_functions().iter().filter(|function| function.module.is_empty());
    own.for_each(|function| text.push_str(&written(function, "")));
    text
}

fn all() -> impl Iterator<Item = &'static Function> {
    functions().iter().chain(test_functions())
}

fn module(name: &str) -> String {
    let about = of_module(name).map(|theme| theme.about).filter(|about| !about.is_empty());
    let mut text = optional(about, |about| comment(about, ""));
    let _ = writeln!(text, "module {name};");
    let of = |module: &str| all().filter(move |function| function.module == module).collect::<Vec<_>>();
    of(name).into_iter().for_each(|function| text.push_str(&written(function, "")));
    let prefix = format!("{name}::");
    let below: BTreeSet<&str> =
        functions().iter().filter_map(|function| function.module.strip_prefix(&prefix)).collect();
    for inner in below {
        let _ = writeln!(text, "\nmodule {inner} {{");
        of(&format!("{prefix}{inner}"))
            .into_iter()
            .for_each(|function| text.push_str(&written(function, "    ")));
        text.push_str("}\n");
    }
    text
}

/// Lists the properties of values, as getters, setters and methods.
fn values() -> String {
    let mut text = "module static;\n".to_owned();
    for Handle { name, about, words, .. } in handles() {
        let _ = write!(text, "\n// {name}: {}\n", about.replace('\n', " "));
        for word in words.iter().filter(|word| !matches!(word.form, Form::Method(_))) {
            let kind = word.kind.in_definitions();
            let _ =
                write!(text, "\n{}fn get {}({name}: {name}) -> {kind};\n", comment(&word.doc, ""), word.name);
            if word.is_writable {
                let _ = write!(text, "\nfn set {}({name}: {name}, value: {kind}) -> ();\n", word.name);
            }
        }
    }
    text
}

/// Lists the functions that the host calls, and their parameters.
fn hooks() -> String {
    let mut text = "module static;\n".to_owned();
    for entry in entries() {
        let _ = write!(text, "\n{}// fn {}\n", comment(entry.doc, ""), head(entry));
    }
    for key in PARAMETERS {
        let _ = write!(text, "\n{}let {}: {};\n", comment(key.doc, ""), key.name, key.kind.in_definitions());
    }
    text
}

fn written(function: &Function, indent: &str) -> String {
    let params: Vec<String> = function
        .params
        .iter()
        .map(|param| format!("{}: {}", param.name, param.kind.in_definitions()))
        .collect();
    let needs = |capability: Capability| format!("\n\nNeeds `requirements: {}`.", capability.name());
    let doc = format!("{}{}", function.doc, optional(function.capability, needs));
    let returns = match function.returns {
        Type::Nothing => "()",
        other => other.in_definitions(),
    };
    format!("\n{}{indent}fn {}({}) -> {returns};\n", comment(&doc, indent), function.name, params.join(", "))
}

fn comment(doc: &str, indent: &str) -> String {
    doc.lines().map(|line| format!("{indent}/// {line}").trim_end().to_owned() + "\n").collect()
}
