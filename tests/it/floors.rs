//! The floors of the house: `lib.rs` declares modules bottom-up, and each uses only those above it
//! in that file. One door per foreign crate.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Foreign crates and the one module that names them; HTTP has a way in and a way out.
const DOORS: &[(&str, &str)] = &[
    ("rhai", "script"),
    ("notify", "script"),
    ("axum", "server"),
    ("hyper", "server net"),
    ("hyper_util", "server net"),
    ("http_body_util", "net"),
    ("async_compression", "net"),
    ("tower", "server net"),
    ("sqlx", "store"),
    ("reqwest", "net"),
    ("clap", "cli"),
    ("sd_notify", "cli"),
    ("quick_junit", "cli"),
    ("rustyline", "cli"),
    ("lsp_server", "cli"),
    ("lsp_types", "cli"),
    ("arc_swap", "host"),
    ("jsonschema", "llm"),
    ("tiktoken_rs", "chat"),
    ("ring", "seal"),
    ("prometheus", "server"),
];

#[test]
fn each_module_uses_only_those_declared_before_it() {
    let order = declared();
    let place: HashMap<&str, usize> =
        order.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
    let mut wrong = Vec::new();
    for module in &order {
        for file in files(module) {
            let text = std::fs::read_to_string(&file).unwrap();
            for (number, line) in text.lines().enumerate() {
                for used in crates_of(line) {
                    if place.get(used.as_str()).is_some_and(|used| *used > place[module.as_str()]) {
                        wrong.push(format!(
                            "{}:{}: {module} uses {used}: {}",
                            file.display(),
                            number + 1,
                            line.trim()
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "against the order of lib.rs:\n{}", wrong.join("\n"));
}

#[test]
fn each_foreign_crate_has_one_door() {
    let mut wrong = Vec::new();
    for module in declared() {
        // Tests may stand in for whoever is on the other side of a door.
        for file in files(&module).into_iter().filter(|file| !file.ends_with("tests.rs")) {
            let text = std::fs::read_to_string(&file).unwrap();
            for (number, line) in text.lines().enumerate() {
                let code = line.trim_start();
                if code.starts_with("//") {
                    continue;
                }
                for (krate, door) in DOORS {
                    let named = [format!("use {krate}::"), format!("use {krate};"), format!("{krate}::")];
                    let names = named.iter().any(|name| {
                        code.match_indices(name.as_str()).any(|(at, _)| {
                            !code[..at].ends_with(|letter: char| {
                                letter.is_alphanumeric() || letter == '_' || letter == ':'
                            })
                        })
                    });
                    if names && !door.split(' ').any(|door| module == door) {
                        wrong.push(format!(
                            "{}:{}: {krate} belongs to {door}: {code}",
                            file.display(),
                            number + 1
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "past the door:\n{}", wrong.join("\n"));
}

/// The modules of `lib.rs`, in its order.
fn declared() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("lib.rs")).unwrap();
    let names =
        text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';').map(str::to_owned));
    let names: Vec<String> = names.collect();
    assert!(names.len() > 10, "lib.rs has changed its form: {names:?}");
    names
}

/// The modules that a line names by `crate::`.
fn crates_of(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, word) in line.match_indices("crate::") {
        let rest = &line[at + word.len()..];
        let list = rest.strip_prefix('{').map_or(rest, |list| list.split('}').next().unwrap_or(list));
        let many = rest.starts_with('{');
        for part in list.split(',') {
            let name: String =
                part.trim().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
            found.push(name);
            if !many {
                break;
            }
        }
    }
    found
}

fn files(module: &str) -> Vec<PathBuf> {
    let file = root().join(format!("{module}.rs"));
    if file.is_file() {
        return vec![file];
    }
    let mut found = Vec::new();
    collect(&root().join(module), &mut found);
    assert!(!found.is_empty(), "{module} has no files");
    found
}

/// Every source file in a folder and below.
pub(crate) fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}
