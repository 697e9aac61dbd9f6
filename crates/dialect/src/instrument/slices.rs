//! Parts of lists and texts, `list[1..3]`, at any place of a chain: Rhai only knows them for texts and numbers.

use rhai::{ASTFlags, Expr, INT, Position};
use std::ops::{Range, RangeInclusive};

/// Returns `true` if the first index of a chain is a range.
pub(super) fn is_slice(chain: &Expr) -> bool {
    let Expr::Index(pair, flags, _) = chain else { return false };
    match &pair.rhs {
        Expr::Dot(next, ..) | Expr::Index(next, ..) if !flags.contains(ASTFlags::BREAK) => {
            is_range(&next.lhs)
        }
        index => is_range(index),
    }
}

/// Returns `true` if any index of a chain is a range.
pub(super) fn has_slice(chain: &Expr) -> bool {
    let (Expr::Dot(pair, flags, _) | Expr::Index(pair, flags, _)) = chain else { return false };
    is_slice(chain) || !flags.contains(ASTFlags::BREAK) && has_slice(&pair.rhs)
}

/// Replaces the first such index of a chain, and everything before it, by a step made of the two.
pub(super) fn replace(chain: &mut Expr, step: impl FnOnce([Expr; 2]) -> Expr) {
    let (before, range, rest) = split(take(chain));
    *chain = step([before, range]);
    if let Some(mut rest) = rest {
        if let Expr::Dot(pair, ..) | Expr::Index(pair, ..) = &mut rest {
            pair.lhs = take(chain);
        }
        *chain = rest;
    }
}

/// Splits a chain at its first range: what is before it, the range, and what follows, a chain without its start.
fn split(chain: Expr) -> (Expr, Expr, Option<Expr>) {
    let (mut pair, flags, position, is_index) = match chain {
        Expr::Index(pair, flags, position) => (pair, flags, position, true),
        Expr::Dot(pair, flags, position) => (pair, flags, position, false),
        other => return (other, Expr::Unit(Position::NONE), None),
    };
    let mut next = take(&mut pair.rhs);
    let goes_on = is_chain(&next) && !flags.contains(ASTFlags::BREAK);
    if is_index && !goes_on && is_range(&next) {
        return (take(&mut pair.lhs), next, None);
    }
    if is_index
        && goes_on
        && let Expr::Dot(after, ..) | Expr::Index(after, ..) = &mut next
        && is_range(&after.lhs)
    {
        let range = take(&mut after.lhs);
        return (take(&mut pair.lhs), range, Some(next));
    }
    let (before, range, rest) = split(next);
    let flags = if is_chain(&before) { flags } else { flags | ASTFlags::BREAK };
    pair.rhs = before;
    let before = if is_index { Expr::Index(pair, flags, position) } else { Expr::Dot(pair, flags, position) };
    (before, range, rest)
}

fn is_chain(expression: &Expr) -> bool {
    matches!(expression, Expr::Dot(..) | Expr::Index(..))
}

fn is_range(index: &Expr) -> bool {
    match index {
        Expr::FnCall(call, _) => ["..", "..="].contains(&&*call.name),
        Expr::DynamicConstant(value, _) => value.is::<Range<INT>>() || value.is::<RangeInclusive<INT>>(),
        _ => false,
    }
}

fn take(expression: &mut Expr) -> Expr {
    std::mem::replace(expression, Expr::Unit(Position::NONE))
}
