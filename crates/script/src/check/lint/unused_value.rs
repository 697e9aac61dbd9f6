//! Reports discarded values: calls without side effects whose value is unused.

use super::flow;
use super::rule::{Rule, rules};
use super::tree::{self, Body, Link, Node, View};
use crate::diagnostic::{Cause, Code, Diagnostic};
use rhai::{ASTFlags, Expr, FnCallExpr, Position, Stmt};

rules! {
    /// V617 a discarded result
    ///
    /// The call or operator returns a new value, which the statement discards, and has no other effect. The same applies to a
    /// write through `?.`, such as `body.metadata?.seen = true`, if the value is missing: a run logs a warning with the line, and
    /// fails in a guard.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     text::trim(body.model);
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.model = text::trim(body.model);
    ///     body
    /// }
    /// ```
    LostResult { find: lost_results }
}

/// Methods that return a new value, and the help for changing the receiver instead.
const GIVE: [(&str, &str); 28] = [
    ("all", ""),
    ("copy", ""),
    ("extract", ""),
    ("filter", "write `retain(…)` to change the list in place"),
    ("find", ""),
    ("index_of", ""),
    ("keys", ""),
    ("len", ""),
    ("map", "write `for one in list { … }` to run code for each element"),
    ("order", "write `sort()` to change the list in place"),
    ("reduce", ""),
    ("some", ""),
    ("tail", "write `keep_last(n)` to change the messages in place"),
    ("values", ""),
    ("to_upper", "write `make_upper()` to change the text in place"),
    ("to_lower", "write `make_lower()` to change the text in place"),
    ("sub_string", "write `crop(start, count)` to change the text in place"),
    ("split", ""),
    ("starts_with", ""),
    ("ends_with", ""),
    ("strip", "write `trim()` to change the text in place"),
    ("lstrip", ""),
    ("rstrip", ""),
    ("upper", "write `make_upper()` to change the text in place"),
    ("lower", "write `make_lower()` to change the text in place"),
    ("title", ""),
    ("capitalize", ""),
    ("items", ""),
];
/// Functions of the host's modules that only return a value.
const GIVE_OF_HOST: [(&str, &str); 8] = [
    ("text", "trim"),
    ("text", "replace"),
    ("text", "join"),
    ("regex", "replace"),
    ("json", "stringify"),
    ("hash", "sha256"),
    ("html", "text"),
    ("html", "escape"),
];
const ARITHMETIC: [&str; 5] = ["+", "-", "*", "/", "%"];

/// Reports values that a statement discards.
fn lost_results(view: &View<'_>) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for function in &view.functions {
        lost_in(view, &function.statements, true, &mut problems);
        tree::each(&function.statements, &mut |node, _| problems.extend(lost_write(view, node)));
    }
    problems
}

/// Reports the discarded values in a block and those nested in it. The value of its last statement is that of the
/// block, unless the block is the body of a loop, or of a statement before the last one.
fn lost_in(view: &View<'_>, block: &[Stmt], has_value: bool, problems: &mut Vec<Diagnostic>) {
    for (at, statement) in block.iter().enumerate() {
        let is_value = has_value && at + 1 == block.len();
        if !is_value {
            problems.extend(lost(view, statement));
            // Other comparisons are reported wherever they are.
            let is_last = at + 1 == block.len();
            problems.extend(is_last.then(|| lost_comparison(view, statement)).flatten());
        }
        let is_loop = matches!(statement, Stmt::For(..) | Stmt::While(..) | Stmt::Do(..));
        for inner in tree::blocks_of(statement) {
            lost_in(view, inner, is_value && !is_loop, problems);
        }
    }
    // The blocks of expressions, such as that of `let x = if …`, have values.
    for statement in block {
        tree::each_value_block(statement, &mut |block| lost_in(view, block, true, problems));
    }
}

/// Reports `x?.y = 1`: nothing is written if `x` is `()`, without an error.
fn lost_write(view: &View<'_>, node: Node<'_>) -> Option<Diagnostic> {
    let Node::Stmt(Stmt::Assignment(assignment)) = node else { return None };
    let (mut link, mut may_end) = (&assignment.1.lhs, false);
    while let Expr::Dot(pair, flags, _) | Expr::Index(pair, flags, _) = link {
        may_end |= flags.contains(ASTFlags::NEGATED);
        link = &pair.rhs;
    }
    may_end.then(|| {
        let place = tree::chain(&assignment.1.lhs).0.position();
        let message = "an assignment through `?.` is ignored without an error if the value before it is `()`";
        view.problem(Code::LostResult, place, message)
            .help("test the value first, `if x != () { x.y = 1; }`, or set a default: `x = x ?? #{};`")
    })
}

fn is_own(view: &View<'_>, name: &str) -> bool {
    view.functions.iter().any(|function| function.name == name)
}

fn lost(view: &View<'_>, statement: &Stmt) -> Option<Diagnostic> {
    let mut cause = Cause::Other;
    let (message, place, help) = match statement {
        Stmt::FnCall(call, position) => of_call(view, call, *position)?,
        Stmt::Expr(value) => match &**value {
            Expr::FnCall(call, position) => of_call(view, call, *position)?,
            chain @ Expr::Dot(..) => {
                let (root, links) = tree::chain(chain);
                let Some(Link::Call(call)) = links.last() else { return None };
                let (name, help) = GIVE.iter().find(|(name, _)| *name == &*call.name)?;
                // Elsewhere, `map` is a common way to run a closure for each element.
                let is_loop = *name == "map" && !view.manifest().is_some_and(|manifest| manifest.security);
                if is_loop || is_own(view, name) {
                    return None;
                }
                cause = in_place(name);
                let help = match *help {
                    "" => "use the value, `let x = …`, or remove the call".to_owned(),
                    help => format!("{help}; or use the returned value: `x = x.{name}(…);`"),
                };
                (format!("unused result of `{name}`"), root.position(), help)
            }
            value => of_value(view, value)?,
        },
        _ => return None,
    };
    Some(view.problem(Code::LostResult, place, message).help(help).because(cause))
}

/// Returns the function that changes the text itself, if it takes the same arguments.
fn in_place(name: &str) -> Cause {
    let instead = match name {
        "to_upper" | "upper" => "make_upper",
        "to_lower" | "lower" => "make_lower",
        _ => return Cause::Other,
    };
    Cause::written(name, instead)
}

/// Reports a comparison at the end of a block whose value is discarded.
fn lost_comparison(view: &View<'_>, statement: &Stmt) -> Option<Diagnostic> {
    let (name, position) = flow::comparison(statement)?;
    let message = format!("unused result of the comparison `{name}`");
    Some(view.problem(Code::LostResult, position, message).help("write `return …;`, or use it in an `if`"))
}

/// Describes a statement that is only a value, such as `true` at the end of a block in a loop.
fn of_value(view: &View<'_>, value: &Expr) -> Option<(String, Position, String)> {
    let returns = |shown: &str| format!("to return it from the function, write `return {shown};`");
    Some(match value {
        Expr::BoolConstant(value, position) => {
            (format!("unused value `{value}`"), *position, returns(&value.to_string()))
        }
        Expr::IntegerConstant(value, position) => {
            (format!("unused value `{value}`"), *position, returns(&value.to_string()))
        }
        Expr::StringConstant(_, position) => ("unused text".to_owned(), *position, returns("…")),
        Expr::Variable(variable, _, position) => {
            let name = variable.1.as_str();
            let help = match is_own(view, name) {
                true => format!("to call the function, write `{name}();`"),
                false => returns(name),
            };
            (format!("unused value `{name}`"), *position, help)
        }
        _ => return None,
    })
}

/// Returns the name of a function of the file that only computes a value, if the call discards it.
fn of_own<'a>(view: &View<'_>, call: &'a FnCallExpr) -> Option<&'a str> {
    let is_called =
        |body: &&Body| body.name == *call.name && body.params.len() == call.args.len() && !body.is_closure();
    let body = view.functions.iter().find(is_called)?;
    let mut only_computes = true;
    tree::each(&body.statements, &mut |node, _| {
        only_computes &= match node {
            Node::Stmt(Stmt::Assignment(assignment)) => {
                matches!(assignment.1.lhs, Expr::Variable(..))
            }
            // `throw`, and what the host adds to the language.
            Node::Expr(Expr::Custom(..)) => false,
            node => tree::call(node).is_none_or(|(call, is_method, _)| match is_method {
                true => GIVE.iter().any(|(name, _)| *name == &*call.name) || &*call.name == "contains",
                false => {
                    call.op_token.is_some()
                        || ["text", "regex", "json", "hash", "html", "url"].contains(&&*tree::module_of(call))
                }
            }),
        };
    });
    only_computes.then_some(&*call.name)
}

fn of_call(view: &View<'_>, call: &FnCallExpr, position: Position) -> Option<(String, Position, String)> {
    let name = &*call.name;
    if call.namespace.is_empty()
        && let Some(own) = of_own(view, call)
    {
        return Some((
            format!("unused result of `{own}`"),
            position,
            format!("use the value: `x = {own}(x);`"),
        ));
    }
    if call.op_token.is_some() {
        let is_sum = ARITHMETIC.contains(&name) && call.args.len() == 2;
        let message = format!("unused result of `{name}`");
        return is_sum.then(|| (message, position, format!("use the value: `x {name}= …;` or `let x = …;`")));
    }
    let module = tree::module_of(call);
    let known = GIVE_OF_HOST.contains(&(module.as_str(), name));
    let place = call.namespace.path.first().map_or(position, |first| first.pos);
    let message = format!("unused result of `{module}::{name}`");
    known.then(|| (message, place, format!("use the value: `x = {module}::{name}(x, …);`")))
}
