//! Reads the callbacks among a script's functions and reports invalid ones.

use crate::declare::hooks::{self, Param};
use crate::declare::manifest::Manifest;
use crate::diagnostic::{Code, Diagnostic, MAX_PROBLEMS};
use crate::load::source::{Kind, SourceFile};
use rhai::AST;
use valvehouse_core::callback::Callback;

/// A callback of a script and its parameters.
#[derive(Debug)]
pub(crate) struct CallbackFunction {
    pub(super) callback: Callback,
    /// The first or second name of the callback, under which it receives events.
    pub(super) name: &'static str,
    pub(super) params: Vec<Param>,
}

/// The name of the parameter that receives the event.
const SUBJECT: &str = "event";

/// Returns the callbacks of a script that declares `const callbacks = true`, and the problems found.
pub(crate) fn read(
    ast: &AST,
    manifest: &Manifest,
    file: &SourceFile,
    source: &str,
) -> (Vec<CallbackFunction>, Vec<Diagnostic>) {
    let at = |code, word: &str, what: String| Diagnostic::of(code, file, what).at_word(source, word);
    if file.kind != Kind::Filter {
        let misplaced = at(
            Code::MisplacedHook,
            "callbacks",
            "`callbacks` is not allowed in this file: only filters have callbacks".into(),
        );
        let misplaced = misplaced.help("move the callbacks to a file in filters/").warning();
        return (Vec::new(), manifest.callbacks.then_some(misplaced).into_iter().collect());
    }
    let (mut found, mut problems) = (Vec::<CallbackFunction>::new(), Vec::new());
    for function in ast.iter_functions() {
        let name = function.name;
        match Callback::names().find(|(known, _)| *known == name) {
            Some(_) if !manifest.callbacks => problems.push(
                at(
                    Code::DeadCallback,
                    name,
                    format!("`{name}` is never called: missing `const callbacks = true`"),
                )
                .help(
                    "add `const callbacks = true;` outside of functions, or rename the function if it is \
                       not a callback",
                )
                .warning(),
            ),
            Some((name, callback)) => match hooks::read_params(name, Some(SUBJECT), &function.params) {
                Ok(params) => {
                    // The overload with the most parameters is used.
                    let next = CallbackFunction { callback, name, params };
                    match found.iter_mut().find(|other| other.name == name) {
                        Some(other) if other.params.len() < next.params.len() => *other = next,
                        Some(_) => {}
                        None => found.push(next),
                    }
                }
                Err(unknown) => problems.push(unknown.of(&file.id, &file.path, source)),
            },
            None if manifest.callbacks && name.starts_with("on") => {
                let Some(near) = meant(name) else { continue };
                problems.push(
                    at(Code::DeadCallback, name, format!("unknown callback `{name}`: it is never called"))
                        .meant_one_of(Some(near), &format!("the callbacks are {}", known()))
                        .warning(),
                );
            }
            None => {}
        }
    }
    for second in called_under_first_name(&mut found) {
        let (name, first) = (second.name, second.callback.name());
        let twice = format!("`{name}` is never called: it is the second name of `{first}`, which is called");
        let twice = at(Code::DeadCallback, name, twice);
        problems.push(twice.help("move its statements to the other function, and remove it").warning());
    }
    if manifest.callbacks && found.is_empty() && problems.is_empty() {
        let empty =
            at(Code::DeadCallback, "callbacks", "`callbacks` is true, but the file has no callback".into());
        problems.push(empty.help(format!("the callbacks are {}", known())).warning());
    }
    found.sort_by_key(|function| function.callback as u8);
    problems.truncate(MAX_PROBLEMS);
    (found, problems)
}

/// Removes the functions with the second name of a callback from those that also include its first name, and
/// returns them.
fn called_under_first_name(found: &mut Vec<CallbackFunction>) -> Vec<CallbackFunction> {
    let firsts: Vec<Callback> =
        found.iter().filter(|one| one.name == one.callback.name()).map(|one| one.callback).collect();
    found.extract_if(.., |one| one.name != one.callback.name() && firsts.contains(&one.callback)).collect()
}

/// Returns the callback that a misspelled function name probably means.
fn meant(name: &str) -> Option<&'static str> {
    let folded = |name: &str| name.to_lowercase().replace('_', "");
    let likeness = |known: &str| strsim::jaro_winkler(&folded(known), &folded(name));
    let all = Callback::names().map(|(known, _)| known);
    let best = all.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    // In a file with callbacks, a name with the prefix `on_` is a misspelled callback.
    (name.starts_with("on_") || folded(best) == folded(name)).then_some(best)
}

fn known() -> String {
    Callback::ALL.map(Callback::name).join(", ")
}
