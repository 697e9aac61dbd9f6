//! Finds the fix of a problem.

use super::edit::{Fix, FixEdit, Spot};
use super::semantics;
use valvehouse_script::diagnostic::Diagnostic;

/// Returns the edit that fixes a problem of a script's text, if it is unambiguous.
pub fn fix(problem: &Diagnostic, source: &str) -> Option<Fix> {
    let spot = Spot::of(problem, source)?;
    let fix = semantics::fix(problem, &spot)?;
    let is_inside = |edit: &FixEdit| {
        source.is_char_boundary(edit.at.start)
            && source.is_char_boundary(edit.at.end)
            && edit.at.start <= edit.at.end
    };
    fix.edits.iter().all(is_inside).then_some(fix)
}
