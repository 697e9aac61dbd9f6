//! Reports calls that cannot succeed, those that probably cannot, and unused functions.

use super::rule::{Rule, rules};
use super::tree::{self, Body, ModuleFunctions, Node, View};
use crate::declare::hooks::DONE;
use crate::diagnostic::{Cause, Code, Diagnostic, MAX_PROBLEMS};
use crate::load::source::{Kind, SourceFile};
use rhai::{AST, Expr, FnCallExpr, Position};
use std::collections::{BTreeSet, HashSet};
use valvehouse_core::callback::Callback;
use valvehouse_core::filter::Hook;
use valvehouse_core::text::nearest;
use valvehouse_dialect::instrument::returns_text;
use valvehouse_script_std::functions::turn::MAX_PRINTED;
use valvehouse_script_std::{engine, reference};

rules! {
    /// V502 an unknown function
    ///
    /// No function with that name exists in this file, the host or a module. The call would fail whenever it runs, so the
    /// file does not load, and its last good version stays. The call of an unknown method is a warning, because a
    /// map may hold a function of that name.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.model = text::trimm(body.model);
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.model = text::trim(body.model);
    /// }
    /// ```
    UnknownFunction { find: |view| wrong(view, false) }

    /// V503 a wrong number of arguments
    ///
    /// The function exists, but with another number of arguments. In a method call, the value before the dot is not counted.
    /// The file does not load, and its last good version stays.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.model = text::join(["a", "b"]);
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.model = text::join(["a", "b"], "-");
    /// }
    /// ```
    WrongArguments {}

    /// V507 an unknown option
    ///
    /// A function of the host gets a map of options with a key that it does not have: each call would fail. The file does not
    /// load, and its last good version stays.
    ///
    /// Wrong:
    /// ```rhai
    /// /*
    /// requirements: http
    /// allow_hosts: example.com
    /// */
    /// fn inlet(body) {
    ///     body.model = http::get("https://example.com/model", #{ params: #{ user: "ann" } }).text;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// requirements: http
    /// allow_hosts: example.com
    /// */
    /// fn inlet(body) {
    ///     body.model = http::get("https://example.com/model", #{ query: #{ user: "ann" } }).text;
    /// }
    /// ```
    UnknownOption {}

    /// V605 an unused function
    ///
    /// The function is not a hook, callback or handler, and nothing in the file uses it. Names that begin with `_` are not
    /// reported.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.model = "demo";
    /// }
    ///
    /// fn shout(text) {
    ///     text + "!"
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.model = shout("demo");
    /// }
    ///
    /// fn shout(text) {
    ///     text + "!"
    /// }
    /// ```
    UnusedFunction { find: unused }
}

/// Calls of other languages with another number of arguments, and what to write instead.
const ELSEWHERE: [(&str, usize, &str); 3] = [
    ("zip", 3, "write `for (item, index) in list { let other = others[index]; }`"),
    ("max", 3, "pass a list: `max([a, b, c])`"),
    ("min", 3, "pass a list: `min([a, b, c])`"),
];

/// Options of other libraries, and what to write instead.
const OPTIONS_ELSEWHERE: [(&str, &str); 10] = [
    ("params", "query"),
    ("data", "form"),
    ("payload", "json"),
    ("content", "body"),
    ("files", "multipart"),
    ("auth", "headers"),
    ("timeout_ms", "timeout"),
    ("retries", "times"),
    ("attempts", "times"),
    ("interval", "every"),
];

/// Returns the calls that certainly fail when they run: no function has their name and number of arguments.
pub(crate) fn failures(
    file: &SourceFile,
    source: &str,
    as_written: &AST,
    modules: ModuleFunctions,
) -> Vec<Diagnostic> {
    let mut found = wrong(&View::of(file, source, as_written, None, modules), true);
    found.truncate(MAX_PROBLEMS);
    found
}

fn wrong(view: &View<'_>, is_certain: bool) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for function in &view.functions {
        // A variable may hold a called function.
        let held = function.names();
        tree::each(&function.statements, &mut |node, _| {
            let Some((call, is_method, position)) = tree::call(node) else { return };
            // A method may be a function that a value holds, and `Fn` calls nothing yet.
            if is_certain == (is_method || call.name == "Fn") {
                return;
            }
            problems.extend(is_certain.then(|| unknown_options(view, call)).into_iter().flatten());
            let is_operator = call.op_token.is_some() || !is_name(&call.name);
            if is_operator || engine::LANGUAGE.contains(&&*call.name) {
                problems.extend(named(view, call, position));
                problems.extend(printed(view, call, is_method, position));
            } else if call.namespace.path.is_empty() {
                let is_held = !is_method && held.contains(&*call.name);
                if is_held {
                    problems.extend(held_call(view, call, position));
                } else if !is_method || !view.written.contains(&*call.name) {
                    problems.extend(plain(view, call, is_method, position));
                }
            } else {
                problems.extend(of_module(view, call, position));
            }
        });
    }
    problems
}

fn is_name(name: &str) -> bool {
    name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}

/// Reports the call of a variable that holds a function, `f(2)`; a function of the file or of the host is called.
fn held_call(view: &View<'_>, call: &FnCallExpr, position: Position) -> Option<Diagnostic> {
    let name = &*call.name;
    let is_function = own(view).any(|(own, _)| own == name) || engine::arities(name).is_some();
    (!is_function).then(|| {
        let problem = view.problem(
            Code::UnknownFunction,
            position,
            format!("unknown function `{name}`: it is a variable"),
        );
        problem
            .help(format!("call the function that it holds with `{name}.call(…)`"))
            .because(Cause::HeldFunction)
    })
}

/// Reports `Fn("shout")` for an unknown function.
fn named(view: &View<'_>, call: &FnCallExpr, position: Position) -> Option<Diagnostic> {
    let name = call.args.first().filter(|_| call.name == "Fn").and_then(tree::text)?;
    let is_there = own(view).any(|(own, _)| own == name) || engine::arities(name).is_some();
    (!is_there && is_name(name)).then(|| unknown(view, name, "", position))
}

/// Reports a `print` with more values than allowed.
fn printed(view: &View<'_>, call: &FnCallExpr, is_method: bool, position: Position) -> Option<Diagnostic> {
    let (name, count) = (&*call.name, call.args.len());
    let is_hosts = ["print", "debug"].contains(&name) && !is_method && call.namespace.path.is_empty();
    if !is_hosts || count <= MAX_PRINTED || own(view).any(|(own, takes)| own == name && takes == count) {
        return None;
    }
    let message =
        format!("invalid number of arguments of `{name}`: expected at most {MAX_PRINTED}, got {count}");
    let problem = view.problem(Code::WrongArguments, position, message);
    Some(problem.help(format!("combine them in one text, `{name}(`${{a}} ${{b}}`)`, or write two lines")))
}

/// Reports a call without a module.
fn plain(view: &View<'_>, call: &FnCallExpr, is_method: bool, position: Position) -> Option<Diagnostic> {
    let name = &*call.name;
    let count = call.args.len();
    let mut counts: BTreeSet<usize> =
        own(view).filter(|(own, _)| *own == name).map(|(_, count)| count).collect();
    // In a method call, the receiver is the first argument of the host's function.
    let hosts = engine::arities(name).into_iter().flatten();
    counts.extend(hosts.filter_map(|arity| if is_method { arity.checked_sub(1) } else { Some(*arity) }));
    if counts.contains(&count) || is_method && returns_text(call) {
        return None;
    }
    if counts.is_empty() && (is_method || engine::arities(name).is_none()) {
        return Some(unknown(view, name, if is_method { "." } else { "" }, position));
    }
    Some(wrong_count(view, name, &counts, count, position))
}

fn of_module(view: &View<'_>, call: &FnCallExpr, position: Position) -> Option<Diagnostic> {
    let (module, name, count) = (tree::module_of(call), &*call.name, call.args.len());
    let prefix = format!("{module}::");
    let counts: BTreeSet<usize> = match view.modules.get(&module) {
        Some(offered) => {
            offered.as_ref()?.iter().filter(|(known, _)| known == name).map(|(_, count)| *count).collect()
        }
        None => engine::in_module(&module)?.get(name).cloned().unwrap_or_default(),
    };
    match counts {
        counts if counts.contains(&count) => None,
        counts if counts.is_empty() => Some(unknown(view, name, &prefix, position)),
        counts => Some(wrong_count(view, &format!("{prefix}{name}"), &counts, count, position)),
    }
}

/// Reports options that make the call of a host function fail: `http::get(url, #{ params: … })`.
fn unknown_options(view: &View<'_>, call: &FnCallExpr) -> Vec<Diagnostic> {
    let module = tree::module_of(call);
    let is_own = module.is_empty() && own(view).any(|(name, _)| name == &*call.name);
    if is_own || view.modules.contains_key(&module) {
        return Vec::new();
    }
    let function = if module.is_empty() { call.name.to_string() } else { format!("{module}::{}", call.name) };
    let options = reference::options_of(&function).filter(|options| options.is_closed);
    let Some((options, Some(Expr::Map(map, _)))) =
        options.map(|options| (options, call.args.get(options.at)))
    else {
        return Vec::new();
    };
    let known: Vec<&str> = options.keys().iter().map(|key| key.name).collect();
    let unknown = map.0.iter().filter(|(key, _)| !known.contains(&&*key.name));
    let problems = unknown.map(|(key, _)| {
        let elsewhere = OPTIONS_ELSEWHERE.iter().find(|row| row.0 == &*key.name).map(|row| row.1);
        let near = elsewhere
            .filter(|name| known.contains(name))
            .or_else(|| nearest(&key.name, known.iter().copied()));
        let message = format!("unknown option `{}` of `{function}`", key.name);
        let problem = view.problem(Code::UnknownOption, key.pos, message);
        match near {
            Some(near) => problem.meant(near),
            None => problem.help(format!("the options are {}", known.join(", "))),
        }
    });
    problems.collect()
}

fn own<'a>(view: &'a View<'_>) -> impl Iterator<Item = (&'a str, usize)> {
    let functions = view.functions.iter().filter(|function| !function.is_closure());
    functions.map(|function| (function.name.as_str(), function.params.len()))
}

fn unknown(view: &View<'_>, name: &str, prefix: &str, position: Position) -> Diagnostic {
    let shown = if prefix == "." { format!(".{name}(…)") } else { format!("{prefix}{name}") };
    let problem = view.problem(Code::UnknownFunction, position, format!("unknown function `{shown}`"));
    if let Some(help) = crate::diagnostic::foreign_function(name) {
        let problem = problem.help(help);
        return match crate::diagnostic::foreign_name(name) {
            Some(here) => problem.because(Cause::Name(here.into())),
            None => problem,
        };
    }
    if prefix.is_empty() && engine::in_module(name).is_some() {
        let functions = crate::diagnostic::functions_of_module(name);
        return problem.help(format!("call a function of the module: {functions}"));
    }
    let module = prefix.strip_suffix("::");
    let candidates: Vec<String> = match module {
        Some(module) => match view.modules.get(module) {
            Some(offered) => offered.iter().flatten().map(|(name, _)| name.clone()).collect(),
            None => engine::in_module(module).into_iter().flat_map(|known| known.keys().cloned()).collect(),
        },
        None => {
            own(view).map(|(name, _)| name.to_owned()).chain(engine::names().map(str::to_owned)).collect()
        }
    };
    let near = nearest(name, candidates.iter().map(String::as_str).filter(|name| is_name(name)));
    let elsewhere = || engine::modules_with(name).next().map(|module| format!("{module}::{name}"));
    let help = match (near, module) {
        (Some(near), Some(module)) => return problem.meant(&format!("{module}::{near}")),
        (Some(near), None) => return problem.meant(near),
        (None, Some(module)) => {
            let list: BTreeSet<&str> = candidates.iter().map(String::as_str).collect();
            format!("the functions of `{module}` are {}", list.into_iter().collect::<Vec<_>>().join(", "))
        }
        (None, None) => match elsewhere() {
            Some(there) => format!("call the function in its module: `{there}(…)`"),
            None => {
                "define it in this file, or remove the call; docs/reference.md lists all functions".to_owned()
            }
        },
    };
    problem.help(help)
}

fn wrong_count(
    view: &View<'_>,
    name: &str,
    counts: &BTreeSet<usize>,
    given: usize,
    position: Position,
) -> Diagnostic {
    let takes: Vec<String> = counts.iter().map(ToString::to_string).collect();
    let noun = if takes == ["1"] { "argument" } else { "arguments" };
    let takes = if takes.is_empty() { "a different number of".to_owned() } else { takes.join(" or ") };
    let message = format!("invalid number of arguments of `{name}`: expected {takes} {noun}, got {given}");
    view.problem(Code::WrongArguments, position, message).help(
        match counts.iter().any(|count| *count < given) {
            _ if let Some((.., help)) = ELSEWHERE.iter().find(|row| row.0 == name && row.1 == given) => help,
            true if counts.iter().all(|count| *count < given) => "remove the extra arguments",
            _ => "add the missing arguments",
        },
    )
}

/// Reports the unused functions of a script.
fn unused(view: &View<'_>) -> Vec<Diagnostic> {
    let Some(script) = view.script else { return Vec::new() };
    let mut named: HashSet<String> = view.texts.clone();
    for function in &view.functions {
        tree::each(&function.statements, &mut |node, _| match node {
            // A function that is only called by itself is unused.
            _ if tree::call(node).is_some_and(|(call, ..)| *call.name == *function.name) => {}
            Node::Expr(Expr::Variable(variable, ..)) => {
                named.insert(variable.1.to_string());
            }
            Node::Expr(Expr::DynamicConstant(value, _)) => {
                if let Some(pointer) = value.read_lock::<rhai::FnPtr>() {
                    named.insert(pointer.fn_name().to_owned());
                }
            }
            _ => {
                if let Some((call, ..)) = tree::call(node) {
                    named.insert(call.name.to_string());
                }
            }
        });
    }
    let reported_lines: HashSet<usize> = script.warnings.iter().filter_map(|problem| problem.line).collect();
    let is_idle = |function: &&Body| {
        !function.is_closure()
            && !function.name.starts_with('_')
            && !named.contains(&function.name)
            && !is_called_by_host(&function.name, script.file.kind)
    };
    let problems = view.functions.iter().filter(is_idle).map(|function| {
        let diagnostic =
            Diagnostic::of(Code::UnusedFunction, view.file, format!("unused function `{}`", function.name));
        diagnostic
            .at_function(view.source, &function.name)
            .help(help_for_unused(&function.name, script.file.kind))
    });
    // A line with another problem, such as a misspelled hook, is not reported twice.
    problems.filter(|problem| problem.line.is_none_or(|line| !reported_lines.contains(&line))).collect()
}

fn help_for_unused(name: &str, kind: Kind) -> String {
    if kind == Kind::Tool && ["spec", "schema", "info"].contains(&name) {
        return "declare the arguments of a tool in `const parameters = #{ … };`, and its description in the \
                opening comment".into();
    }
    format!("remove it, or rename it to `_{name}` to keep it")
}

fn is_called_by_host(name: &str, kind: Kind) -> bool {
    let own = match kind {
        Kind::Filter => name == DONE || Callback::from_name(name).is_some(),
        Kind::Tool => ["handler", "tools", "tool_info", "prompts", "resources", "resource"].contains(&name),
        Kind::Action => name == "action",
    };
    own || ["pipe", "pipes", "tick"].contains(&name) || Hook::from_name(name).is_some()
}
