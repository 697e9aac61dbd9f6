//! Assignments through `?.`, which Rhai ignores where the value before it is `()`.

use super::kinds::Kinds;
use super::places::{is_place, show};
use crate::answer::ThrownError;
use crate::call::{self, log};
use rhai::{ASTFlags, Dynamic, EvalAltResult, Expr, Position};

/// The maximum number of characters of a name in a message.
const MAX_NAME: usize = 80;

/// Returns `true` if a chain has a link through `?.` or `?[`.
pub(super) fn is_optional(chain: &Expr) -> bool {
    let mut link = chain;
    while let Expr::Dot(pair, flags, _) | Expr::Index(pair, flags, _) = link {
        if flags.contains(ASTFlags::NEGATED) {
            return true;
        }
        link = &pair.rhs;
    }
    false
}

/// Returns the part of a chain before its last `?.`, if its evaluation has no side effects.
pub(super) fn source_of(chain: &Expr, kinds: &Kinds<'_>) -> Option<Expr> {
    before_last(chain).filter(|source| is_place(source, kinds))
}

fn before_last(chain: &Expr) -> Option<Expr> {
    let (Expr::Dot(pair, flags, _) | Expr::Index(pair, flags, _)) = chain else { return None };
    if let Some(rest) = before_last(&pair.rhs).filter(|_| !flags.contains(ASTFlags::BREAK)) {
        let mut shortened = chain.clone();
        if let Expr::Dot(pair, ..) | Expr::Index(pair, ..) = &mut shortened {
            pair.rhs = rest;
        }
        // An index that is a chain itself would go on otherwise.
        if let Expr::Index(pair, flags, _) = &mut shortened
            && !matches!(&pair.rhs, Expr::Dot(..) | Expr::Index(..))
        {
            *flags |= ASTFlags::BREAK;
        }
        return Some(shortened);
    }
    flags.contains(ASTFlags::NEGATED).then(|| pair.lhs.clone())
}

/// The assignment checked by a step.
#[derive(Clone)]
struct Target {
    name: String,
    position: Position,
}

/// Returns the state of the step that checks a source before an assignment.
pub(super) fn state_of(source: &Expr, position: Position) -> Dynamic {
    let mut name = String::new();
    show(source, &mut name);
    if let Some((cut, _)) = name.char_indices().nth(MAX_NAME) {
        name.truncate(cut);
        name.push('…');
    }
    Dynamic::from(Target { name, position })
}

/// Reports an assignment that Rhai ignores because its source is `()`.
///
/// # Errors
///
/// Returns an error in a guard.
pub(super) fn look(source: &Dynamic, state: &Dynamic) -> Result<(), Box<EvalAltResult>> {
    let Some(target) = state.read_lock::<Target>().filter(|_| source.is_unit()) else { return Ok(()) };
    let Target { name, position } = &*target;
    let message = format!("cannot assign through `?.`: `{name}` is ()");
    if call::is_of_guard() {
        let help =
            "a guard must not lose an assignment; test the value first, or set a default with `ensure`";
        return Err(ThrownError::bug(format!("{message}; {help}"), position.line()).into_error(*position));
    }
    log::warn_at(*position, &format!("{message}, and the value is dropped"));
    Ok(())
}
