//! The state of a translation: the plugin, the current function and the results.

use super::helper::Helper;
use crate::code::Code;
use crate::kinds::Type;
use crate::names;
use crate::plugin::{Attribute, Plugin};
use crate::python::{Function, Param, Stmt};
use crate::report::{Count, Note, NoteKind};
use crate::scope::Declarations;
use crate::valves::Valve;
use std::collections::{BTreeMap, BTreeSet};

/// The reason why an expression has no translation.
#[derive(Debug, Clone)]
pub(super) struct Hindrance {
    pub(super) kind: NoteKind,
    pub(super) text: String,
}

impl Hindrance {
    pub(super) fn new(kind: NoteKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(super) fn err<T>(kind: NoteKind, text: impl Into<String>) -> Result<T, Self> {
        Err(Self::new(kind, text))
    }
}

pub(super) type Outcome<T = Code> = Result<T, Hindrance>;

/// The owner of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Plugin,
    Module,
    Object(usize),
}

/// A function of the file with its owner.
#[derive(Clone)]
pub(crate) struct FunctionRef<'a> {
    pub(crate) owner: Owner,
    pub(crate) function: &'a Function,
}

/// The caller of a function, which decides its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The host calls it with parameters by name.
    Hook,
    /// The host calls it with a map of arguments.
    Tool,
    /// Other functions call it.
    Plain,
    /// It is a method of an object, which is `this`.
    Method(usize),
}

/// The destination of a generator's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Yields {
    /// They are sent as deltas of the response.
    Sent,
    /// They are collected in a list.
    Collected,
}

#[derive(Debug, Clone)]
pub(super) struct Variable {
    pub(super) code: String,
    pub(super) kind: Type,
}

/// The state of the function that is being translated.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) role: Role,
    pub(super) variables: BTreeMap<String, Variable>,
    pub(super) declarations: Declarations,
    /// The types of variables from the first pass.
    pub(super) joined: BTreeMap<String, Type>,
    /// The variables that hold streamed responses.
    pub(super) streamed: BTreeSet<String>,
    pub(super) yields: Yields,
    /// The variable that holds the error inside a handler.
    pub(super) error: Option<String>,
    pub(super) out: Vec<String>,
    pub(super) indent: usize,
    pub(super) is_closure: bool,
    /// `true` during the first pass, which only infers the types of variables.
    pub(super) is_inferring: bool,
    /// `true` if the next request streams its response.
    pub(super) wants_stream: bool,
    /// `true` in a pipe that yields its answer.
    pub(super) is_pipe_generator: bool,
    /// The variables that hold lines of a streamed response.
    pub(super) line_variables: BTreeSet<String>,
    /// The `name := value` expressions that are assigned before their statement, by place.
    pub(super) hoisted: BTreeSet<usize>,
    /// The variables whose values belong to the host; changes through them are visible to all.
    pub(super) live: BTreeSet<String>,
    /// The loop variables that are written back into their list, with the line that writes them.
    pub(super) written_back: Vec<(String, String)>,
    /// The parameters of inner functions.
    pub(super) closures: BTreeMap<String, Vec<Param>>,
    /// The maps that add a missing key, with the code of its value.
    pub(super) defaults: BTreeMap<String, String>,
    /// The variables whose numbers may be negative.
    pub(super) signed: BTreeSet<String>,
    /// `true` within a `try` that handles missing keys.
    pub(super) needs_keys: bool,
    /// `true` within a `try` that handles a division by zero.
    pub(super) needs_divisor: bool,
}

impl Scope {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            variables: BTreeMap::new(),
            declarations: Declarations::default(),
            joined: BTreeMap::new(),
            streamed: BTreeSet::new(),
            yields: Yields::Sent,
            error: None,
            out: Vec::new(),
            indent: 1,
            is_closure: false,
            is_inferring: false,
            wants_stream: false,
            is_pipe_generator: false,
            line_variables: BTreeSet::new(),
            hoisted: BTreeSet::new(),
            live: BTreeSet::new(),
            written_back: Vec::new(),
            closures: BTreeMap::new(),
            defaults: BTreeMap::new(),
            signed: BTreeSet::new(),
            needs_keys: false,
            needs_divisor: false,
        }
    }
}

/// The needs of the translated functions: capabilities, hosts, helpers, constants and notes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effects {
    pub(crate) capabilities: BTreeSet<&'static str>,
    pub(crate) hosts: BTreeSet<String>,
    /// The hosts of URLs that no request uses directly.
    pub(crate) links: BTreeSet<String>,
    pub(crate) helpers: BTreeSet<Helper>,
    pub(crate) constants: BTreeSet<String>,
    pub(crate) notes: Vec<Note>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) count: Count,
    pub(crate) computed: BTreeSet<String>,
}

pub(crate) struct Translator<'a> {
    pub(super) plugin: &'a Plugin<'a>,
    pub(super) lines: Vec<&'a str>,
    pub(super) valves: BTreeMap<String, Type>,
    pub(super) user_valves: BTreeMap<String, Type>,
    pub(crate) function_names: BTreeMap<(Owner, String), String>,
    /// The methods that use `state`.
    pub(crate) needs_state: BTreeSet<String>,
    /// The methods that use settings of the user, directly or through other methods, without a parameter `__user__`.
    pub(crate) needs_user: BTreeSet<String>,
    pub(crate) tools: BTreeSet<String>,
    pub(crate) effects: Effects,
    pub(crate) queue: Vec<FunctionRef<'a>>,
    pub(super) queued: BTreeSet<(Owner, String)>,
    pub(super) scope: Scope,
    /// The body of the function in translation.
    pub(super) current: &'a [Stmt],
    /// The statement in translation.
    pub(super) statement: Option<&'a Stmt>,
    pub(super) changers: super::aliases::Changers,
    pub(super) next_comment: usize,
    /// The types of the plugin's attributes.
    pub(super) attribute_kinds: BTreeMap<String, crate::kinds::Type>,
    /// The generators whose values are collected in a list.
    pub(super) collected: BTreeSet<String>,
    /// The results for constants that are computed at run time.
    pub(super) computed_codes: BTreeMap<String, Outcome>,
    /// The number of constants and attributes whose values are being translated.
    pub(super) computing: usize,
}

impl<'a> Translator<'a> {
    pub(crate) fn new(
        plugin: &'a Plugin<'a>,
        source: &'a str,
        valves: &[Valve],
        user_valves: &[Valve],
    ) -> Self {
        let types =
            |valves: &[Valve]| valves.iter().map(|valve| (valve.name.clone(), valve.value_type())).collect();
        let mut translator = Self {
            plugin,
            lines: source.lines().collect(),
            valves: types(valves),
            user_valves: types(user_valves),
            function_names: BTreeMap::new(),
            needs_state: BTreeSet::new(),
            needs_user: BTreeSet::new(),
            tools: BTreeSet::new(),
            effects: Effects::default(),
            queue: Vec::new(),
            queued: BTreeSet::new(),
            scope: Scope::new(Role::Plain),
            current: &[],
            statement: None,
            changers: super::aliases::changers(plugin),
            next_comment: 0,
            collected: BTreeSet::new(),
            attribute_kinds: BTreeMap::new(),
            computed_codes: BTreeMap::new(),
            computing: 0,
        };
        translator.name_functions();
        translator.find_state();
        translator.collected = super::generators::collected(plugin);
        translator
    }

    /// Records which methods are tools; call it before the translation.
    pub(crate) fn set_tools(&mut self, tools: impl IntoIterator<Item = String>) {
        self.tools = tools.into_iter().collect();
    }

    fn name_functions(&mut self) {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut add =
            |owner: Owner, name: &str, proposed: String, names: &mut BTreeMap<(Owner, String), String>| {
                let mut code = proposed;
                while !taken.insert(code.clone()) {
                    code.push_str("_2");
                }
                names.insert((owner, name.to_owned()), code);
            };
        for name in self.plugin.methods.keys() {
            add(Owner::Plugin, name, names::function(name), &mut self.function_names);
        }
        for name in self.plugin.functions.keys() {
            add(Owner::Module, name, names::function(name), &mut self.function_names);
        }
        for (at, object) in self.plugin.objects.iter().enumerate() {
            let class = names::snake_case(&names::variable(&object.class.name));
            let class = class.trim_start_matches('_').to_owned();
            for name in object.methods.keys() {
                let proposed = match *name {
                    "__init__" => format!("new_{class}"),
                    _ => format!("{class}_{}", names::variable(name).trim_start_matches('_')),
                };
                add(Owner::Object(at), name, proposed, &mut self.function_names);
            }
        }
    }

    /// Finds the methods that use `state` or settings of the user, directly or through other methods.
    fn find_state(&mut self) {
        let plugin = self.plugin;
        let mut calls: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, function) in &plugin.methods {
            let used = calls.entry(name).or_default();
            for stmt in &function.body {
                stmt.walk(&mut |stmt| {
                    stmt.expressions(&mut |expr| {
                        expr.walk(&mut |expr| used.extend(crate::plugin::of_self(expr)));
                    });
                });
            }
        }
        self.needs_state = spread(&calls, |name| plugin.attributes.get(name) == Some(&Attribute::State));
        let takes_user = |name: &str| {
            plugin.methods.get(name).is_some_and(|of| of.params.iter().any(|param| param.name == "__user__"))
        };
        self.needs_user = spread(&calls, |name| matches!(name, "user_valves" | "UserValves"));
        self.needs_user.retain(|name| !takes_user(name));
    }

    /// Returns the name of a function in the script and queues it for translation.
    pub(super) fn use_function(&mut self, owner: Owner, function: &'a Function) -> String {
        let key = (owner, function.name.clone());
        let name = self.function_names.get(&key).cloned().unwrap_or_else(|| names::function(&function.name));
        if !self.scope.is_inferring && self.queued.insert(key) {
            self.queue.push(FunctionRef { owner, function });
        }
        name
    }

    /// Returns `true` if a function is part of the draft.
    pub(crate) fn is_translated(&self, owner: Owner, name: &str) -> bool {
        self.queued.contains(&(owner, name.to_owned()))
    }

    /// Marks a function as translated, so that it is not queued.
    pub(crate) fn begin(&mut self, owner: Owner, name: &str) {
        self.queued.insert((owner, name.to_owned()));
    }

    pub(super) fn helper(&mut self, helper: Helper) -> &'static str {
        self.effects.helpers.insert(helper);
        helper.name()
    }

    pub(super) fn capability(&mut self, name: &'static str) {
        self.effects.capabilities.insert(name);
    }

    pub(super) fn note(&mut self, kind: NoteKind, text: impl Into<String>, line: usize) {
        self.effects.notes.push(Note { kind, text: text.into(), line, is_todo: false });
    }

    /// Writes a `// TODO` for a part that the translation of a line leaves out.
    pub(super) fn flag(&mut self, kind: NoteKind, text: impl Into<String>, line: usize) {
        let text = text.into();
        self.emit(&format!("// TODO {text}"));
        self.effects.count.left(line, line);
        self.effects.notes.push(Note { kind, text, line, is_todo: true });
    }

    /// Writes lines with the current indentation.
    pub(super) fn emit(&mut self, text: &str) {
        let indent = "    ".repeat(self.scope.indent);
        for line in text.lines() {
            self.scope.out.push(if line.is_empty() { String::new() } else { format!("{indent}{line}") });
        }
    }

    /// Returns an unused name for a variable that the translation adds.
    pub(super) fn fresh(&mut self, base: &str) -> String {
        let mut number = 1_usize;
        loop {
            let name = if number == 1 { base.to_owned() } else { format!("{base}_{number}") };
            number += 1;
            if !self.scope.variables.values().any(|variable| variable.code == name)
                && !self.scope.variables.contains_key(&name)
            {
                return name;
            }
        }
    }

    /// Leaves a statement to the author as `// TODO`.
    pub(super) fn leave(&mut self, stmt: &Stmt, blocked: &Hindrance) {
        self.leave_lines(stmt.line, stmt.end_line, blocked);
    }

    pub(super) fn leave_lines(&mut self, first: usize, last: usize, blocked: &Hindrance) {
        self.effects.count.left(first, last);
        let note = Note { kind: blocked.kind, text: blocked.text.clone(), line: first, is_todo: true };
        self.effects.notes.push(note);
        let mut text = format!("// TODO {}", blocked.text.replace(char::is_control, " "));
        for line in first..=last.max(first) {
            let Some(source) = self.lines.get(line.saturating_sub(1)) else { break };
            text.push_str("\n//     ");
            let source = source.trim_end().trim_start_matches(['\u{feff}', '\u{c}']).trim_start();
            // A carriage return would end the comment.
            text.extend(source.chars().filter(|letter| !letter.is_control()));
        }
        self.emit(&text);
    }

    /// Writes the comments up to a line.
    pub(super) fn comments_to(&mut self, line: usize) {
        let comments = self.plugin.comments;
        while let Some(comment) = comments.get(self.next_comment).filter(|comment| comment.line <= line) {
            self.next_comment += 1;
            let text = comment.text.trim();
            let is_for_tools =
                ["type:", "noqa", "pylint", "pyright", "pragma", "fmt:", "!", "-*-", "mypy", "nosec"]
                    .iter()
                    .any(|start| text.starts_with(start));
            let is_rule = text.chars().all(|letter| !letter.is_alphanumeric());
            if !is_for_tools && !is_rule {
                let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
                self.emit(&format!("// {text}"));
            }
        }
    }

    /// Moves to the first comment after a line.
    pub(super) fn comments_from(&mut self, line: usize) {
        self.next_comment = self.plugin.comments.partition_point(|comment| comment.line <= line);
    }
}

/// Returns the methods that use a name with a property, directly or through other methods.
fn spread(calls: &BTreeMap<&str, BTreeSet<&str>>, is_used: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut callers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut next: Vec<&str> = Vec::new();
    for (name, used) in calls {
        used.iter().for_each(|other| callers.entry(other).or_default().push(name));
        if used.iter().any(|other| is_used(other)) {
            next.push(name);
        }
    }
    let mut found: BTreeSet<String> = BTreeSet::new();
    while let Some(name) = next.pop() {
        if found.insert(name.to_owned()) {
            next.extend(callers.get(name).into_iter().flatten());
        }
    }
    found
}
