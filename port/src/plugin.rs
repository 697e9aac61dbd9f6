//! The parts of a plugin: its class, settings, functions and state.

use crate::attributes;
use crate::docs;
use crate::names;
use crate::python::{Class, Comment, Expr, ExprKind, Function, Module, Stmt, StmtKind};
use crate::text::last_name;
use crate::value::{Value, Values};
use std::collections::{BTreeMap, BTreeSet};

/// The kind of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginKind {
    /// `class Filter`, or a `class Pipeline` with `inlet` or `outlet`.
    Filter,
    /// `class Pipe`, or a `class Pipeline` with `pipe`.
    Pipe,
    /// `class Tools`.
    Tool,
    /// `class Action`.
    Action,
}

impl PluginKind {
    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Pipe => "pipe",
            Self::Tool => "tool",
            Self::Action => "action",
        }
    }
}

/// A class of the file other than the plugin's.
pub(crate) struct Object<'a> {
    pub(crate) class: &'a Class,
    /// The fields of a data class, with their defaults.
    pub(crate) fields: Vec<(String, Option<&'a Expr>)>,
    pub(crate) is_data: bool,
    pub(crate) is_error: bool,
    pub(crate) is_enum: bool,
    /// The classes of the file that it inherits from, nearest first, by their places.
    pub(crate) bases: Vec<usize>,
    pub(crate) methods: BTreeMap<&'a str, &'a Function>,
}

/// The translation of an attribute of the plugin.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attribute {
    /// A constant with this name.
    Constant(String),
    /// An entry of `state`: each turn sets it before it is read, or it never changes.
    State,
    /// A value that the class keeps between calls.
    Kept,
}

/// The maximum size of all constants of a file; further ones are computed at run time.
const MAX_CONSTANTS: usize = 4 * 1024 * 1024;

pub(crate) struct Plugin<'a> {
    pub(crate) kind: PluginKind,
    pub(crate) class: &'a Class,
    /// The class and the classes of the file that it inherits from, nearest first.
    lineage: Vec<&'a Class>,
    /// The line of the class.
    pub(crate) line: usize,
    /// The bases of the class that are not in the file.
    pub(crate) foreign_bases: Vec<String>,
    pub(crate) docs: Option<&'a str>,
    pub(crate) valves: Option<&'a Class>,
    pub(crate) user_valves: Option<&'a Class>,
    pub(crate) methods: BTreeMap<&'a str, &'a Function>,
    pub(crate) method_order: Vec<&'a str>,
    pub(crate) functions: BTreeMap<&'a str, &'a Function>,
    pub(crate) objects: Vec<Object<'a>>,
    /// The full names of imports by their names in the file.
    pub(crate) imports: BTreeMap<String, String>,
    /// The imports: the first line, the last line and the module.
    pub(crate) import_lines: Vec<(usize, usize, String)>,
    pub(crate) constants: Values,
    /// The constants of the file that can be computed only at run time, with their first and last lines.
    pub(crate) computed: BTreeMap<String, (&'a Expr, usize, usize)>,
    /// The names in the expressions of `computed`.
    computed_uses: BTreeSet<String>,
    /// The size of all constants.
    constants_size: usize,
    pub(crate) attributes: BTreeMap<String, Attribute>,
    /// The attributes that hold the function that emits events or asks the user, by the parameter's name.
    pub(crate) emitters: BTreeMap<String, String>,
    /// The initial values of attributes.
    pub(crate) initial: BTreeMap<String, &'a Expr>,
    /// The settings that the plugin passes when it creates its `Valves`.
    pub(crate) overrides: BTreeMap<String, Value>,
    pub(crate) comments: &'a [Comment],
    /// The other statements of the file and the class.
    pub(crate) other: Vec<&'a Stmt>,
    pub(crate) constant_lines: Vec<(usize, usize)>,
    /// The classes of the errors that the file raises.
    pub(crate) raised: BTreeSet<String>,
}

impl<'a> Plugin<'a> {
    /// Finds the plugin of a file: the first of `Pipe`, `Filter`, `Tools`, `Action` and `Pipeline`, in the
    /// order of Open WebUI.
    pub(crate) fn of(module: &'a Module) -> Option<Self> {
        let mut top: Vec<&'a Stmt> = Vec::new();
        flatten(&module.body, &mut top);
        let class_named = |name: &str| {
            top.iter().find_map(|stmt| match &stmt.kind {
                StmtKind::Class(class) if class.name == name => Some(class),
                _ => None,
            })
        };
        let (kind, class) = if let Some(class) = class_named("Pipe") {
            (PluginKind::Pipe, class)
        } else if let Some(class) = class_named("Filter") {
            (PluginKind::Filter, class)
        } else if let Some(class) = class_named("Tools") {
            (PluginKind::Tool, class)
        } else if let Some(class) = class_named("Action") {
            (PluginKind::Action, class)
        } else if let Some(class) = class_named("Pipeline") {
            let (lineage, _) = lineage_of(class, &top);
            let mut body = lineage.iter().flat_map(|class| &class.body);
            let is_pipe = body.any(|stmt| matches!(&stmt.kind, StmtKind::Function(f) if f.name == "pipe"));
            (if is_pipe { PluginKind::Pipe } else { PluginKind::Filter }, class)
        } else {
            return None;
        };
        let (lineage, foreign_bases) = lineage_of(class, &top);
        let mut plugin = Self {
            kind,
            class,
            lineage,
            line: top.iter().find(|stmt| is_class(stmt, class)).map_or(1, |stmt| stmt.line),
            foreign_bases,
            docs: docs::docstring(&module.body),
            valves: None,
            user_valves: None,
            methods: BTreeMap::new(),
            method_order: Vec::new(),
            functions: BTreeMap::new(),
            objects: Vec::new(),
            imports: BTreeMap::new(),
            import_lines: Vec::new(),
            constants: Values::new(),
            computed: BTreeMap::new(),
            computed_uses: BTreeSet::new(),
            constants_size: 0,
            attributes: BTreeMap::new(),
            emitters: BTreeMap::new(),
            initial: BTreeMap::new(),
            overrides: BTreeMap::new(),
            comments: &module.comments,
            other: Vec::new(),
            constant_lines: Vec::new(),
            raised: raised(&module.body),
        };
        plugin.module(&top);
        plugin.inner_imports(&module.body);
        plugin.members();
        plugin.inherit();
        plugin.attributes();
        Some(plugin)
    }

    fn module(&mut self, top: &[&'a Stmt]) {
        for stmt in top {
            match &stmt.kind {
                StmtKind::Import(modules) => {
                    for (module, alias) in modules {
                        let root = module.split('.').next().unwrap_or(module);
                        match alias {
                            Some(alias) => self.imports.insert(alias.clone(), module.clone()),
                            None => self.imports.insert(root.to_owned(), root.to_owned()),
                        };
                        self.import_lines.push((stmt.line, stmt.end_line, module.clone()));
                    }
                }
                StmtKind::ImportFrom { module, names } => {
                    for (name, alias) in names {
                        let known = alias.as_ref().unwrap_or(name);
                        self.imports.insert(known.clone(), format!("{module}.{name}"));
                    }
                    self.import_lines.push((stmt.line, stmt.end_line, module.clone()));
                }
                StmtKind::Function(function) => {
                    self.functions.insert(&function.name, function);
                }
                StmtKind::Class(class) if self.lineage.iter().any(|one| std::ptr::eq(*one, class)) => {}
                StmtKind::Class(class) => self.class_beside(class),
                StmtKind::Assign { .. } | StmtKind::Annotated { .. } => self.constant(stmt),
                _ if docs::is_comment(stmt) => {}
                _ => self.other.push(stmt),
            }
        }
    }

    /// Reads the imports inside functions; their names apply to the whole file.
    fn inner_imports(&mut self, body: &'a [Stmt]) {
        for stmt in body {
            stmt.walk(&mut |stmt| match &stmt.kind {
                StmtKind::Import(modules) => {
                    for (module, alias) in modules {
                        let root = module.split('.').next().unwrap_or(module);
                        let (name, path) = match alias {
                            Some(alias) => (alias.as_str(), module.as_str()),
                            None => (root, root),
                        };
                        self.imports.entry(name.to_owned()).or_insert_with(|| path.to_owned());
                    }
                }
                StmtKind::ImportFrom { module, names } => {
                    for (name, alias) in names {
                        let known = alias.as_ref().unwrap_or(name);
                        self.imports.entry(known.clone()).or_insert_with(|| format!("{module}.{name}"));
                    }
                }
                _ => {}
            });
        }
    }

    fn constant(&mut self, stmt: &'a Stmt) {
        let (target, value) = match &stmt.kind {
            StmtKind::Assign { targets, value } => (targets.first(), value),
            StmtKind::Annotated { target, value: Some(value), .. } => (Some(target), value),
            _ => return,
        };
        let Some(name) = target.and_then(Expr::as_name) else {
            self.other.push(stmt);
            return;
        };
        let known = Value::of(value, &self.constants).filter(|value| {
            self.constants_size += value.size();
            self.constants_size <= MAX_CONSTANTS
        });
        match known {
            Some(value) => {
                self.constants.insert(name.to_owned(), value);
                self.constant_lines.push((stmt.line, stmt.end_line));
            }
            None => {
                self.computed.insert(name.to_owned(), (value, stmt.line, stmt.end_line));
                value.walk(&mut |inner| self.computed_uses.extend(inner.as_name().map(str::to_owned)));
                // Only a name that an earlier value uses can lead to itself.
                if !self.computed_uses.contains(name) {
                    return;
                }
                let uses = |name: &str| {
                    let mut names = Vec::new();
                    if let Some((value, ..)) = self.computed.get(name) {
                        value.walk(&mut |inner| names.extend(inner.as_name().map(str::to_owned)));
                    }
                    names
                };
                if leads_to_itself(name, uses) {
                    self.computed.remove(name);
                    self.other.push(stmt);
                }
            }
        }
    }

    fn class_beside(&mut self, class: &'a Class) {
        match class.name.as_str() {
            "Valves" if self.valves.is_none() => return self.valves = Some(class),
            "UserValves" if self.user_valves.is_none() => return self.user_valves = Some(class),
            _ => {}
        }
        let bases: Vec<String> = class.bases.iter().filter_map(|base| base.value.path()).collect();
        let base = |names: &[&str]| bases.iter().any(|base| names.contains(&last_name(base)));
        let is_dataclass = class.decorators.iter().any(|decorator| {
            let decorator = match &decorator.kind {
                ExprKind::Call(of, _) => of,
                _ => decorator,
            };
            decorator.path().is_some_and(|path| path.ends_with("dataclass"))
        });
        let is_error = bases.iter().any(|base| base.ends_with("Error") || base.ends_with("Exception"));
        let mut object = Object {
            class,
            fields: Vec::new(),
            is_data: is_dataclass || base(&["BaseModel", "TypedDict", "NamedTuple"]),
            is_error,
            is_enum: base(&["Enum", "StrEnum", "IntEnum"]),
            bases: Vec::new(),
            methods: BTreeMap::new(),
        };
        let mut members = Vec::new();
        for stmt in &class.body {
            match &stmt.kind {
                StmtKind::Function(function) if is_setter(function) => {}
                StmtKind::Function(function) => {
                    object.methods.insert(&function.name, function);
                }
                StmtKind::Annotated { target, value, .. } => {
                    if let Some(name) = target.as_name() {
                        object.fields.push((name.to_owned(), value.as_ref()));
                    }
                }
                StmtKind::Assign { targets, value } => {
                    if let Some(name) = targets.first().and_then(Expr::as_name) {
                        object.fields.push((name.to_owned(), Some(value)));
                        members
                            .extend(Value::of(value, &self.constants).map(|value| (name.to_owned(), value)));
                    }
                }
                StmtKind::Class(inner) if !matches!(inner.name.as_str(), "Config" | "Meta") => {
                    self.class_beside(inner)
                }
                _ => {}
            }
        }
        if object.is_enum || (!object.is_data && object.methods.is_empty() && !members.is_empty()) {
            object.is_enum = true;
            self.constants.insert(class.name.clone(), Value::Map(members));
        }
        self.objects.push(object);
    }

    /// Reads the members of the class and of those it inherits from; the nearest one wins.
    fn members(&mut self) {
        for class in self.lineage.clone().into_iter().rev() {
            self.members_of(class);
        }
        let inits = self.lineage.iter().filter_map(|class| {
            class.body.iter().find_map(|stmt| match &stmt.kind {
                StmtKind::Function(function) if function.name == "__init__" => Some(function),
                _ => None,
            })
        });
        // What a class replaces does not run, unless it calls it.
        let mut run: Vec<&'a Function> = Vec::new();
        for init in inits {
            run.push(init);
            if !calls_super(init) {
                break;
            }
        }
        run.into_iter().rev().for_each(|init| self.initial_values(init));
    }

    fn members_of(&mut self, class: &'a Class) {
        for stmt in &class.body {
            match &stmt.kind {
                StmtKind::Function(function) if is_setter(function) => {}
                StmtKind::Function(function) => {
                    if self.methods.insert(&function.name, function).is_none() {
                        self.method_order.push(&function.name);
                    }
                }
                StmtKind::Class(class) => match class.name.as_str() {
                    "Valves" => self.valves = Some(class),
                    "UserValves" => self.user_valves = Some(class),
                    _ => self.class_beside(class),
                },
                StmtKind::Assign { targets, value } => {
                    if let Some(name) = targets.first().and_then(Expr::as_name) {
                        self.initial.insert(name.to_owned(), value);
                    }
                }
                StmtKind::Annotated { target, value: Some(value), .. } => {
                    if let Some(name) = target.as_name() {
                        self.initial.insert(name.to_owned(), value);
                    }
                }
                StmtKind::Annotated { .. } => {}
                _ if docs::is_comment(stmt) => {}
                StmtKind::Pass => {}
                _ => self.other.push(stmt),
            }
        }
    }

    /// Reads the values that `__init__` gives to attributes and settings.
    fn initial_values(&mut self, init: &'a Function) {
        let mut top = Vec::new();
        flatten(&init.body, &mut top);
        for stmt in top {
            let (target, value) = match &stmt.kind {
                StmtKind::Assign { targets, value } => (targets.first(), value),
                StmtKind::Annotated { target, value: Some(value), .. } => (Some(target), value),
                _ => continue,
            };
            let Some(name) = target.and_then(of_self) else { continue };
            if name == "valves"
                && let ExprKind::Call(_, args) = &value.kind
            {
                for arg in args {
                    match (&arg.name, &arg.value.kind) {
                        (Some(name), _) => {
                            self.overrides.extend(
                                Value::of(&arg.value, &self.constants).map(|value| (name.clone(), value)),
                            );
                        }
                        (None, ExprKind::Dict(entries)) => {
                            for (key, value) in entries {
                                if let (Some(key), Some(value)) =
                                    (key.as_ref().and_then(Expr::as_text), Value::of(value, &self.constants))
                                {
                                    self.overrides.insert(key.to_owned(), value);
                                }
                            }
                        }
                        _ => {}
                    }
                }
            }
            self.initial.insert(name.to_owned(), value);
        }
    }

    /// Adds the fields and methods of each class's bases; a base is written before the classes that use it.
    fn inherit(&mut self) {
        for at in 0..self.objects.len() {
            let Some((before, [object, ..])) = self.objects.split_at_mut_checked(at) else { return };
            for base in &object.class.bases {
                let path = base.value.path_or_empty();
                let found = before.iter().enumerate().rfind(|(_, one)| one.class.name == last_name(&path));
                let Some((place, base)) = found else { continue };
                object.bases.push(place);
                object.bases.extend(&base.bases);
                object.is_data |= base.is_data;
                object.is_error |= base.is_error;
                object.is_enum |= base.is_enum;
                for (name, method) in &base.methods {
                    object.methods.entry(name).or_insert(method);
                }
                let own = std::mem::take(&mut object.fields);
                let inherited =
                    base.fields.iter().filter(|(name, _)| !own.iter().any(|(other, _)| other == name));
                object.fields = inherited.cloned().collect();
                object.fields.extend(own);
            }
        }
    }

    /// Decides which attributes are constants and which are state.
    fn attributes(&mut self) {
        let mut changed: BTreeSet<&str> = BTreeSet::new();
        let mut used: BTreeSet<&str> = BTreeSet::new();
        let initial = &self.initial;
        let circular = circular(initial);
        self.initial.retain(|name, _| !circular.contains(name));
        for function in self.methods.values() {
            for stmt in &function.body {
                stmt.walk(&mut |stmt| {
                    if let StmtKind::Assign { targets, value } = &stmt.kind
                        && let Some(param) = value.as_name()
                        && function.params.iter().any(|one| one.name == param)
                        && (param.contains("event_emitter") || param.contains("event_call"))
                    {
                        let names = targets.iter().filter_map(of_self);
                        self.emitters.extend(names.map(|name| (name.to_owned(), param.to_owned())));
                    }
                });
            }
        }
        for (name, function) in &self.methods {
            for stmt in &function.body {
                stmt.walk(&mut |stmt| {
                    stmt.expressions(&mut |expr| {
                        expr.walk(&mut |expr| {
                            used.extend(of_self(expr));
                            if let ExprKind::Call(of, _) = &expr.kind
                                && let ExprKind::Attribute(of, method) = &of.kind
                                && CHANGES.contains(&method.as_str())
                            {
                                changed.extend(base_of(of));
                            }
                        });
                    });
                    let targets: Vec<&Expr> = match &stmt.kind {
                        StmtKind::Assign { targets, .. } => targets.iter().collect(),
                        StmtKind::Augmented { target, .. } | StmtKind::Annotated { target, .. } => {
                            vec![target]
                        }
                        StmtKind::Delete(targets) => targets.iter().collect(),
                        StmtKind::For { target, .. } => vec![target],
                        _ => Vec::new(),
                    };
                    for target in targets {
                        let is_plain = of_self(target).is_some();
                        if *name != "__init__" || !is_plain {
                            target.walk(&mut |inner| changed.extend(base_of(inner)));
                        }
                    }
                });
            }
        }
        for name in used {
            if self.methods.contains_key(name)
                || self.emitters.contains_key(name)
                || matches!(name, "valves" | "user_valves" | "Valves" | "UserValves")
            {
                continue;
            }
            let value = self.initial.get(name).and_then(|value| Value::of(value, &self.constants));
            let value = value.filter(|value| {
                self.constants_size += value.size();
                self.constants_size <= MAX_CONSTANTS
            });
            let attribute = match value {
                Some(value) if !changed.contains(name) => {
                    let mut constant = names::variable(name).trim_start_matches('_').to_uppercase();
                    while self.constants.get(&constant).is_some_and(|other| *other != value)
                        || self.computed.contains_key(&constant)
                        || matches!(constant.as_str(), "PI" | "E")
                    {
                        constant.push('_');
                    }
                    self.constants.insert(constant.clone(), value);
                    Attribute::Constant(constant)
                }
                _ if changed.contains(name) => {
                    match attributes::is_set_in_each_turn(self.kind, &self.methods, name) {
                        true => Attribute::State,
                        false => Attribute::Kept,
                    }
                }
                _ => match self.initial.get(name) {
                    Some(value) if attributes::differs(value, &self.imports, &self.objects) => {
                        Attribute::Kept
                    }
                    Some(_) => Attribute::State,
                    None => continue,
                },
            };
            self.attributes.insert(name.to_owned(), attribute);
        }
    }
}

/// The methods that modify their receiver: a list, map, set or queue.
pub(crate) const CHANGES: [&str; 15] = [
    "append",
    "extend",
    "insert",
    "remove",
    "pop",
    "clear",
    "update",
    "setdefault",
    "add",
    "discard",
    "popitem",
    "sort",
    "reverse",
    "popleft",
    "appendleft",
];

fn is_class(stmt: &Stmt, class: &Class) -> bool {
    matches!(&stmt.kind, StmtKind::Class(one) if std::ptr::eq(one, class))
}

/// Returns a class with the classes of the file that it inherits from, nearest first, and the names of its other bases.
fn lineage_of<'a>(class: &'a Class, top: &[&'a Stmt]) -> (Vec<&'a Class>, Vec<String>) {
    const EMPTY: [&str; 5] = ["object", "ABC", "Protocol", "Generic", "BaseModel"];
    let (mut lineage, mut foreign) = (vec![class], Vec::new());
    let mut at = 0;
    while let Some(class) = lineage.get(at).copied() {
        at += 1;
        for base in class.bases.iter().filter(|base| base.name.is_none()) {
            let path = match &base.value.kind {
                ExprKind::Index(of, _) => of.path_or_empty(),
                _ => base.value.path_or_empty(),
            };
            let found = top.iter().find_map(|stmt| match &stmt.kind {
                StmtKind::Class(other) if other.name == path => Some(other),
                _ => None,
            });
            match found {
                Some(base) if lineage.iter().any(|one| std::ptr::eq(*one, base)) => {}
                Some(base) => lineage.push(base),
                None if EMPTY.contains(&last_name(&path)) => {}
                None => foreign.push(path),
            }
        }
    }
    (lineage, foreign)
}

/// Returns `true` for an `__init__` that calls the one of a base class.
fn calls_super(init: &Function) -> bool {
    let mut found = false;
    for stmt in &init.body {
        stmt.walk(&mut |stmt| {
            stmt.expressions(&mut |expr| {
                expr.walk(&mut |inner| {
                    found |= matches!(&inner.kind, ExprKind::Attribute(_, name) if name == "__init__");
                });
            });
        });
    }
    found
}

/// Returns `true` for the function that sets or deletes a property.
fn is_setter(function: &Function) -> bool {
    function
        .decorators
        .iter()
        .map(Expr::path_or_empty)
        .any(|path| path.ends_with(".setter") || path.ends_with(".deleter"))
}

/// Returns `true` for a property, which is read without a call.
pub(crate) fn is_property(function: &Function) -> bool {
    function.decorators.iter().any(|one| one.path().is_some_and(|path| path.ends_with("property")))
}

/// Collects the statements of a block, including those inside `if` and `try`.
fn flatten<'a>(body: &'a [Stmt], out: &mut Vec<&'a Stmt>) {
    for stmt in body {
        match &stmt.kind {
            // The handlers only replace missing packages.
            StmtKind::Try { body, .. } => flatten(body, out),
            StmtKind::If { branches, .. } => branches.iter().take(1).for_each(|(condition, body, _)| {
                if !is_main(condition) {
                    flatten(body, out);
                }
            }),
            _ => out.push(stmt),
        }
    }
}

fn is_main(condition: &Expr) -> bool {
    matches!(&condition.kind, ExprKind::Compare(left, _) if left.as_name() == Some("__name__"))
}

/// Returns the name of the attribute if the expression is an attribute of the plugin.
pub(crate) fn of_self(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Attribute(of, name) if matches!(of.as_name(), Some("self" | "cls")) => Some(name),
        _ => None,
    }
}

/// Returns the attribute of the plugin that an expression starts with.
fn base_of(expr: &Expr) -> Option<&str> {
    of_self(expr).or_else(|| match &expr.kind {
        ExprKind::Attribute(of, _) | ExprKind::Index(of, _) => base_of(of),
        _ => None,
    })
}

/// Returns the attributes whose initial values depend on themselves, or on such attributes.
fn circular(initial: &BTreeMap<String, &Expr>) -> BTreeSet<String> {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in initial {
        let mut used = BTreeSet::new();
        value.walk(&mut |inner| used.extend(of_self(inner).filter(|other| initial.contains_key(*other))));
        left.insert(name, used.len());
        used.into_iter().for_each(|other| users.entry(other).or_default().push(name));
    }
    let mut ready: Vec<&str> = left.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    while let Some(name) = ready.pop() {
        left.remove(name);
        for user in users.get(name).into_iter().flatten() {
            if let Some(count) = left.get_mut(user) {
                *count -= 1;
                if *count == 0 {
                    ready.push(user);
                }
            }
        }
    }
    left.into_keys().map(str::to_owned).collect()
}

/// Returns `true` if a name depends on itself, directly or through other names.
fn leads_to_itself(name: &str, uses: impl Fn(&str) -> Vec<String>) -> bool {
    let mut seen = BTreeSet::new();
    let mut next = uses(name);
    while let Some(used) = next.pop() {
        if used == name {
            return true;
        }
        if !seen.contains(&used) {
            next.extend(uses(&used));
            seen.insert(used);
        }
    }
    false
}

/// Returns the classes of the errors that statements raise.
pub(crate) fn raised(body: &[Stmt]) -> BTreeSet<String> {
    let mut classes = BTreeSet::new();
    for stmt in body {
        stmt.walk(&mut |inner| {
            if let StmtKind::Raise(Some(value)) = &inner.kind {
                let class = match &value.kind {
                    ExprKind::Call(of, _) => of.path(),
                    _ => value.path(),
                };
                classes.extend(class.map(|class| last_name(&class).to_owned()));
            }
        });
    }
    classes
}

/// Returns `true` if statements after a line change a list or map through one of these variables.
pub(crate) fn changes(body: &[Stmt], names: &[&str], after: usize) -> bool {
    let is_named = |expr: &Expr| expr.as_name().is_some_and(|name| names.contains(&name));
    let mut found = false;
    for stmt in body {
        stmt.walk(&mut |inner| {
            if inner.line <= after {
                return;
            }
            if let StmtKind::Assign { targets, .. } = &inner.kind {
                found |= targets
                    .iter()
                    .any(|target| matches!(&target.kind, ExprKind::Index(of, _) if is_named(of)));
            }
            inner.expressions(&mut |expr| {
                expr.walk(&mut |expr| {
                    if let ExprKind::Call(function, _) = &expr.kind
                        && let ExprKind::Attribute(of, method) = &function.kind
                    {
                        found |= CHANGES.contains(&method.as_str()) && is_named(of);
                    }
                });
            });
        });
    }
    found
}
