//! The structure of the workspace: packages in layers, files without cycles, one package for each foreign
//! crate; and the wording of its sources.
//!
//! An arrow goes from a file to the file that defines a name it uses; re-exports are looked through, and
//! tests do not count. `cargo test --test structure` prints the lines that break a rule.

#![allow(clippy::unwrap_used)]

mod arrows;
mod cuts;
mod cycles;
mod errors;
mod messages;
mod messages_read;
mod modules;
mod public_names;
mod silences;
mod size;
mod tiers;
mod titles;
mod words;

use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages in layers: each uses only those before it.
const LAYERS: &[&str] = &[
    "valvehouse-memory",
    "valvehouse-json",
    "valvehouse-executor",
    "valvehouse-core",
    "valvehouse-wire",
    "valvehouse-tokens",
    "valvehouse-json-schema",
    "valvehouse-documents",
    "valvehouse-jwt",
    "valvehouse-grants",
    "valvehouse-config",
    "valvehouse-net",
    "valvehouse-os",
    "valvehouse-providers",
    "valvehouse-store",
    "valvehouse-dialect",
    "valvehouse-script-std",
    "valvehouse-script",
    "valvehouse-authoring",
    "valvehouse-agent",
    "valvehouse-host",
    "valvehouse-terminal",
    "valvehouse-mcp",
    "valvehouse-server",
    "valvehouse-workbench",
    "valvehouse",
];

/// Packages that no other package uses: parts of tests, and an example.
const APART: &[&str] = &["valvehouse-testkit", "valvehouse-embed-example"];

/// Foreign crates and the packages that may depend on them.
const DOORS: &[(&str, &[&str])] = &[
    ("rhai", &["valvehouse-dialect", "valvehouse-script-std", "valvehouse-script", "valvehouse-authoring"]),
    ("notify", &["valvehouse-script"]),
    ("axum", &["valvehouse-server"]),
    ("tokio-tungstenite", &["valvehouse-server"]),
    ("ruzstd", &["valvehouse-server"]),
    ("hyper", &["valvehouse-net", "valvehouse-server"]),
    ("hyper-util", &["valvehouse-net", "valvehouse-server"]),
    ("http-body-util", &["valvehouse-mcp", "valvehouse-net"]),
    ("async-compression", &["valvehouse-net"]),
    ("reqwest", &["valvehouse-net"]),
    ("rustls", &["valvehouse-net"]),
    ("sqlx", &["valvehouse-store"]),
    ("ring", &["valvehouse-store", "valvehouse-jwt"]),
    ("csv-core", &["valvehouse-script-std"]),
    ("jsonschema", &["valvehouse-json-schema"]),
    ("tiktoken-rs", &["valvehouse-tokens"]),
    ("toml", &["valvehouse-config"]),
    ("cap-std", &["valvehouse-os"]),
    ("arc-swap", &["valvehouse-host"]),
    ("minisign-verify", &["valvehouse-host"]),
    ("rmcp", &["valvehouse-mcp"]),
    ("jsonwebtoken", &["valvehouse-jwt", "valvehouse-mcp"]),
    ("prometheus", &["valvehouse-server"]),
    ("clap", &["valvehouse", "valvehouse-workbench"]),
    ("sd-notify", &["valvehouse"]),
    ("annotate-snippets", &["valvehouse-terminal"]),
    ("quick-junit", &["valvehouse-workbench"]),
    ("rustyline", &["valvehouse-workbench"]),
    ("lsp-server", &["valvehouse-workbench"]),
    ("lsp-types", &["valvehouse-workbench"]),
];

#[test]
fn a_package_uses_only_those_below_it() {
    let place: HashMap<&str, usize> = LAYERS.iter().enumerate().map(|(place, name)| (*name, place)).collect();
    let mut wrong = Vec::new();
    for package in &packages() {
        let Some(own) = place.get(package.name.as_str()) else {
            assert!(APART.contains(&package.name.as_str()), "{} has no place in LAYERS", package.name);
            continue;
        };
        for used in &package.dependencies {
            if place.get(used.as_str()).is_some_and(|used| used >= own) {
                wrong.push(format!("{}: {} uses {used}", package.manifest.display(), package.name));
            }
        }
    }
    assert!(wrong.is_empty(), "against the order of the layers:\n{}", wrong.join("\n"));
}

#[test]
fn a_foreign_crate_is_used_by_the_package_that_wraps_it() {
    let mut wrong = Vec::new();
    for package in packages().iter().filter(|package| !APART.contains(&package.name.as_str())) {
        for (foreign, allowed) in DOORS {
            if package.dependencies.iter().any(|used| used == foreign)
                && !allowed.contains(&package.name.as_str())
            {
                wrong.push(format!("{}: {foreign} belongs to {allowed:?}", package.manifest.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "dependencies in the wrong package:\n{}", wrong.join("\n"));
}

#[test]
fn files_have_no_cycles_and_modules_of_folders_only_declarations() {
    let mut wrong = Vec::new();
    for package in &packages() {
        let modules = modules::read(&package.source);
        let arrows = arrows::all(&modules);
        assert!(modules.files().count() < 10 || !arrows.is_empty(), "{}: no arrows", package.name);
        for cycle in cycles::find(arrows.keys().map(|(from, to)| (*from, *to))) {
            let inside = arrows.iter().filter(|((from, to), _)| cycle.contains(from) && cycle.contains(to));
            let lines: Vec<String> =
                inside.map(|((_, to), use_)| format!("  {use_} -> {}", to.display())).collect();
            wrong.push(format!("{}: a cycle of {} files:\n{}", package.name, cycle.len(), lines.join("\n")));
        }
        for file in modules.files() {
            let is_of_folder = ["mod.rs", "lib.rs"].iter().any(|name| file.path.ends_with(name));
            if let Some(first) = file.logic.first().filter(|_| is_of_folder) {
                let (path, more) = (file.path.display(), file.logic.len() - 1);
                wrong.push(format!("{path}:{first}: logic in a folder's module, and {more} more"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} places:\n{}", wrong.len(), wrong.join("\n"));
}

struct Package {
    name: String,
    manifest: PathBuf,
    source: PathBuf,
    /// The dependencies, without those of tests and build scripts.
    dependencies: Vec<String>,
}

fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages: Vec<Package> = metadata["packages"].as_array().unwrap().iter().map(package).collect();
    assert!(packages.len() > 10, "only {} packages", packages.len());
    packages
}

fn package(value: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let manifest = PathBuf::from(text(&value["manifest_path"]));
    let dependencies = value["dependencies"].as_array().unwrap().iter();
    Package {
        name: text(&value["name"]),
        source: manifest.parent().unwrap().join("src"),
        dependencies: dependencies
            .filter(|used| used["kind"].is_null())
            .map(|used| text(&used["name"]))
            .collect(),
        manifest,
    }
}

/// Returns the folder of the workspace: that of this package, or at run time the value of
/// `CARGO_MANIFEST_DIR`.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// Returns a path relative to the workspace.
fn relative(path: &Path) -> PathBuf {
    path.strip_prefix(root()).unwrap_or(path).to_owned()
}

type Uses<'a> = BTreeMap<(&'a Path, &'a Path), String>;
