//! What is legal Rhai and surely not meant: warnings of `valvehouse check`.

use super::problem::{MOST_TOLD, Problem};
use super::source::SourceFile;
use rhai::{AST, ASTNode, Expr, Position, Stmt};

/// Methods of Rhai's strings that change their string and answer `()`.
const CHANGING: [&str; 2] = ["trim", "replace"];
/// Functions that answer for all messages at once what a loop would find out one by one.
const HELPERS: &str = "`.last(role)`, `.count(role)`, `.tail(n)`, `.system` do this without a loop";

/// All doubts about a script.
pub(super) fn about(ast: &AST, file: &SourceFile, source: &str) -> Vec<Problem> {
    let doubt = |position: Position, message: String, help: String| {
        Problem::new(&file.id, &file.path, message).at(source, position).help(help).warning()
    };
    let mut doubts = Vec::new();
    ast.walk(&mut |path: &[ASTNode<'_>]| {
        if let Some((ASTNode::Expr(Expr::MethodCall(call, position)), above)) = path.split_last()
            && CHANGING.contains(&call.name.as_str())
            && is_used_as_value(above)
        {
            doubts.push(doubt(
                *position,
                format!("`{}` changes its string and gives `()`", call.name),
                format!("write `text::{}(…)`, which gives the new text", call.name),
            ));
        }
        if let [.., ASTNode::Stmt(Stmt::For(parts, position))] = path
            && only_counts_roles(&parts.2.expr, parts.2.body.statements())
        {
            doubts.push(doubt(
                *position,
                "a loop over messages that only looks at roles".into(),
                HELPERS.into(),
            ));
        }
        doubts.len() < MOST_TOLD
    });
    doubts.extend(escapes_in_backticks(source).into_iter().take(MOST_TOLD).map(|(line, column, escape)| {
        let position = Position::new(line, column);
        doubt(
            position,
            format!("`\\{escape}` stays two characters in a string of backticks"),
            "write a real line break or tab there, or use a string in double quotes".into(),
        )
    }));
    doubts
}

/// Whether what stands around a chain of dots takes its value.
fn is_used_as_value(above: &[ASTNode<'_>]) -> bool {
    let is_chain = |node: &&ASTNode<'_>| matches!(node, ASTNode::Expr(Expr::Dot(..) | Expr::Index(..)));
    let user = above.iter().rev().find(|node| !is_chain(node));
    !matches!(user, None | Some(ASTNode::Stmt(Stmt::Expr(_))))
}

/// `for m in body.messages { if m.role == "user" { n += 1 } }`
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

/// Places of `\n` and its like in strings of backticks, where they mean nothing.
fn escapes_in_backticks(source: &str) -> Vec<(u16, u16, char)> {
    let mut found = Vec::new();
    let (mut line, mut column) = (1_u16, 0_u16);
    let mut inside = Inside::Code;
    let mut letters = source.chars().peekable();
    // Depth of braces in `${…}`, for each open string of backticks.
    let mut depths: Vec<u32> = Vec::new();
    while let Some(letter) = letters.next() {
        column = column.saturating_add(1);
        if letter == '\n' {
            line = line.saturating_add(1);
            column = 0;
        }
        let next = letters.peek().copied();
        inside = match (inside, letter) {
            (Inside::Code, '/') if next == Some('/') => Inside::Line,
            (Inside::Code, '/') if next == Some('*') => Inside::Block,
            (Inside::Code, '"') => Inside::Quotes,
            (Inside::Code, '`') => Inside::Backticks,
            (Inside::Code, '{') => {
                depths.last_mut().into_iter().for_each(|depth| *depth += 1);
                Inside::Code
            }
            (Inside::Code, '}') => match depths.last_mut() {
                Some(0) => {
                    depths.pop();
                    Inside::Backticks
                }
                Some(depth) => {
                    *depth -= 1;
                    Inside::Code
                }
                None => Inside::Code,
            },
            (Inside::Line, '\n') => Inside::Code,
            (Inside::Block, '*') if next == Some('/') => {
                letters.next();
                column = column.saturating_add(1);
                Inside::Code
            }
            (Inside::Quotes, '\\') => {
                letters.next();
                column = column.saturating_add(1);
                Inside::Quotes
            }
            (Inside::Quotes, '"') => Inside::Code,
            (Inside::Backticks, '`') => Inside::Code,
            (Inside::Backticks, '$') if next == Some('{') => {
                letters.next();
                column = column.saturating_add(1);
                depths.push(0);
                Inside::Code
            }
            (Inside::Backticks, '\\') if matches!(next, Some('n' | 't' | 'r')) => {
                found.push((line, column, next.unwrap_or('n')));
                Inside::Backticks
            }
            (same, _) => same,
        };
    }
    found
}

#[derive(Clone, Copy)]
enum Inside {
    Code,
    Line,
    Block,
    Quotes,
    Backticks,
}
