//! The list of all rules and codes.

use super::rule::{FileTree, Rule};
use crate::check::shadow;
use crate::diagnostic::{Code, Diagnostic, Fix, MAX_PROBLEMS, Spot, codes};
use crate::load::source::SourceFile;
use rhai::{AST, ASTNode};

/// The rules by the files that declare them.
const RULES: [&[Rule]; 16] = [
    super::answers::RULES,
    super::calls::RULES,
    super::valves::RULES,
    super::properties::RULES,
    super::capabilities::RULES,
    super::returns::RULES,
    super::flow::RULES,
    super::fractions::RULES,
    super::in_place::RULES,
    super::loops::RULES,
    super::signs::RULES,
    super::escapes::RULES,
    super::lost_change::RULES,
    super::quotes::RULES,
    super::comparisons::RULES,
    super::unused_value::RULES,
];

/// The codes without a rule.
const OTHERS: [&[Code]; 8] = [
    codes::file::CODES,
    codes::syntax::CODES,
    codes::declarations::CODES,
    codes::grants::CODES,
    codes::modules::CODES,
    codes::calls::CODES,
    codes::runs::CODES,
    shadow::CODES,
];

/// Returns all rules.
pub(super) fn rules() -> impl Iterator<Item = &'static Rule> {
    RULES.into_iter().flatten()
}

/// Returns the problems of a script that its load reports.
pub(crate) fn at_load(ast: &AST, file: &SourceFile, source: &str) -> Vec<Diagnostic> {
    let tree = FileTree { ast, file, source };
    let at_nodes: Vec<_> = rules().filter_map(|rule| rule.at_node).collect();
    let mut problems = Vec::new();
    ast.walk(&mut |path: &[ASTNode<'_>]| {
        problems.extend(at_nodes.iter().filter_map(|find| find(path, &tree)));
        problems.len() < MAX_PROBLEMS
    });
    problems.extend(rules().filter_map(|rule| rule.in_text).flat_map(|find| find(&tree)));
    problems.into_iter().map(Diagnostic::warning).collect()
}

impl Code {
    /// Returns all codes in ascending order.
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = rules().map(|rule| rule.code).chain(OTHERS.concat()).collect();
        all.sort();
        all
    }

    /// Returns the code of a name such as `V101`, case-insensitively.
    pub fn from_name(id: &str) -> Option<Self> {
        Self::all().into_iter().find(|code| code.id().eq_ignore_ascii_case(id))
    }

    /// Returns the fix of its rule for a problem.
    pub fn fix(self, spot: &Spot<'_>) -> Option<Fix> {
        rules().find(|rule| rule.code == self)?.fix?(spot)
    }
}
