//! A rule of `check`: its code, the functions that find its problems, and their fix.

use super::tree::View;
use crate::diagnostic::{Code, Diagnostic, Fix, MAX_PROBLEMS, Spot};
use crate::load::source::SourceFile;
use rhai::{AST, ASTNode};

/// A rule. Another rule may find problems of its code as well.
pub(super) struct Rule {
    pub(super) code: Code,
    /// Finds problems that only authors need to see, as warnings.
    pub(super) find: Option<fn(&View<'_>) -> Vec<Diagnostic>>,
    /// Finds problems that every load of the file reports, as warnings.
    pub(super) at_load: Option<AtLoad>,
    /// Fixes problems whose cause says nothing.
    pub(super) fix: Option<fn(&Spot<'_>) -> Option<Fix>>,
}

/// A function of a file's tree, the file and its text.
type AtLoad = fn(&AST, &SourceFile, &str) -> Vec<Diagnostic>;

impl Rule {
    pub(super) const fn of(code: Code) -> Self {
        Self { code, find: None, at_load: None, fix: None }
    }
}

/// Finds problems in each node of a file; the argument of `find` is its ancestors and the node.
pub(super) fn in_tree(ast: &AST, find: impl Fn(&[ASTNode<'_>]) -> Option<Diagnostic>) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    ast.walk(&mut |path: &[ASTNode<'_>]| {
        problems.extend(find(path));
        problems.len() < MAX_PROBLEMS
    });
    problems
}

/// Declares rules by the pages of their codes and their functions, and lists them as `RULES`.
macro_rules! rules {
    ($($(#[doc = $line:literal])+ $name:ident { $($part:ident: $function:expr),* })+) => {
        crate::diagnostic::code_constants! { $($(#[doc = $line])+ $name)+ }

        pub(super) const RULES: &[Rule] =
            &[$(Rule { $($part: Some($function),)* ..Rule::of(crate::diagnostic::Code::$name) }),+];
    };
}
pub(super) use rules;
