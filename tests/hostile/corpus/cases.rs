//! The cases of the corpus: every registered function and operator of the engine and every language construct
//! that reads or writes a value, each with hostile arguments.

use super::values::{harmless, hostile, is_unreachable, most, prelude};
use std::collections::BTreeSet;
use valvehouse_script_std::reference::{Registration, registrations};

/// The function of a script that makes the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Position {
    Inlet,
    Outlet,
    Stream,
    Handler,
    /// These run while the file is loaded: the tool list of a toolbox and the model list of a pipe.
    Tools,
    Pipes,
}

impl Position {
    pub(in super::super) const ALL: [Self; 6] =
        [Self::Inlet, Self::Outlet, Self::Stream, Self::Handler, Self::Tools, Self::Pipes];

    pub(super) fn is_load(self) -> bool {
        matches!(self, Self::Tools | Self::Pipes)
    }

    pub(super) fn folder(self) -> &'static str {
        if matches!(self, Self::Handler | Self::Tools) { "tools" } else { "filters" }
    }
}

/// One call in one position.
#[derive(Clone, Debug)]
pub(in super::super) struct Case {
    /// The function or language construct that the case tests; it groups the cases into families.
    pub(in super::super) family: String,
    pub(in super::super) position: Position,
    pub(in super::super) code: String,
}

impl Case {
    /// Returns the source of the file. Its last lines replace a large result of the code, because the budget
    /// of a script does not cover the time to send megabytes to a client.
    pub(super) fn text(&self, id: &str) -> String {
        let Self { position, code, .. } = self;
        let code = format!("{}{code}", prelude(code));
        let capabilities = "requirements: kv, llm, tools, files, http, shell, env\nallow_hosts: 127.0.0.1";
        let plain = "let body = #{ messages: [#{ role: \"user\", content: \"x\" }] };";
        match position {
            Position::Inlet => {
                format!(
                    "/*\nglobal: false\n{capabilities}\n*/\nfn inlet(body, state, __metadata__) {{\n    {code}\n    try {{ body.messages[0].content = \"x\"; }} catch {{ }}\n    body\n}}\n"
                )
            }
            Position::Outlet => {
                format!(
                    "/*\nglobal: false\n{capabilities}\n*/\nfn outlet(body, state, __metadata__) {{\n    {code}\n    try {{ body.messages[-1].content = \"x\"; }} catch {{ }}\n    body\n}}\n"
                )
            }
            Position::Stream => format!(
                "/*\nglobal: false\n{capabilities}\n*/\nfn stream(event, state) {{\n    let body = event;\n    {code}\n    #{{ text: \"x\" }}\n}}\n"
            ),
            Position::Handler => {
                format!(
                    "/*\ndescription: d\ntimeout: 1000\n{capabilities}\n*/\nfn handler(args, ctx) {{\n    let body = ctx;\n    {code}\n    \"done\"\n}}\n"
                )
            }
            Position::Tools => {
                format!(
                    "/*\n{capabilities}\n*/\nfn tools() {{\n    {plain}\n    {code}\n    [#{{ name: \"{id}\", description: \"d\", handler: |args| 1 }}]\n}}\n"
                )
            }
            Position::Pipes => {
                format!(
                    "/*\n{capabilities}\n*/\nfn pipes() {{\n    {plain}\n    {code}\n    [\"a\"]\n}}\nfn pipe(body) {{ \"a\" }}\n"
                )
            }
        }
    }
}

/// Statements that use the value `v` without a function call.
const FORMS: &[&str] = &[
    "`${v}`;",
    "`${v}${v}`;",
    "\"\" + v;",
    "v + \"\";",
    "v + v;",
    "let t = \"\"; t += v;",
    "let t = v; t += v;",
    "throw v;",
    "throw #{ message: v };",
    "throw #{ message: \"m\", status: 400, x: v };",
    "try { throw v; } catch (e) { `${e}`; e.message; }",
    "return v;",
    "return #{ messages: v };",
    "return [v, v];",
    "v == v;",
    "let w = v; w == v; w != v; w < v;",
    "v in [v];",
    "[v, v, v].to_string();",
    "switch v { 1 => 2, _ => 3 };",
    "switch [v] { 1 => 2, _ => 3 };",
    "let m = #{}; m[v] = 1;",
    "let m = #{ a: v }; m.to_json();",
    "let m = #{ a: v }; `${m}`;",
    "body.x = v;",
    "body[\"x\"] = v; body.copy() == body;",
    "for x in v { `${x}`; }",
    "for x in v { for y in v { } }",
    "while v { break; }",
    "v.foo;",
    "v.foo(v, v);",
    "v[0];",
    "v[\"x\"];",
    "v[0] = v;",
    "v.x = v;",
    "v?.x ?? v;",
    "let f = || v; f.call();",
    "let f = |x| v; [v, v].map(f).filter(f);",
    "let f = |x, y| x; f.curry(v).curry(v).call();",
    "[v].reduce(|s, x| [s, x, x]);",
    "[v, v, v].sort();",
    "[v, v, v].dedup();",
    "[v].index_of(v);",
    "[[v]].contains([v]);",
    "Fn(v).call(v);",
    "let m = #{ v: v }; let f = || m; m.f = f;",
    "let a = [v]; let f = || a; a.push(f); a.push(|| f);",
    "if v { } else { }",
    "let a = [v]; for i in 0..60 { a = [a, a]; } `${a}`;",
    "let a = []; a.pad(90_000, 0); for i in 0..90_000 { a[i] = v; } a == a; `${a}`;",
    "unknown_function(v);",
];

const VALUES: &[&str] = &[
    "large",
    "quotes",
    "references",
    "keys",
    "deep",
    "cycle",
    "[cycle]",
    "cycle.f",
    "ones",
    "bytes",
    "live_list",
    "live_map",
    "live_text",
    "body",
    "[references, references]",
    "thrown",
];

/// Operators that the interpreter implements itself and that are not in the engine's function table.
const OPERATORS: &[&str] = &[
    "+", "-", "*", "/", "%", "**", "==", "!=", "<", ">", "<=", ">=", "in", "+=", "-=", "<<", "&", "|", "^",
    "&&", "||", "??",
];
const OPERANDS: &[&str] =
    &["1", "\"a\"", "large", "references", "keys", "cycle", "live_list", "live_map", "0..9"];

/// Returns all cases. The cases of a family differ only in their arguments and positions.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let registered = registrations();
    let functions = registered.iter().filter(|one| is_reachable(one));
    for function in functions {
        let family = format!("{}({})", path(function), function.params.join(", "));
        in_places(&mut cases, &family, &calls(function));
    }
    for form in FORMS {
        let calls: Vec<String> = VALUES.iter().map(|value| format!("let v = {value}; {form}")).collect();
        in_places(&mut cases, form, &calls);
    }
    for operator in OPERATORS {
        let pairs = OPERANDS.iter().flat_map(|a| OPERANDS.iter().map(move |b| (a, b)));
        let calls: Vec<String> = pairs.map(|(a, b)| operation(operator, &[a, b])).collect();
        in_places(&mut cases, &format!("any {operator} any"), &calls);
    }
    cases
}

/// Returns the number of functions and operators that the cases cover, and those that no script can call.
pub(super) fn coverage() -> (usize, Vec<Registration>) {
    let registered = registrations();
    let reached = registered.iter().filter(|one| is_reachable(one)).count();
    let of_other_kinds = registered.into_iter().filter(|one| {
        !is_reachable(one) && !one.params.iter().any(|kind| is_unreachable(kind)) && !is_no_call(one)
    });
    (reached, of_other_kinds.collect())
}

/// Adds all calls in `inlet`, and in each other position a different fifth of them.
fn in_places(cases: &mut Vec<Case>, family: &str, calls: &[String]) {
    for (place, position) in Position::ALL.into_iter().enumerate() {
        for (at, code) in calls.iter().enumerate() {
            if place > 0 && at % 5 != place - 1 && calls.len() > 5 || is_out_of_place(position, code) {
                continue;
            }
            cases.push(Case { family: family.to_owned(), position, code: code.clone() });
        }
    }
}

/// Returns `true` if the code needs the messages of a body and the position has none.
fn is_out_of_place(position: Position, code: &str) -> bool {
    let is_of_messages = code.contains("body.messages") || code.contains("body.texts");
    is_of_messages && !matches!(position, Position::Inlet | Position::Outlet)
}

fn is_reachable(function: &Registration) -> bool {
    !is_no_call(function) && function.params.iter().all(|kind| hostile(kind).is_some())
}

/// Returns `true` for functions that must not be called: disabled ones and closures.
fn is_no_call(function: &Registration) -> bool {
    ["eval", "sleep"].contains(&&*function.name) || function.name.starts_with("anon$")
}

fn path(function: &Registration) -> String {
    let Registration { module, name, .. } = function;
    if module.is_empty() { name.clone() } else { format!("{module}::{name}") }
}

/// Returns calls with one hostile argument at each place, next to harmless and next to hostile ones, and a
/// call with the most hostile argument at every place.
fn calls(function: &Registration) -> Vec<String> {
    let kinds: Vec<&str> = function.params.iter().map(String::as_str).collect();
    let mut calls = BTreeSet::new();
    for (at, kind) in kinds.iter().enumerate() {
        for value in hostile(kind).unwrap_or_default() {
            for others in [harmless as fn(&str) -> &'static str, most] {
                let mut arguments: Vec<&str> = kinds.iter().map(|kind| others(kind)).collect();
                arguments[at] = value;
                calls.insert(call(function, &arguments));
            }
        }
    }
    let most: Vec<&str> = kinds.iter().map(|kind| most(kind)).collect();
    calls.insert(call(function, &most));
    // The same value twice.
    if let [first, second, ..] = kinds[..]
        && hostile(first) == hostile(second)
    {
        for value in hostile(first).unwrap_or_default() {
            let mut arguments = most.clone();
            (arguments[0], arguments[1]) = (value, value);
            calls.insert(call(function, &arguments));
        }
    }
    calls.into_iter().collect()
}

fn call(function: &Registration, arguments: &[&str]) -> String {
    let Registration { module, name, .. } = function;
    let first = || format!("let x = {};", arguments.first().unwrap_or(&"()"));
    if let Some(word) = name.strip_prefix("get$") {
        format!("{} x.{word};", first())
    } else if let Some(word) = name.strip_prefix("set$") {
        format!("{} x.{word} = {};", first(), arguments.get(1).unwrap_or(&"1"))
    } else if name == "index$get$" {
        format!("{} x[{}];", first(), arguments[1])
    } else if name == "index$set$" {
        format!("{} x[{}] = {};", first(), arguments[1], arguments[2])
    } else if !name.starts_with(|letter: char| letter.is_alphabetic() || letter == '_') {
        operation(name, arguments)
    } else if !module.is_empty() || arguments.is_empty() || arguments[0].starts_with('|') {
        format!("{}({});", path(function), arguments.join(", "))
    } else {
        format!("{} x.{name}({});", first(), arguments[1..].join(", "))
    }
}

/// Puts the operands into variables, because the parser folds operations on constants.
fn operation(operator: &str, operands: &[&str]) -> String {
    // The engine knows the operators `or` and `and` by these names.
    let operator = match operator {
        "||or" => "or",
        "&&and" => "and",
        other => other,
    };
    match operands {
        [a] => format!("let x = {a}; {operator}x;"),
        [a, b] => format!("let x = {a}; let y = {b}; x {operator} y;"),
        _ => String::new(),
    }
}
