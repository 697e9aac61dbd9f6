//! A project as commands describe it: what is in it, what is wrong with its plugins, how to try it.

use crate::exit::CommandError;
use crate::report;
use valvehouse_core::text::{count, did_you_mean};
use valvehouse_core::valve::ValveSchema;
use valvehouse_host::Snapshot;
use valvehouse_host::app::{self, App};
use valvehouse_script::{Diagnostic, Kind};

/// The models and folders, a line each.
pub fn contents(app: &App, snapshot: &Snapshot) -> String {
    let mut text = format!("  models   {}\n", in_a_row(&snapshot.model_names()));
    for (kind, folder) in app::folders_of(&app.config) {
        let plugins = snapshot.plugins.values().filter(|plugin| plugin.kind == kind).count();
        // Most projects have no actions.
        if kind == Kind::Action && plugins == 0 {
            continue;
        }
        let word = format!("{:<7}", kind.folder());
        let (files, folder) = (count(plugins, "file"), report::near(folder));
        text.push_str(&format!("  {word}  {files} in {}, reloaded on save\n", folder.display()));
    }
    text
}

fn in_a_row(models: &[String]) -> String {
    const SHOWN: usize = 8;
    match models.len() {
        0 => "all models of its providers".to_owned(),
        more if more > SHOWN => format!("{} … ({more} in all)", models[..SHOWN].join(", ")),
        _ => models.join(", "),
    }
}

/// The command of a first request to a host, and a model of it.
pub fn first_request(app: &App, url: &str, model: Option<&String>) -> String {
    let model = model.map_or("MODEL", String::as_str);
    let key = match app.config.server.keys.is_empty() {
        true => "",
        false => " -H \"authorization: Bearer $KEY\"",
    };
    let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hello"}}]}}"#);
    format!("try it:  curl {url}/v1/chat/completions -H 'content-type: application/json'{key} -d '{body}'")
}

/// Everything that is wrong, a plugin's own problems first.
pub fn plugin_problems(snapshot: &Snapshot) -> Vec<Diagnostic> {
    let own = snapshot.plugins.values().flat_map(|plugin| plugin.problems());
    let missing = snapshot.plugins.values().filter_map(|plugin| plugin.absence());
    own.cloned().chain(missing).chain(snapshot.problems.iter().cloned()).collect()
}

/// Parses an argument `KEY=VALUE`.
///
/// # Errors
/// Returns an error for a text without a key or without `=`.
pub fn key_value(text: &str) -> Result<(String, String), CommandError> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err(CommandError::usage("write KEY=VALUE")),
    }
}

/// Checks that a plugin declares this valve.
///
/// # Errors
/// Returns an error that suggests a similar name if it does not.
pub fn check_valve(id: &str, schema: &ValveSchema, key: &str) -> Result<(), CommandError> {
    if schema.field(key).is_some() {
        return Ok(());
    }
    let names = || schema.fields().iter().map(|field| field.name.as_str());
    let hint = match did_you_mean(key, names()) {
        none if none.is_empty() && names().count() == 0 => "; it has none".to_owned(),
        none if none.is_empty() => format!("; known names: {}", names().collect::<Vec<_>>().join(", ")),
        hint => hint,
    };
    Err(CommandError::usage(format!("unknown valve `{key}` of `{id}`{hint}")))
}
