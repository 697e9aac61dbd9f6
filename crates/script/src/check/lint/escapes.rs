//! Reports escapes in texts with backticks.

use super::rule::{FileTree, Rule, rules};
use crate::diagnostic::{Code, Diagnostic, MAX_PROBLEMS};
use valvehouse_dialect::syntax::spans::{self, SpanKind};

rules! {
    /// V602 an escape in backticks
    ///
    /// In a text in backticks, escapes are not interpreted: `\n` is a backslash and an n, and a pattern has single backslashes.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.messages.append_system(`Be brief.\nBe kind.`);
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.messages.append_system("Be brief.\nBe kind.");
    /// }
    /// ```
    EscapeInBackticks { in_text: escapes }
}

/// Reports `\n` in backticks.
fn escapes(tree: &FileTree<'_>) -> Vec<Diagnostic> {
    let found = escapes_in_backticks(tree.source).into_iter().take(MAX_PROBLEMS);
    let problem = |(at, escape): (usize, char)| {
        let message = format!("`\\{escape}` is not an escape in a string of backticks");
        let help = match escape {
            '\\' => "a pattern in backticks has single backslashes: `\\b`",
            '"' => "quotes need no backslash in backticks",
            _ => "write a literal line break or tab, or use a string in double quotes",
        };
        Diagnostic::of(Code::EscapeInBackticks, tree.file, message).at_byte(tree.source, at).help(help)
    };
    found.map(problem).collect()
}

/// Returns `true` if a call of `regex::` is open at the end of this text. Only the end is searched, because every
/// text of a file is checked.
fn is_in_regex(before: &str) -> bool {
    const WINDOW: usize = 1_024;
    let before = &before[before.ceil_char_boundary(before.len().saturating_sub(WINDOW))..];
    let Some(call) = before.rfind("regex::") else { return false };
    let (opened, closed) = (before[call..].matches('(').count(), before[call..].matches(')').count());
    opened > closed
}

/// Returns `true` if the content of a text shows that it is a pattern.
fn is_pattern(text: &str) -> bool {
    ["\\s", "\\S", "\\d", "\\D", "\\w", "\\W", "\\b", "\\.", "[^", "(?"]
        .iter()
        .any(|part| text.contains(part))
}

/// Returns the positions of escapes such as `\n` in texts with backticks, where they have no meaning.
fn escapes_in_backticks(source: &str) -> Vec<(usize, char)> {
    let texts = spans::of(source).into_iter().filter(|(piece, _)| *piece == SpanKind::Backticks);
    // A pattern has its own escapes.
    let texts = texts.filter(|(_, range)| source[range.clone()].contains('\\'));
    let escapes = texts.flat_map(|(_, range)| {
        let text = &source[range.clone()];
        let has_escapes = is_in_regex(&source[..range.start]) || is_pattern(text);
        text.match_indices('\\').filter_map(move |(at, _)| {
            let next = text[at + 1..].chars().next()?;
            let is_meant = match has_escapes {
                // `\\b` is a backslash and a letter in a pattern.
                true => {
                    next == '\\'
                        && text[at + 2..].starts_with(['b', 'd', 's', 'w', 'B', 'D', 'S', 'W', '.', '('])
                }
                false => matches!(next, 'n' | 't' | 'r' | '"'),
            };
            is_meant.then_some((range.start + at, next))
        })
    });
    escapes.collect()
}
