//! The subjects of `switch` statements.

use crate::value::{may_read_like_others, report_subject};
use ahash::AHasher;
use rhai::{Dynamic, EvalAltResult, Position, SwitchCasesCollection};
use std::hash::{Hash as _, Hasher as _};

/// Encodes the cases of a `switch` as the state of a step. Rhai keeps only the hashes of their values.
pub(super) fn state_of(cases: &SwitchCasesCollection) -> Dynamic {
    let mut hashes: Vec<u64> = cases.cases.keys().copied().collect();
    hashes.sort_unstable();
    Dynamic::from_blob(hashes.into_iter().flat_map(u64::to_le_bytes).collect())
}

/// Reports a subject that is none of the cases, but reads the same as one of another type.
///
/// # Errors
///
/// Returns an error in a guard.
pub(super) fn look(subject: &Dynamic, cases: &Dynamic, at: Position) -> Result<(), Box<EvalAltResult>> {
    if !may_read_like_others(subject) {
        return Ok(());
    }
    let Ok(cases) = cases.as_blob_ref() else { return Ok(()) };
    let (hashes, _) = cases.as_chunks::<8>();
    let is_case = |value: &Dynamic| {
        hashes.binary_search_by_key(&hash_of(value), |bytes| u64::from_le_bytes(*bytes)).is_ok()
    };
    report_subject(subject, is_case, at)
}

/// Returns the hash by which Rhai finds the case of a value.
fn hash_of(value: &Dynamic) -> u64 {
    let mut hasher = AHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhai::{AST, ASTNode, Engine, Stmt};

    fn cases_of(ast: &AST) -> Dynamic {
        let mut state = Dynamic::UNIT;
        ast.walk(&mut |path: &[ASTNode<'_>]| {
            if let Some(ASTNode::Stmt(Stmt::Switch(parts, _))) = path.last() {
                state = state_of(&parts.1);
            }
            true
        });
        state
    }

    #[test]
    fn the_hashes_are_those_of_the_interpreter() {
        let mut engine = Engine::new();
        engine.set_optimization_level(rhai::OptimizationLevel::None);
        let ast = engine.compile("switch x { 5 => 1, \"7\" => 2, true => 3, 2.5 => 4, 'c' => 5, _ => 6 }");
        let cases = cases_of(&ast.unwrap());
        let cases = cases.as_blob_ref().unwrap();
        assert_eq!(cases.len(), 5 * 8);
        for value in [5_i64.into(), "7".into(), true.into(), 2.5.into(), 'c'.into()] {
            let value: Dynamic = value;
            let (hashes, _) = cases.as_chunks::<8>();
            assert!(hashes.iter().any(|hash| *hash == hash_of(&value).to_le_bytes()), "{value}");
        }
    }
}
