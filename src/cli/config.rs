//! `valvehouse config`: the effective settings, and the reference of all settings.

use super::args;
use valvehouse_config::{self as config, Config, Effective, Origin};
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit, table};

pub(super) fn run(args: &args::Config, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let is_selected = |one: &Effective| {
        let key = args.key.as_deref();
        key.is_none_or(|key| one.key == key || one.key.starts_with(&format!("{key}.")))
    };
    let all: Vec<Effective> = config::effective(config).into_iter().filter(is_selected).collect();
    if let Some(key) = args.key.as_deref().filter(|_| all.is_empty()) {
        return Err(CommandError::usage(format!(
            "unknown setting `{key}`; valvehouse config lists the effective settings, valvehouse config --reference all settings"
        )));
    }
    if out.is_json() {
        let settings = all.iter().map(|one| {
            let value = Some(&one.value).filter(|value| !value.is_empty()).map(String::as_str);
            Json::from([
                ("key", one.key.as_str().into()),
                ("value", value.into()),
                ("origin", one.origin.to_string().into()),
            ])
        });
        out.json(&settings.collect::<Vec<_>>().into())?;
        return Ok(Exit::Done);
    }
    let rows = all.iter().map(|one| {
        let from = match &one.origin {
            Origin::Default => String::new(),
            origin => origin.to_string(),
        };
        let value = if one.value.is_empty() { "(none)" } else { &one.value };
        vec![out.results().bold(&one.key), value.to_owned(), out.results().dim(&from)]
    });
    out.line(&table(&rows.collect::<Vec<_>>()))?;
    Ok(Exit::Done)
}

#[cfg(feature = "workbench")]
/// Prints the JSON Schema of the settings file; works without a project.
pub(super) fn schema(out: &Console) -> Result<Exit, CommandError> {
    out.line(&format!("{:#}", config::schema()))?;
    Ok(Exit::Done)
}

/// Prints the reference of all settings; works without a project.
pub(super) fn reference(out: &Console) -> Result<Exit, CommandError> {
    out.line(config::document().trim_end())?;
    Ok(Exit::Done)
}
