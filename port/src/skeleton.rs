//! The test of a draft: for each hook or tool a call on which it does something.
//!
//! A draft does not tell which calls its plugin reacts to. Many calls are tried on the draft, and on a script whose
//! functions do nothing: the first one that only the draft passes becomes the test. Without one, the test is left to the
//! author, and fails.

use crate::plugin::Plugin;
use crate::python::{Expr, ExprKind, Function, ParamKind};
use crate::schema::Schema;
use crate::value::Value;
use crate::valves::Valve;
use std::collections::BTreeSet;

/// The tests that are tried of a hook or a tool, in the order of their worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trials {
    /// The name of the hook or the tool.
    pub name: String,
    /// The statements of each test.
    pub bodies: Vec<String>,
}

/// The maximum number of calls that are tried of a hook.
const MAX_CALLS: usize = 24;

/// The texts of a plugin that are tried as messages: the maximum number, and the maximum length of each.
const MAX_TEXTS: usize = 16;
const MAX_TEXT: usize = 200;

/// Returns the tests to try of each hook and tool.
pub(crate) fn trials(
    plugin: &Plugin<'_>,
    tools: &[&Function],
    valves: &[Valve],
    capabilities: &BTreeSet<&'static str>,
    hooks: &[&str],
) -> Vec<Trials> {
    let mut canned = String::new();
    if capabilities.contains("http") {
        canned.push_str("canned::http(\"*\", #{ json: #{} });\n");
    }
    if capabilities.contains("llm") {
        canned.push_str("canned::model(\"An answer\");\n");
    }
    let takes_user = |function: &&Function| function.params.iter().any(|param| param.name == "__user__");
    if plugin.user_valves.is_some() || plugin.methods.values().any(takes_user) {
        canned.push_str("turn(#{ user: #{ id: \"ann\", name: \"Ann\", role: \"user\" } });\n");
    }
    let before: Vec<String> = settings(valves).into_iter().map(|line| format!("{line}{canned}")).collect();
    let mut all = Vec::new();
    for hook in hooks.iter().filter(|hook| **hook != "pipes") {
        let calls = calls(plugin, hook, &texts(plugin, hook));
        let calls =
            before.iter().flat_map(|before| calls.iter().map(move |call| (before.as_str(), call.as_str())));
        let calls: Vec<(&str, &str)> = calls.take(MAX_CALLS).collect();
        all.push(Trials { name: (*hook).to_owned(), bodies: bodies(hook, &calls) });
    }
    for tool in tools {
        let args = arguments(plugin, tool);
        let call = match tools.len() {
            1 => format!("invoke({args})"),
            _ => format!("invoke(\"{}\", {args})", tool.name),
        };
        let calls: Vec<(&str, &str)> = before.iter().map(|before| (before.as_str(), call.as_str())).collect();
        all.push(Trials { name: tool.name.clone(), bodies: bodies("tool", &calls) });
    }
    all
}

/// Returns a file of tests: for each trial the chosen body, or one that fails until the author has written it.
pub(crate) fn test(id: &str, trials: &[Trials], chosen: &[Option<usize>]) -> String {
    let mut out = format!(
        "// Run with: valvehouse test {id}\n// A starting point: replace these with tests of the plugin's behavior.\n"
    );
    for (at, trial) in trials.iter().enumerate() {
        let body = chosen.get(at).copied().flatten().and_then(|place| trial.bodies.get(place));
        let (name, body) = match body {
            Some(body) => (format!("test_{}", named(&trial.name)), body.clone()),
            None => (
                format!("test_{}_is_to_be_written", named(&trial.name)),
                format!(
                    "// TODO a call on which `{0}` does something, and what comes of it\nfail(\"write a test of `{0}`\");\n",
                    trial.name
                ),
            ),
        };
        out.push_str(&format!("\nfn {name}() {{\n{}}}\n", indented(&body)));
    }
    if trials.is_empty() {
        out.push_str("\nfn test_a_hook_is_to_be_written() {\n    fail(\"the script has no hook yet\");\n}\n");
    }
    out
}

/// The maximum number of tests in a file: a script may have some hundreds of functions.
const MAX_TESTS: usize = 200;

/// Returns files with all tests that are tried; the name of each has the places of its trial and its body.
pub(crate) fn tried(trials: &[Trials]) -> Vec<String> {
    let mut files = Vec::new();
    let mut count = 0;
    let mut out = String::new();
    for (at, trial) in trials.iter().enumerate() {
        if count + trial.bodies.len() > MAX_TESTS && count > 0 {
            files.push(std::mem::take(&mut out));
            count = 0;
        }
        count += trial.bodies.len();
        for (place, body) in trial.bodies.iter().enumerate() {
            out.push_str(&format!("fn test_{at}_{place}() {{\n{}}}\n", indented(body)));
        }
    }
    files.push(out);
    files
}

fn named(name: &str) -> String {
    crate::names::variable(name).to_lowercase()
}

fn indented(body: &str) -> String {
    body.lines().map(|line| format!("    {line}\n")).collect()
}

/// Returns the settings under which hooks are called: those of the plugin, then strict limits, then switched ones.
fn settings(valves: &[Valve]) -> Vec<String> {
    let set = |of: &dyn Fn(&Valve) -> Option<String>| {
        let entries: Vec<String> = valves
            .iter()
            .filter(|valve| valve.name != "priority")
            .filter_map(|valve| Some(format!("{}: {}", crate::names::key(&valve.name), of(valve)?)))
            .collect();
        (!entries.is_empty()).then(|| format!("valves(#{{ {} }});\n", entries.join(", ")))
    };
    let limits = set(&|valve| match &valve.value {
        Some(Value::Int(_)) => Some(valve.minimum.clone().unwrap_or_else(|| "1".to_owned())),
        _ => None,
    });
    let switched = set(&|valve| match &valve.value {
        Some(Value::Bool(value)) => Some((!value).to_string()),
        _ => None,
    });
    [Some(String::new()), limits, switched].into_iter().flatten().collect()
}

/// Returns texts that a hook may react to: a greeting, the texts in its code, and a long one.
fn texts(plugin: &Plugin<'_>, hook: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |text: &str| {
        let is_new =
            !text.trim().is_empty() && text.len() <= MAX_TEXT && !found.iter().any(|one| one == text);
        if is_new && found.len() < MAX_TEXTS {
            found.push(text.to_owned());
        }
    };
    let name = if hook == "pre_chat" { "request" } else { hook };
    // Those of the hook itself come first.
    let own = plugin.methods.get(name).into_iter();
    for function in own.chain(plugin.methods.values()).chain(plugin.functions.values()) {
        for stmt in &function.body {
            stmt.walk(&mut |stmt| {
                stmt.expressions(&mut |expr| {
                    expr.walk(&mut |inner| match &inner.kind {
                        ExprKind::Compare(first, others) => {
                            let all = std::iter::once(&**first).chain(others.iter().map(|(_, other)| other));
                            all.filter_map(Expr::as_text).for_each(&mut add);
                        }
                        ExprKind::Call(of, args) if matches!(&of.kind, ExprKind::Attribute(..)) => {
                            args.iter().filter_map(|arg| arg.value.as_text()).for_each(&mut add);
                        }
                        ExprKind::Name(name) => {
                            if let Some(Value::List(all)) = plugin.constants.get(name) {
                                all.iter().take(3).for_each(|one| {
                                    if let Value::Text(text) = one {
                                        add(text);
                                    }
                                });
                            }
                        }
                        _ => {}
                    });
                });
            });
        }
    }
    found.insert(0, "hello".to_owned());
    found
}

/// Returns the calls of a hook to try; `BODY` of `inlet` and `outlet` stands for their argument.
fn calls(plugin: &Plugin<'_>, hook: &str, texts: &[String]) -> Vec<String> {
    let quoted = texts.iter().map(|text| Value::Text(text.clone()).code());
    let long = "\"word \".repeat(400)";
    match hook {
        "inlet" => {
            let talk = ["conversation([\"hello\", \"An answer\", \"and more\"])".to_owned()];
            let many = (0..12).map(|_| "\"hello\", \"An answer\", ").collect::<String>() + "\"bye\"";
            quoted
                .map(|text| format!("conversation([{text}])"))
                .chain(talk)
                .chain([format!("conversation([{many}])"), format!("conversation([{long}])")])
                .collect()
        }
        "outlet" => quoted.map(|text| format!("conversation([\"hello\", {text}])")).collect(),
        "stream" => quoted.map(|text| format!("[\"An \", {text}]")).collect(),
        "pre_chat" => {
            quoted.map(|text| format!("#{{ messages: conversation([{text}]).messages }}")).collect()
        }
        "action" => {
            let button = button(plugin);
            quoted.map(|text| format!("action({text}{button})")).collect()
        }
        _ => quoted.map(|text| format!("chat({text})")).collect(),
    }
}

/// Returns the id of the first button, as an argument.
fn button(plugin: &Plugin<'_>) -> String {
    let buttons = plugin.initial.get("actions").and_then(|list| Value::of(list, &plugin.constants));
    let Some(Value::List(all)) = &buttons else { return String::new() };
    let Some(Value::Map(fields)) = all.first() else { return String::new() };
    let id = fields.iter().find(|(name, _)| name == "id");
    id.map_or_else(String::new, |(_, id)| format!(", {}", id.code()))
}

/// Returns the tests of all calls: first what they make, then what they refuse, and last what they tell and ask.
fn bodies(hook: &str, calls: &[(&str, &str)]) -> Vec<String> {
    let of_calls: Vec<Vec<String>> =
        calls.iter().map(|(before, call)| bodies_of(hook, before, call)).collect();
    let kinds = of_calls.first().map_or(0, Vec::len);
    (0..kinds).flat_map(|kind| of_calls.iter().filter_map(move |all| all.get(kind)).cloned()).collect()
}

/// Returns the tests of one call.
fn bodies_of(hook: &str, before: &str, call: &str) -> Vec<String> {
    let (first, does, result) = match hook {
        "inlet" | "outlet" | "pre_chat" => {
            let subject = if hook == "pre_chat" { "ctx" } else { "body" };
            let call_of = format!("{hook}({subject})");
            (
                format!("let {subject} = {call};\n"),
                call_of.clone(),
                format!("assert_ne({call_of}, {subject});\n"),
            )
        }
        "stream" => {
            let sent = format!("stream({call})");
            (
                String::new(),
                sent.clone(),
                format!("let parts = {call};\nassert_ne(stream(parts).text, text::join(parts, \"\"));\n"),
            )
        }
        "pipe" => (String::new(), call.to_owned(), format!("assert({call}.text != \"\");\n")),
        _ => (String::new(), call.to_owned(), format!("assert({call} != ());\n")),
    };
    let observed = ["seen::events()", "seen::http()", "seen::model()", "seen::log()"];
    let refused = format!("let refused = throws(|| {does});\nassert_ne(refused.status, 500);\n");
    let tells = observed.map(|seen| format!("{does};\nassert({seen}.len() > 0);\n"));
    let unfinished = "assert(!refused.message.contains(\"not ported yet\"));\n";
    [result, refused + unfinished]
        .into_iter()
        .chain(tells)
        .map(|then| format!("{before}{first}{then}"))
        .collect()
}

/// Returns the arguments of a tool, as a map.
fn arguments(plugin: &Plugin<'_>, tool: &Function) -> String {
    let args: Vec<String> = tool
        .params
        .iter()
        .skip(1)
        .filter_map(|param| {
            if param.name.starts_with("__") || param.default.is_some() || param.kind != ParamKind::Plain {
                return None;
            }
            let schema =
                param.annotation.as_ref().map(|one| Schema::of(one, &plugin.constants)).unwrap_or_default();
            let value = match (schema.choices.first(), schema.kind) {
                (Some(value), _) => value.code(),
                (None, Some("integer")) => "1".to_owned(),
                (None, Some("number")) => "1.0".to_owned(),
                (None, Some("boolean")) => "true".to_owned(),
                (None, Some("array")) => "[]".to_owned(),
                (None, Some("object")) => "#{}".to_owned(),
                _ => Value::Text(param.name.replace('_', " ")).code(),
            };
            Some(format!("{}: {value}", crate::names::key(&param.name)))
        })
        .collect();
    match args.is_empty() {
        true => "#{}".to_owned(),
        false => format!("#{{ {} }}", args.join(", ")),
    }
}

/// Returns the functions of a script, of which the named ones do nothing.
pub(crate) fn idle(functions: &[String], names: &BTreeSet<String>) -> Vec<String> {
    let body_off = |function: &String| {
        let head = function.split_once(" {").map_or(function.as_str(), |(head, _)| head);
        let name = head.strip_prefix("fn ").and_then(|rest| rest.split('(').next());
        match name {
            Some(name) if names.contains(name) => format!("{head} {{}}"),
            _ => function.clone(),
        }
    };
    functions.iter().map(body_off).collect()
}
