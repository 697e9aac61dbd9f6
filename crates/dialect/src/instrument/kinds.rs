//! Infers the kinds that expressions always have from their syntax.

use crate::value::dynamic_of;
use rhai::{ASTFlags, Dynamic, Expr, FnCallExpr, ScriptFuncDef, Stmt, StmtBlock};
use std::collections::{HashMap, HashSet};
use valvehouse_core::filter::Hook;
use valvehouse_json::Json;

/// Functions that always return a finite number: Rhai compares infinite ones wrong, so a step compares them.
const COUNTING: [&str; 8] = ["len", "count", "parse_int", "int", "to_int", "floor", "ceiling", "round"];
/// Functions of the host's modules that always return a number.
const COUNTING_OF_HOST: [(&str, &str); 4] =
    [("time", "unix"), ("time", "unix_ms"), ("time", "elapsed_ms"), ("tokens", "count")];
/// The number of iterations after which kinds that still change count as unknown.
const MAX_ROUNDS: usize = 8;

/// A kind of value, as far as operators distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperandKind {
    /// An integer or a float.
    Number,
    /// A string or a character.
    Text,
    /// A bool.
    Boolean,
    /// The unit value `()`.
    Unit,
    /// A native array of the script.
    Array,
    /// A native map of the script.
    Map,
}

impl OperandKind {
    /// Returns the kind of a value; `None` for live values, functions and others.
    pub(super) fn of(value: &Dynamic) -> Option<Self> {
        if value.is_int() || value.is_float() {
            return Some(Self::Number);
        }
        match () {
            () if value.is_string() || value.is_char() => Some(Self::Text),
            () if value.is_bool() => Some(Self::Boolean),
            () if value.is_unit() => Some(Self::Unit),
            () if value.is_array() => Some(Self::Array),
            () if value.is_map() => Some(Self::Map),
            () => None,
        }
    }

    /// Returns `true` if values of this kind are ordered.
    pub fn is_ordered(self) -> bool {
        matches!(self, Self::Number | Self::Text | Self::Boolean)
    }

    /// Returns the name of the kind with an article.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Text => "a string",
            Self::Boolean => "a boolean",
            Self::Unit => "()",
            Self::Array => "an array",
            Self::Map => "a map",
        }
    }
}

/// The inferred kind of an expression during the iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guess {
    /// Depends on a variable whose kind has not been inferred yet.
    Open,
    Is(OperandKind),
    Unknown,
}

impl Guess {
    fn of(kind: Option<OperandKind>) -> Self {
        kind.map_or(Self::Unknown, Self::Is)
    }

    /// Returns the kind of a variable that may hold either value.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Open, kind) | (kind, Self::Open) => kind,
            (one, another) if one == another => one,
            _ => Self::Unknown,
        }
    }
}

/// The kinds of the values in one function, as far as its syntax proves them.
pub struct Kinds<'a> {
    variables: HashMap<String, Guess>,
    /// The effective valves, if the function receives them as `valves`.
    valves: Option<&'a Json>,
    /// The defaults of the users' valves, if the function receives them in `__user__`.
    users: Option<&'a Json>,
    functions: KnownFunctions<'a>,
}

/// The functions that a script may call by their name.
#[derive(Clone, Copy)]
pub struct KnownFunctions<'a> {
    /// The names of the functions of the same script.
    pub own: &'a HashSet<String>,
    /// The modules and names of the host's functions that always return a boolean.
    pub booleans: &'a HashSet<(&'static str, &'static str)>,
}

impl KnownFunctions<'_> {
    /// Returns `true` if a call always returns a boolean.
    pub(super) fn is_boolean(self, call: &FnCallExpr) -> bool {
        if call.op_token.is_some() {
            // `in` is a call of `contains`.
            return COMPARING.contains(&&*call.name) || call.name == "contains";
        }
        let module = match call.namespace.path.as_slice() {
            [] => "",
            [module] => module.name.as_str(),
            _ => return false,
        };
        !self.own.contains(&*call.name) && self.booleans.contains(&(module, call.name.as_str()))
    }
}

impl<'a> Kinds<'a> {
    /// Infers the kinds in a function of a script with these `valves`.
    pub(crate) fn of(
        function: &ScriptFuncDef,
        statements: &[Stmt],
        valves: &'a Json,
        functions: KnownFunctions<'a>,
    ) -> Self {
        let params: Vec<&str> = function.params.iter().map(|name| name.as_str()).collect();
        Self::in_body(&function.name, &params, statements, valves, None, functions)
    }

    /// Infers the kinds like [`Kinds::of`], from the parts of a function, and with the valves of users.
    pub fn in_body(
        name: &str,
        params: &[&str],
        statements: &[Stmt],
        valves: &'a Json,
        users: Option<&'a Json>,
        functions: KnownFunctions<'a>,
    ) -> Self {
        let mut writes = Writes::default();
        writes.block(statements);
        let is_hook = Hook::ALL.iter().any(|hook| hook.name() == name);
        let handed = |name: &str, value: Option<&'a Json>| {
            let is_handed =
                is_hook && params.contains(&name) && !writes.names().any(|written| written == name);
            value.filter(|_| is_handed)
        };
        let (valves, users) = (handed("valves", Some(valves)), handed("__user__", users));
        let mut kinds = Self { variables: HashMap::new(), valves, users, functions };
        let unknown = params.iter().copied().chain(writes.unknown.iter().copied());
        for name in unknown {
            kinds.variables.insert(name.to_owned(), Guess::Unknown);
        }
        for (name, _) in &writes.known {
            kinds.variables.entry((*name).to_owned()).or_insert(Guess::Open);
        }
        for round in 0.. {
            let mut has_changed = false;
            for (name, write) in &writes.known {
                let guess = match write {
                    Write::Value(value) => kinds.guess(value),
                    Write::Number => Guess::Is(OperandKind::Number),
                    Write::Operator(operator, value) => {
                        let before = kinds.variables.get(*name).copied().unwrap_or(Guess::Unknown);
                        result_of(operator, before, kinds.guess(value))
                    }
                };
                if let Some(known) = kinds.variables.get_mut(*name) {
                    let joined = if round < MAX_ROUNDS { known.or(guess) } else { Guess::Unknown };
                    has_changed |= joined != *known;
                    *known = joined;
                }
            }
            if !has_changed {
                break;
            }
        }
        kinds
    }

    /// Returns `true` if the script has a function of this name.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.functions.own.contains(name)
    }

    /// Returns the kind of an expression; `None` if it is only known at run time.
    pub fn kind_of(&self, expression: &Expr) -> Option<OperandKind> {
        match self.guess(expression) {
            Guess::Is(kind) => Some(kind),
            Guess::Open | Guess::Unknown => None,
        }
    }

    fn guess(&self, expression: &Expr) -> Guess {
        use OperandKind::*;
        let kind = match expression {
            Expr::IntegerConstant(..) | Expr::FloatConstant(..) => Number,
            Expr::StringConstant(..) | Expr::InterpolatedString(..) | Expr::CharConstant(..) => Text,
            Expr::BoolConstant(..) => Boolean,
            // The value of one of the operands.
            Expr::And(parts, _) | Expr::Or(parts, _) => {
                return parts.iter().map(|part| self.guess(part)).reduce(Guess::or).unwrap_or(Guess::Unknown);
            }
            Expr::Unit(..) => Unit,
            Expr::Array(..) => Array,
            Expr::Map(..) => Map,
            Expr::DynamicConstant(value, _) => return Guess::of(OperandKind::of(value)),
            Expr::Variable(variable, ..) if variable.2.path.is_empty() => {
                return self.variables.get(variable.1.as_str()).copied().unwrap_or(Guess::Unknown);
            }
            Expr::FnCall(call, _) => return self.guess_of_call(call),
            Expr::Dot(..) | Expr::Index(..) => return self.guess_of_chain(expression),
            _ => return Guess::Unknown,
        };
        Guess::Is(kind)
    }

    fn guess_of_call(&self, call: &FnCallExpr) -> Guess {
        let name = call.name.as_str();
        if call.op_token.is_some() {
            return match call.args.as_slice() {
                _ if self.functions.is_boolean(call) => Guess::Is(OperandKind::Boolean),
                [one] if name == "-" => result_of(name, Guess::Is(OperandKind::Number), self.guess(one)),
                [first, second] => result_of(name, self.guess(first), self.guess(second)),
                _ => Guess::Unknown,
            };
        }
        match () {
            () if self.is_counting(call) => Guess::Is(OperandKind::Number),
            () if self.functions.is_boolean(call) => Guess::Is(OperandKind::Boolean),
            () => Guess::Unknown,
        }
    }

    /// Returns `true` if a call only returns a number, without side effects.
    pub(super) fn is_counting(&self, call: &FnCallExpr) -> bool {
        let name = call.name.as_str();
        match call.namespace.path.as_slice() {
            [] => COUNTING.contains(&name) && !self.is_own(name),
            [module] => COUNTING_OF_HOST.contains(&(module.name.as_str(), name)),
            _ => false,
        }
    }

    /// Returns the value of `valves.limit` or `__user__.valves.limit`.
    fn valve(&self, chain: &Expr) -> Option<Json> {
        let (root, mut rest) = sides(chain)?;
        let Expr::Variable(variable, ..) = root else { return None };
        let valves = match variable.1.as_str() {
            "valves" => self.valves,
            "__user__" => {
                let (first, last) = sides(rest)?;
                rest = last;
                matches!(first, Expr::Property(property, _) if property.2 == "valves").then_some(self.users?)
            }
            _ => None,
        };
        match rest {
            Expr::Property(property, _) => valves?.get(&property.2),
            _ => None,
        }
    }

    /// Infers the kind of a chain such as `valves.limit` or `body.messages.len()`.
    fn guess_of_chain(&self, chain: &Expr) -> Guess {
        if let Some(value) = self.valve(chain) {
            // Containers among the valves are excluded.
            let value = OperandKind::of(&dynamic_of(&value));
            return Guess::of(value.filter(|kind| kind.is_ordered()));
        }
        match last_link(chain) {
            Some(Expr::MethodCall(call, _)) => self.guess_of_call(call),
            _ => Guess::Unknown,
        }
    }
}

/// Operators that return a boolean for any values.
const COMPARING: [&str; 7] = ["<", "<=", ">", ">=", "==", "!=", "!"];

/// Returns the two sides of `a.b`.
fn sides(dot: &Expr) -> Option<(&Expr, &Expr)> {
    match dot {
        Expr::Dot(pair, ..) => Some((&pair.lhs, &pair.rhs)),
        _ => None,
    }
}

/// Returns the last link of a chain of properties and indexes; `None` if it is an index.
fn last_link(mut chain: &Expr) -> Option<&Expr> {
    loop {
        match chain {
            Expr::Dot(pair, flags, _) if flags.contains(ASTFlags::BREAK) => return Some(&pair.rhs),
            Expr::Index(_, flags, _) if flags.contains(ASTFlags::BREAK) => return None,
            Expr::Dot(pair, ..) => match &pair.rhs {
                rest @ (Expr::Dot(..) | Expr::Index(..)) => chain = rest,
                last => return Some(last),
            },
            Expr::Index(pair, ..) => match &pair.rhs {
                rest @ (Expr::Dot(..) | Expr::Index(..)) => chain = rest,
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// Infers the kind of `first operator second` or `first operator= second`.
fn result_of(operator: &str, first: Guess, second: Guess) -> Guess {
    use OperandKind::*;
    match operator.trim_end_matches('=') {
        // Also `==`, `!=`, `<=` and `>=`.
        "" | "!" | "<" | ">" => Guess::Is(Boolean),
        "+" => match (first, second) {
            (Guess::Is(Number), Guess::Is(Number)) => Guess::Is(Number),
            (Guess::Is(Text), Guess::Is(Text | Number | Boolean)) => Guess::Is(Text),
            (Guess::Open, Guess::Open | Guess::Is(_)) | (Guess::Is(_), Guess::Open) => Guess::Open,
            _ => Guess::Unknown,
        },
        "-" | "*" | "/" | "%" | "**" => match (first, second) {
            (Guess::Is(Number), Guess::Is(Number)) => Guess::Is(Number),
            (Guess::Open, Guess::Open | Guess::Is(Number)) | (Guess::Is(Number), Guess::Open) => Guess::Open,
            _ => Guess::Unknown,
        },
        _ => Guess::Unknown,
    }
}

/// A value that is written to a variable.
enum Write<'a> {
    Value(&'a Expr),
    Operator(&'a str, &'a Expr),
    /// The counter of a loop over numbers.
    Number,
}

/// All writes to the variables of a function.
#[derive(Default)]
struct Writes<'a> {
    known: Vec<(&'a str, Write<'a>)>,
    /// Variables that may hold any value: elements in loops, caught errors, variables shared with closures.
    unknown: Vec<&'a str>,
}

impl<'a> Writes<'a> {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(|(name, _)| *name).chain(self.unknown.iter().copied())
    }

    fn block(&mut self, statements: &'a [Stmt]) {
        statements.iter().for_each(|statement| self.statement(statement));
    }

    fn inner(&mut self, block: &'a StmtBlock) {
        self.block(block.statements());
    }

    fn statement(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Var(variable, ..) => {
                self.expression(&variable.1);
                self.known.push((&variable.0.name, Write::Value(&variable.1)));
            }
            Stmt::Assignment(parts) => {
                let (operator, pair) = &**parts;
                self.expression(&pair.lhs);
                self.expression(&pair.rhs);
                if let Expr::Variable(variable, ..) = &pair.lhs {
                    let write = match operator.get_op_assignment_info() {
                        Some((.., name)) => Write::Operator(name, &pair.rhs),
                        None => Write::Value(&pair.rhs),
                    };
                    self.known.push((&variable.1, write));
                }
            }
            Stmt::If(flow, _) | Stmt::While(flow, _) | Stmt::Do(flow, ..) => {
                self.expression(&flow.expr);
                self.inner(&flow.body);
                self.inner(&flow.branch);
            }
            Stmt::TryCatch(flow, _) => {
                if let Expr::Variable(variable, ..) = &flow.expr {
                    self.unknown.push(&variable.1);
                }
                self.inner(&flow.body);
                self.inner(&flow.branch);
            }
            Stmt::For(parts, _) => {
                let (variable, counter, flow) = &**parts;
                self.expression(&flow.expr);
                let names =
                    std::iter::once(&variable.name).chain(counter.as_ref().map(|counter| &counter.name));
                match &flow.expr {
                    Expr::FnCall(call, _) if matches!(call.name.as_str(), ".." | "..=") => {
                        self.known.extend(names.map(|name| (name.as_str(), Write::Number)));
                    }
                    // The second variable is the value of a key in a loop over a map.
                    _ => self.unknown.extend(names.map(|name| name.as_str())),
                }
                self.inner(&flow.body);
            }
            Stmt::Switch(parts, _) => {
                self.expression(&parts.0);
                for case in &parts.1.expressions {
                    self.expression(&case.lhs);
                    self.expression(&case.rhs);
                }
            }
            Stmt::FnCall(call, _) => call.args.iter().for_each(|argument| self.expression(argument)),
            Stmt::Block(block) => self.inner(block),
            Stmt::Expr(expression)
            | Stmt::BreakLoop(Some(expression), ..)
            | Stmt::Return(Some(expression), ..) => self.expression(expression),
            Stmt::Share(variables) => {
                self.unknown.extend(variables.iter().map(|(variable, _)| variable.name.as_str()));
            }
            _ => {}
        }
    }

    /// Blocks may occur within expressions.
    fn expression(&mut self, expression: &'a Expr) {
        match expression {
            Expr::InterpolatedString(parts, _) | Expr::Array(parts, _) => {
                parts.iter().for_each(|part| self.expression(part));
            }
            Expr::Map(entries, _) => entries.0.iter().for_each(|(_, value)| self.expression(value)),
            Expr::Stmt(block) => self.inner(block),
            Expr::FnCall(call, _) | Expr::MethodCall(call, _) => {
                call.args.iter().for_each(|argument| self.expression(argument));
            }
            Expr::Dot(pair, ..) | Expr::Index(pair, ..) => {
                self.expression(&pair.lhs);
                self.expression(&pair.rhs);
            }
            Expr::And(parts, _) | Expr::Or(parts, _) | Expr::Coalesce(parts, _) => {
                parts.iter().for_each(|part| self.expression(part));
            }
            Expr::Custom(custom, _) => custom.inputs.iter().for_each(|input| self.expression(input)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::statements_of;

    /// Returns the kinds of the operands of the only comparison in a hook.
    fn compared(body: &str) -> [Option<OperandKind>; 2] {
        let text = format!("fn inlet(body, valves) {{ {body} }}");
        let mut engine = crate::language::engine([]);
        engine.set_optimization_level(rhai::OptimizationLevel::None);
        let ast = engine.compile(text).unwrap();
        let function = ast.iter_fn_def().find(|function| function.name == "inlet").unwrap();
        let statements = statements_of(function);
        let valves = Json::from([("limit", 4i64.into()), ("name", "x".into()), ("none", Json::Null)]);
        let own = HashSet::from(["own".to_owned()]);
        let functions = KnownFunctions { own: &own, booleans: &HashSet::new() };
        let kinds = Kinds::of(function, &statements, &valves, functions);
        let mut found = None;
        ast.walk(&mut |path: &[rhai::ASTNode<'_>]| {
            if let Some(rhai::ASTNode::Expr(Expr::FnCall(call, _))) = path.last()
                && call.name == "<"
            {
                found = Some([kinds.kind_of(&call.args[0]), kinds.kind_of(&call.args[1])]);
            }
            true
        });
        found.unwrap()
    }

    #[test]
    fn types_that_syntax_proves_are_known() {
        use OperandKind::*;
        for (body, expected) in [
            ("body.messages.len() < 4", [Some(Number), Some(Number)]),
            ("body.messages[0].content.len() < valves.limit", [Some(Number), Some(Number)]),
            ("valves.name < \"y\"", [Some(Text), Some(Text)]),
            ("let n = 0; for m in body.messages { n += 1; } n < 2", [Some(Number), Some(Number)]),
            ("for i in 0..body.n { i < body.n }", [Some(Number), None]),
            ("let n = body.messages.len(); n = n * 2 + 1; n < -n", [Some(Number), Some(Number)]),
            ("let s = \"a\"; s += `b`; s < 'x'", [Some(Text), Some(Text)]),
            ("time::unix() < body.until", [Some(Number), None]),
        ] {
            assert_eq!(compared(body), expected, "{body}");
        }
    }

    #[test]
    fn types_that_depend_on_a_run_are_unknown() {
        for body in [
            "body.n < body.m",
            "body[0] < body.messages[len(body)]",
            "let n = 0; n = body.n; n < body",
            "let n = 0; if body.x { let n = body.n; } n < body",
            "let n = 0; n += body.n; n < body",
            "let n = 0; let f = || n = \"x\"; f.call(); n < body",
            "try { } catch (n) { n < body }",
            "for n in body.messages { n < body }",
            "valves.none < valves.missing",
            "let valves = #{}; valves.limit < body",
            "own() < body",
        ] {
            assert_eq!(compared(body), [None, None], "{body}");
        }
    }
}
