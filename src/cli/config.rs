//! `valvehouse config`: the effective settings, and the reference of all settings.

use super::args;
use valvehouse_config::{self as config, Config, Effective, Origin};
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit, table};

/// The maximum width of a value, in characters.
const WIDTH: usize = 72;

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
    let rows = all.iter().flat_map(|one| {
        let from = match &one.origin {
            Origin::Default => String::new(),
            origin => origin.to_string(),
        };
        let value = if one.value.is_empty() { "(none)" } else { &one.value };
        let mut rows: Vec<_> =
            folded(value).into_iter().map(|line| vec![String::new(), line, String::new()]).collect();
        (rows[0][0], rows[0][2]) = (out.results().bold(&one.key), out.results().dim(&from));
        rows
    });
    out.line(&table(&rows.collect::<Vec<_>>()))?;
    Ok(Exit::Done)
}

/// Divides a value into lines of at most [`WIDTH`] characters, at spaces; a longer word stays whole.
fn folded(value: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in value.split(' ') {
        let line = lines.last_mut().filter(|line| line.is_empty() || length(line) + length(word) < WIDTH);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => line.push_str(&format!(" {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

fn length(text: &str) -> usize {
    text.chars().count()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_folded_at_spaces() {
        let names: Vec<String> = (10..40).map(|number| format!("name-{number}")).collect();
        let lines = folded(&names.join(" "));
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{lines:?}");
        assert_eq!(lines.join(" "), names.join(" "));
        assert_eq!(folded(""), [""]);
        let long = "x".repeat(100);
        assert_eq!(folded(&format!("a {long} b")), ["a", &long, "b"]);
    }
}
