//! Reports methods that change their receiver in place and are used as values.

use super::rule::{FileTree, Rule, rules};
use super::tree::{self, Body, Link, Node, View};
use crate::diagnostic::{Code, Diagnostic};
use rhai::{ASTNode, Expr, Position, Stmt};

rules! {
    /// V601 a method without a result
    ///
    /// The methods `push`, `insert` and `pad` change the value before the dot in place and return `()`.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     let tags = ["a"];
    ///     body.tags = tags.push("b");
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     let tags = ["a"];
    ///     tags.push("b");
    ///     body.tags = tags;
    /// }
    /// ```
    ChangesInPlace { at_node: used, find: |view| view.in_nodes(|node, above| empty_closure(view, node, above)) }
}

/// Methods that change their receiver and return `()`.
const FILLING: [&str; 3] = ["push", "insert", "pad"];
/// Methods that change their receiver and return nothing.
const FILL: [&str; 4] = ["push", "insert", "append", "pad"];
/// Functions that use the value of their closure.
const TAKE: [&str; 7] = ["map", "filter", "reduce", "find", "some", "all", "order"];

/// Reports `body.tags = tags.push("b")`.
fn used(path: &[ASTNode<'_>], tree: &FileTree<'_>) -> Option<Diagnostic> {
    let (ASTNode::Expr(Expr::MethodCall(call, position)), above) = path.split_last()? else { return None };
    let name = call.name.as_str();
    let is_own = || tree.ast.iter_functions().any(|function| function.name == name);
    (FILLING.contains(&name) && is_used_as_value(above) && !is_own()).then(|| {
        let what = format!("`{name}` changes the value before the dot in place and returns `()`");
        let help = format!("call `{name}` in a separate statement, then use the changed value");
        tree.problem(Code::ChangesInPlace, *position, what).help(help)
    })
}

/// Returns `true` if the code around a chain uses its value.
fn is_used_as_value(above: &[ASTNode<'_>]) -> bool {
    let is_chain = |node: &&ASTNode<'_>| matches!(node, ASTNode::Expr(Expr::Dot(..) | Expr::Index(..)));
    let user = above.iter().rev().find(|node| !is_chain(node));
    !matches!(user, None | Some(ASTNode::Stmt(Stmt::Expr(_))))
}

/// Reports `list.map(|x| x.pad(4, "*"))`: the closure returns `()` for each element.
fn empty_closure(view: &View<'_>, node: Node<'_>, above: &[Node<'_>]) -> Option<Diagnostic> {
    let Node::Expr(Expr::DynamicConstant(value, _)) = node else { return None };
    // A closure with captured variables is in a block of its own.
    let is_wrapped = |node: &Node<'_>| {
        matches!(node, Node::Expr(Expr::Stmt(_)) | Node::Stmt(Stmt::Expr(_)))
            || tree::call(*node).is_some_and(|(call, ..)| &*call.name == "curry")
    };
    let taker = above.iter().rposition(|node| !is_wrapped(node))?;
    let (call, is_method, _) = tree::call(above[taker])?;
    let takes = match is_method {
        true => TAKE.contains(&&*call.name) && is_taken(&above[..taker]),
        false => tree::module_of(call) == "regex" && &*call.name == "replace",
    };
    let name = value.read_lock::<rhai::FnPtr>().filter(|_| takes)?.fn_name().to_owned();
    let closure = view.functions.iter().find(|function| function.is_closure() && function.name == name)?;
    let (method, place) = last_call(closure)?;
    (FILL.contains(&method) && !view.functions.iter().any(|own| own.name == method)).then(|| {
        let message = format!(
            "the closure ends with `{method}`, which returns `()`: `{}` gets `()` instead of the value",
            call.name
        );
        view.problem(Code::ChangesInPlace, place, message)
            .help("end the closure with the value itself: `|x| { x.push(1); x }`")
    })
}

/// Returns `true` if the code around a chain uses its value.
fn is_taken(above: &[Node<'_>]) -> bool {
    let is_chain = |node: &&Node<'_>| matches!(node, Node::Expr(Expr::Dot(..) | Expr::Index(..)));
    let user = above.iter().rev().find(|node| !is_chain(node));
    !matches!(user, None | Some(Node::Stmt(Stmt::Expr(_))))
}

/// Returns the method call at the end of a function.
fn last_call(function: &Body) -> Option<(&str, Position)> {
    let Some(Stmt::Expr(value)) = function.statements.last() else { return None };
    let (root, links) = tree::chain(value);
    match links.last()? {
        Link::Call(call) => Some((&call.name, root.position())),
        _ => None,
    }
}
