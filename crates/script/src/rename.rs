//! Names that no other file has: how a module's own names are told from those of the script that
//! imports it and of other modules.
//!
//! Everything that a script runs lies in one place, where a function is found by its name alone. So
//! that no function ever meets one of the same name from another file, a module is parsed twice:
//! once as it is, to see what its names mean, and once with its own names behind a prefix.

use super::syntax::call_of;
use super::tokens::{Before, Plan, Word};
use rhai::{AST, ASTNode, Expr, Position};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The prefix of the names of a module's functions, once they are among all others.
const PREFIX: &str = "__m";

/// The prefix of a script's nth module.
pub(super) fn prefix(index: usize) -> String {
    format!("{PREFIX}{index}__")
}

/// The module a name belongs to, and the name as it was written.
pub(super) fn split(name: &str) -> Option<(usize, &str)> {
    let rest = name.strip_prefix(PREFIX)?;
    let (index, name) = rest.split_once("__")?;
    Some((index.parse().ok()?, name))
}

/// A text of Rhai's with the names in it as they were written.
pub(super) fn as_written(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(PREFIX) {
        let (before, found) = rest.split_at(at);
        shown.push_str(before);
        match split(found) {
            Some((_, name)) => rest = name,
            None => {
                shown.push_str(PREFIX);
                rest = &found[PREFIX.len()..];
            }
        }
    }
    shown.push_str(rest);
    shown
}

/// The meaning of the names in a module.
pub(super) struct Own<'a> {
    /// The prefix of its own names.
    pub(super) prefix: &'a str,
    /// Its functions, with how many parameters they take.
    pub(super) functions: &'a HashSet<(String, usize)>,
    pub(super) constants: &'a BTreeSet<String>,
    /// Modules it imports, by the names it gives them, with the prefixes of theirs.
    pub(super) aliases: &'a HashMap<String, String>,
    /// Returns `true` if the host has a function of that name.
    pub(super) is_known: &'a dyn Fn(&str) -> bool,
}

impl Own<'_> {
    /// Plans the words of a module that get another name. Variables of functions that are
    /// called like a function or constant go along: that changes nothing of what they mean.
    pub(super) fn plan(&self, words: &[Word], as_written: &AST) -> Plan {
        let mut plan = Plan::new();
        let mut calls: HashMap<Position, bool> = HashMap::new();
        let variables = self.variables(words);
        as_written.walk(&mut |path: &[ASTNode<'_>]| {
            let Some((call, position)) = path.last().and_then(call_of) else { return true };
            if call.op_token.is_none() && call.namespace.is_empty() {
                let is_method = matches!(path.last(), Some(ASTNode::Expr(Expr::MethodCall(..))));
                let name = call.name.as_str();
                calls.insert(position, self.is_own(name, call.args.len(), is_method, &variables));
                if ["Fn", "is_def_fn"].contains(&name)
                    && let Some(Expr::StringConstant(text, place)) = call.args.first()
                    && self.has_function(text)
                {
                    plan.insert(*place, format!("{}{text}", self.prefix));
                }
            }
            true
        });
        for word in words {
            let name = word.name.as_str();
            let renamed = match calls.get(&word.position) {
                _ if word.before_colons => {
                    if let Some(prefix) = self.aliases.get(name) {
                        plan.insert(word.position, prefix.clone());
                    }
                    false
                }
                Some(is_own) => *is_own,
                None => word.before == Before::Other && self.has(name),
            };
            if renamed {
                plan.insert(word.position, format!("{}{name}", self.prefix));
            }
        }
        plan
    }

    fn has_function(&self, name: &str) -> bool {
        self.functions.iter().any(|(function, _)| function == name)
    }

    fn has(&self, name: &str) -> bool {
        self.constants.contains(name) || self.has_function(name)
    }

    /// Words that stand for a value somewhere, and no own name.
    fn variables<'w>(&self, words: &'w [Word]) -> HashSet<&'w str> {
        let values = words.iter().filter(|word| word.before == Before::Other && !word.before_bracket);
        values.map(|word| word.name.as_str()).collect()
    }

    /// Returns `true` if a call is one of the module's functions, or would be if there were one: never one of
    /// the importing script's.
    fn is_own(&self, name: &str, arguments: usize, is_method: bool, variables: &HashSet<&str>) -> bool {
        if self.functions.contains(&(name.to_owned(), arguments)) {
            return true;
        }
        if (self.is_known)(name) {
            return false;
        }
        self.has(name) || (!is_method && !variables.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_come_off_again() {
        assert_eq!(split("__m12__shout"), Some((12, "shout")));
        assert_eq!(split("shout"), None);
        assert_eq!(as_written("not found: __m0__a (i64), __m1__b, __mx"), "not found: a (i64), b, __mx");
    }
}
