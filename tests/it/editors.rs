//! The files in `editors/`: the names that they use exist, and they start the language server.

use crate::cli::Project;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn editors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("editors")
}

fn json(path: &str) -> Value {
    let text = std::fs::read_to_string(editors().join(path)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_extension_of_vs_code_is_complete() {
    let package = json("vscode/package.json");
    assert_eq!(package["version"], env!("CARGO_PKG_VERSION"));
    let contributes = &package["contributes"];
    let mut named = vec![package["main"].as_str().unwrap(), "README.md", "LICENSE"];
    named.push(contributes["languages"][0]["configuration"].as_str().unwrap());
    for kind in ["grammars", "snippets"] {
        named.extend(contributes[kind].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()));
    }
    for file in named {
        assert!(editors().join("vscode").join(file).is_file(), "{file}");
    }
    assert_eq!(
        contributes["grammars"][0]["scopeName"],
        json("vscode/syntaxes/rhai.tmLanguage.json")["scopeName"]
    );
    assert_eq!(contributes["configuration"]["properties"]["valvehouse.arguments"]["default"][0], "lsp");
}

/// Calls `see` for every rule of a grammar.
fn each_rule<'a>(rule: &'a Value, see: &mut impl FnMut(&'a serde_json::Map<String, Value>)) {
    match rule {
        Value::Object(fields) => {
            see(fields);
            fields.values().for_each(|below| each_rule(below, see));
        }
        Value::Array(rules) => rules.iter().for_each(|below| each_rule(below, see)),
        _ => {}
    }
}

#[test]
fn the_grammar_has_its_referenced_rules_and_every_hook() {
    let grammar = json("vscode/syntaxes/rhai.tmLanguage.json");
    let mut patterns = String::new();
    each_rule(&grammar, &mut |rule| {
        if let Some(name) = rule.get("include").and_then(Value::as_str) {
            let name = name.strip_prefix('#').unwrap();
            assert!(grammar["repository"].get(name).is_some(), "{name}");
        }
        for key in ["match", "begin", "end"] {
            if let Some(pattern) = rule.get(key).and_then(Value::as_str) {
                patterns.push_str(pattern);
                // Syntax that editors support and our regular expressions do not is removed.
                let plain =
                    pattern.replace("(?<![.:])", "").replace("(?<=[{,]|^)", "").replace("(?!\\s*:(?!:))", "");
                let plain = plain.replace("(?!:)", "").replace("(?=\\s*\\()", "").replace("\\1", "");
                regex::Regex::new(&plain).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            }
        }
    });
    for entry in valvehouse_script_std::reference::entries() {
        let name = entry.name;
        let is_hook = patterns
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .any(|word| word == name);
        assert!(
            is_hook || name.starts_with("on_") || name == "tool_info",
            "the grammar lacks the hook {name}"
        );
    }
}

#[test]
fn the_snippets_are_scripts_that_check_accepts() {
    let snippets = json("vscode/snippets/rhai.json");
    let place = regex::Regex::new(r"\$\{\d+:([^}]*)\}|\$\d").unwrap();
    for (name, snippet) in snippets.as_object().unwrap() {
        let lines: Vec<&str> =
            snippet["body"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let body = place.replace_all(&lines.join("\n"), "$1").into_owned();
        let whole = body.starts_with("/*");
        let (path, text) = match name.as_str() {
            "Tool" => {
                ("tools/x.rhai", body.replace("fn handler(args) {\n", "fn handler(args) {\n    args.city\n"))
            }
            "Test" => continue,
            _ if whole => {
                ("filters/x.rhai", body.replace("    \n    body", "    print(valves.limit);\n    body"))
            }
            _ if body.starts_with("fn ") => ("filters/x.rhai", body),
            _ if body.starts_with("const ") => {
                ("filters/x.rhai", format!("{body}\nfn inlet(body, valves) {{ print(valves.limit); body }}"))
            }
            _ => (
                "filters/x.rhai",
                format!("fn inlet(body) {{\n{body}\nbody\n}}")
                    .replace("    \n}", "    print(message.text);\n}"),
            ),
        };
        let project = Project::new().with(path, &text);
        project.run("check --strict").ends(0);
    }
}

#[test]
fn the_extension_is_valid_javascript() {
    let Ok(output) = Command::new("node").arg("--check").arg(editors().join("vscode/extension.js")).output()
    else {
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_editor_starts_the_language_server() {
    let helix: toml::Value =
        toml::from_str(&std::fs::read_to_string(editors().join("helix/languages.toml")).unwrap()).unwrap();
    let server = &helix["language-server"]["valvehouse"];
    assert_eq!((server["command"].as_str(), server["args"][0].as_str()), (Some("valvehouse"), Some("lsp")));
    let neovim = std::fs::read_to_string(editors().join("neovim/valvehouse.lua")).unwrap();
    assert!(neovim.contains("cmd = { \"valvehouse\", \"lsp\" }"));
}
