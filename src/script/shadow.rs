//! Functions of a script that take the place of the host's own.

use super::known;
use super::problem::Problem;
use super::source::SourceFile;
use rhai::{AST, ASTNode, Expr};
use std::collections::HashSet;

/// Functions with which a script refuses and answers: who reads `deny(…)` must be able to rely on it.
const GUARDING: [&str; 6] = ["deny", "skip", "error", "ok", "emit", "ask"];

/// What is wrong with the functions of a file that are called like the host's.
pub(super) fn of_host(ast: &AST, file: &SourceFile, source: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let methods = methods(ast);
    for function in ast.iter_functions().filter(|function| !function.name.starts_with("anon$")) {
        let (name, count) = (function.name, function.params.len());
        let Some(arities) = known::arities(name) else { continue };
        let problem = |what: String| {
            let problem = Problem::new(&file.id, &file.path, what).at_function(source, name);
            problem.help(format!("rename it, as in `my_{name}`"))
        };
        if arities.contains(&count) {
            let hidden =
                problem(format!("`{name}` takes the place of the host's own `{}`", call(name, count)));
            problems.push(if GUARDING.contains(&name) { hidden } else { hidden.warning() });
        } else if arities.contains(&(count + 1)) && methods.contains(&(name.to_owned(), count)) {
            let method = format!("value.{}", call(name, count));
            problems
                .push(problem(format!("`{name}` takes the place of the host's own `{method}`")).warning());
        }
    }
    problems
}

/// What is called behind a dot, with how many arguments: such a call finds a function of the script
/// first, although what stands before the dot is no argument to that.
fn methods(ast: &AST) -> HashSet<(String, usize)> {
    let mut methods = HashSet::new();
    ast.walk(&mut |path: &[ASTNode<'_>]| {
        if let Some(ASTNode::Expr(Expr::MethodCall(call, _))) = path.last() {
            methods.insert((call.name.to_string(), call.args.len()));
        }
        true
    });
    methods
}

/// `push(_, _)`
fn call(name: &str, count: usize) -> String {
    format!("{name}({})", vec!["_"; count].join(", "))
}
