//! Runs snippets like scripts, and checks that every promised function exists and is documented.

mod sequences;
mod sleep;

use super::{globals, modules};
use rhai::{Dynamic, Engine};
use std::collections::BTreeSet;
use valvehouse_dialect::answer::summary_of_run;
use valvehouse_dialect::language;
use valvehouse_dialect::value::json_of;

/// Returns an engine with the modules, and with `big(n)`: a text of `n` times `x`.
pub(super) fn engine() -> Engine {
    let mut engine = Engine::new();
    let [.., bytes_and_errors] = language::modules();
    engine.register_global_module(globals());
    engine.register_global_module(bytes_and_errors);
    for (name, module) in modules() {
        engine.register_static_module(name, module.clone());
    }
    engine.register_fn("big", |n: i64| "x".repeat(usize::try_from(n).unwrap()));
    engine
}

/// Checks that each snippet returns this value as JSON.
pub(super) fn gives(cases: &[(&str, &str)]) {
    let engine = engine();
    for (snippet, expected) in cases {
        let value = engine.eval::<Dynamic>(snippet).unwrap_or_else(|error| panic!("{snippet}: {error}"));
        assert_eq!(json_of(&value).unwrap().to_string(), *expected, "{snippet}");
    }
}

/// Checks that each snippet fails with a message that contains these words.
pub(super) fn refuses(cases: &[(&str, &str)]) {
    let engine = engine();
    for (snippet, words) in cases {
        match engine.eval::<Dynamic>(snippet) {
            Ok(value) => panic!("{snippet} gives {value}"),
            Err(error) => {
                let message = summary_of_run(&error);
                assert!(message.contains(words), "{snippet}: {message}");
            }
        }
    }
}

/// The functions that the contract promises.
const PROMISED: &[(&str, &str)] = &[
    (
        "",
        "* + ||or &&and uuid empty json parallel retry poll range sum max min sorted round floor ceiling sqrt parse_int int \
         float str bool list reversed enumerate zip any all items strip lstrip rstrip lower upper capitalize title \
         startswith endswith removeprefix removesuffix splitlines isdigit isalpha isalnum ljust rjust center zfill replaced set split count find join",
    ),
    ("json", "parse stringify"),
    ("csv", "parse write"),
    ("xlsx", "write"),
    ("jwt", "sign verify"),
    ("regex", "is_match find find_all captures captures_all replace split escape"),
    (
        "text",
        "join trim trim_start trim_end strip_prefix strip_suffix lines words replace truncate fixed similar",
    ),
    ("stream", "window"),
    ("time", "unix unix_ms sleep iso format parse elapsed_ms"),
    ("log", "debug info warn error"),
    ("llm", "chat all stream embed"),
    ("vectors", "add add_all nearest get delete clear count"),
    ("memories", "available add list search delete clear"),
    ("chats", "list read search"),
    ("uploads", "list text bytes"),
    ("documents", "text"),
    ("tools", "list call all"),
    ("models", "list get"),
    ("http", "get post put patch delete head request all stream"),
    ("kv", "get set delete incr keys update window"),
    ("files", "read write read_bytes write_bytes list exists glob grep mkdir"),
    ("shell", "run"),
    ("env", "get"),
    ("random", "int float choice"),
    ("hash", "sha256 md5 hmac_sha256 digest hmac"),
    ("base64", "encode encode_url decode decode_bytes"),
    ("url", "encode decode parse query"),
    ("html", "escape unescape text select"),
    ("tokens", "count"),
];

#[test]
fn the_host_offers_exactly_the_documented_functions() {
    let promised: BTreeSet<_> = PROMISED
        .iter()
        .flat_map(|(module, names)| names.split(' ').map(|name| (module.to_string(), name.to_owned())))
        .collect();
    let there: BTreeSet<_> =
        functions().into_iter().map(|function| (function.module, function.name)).collect();
    assert_eq!(there, promised);
}

#[test]
fn every_function_is_documented_and_names_its_parameters() {
    for Function { module, name, comments, params } in functions() {
        assert!(comments.starts_with("/// "), "{module}::{name} has no comment");
        for param in &params {
            let named = param.split(':').next().is_some_and(|name| name != "_" && !name.is_empty());
            assert!(named, "{module}::{name}: {params:?}");
        }
    }
}

struct Function {
    module: String,
    name: String,
    comments: String,
    params: Vec<String>,
}

/// Returns the functions that an API reference would list.
fn functions() -> Vec<Function> {
    let global = [("", globals())];
    let themes = modules().iter().cloned();
    let mut functions = Vec::new();
    for (name, module) in global.into_iter().chain(themes) {
        let mut engine = Engine::new_raw();
        engine.register_global_module(module);
        let json = engine.gen_fn_metadata_to_json(false).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        for function in json["functions"].as_array().unwrap() {
            let texts = |key: &str| {
                function[key]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|text| text.to_string().replace('"', ""))
                    .collect::<Vec<_>>()
            };
            let params = function["params"].as_array().into_iter().flatten();
            functions.push(Function {
                module: name.to_owned(),
                name: function["name"].as_str().unwrap().to_owned(),
                comments: texts("docComments").join("\n"),
                params: params.map(|param| param["name"].as_str().unwrap_or("_").to_owned()).collect(),
            });
        }
    }
    functions
}
