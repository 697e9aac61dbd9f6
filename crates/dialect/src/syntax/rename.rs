//! Unique names for the functions and constants of modules.
//!
//! All functions of a script and of its modules are in one namespace and are found by name. To prevent conflicts
//! between files, a module is parsed twice: once to resolve its names, and once with its own names prefixed.

use super::tokens::{Before, NameToken, RenamePlan};
use crate::syntax::call_of;
use rhai::{AST, ASTNode, Expr, Position};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The start of the prefix of a module's names.
const PREFIX: &str = "__m";

/// Returns the prefix of a script's nth module.
pub fn prefix(index: usize) -> String {
    format!("{PREFIX}{index}__")
}

/// Splits a prefixed name into the index of its module and the name in the source.
pub fn split(name: &str) -> Option<(usize, &str)> {
    let rest = name.strip_prefix(PREFIX)?;
    let (index, name) = rest.split_once("__")?;
    Some((index.parse().ok()?, name))
}

/// Removes the prefixes of names in a text of Rhai.
pub fn as_written(text: &str) -> String {
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

/// The names of a module.
pub struct Own<'a> {
    /// The prefix of its own names.
    pub prefix: &'a str,
    /// Its functions, with their numbers of parameters.
    pub functions: &'a HashSet<(String, usize)>,
    /// The names of the constants of the file.
    pub constants: &'a BTreeSet<String>,
    /// The aliases of imported modules, with the prefixes of these.
    pub aliases: &'a HashMap<String, String>,
    /// Returns `true` if the host has a function of this name.
    pub is_known: &'a dyn Fn(&str) -> bool,
}

impl Own<'_> {
    /// Determines which words of a module are renamed. Local variables with the name of a function or constant are
    /// renamed too, which does not change their meaning.
    pub fn plan(&self, words: &[NameToken], as_written: &AST) -> RenamePlan {
        let mut plan = RenamePlan::new();
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

    /// Returns the words that are used as a value.
    fn variables<'w>(&self, words: &'w [NameToken]) -> HashSet<&'w str> {
        let values = words.iter().filter(|word| word.before == Before::Other && !word.before_bracket);
        values.map(|word| word.name.as_str()).collect()
    }

    /// Returns `true` if a call refers to a function of the module, existing or not. It never refers to a function
    /// of the importing script.
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
    fn module_prefixes_are_removed_from_names() {
        assert_eq!(split("__m12__shout"), Some((12, "shout")));
        assert_eq!(split("shout"), None);
        assert_eq!(as_written("not found: __m0__a (i64), __m1__b, __mx"), "not found: a (i64), b, __mx");
    }
}
