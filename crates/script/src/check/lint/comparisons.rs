//! Reports comparisons of values whose kinds never match, and conditions that are not bools.

use super::rule::{Rule, rules};
use super::tree::{self, Link, Node, View};
use crate::diagnostic::{Code, Diagnostic};
use rhai::{Expr, INT, Position};
use std::collections::{BTreeSet, HashSet};
use valvehouse_dialect::instrument::{Kinds, KnownFunctions, OperandKind};
use valvehouse_dialect::value::Type;
use valvehouse_json::Json;
use valvehouse_script_std::reference;

rules! {
    /// V615 an operation on types that do not fit
    ///
    /// `<`, `<=`, `>` and `>=` compare two numbers or two strings. Values without an order, such as a number and a string, or a
    /// missing value, make the call fail at run time. `==` between different types is never true. If the two read the same, such
    /// as `5` and `"5"` or `true` and `"true"`, a guard rejects the request with status 422, or fails after the answer, instead
    /// of passing it; other scripts log a warning with the line. So do `in`, `contains`, `index_of` and `switch`, and lists and
    /// maps that differ in nothing else. A guard that expects either type compares both: `x == 5 || x == "5"`. `*`, `/` and `%` do not take strings, and `append` joins two lists:
    /// `push` adds one element.
    ///
    /// Wrong:
    /// ```rhai
    /// const Valves = #{ most: "40" };
    /// fn inlet(body, valves) {
    ///     if body.messages.len() > valves.most {
    ///         throw "too long";
    ///     }
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// const Valves = #{ most: 40 };
    /// fn inlet(body, valves) {
    ///     if body.messages.len() > valves.most {
    ///         throw "too long";
    ///     }
    ///     body
    /// }
    /// ```
    ForeignKinds { find: foreign_kinds }

    /// V616 a time limit of a few milliseconds
    ///
    /// `timeout` is in milliseconds everywhere: `timeout: 2` ends the call before any service can answer.
    ///
    /// Wrong:
    /// ```rhai
    /// /*
    /// requirements: http
    /// allow_hosts: example.com
    /// */
    /// fn inlet(body) {
    ///     body.news = http::get("https://example.com/news", #{ timeout: 2 }).text;
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// requirements: http
    /// allow_hosts: example.com
    /// */
    /// fn inlet(body) {
    ///     body.news = http::get("https://example.com/news", #{ timeout: 2_000 }).text;
    ///     body
    /// }
    /// ```
    ShortTimeout { find: |view| view.in_nodes(|node, _| short_timeout(view, node)) }
}

/// The least time limit, in milliseconds, that is not taken for one in seconds.
const SHORTEST: INT = 100;

/// Reports operations on values whose types do not fit.
fn foreign_kinds(view: &View<'_>) -> Vec<Diagnostic> {
    let none = Json::object();
    let valves = view.script.map_or(&none, |script| &script.valves);
    let users = view.manifest().and_then(|manifest| manifest.user_valves.as_ref()).map(|schema| {
        let fields = schema.fields().iter();
        Json::Object(fields.map(|field| (field.name.as_str().into(), field.default_value())).collect())
    });
    let own: HashSet<String> = view.functions.iter().map(|function| function.name.clone()).collect();
    let known = KnownFunctions { own: &own, booleans: reference::boolean_functions() };
    let mut problems = Vec::new();
    for function in &view.functions {
        let params: Vec<&str> = function.params.iter().map(String::as_str).collect();
        let kinds =
            Kinds::in_body(&function.name, &params, &function.statements, valves, users.as_ref(), known);
        tree::each(&function.statements, &mut |node, _| {
            problems.extend(foreign_member(view, &kinds, node));
            problems.extend(of_parts(view, node));
            problems.extend(group_of_python(view, node));
            let Some((call, false, position)) = tree::call(node) else { return };
            let [first, second] = call.args.as_slice() else { return };
            if call.op_token.is_none() {
                return;
            }
            problems.extend(text_arithmetic(
                view,
                &call.name,
                kinds.kind_of(first),
                kinds.kind_of(second),
                position,
            ));
            let (Some(first), Some(second)) = (kinds.kind_of(first), kinds.kind_of(second)) else { return };
            let names = format!("{} with {}", first.as_str(), second.as_str());
            let message = match call.name.as_str() {
                "<" | "<=" | ">" | ">=" if first == OperandKind::Boolean && is_comparison(&call.args[0]) => {
                    let message = "a comparison has two sides; the call fails here";
                    let problem = view.problem(Code::ForeignKinds, position, message);
                    problems.push(problem.help("write `a < b && b < c` for `a < b < c`"));
                    return;
                }
                "<" | "<=" | ">" | ">=" if first != second || !first.is_ordered() => {
                    format!(
                        "cannot compare {names} by `{}`: the two types have no order; the call fails here",
                        call.name
                    )
                }
                // A comparison with `()` is the way to detect a missing value.
                "==" if first != second && ![first, second].contains(&OperandKind::Unit) => {
                    format!("`==` of {names} is always false")
                }
                "!=" if first != second && ![first, second].contains(&OperandKind::Unit) => {
                    format!("`!=` of {names} is always true")
                }
                _ => return,
            };
            let problem = view.problem(Code::ForeignKinds, position, message);
            problems.push(
                problem.help("convert one of the values first: `parse_int(text)`, `value.to_string()`"),
            );
        });
    }
    problems
}

fn is_comparison(operand: &Expr) -> bool {
    matches!(operand, Expr::FnCall(call, _) if ["<", "<=", ">", ">="].contains(&&*call.name))
}

/// Reports texts that a list of texts or parts never equals: `message.content == "…"` in a guard, which a client
/// passes by sending the content as a list of parts, and `body.texts.contains("…")`.
fn of_parts(view: &View<'_>, node: Node<'_>) -> Option<Diagnostic> {
    const SEARCHES: [&str; 2] = ["contains", "index_of"];
    let is_guard = view.manifest().is_some_and(|manifest| manifest.security);
    let ends_with = |operand: &Expr, name: &str| match tree::chain(operand).1.last() {
        Some(Link::Property(property, _)) => *property == name,
        _ => false,
    };
    let (name, position, is_texts) = match node {
        Node::Expr(chain @ Expr::Dot(_, _, position)) => {
            let links = tree::chain(chain).1;
            let found = links.windows(2).find_map(|pair| match pair {
                [Link::Property(property, _), Link::Call(call)] if SEARCHES.contains(&&*call.name) => {
                    Some((*property, call.name.to_string()))
                }
                _ => None,
            });
            let (property, name) = found?;
            (
                name,
                *position,
                match property {
                    "texts" => true,
                    "content" if is_guard => false,
                    _ => return None,
                },
            )
        }
        node => {
            let (call, false, position) = tree::call(node)? else { return None };
            let [first, second] = call.args.as_slice() else { return None };
            let is_text = |operand: &Expr| tree::text(operand).is_some_and(|text| !text.is_empty());
            match call.name.as_str() {
                "contains" if ends_with(first, "texts") => ("in".to_owned(), position, true),
                "contains" if is_guard && ends_with(first, "content") => ("in".to_owned(), position, false),
                "==" | "!="
                    if is_guard
                        && call.op_token.is_some()
                        && (ends_with(first, "content") && is_text(second)
                            || ends_with(second, "content") && is_text(first)) =>
                {
                    (call.name.to_string(), position, false)
                }
                _ => return None,
            }
        }
    };
    Some(match is_texts {
        true => view
            .problem(
                Code::ForeignKinds,
                position,
                format!("`{name}` finds only entire texts in a list of texts"),
            )
            .help("search in each text: `body.texts.some(|place| place.text.contains(\"…\"))`"),
        false => {
            let outcome = match name.as_str() {
                "==" | "!=" => "and is then never equal to a text",
                _ => "for which the call fails here",
            };
            let message = format!("`{name}` of `content`, which may be a list of parts {outcome}");
            view.problem(Code::ForeignKinds, position, message)
                .help("use `.text`, which is the text in either case")
        }
    })
}

/// Reports `"Hello %s" % name`: texts have neither operator.
fn text_arithmetic(
    view: &View<'_>,
    operator: &str,
    first: Option<OperandKind>,
    second: Option<OperandKind>,
    position: Position,
) -> Option<Diagnostic> {
    let has_text = first == Some(OperandKind::Text) || second == Some(OperandKind::Text) && first.is_some();
    let help = match operator {
        "%" => "use backticks for a text with values: `Hello ${name}`",
        "/" => "convert the text first: `parse_int(text)`",
        _ => return None,
    };
    let message = format!("cannot apply `{operator}` to a string; the call fails here");
    has_text.then(|| view.problem(Code::ForeignKinds, position, message).help(help))
}

/// Reports properties and methods of other languages that texts and lists do not have: `text.length`,
/// `list.count(1)`.
fn foreign_member(view: &View<'_>, kinds: &Kinds<'_>, node: Node<'_>) -> Option<Diagnostic> {
    let of_others = || match node {
        Node::Expr(chain @ Expr::Dot(..)) => method_of_others(view, kinds, chain),
        _ => None,
    };
    let of_form = || foreign_form(view, node);
    of_known_kind(view, kinds, node)
        .or_else(of_others)
        .or_else(of_form)
        .or_else(|| foreign_property(view, node))
}

/// Reports `regex::replace(text, pattern, "\\1")`: groups are `$1`.
fn group_of_python(view: &View<'_>, node: Node<'_>) -> Option<Diagnostic> {
    let (call, false, _) = tree::call(node)? else { return None };
    let [_, _, Expr::StringConstant(text, position)] = &call.args[..] else { return None };
    let is_replace = tree::module_of(call) == "regex" && &*call.name == "replace";
    let at = text.find('\\').filter(|_| is_replace)?;
    let digit = text[at + 1..].chars().next().filter(char::is_ascii_digit)?;
    let message = format!("`\\{digit}` is not a group of the pattern");
    Some(view.problem(Code::ForeignKinds, *position, message).help(format!("write `${digit}`")))
}

/// Reports `timeout: 2`, which is meant in seconds.
fn short_timeout(view: &View<'_>, node: Node<'_>) -> Option<Diagnostic> {
    let (call, false, _) = tree::call(node)? else { return None };
    let options = call.args.iter().filter_map(|argument| match argument {
        Expr::Map(options, _) => Some(&options.0),
        _ => None,
    });
    let (_, value) = options.flatten().find(|(key, _)| key.name == "timeout")?;
    let (given, position) = match value {
        Expr::IntegerConstant(given @ 1..SHORTEST, position) => (given.to_string(), *position),
        Expr::FloatConstant(given, position) => (given.to_string(), *position),
        _ => return None,
    };
    let message = format!("`timeout` is in milliseconds; {given} is hardly long enough for an answer");
    Some(view.problem(Code::ShortTimeout, position, message).help("2 seconds are `timeout: 2_000`"))
}

/// Reports `text.split("=", 1)`, which means something else in Python.
fn foreign_form(view: &View<'_>, node: Node<'_>) -> Option<Diagnostic> {
    let Node::Expr(Expr::MethodCall(call, position)) = node else { return None };
    let [_, Expr::IntegerConstant(1, _)] = &call.args[..] else { return None };
    let message = "`split` into at most 1 part returns the whole text";
    (call.name == "split").then(|| {
        let problem = view.problem(Code::ForeignKinds, *position, message);
        problem.help("the number is that of the parts: write 2 to split once")
    })
}

/// Reports methods that exist, but not for a value of this kind: `[1, 2].tail(1)`.
fn method_of_others(view: &View<'_>, kinds: &Kinds<'_>, chain: &Expr) -> Option<Diagnostic> {
    let (root, links) = tree::chain(chain);
    let Some(Link::Call(call)) = links.first() else { return None };
    let kind = kinds.kind_of(root)?;
    if kind == OperandKind::Map
        || kind == OperandKind::Unit
        || view.functions.iter().any(|own| own.name == *call.name)
    {
        return None;
    }
    // A part of a text is taken like that of a list.
    if kind == OperandKind::Text && call.name == "extract" {
        return None;
    }
    let named = reference::functions().iter().filter(|one| one.module.is_empty() && one.name == *call.name);
    let receivers: Vec<Type> = named.filter_map(|one| Some(one.params.first()?.kind)).collect();
    let takes = |of: &Type| match of {
        Type::Text => kind == OperandKind::Text,
        Type::Number | Type::Integer => kind == OperandKind::Number,
        Type::Boolean => kind == OperandKind::Boolean,
        Type::Array | Type::ListOf(_) => kind == OperandKind::Array,
        Type::Nothing
        | Type::Map
        | Type::Closure
        | Type::Range
        | Type::Blob
        | Type::Instant
        | Type::Handle(_) => false,
        Type::Any => true,
    };
    if receivers.is_empty() || receivers.iter().any(takes) {
        return None;
    }
    let message = format!("unknown method `{}` of {}; the run fails here", call.name, kind.as_str());
    let problem = view.problem(Code::ForeignKinds, root.position(), message);
    Some(problem.help(match crate::diagnostic::foreign_function(&call.name) {
        Some(help) => help.to_owned(),
        None => {
            let of: BTreeSet<String> = receivers.iter().map(|of| format!("`{}`", of.name())).collect();
            format!("it is a method of {}", of.into_iter().collect::<Vec<_>>().join(", "))
        }
    }))
}

fn of_known_kind(view: &View<'_>, kinds: &Kinds<'_>, node: Node<'_>) -> Option<Diagnostic> {
    let Node::Expr(chain @ Expr::Dot(..)) = node else { return None };
    let (root, links) = tree::chain(chain);
    // A part of any other value may have a key of this name.
    let is_of_host = tree::variable(root).is_some_and(|name| ["body", "event", "ctx"].contains(&name));
    let kind = match &links[..] {
        [_] => kinds.kind_of(root)?,
        _ if !is_of_host => return None,
        [.., Link::Property("messages" | "tools", _), _] => OperandKind::Array,
        [.., Link::Property("text" | "model" | "role", _), _] => OperandKind::Text,
        _ => return None,
    };
    let (name, position) = match links.last()? {
        Link::Property(name @ ("length" | "size" | "count"), position) => (*name, *position),
        Link::Call(call)
            if &*call.name == "count"
                && call.args.len() == 1
                && links.len() == 1
                && kind == OperandKind::Array =>
        {
            ("count", root.position())
        }
        Link::Call(call) if &*call.name == "remove" && kind == OperandKind::Array => {
            let is_text =
                call.args.first().is_some_and(|text| kinds.kind_of(text) == Some(OperandKind::Text));
            ("remove", is_text.then(|| root.position())?)
        }
        _ => return None,
    };
    if ![OperandKind::Text, OperandKind::Array].contains(&kind) {
        return None;
    }
    let what = if matches!(links.last(), Some(Link::Call(_))) { "method" } else { "property" };
    let message = match name {
        "remove" => "`remove` expects an index, got a string; the call fails here".to_owned(),
        _ => format!("unknown {what} `{name}` of {}; the run fails here", kind.as_str()),
    };
    let help = crate::diagnostic::foreign_function(name)?;
    Some(view.problem(Code::ForeignKinds, position, message).help(help))
}

/// Properties that only values of other languages have.
const FOREIGN: [&str; 3] = ["length", "status_code", "statusCode"];

/// Reports properties that only values of other languages have, unless the script has a key of this name.
fn foreign_property(view: &View<'_>, node: Node<'_>) -> Option<Diagnostic> {
    let Node::Expr(chain @ (Expr::Dot(..) | Expr::Index(..))) = node else { return None };
    let (_, links) = tree::chain(chain);
    let (name, position) = links.iter().find_map(|link| match link {
        Link::Property(name, position) if FOREIGN.contains(name) => Some((*name, *position)),
        _ => None,
    })?;
    let help = crate::diagnostic::foreign_function(name)?;
    let is_key = view.written.contains(name) || view.texts.contains(name);
    (!is_key).then(|| {
        let problem =
            view.problem(Code::UnknownProperty, position, format!("unknown key `{name}`: nothing sets it"));
        problem.help(format!("{help}; a key of this name is `value[\"{name}\"]`"))
    })
}
