//! Reports valid Rhai code that is probably wrong, as warnings of `valvehouse check`.

use crate::diagnostic::{Code, Diagnostic, MAX_PROBLEMS};
use crate::load::source::SourceFile;
use rhai::{AST, ASTNode, Expr, Position, Stmt};
use std::cell::LazyCell;
use std::collections::HashSet;
use std::ops::Range;
use valvehouse_dialect::syntax::spans;
use valvehouse_dialect::syntax::spans::SpanKind;

/// Methods that change their receiver and return `()`.
const FILLING: [&str; 3] = ["push", "insert", "pad"];
/// The help for a loop that a single call for all messages replaces.
const HELPERS: &str = "use `.last(role)`, `.count(role)`, `.tail(n)` or `.system` instead of the loop";

/// Returns the positions of comments that look like a divisor, `n // 2`, after a value that goes on in no other way.
fn divisors(source: &str) -> Vec<usize> {
    let code = spans::code_only(source);
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let words: LazyCell<HashSet<&str>, _> = LazyCell::new(|| code.split(|letter| !is_part(letter)).collect());
    let is_divisor = |range: &Range<usize>| {
        let line = source[..range.start].rfind('\n').map_or(0, |end| end + 1);
        let is_value =
            code[line..range.start].trim_end().ends_with(|last| is_part(last) || ")]".contains(last));
        let Some(text) = source[range.clone()].strip_prefix("//").filter(|_| is_value) else { return false };
        let divisor = text.trim_end_matches([';', ',', ')', '}', ']', ' ', '\r', '\n']).trim();
        let name = divisor.split(|letter| !is_part(letter)).next().unwrap_or(divisor);
        let is_operand = divisor.chars().all(|letter| is_part(letter) || "_.([".contains(letter));
        divisor.parse::<f64>().is_ok() || is_operand && !name.is_empty() && words.contains(name)
    };
    let comments = spans::of(source).into_iter().filter(|(piece, _)| *piece == SpanKind::Comment);
    comments.map(|(_, range)| range).filter(is_divisor).map(|range| range.start).collect()
}

/// Returns `true` if a sign follows an opening bracket.
fn is_in_brackets(source: &str, sign: Position) -> bool {
    let before = || {
        let row = source.lines().nth(sign.line()?.checked_sub(1)?)?;
        let (at, _) = row.char_indices().nth(sign.position()?.checked_sub(1)?)?;
        Some(row[..at].trim_end())
    };
    before().is_some_and(|before| before.ends_with('('))
}

/// Returns all warnings about a script.
pub(crate) fn about(ast: &AST, file: &SourceFile, source: &str) -> Vec<Diagnostic> {
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
        if let Some(ASTNode::Expr(Expr::FnCall(power, _))) = path.last()
            && let [Expr::FnCall(minus, sign), _] = power.args.as_slice()
            && (power.name.as_str(), minus.name.as_str(), minus.args.len()) == ("**", "-", 1)
            && !is_in_brackets(source, *sign)
        {
            warnings.push(warning(
                Code::ForeignSyntax,
                *sign,
                "`-x ** 2` is the square of `-x`".into(),
                "write `-(x ** 2)`, or `(-x) ** 2` if that is meant".into(),
            ));
        }
        warnings.len() < MAX_PROBLEMS
    });
    for at in divisors(source).into_iter().take(MAX_PROBLEMS) {
        let problem = Diagnostic::of(Code::ForeignSyntax, file, "").divided();
        warnings.push(problem.at_byte(source, at).warning());
    }
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
