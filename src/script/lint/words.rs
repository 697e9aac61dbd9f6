//! Properties of the host's values that are misspelt: these values are open maps, so that an unknown key is
//! no mistake by itself, one that is almost a known one very likely is.

use super::tree::{self, Link, Node};
use super::view::{Body, View};
use crate::filter::Hook;
use crate::script::problem::{Code, Problem};
use crate::words::nearest;
use rhai::{Expr, Stmt};
use std::collections::BTreeMap;

/// A value of the host's.
#[derive(Clone, Copy, PartialEq)]
enum Handle {
    Body,
    Messages,
    Message,
    Event,
    Ctx,
    User,
    Model,
    Request,
}

impl Handle {
    /// Its words that lead to no other value of ours.
    const fn words(self) -> &'static [&'static str] {
        match self {
            Self::Body => &[
                "model",
                "messages",
                "stream",
                "temperature",
                "top_p",
                "max_tokens",
                "tools",
                "tool_choice",
                "response_format",
                "metadata",
                "files",
                "features",
                "chat_id",
                "session_id",
                "user",
                "filter_ids",
                "tool_ids",
                "seed",
                "stop",
                "id",
            ],
            Self::Messages => &["system", "len", "is_empty"],
            Self::Message => &[
                "role",
                "content",
                "text",
                "texts",
                "parts",
                "images",
                "name",
                "tool_calls",
                "tool_call_id",
                "refusal",
                "reasoning_content",
                "usage",
                "finish_reason",
                "id",
            ],
            Self::Event => &[
                "text",
                "texts",
                "reasoning",
                "role",
                "finish_reason",
                "tool_calls",
                "usage",
                "index",
                "choices",
                "model",
                "delta",
                "id",
                "created",
                "object",
                "error",
                "event",
            ],
            Self::Ctx => &[
                "messages",
                "result",
                "context",
                "args",
                "error",
                "iteration",
                "options",
                "tool",
                "tool_name",
                "tools",
                "model",
                "usage",
                "valves",
                "state",
                "variables",
                "metadata",
                "name",
                "text",
                "history",
                "trace",
                "filters",
            ],
            Self::User => &["id", "name", "email", "role", "valves", "profile_image_url", "timezone"],
            Self::Model => &["id", "name", "provider", "info"],
            Self::Request => &["headers", "method", "path", "url", "query", "cookies", "ip", "state"],
        }
    }

    /// What a word leads to.
    fn below(self, word: &str) -> Option<Self> {
        match (self, word) {
            (Self::Body | Self::Ctx, "messages") => Some(Self::Messages),
            _ => None,
        }
    }
}

pub(super) fn look(view: &View<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
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
                if let Link::Property(name, position) = link
                    && let Some(near) = misspelt(view, here, name)
                {
                    let what = format!("nothing sets `{name}`, which is spelt almost like `{near}`");
                    let told = view.problem(Code::UnknownProperty, *position, what);
                    problems.push(told.help(format!("did you mean `{near}`?")));
                }
                handle = next(here, link);
            }
        });
    }
    problems
}

/// The word that was meant.
fn misspelt(view: &View<'_>, handle: Handle, name: &str) -> Option<&'static str> {
    let words = handle.words();
    let is_known =
        words.contains(&name) || name.len() < 3 || view.written.contains(name) || view.texts.contains(name);
    if is_known {
        return None;
    }
    nearest(name, words.iter().copied().filter(|word| word.len() > 3)).filter(|near| {
        // `tool` and `tools`, `file` and `files` may well be two keys.
        near.trim_end_matches('s') != name.trim_end_matches('s')
    })
}

/// What a link leads to.
fn next(handle: Handle, link: &Link<'_>) -> Option<Handle> {
    match (handle, link) {
        (_, Link::Property(name, _)) => handle.below(name),
        (Handle::Messages, Link::Index(_)) => Some(Handle::Message),
        (Handle::Messages, Link::Call(call)) if &*call.name == "last" => Some(Handle::Message),
        _ => None,
    }
}

/// Variables of a function that hold values of the host's.
fn names_in(function: &Body) -> BTreeMap<String, Handle> {
    let mut names = BTreeMap::new();
    let is_hosts =
        Hook::named(&function.name).is_some() || function.name == "pipe" || function.name == "handler";
    if !is_hosts {
        return names;
    }
    for param in &function.params {
        let handle = match (param.as_str(), Hook::named(&function.name)) {
            ("body", _) => Handle::Body,
            ("event", Some(Hook::Stream)) => Handle::Event,
            ("ctx", Some(_)) => Handle::Ctx,
            ("__user__", _) => Handle::User,
            ("__model__", _) => Handle::Model,
            ("__request__", _) => Handle::Request,
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
            if let Some(name) = tree::variable(&assignment.1.lhs) {
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

/// What an expression gives.
fn held(names: &BTreeMap<String, Handle>, expression: &Expr) -> Option<Handle> {
    let (root, links) = tree::chain(expression);
    let mut handle = *names.get(tree::variable(root)?)?;
    for link in &links {
        handle = next(handle, link)?;
    }
    Some(handle)
}
