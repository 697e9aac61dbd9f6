//! Reads the declaration of a script's buttons, when it is loaded.

use super::function::{ActionFunction, Button};
use crate::declare::hooks::{self, Param};
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::load::source::{Kind, SourceFile};
use crate::script::Script;
use rhai::AST;
use std::time::Duration;
use valvehouse_core::filter::Hook;
use valvehouse_core::text::did_you_mean;
use valvehouse_core::tool::timeout;
use valvehouse_json::Json;

/// The function that is called when a button is pressed.
pub(super) const ACTION: &str = "action";
/// The constant that lists several buttons.
const ACTIONS: &str = "actions";
/// The time limit of a press, including waiting for a model or a person.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The help for the declaration of buttons.
const BUTTONS: &str = "list the buttons of the file as maps: const actions = [#{ id: \"short\", name: \
                       \"Shorten\" }]; `__action_id__` is the id of the one that was pressed";
/// The keys of a button.
const KEYS: [&str; 3] = ["id", "name", "icon_url"];
/// The maximum number of buttons of one script.
const MAX_BUTTONS: usize = 32;
/// The maximum length of a button's id, in characters.
const MAX_ID: usize = 64;
/// The maximum length of a button's label, in characters.
const MAX_NAME: usize = 256;
/// The maximum length of an icon's URL, in bytes. Every list of models contains it.
const MAX_ICON: usize = 4096;

/// Reads the function `action` and its buttons.
///
/// # Errors
/// Returns the problems if the file has no valid action.
pub(crate) fn read(script: &Script, source: &str) -> Result<ActionFunction, Vec<Diagnostic>> {
    // The overload with the most parameters is used.
    let function = script.functions().filter(|function| function.name == ACTION);
    let Some(names) = function.map(|function| function.params).max_by_key(Vec::len) else {
        return Err(vec![no_action(script, source)]);
    };
    let params = names.iter().map(|name| param(name)).collect::<Result<Vec<_>, _>>().map_err(|name| {
        let problem = Diagnostic::of(
            Code::UnknownParameter,
            &script.file,
            format!("unknown parameter `{name}` of `{ACTION}`"),
        );
        vec![problem.at_parameter(source, ACTION, &name).help(help_for(&name))]
    })?;
    let timeout = match script.manifest.get("timeout").filter(|text| !text.is_empty()) {
        Some(given) => timeout(&given.into()).map_err(|why| {
            let problem = Diagnostic::of(Code::BadAction, &script.file, why.to_string())
                .at_frontmatter(source, "timeout", "timeout");
            vec![problem.help("write the time limit in milliseconds: timeout: 60000")]
        })?,
        None => TIMEOUT,
    };
    let buttons = buttons(script).map_err(|why| {
        let problem = Diagnostic::of(Code::BadAction, &script.file, format!("`{ACTIONS}` {why}"));
        vec![problem.at_word(source, ACTIONS).help(BUTTONS)]
    })?;
    Ok(ActionFunction { params, timeout, buttons })
}

fn param(name: &str) -> Result<Param, String> {
    match name {
        "body" => Ok(Param::Subject),
        name if name == hooks::OF_ACTIONS.0 => Ok(hooks::OF_ACTIONS.1),
        name => hooks::param(name).ok_or_else(|| name.to_owned()),
    }
}

fn help_for(name: &str) -> String {
    if let Some(help) = hooks::help_elsewhere(name) {
        return help.to_owned();
    }
    let known = ["body", hooks::OF_ACTIONS.0].into_iter().chain(hooks::param_names());
    let list = known.clone().collect::<Vec<_>>().join(", ");
    format!("the parameters of `{ACTION}` are {list}{}", did_you_mean(name, known))
}

/// Returns the problem of a file in the folder of actions without `action`.
fn no_action(script: &Script, source: &str) -> Diagnostic {
    let names: Vec<&str> = script.functions().map(|function| function.name).collect();
    let hook = names.iter().find_map(|name| Hook::from_name(name));
    let of_tools = names.iter().find(|name| matches!(**name, "handler" | "tools"));
    let near = names.iter().find(|name| !did_you_mean(name, [ACTION]).is_empty());
    let problem = Diagnostic::of(Code::NoAction, &script.file, "missing `action`");
    match (hook, of_tools, near) {
        (Some(hook), ..) => problem
            .at_function(source, hook.name())
            .help(format!("move the file to filters/; `{hook}` is a hook of filters")),
        (None, Some(name), _) => problem
            .at_function(source, name)
            .help(format!("move the file to tools/; `{name}` is part of a tool")),
        (None, None, Some(near)) => problem.at_function(source, near).meant("action"),
        (None, None, None) => problem.at_byte(source, 0).help("write `fn action(body) { … }`"),
    }
}

/// Returns the buttons of a file: those of the constant `actions`, or one with the file's title.
fn buttons(script: &Script) -> Result<Vec<Button>, String> {
    let icon = || {
        let of_comment = script.manifest.get("icon_url").filter(|url| !url.is_empty());
        of_comment.map(str::to_owned).or_else(|| script.manifest.icon.clone())
    };
    let title = script.manifest.title(script.id());
    let listed = match &script.manifest.actions {
        Json::Null => {
            let (id, own_id) = (script.id().to_owned(), script.id().to_owned());
            return Ok(vec![Button { id, own_id, name: title.to_owned(), icon: icon() }]);
        }
        Json::Array(listed) if listed.is_empty() => return Err("lists no button".into()),
        Json::Array(listed) => listed.items(),
        other => return Err(format!("must be a list of maps, got {}", other.kind())),
    };
    if listed.len() > MAX_BUTTONS {
        return Err(format!("lists {} buttons, which exceeds the limit of {MAX_BUTTONS}", listed.len()));
    }
    let mut buttons: Vec<Button> = Vec::new();
    for one in listed {
        let Json::Object(entries) = &one else {
            return Err(format!("lists {one}, which is not a map"));
        };
        if let Some(key) = entries.keys().into_iter().find(|key| !KEYS.contains(&&**key)) {
            return Err(format!("has the unknown key `{key}`{}", did_you_mean(&key, KEYS)));
        }
        let own_id = one.string("id");
        let is_id = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        if own_id.is_empty() || own_id.len() > MAX_ID || !own_id.chars().all(is_id) {
            return Err(format!(
                "has the invalid id {own_id:?}; an id has 1 to {MAX_ID} characters of a-z, A-Z, 0-9, _ and -"
            ));
        }
        if buttons.iter().any(|known| known.own_id == own_id) {
            return Err(format!("has the id `{own_id}` twice"));
        }
        let name = text(&one, "name", MAX_NAME)?.unwrap_or_else(|| format!("{title} ({own_id})"));
        let icon = text(&one, "icon_url", MAX_ICON)?.or_else(icon);
        buttons.push(Button { id: format!("{}.{own_id}", script.id()), own_id, name, icon });
    }
    Ok(buttons)
}

/// Returns a text of a button; `None` if it is missing or empty.
fn text(button: &Json, key: &'static str, most: usize) -> Result<Option<String>, String> {
    match button.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Text(text)) if text.as_str().is_empty() => Ok(None),
        Some(Json::Text(text)) if text.as_str().len() <= most => Ok(Some(text.as_str().to_owned())),
        Some(Json::Text(_)) => Err(format!("has a `{key}` that exceeds the limit of {most} bytes")),
        Some(other) => Err(format!("has a `{key}` that is {} instead of a text", other.kind())),
    }
}

/// Returns the problem of a function `action` in a file of another kind: it would never be called.
pub(crate) fn misplaced(ast: &AST, file: &SourceFile, source: &str, does_more: bool) -> Option<Diagnostic> {
    let is_meant = |params: &[&str]| params.is_empty() || params.contains(&"body");
    let found = ast.iter_functions().any(|function| function.name == ACTION && is_meant(&function.params));
    (file.kind != Kind::Action && found).then(|| {
        let what =
            format!("`{ACTION}` never runs in a {}: it belongs to a file in actions/", file.kind.as_str());
        let problem = Diagnostic::of(Code::MisplacedHook, file, what).at_function(source, ACTION);
        match does_more {
            true => problem.help("move the function to a file in actions/, or rename it").warning(),
            false => problem.help("move the file to actions/"),
        }
    })
}

/// Returns the problems of filter and tool functions in a file of actions: they would never run.
pub(crate) fn misplaced_functions(ast: &AST, file: &SourceFile, source: &str) -> Vec<Diagnostic> {
    if !ast.iter_functions().any(|function| function.name == ACTION) {
        return Vec::new();
    }
    let belongs = |name: &str| match name {
        "handler" | "tools" | "prompts" | "resources" => Some("tools"),
        name => Hook::from_name(name).map(|_| "filters"),
    };
    let found = ast.iter_functions().filter_map(|function| Some((function.name, belongs(function.name)?)));
    found
        .map(|(name, folder)| {
            let what = format!("`{name}` is a function of {folder} and never runs in an action");
            let problem = Diagnostic::of(Code::MisplacedHook, file, what).at_function(source, name);
            Diagnostic {
                severity: Severity::Warning,
                ..problem.help(format!("move the function to a file in {folder}/, or rename it"))
            }
        })
        .collect()
}
