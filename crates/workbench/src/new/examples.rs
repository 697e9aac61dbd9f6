//! The shipped scripts: the list, copies under another name, and the page `docs/collection.md`.
//!
//! They are those of `filters/`, `tools/` and `actions/` at build time, embedded in the binary.

use super::options::NewKind;
use super::scaffold::{NewFile, ShippedFiles, kind_of, word};
use std::path::Path;
use valvehouse_core::text::{count, did_you_mean};
use valvehouse_json::Json;
use valvehouse_script::{Kind, frontmatter, imported_by, is_module};
use valvehouse_terminal::{CommandError, Console, Exit, table};

/// The maximum length of a listed description, which ends with its first sentence.
const MAX_LENGTH: usize = 100;

/// Lists the shipped scripts by kind, optionally of one kind only.
pub(super) fn list(files: ShippedFiles, what: Option<NewKind>, out: &Console) -> Result<Exit, CommandError> {
    let all = all(files);
    let only = what.and_then(kind_of);
    let is_listed = |kind: Kind| only.is_none_or(|only| kind == only);
    if out.is_json() {
        let all = all.iter().filter(|shipped| is_listed(shipped.kind)).map(as_json);
        out.json(&Json::from([("scripts", all.collect::<Vec<_>>().into())]))?;
        return Ok(Exit::Done);
    }
    let paint = out.results();
    for kind in Kind::ALL.into_iter().filter(|kind| is_listed(*kind)) {
        let of_kind: Vec<&ShippedScript> = all.iter().filter(|shipped| shipped.kind == kind).collect();
        out.line(&paint.bold(&count(of_kind.len(), kind.as_str())))?;
        let rows: Vec<Vec<String>> = of_kind
            .iter()
            .map(|shipped| {
                let tags = paint.dim(&shipped.tags().join(", "));
                vec![format!("  {}", shipped.id), tags, first_sentence(&shipped.frontmatter("description"))]
            })
            .collect();
        out.line(&format!("{}\n", table(&rows)))?;
    }
    out.note("copy one, with its test: valvehouse new filter mask --from redact");
    Ok(Exit::Done)
}

fn as_json(shipped: &ShippedScript) -> Json {
    let tags: Vec<Json> = shipped.tags().into_iter().map(Json::from).collect();
    Json::from([
        ("id", shipped.id.into()),
        ("kind", shipped.kind.as_str().into()),
        ("title", shipped.frontmatter("title").into()),
        ("description", shipped.frontmatter("description").into()),
        ("tags", tags.into()),
    ])
}

fn first_sentence(text: &str) -> String {
    let first = text.split_inclusive(". ").next().map_or(text, str::trim_end);
    match first.char_indices().nth(MAX_LENGTH) {
        Some((cut, _)) => format!("{}…", first[..cut].trim_end()),
        None => first.to_owned(),
    }
}

/// Returns the script with this name, which must be of the requested kind.
pub(super) fn find(files: ShippedFiles, name: &str, what: NewKind) -> Result<ShippedScript, CommandError> {
    let all = all(files);
    let found = all.iter().find(|shipped| shipped.id == name).ok_or_else(|| {
        let hint = did_you_mean(name, all.iter().map(|shipped| shipped.id));
        CommandError::usage(format!("unknown example `{name}`{hint}; valvehouse new --list shows them all"))
    })?;
    if kind_of(what).unwrap_or(Kind::Filter) != found.kind {
        let kind = found.kind.as_str();
        return Err(CommandError::usage(format!(
            "`{name}` is a {kind}, not a {}: valvehouse new {kind} NAME --from {name}",
            word(what)
        )));
    }
    Ok(*found)
}

/// Returns the files of a script under another name, the script first.
pub(super) fn copy(example: &ShippedScript, id: &str) -> Vec<NewFile> {
    let folder = Some(example.kind);
    let file = |path: String, text: String| NewFile { folder, path: path.into(), text };
    let script = file(format!("{id}.rhai"), example.text.to_owned());
    let beside =
        example.beside().map(|(end, text)| file(format!("{id}{end}"), renamed(text, example.id, id)));
    let modules = example.modules().into_iter().map(|(path, text)| file(path.to_owned(), text.to_owned()));
    std::iter::once(script).chain(beside).chain(modules).collect()
}

/// Returns the text of a test with the name of the script replaced where it is a string, or part of a path or
/// command. An equal tag is not replaced.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let is_one = [
        ("\"", "\""),
        ("`", "`"),
        ("filters/", "."),
        ("tools/", "."),
        ("actions/", "."),
        ("valvehouse test ", "\n"),
        ("valvehouse grant ", ""),
    ];
    let line = |line: &str| match line.contains("tag") {
        true => line.to_owned(),
        false => is_one.iter().fold(line.to_owned(), |line, (before, behind)| {
            line.replace(&format!("{before}{from}{behind}"), &format!("{before}{to}{behind}"))
        }),
    };
    text.split_inclusive('\n').map(line).collect()
}

const HEAD: &str = "# The collection

The scripts shipped with Valvehouse, with their tests, in [`filters/`](../filters), [`tools/`](../tools) and
[`actions/`](../actions).
`valvehouse new --list` lists them, `valvehouse new filter mask --from redact` copies one with its tests, and
`valvehouse valves spec NAME` shows its settings. `valvehouse new --list --markdown` prints this page.

A filter that runs **where a model lists it** needs `filters = [\"NAME\"]` in a model's settings; a **toggle** runs for
requests that name it in `filter_ids`. All others run on every chat.
";

/// Prints the page.
pub(super) fn print(files: ShippedFiles, out: &Console) -> Result<Exit, CommandError> {
    out.line(page(files).trim_end())?;
    Ok(Exit::Done)
}

/// Returns the page as Markdown.
fn page(files: ShippedFiles) -> String {
    let mut page = HEAD.to_owned();
    for kind in Kind::ALL {
        let all: Vec<ShippedScript> = all(files).into_iter().filter(|shipped| shipped.kind == kind).collect();
        page.push_str(&format!("\n## {}\n\n", count(all.len(), kind.as_str())));
        let last = match kind {
            Kind::Filter => "runs",
            Kind::Tool => "tag",
            Kind::Action => "shown",
        };
        page.push_str(&format!("| | purpose | {last} |\n|---|---|---|\n"));
        for shipped in all {
            let folder = kind.folder();
            let (id, does) = (shipped.id, shipped.frontmatter("description").replace('|', "\\|"));
            let last = match kind {
                Kind::Filter => runs(&shipped),
                Kind::Tool => shipped.tags().join(", "),
                Kind::Action if shipped.frontmatter("global") == "false" => {
                    "where a model lists it".to_owned()
                }
                Kind::Action => "under every answer".to_owned(),
            };
            page.push_str(&format!("| [{id}](../{folder}/{id}.rhai) | {does} | {last} |\n"));
        }
    }
    page
}

/// Describes when a filter runs.
fn runs(shipped: &ShippedScript) -> String {
    let is_toggle = shipped.text.lines().any(|line| line.starts_with("const toggle = true"));
    match shipped.frontmatter("global") == "false" {
        _ if is_toggle => "as a toggle".to_owned(),
        true => "where a model lists it".to_owned(),
        false if !shipped.frontmatter("needs").is_empty() => {
            let names: Vec<String> =
                shipped.frontmatter("needs").split(',').map(|name| format!("`{}`", name.trim())).collect();
            format!("on every chat, once {} is set", names.join(" or "))
        }
        false => "on every chat".to_owned(),
    }
}

/// A shipped script.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShippedScript {
    pub(super) kind: Kind,
    pub(super) id: &'static str,
    pub(super) text: &'static str,
    /// Its path without `.rhai`.
    stem: &'static str,
    /// All shipped files.
    files: ShippedFiles,
}

/// Returns all shipped scripts, by kind and id.
pub(super) fn all(files: ShippedFiles) -> Vec<ShippedScript> {
    let mut all: Vec<ShippedScript> =
        files.iter().filter_map(|(path, text)| script(files, path, text)).collect();
    all.sort_by_key(|shipped| (shipped.kind, shipped.id));
    all
}

/// Returns the script at a path; `None` for tests, modules and other files.
fn script(files: ShippedFiles, path: &'static str, text: &'static str) -> Option<ShippedScript> {
    let (folder, within) = path.split_once('/')?;
    let stem = path.strip_suffix(".rhai").filter(|stem| !stem.ends_with(".test"))?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.folder() == folder).unwrap_or(Kind::Filter);
    let id = stem.rsplit('/').next()?;
    (!is_module(Path::new(""), Path::new(within))).then_some(ShippedScript { kind, id, text, stem, files })
}

impl ShippedScript {
    /// Returns a value of its frontmatter.
    pub(super) fn frontmatter(&self, key: &str) -> String {
        let value = frontmatter(self.text).into_iter().find(|(name, _)| name == key);
        value.map(|(_, value)| value).unwrap_or_default()
    }

    /// Returns its tags.
    pub(super) fn tags(&self) -> Vec<String> {
        let tags = [self.frontmatter("tags"), self.frontmatter("tag")].join(",");
        tags.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect()
    }

    /// Returns its test and golden files, as suffixes of its path and texts.
    pub(super) fn beside(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let stem = self.stem;
        self.files.iter().filter_map(move |(path, text)| {
            let end = path.strip_prefix(stem)?;
            (end == ".test.rhai" || end.starts_with(".golden/")).then_some((end, *text))
        })
    }

    /// Returns the modules that it imports directly or indirectly, as paths within the folder of its kind and
    /// texts.
    pub(super) fn modules(&self) -> Vec<(&'static str, &'static str)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        let tests = self.beside().filter(|(end, _)| end.ends_with(".rhai")).map(|(_, text)| text);
        let mut unread: Vec<&str> = std::iter::once(self.text).chain(tests).collect();
        while let Some(text) = unread.pop() {
            for name in imported_by(text) {
                let Some((path, text)) = module(self.files, self.kind, &name) else { continue };
                if !found.iter().any(|(known, _)| *known == path) {
                    found.push((path, text));
                    unread.push(text);
                }
            }
        }
        found
    }
}

fn module(files: ShippedFiles, kind: Kind, name: &str) -> Option<(&'static str, &'static str)> {
    files.iter().find_map(|(path, text)| {
        let within = path.strip_prefix(kind.folder())?.strip_prefix('/')?;
        // A module next to the importing one is imported by its name only.
        let stem = within.strip_suffix(".rhai")?;
        (stem == name || stem.strip_prefix("lib/") == Some(name)).then_some((within, *text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renaming_a_script_changes_only_its_own_references() {
        let text = "// valvehouse test mask\nassert_eq(invoke(\"mask\", #{}).by, `mask`); mask(\"mask it\");";
        let expected =
            "// valvehouse test own\nassert_eq(invoke(\"own\", #{}).by, `own`); mask(\"mask it\");";
        assert_eq!(renamed(text, "mask", "own"), expected);
        let command = "assert_contains(why, \"run: valvehouse grant mask http\");\n";
        assert!(renamed(command, "mask", "own").contains("grant own http"));
        let tag = "assert_eq(info.tags, [\"mask\"]);\n";
        assert_eq!(renamed(tag, "mask", "own"), tag);
    }

    #[test]
    fn descriptions_are_listed_up_to_their_first_sentence() {
        assert_eq!(first_sentence("Does this. And that."), "Does this.");
        assert_eq!(first_sentence(&"x".repeat(200)).chars().count(), MAX_LENGTH + 1);
    }
}
