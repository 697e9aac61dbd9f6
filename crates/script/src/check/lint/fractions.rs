//! Reports numbers whose fraction is not as meant: `/` of whole numbers drops it, and a rounded float is shown with one.

use super::rule::{Rule, rules};
use super::tree::{self, Body, Link, Node, View};
use crate::diagnostic::{Code, Diagnostic};
use rhai::{Expr, Position, Stmt};
use std::collections::HashSet;
use valvehouse_json::Json;

rules! {
    /// V618 a division without its fraction
    ///
    /// `/` of two whole numbers is a whole number: `7 / 2` is 3. Here its result is shown with digits, multiplied by 100 or
    /// rounded, as if it had a fraction.
    ///
    /// Wrong:
    /// ```rhai
    /// fn outlet(body) {
    ///     let words = body.messages[-1].text.split().len();
    ///     body.note = text::fixed(words / body.messages.len(), 1);
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn outlet(body) {
    ///     let words = body.messages[-1].text.split().len();
    ///     body.note = text::fixed(words.to_float() / body.messages.len(), 1);
    /// }
    /// ```
    LostFraction { find: fractions }
}

/// Functions and methods that return whole numbers.
const COUNTING: [&str; 5] = ["len", "count", "parse_int", "to_int", "unix"];
const ROUNDING: [&str; 3] = ["round", "floor", "ceiling"];
/// Properties that are whole numbers.
const COUNTS: [&str; 3] = ["prompt_tokens", "completion_tokens", "total_tokens"];

/// Reports divisions whose fraction was meant, and rounded numbers that are shown with one.
fn fractions(view: &View<'_>) -> Vec<Diagnostic> {
    let none = Json::object();
    let valves = view.script.map_or(&none, |script| &script.valves);
    view.in_functions(|function| {
        let wholes = Wholes::of(function, valves);
        let mut problems = Vec::new();
        tree::each(&function.statements, &mut |node, _| {
            problems.extend(shown_with_fraction(view, node));
            problems.extend(wholes.lost_fraction(node).map(|position| {
                let message = "`/` of two whole numbers drops the fraction: `3 / 2` is 1";
                let problem = view.problem(Code::LostFraction, position, message);
                problem.help("convert one of them first: `a.to_float() / b`")
            }));
        });
        problems
    })
}

/// Reports `${round(x)}`, which shows `3.0`.
fn shown_with_fraction(view: &View<'_>, node: Node<'_>) -> Option<Diagnostic> {
    let Node::Expr(Expr::InterpolatedString(parts, _)) = node else { return None };
    let rounds = |part: &&Expr| {
        let (root, links) = tree::chain(part);
        match (root, links.last()) {
            (_, Some(Link::Call(call))) => ROUNDING.contains(&&*call.name) && call.args.is_empty(),
            (Expr::FnCall(call, _), None) => ROUNDING.contains(&&*call.name) && call.args.len() == 1,
            _ => false,
        }
    };
    let part = parts.iter().find(rounds)?;
    let message = "a rounded float is shown with a fraction: `3.0`";
    let problem = view.problem(Code::ForeignKinds, tree::chain(part).0.position(), message);
    Some(problem.help("write `x.round().to_int()`, or `text::fixed(x, 0)`"))
}

/// The whole numbers of a function.
struct Wholes<'a> {
    valves: &'a Json,
    /// The variables that are always whole numbers.
    variables: HashSet<String>,
    /// The variables that are the quotient of two whole numbers.
    quotients: HashSet<String>,
}

impl<'a> Wholes<'a> {
    fn of(function: &Body, valves: &'a Json) -> Self {
        let mut wholes = Self { valves, variables: HashSet::new(), quotients: HashSet::new() };
        let mut others: HashSet<String> = function.params.iter().cloned().collect();
        tree::each(&function.statements, &mut |node, _| match node {
            Node::Stmt(Stmt::Var(variable, ..)) => {
                let name = variable.0.name.to_string();
                let is_again = wholes.variables.contains(&name) || wholes.quotients.contains(&name);
                match () {
                    () if is_again || others.contains(&name) => drop(others.insert(name)),
                    () if wholes.quotient(&variable.1).is_some() => drop(wholes.quotients.insert(name)),
                    () if wholes.is_whole(&variable.1) => drop(wholes.variables.insert(name)),
                    () => drop(others.insert(name)),
                }
            }
            Node::Stmt(Stmt::Assignment(assignment)) => {
                let plus_one = matches!(assignment.1.rhs, Expr::IntegerConstant(..));
                if let Some(name) = tree::variable(&assignment.1.lhs).filter(|_| !plus_one) {
                    others.insert(name.to_owned());
                }
            }
            _ => {}
        });
        wholes.variables.retain(|name| !others.contains(name));
        wholes.quotients.retain(|name| !others.contains(name));
        wholes
    }

    fn is_whole(&self, expression: &Expr) -> bool {
        match expression {
            Expr::IntegerConstant(..) => true,
            Expr::FnCall(call, _) => match &call.args[..] {
                [first, second] if call.op_token.is_some() => {
                    ["+", "-", "*", "/", "%"].contains(&&*call.name)
                        && self.is_whole(first)
                        && self.is_whole(second)
                }
                _ => COUNTING.contains(&&*call.name),
            },
            Expr::Variable(..) => {
                tree::variable(expression).is_some_and(|name| self.variables.contains(name))
            }
            Expr::Dot(..) => {
                let (root, links) = tree::chain(expression);
                match (&links[..], tree::variable(root)) {
                    ([Link::Property(name, _)], Some("valves")) => {
                        self.valves.get(name).is_some_and(|value| value.as_i64().is_some())
                    }
                    ([.., Link::Property(name, _)], _) => COUNTS.contains(name),
                    ([.., Link::Call(call)], _) => COUNTING.contains(&&*call.name),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// Returns the position of the division of two whole numbers.
    fn quotient(&self, expression: &Expr) -> Option<Position> {
        match expression {
            Expr::FnCall(call, position) if call.op_token.is_some() && call.name == "/" => {
                call.args.iter().all(|operand| self.is_whole(operand)).then_some(*position)
            }
            Expr::Variable(..) => {
                let is_quotient =
                    tree::variable(expression).is_some_and(|name| self.quotients.contains(name));
                is_quotient.then(|| expression.position())
            }
            _ => None,
        }
    }

    /// Returns the position of a quotient where its fraction was meant: `text::fixed(a / b, 1)`, `a / b * 100`,
    /// `(a / b).round()`.
    fn lost_fraction(&self, node: Node<'_>) -> Option<Position> {
        if let Node::Expr(chain @ Expr::Dot(..)) = node {
            let (root, links) = tree::chain(chain);
            let rounds = matches!(&links[..], [Link::Call(call), ..] if ROUNDING.contains(&&*call.name));
            return self.quotient(root).filter(|_| rounds);
        }
        let (call, false, _) = tree::call(node)? else { return None };
        if let [only] = &call.args[..] {
            return self.quotient(only).filter(|_| ROUNDING.contains(&&*call.name));
        }
        let [first, second] = &call.args[..] else { return None };
        // `n / 10 * 10` rounds down to tens.
        let is_percent = matches!(second, Expr::IntegerConstant(100, _) | Expr::FloatConstant(..));
        let is_meant = match call.op_token {
            Some(_) => call.name == "*" && is_percent,
            None => call.name == "fixed" && tree::module_of(call) == "text",
        };
        self.quotient(first).filter(|_| is_meant)
    }
}
