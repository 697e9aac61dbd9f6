//! The tests that only `tests/run --long` runs: each names a shorter one for the same thing, which the default run has.

use crate::words::sources;
use crate::{relative, root};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The beginning of the attribute; the name of the shorter test follows.
const LONG: &str = "#[ignore = \"long; short: ";

#[test]
fn a_long_test_has_a_short_one_in_the_default_run() {
    let mut paths = Vec::new();
    ["crates", "examples", "src", "tests"]
        .iter()
        .for_each(|folder| sources(&root().join(folder), &mut paths));
    let (mut short, mut long, mut wrong) = (BTreeSet::new(), Vec::new(), Vec::new());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut attributes: Vec<&str> = Vec::new();
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[") {
                attributes.push(line);
                continue;
            }
            let is_test =
                attributes.iter().any(|one| one.starts_with("#[test]") || one.starts_with("#[tokio::test"));
            let ignored = attributes.drain(..).find(|one| one.starts_with("#[ignore"));
            match (ignored, name(line)) {
                (None, Some(name)) if is_test => _ = short.insert(name.to_owned()),
                (None, _) => {}
                (Some(ignored), _) => {
                    match ignored.strip_prefix(LONG).and_then(|rest| rest.strip_suffix("\"]")) {
                        Some(name) => long.push((relative(&path), name.to_owned())),
                        None => wrong
                            .push(format!("{}: {ignored}: write {LONG}NAME\"]", relative(&path).display())),
                    }
                }
            }
        }
    }
    assert!(long.len() > 5, "{long:?}");
    let missing = long.into_iter().filter(|(_, name): &(PathBuf, String)| !short.contains(name));
    wrong
        .extend(missing.map(|(path, name)| format!("{}: no test {name} in the default run", path.display())));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the name of the function that a line defines.
fn name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split('(').next()
}
