//! Writes the script and its test from the parts of a plugin.

use crate::docs::{self, FunctionDocs};
use crate::names;
use crate::plugin::{Attribute, Plugin, PluginKind, is_property, of_self};
use crate::python::{self, Function, ParamKind, Stmt, StmtKind, SyntaxError};
use crate::report::{LineCount, Note, NoteKind};
use crate::schema::Schema;
use crate::skeleton::{self, Trials};
use crate::text::{first_name, last_name};
use crate::translate::{Effects, FunctionRef, Owner, Role, Translator, has_word, head_line};
use crate::value::{self, Value};
use crate::valves::Valve;
use std::collections::BTreeSet;
use std::fmt;

/// The maximum size of a Python file in bytes.
pub const MAX_BYTES: usize = 512 * 1024;

/// A draft of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The kind of the plugin.
    pub kind: PluginKind,
    /// The id: the name of the file without its extension.
    pub id: String,
    /// The source of the script.
    pub script: String,
    /// The source of the test, which fails until the author has written it.
    pub test: String,
    /// The tests to try on the script: the first one of each that fails on `idle` is one for `test_of`.
    pub trials: Vec<Trials>,
    /// The script with hooks and tools that do nothing.
    pub idle: String,
    /// The notes, by line: lines left to the author and differences to check.
    pub notes: Vec<Note>,
    /// The numbers of all code lines and of those that were left as `// TODO`.
    pub lines: LineCount,
    /// `true` if the plugin has no function that the host calls.
    pub is_empty: bool,
}

impl Draft {
    /// Returns files of tests with all of the trials. `test_A_B` is body `B` of trial `A`.
    pub fn tried(&self) -> Vec<String> {
        skeleton::tried(&self.trials)
    }

    /// Returns the source of the test with the chosen body of each trial; one without a choice is left to the author.
    pub fn test_of(&self, chosen: &[Option<usize>]) -> String {
        skeleton::test(&self.id, &self.trials, chosen)
    }
}

/// The reason why a file has no draft.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortError {
    /// The file is not valid Python.
    Syntax(SyntaxError),
    /// The file is larger than [`MAX_BYTES`].
    TooLong,
    /// The file has no plugin class.
    NoPlugin,
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => error.fmt(f),
            Self::TooLong => write!(f, "the file has more than {MAX_BYTES} bytes; port its parts separately"),
            Self::NoPlugin => f.write_str(
                "no plugin in the file: expected `class Filter`, `Pipe`, `Tools`, `Action` or `Pipeline`",
            ),
        }
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Syntax(error) => Some(error),
            Self::TooLong | Self::NoPlugin => None,
        }
    }
}

/// Drafts a script for a Python plugin without executing it. `name` is the name of its file.
///
/// # Errors
/// Fails if the source is not valid Python, is larger than [`MAX_BYTES`], or has no plugin class.
pub fn port(source: &str, name: &str) -> Result<Draft, PortError> {
    if source.len() > MAX_BYTES {
        return Err(PortError::TooLong);
    }
    let module = python::parse(source).map_err(PortError::Syntax)?;
    let plugin = Plugin::of(&module).ok_or(PortError::NoPlugin)?;
    Ok(draft(&plugin, source, name))
}

fn draft(plugin: &Plugin<'_>, source: &str, name: &str) -> Draft {
    let mut valves = plugin.valves.map_or_else(Vec::new, |class| Valve::all(class, &plugin.constants));
    for valve in &mut valves {
        if let Some(value) = plugin.overrides.get(&valve.name) {
            valve.value = Some(value.clone());
        }
    }
    if plugin.class.name == "Pipeline" {
        valves.retain(|valve| valve.name != "pipelines");
    }
    let user_valves = plugin.user_valves.map_or_else(Vec::new, |class| Valve::all(class, &plugin.constants));
    let mut translator = Translator::new(plugin, source, &valves, &user_valves);
    let tools = if plugin.kind == PluginKind::Tool { public_methods(plugin) } else { Vec::new() };
    translator.set_tools(tools.iter().map(|tool| tool.name.clone()));
    count_heads(&mut translator, plugin, &valves, &user_valves);

    let mut functions: Vec<String> = Vec::new();
    let mut id = names::id(name);
    let one_tool = match tools.as_slice() {
        [one] => Some(*one),
        _ => None,
    };
    if let Some(tool) = one_tool {
        id = names::id(&tool.name);
        translator.function_names.insert((Owner::Plugin, tool.name.clone()), "handler".to_owned());
    }
    let hooks = hooks(plugin);
    let mut hook_names = Vec::new();
    for (hook, function) in &hooks {
        translator.begin(Owner::Plugin, &function.name);
        let of = FunctionRef { owner: Owner::Plugin, function };
        functions.push(translator.function(&of, Role::Hook, hook));
        hook_names.push(*hook);
    }
    if let Some(pipes) = listed_pipes(plugin).filter(|_| !hook_names.contains(&"pipes")) {
        functions.insert(0, format!("fn pipes() {{\n    {}\n}}", pipes.code().replace('\n', "\n    ")));
    }
    let mut parameters = String::new();
    if let Some(tool) = one_tool {
        let declared = declared_parameters(&mut translator, plugin, tool);
        parameters = format!("const parameters = {};", value::map(&declared));
    } else if plugin.kind == PluginKind::Tool {
        functions.push(tools_function(&mut translator, plugin, &tools));
    }
    for tool in &tools {
        translator.begin(Owner::Plugin, &tool.name);
        let key = (Owner::Plugin, tool.name.clone());
        let name =
            translator.function_names.get(&key).cloned().unwrap_or_else(|| names::function(&tool.name));
        let of = FunctionRef { owner: Owner::Plugin, function: tool };
        functions.push(translator.function(&of, Role::Tool, &name));
    }
    translator.called_functions(&mut functions);
    let computed = translator.computed_functions();
    translator.called_functions(&mut functions);
    functions.extend(computed);
    left_over(&mut translator, plugin);
    unreached(&mut translator, plugin);
    for base in &plugin.foreign_bases {
        translator.effects.count.left(plugin.line, plugin.line);
        translator.effects.notes.push(Note {
            kind: NoteKind::Python,
            text: format!("the base class `{base}`, which is not in this file: its hooks and settings"),
            line: plugin.line,
            is_todo: true,
        });
    }
    if hook_names.is_empty() && tools.is_empty() {
        translator.effects.notes.push(Note {
            kind: NoteKind::Python,
            text:
                "the class defines no hook: `inlet`, `outlet`, `stream`, `pipe`, `action`, or a method of a tool"
                    .to_owned(),
            line: 1,
            is_todo: true,
        });
    }
    let is_empty = hook_names.is_empty() && tools.is_empty();

    let effects = translator.effects.clone();
    functions.extend(effects.helpers.iter().map(|helper| helper.code().to_owned()));
    for (name, variable) in &effects.environment {
        valves.push(Valve::of_environment(name, variable));
    }
    let code = functions.join("\n\n");
    let mut notes = effects.notes.clone();
    notes.sort();
    notes.dedup();
    notes.sort_by_key(|note| note.line);
    let lines = effects.count.lines();

    let mut out = String::from("/*\n");
    let title = names::id(name);
    let head = front(
        plugin,
        &title,
        one_tool,
        &effects.capabilities,
        &hosts(&effects, &plugin.constants, &valves, &code),
        lines.left > 0,
    );
    out.push_str(&head);
    out.push_str("*/\n");
    if plugin.kind == PluginKind::Pipe && hook_names.contains(&"pipes") && waits(&functions, &hook_names) {
        out.push_str("\n// The list of models is fetched in the background.\nconst ttl = \"10m\";\n");
    }
    for (name, valves) in [("Valves", &valves), ("UserValves", &user_valves)] {
        if !valves.is_empty() {
            let all: String = valves
                .iter()
                .map(|valve| format!("    {},\n", valve.code().replace('\n', "\n    ")))
                .collect();
            out.push_str(&format!("\nconst {name} = #{{\n{all}}};\n"));
        }
    }
    let constants: Vec<String> = effects
        .constants
        .iter()
        .filter(|name| has_word(&code, &names::variable(name)))
        .filter_map(|name| {
            Some(format!("const {} = {};", names::variable(name), plugin.constants.get(name)?.code()))
        })
        .collect();
    let switches = switches(plugin);
    for group in [switches, constants] {
        if !group.is_empty() {
            out.push_str(&format!("\n{}\n", group.join("\n")));
        }
    }
    if !parameters.is_empty() {
        out.push_str(&format!("\n{parameters}\n"));
    }
    let entries: BTreeSet<String> = match one_tool {
        Some(_) => BTreeSet::from(["handler".to_owned()]),
        None => {
            let of_tool = |tool: &&Function| {
                translator.function_names.get(&(Owner::Plugin, tool.name.clone())).cloned()
            };
            let hooks = hook_names.iter().filter(|name| **name != "pipes").map(|name| (*name).to_owned());
            hooks.chain(tools.iter().filter_map(of_tool)).collect()
        }
    };
    let idle = format!("{out}\n{}\n", skeleton::idle(&functions, &entries).join("\n\n"));
    out.push_str(&format!("\n{code}\n"));
    let trials = skeleton::trials(plugin, &tools, &valves, &effects.capabilities, &hook_names);
    let test = skeleton::test(&id, &trials, &[]);
    Draft { kind: plugin.kind, id, script: out, test, trials, idle, notes, lines, is_empty }
}

/// Counts the lines of imports, classes, settings and constants.
fn count_heads(
    translator: &mut Translator<'_>,
    plugin: &Plugin<'_>,
    valves: &[Valve],
    user_valves: &[Valve],
) {
    for (first, last, _) in &plugin.import_lines {
        translator.effects.count.seen(*first, *last);
    }
    for (first, last) in &plugin.constant_lines {
        translator.effects.count.seen(*first, *last);
    }
    for valve in valves.iter().chain(user_valves) {
        let (first, last) = valve.lines;
        if valve.value.is_none() {
            translator.effects.count.left(first, last);
            translator.effects.notes.push(Note {
                kind: NoteKind::Settings,
                text: format!("the default of `{}` is computed: write a literal", valve.name),
                line: first,
                is_todo: true,
            });
        } else {
            translator.effects.count.seen(first, last);
        }
    }
    for stmt in &plugin.class.body {
        if let StmtKind::Class(_) = &stmt.kind {
            translator.effects.count.seen(stmt.line, stmt.line);
        }
    }
    if let Some(init) = plugin.methods.get("__init__") {
        translator.effects.count.seen(head_line(init), head_line(init));
        for stmt in &init.body {
            stmt.walk(&mut |stmt| {
                if docs::is_comment(stmt) {
                    return;
                }
                translator.effects.count.seen(stmt.line, stmt.end_line);
                // The initial value of an attribute that a hook uses.
                if let StmtKind::Assign { targets, value } = &stmt.kind
                    && let Some(name) = targets.first().and_then(of_self)
                    && plugin.attributes.get(name) == Some(&Attribute::State)
                    && let Some(why) = translator.hindrance(value)
                {
                    translator.effects.count.left(stmt.line, stmt.end_line);
                    translator.effects.notes.push(Note {
                        text: format!("`self.{name}`: {}", why.text),
                        line: stmt.line,
                        ..why
                    });
                }
            });
        }
    }
}

/// Counts the functions that no hook calls and the statements that have no place in a script.
fn left_over(translator: &mut Translator<'_>, plugin: &Plugin<'_>) {
    for name in ["on_startup", "on_shutdown"] {
        let Some(function) = plugin.methods.get(name) else { continue };
        let is_plain = |stmt: &Stmt| {
            docs::is_comment(stmt)
                || matches!(&stmt.kind, StmtKind::Pass)
                || matches!(&stmt.kind, StmtKind::Expr(expr) if is_print(expr))
        };
        if function.body.iter().all(is_plain) {
            continue;
        }
        for stmt in &function.body {
            stmt.walk(&mut |stmt| {
                if !docs::is_comment(stmt) {
                    translator.effects.count.left(stmt.line, stmt.end_line);
                }
            });
        }
        translator.effects.notes.push(Note {
            kind: NoteKind::State,
            text: format!("`{name}`: a script does not run between calls"),
            line: head_line(function),
            is_todo: true,
        });
    }
    for stmt in &plugin.other {
        if let StmtKind::Expr(expr) = &stmt.kind
            && (is_print(expr) || translator.is_needless(expr))
        {
            translator.effects.count.seen(stmt.line, stmt.end_line);
            continue;
        }
        translator.effects.count.left(stmt.line, stmt.end_line);
        translator.effects.notes.push(Note {
            kind: NoteKind::Python,
            text: "a statement outside of functions".to_owned(),
            line: stmt.line,
            is_todo: true,
        });
    }
}

/// Counts the functions that no translated line calls, and the imports of packages.
fn unreached(translator: &mut Translator<'_>, plugin: &Plugin<'_>) {
    let methods = plugin.methods.values().map(|function| (Owner::Plugin, *function));
    let functions = plugin.functions.values().map(|function| (Owner::Module, *function));
    let objects = plugin.objects.iter().enumerate().filter(|(_, object)| !object.is_error);
    let of_objects = objects
        .flat_map(|(at, object)| object.methods.values().map(move |function| (Owner::Object(at), *function)));
    let all: Vec<(Owner, &Function)> = methods.chain(functions).chain(of_objects).collect();
    for (owner, function) in all {
        let is_known =
            matches!(function.name.as_str(), "__init__" | "on_startup" | "on_shutdown" | "on_valves_updated")
                && owner == Owner::Plugin;
        if is_known || translator.is_translated(owner, &function.name) {
            continue;
        }
        for stmt in &function.body {
            stmt.walk(&mut |stmt| {
                if !docs::is_comment(stmt) {
                    translator.effects.count.left(stmt.line, stmt.end_line);
                }
            });
        }
    }
    for (name, attribute) in &plugin.attributes {
        if *attribute != Attribute::State || plugin.initial.contains_key(name) {
            continue;
        }
        let mut setters = plugin.methods.values().filter(|function| sets(function, name)).peekable();
        if setters.peek().is_some()
            && let Some(setter) =
                setters.find(|function| !translator.is_translated(Owner::Plugin, &function.name))
        {
            translator.effects.notes.push(Note {
                kind: NoteKind::State,
                text: format!(
                    "`self.{name}` is set in `{}`, which no hook calls: set it where it is used",
                    setter.name
                ),
                line: head_line(setter),
                is_todo: false,
            });
        }
    }
    for (first, last, module) in &plugin.import_lines {
        if !is_known_module(module) {
            translator.effects.count.left(*first, *last);
            translator.effects.notes.push(Note {
                kind: NoteKind::Package,
                text: format!("`{module}`: packages cannot be installed"),
                line: *first,
                is_todo: true,
            });
        }
    }
}

/// Returns `true` if a method assigns an attribute of the plugin.
fn sets(function: &Function, name: &str) -> bool {
    let mut found = false;
    for stmt in &function.body {
        stmt.walk(&mut |stmt| {
            if let StmtKind::Assign { targets, .. } = &stmt.kind {
                found |= targets.iter().any(|target| of_self(target) == Some(name));
            }
        });
    }
    found
}

/// Returns `true` for a module of Python, of Open WebUI or of a package that has counterparts.
fn is_known_module(module: &str) -> bool {
    const KNOWN: [&str; 80] = [
        "__future__",
        "abc",
        "aiohttp",
        "argparse",
        "ast",
        "asyncio",
        "atexit",
        "base64",
        "bs4",
        "builtins",
        "collections",
        "concurrent",
        "contextlib",
        "contextvars",
        "copy",
        "csv",
        "dataclasses",
        "datetime",
        "dateutil",
        "difflib",
        "enum",
        "fastapi",
        "fnmatch",
        "functools",
        "gc",
        "glob",
        "gzip",
        "hashlib",
        "hmac",
        "html",
        "http",
        "httpx",
        "importlib",
        "inspect",
        "io",
        "itertools",
        "json",
        "logging",
        "loguru",
        "math",
        "mimetypes",
        "numbers",
        "open_webui",
        "operator",
        "os",
        "pathlib",
        "platform",
        "pprint",
        "pydantic",
        "pydantic_core",
        "pytz",
        "queue",
        "random",
        "re",
        "requests",
        "secrets",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "starlette",
        "statistics",
        "string",
        "struct",
        "subprocess",
        "sys",
        "tempfile",
        "textwrap",
        "threading",
        "tiktoken",
        "time",
        "traceback",
        "types",
        "typing",
        "typing_extensions",
        "unicodedata",
        "urllib",
        "uuid",
        "warnings",
        "zoneinfo",
    ];
    let root = first_name(module);
    KNOWN.contains(&root) || matches!(module, "utils.pipelines.main" | "urllib3" | "orjson")
}

fn is_print(expr: &python::Expr) -> bool {
    match &expr.kind {
        python::ExprKind::Call(of, _) => {
            of.path().is_some_and(|path| path == "print" || path.contains("log"))
        }
        _ => false,
    }
}

/// Returns the hooks of a plugin with their names in a script.
fn hooks<'a>(plugin: &Plugin<'a>) -> Vec<(&'static str, &'a Function)> {
    let names: &[(&str, &'static str)] = match plugin.kind {
        PluginKind::Filter | PluginKind::Pipe => &[
            ("inlet", "inlet"),
            ("request", "pre_chat"),
            ("stream", "stream"),
            ("outlet", "outlet"),
            ("pipes", "pipes"),
            ("pipe", "pipe"),
        ],
        PluginKind::Action => &[("action", "action")],
        PluginKind::Tool => &[],
    };
    names.iter().filter_map(|(name, hook)| Some((*hook, *plugin.methods.get(name)?))).collect()
}

fn public_methods<'a>(plugin: &Plugin<'a>) -> Vec<&'a Function> {
    let names = plugin.method_order.iter().filter(|name| !name.starts_with('_'));
    let all = names.filter_map(|name| plugin.methods.get(name).copied());
    all.filter(|function| !is_property(function)).collect()
}

/// Returns the models that a pipe lists in an attribute.
fn listed_pipes(plugin: &Plugin<'_>) -> Option<Value> {
    if plugin.kind != PluginKind::Pipe {
        return None;
    }
    let list = ["pipelines", "pipes"].iter().find_map(|name| plugin.initial.get(*name))?;
    match Value::of(list, &plugin.constants)? {
        Value::List(all) if all.iter().all(|one| matches!(one, Value::Map(_))) && !all.is_empty() => {
            Some(Value::List(all))
        }
        _ => None,
    }
}

/// Returns `true` if the hook `pipes` waits for something, directly or through other functions.
fn waits(functions: &[String], hooks: &[&str]) -> bool {
    let name_of = |function: &str| {
        let name = function.strip_prefix("fn ").and_then(|rest| rest.split('(').next());
        name.filter(|name| !name.is_empty()).map(str::to_owned)
    };
    let at = hooks.iter().position(|hook| *hook == "pipes");
    let mut next: Vec<&String> = at.and_then(|at| functions.get(at)).into_iter().collect();
    let mut seen: BTreeSet<String> = BTreeSet::from(["pipes".to_owned()]);
    while let Some(text) = next.pop() {
        if ["http::", "llm::", "time::sleep", "parallel("].iter().any(|call| text.contains(call)) {
            return true;
        }
        next.extend(functions.iter().filter(|function| {
            name_of(function).is_some_and(|name| text.contains(&format!("{name}(")) && seen.insert(name))
        }));
    }
    false
}

fn switches(plugin: &Plugin<'_>) -> Vec<String> {
    let of = |name: &str| plugin.initial.get(name).and_then(|value| Value::of(value, &plugin.constants));
    let mut all = Vec::new();
    if plugin.kind == PluginKind::Action {
        let buttons = of("actions").filter(|buttons| *buttons != Value::List(Vec::new()));
        all.extend(buttons.map(|buttons| format!("const actions = {};", buttons.code())));
    }
    if plugin.kind != PluginKind::Filter {
        return all;
    }
    for name in ["toggle", "file_handler"] {
        let value = of(name).or_else(|| plugin.constants.get(name).cloned());
        if value == Some(Value::Bool(true)) {
            all.push(format!("const {name} = true;"));
        }
    }
    if let Some(Value::Text(icon)) = of("icon")
        && !icon.is_empty()
    {
        all.push(format!("const icon = {};", names::quoted(icon.trim())));
    }
    all
}

/// Returns the hosts that the draft needs permission for.
fn hosts(effects: &Effects, constants: &value::Values, valves: &[Valve], code: &str) -> Vec<String> {
    let mut all: std::collections::BTreeSet<String> = effects.hosts.clone();
    for name in &effects.constants {
        constants.get(name).into_iter().for_each(|value| links(value, &mut all));
    }
    if all.is_empty() {
        all.extend(effects.links.iter().cloned());
    }
    let mut all: Vec<String> = all.into_iter().collect();
    for valve in valves {
        if valve.is_address() && has_word(code, &format!("Valves.{}", valve.name)) {
            all.push(format!("valve:{}", valve.name));
        }
    }
    all
}

/// Collects the hosts of the URLs in a constant.
fn links(value: &Value, out: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Text(text) => out.extend(crate::translate::host(text)),
        Value::List(all) => all.iter().for_each(|one| links(one, out)),
        Value::Map(all) => all.iter().for_each(|(_, one)| links(one, out)),
        _ => {}
    }
}

/// Returns the keys of the script's opening comment.
fn front(
    plugin: &Plugin<'_>,
    id: &str,
    tool: Option<&Function>,
    capabilities: &std::collections::BTreeSet<&'static str>,
    hosts: &[String],
    is_draft: bool,
) -> String {
    let mut keys = docs::keys(plugin.docs.unwrap_or(""));
    if !keys.iter().any(|(key, _)| key == "title") {
        let mut title = id.replace(['_', '-'], " ");
        if let Some(first) = title.get(..1).map(str::to_uppercase) {
            title.replace_range(..1, &first);
        }
        keys.insert(0, ("title".to_owned(), title));
    }
    if let Some(tool) = tool {
        let description = docs::line_of(&FunctionDocs::of(&tool.body).description);
        if !description.is_empty() {
            keys.retain(|(key, _)| key != "description");
            keys.push(("description".to_owned(), description));
        }
    }
    if !keys.iter().any(|(key, _)| key == "description") {
        let text = docs::docstring(&plugin.class.body).map(docs::line_of).unwrap_or_default();
        if !text.is_empty() {
            keys.push(("description".to_owned(), text));
        }
    }
    if !capabilities.is_empty() {
        keys.push(("requirements".to_owned(), capabilities.iter().copied().collect::<Vec<_>>().join(", ")));
    }
    if capabilities.contains("http") && !hosts.is_empty() {
        keys.push(("allow_hosts".to_owned(), hosts.join(", ")));
    }
    if is_draft && matches!(plugin.kind, PluginKind::Filter | PluginKind::Action) {
        keys.push(("global".to_owned(), "false".to_owned()));
    }
    keys.iter().map(|(key, value)| format!("{key}: {value}\n")).collect()
}

/// Returns the declarations of a tool's parameters.
fn declared_parameters(translator: &mut Translator<'_>, plugin: &Plugin<'_>, tool: &Function) -> Vec<String> {
    let docs = FunctionDocs::of(&tool.body);
    let mut all = Vec::new();
    for param in tool.params.iter().skip(1) {
        if param.name.starts_with("__") || param.kind != ParamKind::Plain {
            continue;
        }
        let schema = param
            .annotation
            .as_ref()
            .map(|annotation| Schema::of(annotation, &plugin.constants))
            .unwrap_or_default();
        let kind = schema.kind.unwrap_or(match schema.choices.first() {
            Some(Value::Int(_)) => "integer",
            Some(Value::Float(_)) => "number",
            Some(Value::Bool(_)) => "boolean",
            _ => "string",
        });
        let mut entries = vec![format!("type: \"{kind}\"")];
        let field = param.default.as_ref().and_then(field_arguments);
        let given = field.map(given_default);
        match param.default.as_ref().filter(|_| !matches!(given, Some(None))) {
            None if !schema.is_optional => entries.push("required: true".to_owned()),
            None => {}
            Some(default) => match Value::of(given.flatten().unwrap_or(default), &plugin.constants) {
                Some(Value::None) => {}
                Some(value) => {
                    let value = match (kind, value) {
                        ("number", Value::Int(number)) => Value::Float(format!("{number}.0")),
                        (_, value) => value,
                    };
                    entries.push(format!("\"default\": {}", value.code()));
                }
                None => translator.effects.notes.push(Note {
                    kind: NoteKind::Settings,
                    text: format!("the default of `{}` is computed", param.name),
                    line: default.line,
                    is_todo: false,
                }),
            },
        }
        if let (Some(items), "array") = (schema.items, kind) {
            entries.push(format!("items: #{{ type: \"{items}\" }}"));
        }
        if !schema.choices.is_empty() {
            let all: Vec<String> = schema.choices.iter().map(Value::code).collect();
            entries.push(format!("\"enum\": [{}]", all.join(", ")));
        }
        let described =
            field.and_then(|args| args.iter().find(|arg| arg.name.as_deref() == Some("description")));
        let described = match described.and_then(|arg| Value::of(&arg.value, &plugin.constants)) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        };
        if let Some(text) = docs.param(&param.name).or(described.as_deref()) {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            entries.push(format!("description: {}", names::quoted(&text)));
        }
        all.push(format!("{}: {}", names::key(&param.name), value::map(&entries)));
    }
    all
}

/// Returns the arguments of `Field(…)`.
fn field_arguments(default: &python::Expr) -> Option<&[python::Arg]> {
    match &default.kind {
        python::ExprKind::Call(of, args) if last_name(&of.path_or_empty()) == "Field" => Some(args),
        _ => None,
    }
}

/// Returns the default among the arguments of `Field(…)`; `None` for a parameter that must be given.
fn given_default(args: &[python::Arg]) -> Option<&python::Expr> {
    let is_default = |arg: &&python::Arg| match &arg.name {
        Some(name) => name == "default" || name == "default_factory",
        None => true,
    };
    let value = args.iter().find(is_default)?;
    (!matches!(value.value.kind, python::ExprKind::Ellipsis)).then_some(&value.value)
}

fn tools_function(translator: &mut Translator<'_>, plugin: &Plugin<'_>, tools: &[&Function]) -> String {
    let mut out = String::from("fn tools() {\n    [\n");
    for tool in tools {
        let docs = FunctionDocs::of(&tool.body);
        let description =
            if docs.description.is_empty() { tool.name.replace('_', " ") } else { docs.description };
        let parameters = declared_parameters(translator, plugin, tool);
        let key = (Owner::Plugin, tool.name.clone());
        let handler =
            translator.function_names.get(&key).cloned().unwrap_or_else(|| names::function(&tool.name));
        let entries = [
            format!("name: {}", names::quoted(&tool.name)),
            format!("description: {}", names::quoted(&description)),
            format!("parameters: {}", value::map(&parameters)),
            format!("handler: {handler}"),
        ];
        let entries: String = entries
            .iter()
            .map(|entry| format!("            {},\n", entry.replace('\n', "\n            ")))
            .collect();
        out.push_str(&format!("        #{{\n{entries}        }},\n"));
    }
    out.push_str("    ]\n}");
    out
}
