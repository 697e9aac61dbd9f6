//! Reports signs that mean something else in Python: `//` and `**`.

use super::rule::{FileTree, Rule, rules};
use crate::diagnostic::{Code, Diagnostic, MAX_PROBLEMS};
use rhai::{ASTNode, Expr, Position};
use std::cell::LazyCell;
use std::collections::HashSet;
use std::ops::Range;
use valvehouse_dialect::syntax::spans::{self, SpanKind};

rules! {
    /// V103 syntax of another language
    ///
    /// This is Python or JavaScript syntax. The help shows the Rhai syntax.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     if body.stream is True {
    ///         body.stream = false;
    ///     }
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     if body.stream == true {
    ///         body.stream = false;
    ///     }
    /// }
    /// ```
    ForeignSyntax { at_node: powers, in_text: divided }
}

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

/// Reports `-x ** 2`.
fn powers(path: &[ASTNode<'_>], tree: &FileTree<'_>) -> Option<Diagnostic> {
    let ASTNode::Expr(Expr::FnCall(power, _)) = path.last()? else { return None };
    let [Expr::FnCall(minus, sign), _] = power.args.as_slice() else { return None };
    let is_power = (power.name.as_str(), minus.name.as_str(), minus.args.len()) == ("**", "-", 1);
    (is_power && !is_in_brackets(tree.source, *sign)).then(|| {
        let problem = tree.problem(Code::ForeignSyntax, *sign, "`-x ** 2` is the square of `-x`");
        problem.help("write `-(x ** 2)`, or `(-x) ** 2` if that is meant")
    })
}

/// Reports `n // 2`.
fn divided(tree: &FileTree<'_>) -> Vec<Diagnostic> {
    let problem = || Diagnostic::of(Code::ForeignSyntax, tree.file, "").divided();
    let divisors = divisors(tree.source).into_iter().take(MAX_PROBLEMS);
    divisors.map(|at| problem().at_byte(tree.source, at)).collect()
}
