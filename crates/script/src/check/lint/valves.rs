//! Reports valves that are read but not declared, and valves that are declared but not read.

use super::rule::{Rule, rules};
use super::tree::{self, Body, Link, Node, View};
use crate::diagnostic::{Code, Diagnostic};
use rhai::{Expr, Position, Stmt};
use std::collections::BTreeSet;
use valvehouse_core::text::nearest;
use valvehouse_core::valve::ValveSchema;

rules! {
    /// V504 an undeclared valve
    ///
    /// The script reads a valve that is not declared in `Valves` (or `UserValves`), and gets `()`.
    ///
    /// Wrong:
    /// ```rhai
    /// const Valves = #{ max_turns: 4 };
    ///
    /// fn inlet(body, valves) {
    ///     if body.messages.len() > valves.max_trns {
    ///         throw `no more than ${valves.max_turns} messages`;
    ///     }
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// const Valves = #{ max_turns: 4 };
    ///
    /// fn inlet(body, valves) {
    ///     if body.messages.len() > valves.max_turns {
    ///         throw `no more than ${valves.max_turns} messages`;
    ///     }
    /// }
    /// ```
    UnknownValve { find: look }

    /// V604 an unused valve
    ///
    /// The valve has no effect. Read it in the script, or remove it.
    ///
    /// Wrong:
    /// ```rhai
    /// const Valves = #{ max_turns: 4, greeting: "Hello" };
    ///
    /// fn inlet(body, valves) {
    ///     body.max = valves.max_turns;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// const Valves = #{ max_turns: 4 };
    ///
    /// fn inlet(body, valves) {
    ///     body.max = valves.max_turns;
    /// }
    /// ```
    UnusedValve {}
}

/// The owner of an expression's valves.
#[derive(Clone, Copy, PartialEq)]
enum Whose {
    Operators,
    Users,
}

fn look(view: &View<'_>) -> Vec<Diagnostic> {
    let Some(manifest) = view.manifest() else { return Vec::new() };
    let none = ValveSchema::default();
    let users = manifest.user_valves.as_ref().unwrap_or(&none);
    let mut problems = Vec::new();
    let mut whole = BTreeSet::new();
    for function in &view.functions {
        let names = Names::of(function);
        tree::each(&function.statements, &mut |node, above| {
            let Node::Expr(expression) = node else { return };
            let Some((whose, rest)) = names.valves(expression) else {
                return;
            };
            match rest.first() {
                Some(Link::Property(name, position)) => {
                    problems.extend(names.unknown(view, whose, &manifest.valves, users, (name, *position)));
                }
                Some(Link::Index(index)) => match tree::text(index) {
                    Some(name) => {
                        let found =
                            names.unknown(view, whose, &manifest.valves, users, (name, index.position()));
                        problems.extend(found);
                    }
                    None => _ = whole.insert(whose == Whose::Users),
                },
                Some(Link::Call(_)) => _ = whole.insert(whose == Whose::Users),
                // For the name itself, the chain it begins or its alias is examined instead.
                None if is_followed(above) => {}
                None => _ = whole.insert(whose == Whose::Users),
            }
        });
    }
    let is_read = |name: &str| view.properties.contains(name) || view.texts.contains(name);
    let names_host =
        |name: &str| manifest.allow_hosts.iter().any(|host| host.strip_prefix("valve:") == Some(name));
    let declared = [("Valves", &manifest.valves, false), ("UserValves", users, true)];
    for (whose, schema, is_users) in declared {
        if whole.contains(&is_users) {
            continue;
        }
        for field in schema.fields().iter().filter(|field| field.name != "priority") {
            if !is_read(&field.name) && (is_users || !names_host(&field.name)) {
                let what = format!("unused valve `{}`", field.name);
                let diagnostic = Diagnostic::of(Code::UnusedValve, view.file, what);
                let diagnostic = diagnostic.at_path(view.source, &format!("{whose}.{}", field.name));
                let how = if is_users { "__user__.valves" } else { "valves" };
                problems.push(diagnostic.help(format!("read it with `{how}.{}`, or remove it", field.name)));
            }
        }
    }
    problems
}

/// Returns `true` if the code around a name is examined too: a chain, an alias, a call of the file's own functions,
/// or a closure.
fn is_followed(above: &[Node<'_>]) -> bool {
    match above.last() {
        Some(Node::Expr(Expr::Dot(..) | Expr::Index(..))) => true,
        Some(Node::Stmt(Stmt::Var(..) | Stmt::Share(..))) => true,
        Some(Node::Expr(Expr::FnCall(call, _)) | Node::Stmt(Stmt::FnCall(call, _))) => {
            call.op_token.is_none() && call.namespace.path.is_empty()
        }
        _ => false,
    }
}

/// The names of valves in a function.
struct Names {
    operators: BTreeSet<String>,
    users: BTreeSet<String>,
    /// `true` if the host passes the parameter `valves`; other callers may pass any value.
    is_hosts: bool,
}

impl Names {
    fn of(function: &Body) -> Self {
        let mut names = Self {
            operators: ["Valves".to_owned()].into(),
            users: BTreeSet::new(),
            is_hosts: valvehouse_core::filter::Hook::from_name(&function.name).is_some()
                || ["handler", "pipe"].contains(&function.name.as_str()),
        };
        names.operators.extend(function.params.iter().filter(|name| *name == "valves").cloned());
        // Handles aliases such as `let v = valves;` and names that a `let` shadows.
        tree::each(&function.statements, &mut |node, _| {
            let Node::Stmt(Stmt::Var(variable, ..)) = node else { return };
            let name = variable.0.name.to_string();
            let found = names.valves(&variable.1).filter(|(_, rest)| rest.is_empty()).map(|(whose, _)| whose);
            names.operators.remove(&name);
            names.users.remove(&name);
            match found {
                Some(Whose::Operators) => _ = names.operators.insert(name),
                Some(Whose::Users) => _ = names.users.insert(name),
                None => {}
            }
        });
        names
    }

    /// Returns the owner of the valves at the start of a chain, and the rest of the chain.
    fn valves<'a>(&self, expression: &'a Expr) -> Option<(Whose, Vec<Link<'a>>)> {
        let (root, mut links) = tree::chain(expression);
        let root = tree::variable(root)?;
        if self.operators.contains(root) {
            return Some((Whose::Operators, links));
        }
        if self.users.contains(root) {
            return Some((Whose::Users, links));
        }
        let is_users = root == "__user__" && matches!(links.first(), Some(Link::Property("valves", _)));
        is_users.then(|| {
            links.remove(0);
            (Whose::Users, links)
        })
    }

    fn unknown(
        &self,
        view: &View<'_>,
        whose: Whose,
        valves: &ValveSchema,
        users: &ValveSchema,
        (name, position): (&str, Position),
    ) -> Option<Diagnostic> {
        let own = if whose == Whose::Users { users } else { valves };
        let declares =
            |schema: &ValveSchema, name: &str| schema.fields().iter().any(|field| field.name == name);
        let is_other = !self.is_hosts && declares(users, name);
        if declares(own, name)
            || is_other
            || name == "priority"
            || view.written.contains(name) && !self.is_hosts
        {
            return None;
        }
        let word = if whose == Whose::Users { "UserValves" } else { "Valves" };
        let problem = view.problem(
            Code::UnknownValve,
            position,
            format!("unknown valve `{name}`: `{word}` does not declare it"),
        );
        let names: Vec<&str> = own.fields().iter().map(|field| field.name.as_str()).collect();
        Some(match (nearest(name, names.iter().copied()), names.is_empty()) {
            (Some(near), _) => problem.meant(near),
            (None, true) => problem.help(format!("declare it at the top: const {word} = #{{ {name}: … }};")),
            (None, false) => problem.help(format!("the declared valves are {}", names.join(", "))),
        })
    }
}
