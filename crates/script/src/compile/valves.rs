//! The values that the host gives a script's valves.

use crate::problem::{Code, Problem};
use crate::script::MAX_PRIORITY;
use crate::source::SourceFile;
use valvehouse_core::valve::Schema;
use valvehouse_core::words::did_you_mean;
use valvehouse_json::Json;

/// Reads the values that the configuration gives valves, secret ones from the environment where it says
/// `env:NAME`; and the variables that are not set.
pub(super) fn configured(schema: &Schema, given: &Json, file: &SourceFile) -> (Json, Vec<Problem>) {
    let (taken, mut unset) = (given.copy(), Vec::new());
    let declares = |name: &str| schema.fields().iter().any(|field| field.name == name);
    for (name, _) in given.entries() {
        if *name != *"priority" && !declares(&name) {
            let near = did_you_mean(&name, schema.fields().iter().map(|field| &*field.name));
            let told =
                format!("the settings set the valve `{name}`, which this script does not declare{near}");
            let help =
                format!("correct it in `[{}s.{}] valves` of valvehouse.toml", file.kind.word(), file.id);
            unset.push(Problem::of(Code::UnknownName, file, told).help(help).warning());
        }
    }
    for field in schema.fields().iter().filter(|field| field.secret) {
        let Some(text) = given.text(&field.name) else { continue };
        let Some(variable) = text.strip_prefix("env:").map(str::trim) else { continue };
        match std::env::var(variable).ok().filter(|value| !value.is_empty()) {
            Some(value) => {
                // A text in an object of its own.
                taken.edit(&field.name, value);
            }
            None => {
                taken.remove(&field.name);
                let told = format!("the valve `{}` has its default: `{variable}` is not set", field.name);
                let help = format!("set the environment variable `{variable}` where the host is started");
                unset.push(Problem::of(Code::ValveMisfit, file, told).help(help).warning());
            }
        }
    }
    (taken, unset)
}

/// A priority that the host keeps for itself.
pub(super) fn reserved_priority(valves: &Json, file: &SourceFile, source: &str) -> Option<Problem> {
    let wanted = valvehouse_core::valve::priority(valves);
    (wanted > MAX_PRIORITY).then(|| {
        let what =
            format!("`priority` {wanted} counts as {MAX_PRIORITY}: the places behind it are the host's own");
        let problem = Problem::of(Code::ValveMisfit, file, what).at_path(source, "Valves.priority");
        problem.help(format!("set it to {MAX_PRIORITY} or less")).warning()
    })
}
