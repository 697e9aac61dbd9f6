//! Limits the size of a file's constants after folding.
//!
//! Rhai folds constants when a file is compiled, and copies each to every use: thirty lines of `const B = [A, A];`
//! take a gigabyte before anything runs and before any budget applies. An upper bound is therefore computed on the
//! unfolded syntax, and a file whose constants would be too large is rejected.

use super::tokens;
use crate::syntax::{call_of, statements_of};
use rhai::{
    AST, ASTFlags, ASTNode, Dynamic, Engine, Expr, ImmutableString, Module, OptimizationLevel, ParseError,
    ParseErrorType, Position, Scope, Stmt,
};
use std::collections::{HashMap, HashSet};

/// The maximum size of all copies of a file's constants, in bytes.
const MAX_BYTES: usize = 32 << 20;
/// The size of an element of an array or map, in bytes.
const ELEMENT: usize = 16;
/// The size of a number as text with its separators, in bytes.
const TEXT: usize = 24;

/// The size of a constant: its elements including all nested ones, and its length as text.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    elements: usize,
    text: usize,
}

impl Size {
    fn add(&mut self, other: Self) {
        self.elements = self.elements.saturating_add(other.elements);
        self.text = self.text.saturating_add(other.text);
    }

    fn max(self, other: Self) -> Self {
        Self { elements: self.elements.max(other.elements), text: self.text.max(other.text) }
    }

    fn bytes(self) -> usize {
        self.elements.saturating_mul(ELEMENT).max(self.text)
    }
}

type Sizes = HashMap<ImmutableString, Size>;

/// Parses a file once. Returns its syntax as written and with folded constants.
///
/// # Errors
///
/// Returns a syntax error, or the position at which the constants become too large.
pub fn parse(engine: &mut Engine, source: &str) -> Result<(AST, AST), ParseError> {
    engine.set_optimization_level(OptimizationLevel::None);
    let as_written = tokens::compile(engine, source)?;
    check(&as_written)?;
    engine.set_optimization_level(OptimizationLevel::Simple);
    let folded = engine.optimize_ast(&Scope::new(), as_written.clone(), OptimizationLevel::Simple);
    Ok((as_written, folded))
}

/// Checks that the constants of an unfolded file are small enough to be folded.
///
/// # Errors
///
/// Returns an error at the position at which the limit is exceeded.
pub(crate) fn check(as_written: &AST) -> Result<(), ParseError> {
    let mut top = Sizes::new();
    let mut sum = Sum::default();
    for statement in as_written.statements() {
        sum.add(statement, &Sizes::new(), &mut top);
    }
    for function in as_written.iter_fn_def() {
        let mut own = Sizes::new();
        statements_of(function).iter().for_each(|statement| sum.add(statement, &top, &mut own));
    }
    match sum.exceeded_at {
        None => Ok(()),
        Some(position) => {
            let what = "size of the constants, counted at each use,".to_owned();
            Err(ParseError(ParseErrorType::LiteralTooLarge(what, MAX_BYTES).into(), position))
        }
    }
}

#[derive(Default)]
struct Sum {
    bytes: usize,
    /// The position at which the limit is exceeded.
    exceeded_at: Option<Position>,
}

impl Sum {
    fn add(&mut self, statement: &Stmt, outer: &Sizes, own: &mut Sizes) {
        statement.walk(&mut Vec::new(), &mut |path: &[ASTNode<'_>]| {
            match path.last() {
                Some(ASTNode::Stmt(Stmt::Var(variable, options, position)))
                    if options.contains(ASTFlags::CONSTANT) =>
                {
                    let size = size(&variable.1, outer, own);
                    if size.bytes() > MAX_BYTES {
                        self.exceeded_at = Some(*position);
                    }
                    // If several constants have the same name, the largest counts.
                    let known = own.entry(variable.0.name.clone()).or_default();
                    *known = known.max(size);
                }
                Some(ASTNode::Expr(Expr::Variable(name, .., position))) => {
                    // Texts are shared.
                    let elements = named(&name.1, outer, own).map_or(0, |size| size.elements);
                    self.count(elements.saturating_mul(ELEMENT), *position);
                }
                Some(ASTNode::Expr(built @ Expr::InterpolatedString(_, position))) => {
                    self.count(size(built, outer, own).text, *position);
                }
                Some(ASTNode::Expr(built @ Expr::FnCall(call, position))) if call.op_token.is_some() => {
                    self.count(size(built, outer, own).text, *position);
                }
                _ => {}
            }
            self.exceeded_at.is_none()
        });
    }

    fn count(&mut self, bytes: usize, position: Position) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES {
            self.exceeded_at.get_or_insert(position);
        }
    }
}

fn named(name: &ImmutableString, outer: &Sizes, own: &Sizes) -> Option<Size> {
    own.get(name).or_else(|| outer.get(name)).copied()
}

/// Returns an upper bound of an expression's size: the sum of its parts.
fn size(expression: &Expr, outer: &Sizes, own: &Sizes) -> Size {
    let mut sum = Size::default();
    expression.walk(&mut Vec::new(), &mut |path: &[ASTNode<'_>]| {
        sum.add(match path.last() {
            Some(ASTNode::Expr(Expr::Variable(name, ..))) => {
                named(&name.1, outer, own).unwrap_or(Size { elements: 1, text: TEXT })
            }
            Some(ASTNode::Expr(Expr::StringConstant(text, _))) => Size { elements: 1, text: text.len() + 4 },
            Some(ASTNode::Expr(Expr::Map(map, _))) => {
                let keys = map.0.iter().map(|(key, _)| key.name.len() + 4).sum();
                Size { elements: map.0.len() + 1, text: keys }
            }
            _ => Size { elements: 1, text: TEXT },
        });
        true
    });
    sum
}

/// Returns the first use of each variable and module that a file does not know, as strict parsing reports them, in order.
/// Parsing has found the variables that are declared before they are used; within a closure, others are its parameters,
/// so that they are looked for around it.
pub fn unknown_names(
    as_written: &AST,
    is_value: impl Fn(&str) -> bool,
    is_module: impl Fn(&str) -> bool,
) -> Vec<ParseError> {
    let functions: HashSet<&str> = as_written.iter_functions().map(|function| function.name).collect();
    let mut unknown = Vec::new();
    let mut look = |path: &[ASTNode<'_>]| {
        let namespace = match path.last() {
            Some(ASTNode::Expr(Expr::Variable(variable, _, position))) => {
                let (place, name, namespace, _) = &**variable;
                let is_local = place.is_some() || !namespace.path.is_empty();
                if !is_local && !is_value(name) && !functions.contains(&**name) {
                    let kind = ParseErrorType::VariableUndefined(name.to_string());
                    unknown.push(ParseError(kind.into(), *position));
                }
                namespace
            }
            Some(node) => match call_of(node) {
                Some((call, _)) => &call.namespace,
                None => return true,
            },
            None => return true,
        };
        let root = namespace.path.first().filter(|root| namespace.index.is_none() && !is_module(&root.name));
        if let Some(root) = root {
            unknown.push(ParseError(ParseErrorType::ModuleUndefined(root.name.to_string()).into(), root.pos));
        }
        true
    };
    let mut own = Module::new();
    for function in as_written.iter_fn_def().filter(|function| !function.name.starts_with("anon$")) {
        own.set_script_fn(function.clone());
    }
    AST::new(as_written.statements().to_vec(), own).walk(&mut look);
    unknown.sort_by_key(|error| error.1);
    let mut seen = HashSet::new();
    unknown.retain(|error| seen.insert(error.0.clone()));
    unknown
}

/// Returns the scope of a file's names other than functions. Their values are folded in, except for those that
/// share a name with a parameter, which Rhai would replace too.
pub fn known_to(parameters: &HashSet<String>, values: &HashMap<String, Dynamic>) -> Scope<'static> {
    let mut scope = Scope::new();
    for (name, value) in values {
        if parameters.contains(name) {
            scope.push_dynamic(name.clone(), value.clone());
        } else {
            scope.push_constant_dynamic(name.clone(), value.clone());
        }
    }
    scope
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language;

    fn is_refused(code: &str) -> bool {
        let mut engine = language::engine([]);
        engine.set_optimization_level(OptimizationLevel::None);
        check(&engine.compile(code).unwrap()).is_err()
    }

    fn doubled(value: &str) -> String {
        let mut code = "const a0 = \"xxxxxxxxxxxxxxxx\";\n".to_owned();
        for i in 1..60 {
            code += &format!("const a{i} = {};\n", value.replace('A', &format!("a{}", i - 1)));
        }
        code
    }

    #[test]
    fn constants_that_grow_exponentially_are_rejected() {
        for value in [
            "[A, A]",
            "`${A}${A}`",
            "#{ a: A, b: A }",
            "A + A",
            "[A[0], A]",
            "[[A], #{ a: A }]",
            "if true { [A, A] } else { 0 }",
            "{ [A, A] }",
            "[() ?? A, A]",
            "`${[A, A]}`",
        ] {
            assert!(is_refused(&doubled(value)), "{value} at the top");
            assert!(is_refused(&format!("fn f() {{ {} }}", doubled(value))), "{value} in a function");
            assert!(
                is_refused(&format!("fn f() {{ let g = || {{ {} }}; }}", doubled(value))),
                "{value} in a closure"
            );
        }
    }

    #[test]
    fn uses_of_a_large_constant_are_limited() {
        let table = format!("const TABLE = [{}];\n", "\"word\",".repeat(2_000));
        let uses = |count: usize| format!("{table}fn f() {{ {} }}", "TABLE.len();".repeat(count));
        assert!(!is_refused(&uses(500)));
        assert!(is_refused(&uses(5_000)));
        let text = format!("const TEXT = \"{}\";\n", "x".repeat(100_000));
        assert!(!is_refused(&format!("{text}fn f() {{ {} }}", "f(TEXT);".repeat(5_000))));
        assert!(is_refused(&format!("{text}fn f() {{ {} }}", "f(`${TEXT}`);".repeat(5_000))));
    }

    #[test]
    fn usual_constants_are_folded() {
        for code in [
            "const A = 60 * 60; const B = A + 1; const C = [A, B, [A]]; fn f() { const d = C; [d, d] }",
            "const a = [1]; fn f() { const a = [a, a]; const a = [a, a]; }",
        ] {
            assert!(!is_refused(code), "{code}");
        }
    }
}
