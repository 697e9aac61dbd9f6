//! Reports misspelled properties of the host's values. These values are open maps, so an unknown key is valid; one
//! that is almost a known key is probably a mistake.

use super::rule::{Rule, rules};
use super::tree::{self, Body, Link, Node, View};
use crate::diagnostic::{Code, Diagnostic};
use rhai::{Expr, Position, Stmt};
use std::cell::LazyCell;
use std::collections::{BTreeMap, HashSet};
use valvehouse_core::filter::Hook;
use valvehouse_core::text::nearest;
use valvehouse_dialect::value::{Misspelt, Shape};
use valvehouse_script_std::reference::{self, Form};

rules! {
    /// V505 a misspelled property
    ///
    /// A missing key of the host's values reads as `()`. This name is similar to an existing key, and nothing in the file sets
    /// it; or the file sets it and never reads it. A guard that writes such a new key fails at run time, since the change would
    /// be lost; other scripts log a warning with the line. Properties that only values of other languages have, such as `.length`
    /// and `.status_code`, are reported too, unless the file has a key of this name; read such a key as `value["length"]`. So
    /// are keys that are elsewhere in this hook, such as `body.usage` in `outlet`: the tokens are in `body.messages[-1].usage`.
    ///
    /// Wrong:
    /// ```rhai
    /// fn stream(event) {
    ///     event.text = event.txet + "!";
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn stream(event) {
    ///     event.text = event.text + "!";
    /// }
    /// ```
    UnknownProperty { find: misnamed }
}

/// The length from which a singular such as `max_token` is a mistake for `max_tokens` and not another key.
const MIN_SINGULAR: usize = 9;

/// A kind of the host's values.
#[derive(Clone, Copy, PartialEq)]
enum Handle {
    Body,
    Messages,
    Message,
    Event,
    Ctx,
    /// `ctx` in `post_chat`, whose result is an answer.
    AnsweredCtx,
    Answer,
    User,
    Model,
    Request,
    /// The turn's map, in which scripts keep values of their own.
    Metadata,
}

impl Handle {
    /// Returns its name in the reference, and additional keys that providers or clients use.
    const fn named(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Body => ("body", &["seed"]),
            Self::Messages => ("messages", &["len", "is_empty"]),
            Self::Message => ("message", &["id"]),
            Self::Event => ("event", &["delta", "error", "event", "role"]),
            Self::Ctx | Self::AnsweredCtx => (
                "ctx",
                &[
                    "filters",
                    "history",
                    "iteration",
                    "name",
                    "options",
                    "state",
                    "text",
                    "tool_name",
                    "tools",
                    "trace",
                    "usage",
                    "valves",
                    "variables",
                ],
            ),
            Self::Answer => {
                ("result", &["annotations", "audio", "logprobs", "reasoning", "reasoning_content", "refusal"])
            }
            Self::User => ("__user__", &["profile_image_url", "timezone"]),
            Self::Model => ("__model__", &["info"]),
            Self::Request => ("__request__", &["cookies", "ip", "query", "state", "url"]),
            Self::Metadata => (
                "__metadata__",
                &[
                    "chat_id",
                    "message_id",
                    "session_id",
                    "variables",
                    "features",
                    "files",
                    "tool_ids",
                    "tool_servers",
                    "filter_ids",
                    "user_id",
                    "user_message_id",
                    "parent_message_id",
                    "interface",
                    "function_calling",
                ],
            ),
        }
    }

    /// Returns the length from which a written key that is almost a known one is a mistake. Requests have many
    /// keys.
    const fn min_written(self) -> usize {
        match self {
            Self::Event | Self::Message | Self::Answer => 3,
            Self::Metadata => usize::MAX,
            Self::Body => 5,
            _ => 6,
        }
    }

    /// Returns its keys and properties, without methods.
    fn words(self) -> impl Iterator<Item = &'static str> {
        let (name, others) = self.named();
        let known = reference::handle(name).map_or(&[][..], |handle| &handle.words);
        let known = known.iter().filter(|word| !matches!(word.form, Form::Method(_)));
        known.map(|word| word.name.as_str()).chain(others.iter().copied())
    }

    /// Returns the kind of the value under a key.
    fn below(self, word: &str) -> Option<Self> {
        match (self, word) {
            (Self::Body | Self::Ctx | Self::AnsweredCtx, "messages") => Some(Self::Messages),
            (Self::AnsweredCtx, "result") => Some(Self::Answer),
            _ => None,
        }
    }
}

/// Keys that a body does not have in a hook, and where the value is.
const ELSEWHERE: [(Hook, &str, &str); 9] = [
    (Hook::Outlet, "usage", "the tokens are those of the answer: `body.messages[-1].usage`, `()` if unknown"),
    (Hook::Outlet, "choices", "the answer is the last message: `body.messages[-1].text`"),
    (Hook::Outlet, "response", "the answer is the last message: `body.messages[-1].text`"),
    (Hook::Outlet, "content", "the answer is the last message: `body.messages[-1].text`"),
    (Hook::Outlet, "text", "the answer is the last message: `body.messages[-1].text`"),
    (Hook::Outlet, "finish_reason", "it is of the answer: `body.messages[-1].finish_reason`"),
    (
        Hook::Inlet,
        "content",
        "the question is the last message of the user: `body.messages.last(\"user\").text`",
    ),
    (
        Hook::Inlet,
        "text",
        "the question is the last message of the user: `body.messages.last(\"user\").text`",
    ),
    (Hook::Inlet, "usage", "the tokens are known in `outlet`: `body.messages[-1].usage`"),
];

/// Reports the first key of a chain in a hook whose body never has it.
fn elsewhere(view: &View<'_>, hook: Option<Hook>, link: &Link<'_>) -> Option<Diagnostic> {
    let Link::Property(name, position) = link else { return None };
    let (.., help) = ELSEWHERE.iter().find(|row| Some(row.0) == hook && row.1 == *name)?;
    let is_known = Handle::Body.words().any(|word| word == *name);
    let is_set = is_known || view.written.contains(*name) || view.texts.contains(*name);
    (!is_set).then(|| {
        let message = format!("unknown key `{name}`: the body of `{}` has none", hook.map_or("", Hook::name));
        view.problem(Code::UnknownProperty, *position, message).help(*help)
    })
}

fn misnamed(view: &View<'_>) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    // Computed once for the whole file, because it may write thousands of names.
    let named_once = LazyCell::new(|| named_once(view.source));
    for function in &view.functions {
        let names = names_in(function);
        if names.is_empty() {
            continue;
        }
        tree::each(&function.statements, &mut |node, _| {
            let Node::Expr(expression @ (Expr::Dot(..) | Expr::Index(..))) = node else { return };
            let (root, links) = tree::chain(expression);
            let mut handle = tree::variable(root).and_then(|name| names.get(name).copied());
            for link in &links {
                let Some(here) = handle else { return };
                let of_body =
                    (here == Handle::Body).then(|| elsewhere(view, Hook::from_name(&function.name), link));
                problems.extend(of_body.flatten());
                if let Link::Property(name, position) = link
                    && let Some(near) = misspelt(view, here, name, &named_once)
                {
                    let what = match view.written.contains(*name) {
                        true => format!("unknown key `{name}`: nothing reads it"),
                        false => format!("unknown key `{name}`: nothing sets it"),
                    };
                    let diagnostic = view.problem(Code::UnknownProperty, *position, what);
                    problems.push(diagnostic.meant(near));
                }
                problems.extend(misspelt_texts(view, here, link, &named_once));
                handle = next(here, link);
            }
        });
        tree::each(&function.statements, &mut |node, _| {
            let Node::Stmt(Stmt::Assignment(assignment)) = node else { return };
            if let (true, Some(handle)) = (assignment.0.is_op_assignment(), held(&names, &assignment.1.lhs)) {
                problems.extend(misspelt_entries(view, handle, &assignment.1.rhs, &named_once));
            }
        });
    }
    problems.extend(misspelt_state(view));
    problems
}

/// Reports keys that are texts: `m["txet"]`, `m.set("txet", …)` and `m.mixin(#{ txet: … })`.
fn misspelt_texts(
    view: &View<'_>,
    handle: Handle,
    link: &Link<'_>,
    named_once: &HashSet<&str>,
) -> Vec<Diagnostic> {
    let key = match link {
        Link::Index(Expr::StringConstant(key, position)) if handle != Handle::Messages => {
            Some((key, *position))
        }
        Link::Call(call) if ["set", "ensure", "remove", "get"].contains(&&*call.name) => {
            match call.args.first() {
                Some(Expr::StringConstant(key, position)) => Some((key, *position)),
                _ => None,
            }
        }
        Link::Call(call) if &*call.name == "mixin" => {
            let entries = call.args.first();
            return entries.map_or_else(Vec::new, |map| misspelt_entries(view, handle, map, named_once));
        }
        _ => None,
    };
    key.and_then(|(key, position)| misspelt_text(view, handle, key, position, named_once))
        .into_iter()
        .collect()
}

/// Reports the misspelt keys of a map literal that is added to a value of the host.
fn misspelt_entries(
    view: &View<'_>,
    handle: Handle,
    map: &Expr,
    named_once: &HashSet<&str>,
) -> Vec<Diagnostic> {
    let Expr::Map(map, _) = map else { return Vec::new() };
    let keys = map.0.iter().map(|(key, _)| (&key.name, key.pos));
    keys.filter_map(|(key, position)| misspelt_text(view, handle, key, position, named_once)).collect()
}

fn misspelt_text(
    view: &View<'_>,
    handle: Handle,
    key: &str,
    position: Position,
    named_once: &HashSet<&str>,
) -> Option<Diagnostic> {
    let is_known = handle.words().any(|word| word == key)
        || key.len() < handle.min_written()
        || !named_once.contains(key);
    let near = if is_known { None } else { near(handle, key) }?;
    let problem = view.problem(Code::UnknownProperty, position, format!("unknown key `{key}`"));
    Some(problem.meant(near))
}

/// Reports keys of `state` that are read and never set, and are almost one that a hook sets.
fn misspelt_state(view: &View<'_>) -> Vec<Diagnostic> {
    let (mut set, mut read) = (HashSet::new(), Vec::new());
    for function in
        view.functions.iter().filter(|function| function.params.iter().any(|name| name == "state"))
    {
        tree::each(&function.statements, &mut |node, above| {
            let Node::Expr(chain @ (Expr::Dot(..) | Expr::Index(..))) = node else { return };
            let (root, links) = tree::chain(chain);
            let (Some("state"), Some(Link::Property(name, position))) = (tree::variable(root), links.first())
            else {
                return;
            };
            let is_target = matches!(above.last(), Some(Node::Stmt(Stmt::Assignment(assignment)))
                if std::ptr::eq(&raw const assignment.1.lhs, chain));
            match is_target && links.len() == 1 {
                true => drop(set.insert((*name).to_owned())),
                false => read.push(((*name).to_owned(), *position)),
            }
        });
    }
    let is_unknown = |name: &String| !set.contains(name) && !view.texts.contains(name);
    let unknown = read.into_iter().filter(|(name, _)| is_unknown(name));
    let problem = |(name, position): (String, Position)| {
        let near = nearest(&name, set.iter().map(String::as_str))?;
        let message = format!("unknown key `{name}` of `state`: no hook sets it");
        let problem = view.problem(Code::UnknownProperty, position, message);
        Some(problem.meant(near))
    };
    unknown.filter_map(problem).collect()
}

/// Returns the properties among these that a source names only once, and that are almost a key of a value of the host:
/// each with the shapes of such values, and the key that was probably meant.
pub(crate) fn misspelt_once<'a>(source: &str, names: impl Iterator<Item = &'a str>) -> Misspelt {
    let handles = [
        (Shape::Body, &[Handle::Body][..]),
        (Shape::Message, &[Handle::Message, Handle::Answer]),
        (Shape::Event, &[Handle::Event]),
    ];
    let named_once = LazyCell::new(|| named_once(source));
    let meant = |name: &str| -> Vec<(Shape, &'static str)> {
        if !named_once.contains(name) {
            return Vec::new();
        }
        let of_shape = |(shape, handles): (Shape, &[Handle])| {
            let is_key = handles
                .iter()
                .any(|handle| name.len() < handle.min_written() || handle.words().any(|word| word == name));
            let near = handles.iter().find_map(|handle| near(*handle, name)).filter(|_| !is_key);
            near.map(|near| (shape, near))
        };
        handles.into_iter().filter_map(of_shape).collect()
    };
    names.map(|name| (name.to_owned(), meant(name))).filter(|(_, meant)| !meant.is_empty()).collect()
}

/// Returns the key that was probably meant.
fn misspelt<'a>(
    view: &View<'a>,
    handle: Handle,
    name: &str,
    named_once: &HashSet<&'a str>,
) -> Option<&'static str> {
    let is_known = handle.words().any(|word| word == name)
        || name.len() < 3
        || view.written.contains(name) && (name.len() < handle.min_written() || !named_once.contains(name))
        || view.texts.contains(name);
    if is_known { None } else { near(handle, name) }
}

/// Returns the key of a value that is almost this one.
fn near(handle: Handle, name: &str) -> Option<&'static str> {
    nearest(name, handle.words().filter(|word| word.len() > 3)).filter(|near| {
        // `tool` and `tools`, or `file` and `files`, may be two different keys of a client.
        let is_of_host = matches!(handle, Handle::Ctx | Handle::AnsweredCtx | Handle::Answer);
        name.len() >= MIN_SINGULAR || is_of_host || near.trim_end_matches('s') != name.trim_end_matches('s')
    })
}

/// Returns the names that occur only once in the source.
fn named_once(source: &str) -> HashSet<&str> {
    let (mut once, mut often) = (HashSet::new(), HashSet::new());
    for name in source.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
        if !often.contains(name) && !once.insert(name) {
            once.remove(name);
            often.insert(name);
        }
    }
    once
}

/// Returns the kind of the value that a link leads to.
fn next(handle: Handle, link: &Link<'_>) -> Option<Handle> {
    match (handle, link) {
        (_, Link::Property(name, _)) => handle.below(name),
        (Handle::Messages, Link::Index(_)) => Some(Handle::Message),
        (Handle::Messages, Link::Call(call)) if &*call.name == "last" => Some(Handle::Message),
        _ => None,
    }
}

/// Returns the variables of a function that hold values of the host.
fn names_in(function: &Body) -> BTreeMap<String, Handle> {
    let mut names = BTreeMap::new();
    let is_hosts =
        Hook::from_name(&function.name).is_some() || function.name == "pipe" || function.name == "handler";
    if !is_hosts {
        return names;
    }
    for param in &function.params {
        let handle = match (param.as_str(), Hook::from_name(&function.name)) {
            ("body", _) => Handle::Body,
            ("event", Some(Hook::Stream)) => Handle::Event,
            ("ctx", Some(Hook::PostChat)) => Handle::AnsweredCtx,
            ("ctx", Some(_)) => Handle::Ctx,
            ("__user__", _) => Handle::User,
            ("__model__", _) => Handle::Model,
            ("__request__", _) => Handle::Request,
            ("__metadata__", _) => Handle::Metadata,
            _ => continue,
        };
        names.insert(param.clone(), handle);
    }
    tree::each(&function.statements, &mut |node, _| match node {
        Node::Stmt(Stmt::Var(variable, ..)) => {
            let found = held(&names, &variable.1);
            put(&mut names, &variable.0.name, found);
        }
        Node::Stmt(Stmt::For(parts, _)) => {
            let found = held(&names, &parts.2.expr).filter(|found| *found == Handle::Messages);
            put(&mut names, &parts.0.name, found.map(|_| Handle::Message));
        }
        Node::Stmt(Stmt::Assignment(assignment)) => {
            let assigned = tree::variable(&assignment.1.lhs);
            if let Some(name) = assigned.filter(|_| !assignment.0.is_op_assignment()) {
                names.remove(name);
            }
        }
        _ => {}
    });
    names
}

fn put(names: &mut BTreeMap<String, Handle>, name: &str, found: Option<Handle>) {
    match found {
        Some(handle) => _ = names.insert(name.to_owned(), handle),
        None => _ = names.remove(name),
    }
}

/// Returns the kind of an expression's value.
fn held(names: &BTreeMap<String, Handle>, expression: &Expr) -> Option<Handle> {
    let (root, links) = tree::chain(expression);
    let mut handle = *names.get(tree::variable(root)?)?;
    for link in &links {
        handle = next(handle, link)?;
    }
    Some(handle)
}
