//! The scripts that come along: listed, and copied under another name.

use super::options::{NewKind, ShippedFiles};
use super::scaffold::{Folder, NewFile, word};
use super::shipped::{self, Shipped};
use valvehouse_core::words::{count, did_you_mean};
use valvehouse_json::Json;
use valvehouse_script::Kind;
use valvehouse_terminal::{CommandError, Console, Exit, table};

/// A description is listed as far as its first sentence.
const MAX_LENGTH: usize = 100;

/// Lists them, filters and tools apart; of one kind only where that is asked for.
pub(super) fn list(files: ShippedFiles, what: Option<NewKind>, out: &Console) -> Result<Exit, CommandError> {
    let all = shipped::all(files);
    let wanted = |kind: Kind| match what {
        Some(NewKind::Filter) => kind == Kind::Filter,
        Some(NewKind::Tool) => kind == Kind::Tool,
        _ => true,
    };
    if out.is_json() {
        let all = all.iter().filter(|shipped| wanted(shipped.kind)).map(as_json);
        out.json(&Json::from([("scripts", all.collect::<Vec<_>>().into())]))?;
        return Ok(Exit::Done);
    }
    let paint = out.results();
    for kind in [Kind::Filter, Kind::Tool].into_iter().filter(|kind| wanted(*kind)) {
        let of_kind: Vec<&Shipped> = all.iter().filter(|shipped| shipped.kind == kind).collect();
        out.line(&paint.bold(&count(of_kind.len(), kind.word())))?;
        let rows: Vec<Vec<String>> = of_kind
            .iter()
            .map(|shipped| {
                let tags = paint.dim(&shipped.tags().join(", "));
                vec![format!("  {}", shipped.id), tags, first_sentence(&shipped.says("description"))]
            })
            .collect();
        out.line(&format!("{}\n", table(&rows)))?;
    }
    out.say("copy one, with its test: valvehouse new filter mask --from redact");
    Ok(Exit::Done)
}

fn as_json(shipped: &Shipped) -> Json {
    let tags: Vec<Json> = shipped.tags().into_iter().map(Json::from).collect();
    Json::from([
        ("id", shipped.id.into()),
        ("kind", shipped.kind.word().into()),
        ("title", shipped.says("title").into()),
        ("description", shipped.says("description").into()),
        ("tags", tags.into()),
    ])
}

fn first_sentence(text: &str) -> String {
    let first = text.split_inclusive(". ").next().unwrap_or_default().trim_end();
    match first.char_indices().nth(MAX_LENGTH) {
        Some((cut, _)) => format!("{}…", first[..cut].trim_end()),
        None => first.to_owned(),
    }
}

/// The one of that name, for something of its kind.
pub(super) fn find(files: ShippedFiles, name: &str, what: NewKind) -> Result<Shipped, CommandError> {
    let all = shipped::all(files);
    let found = all.iter().find(|shipped| shipped.id == name).ok_or_else(|| {
        let hint = did_you_mean(name, all.iter().map(|shipped| shipped.id));
        CommandError::usage(format!(
            "no script `{name}` comes along{hint}; valvehouse new --list shows them all"
        ))
    })?;
    let (is_tool, wants_tool) = (found.kind == Kind::Tool, what == NewKind::Tool);
    if is_tool != wants_tool {
        let kind = found.kind.word();
        return Err(CommandError::usage(format!(
            "`{name}` is a {kind} and no {}: valvehouse new {kind} NAME --from {name}",
            word(what)
        )));
    }
    Ok(*found)
}

/// Its files under another name, the script first.
pub(super) fn copy(example: &Shipped, id: &str) -> Vec<NewFile> {
    let folder = if example.kind == Kind::Tool { Folder::Tools } else { Folder::Filters };
    let file = |path: String, text: String| NewFile { folder, path: path.into(), text };
    let script = file(format!("{id}.rhai"), example.text.to_owned());
    let beside =
        example.beside().map(|(end, text)| file(format!("{id}{end}"), renamed(text, example.id, id)));
    let modules = example.modules().into_iter().map(|(path, text)| file(path.to_owned(), text.to_owned()));
    std::iter::once(script).chain(beside).chain(modules).collect()
}

/// A test's text, with the script's name put right where it is one: a text of its own, part of a path or of
/// a command. A tag may be called the same and stays.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let is_one = [
        ("\"", "\""),
        ("`", "`"),
        ("filters/", "."),
        ("tools/", "."),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_put_right_where_it_names_the_script_and_nowhere_else() {
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
    fn descriptions_are_listed_as_far_as_their_first_sentence() {
        assert_eq!(first_sentence("Does this. And that."), "Does this.");
        assert_eq!(first_sentence(&"x".repeat(200)).chars().count(), MAX_LENGTH + 1);
    }
}
