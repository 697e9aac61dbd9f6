//! Reports loops over messages that a single call of a host function replaces.

use super::rule::{FileTree, Rule, rules};
use super::tree::{self, Link, Node, View};
use crate::diagnostic::{Code, Diagnostic};
use rhai::{ASTNode, Expr, Position, Stmt};

rules! {
    /// V603 a loop that one call replaces
    ///
    /// Messages have functions for this, which are faster and handle content with parts: `.last(role)`, `.count(role)`,
    /// `.tail(n)`, `.keep_last(n)`, `.system`, `.text`.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     let asked = 0;
    ///     for message in body.messages {
    ///         if message.role == "user" {
    ///             asked += 1;
    ///         }
    ///     }
    ///     body.asked = asked;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.asked = body.messages.count("user");
    /// }
    /// ```
    NeedlessLoop { at_node: counting, find: needless_loops }
}

/// Reports loops that only count roles.
fn counting(path: &[ASTNode<'_>], tree: &FileTree<'_>) -> Option<Diagnostic> {
    let [.., ASTNode::Stmt(Stmt::For(parts, position))] = path else { return None };
    only_counts_roles(&parts.2.expr, parts.2.body.statements()).then(|| {
        let what = "this loop over messages only compares roles";
        let help = "use `.last(role)`, `.count(role)`, `.tail(n)` or `.system` instead of the loop";
        tree.problem(Code::NeedlessLoop, *position, what).help(help)
    })
}

/// Returns `true` for a loop such as `for m in body.messages { if m.role == "user" { n += 1 } }`.
fn only_counts_roles(over: &Expr, body: &[Stmt]) -> bool {
    let mut of_messages = false;
    over.walk(&mut Vec::new(), &mut |path: &[ASTNode<'_>]| {
        if let Some(ASTNode::Expr(Expr::Property(property, _))) = path.last() {
            of_messages |= property.2 == "messages";
        }
        true
    });
    let [Stmt::If(branch, _)] = body else { return false };
    let [Stmt::Assignment(_)] = branch.body.statements() else { return false };
    let (mut roles, mut others) = (0, 0);
    let mut look = |path: &[ASTNode<'_>]| {
        if let Some(ASTNode::Expr(Expr::Property(property, _))) = path.last() {
            if property.2 == "role" { roles += 1 } else { others += 1 }
        }
        true
    };
    branch.expr.walk(&mut Vec::new(), &mut look);
    branch.body.statements()[0].walk(&mut Vec::new(), &mut look);
    of_messages && roles == 1 && others == 0 && branch.branch.is_empty()
}

/// Reports loops that search, shorten or join.
fn needless_loops(view: &View<'_>) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let warnings = view.script.map_or(&[][..], |script| &script.warnings);
    let is_reported = |position: Position| {
        let line = position.line();
        warnings.iter().any(|problem| problem.code == Code::NeedlessLoop && problem.line == line)
    };
    for function in &view.functions {
        tree::each(&function.statements, &mut |node, _| {
            let Node::Stmt(statement) = node else { return };
            if let Some((position, message, help)) =
                needless(statement).filter(|(position, ..)| !is_reported(*position))
            {
                problems.push(view.problem(Code::NeedlessLoop, position, message).help(help));
            }
        });
    }
    problems
}

fn needless(statement: &Stmt) -> Option<(Position, &'static str, String)> {
    match statement {
        Stmt::For(parts, position) => {
            let (name, over, body) = (&parts.0.name, &parts.2.expr, parts.2.body.statements());
            if ends_with(over, "messages") {
                let (role, takes) = looked_for(name, body)?;
                let help = match role.as_str() {
                    "system" => "read and write the text of the system message with `.system`; \
                         `.append_system(text)` adds to it"
                        .to_owned(),
                    role => format!("write `.last(\"{role}\")`, which returns that message"),
                };
                return takes.then_some((*position, "this loop searches for one message", help));
            }
            (ends_with(over, "content") || ends_with(over, "parts")).then_some(())?;
            let help = "write `message.text`, which is the text of all parts".to_owned();
            collects_text(name, body).then_some((*position, "this loop joins the text of a message", help))
        }
        Stmt::While(flow, position) => {
            let help = "write `.keep_last(n)`, which keeps the system message and keeps tool calls together \
                        with their results";
            shortens(&flow.expr, flow.body.statements())
                .then(|| (*position, "this loop shortens the messages", help.to_owned()))
        }
        _ => None,
    }
}

fn ends_with(expression: &Expr, word: &str) -> bool {
    matches!(tree::chain(expression).1.last(), Some(Link::Property(name, _)) if *name == word)
}

/// Returns the role that `if message.role == "user" { found = message; }` searches for, and `true` if the loop does
/// nothing else.
fn looked_for(name: &str, body: &[Stmt]) -> Option<(String, bool)> {
    let [Stmt::If(branch, _)] = body else { return None };
    let Expr::FnCall(call, _) = &branch.expr else { return None };
    let [left, right] = &call.args[..] else { return None };
    if &*call.name != "==" || !is_word_of(left, name, &["role"]) {
        return None;
    }
    let role = tree::text(right)?.to_owned();
    let takes = match branch.body.statements() {
        [Stmt::Assignment(assignment)] | [Stmt::Assignment(assignment), Stmt::BreakLoop(..)] => {
            let is_plain = !assignment.0.is_op_assignment() && tree::variable(&assignment.1.lhs).is_some();
            is_plain && is_message(&assignment.1.rhs, name)
        }
        _ => false,
    };
    Some((role, takes && branch.branch.is_empty()))
}

fn is_message(expression: &Expr, name: &str) -> bool {
    tree::variable(expression) == Some(name) || is_word_of(expression, name, &["content", "text"])
}

/// Returns `true` for a property of a variable, such as `message.role`.
fn is_word_of(expression: &Expr, name: &str, words: &[&str]) -> bool {
    let (root, links) = tree::chain(expression);
    let is_word = matches!(&links[..], [Link::Property(word, _)] if words.contains(word));
    is_word && tree::variable(root) == Some(name)
}

/// Returns `true` for `if part.type == "text" { text += part.text; }`.
fn collects_text(name: &str, body: &[Stmt]) -> bool {
    let [Stmt::If(branch, _)] = body else { return false };
    let [Stmt::Assignment(assignment)] = branch.body.statements() else { return false };
    let adds = assignment.0.is_op_assignment() && is_word_of(&assignment.1.rhs, name, &["text"]);
    let mut is_of_type = false;
    tree::each_in(&branch.expr, &mut |node, _| {
        is_of_type |= matches!(node, Node::Expr(expression) if is_word_of(expression, name, &["type"]));
    });
    adds && is_of_type && branch.branch.is_empty()
}

/// Returns `true` for `while body.messages.len() > n { body.messages.remove(0); }`.
fn shortens(condition: &Expr, body: &[Stmt]) -> bool {
    let [Stmt::Expr(only)] = body else { return false };
    let (_, links) = tree::chain(only);
    let [.., Link::Property("messages", _), Link::Call(call)] = &links[..] else { return false };
    let takes_first = match &call.args[..] {
        [Expr::IntegerConstant(0, _)] => &*call.name == "remove",
        [] => &*call.name == "shift",
        _ => false,
    };
    let Expr::FnCall(compared, _) = condition else { return false };
    let compares = [">", ">="].contains(&&*compared.name);
    let counted = compared.args.first().map(tree::chain);
    let counts = matches!(counted.map(|(_, links)| links).as_deref(),
        Some([.., Link::Property("messages", _), Link::Call(call)]) if &*call.name == "len");
    takes_first && compares && counts
}
