//! Maps function names to hooks, and parameter names to the values they receive.
//!
//! Both are read once, when a script is loaded. An unknown name is a load problem that names the nearest known one.

use crate::diagnostic::{Code, Diagnostic};
use crate::load::source::SourceFile;
use rhai::AST;
use std::path::Path;
use valvehouse_core::callback::Callback;
use valvehouse_core::filter::Hook;
use valvehouse_core::text::nearest;

/// The value that a parameter receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Param {
    /// The subject of the call: body, event or ctx, or the arguments of a tool.
    Subject,
    /// The variables that a tool works on.
    Context,
    Valves,
    State,
    Id,
    User,
    Metadata,
    Model,
    Request,
    ChatId,
    MessageId,
    Features,
    Files,
    EventEmitter,
    EventCall,
    /// The conversation in which a tool is called.
    Messages,
    /// The tools that a pipe may call.
    Tools,
    /// The id of the pressed button.
    ActionId,
}

/// The parameters that every function called by the host may have.
const PARAMS: [(&str, Param); 13] = [
    ("valves", Param::Valves),
    ("state", Param::State),
    ("__id__", Param::Id),
    ("__user__", Param::User),
    ("__metadata__", Param::Metadata),
    ("__model__", Param::Model),
    ("__request__", Param::Request),
    ("__chat_id__", Param::ChatId),
    ("__message_id__", Param::MessageId),
    ("__features__", Param::Features),
    ("__files__", Param::Files),
    ("__event_emitter__", Param::EventEmitter),
    ("__event_call__", Param::EventCall),
];

/// The parameters that only a tool, a pipe or an action may have.
pub(crate) const OF_TOOLS: (&str, Param) = ("__messages__", Param::Messages);
pub(crate) const OF_PIPES: (&str, Param) = ("__tools__", Param::Tools);
pub(crate) const OF_ACTIONS: (&str, Param) = ("__action_id__", Param::ActionId);

/// Returns the parameter name of the hook's subject.
pub(crate) const fn subject_name(hook: Hook) -> Option<&'static str> {
    match hook {
        Hook::Inlet | Hook::Outlet => Some("body"),
        Hook::Stream => Some("event"),
        Hook::StreamEnd => None,
        Hook::PreChat | Hook::PostChat | Hook::PreInvocation | Hook::PostInvocation => Some("ctx"),
    }
}

/// A hook of a script and its parameters.
#[derive(Debug, Clone)]
pub(crate) struct HookFunction {
    pub(crate) hook: Hook,
    pub(crate) params: Vec<Param>,
}

/// Returns the hooks among a script's functions, and the problems found.
pub(crate) fn read(ast: &AST, id: &str, path: &Path, source: &str) -> (Vec<HookFunction>, Vec<Diagnostic>) {
    let mut found: Vec<HookFunction> = Vec::new();
    let mut problems = Vec::new();
    for function in ast.iter_functions() {
        let Some(hook) = Hook::from_name(function.name) else {
            if let Some(near) = almost(function.name) {
                problems.push(
                    Diagnostic::new(
                        Code::AlmostHook,
                        id,
                        path,
                        format!("`{}` is not a hook; did you mean `{near}`?", function.name),
                    )
                    .at_function(source, function.name)
                    .help(format!(
                        "rename the function to `{near}`, or to a different name if it should not be a hook"
                    ))
                    .warning(),
                );
            }
            continue;
        };
        match read_params(hook.name(), subject_name(hook), &function.params) {
            Ok(params) => {
                // The overload with the most parameters is used.
                let next = HookFunction { hook, params };
                match found.iter_mut().find(|other| other.hook == hook) {
                    Some(other) if other.params.len() < next.params.len() => *other = next,
                    Some(_) => {}
                    None => found.push(next),
                }
            }
            Err(unknown) => problems.push(unknown.of(id, path, source)),
        }
    }
    found.sort_by_key(|function| function.hook as u8);
    (found, problems)
}

/// The function that runs after a client has received its answer.
pub(crate) const DONE: &str = "done";

/// Reads the parameters of `fn done`; `None` if the filter has none.
///
/// # Errors
/// Returns a problem if a parameter is unknown.
pub(crate) fn read_done(
    ast: &AST,
    file: &SourceFile,
    source: &str,
) -> Result<Option<Vec<Param>>, Diagnostic> {
    let functions = ast.iter_functions().filter(|function| function.name == DONE);
    // The overload with the most parameters is used.
    let Some(function) = functions.max_by_key(|function| function.params.len()) else { return Ok(None) };
    let params = read_params(DONE, Some("body"), &function.params).map_err(|mut unknown| {
        unknown.help.push_str(&format!("; rename the function if it should not be the hook `{DONE}`"));
        unknown.of(&file.id, &file.path, source)
    })?;
    Ok(Some(params))
}

/// Returns the meaning of a parameter name that every function called by the host may use.
pub(crate) fn param(name: &str) -> Option<Param> {
    PARAMS.iter().find(|(known, _)| *known == name).map(|(_, param)| *param)
}

/// Returns the names of the parameters that every function called by the host may have.
pub(crate) fn param_names() -> impl Iterator<Item = &'static str> + Clone {
    PARAMS.iter().map(|(name, _)| *name)
}

/// A parameter that a function cannot have.
pub(crate) struct UnknownParam {
    function: String,
    name: String,
    help: String,
    near: Option<&'static str>,
}

impl UnknownParam {
    pub(crate) fn of(self, id: &str, path: &Path, source: &str) -> Diagnostic {
        let Self { function, name, help, near } = self;
        let what = format!("unknown parameter `{name}` of `{function}`");
        let problem = Diagnostic::new(Code::UnknownParameter, id, path, what);
        problem.at_parameter(source, &function, &name).meant_one_of(near, &help)
    }
}

/// Reads the parameters of a function whose subject has this name. Fails with the first unknown name.
pub(crate) fn read_params(
    function: &str,
    subject: Option<&'static str>,
    names: &[&str],
) -> Result<Vec<Param>, UnknownParam> {
    names
        .iter()
        .map(|name| {
            if subject == Some(name) {
                return Ok(Param::Subject);
            }
            param(name).ok_or_else(|| unknown_param(function, subject, name))
        })
        .collect()
}

/// Returns the help for a parameter that only other functions may have.
pub(crate) fn help_elsewhere(name: &str) -> Option<&'static str> {
    match name {
        "__messages__" => {
            Some("only tools have the parameter `__messages__`; write `body.messages` or `ctx.messages`")
        }
        "__action_id__" => {
            Some("only actions have the parameter `__action_id__`; `__id__` is the script's own id")
        }
        "self" => Some("remove `self`; the settings are in the parameter `valves`"),
        "__tools__" => Some(
            "only pipes have the parameter `__tools__`; write `tools::list()` and `tools::call(name, \
             arguments)`",
        ),
        _ => None,
    }
}

fn unknown_param(function: &str, subject: Option<&'static str>, name: &str) -> UnknownParam {
    let unknown = |help, near| UnknownParam { function: function.into(), name: name.into(), help, near };
    if let Some(help) = help_elsewhere(name) {
        return unknown(help.to_owned(), None);
    }
    let known = subject.into_iter().chain(param_names());
    let list = known.clone().collect::<Vec<_>>().join(", ");
    let bare = name.trim_matches('_');
    let dressed = known.clone().find(|known| known.trim_matches('_') == bare);
    let near = dressed.or_else(|| nearest(name, known));
    unknown(format!("the parameters of `{function}` are {list}"), near)
}

/// Returns the hook that a misspelled function name probably means.
fn almost(name: &str) -> Option<&'static str> {
    if name.starts_with('_') || name.len() < 4 {
        return None;
    }
    let folded = name.to_lowercase().replace('_', "");
    // Handles names such as `onStream`: hooks have no prefix `on`.
    let folded = folded.strip_prefix("on").filter(|_| Callback::from_name(name).is_none()).unwrap_or(&folded);
    Hook::ALL.into_iter().map(Hook::name).find(|hook| {
        let hook = hook.replace('_', "");
        hook == folded || (strsim::damerau_levenshtein(&hook, folded) == 1 && folded.len() > 4)
    })
}
