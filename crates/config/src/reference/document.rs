//! The settings as a document.

use crate::check::toml;
use crate::schema::{about, form, properties, tables};
use crate::settings::root;
use crate::tree::joined;
use serde_json::Value;
use valvehouse_core::text::optional;

const HEAD: &str = include_str!("head.md");

/// A setting with its dotted key, in which `NAME` and `ID` stand for names.
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) schema: &'static Value,
    is_required: bool,
}

/// Returns the JSON Schema of `valvehouse.toml`, so that editors complete and check it.
pub fn schema() -> Value {
    root().clone()
}

/// Returns all settings as Markdown.
pub fn document() -> String {
    let sections: Vec<String> =
        properties(root()).into_iter().flatten().map(|(name, schema)| section(name, schema)).collect();
    format!("{HEAD}\n{}", sections.join("\n"))
}

fn section(name: &str, schema: &'static Value) -> String {
    let header = match tables(schema) {
        Some(("NAME", _)) => format!("[[{name}]]"),
        Some((id, _)) => format!("[{name}.{id}]"),
        None => format!("[{name}]"),
    };
    let waits = schema["x-restart"] == true;
    let restart = if waits { " *Takes effect at the next start.*" } else { "" };
    let settings: Vec<String> = settings(name, schema).iter().map(|one| described(one, waits)).collect();
    format!("## `{header}`\n\n{}{restart}\n\n{}", about(schema), settings.join("\n"))
}

/// Returns the settings below a key.
pub(super) fn settings(key: &str, schema: &'static Value) -> Vec<Setting> {
    let (key, table) = match tables(schema) {
        Some((name, table)) => (joined(key, name), table),
        None => (key.to_owned(), schema),
    };
    let required = table["required"].as_array();
    let mut all = Vec::new();
    for (name, schema) in properties(table).into_iter().flatten() {
        let key = joined(&key, name);
        if properties(schema).is_some() {
            all.append(&mut settings(&key, schema));
            continue;
        }
        let is_required = required.is_some_and(|names| names.iter().any(|one| one == name));
        all.push(Setting { key: key.clone(), schema, is_required });
        // Items of this list are tables, or texts or tables.
        let items = &schema["items"];
        let entry = if properties(items).is_some() { items } else { &items["anyOf"][1] };
        all.append(&mut settings(&format!("{key}[0]"), entry));
    }
    all
}

fn described(setting: &Setting, section_waits: bool) -> String {
    let Setting { key, schema, is_required } = setting;
    let form = form(schema);
    let unit = if key.ends_with("ms") { " milliseconds" } else { "" };
    let usual = match (schema.get("default"), schema["x-default"].as_str()) {
        (Some(default), _) => format!("`{}`", toml(default)),
        (None, Some(words)) => words.to_owned(),
        (None, None) => if *is_required { "*required*" } else { "*none*" }.to_owned(),
    };
    let restart = match schema["x-restart"] == true {
        true if !section_waits => " *Takes effect at the next start.*",
        false if section_waits => " *Takes effect at once.*",
        _ => "",
    };
    let name = written(key);
    // An entry of a list is written within it.
    let assigned = name.rsplit_once("].").map_or(&*name, |(_, own)| own);
    let env = optional(env_of(key), |env| format!(" · `{env}`"));
    let (about, example) = (about(schema), toml(&schema["examples"][0]));
    format!(
        "### `{name}`\n\n{about}{restart}\n\n{form}{unit} · default {usual}{env}\n\n```toml\n{assigned} = {example}\n```\n"
    )
}

/// Returns a key relative to its table: `budget.ms` of `filters.ID.budget.ms`.
fn written(key: &str) -> String {
    let mut parts: Vec<&str> = key.split('.').skip(1).collect();
    if parts.len() > 1 && matches!(parts[0], "NAME" | "ID") {
        parts.remove(0);
    }
    parts.join(".")
}

/// Returns the environment variable of a key; entries of lists without names have none.
fn env_of(key: &str) -> Option<String> {
    let is_plain = !key.contains('[') && !key.ends_with(".name");
    is_plain.then(|| format!("VALVEHOUSE__{}", key.to_uppercase().replace('.', "__")))
}
