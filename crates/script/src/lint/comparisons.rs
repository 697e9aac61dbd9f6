//! Comparisons of values whose kinds never fit.

use super::tree;
use super::view::View;
use crate::instrument::{Kinds, ValueKind};
use crate::problem::{Code, Problem};
use std::collections::HashSet;
use valvehouse_json::Json;

pub(super) fn look(view: &View<'_>) -> Vec<Problem> {
    let none = Json::object();
    let valves = view.script.map_or(&none, |script| &script.valves);
    let own: HashSet<String> = view.functions.iter().map(|function| function.name.clone()).collect();
    let mut problems = Vec::new();
    for function in &view.functions {
        let params: Vec<&str> = function.params.iter().map(String::as_str).collect();
        let kinds = Kinds::in_body(&function.name, &params, &function.statements, valves, &own);
        tree::each(&function.statements, &mut |node, _| {
            let Some((call, false, position)) = tree::call(node) else { return };
            let [first, second] = call.args.as_slice() else { return };
            if call.op_token.is_none() {
                return;
            }
            let (Some(first), Some(second)) = (kinds.kind_of(first), kinds.kind_of(second)) else { return };
            let names = format!("{} with {}", first.as_str(), second.as_str());
            let message = match call.name.as_str() {
                "<" | "<=" | ">" | ">=" if first != second || !first.is_ordered() => {
                    format!("`{}` compares {names}: they have no order, and the call fails here", call.name)
                }
                // With `()`, that is how a missing value is found.
                "==" if first != second && ![first, second].contains(&ValueKind::Unit) => {
                    format!("`==` compares {names}, which is never true")
                }
                "!=" if first != second && ![first, second].contains(&ValueKind::Unit) => {
                    format!("`!=` compares {names}, which is always true")
                }
                _ => return,
            };
            let problem = view.problem(Code::ForeignKinds, position, message);
            problems.push(problem.help("convert one of them first: `parse_int(text)`, `value.to_string()`"));
        });
    }
    problems
}
