//! Reports valid Rhai code that is probably wrong, as warnings of `valvehouse check`.

use super::diagnostic::{Code, Diagnostic, MAX_PROBLEMS};
use super::source::SourceFile;
use super::spans::{self, SpanKind};
use rhai::{AST, ASTNode, Expr, Position, Stmt};
use std::collections::HashSet;

/// Methods that change their receiver and return `()`.
const FILLING: [&str; 3] = ["push", "insert", "pad"];
/// The help for a loop that a single call for all messages replaces.
const HELPERS: &str = "use `.last(role)`, `.count(role)`, `.tail(n)` or `.system` instead of the loop";

/// Returns all warnings about a script.
pub(super) fn about(ast: &AST, file: &SourceFile, source: &str) -> Vec<Diagnostic> {
    let warning = |code: Code, position: Position, message: String, help: String| {
        Diagnostic::of(code, file, message).at(source, position).help(help).warning()
    };
    let mut warnings = Vec::new();
    let own: HashSet<&str> = ast.iter_functions().map(|function| function.name).collect();
    ast.walk(&mut |path: &[ASTNode<'_>]| {
        if let Some((ASTNode::Expr(Expr::MethodCall(call, position)), above)) = path.split_last()
            && FILLING.contains(&call.name.as_str())
            && !own.contains(call.name.as_str())
            && is_used_as_value(above)
        {
            warnings.push(warning(
                Code::ChangesInPlace,
                *position,
                format!("`{}` changes the value before the dot in place and returns `()`", call.name),
                format!("call `{}` in a separate statement, then use the changed value", call.name),
            ));
        }
        if let [.., ASTNode::Stmt(Stmt::For(parts, position))] = path
            && only_counts_roles(&parts.2.expr, parts.2.body.statements())
        {
            warnings.push(warning(
                Code::NeedlessLoop,
                *position,
                "this loop over messages only compares roles".into(),
                HELPERS.into(),
            ));
        }
        warnings.len() < MAX_PROBLEMS
    });
    for (at, escape) in escapes_in_backticks(source).into_iter().take(MAX_PROBLEMS) {
        let diagnostic = Diagnostic::of(
            Code::EscapeInBackticks,
            file,
            format!("`\\{escape}` is not an escape in a string of backticks"),
        );
        let help = match escape {
            '\\' => "a pattern in backticks has single backslashes: `\\b`",
            '"' => "quotes need no backslash in backticks",
            _ => "write a literal line break or tab, or use a string in double quotes",
        };
        warnings.push(diagnostic.at_byte(source, at).help(help).warning());
    }
    warnings
}

/// Returns `true` if the code around a chain uses its value.
fn is_used_as_value(above: &[ASTNode<'_>]) -> bool {
    let is_chain = |node: &&ASTNode<'_>| matches!(node, ASTNode::Expr(Expr::Dot(..) | Expr::Index(..)));
    let user = above.iter().rev().find(|node| !is_chain(node));
    !matches!(user, None | Some(ASTNode::Stmt(Stmt::Expr(_))))
}

/// Returns `true` for a loop such as `for m in body.messages { if m.role == "user" { n += 1 } }`.
fn only_counts_roles(over: &Expr, body: &[Stmt]) -> bool {
    let mut of_messages = false;
    over.walk(&mut Vec::new(), &mut |path: &[ASTNode<'_>]| {
        if let Some(ASTNode::Expr(Expr::Property(property, _))) = path.last() {
            of_messages |= property.2 == "messages";
        }
        true
    });
    let [Stmt::If(branch, _)] = body else { return false };
    let [Stmt::Assignment(_)] = branch.body.statements() else { return false };
    let (mut roles, mut others) = (0, 0);
    let mut look = |path: &[ASTNode<'_>]| {
        if let Some(ASTNode::Expr(Expr::Property(property, _))) = path.last() {
            if property.2 == "role" { roles += 1 } else { others += 1 }
        }
        true
    };
    branch.expr.walk(&mut Vec::new(), &mut look);
    branch.body.statements()[0].walk(&mut Vec::new(), &mut look);
    of_messages && roles == 1 && others == 0 && branch.branch.is_empty()
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
