//! The settings as a document.

use super::table::{SECTIONS, Section, SettingRow};
use valvehouse_core::text::optional;

const HEAD: &str = "\
# Configuration

All settings are in `valvehouse.toml` in the project's folder. The file and each key are optional; an unknown key is an
error that suggests the most similar known one.

Each key can also be set by an environment variable, `VALVEHOUSE__SECTION__KEY`, or on the command line,
`--set section.key=value`, where lists can be written with commas. The command line overrides the environment, which
overrides the file, which overrides the defaults. Write secrets as `env:NAME` or `file:PATH`; other spellings, such as
`$NAME` or `ENV:NAME`, are refused.

A table can be set as JSON: `VALVEHOUSE__SERVER={\"max_body_mb\": 64}` sets the keys in it and leaves the others of
`[server]` unchanged; `{}` changes nothing. A list, `[…]`, replaces the whole list: `VALVEHOUSE__PROVIDERS` replaces all
`[[providers]]`, whereas `VALVEHOUSE__PROVIDERS__NAME__API_KEY` sets one key of one provider.

`valvehouse config` shows the effective settings and their sources, with `***` for secrets, parameters of URLs, and values
whose names say that they are secrets, such as `--api-key X`; `valvehouse config --reference` prints this page, and
`--schema` a JSON Schema for completion and checks in editors: name it in the first line,
`#:schema ./valvehouse.schema.json`, as `valvehouse new project` does.

A running host reloads the file when it is saved, and on SIGHUP (`systemctl reload`), completely or not at all: if the
file is invalid, empty or missing, the previous settings stay in effect and the problem is shown (V222). Sections marked
*at the next start* need a restart (V223).
";

/// Returns all settings as Markdown.
pub fn document() -> String {
    let sections: Vec<String> = SECTIONS.iter().map(section).collect();
    format!("{HEAD}\n{}", sections.join("\n"))
}

fn section(section: &Section) -> String {
    let waits = if section.waits { " *Takes effect at the next start.*" } else { "" };
    let settings: Vec<String> = section.settings.iter().map(setting).collect();
    let (header, about) = (section.header, section.about);
    format!("## `{header}`\n\n{about}{waits}\n\n{}", settings.join("\n"))
}

fn setting(it: &SettingRow) -> String {
    let SettingRow { key, form, usual, about, example } = it;
    let form = form.in_words();
    let usual = if usual.starts_with('*') { (*usual).to_owned() } else { format!("`{usual}`") };
    let name = written(key);
    // An entry of a list is written within it.
    let assigned = name.rsplit_once("].").map_or(&*name, |(_, own)| own);
    let env = optional(env_of(key), |env| format!(" · `{env}`"));
    format!(
        "### `{name}`\n\n{about}\n\n{form} · default {usual}{env}\n\n```toml\n{assigned} = {example}\n```\n"
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
