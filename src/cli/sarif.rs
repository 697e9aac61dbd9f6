//! The problems found by `check` in the format SARIF 2.1.0, which code scanning services read.

use std::collections::BTreeSet;
use std::path::Path;
use valvehouse_core::text::optional;
use valvehouse_json::Json;
use valvehouse_script::{Code, Diagnostic, Severity};
use valvehouse_terminal::report::near;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Returns a report with one run.
pub(super) fn report(problems: &[Diagnostic]) -> Json {
    let codes: BTreeSet<Code> = problems.iter().map(|problem| problem.code).collect();
    let codes: Vec<Code> = codes.into_iter().collect();
    let driver = Json::from([
        ("name", "valvehouse".into()),
        ("semanticVersion", env!("CARGO_PKG_VERSION").into()),
        ("rules", list(codes.iter().map(|code| rule(*code)))),
    ]);
    let run = Json::from([
        ("tool", Json::from([("driver", driver)])),
        ("columnKind", "unicodeCodePoints".into()),
        ("results", list(problems.iter().map(|problem| result(problem, &codes)))),
    ]);
    Json::from([("$schema", SCHEMA.into()), ("version", "2.1.0".into()), ("runs", list([run].into_iter()))])
}

fn rule(code: Code) -> Json {
    let text = |text: &str| Json::from([("text", text.into())]);
    let help = Json::from([("text", code.page().into()), ("markdown", code.page().into())]);
    Json::from([
        ("id", code.id().into()),
        ("name", format!("{code:?}").into()),
        ("shortDescription", text(code.title())),
        ("fullDescription", text(&code.summary())),
        ("help", help),
        ("properties", Json::from([("tags", list(["scripts".into()].into_iter()))])),
    ])
}

fn result(problem: &Diagnostic, codes: &[Code]) -> Json {
    let help = optional(problem.help.as_ref(), |help| format!(" ({help})"));
    let level = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let place = Json::from([
        ("artifactLocation", Json::from([("uri", uri(&near(&problem.path)).into())])),
        ("region", region(problem)),
    ]);
    let location = Json::from([("physicalLocation", place)]);
    Json::from([
        ("ruleId", problem.code.id().into()),
        ("ruleIndex", codes.iter().position(|code| *code == problem.code).into()),
        ("level", level.into()),
        ("message", Json::from([("text", format!("{}{help}", problem.message).into())])),
        ("locations", list([location].into_iter())),
    ])
}

/// Returns the region of a problem; the first line for a problem of the whole file.
fn region(problem: &Diagnostic) -> Json {
    let (Some(line), Some(column)) = (problem.line, problem.column) else {
        return Json::from([("startLine", 1_usize.into())]);
    };
    Json::from([
        ("startLine", line.into()),
        ("startColumn", column.into()),
        ("endColumn", (column + problem.width()).into()),
        ("snippet", Json::from([("text", problem.excerpt.as_str().into())])),
    ])
}

/// Returns a path as a URI, relative to the current folder, as code scanning services require.
fn uri(path: &Path) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let text = path.to_string_lossy().replace('\\', "/");
    let uri: String = text
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    if path.is_absolute() { format!("file://{uri}") } else { uri }
}

fn list(items: impl Iterator<Item = Json>) -> Json {
    items.collect::<Vec<_>>().into()
}
