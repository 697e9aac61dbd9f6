//! The names that a script uses, read from its syntax tree.

use crate::declare::manifest::Manifest;
use crate::diagnostic::{Code, Diagnostic, MAX_PROBLEMS};
use crate::load::source::SourceFile;
use regex::RegexBuilder;
use rhai::{AST, ASTNode, Dynamic, Expr, FnCallExpr, FnPtr, Position, Stmt};
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};
use valvehouse_core::filter::Hook;
use valvehouse_dialect::syntax::call_of;
use valvehouse_grants::Capability;
use valvehouse_json::Json;
use valvehouse_script_std::{functions, reference};

/// The time for which patterns are checked at load; the remaining ones are checked when they are used.
const CHECKING: Duration = Duration::from_secs(2);

/// The maximum number of different patterns per file that are checked at load.
const MAX_PATTERNS: usize = 1_000;
/// The number of these patterns that are kept compiled for the first call.
const PREPARED: usize = 32;
/// The maximum size of a compiled pattern that is kept, and of any pattern, in bytes.
const SMALL_PATTERN: usize = 256 << 10;
const LARGE_PATTERN: usize = 10 << 20;

/// The help for patterns.
const PATTERNS: &str = "write the pattern in RE2 syntax: without look-ahead, look-behind and \
                        backreferences; escape literal characters such as `(` or `.` with `\\`";

/// The names that a script uses.
#[derive(Default)]
pub(crate) struct Names {
    /// The words after a dot.
    pub(crate) properties: BTreeSet<String>,
    pub(crate) variables: BTreeSet<String>,
    /// The functions it calls, and variables that may hold a function.
    pub(crate) calls: BTreeSet<String>,
    /// The words before `::`.
    pub(crate) modules: BTreeSet<String>,
    /// The variables of `catch`.
    pub(crate) caught: BTreeSet<String>,
}

impl Names {
    /// Returns `true` if a call may wait for a person, the network or another program.
    pub(crate) fn may_wait(&self) -> bool {
        const ASKING: [&str; 10] = [
            "ask",
            "invoke",
            "yield_text",
            "yield_piece",
            "__event_call__",
            "Fn",
            "sleep",
            "retry",
            "poll",
            "parallel",
        ];
        let asks = ASKING.iter().any(|name| self.calls.contains(*name));
        let unpacks = ["uploads", "documents"].iter().any(|name| self.modules.contains(*name));
        asks || unpacks
            || reference::WAITING.iter().any(|capability| self.modules.contains(capability.name()))
    }

    /// Returns `true` if a call may wait for a store that hosts share.
    pub(crate) fn updates_kv(&self) -> bool {
        self.modules.contains(Capability::Kv.name()) && self.calls.contains("update")
    }

    pub(crate) fn of(ast: &AST) -> Self {
        let mut names = Self::default();
        ast.walk(&mut |path: &[ASTNode<'_>]| {
            match path.last() {
                Some(ASTNode::Expr(Expr::Property(property, _))) => {
                    names.properties.insert(property.2.to_string());
                }
                Some(ASTNode::Expr(Expr::Variable(variable, ..))) => {
                    names.variables.insert(variable.1.to_string());
                    names.calls.insert(variable.1.to_string());
                }
                Some(ASTNode::Stmt(Stmt::TryCatch(flow, _))) => {
                    if let Expr::Variable(variable, ..) = &flow.expr {
                        names.caught.insert(variable.1.to_string());
                    }
                }
                Some(node) => {
                    if let Some((call, _)) = call_of(node) {
                        names.calls.insert(call.name.to_string());
                        names.modules.extend(module_of(call).map(str::to_owned));
                    }
                }
                None => {}
            }
            true
        });
        names
    }
}

/// Returns the file's functions that are named without a call, as function values.
pub(crate) fn functions_as_values(ast: &AST) -> Vec<(String, Dynamic)> {
    let named = Names::of(ast).variables;
    let functions: BTreeSet<&str> = ast.iter_functions().map(|function| function.name).collect();
    let values = functions.into_iter().filter(|name| named.contains(*name));
    values.filter_map(|name| Some((name.to_owned(), FnPtr::new(name).ok()?.into()))).collect()
}

/// Returns the word before `::`.
fn module_of(call: &FnCallExpr) -> Option<&str> {
    call.namespace.path.first().map(|root| root.name.as_str())
}

/// Reports calls that would fail at run time: of undeclared capabilities, of missing functions, or with invalid
/// patterns.
pub(crate) fn misused(
    ast: &AST,
    manifest: &Manifest,
    constants: &[(String, Json)],
    file: &SourceFile,
    source: &str,
) -> Vec<Diagnostic> {
    let mut problems: Vec<Diagnostic> = Vec::new();
    let began = Instant::now();
    let mut patterns = Patterns::default();
    ast.walk(&mut |path: &[ASTNode<'_>]| {
        let Some((call, position)) = path.last().and_then(call_of) else { return true };
        let place = call.namespace.path.first().map_or(position, |first| first.pos);
        let problem = |message: String| Diagnostic::of(Code::NotDeclared, file, message).at(source, place);
        let is_undeclared = !manifest.requirements.contains(&Capability::Tools);
        if is_undeclared && call.name == "invoke" && path.iter().rev().nth(1).is_some_and(follows_kernel) {
            let what = "`kernel.invoke` needs `tools`, which is not declared in `requirements`";
            problems.push(problem(what.to_owned()).undeclared("tools"));
        }
        let Some(module) = module_of(call) else { return true };
        let capability = Capability::ALL.into_iter().find(|capability| capability.name() == module);
        if capability.is_some_and(|capability| !manifest.requirements.contains(&capability)) {
            let what = format!("`{module}` is used but not declared in `requirements`");
            problems.push(problem(what).undeclared(module));
        }
        if module == "regex"
            && began.elapsed() < CHECKING
            && let Some((pattern, place)) = call.args.get(1).and_then(|pattern| text_of(pattern, constants))
            && let Some(why) = patterns.wrong(pattern)
        {
            problems.push(Diagnostic::of(Code::BadPattern, file, why).at(source, place).help(PATTERNS));
        }
        problems.len() < MAX_PROBLEMS
    });
    problems
}

/// Returns `true` if a failure in this place may be caught.
fn is_tried(path: &[ASTNode<'_>]) -> bool {
    path.iter().any(|node| matches!(node, ASTNode::Stmt(Stmt::TryCatch(..))))
}

/// Returns `true` for the chain `kernel.…`, as in `ctx.kernel.invoke(name, args)`.
fn follows_kernel(node: &ASTNode<'_>) -> bool {
    matches!(node, ASTNode::Expr(Expr::Dot(parts, ..))
        if matches!(&parts.lhs, Expr::Property(property, _) if property.2 == "kernel"))
}

/// The patterns of a file, each with its error message.
#[derive(Default)]
struct Patterns(HashMap<String, Option<String>>);

impl Patterns {
    fn wrong(&mut self, pattern: String) -> Option<String> {
        let count = self.0.len();
        if count >= MAX_PATTERNS && !self.0.contains_key(&pattern) {
            return None;
        }
        self.0.entry(pattern).or_insert_with_key(|pattern| check(pattern, count < PREPARED).err()).clone()
    }
}

/// Checks a pattern. If `is_prepared`, it is kept compiled for the first call, provided it is small.
fn check(pattern: &str, is_prepared: bool) -> Result<(), String> {
    let compiled = |size| RegexBuilder::new(pattern).size_limit(size).build().map(drop);
    match compiled(SMALL_PATTERN) {
        Ok(()) if !is_prepared => Ok(()),
        Err(regex::Error::CompiledTooBig(_)) if !is_prepared || compiled(LARGE_PATTERN).is_ok() => Ok(()),
        Ok(()) | Err(_) => functions::check_pattern(pattern).map_err(|why| why.to_string()),
    }
}

/// Returns the text of a literal, or of the named constant.
fn text_of(expression: &Expr, constants: &[(String, Json)]) -> Option<(String, Position)> {
    match expression {
        Expr::StringConstant(text, place) => Some((text.to_string(), *place)),
        Expr::Variable(variable, _, place) => {
            let (_, value) = constants.iter().find(|(name, _)| *name == *variable.1)?;
            Some((value.as_str()?.to_owned(), *place))
        }
        _ => None,
    }
}

/// The parameter with the settings.
const VALVES: &str = "valves";

/// Reports assignments to the file's constants and to its valves, which would fail at run time.
pub(crate) fn assigned(
    ast: &AST,
    constants: &[(String, Json)],
    file: &SourceFile,
    source: &str,
) -> Vec<Diagnostic> {
    let mut own: BTreeSet<String> =
        ast.iter_functions().flat_map(|function| function.params).map(str::to_owned).collect();
    let mut written: Vec<(String, Position)> = Vec::new();
    // Only the host passes `valves` to these functions, and they are read-only.
    let is_of_host =
        |name: &str| Hook::from_name(name).is_some() || ["handler", "pipe", "action"].contains(&name);
    let takes_valves = |params: &[&str]| params.contains(&VALVES);
    let mut is_read_only = ast.iter_functions().all(|one| !takes_valves(&one.params) || is_of_host(one.name));
    ast.walk(&mut |path: &[ASTNode<'_>]| {
        match path.last() {
            Some(ASTNode::Stmt(Stmt::Var(variable, ..))) if path.len() > 1 => {
                is_read_only &= variable.0.name != VALVES;
                own.insert(variable.0.name.to_string());
            }
            Some(ASTNode::Stmt(Stmt::Assignment(assignment))) => {
                let mut target = &assignment.1.lhs;
                let is_part = matches!(target, Expr::Dot(..) | Expr::Index(..));
                while let Expr::Dot(chain, ..) | Expr::Index(chain, ..) = target {
                    target = &chain.lhs;
                }
                if let Expr::Variable(variable, _, position) = target
                    && (variable.1 != VALVES || is_part && !is_tried(path))
                {
                    written.push((variable.1.to_string(), *position));
                }
            }
            _ => {}
        }
        true
    });
    let of_file = |name: &str| match name {
        VALVES => is_read_only && own.contains(name),
        name => constants.iter().any(|(constant, _)| constant == name) && !own.contains(name),
    };
    let written = written.into_iter().filter(|(name, _)| of_file(name)).take(MAX_PROBLEMS);
    written
        .map(|(name, position)| {
            if name == VALVES {
                let what = "cannot assign to a valve: `valves` is read-only";
                return Diagnostic::of(Code::ConstantWritten, file, what).at(source, position).help(
                    "copy it to a variable, `let limit = valves.limit;`, or store changing values in `state` or kv",
                );
            }
            Diagnostic::of(Code::ConstantWritten, file, format!("cannot assign to the constant `{name}`"))
                .at(source, position)
                .help("copy it to a variable with `let`, or store changing values in `state` or kv")
        })
        .collect()
}
