//! Docstrings: the keys at the top of a file and the descriptions of parameters.

use crate::names;
use crate::python::{Expr, ExprKind, Stmt, StmtKind};

/// The keys that have the same meaning in a script.
const KEYS: [&str; 7] = ["title", "author", "author_url", "version", "description", "license", "icon_url"];

/// Returns the docstring of a block: the text literal that is its first statement.
pub(crate) fn docstring(body: &[Stmt]) -> Option<&str> {
    match body.first().map(|first| &first.kind) {
        Some(StmtKind::Expr(expr)) => expr.as_text(),
        _ => None,
    }
}

/// Returns `true` for a statement that is only a text literal or `...`.
pub(crate) fn is_comment(stmt: &Stmt) -> bool {
    matches!(&stmt.kind, StmtKind::Expr(Expr { kind: ExprKind::Text(_) | ExprKind::Ellipsis, .. }))
}

/// Returns the keys of a file's docstring that a script has too, with their values.
pub(crate) fn keys(text: &str) -> Vec<(String, String)> {
    let mut keys: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let key = key.trim().to_lowercase();
        let value = line_of(value);
        if KEYS.contains(&key.as_str()) && !value.is_empty() {
            keys.retain(|(other, _)| *other != key);
            keys.push((key, value));
        }
    }
    keys
}

/// Returns a text as one line that can be part of a block comment.
pub(crate) fn line_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("*/", "* /").replace("/*", "/ *")
}

/// The docstring of a function.
#[derive(Debug, Default, Clone)]
pub(crate) struct FunctionDocs {
    pub(crate) description: String,
    params: Vec<(String, String)>,
}

impl FunctionDocs {
    /// Reads `:param name: …` lines as Open WebUI does, and lists after `Args:`.
    pub(crate) fn of(body: &[Stmt]) -> Self {
        let Some(text) = docstring(body) else { return Self::default() };
        let text = crate::value::dedent(text);
        let mut docs = Self::default();
        let mut description: Vec<&str> = Vec::new();
        let mut section = Section::Description;
        for line in text.lines() {
            let plain = line.trim();
            if let Some(rest) = plain.strip_prefix(":param ") {
                section = Section::Params;
                if let Some((name, text)) = rest.split_once(':')
                    && let Some(name) = name.split_whitespace().next_back()
                {
                    docs.params.push((name.to_owned(), text.trim().to_owned()));
                }
                continue;
            }
            if plain.starts_with(":return") || plain.starts_with(":raises") || plain.starts_with(":rtype") {
                section = Section::Other;
                continue;
            }
            match plain.to_lowercase().as_str() {
                "args:" | "arguments:" | "parameters:" | "params:" => {
                    section = Section::Args;
                    continue;
                }
                "returns:" | "return:" | "raises:" | "yields:" | "example:" | "examples:" => {
                    section = Section::Other;
                    continue;
                }
                _ => {}
            }
            match section {
                Section::Description => description.push(plain),
                Section::Params if !plain.is_empty() => {
                    if let Some((_, text)) = docs.params.last_mut() {
                        text.push(' ');
                        text.push_str(plain);
                    }
                }
                Section::Args if !plain.is_empty() => {
                    let entry = plain.trim_start_matches(['-', '*', ' ']).split_once(':');
                    let name = entry
                        .and_then(|(name, _)| name.split([' ', '(']).next())
                        .map(|name| name.trim_matches('`'));
                    match (entry, name) {
                        (Some((_, text)), Some(name)) if names::is_key(name) => {
                            docs.params.push((name.to_owned(), text.trim().to_owned()));
                        }
                        _ => {
                            if let Some((_, text)) = docs.params.last_mut() {
                                text.push(' ');
                                text.push_str(plain);
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        docs.description = description.join("\n").trim().to_owned();
        docs
    }

    /// Returns the description of a parameter.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.params
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, text)| text.as_str())
            .filter(|text| !text.is_empty())
    }
}

#[derive(Clone, Copy)]
enum Section {
    Description,
    Params,
    Args,
    Other,
}
