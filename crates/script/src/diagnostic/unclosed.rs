//! Reports an unclosed bracket where it opens; the parser notices it only at the end.

use super::codes::Code;
use super::finding::Diagnostic;
use crate::load::source::SourceFile;
use valvehouse_dialect::syntax::ParseFault;
use valvehouse_dialect::syntax::spans::{self, SpanKind};

/// Returns the problem of the unclosed or surplus bracket if it is the cause of the parse error.
pub(super) fn first(kind: ParseFault<'_>, problem: &Diagnostic, source: &str) -> Option<Diagnostic> {
    let at = byte_of(problem, source);
    let is_missing = matches!(kind, ParseFault::MissingToken(..) | ParseFault::EndOfFile);
    let rest = spans::code_only(source).split_off(at);
    if is_missing && rest.trim().is_empty() {
        return open(source).map(|bracket| unclosed(&bracket, problem, source));
    }
    // The next function begins before the previous one ends.
    if kind == ParseFault::NestedFunction && problem.column == Some(1) {
        return open(&source[..at]).map(|bracket| unclosed(&bracket, problem, source));
    }
    // A statement ends before a list or call in it.
    if matches!(kind, ParseFault::MissingToken("," | ")" | "]", _)) && rest.starts_with([';', '}']) {
        let innermost = open(&source[..at]).filter(|bracket| bracket.letter != '{');
        return innermost.map(|bracket| unclosed(&bracket, problem, source));
    }
    surplus(source).map(|at| {
        let diagnostic = Diagnostic::new(
            Code::Unclosed,
            &problem.id,
            &problem.path,
            "unexpected `}`: it closes a block too early",
        );
        diagnostic.at_byte(source, at).help("remove it, so that the code after it is part of the block")
    })
}

/// Returns the problem of a block comment that is not closed: the code after it would not run.
pub(crate) fn comment(file: &SourceFile, source: &str) -> Option<Diagnostic> {
    let may_be = source.rfind("/*") > source.rfind("*/");
    let (piece, range) = spans::of(source).pop().filter(|_| may_be)?;
    let text = &source[range.clone()];
    let is_open = piece == SpanKind::Comment && text.starts_with("/*") && !text.ends_with("*/");
    is_open.then(|| {
        let diagnostic = Diagnostic::of(Code::Unclosed, file, "missing end of this comment");
        diagnostic.at_byte(source, range.start).help("add `*/` at its end")
    })
}

fn unclosed(bracket: &Bracket, problem: &Diagnostic, source: &str) -> Diagnostic {
    let message = format!("unclosed `{}`", bracket.letter);
    let diagnostic = Diagnostic::new(Code::Unclosed, &problem.id, &problem.path, message);
    diagnostic.at_byte(source, bracket.at).help(format!("add `{}` at its end", bracket.closing()))
}

/// Returns the byte position of a problem; the end of the text if it has none.
fn byte_of(problem: &Diagnostic, source: &str) -> usize {
    let (Some(line), Some(column)) = (problem.line, problem.column) else { return source.len() };
    let start: usize = source.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let within = source[start..].char_indices().nth(column - 1);
    within.map_or(source.len(), |(at, _)| start + at)
}

/// Returns the position of a surplus `}`: the one that does not match its indentation, or the last.
fn surplus(source: &str) -> Option<usize> {
    let code = spans::code_only(source);
    let count = |letter: char| code.matches(letter).count();
    if count('}') <= count('{') {
        return None;
    }
    let (mut open, mut start): (Vec<(usize, usize)>, usize) = (Vec::new(), 0);
    for (number, line) in code.split_inclusive('\n').enumerate() {
        let indent = line.len() - line.trim_start().len();
        for (column, letter) in line.char_indices() {
            match letter {
                '{' => open.push((number, indent)),
                '}' => match open.pop() {
                    Some((opened, outer)) if opened < number && outer < indent => {
                        return Some(start + column);
                    }
                    Some(_) => {}
                    None => return Some(start + column),
                },
                _ => {}
            }
        }
        start += line.len();
    }
    None
}

struct Bracket {
    letter: char,
    at: usize,
    indent: usize,
}

impl Bracket {
    fn closing(&self) -> char {
        match self.letter {
            '(' => ')',
            '[' => ']',
            _ => '}',
        }
    }
}

/// Returns the bracket that is open at the end. Of several, returns the one whose closing bracket is indented less
/// than its line.
fn open(source: &str) -> Option<Bracket> {
    let code = spans::code_only(source);
    let mut open: Vec<Bracket> = Vec::new();
    let mut suspect = None;
    let mut start = 0;
    for line in code.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        for (column, letter) in line.char_indices() {
            match letter {
                '(' | '[' | '{' => open.push(Bracket { letter, at: start + column, indent }),
                ')' | ']' | '}' => {
                    let opened = open.pop()?;
                    if column == indent && opened.indent > indent && suspect.is_none() {
                        suspect = Some(opened);
                    }
                }
                _ => {}
            }
        }
        start += line.len();
    }
    let last = open.pop()?;
    Some(suspect.unwrap_or(last))
}
