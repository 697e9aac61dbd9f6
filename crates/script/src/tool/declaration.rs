//! Reads the tools that a script declares, when it is loaded.

use super::function::ToolFunction;
use crate::declare::hooks::{self, Param};
use crate::declare::schedule::{self, FunctionRef, ScheduledCall};
use crate::diagnostic::{self, Cause, Code, Diagnostic};
use crate::load::source::SourceFile;
use crate::script::Script;
use rhai::{AST, Dynamic, FnPtr};
use valvehouse_core::error::{DeclarationError, Misdeclaration};
use valvehouse_core::filter::Hook;
use valvehouse_core::limits::shortened;
use valvehouse_core::text::did_you_mean;
use valvehouse_core::tool::ToolSpec;
use valvehouse_dialect::answer::summary_of_run;
use valvehouse_dialect::value::json_of;
use valvehouse_json::Json;

/// The help for the declaration of a tool.
const DECLARED: &str = "declare `description`, `tag`, `timeout` and `retry` in the opening comment, and the \
                        arguments in `const parameters = #{ city: #{ type: \"string\", required: true, \
                        description: \"…\" } };`";

/// The help for the return values of a module's functions.
const LISTS: &str = "return a list of maps from `fn tools()`, `[#{ name: \"weather\", description: \"…\", \
                     handler: weather }]`, and a map `#{ description, tags }` from `fn tool_info()`";

/// The maximum number of patterns in the parameters of all tools of a module. Each takes time to compile and up to
/// one megabyte.
const MAX_PATTERNS: usize = 256;
/// The maximum number of tools in one module.
const MAX_TOOLS: usize = 128;

/// Returns the tools of a script, and the problems of those that are left out. If no tool is left, at least one
/// problem is an error.
pub(crate) fn read(script: &Script, source: &str) -> (Vec<ToolFunction>, Vec<Diagnostic>) {
    let has = |name: &str| script.functions().any(|function| function.name == name);
    match (has("handler"), has("tools")) {
        (true, true) => {
            let both =
                Diagnostic::of(Code::TwoForms, &script.file, "the file has both `handler` and `tools`");
            let both = both.at_function(source, "tools");
            (
                Vec::new(),
                vec![both.help("write one tool (`fn handler`) or a list of tools (`fn tools`) per file")],
            )
        }
        (false, false) if script.pipe.is_some() || is_serving(script) => (Vec::new(), Vec::new()),
        (false, false) => (Vec::new(), vec![no_handler(script, source)]),
        (true, false) => {
            let read = single(script).and_then(|declared| {
                let handler = FunctionRef::from_name("handler");
                ToolFunction::new(script, declared, &handler, &[], None)
            });
            match read {
                Ok(tool) => (vec![tool], Vec::new()),
                Err(wrong) => {
                    (Vec::new(), wrong.0.into_iter().map(|what| located(script, source, "", what)).collect())
                }
            }
        }
        (false, true) => module(script, source),
    }
}

/// Creates a diagnostic of the tool with this name in a module, or of the file's only tool.
fn located(script: &Script, source: &str, tool: &str, what: Misdeclaration) -> Diagnostic {
    let Misdeclaration { message, path, meant } = what;
    let problem = Diagnostic::of(Code::BadTool, &script.file, message).help(DECLARED);
    let problem = match meant {
        Some((found, instead)) => problem.because(Cause::Key { found, instead }),
        None => problem,
    };
    let in_code = problem.clone().at_path(source, &format!("{tool}.{path}"));
    match in_code.line {
        Some(_) => in_code,
        None => problem.at_frontmatter(source, &path, &path),
    }
}

fn no_handler(script: &Script, source: &str) -> Diagnostic {
    let names: Vec<&str> = script.functions().map(|function| function.name).collect();
    let hook = names.iter().find_map(|name| Hook::from_name(name));
    let near = names.iter().find(|name| !did_you_mean(name, ["handler", "tools"]).is_empty());
    let problem = Diagnostic::of(Code::NoHandler, &script.file, "missing `handler`");
    if hook.is_none() && names.contains(&"action") {
        return problem
            .at_function(source, "action")
            .help("move the file to actions/; `action` handles a button");
    }
    match (hook, near) {
        (Some(hook), _) => problem
            .at_function(source, hook.name())
            .help(format!("move the file to filters/; `{hook}` is a hook of filters")),
        (None, Some(near)) => problem.at_function(source, near).meant("handler"),
        (None, None) => {
            problem.help("write `fn handler(args) { … }`, or `fn tools() { [#{ name: …, handler: … }] }`")
        }
    }
}

/// Returns the declaration of a file with one tool: its opening comment and the constants `tool` and `parameters`.
fn single(script: &Script) -> Result<Json, DeclarationError> {
    let manifest = &script.manifest;
    let declared = Json::from([("name", script.id().into())]);
    for key in ["description", "tag", "timeout", "retry", "idempotent"] {
        if let Some(text) = manifest.get(key).filter(|text| !text.is_empty()) {
            declared.edit(key, text);
        }
    }
    match &manifest.tool {
        Json::Null => {}
        Json::Object(more) => {
            for (key, value) in more.entries() {
                if key == "name" && value.as_str() != Some(script.id()) {
                    let what =
                        format!("invalid `tool.name`: expected the file's name {}, got {value}", script.id());
                    return Err(Misdeclaration::at("tool.name", what).into());
                }
                declared.edit(&key, value);
            }
        }
        other => {
            let what = format!("invalid `tool`: expected a map, got {}", other.kind());
            return Err(Misdeclaration::at("tool", what).into());
        }
    }
    if !manifest.parameters.is_null() {
        declared.edit("parameters", manifest.parameters.clone());
    }
    Ok(declared)
}

/// Returns `true` if a script serves prompts or resources; such a script needs no tool.
fn is_serving(script: &Script) -> bool {
    script.functions().any(|function| matches!(function.name, "prompts" | "resources"))
}

/// Adds the number of patterns that a tool declares, and returns the sum.
fn more_patterns(sum: &mut usize, tool: &ToolFunction) -> usize {
    *sum += tool.declared.spec.parameters.patterns();
    *sum
}

/// Returns the tools that a module lists. An invalid one is left out; the others are loaded.
fn module(script: &Script, source: &str) -> (Vec<ToolFunction>, Vec<Diagnostic>) {
    let failed = |function: &str, why: String| {
        let problem = Diagnostic::of(Code::BadToolList, &script.file, format!("`{function}()` {why}"));
        (Vec::new(), vec![problem.at_function(source, function).help(LISTS)])
    };
    let default_tags = match tool_info(script) {
        Ok(info) => info.tags,
        Err(why) => return failed("tool_info", why),
    };
    let failure = |error: &rhai::EvalAltResult| format!("failed: {}", summary_of_run(error));
    if script.manifest.ttl.is_some() {
        // With `ttl`, the host calls `tools()` in the background. The list may come from another version, so
        // missing functions are warnings.
        let known = script.settings.lists.get(ScheduledCall::Tools).map(schedule::read);
        let Some(Ok(listed)) = known else { return (Vec::new(), Vec::new()) };
        let (tools, mut problems) = of_list(script, source, &listed, &default_tags);
        problems.iter_mut().for_each(|problem| problem.severity = diagnostic::Severity::Warning);
        return (tools, problems);
    }
    match script.list("tools") {
        Ok(listed) => of_list(script, source, &listed.flatten(), &default_tags),
        Err(error) => {
            let (tools, problems) = failed("tools", failure(&error));
            let help = |problem: Diagnostic| match script.help_for_list() {
                Some(help) => problem.help(help),
                None => problem,
            };
            (tools, problems.into_iter().map(help).collect())
        }
    }
}

/// Checks a list that the host has called `tools()` for.
///
/// # Errors
/// Returns the reason if none of its tools is usable.
pub(crate) fn check_list(script: &Script, written: &Json) -> Result<(), String> {
    let listed = schedule::read(written).map_err(|error| summary_of_run(&error))?;
    let (tools, problems) = of_list(script, "", &listed, &[]);
    let why = problems.first().map_or("lists no tool", |problem| &problem.message);
    if tools.is_empty() { Err(format!("invalid list of tools: {why}")) } else { Ok(()) }
}

/// Returns the tools of a list, and its problems.
fn of_list(
    script: &Script,
    source: &str,
    listed: &Dynamic,
    default_tags: &[String],
) -> (Vec<ToolFunction>, Vec<Diagnostic>) {
    let failed = |function: &str, why: String| {
        let problem = Diagnostic::of(Code::BadToolList, &script.file, format!("`{function}()` {why}"));
        (Vec::new(), vec![problem.at_function(source, function).help(LISTS)])
    };
    let entries = match listed.as_array_ref() {
        Ok(entries) if entries.len() > MAX_TOOLS => {
            return failed(
                "tools",
                format!("lists {} tools, which exceeds the limit of {MAX_TOOLS}", entries.len()),
            );
        }
        Ok(entries) => entries.to_vec(),
        Err(kind) => return failed("tools", format!("returned {kind}; expected a list of maps")),
    };
    let (mut tools, mut problems): (Vec<ToolFunction>, Vec<Diagnostic>) = (Vec::new(), Vec::new());
    let mut patterns = 0;
    for (index, entry) in entries.iter().enumerate() {
        // A name of another type is not shown.
        let text = |name: &Dynamic| name.as_immutable_string_ref().ok().map(|name| shortened(name.as_str()));
        let name = entry.as_map_ref().ok().and_then(|map| map.get("name").and_then(text));
        let name = name.unwrap_or_else(|| format!("tools()[{index}]"));
        let read = entry_of(entry).and_then(|(declared, handler)| {
            ToolFunction::new(script, declared, &handler, default_tags, None)
        });
        match read {
            Ok(tool) if more_patterns(&mut patterns, &tool) > MAX_PATTERNS => {
                return failed(
                    "tools",
                    format!("exceeded its limit of {MAX_PATTERNS} patterns in all tools"),
                );
            }
            Ok(tool) if tools.iter().any(|other| other.declared.spec.name == tool.declared.spec.name) => {
                let twice = format!("duplicate tool `{name}`: the later one is used");
                let twice = located(script, source, &name, twice.into());
                let twice = Diagnostic { code: Code::SameTool, ..twice }.help("rename one of the two");
                problems.push(twice.warning());
                tools.retain(|other| other.declared.spec.name != tool.declared.spec.name);
                tools.push(tool);
            }
            Ok(tool) => tools.push(tool),
            Err(wrong) => problems.extend(wrong.0.into_iter().map(|what| {
                let what = what.within("", &format!("the tool `{name}` is left out:"));
                located(script, source, &name, what).warning()
            })),
        }
    }
    if tools.is_empty() {
        let none = if problems.is_empty() { "lists no tool" } else { "lists no valid tool" };
        for problem in &mut problems {
            problem.severity = diagnostic::Severity::Error;
        }
        if problems.is_empty() {
            return failed("tools", none.to_owned());
        }
    }
    (tools, problems)
}

/// The result of `tool_info`.
#[derive(Default)]
struct ModuleInfo {
    /// The purpose of the tools.
    description: Option<String>,
    /// The tags of tools that declare none.
    tags: Vec<String>,
}

/// Returns the description of a module of tools, from its function `tool_info`.
pub(crate) fn module_description(script: &Script) -> Option<String> {
    tool_info(script).ok()?.description
}

fn tool_info(script: &Script) -> Result<ModuleInfo, String> {
    if !script.functions().any(|function| function.name == "tool_info") {
        return Ok(ModuleInfo::default());
    }
    let info = script.list("tool_info").map_err(|error| format!("failed: {}", summary_of_run(&error)))?;
    let info = json_of(&info).map_err(|error| format!("failed: {}", summary_of_run(&error)))?;
    let Json::Object(entries) = &info else {
        return Err(format!("returned {}; expected a map `#{{ description, tags }}`", info.kind()));
    };
    for key in entries.keys() {
        if key != "description" && key != "tags" {
            return Err(format!("returned the unknown key `{key}`; the keys are `description` and `tags`"));
        }
    }
    let description = match info.field("description") {
        Json::Null => None,
        Json::Text(text) => Some(text.into()),
        other => {
            return Err(format!("returned an invalid `description`: expected a text, got {}", other.kind()));
        }
    };
    let tags = match info.field("tags") {
        Json::Null => Ok(Vec::new()),
        Json::Text(text) => Ok(vec![text.into()]),
        Json::Array(tags) => tags
            .items()
            .iter()
            .map(|tag| {
                tag.as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| format!("returned an invalid tag: expected a text, got {}", tag.kind()))
            })
            .collect(),
        other => Err(format!("returned invalid `tags`: expected a list of texts, got {}", other.kind())),
    };
    Ok(ModuleInfo { description, tags: tags? })
}

/// Reads one entry of `tools()`: the declaration of the tool and its function.
fn entry_of(entry: &Dynamic) -> Result<(Json, FunctionRef), DeclarationError> {
    let map =
        entry.as_map_ref().map_err(|kind| DeclarationError::from(format!("expected a map, got {kind}")))?;
    let handler = match map.get("handler") {
        Some(handler) => pointer(handler).map_err(|wrong| Misdeclaration::at("handler", wrong))?,
        None => return Err("missing `handler`".to_owned().into()),
    };
    let mut fields = rhai::Map::clone(&map);
    fields.remove("handler");
    let declared = json_of(&fields.into()).map_err(|error| DeclarationError::from(summary_of_run(&error)))?;
    Ok((declared, handler))
}

/// Reads the value of `handler`.
pub(super) fn pointer(given: &Dynamic) -> Result<FunctionRef, String> {
    match given {
        handler if handler.is::<FnPtr>() => Ok(FunctionRef::from(&handler.clone_cast::<FnPtr>())),
        handler if handler.is::<FunctionRef>() => Ok(handler.clone_cast::<FunctionRef>()),
        text if text.is_string() => Err(format!("`handler` is a text; write Fn(\"{text}\")")),
        other => Err(format!("`handler` is {}, not a function", other.type_name())),
    }
}

impl ToolFunction {
    /// Creates a tool from a function. With `subject`, the first parameter is the argument of that name, otherwise
    /// all arguments.
    pub(super) fn new(
        script: &Script,
        declared: Json,
        handler: &FunctionRef,
        default_tags: &[String],
        subject: Option<&'static str>,
    ) -> Result<Self, DeclarationError> {
        let declared = ToolSpec::declare(&declared, default_tags)?;
        let bound = handler
            .bound
            .iter()
            .map(|value| Ok(json_of(value)?.freeze()))
            .collect::<Result<Vec<_>, Box<rhai::EvalAltResult>>>()
            .map_err(|error| {
                let why = summary_of_run(&error);
                let what = format!("its `handler` has an invalid bound argument: {why}");
                Misdeclaration::at("handler", what)
            })?;
        let params = params(script, &handler.name, bound.len(), &declared.spec, subject);
        let params = params?;
        Ok(Self { declared, function: handler.name.clone(), bound, params, subject })
    }
}

/// Returns the values of a handler's parameters after the curried ones: by name, otherwise the first is `args` and
/// the second `ctx`. The overload with the most parameters that can be satisfied is used.
fn params(
    script: &Script,
    function: &str,
    bound: usize,
    spec: &ToolSpec,
    subject: Option<&str>,
) -> Result<Vec<Param>, Misdeclaration> {
    let mut overloads: Vec<Vec<&str>> = script
        .functions()
        .filter(|known| known.name == function && known.params.len() >= bound)
        .map(|known| known.params)
        .collect();
    if overloads.is_empty() {
        let names =
            script.functions().map(|function| function.name).filter(|name| !name.starts_with("anon$"));
        let hint = did_you_mean(function, names);
        let what = match bound {
            0 => format!("`handler` names the unknown function `{function}`{hint}"),
            _ => format!("`handler` binds {bound} arguments, and `{function}` takes fewer{hint}"),
        };
        return Err(Misdeclaration::at("handler", what));
    }
    overloads.sort_by_key(|params| std::cmp::Reverse(params.len()));
    let mut first = None;
    for names in &overloads {
        let own = names[bound..].iter().enumerate();
        match own.map(|(place, name)| param(place, name, spec, subject)).collect() {
            Ok(params) => return Ok(params),
            Err(wrong) => first = first.or(Some(wrong)),
        }
    }
    Err(first.unwrap_or_else(|| Misdeclaration::at("handler", "")))
}

fn param(place: usize, name: &str, spec: &ToolSpec, subject: Option<&str>) -> Result<Param, Misdeclaration> {
    let wrong = |what: String| Err(Misdeclaration::at(name, what));
    let is_argument =
        || spec.parameters.schema().get("properties").is_some_and(|all| all.get(name).is_some());
    match (name, hooks::param(name), place) {
        ("args", ..) => Ok(Param::Subject),
        _ if subject == Some(name) => Ok(Param::Subject),
        ("ctx" | "context", ..) => Ok(Param::Context),
        (_, Some(param), _) => Ok(param),
        _ if name == hooks::OF_TOOLS.0 => Ok(hooks::OF_TOOLS.1),
        _ if let Some(help) = hooks::help_elsewhere(name) => {
            wrong(format!("the handler has an unknown parameter `{name}`: {help}"))
        }
        _ if is_argument() => wrong(format!(
            "the handler has the argument `{name}` as a parameter: write `fn handler(args)` and `args.{name}`"
        )),
        (_, None, 0) => Ok(Param::Subject),
        (_, None, 1) => Ok(Param::Context),
        _ => {
            let known: Vec<&str> =
                ["args", "ctx", hooks::OF_TOOLS.0].into_iter().chain(hooks::param_names()).collect();
            let hint = did_you_mean(name, known.iter().copied());
            wrong(format!(
                "the handler has an unknown parameter `{name}`{hint}; its parameters are {}",
                known.join(", ")
            ))
        }
    }
}

/// Returns the problem of a hook in a tool's file: it would never run.
pub(crate) fn misplaced_hooks(ast: &AST, file: &SourceFile, source: &str) -> Vec<Diagnostic> {
    let is_tool = ast
        .iter_functions()
        .any(|function| matches!(function.name, "handler" | "tools" | "prompts" | "resources"));
    let hooks = ast.iter_functions().filter_map(|function| Hook::from_name(function.name));
    hooks
        .filter(|_| is_tool)
        .map(|hook| {
            Diagnostic::of(
                Code::MisplacedHook,
                file,
                format!("`{hook}` is a hook of filters and never runs in a tool"),
            )
            .at_function(source, hook.name())
            .help("move the hook to a file in filters/")
            .warning()
        })
        .collect()
}
