//! Finds further errors of a file that does not parse. The parser ends at the first one, so the function around it is
//! left out and the rest is parsed again.

use super::parsed::{ParsedFile, unknown_names};
use crate::check::final_statement;
use crate::diagnostic::{self, Diagnostic};
use crate::load::source::{Kind, SourceFile};
use rhai::{AST, Dynamic, ParseError};
use std::collections::HashMap;
use std::ops::Range;
use valvehouse_dialect::syntax::spans;

/// The maximum number of errors that are reported for a file.
const MAX_ERRORS: usize = 10;

/// Returns the syntax errors of a file, the first one first: at most one for each function.
pub(super) fn of_syntax(first: &ParseError, file: &SourceFile, source: &str) -> Vec<Diagnostic> {
    let parts = parts(source);
    let mut rest = source.to_owned();
    let mut problems = vec![diagnostic::of_parse(&file.id, &file.path, source, first)];
    while let Some(line) = problems.last().and_then(|last| last.line)
        && problems.len() < MAX_ERRORS
        && parts.len() > 1
    {
        let start: usize = source.split_inclusive('\n').take(line - 1).map(str::len).sum();
        let Some(part) = parts.iter().find(|part| part.contains(&start)) else { break };
        let blank: String =
            rest[part.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
        if rest[part.clone()] == blank {
            break;
        }
        rest.replace_range(part.clone(), &blank);
        let code = match file.kind {
            Kind::Filter => final_statement::settled(&rest),
            Kind::Tool | Kind::Action => rest.as_str().into(),
        };
        let Err(error) = ParsedFile::of(&code) else { break };
        let next = diagnostic::of_parse(&file.id, &file.path, &rest, &error);
        if problems.iter().any(|known| known.line == next.line) {
            break;
        }
        problems.push(next);
    }
    problems
}

/// Returns the parts of a file that begin with a function, in Rhai or another language, and the part before them.
fn parts(source: &str) -> Vec<Range<usize>> {
    const BEGINNINGS: [&str; 6] = ["fn ", "private fn ", "def ", "async def ", "class ", "function "];
    let (mut begins, mut at) = (vec![0], 0);
    for line in spans::code_only(source).split_inclusive('\n') {
        if at > 0 && BEGINNINGS.iter().any(|word| line.starts_with(word)) {
            begins.push(at);
        }
        at += line.len();
    }
    let ends = begins.iter().copied().skip(1).chain([source.len()]);
    begins.iter().copied().zip(ends).map(|(from, to)| from..to).collect()
}

/// Returns the unknown names of a file, the first use of each.
pub(super) fn of_names(
    file: &SourceFile,
    source: &str,
    as_written: &AST,
    values: &HashMap<String, Dynamic>,
) -> Vec<Diagnostic> {
    let unknown = unknown_names(as_written, values, &[]);
    let unknown = unknown.iter().take(MAX_ERRORS);
    unknown.map(|error| diagnostic::of_parse(&file.id, &file.path, source, error)).collect()
}
