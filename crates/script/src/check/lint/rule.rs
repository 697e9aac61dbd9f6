//! A rule of `check`: its code, the functions that find its problems, and their fix.

use super::tree::View;
use crate::diagnostic::{Code, Diagnostic, Fix, Spot};
use crate::load::source::SourceFile;
use rhai::{AST, ASTNode, Position};

/// A rule. Another rule may find problems of its code as well.
pub(super) struct Rule {
    pub(super) code: Code,
    /// Finds problems that only authors need to see, as warnings.
    pub(super) find: Option<fn(&View<'_>) -> Vec<Diagnostic>>,
    /// Finds the problem of a node, which every load of the file reports as a warning; the path begins with the
    /// ancestors of the node.
    pub(super) at_node: Option<AtNode>,
    /// Finds problems of the text, which every load of the file reports as warnings.
    pub(super) in_text: Option<fn(&FileTree<'_>) -> Vec<Diagnostic>>,
    /// Fixes problems whose cause says nothing.
    pub(super) fix: Option<fn(&Spot<'_>) -> Option<Fix>>,
}

/// A function of a path in a syntax tree.
type AtNode = fn(&[ASTNode<'_>], &FileTree<'_>) -> Option<Diagnostic>;

/// The syntax tree of a file that loads, with the file and its text.
pub(super) struct FileTree<'a> {
    pub(super) ast: &'a AST,
    pub(super) file: &'a SourceFile,
    pub(super) source: &'a str,
}

impl FileTree<'_> {
    /// Creates a problem at a position in the file.
    pub(super) fn problem(&self, code: Code, position: Position, message: impl Into<String>) -> Diagnostic {
        Diagnostic::of(code, self.file, message).at(self.source, position)
    }
}

impl Rule {
    pub(super) const fn of(code: Code) -> Self {
        Self { code, find: None, at_node: None, in_text: None, fix: None }
    }
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
