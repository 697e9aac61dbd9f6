//! A file of tests and the script that it is about.

use super::report;
use std::path::Path;
use valvehouse_script::{Code, Kind, Problem, SourceFile, is_module, read_file, read_tests, script_of_tests};

/// A file of tests and the script it is about.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) script: SourceFile,
    pub(super) tests: SourceFile,
}

/// A file of tests with its script.
pub(super) fn case(kind: Kind, root: &Path, path: &Path) -> Result<Case, Problem> {
    let tests = read_tests(kind, root, path)?;
    let script = script_of_tests(path).unwrap_or_default();
    if !script.is_file() {
        let problem = Problem::new(Code::NoTest, &tests.id, path, "these tests have no script beside them");
        let help = format!(
            "they are about {}: rename one of the two, or delete the tests",
            report::near(&script).display()
        );
        return Err(problem.help(help));
    }
    let read = read_file(kind, root, &script)?.file;
    // A module is tested function by function, in whichever folder it lies.
    let kind = if is_module(root, &script) { Kind::Filter } else { kind };
    Ok(Case { script: SourceFile { kind, ..read }, tests })
}
