//! From a file's text to a script that can be called.

use super::call::Caller;
use super::callbacks::{self, CallbackFunction};
use super::claim;
use super::coverage::Coverage;
use super::hooks::{self, HookFunction};
use super::instrument::{self, Instrumented};
use super::interpreter::Interpreter;
use super::link::{self, Linked};
use super::literal::KeyOrders;
use super::manifest::{self, Manifest};
use super::names::{self, Names};
use super::pipe::{self, PipeFunction};
use super::problem::{self, Code, Problem, Severity};
use super::reach::Reach;
use super::settings::Settings;
use super::source::{Kind, SourceFile, check_text};
use super::sources::Sources;
use super::tool::{self, ToolFunction};
use super::value::{dynamic_of, property_accessors};
use super::{budget, cheap, doubts, endings, engine, folding, literal, shadow};
use crate::crash::{self, Version};
use rhai::{AST, Dynamic, Engine, Module, OptimizationLevel, ParseError, Scope, Shared, Stmt};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use valvehouse_config::Capability;
use valvehouse_core::breaker::Breaker;
use valvehouse_core::figures::Figures;
use valvehouse_core::filter::Hook;
use valvehouse_core::valve::{Redactor, Schema};
use valvehouse_core::words::did_you_mean;
use valvehouse_json::{Json, Object};

/// A compiled script with its valves folded in. Frozen: another value makes another script.
pub struct Script {
    /// The file it comes from.
    pub file: SourceFile,
    /// What it says of itself.
    pub manifest: Manifest,
    /// Its effective valves; read-only.
    pub valves: Json,
    /// What its calls are known by.
    pub(super) caller: Arc<Caller>,
    /// What is not meant, though it loads: valves that no longer fit, hooks spelt almost right.
    pub warnings: Vec<Problem>,
    /// Whether its calls break again and again.
    pub breaker: Arc<Breaker>,
    hooks: Vec<HookFunction>,
    pub(super) callbacks: Vec<CallbackFunction>,
    /// Whether its callbacks do; its hooks do not rest because somebody listens badly.
    pub(super) listening: Breaker,
    pub(super) tools: Vec<ToolFunction>,
    pub(super) pipe: Option<PipeFunction>,
    waiting: bool,
    /// Whether it looks at streams through a window, in which text may wait.
    pub(super) has_windows: bool,
    pub(super) engine: Engine,
    pub(super) ast: AST,
    /// The hooks of which syntax shows that no call takes long.
    cheap: Vec<Hook>,
    pub(super) interpreter: Interpreter,
    pub(super) settings: Settings,
    pub(super) reach: Arc<Reach>,
    /// Its own file and those of its modules.
    pub(super) sources: Sources,
}

impl Script {
    /// Reads, checks and compiles; nothing of a filter runs, of a tool only what lists its tools.
    pub fn compile(file: &SourceFile, settings: &Settings) -> Result<Self, Vec<Problem>> {
        Self::compile_with(file, settings, None)
    }

    /// The same, and notes which of its lines run. That takes time which nobody wrote: it may take more of it.
    pub fn compile_covered(
        file: &SourceFile,
        settings: &Settings,
        coverage: &Arc<Coverage>,
    ) -> Result<Self, Vec<Problem>> {
        Self::compile_with(file, &settings.with_time_for_probes(), Some(coverage))
    }

    fn compile_with(
        file: &SourceFile,
        settings: &Settings,
        coverage: Option<&Arc<Coverage>>,
    ) -> Result<Self, Vec<Problem>> {
        let (id, path, text) = (&*file.id, file.path.as_path(), &*file.text);
        let _loading = crash::loading(id, &file.hash(), budget::ticks_at_start());
        check_text(file).map_err(|problem| vec![problem])?;
        let source = text.trim_start_matches('\u{feff}');
        let parse_problem = |error| vec![problem::of_parse(id, path, source, &error)];
        problem::unclosed_comment(file, source).map_or(Ok(()), |problem| Err(vec![problem]))?;
        let code = match file.kind {
            Kind::Filter => endings::settled(source),
            Kind::Tool => source.into(),
        };
        let Parsed { engine, as_written, plain, constants } = Parsed::of(&code).map_err(parse_problem)?;
        let computed = never_run(&plain, file, source);
        let manifest = manifest::read(id, path, source, &constants);
        let (hooks, mut problems) = match file.kind {
            Kind::Filter => hooks::read(&plain, id, path, source),
            Kind::Tool => (Vec::new(), tool::misplaced_hooks(&plain, file, source)),
        };
        problems.extend(names::assigned(&plain, &constants, file, source));
        problems.extend(computed);
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(more) => return Err([problems, more].concat()),
        };
        let (callbacks, of_callbacks) = callbacks::read(&plain, &manifest, file, source);
        problems.extend(of_callbacks);
        problems.extend(claim::problems(file, source));
        if file.kind == Kind::Filter {
            problems.extend(manifest::misplaced_match(&manifest, &hooks, file, source));
        }
        if file.kind == Kind::Filter && manifest.security {
            as_a_guard(&hooks, &mut problems, file, source);
        }
        problems.extend(names::misused(&plain, &manifest, &constants, file, source));
        problems.extend(doubts::about(&as_written, file, source));
        problems.extend(shadow::of_host(&as_written, file, source));
        problems.extend(shadow::of_variables(&as_written, file, source));
        let (linked, of_modules) = link::link(file, source, &as_written, &manifest);
        problems.extend(of_modules);
        let (configured, unset) = configured(&manifest.valves, &settings.configured, file);
        problems.extend(unset);
        let (valves, misfits) = manifest.valves.effective(&[&configured, &settings.stored]);
        problems.extend(misfits.into_iter().map(|misfit| {
            let word = misfit.split('`').nth(1).unwrap_or("Valves").to_owned();
            Problem::of(Code::ValveMisfit, file, misfit)
                .at_path(source, &format!("Valves.{word}"))
                .help(format!("set it again, or put it back: valvehouse valves reset {id} {word}"))
                .warning()
        }));
        problems.extend(reserved_priority(&valves, file, source).filter(|_| file.kind == Kind::Filter));
        let reach = Reach::of(&manifest, &valves, settings, file, source);
        let reach = reach.map_err(|more| problems.extend(more)).unwrap_or_default();
        if problem::has_errors(&problems) {
            return Err(problems);
        }

        let mut values: HashMap<String, Dynamic> =
            constants.iter().map(|(name, value)| (name.clone(), dynamic_of(value))).collect();
        values.insert("Valves".into(), dynamic_of(&valves));
        values.extend(names::functions_as_values(&plain));
        let beside = Beside { coverage, valves: Some(&valves), ..Beside::default() };
        let folded = folded(engine, &code, &plain, values, &linked, beside).map_err(parse_problem)?;
        let mut script = Self::assembled(file, settings, manifest, valves, folded, linked.sources);
        (script.hooks, script.callbacks, script.reach) = (hooks, callbacks, Arc::new(reach));
        problems.extend(pipe::misplaced(&script.ast, file, source));
        if pipe::is_pipe(&script.ast) {
            script.pipe = match pipe::read(&script, source) {
                Ok(pipe) => Some(pipe),
                Err(more) => return Err([problems, more].concat()),
            };
        }
        if file.kind == Kind::Tool {
            let orders = KeyOrders::of([&as_written].into_iter().chain(&linked.as_written));
            let (tools, more) = tool::read(&script, &orders, source);
            problems.extend(more);
            if tools.is_empty() && script.pipe.is_none() {
                return Err(problems);
            }
            script.tools = tools;
        }
        script.warnings = problems;
        Ok(script)
    }

    /// Compiles a file of tests: nothing in it is a hook or a tool, and it may call these modules besides
    /// all of the host's.
    pub(super) fn compile_tests(
        file: &SourceFile,
        settings: &Settings,
        own: &[(&'static str, Shared<Module>)],
    ) -> Result<Self, Vec<Problem>> {
        check_text(file).map_err(|problem| vec![problem])?;
        let source = file.text.trim_start_matches('\u{feff}');
        let parse_problem = |error| vec![problem::of_parse(&file.id, &file.path, source, &error)];
        let Parsed { engine, as_written, plain, constants } = Parsed::of(source).map_err(parse_problem)?;
        let manifest = Manifest { requirements: Capability::ALL.to_vec(), ..Manifest::default() };
        let mut problems = names::assigned(&plain, &constants, file, source);
        problems.extend(names::misused(&plain, &manifest, &constants, file, source));
        problems.extend(doubts::about(&as_written, file, source));
        let (linked, of_modules) = link::link(file, source, &as_written, &manifest);
        problems.extend(of_modules);
        if problem::has_errors(&problems) {
            return Err(problems);
        }
        let mut values: HashMap<String, Dynamic> =
            constants.iter().map(|(name, value)| (name.clone(), dynamic_of(value))).collect();
        values.extend(names::functions_as_values(&plain));
        let beside = Beside { own, ..Beside::default() };
        let folded = folded(engine, source, &plain, values, &linked, beside).map_err(parse_problem)?;
        let mut script = Self::assembled(file, settings, manifest, Json::object(), folded, linked.sources);
        script.warnings = problems;
        Ok(script)
    }

    /// A script that has neither hooks nor tools yet, and reaches nothing.
    fn assembled(
        file: &SourceFile,
        settings: &Settings,
        manifest: Manifest,
        valves: Json,
        folded: Folded,
        sources: Sources,
    ) -> Self {
        let Folded { mut engine, mut ast, names, cheap } = folded;
        if settings.guarded {
            budget::obey(&mut engine);
        }
        ast.set_source(file.path.display().to_string());
        let breaker = Arc::new(Breaker::new(&*file.id, settings.breaker));
        Self {
            file: file.clone(),
            waiting: names.may_wait(),
            has_windows: names.modules.contains("stream"),
            caller: Arc::new(Caller {
                plugin: file.id.clone(),
                breaker: breaker.clone(),
                version: Version::of(&file.id, &file.hash()),
                secrets: Redactor::of(&manifest.valves, &valves).among(&settings.secrets),
            }),
            manifest,
            valves: valves.freeze(),
            warnings: Vec::new(),
            breaker,
            hooks: Vec::new(),
            callbacks: Vec::new(),
            listening: Breaker::new(&*file.id, settings.breaker),
            tools: Vec::new(),
            pipe: None,
            engine,
            ast,
            cheap,
            interpreter: Interpreter::default(),
            settings: settings.clone(),
            reach: Arc::default(),
            sources,
        }
    }

    /// The plugin's id.
    pub fn id(&self) -> &str {
        &self.file.id
    }

    /// Where its hooks stand in the chain.
    pub fn priority(&self) -> f64 {
        valvehouse_core::valve::priority(&self.valves).min(MAX_PRIORITY)
    }

    /// What its valves were made of, over what it declares: the configuration's values, and the store's.
    pub fn valve_layers(&self) -> [&Json; 2] {
        [&self.settings.configured, &self.settings.stored]
    }

    /// What its calls have cost, whichever version of it ran.
    pub fn figures(&self) -> &Figures {
        &self.settings.figures
    }

    /// The moments it acts at.
    pub fn hooks(&self) -> impl Iterator<Item = Hook> {
        self.hooks.iter().map(|function| function.hook)
    }

    /// Whether a call may wait for somebody.
    pub(super) fn waits(&self) -> bool {
        self.waiting
    }

    /// Returns `true` if a hook's syntax shows that no call of it takes long.
    pub(super) fn is_cheap(&self, hook: Hook) -> bool {
        self.cheap.contains(&hook)
    }

    pub(super) fn hook(&self, hook: Hook) -> Option<&HookFunction> {
        self.hooks.iter().find(|function| function.hook == hook)
    }

    /// Its functions: names and parameters.
    pub(super) fn functions(&self) -> impl Iterator<Item = rhai::ScriptFnMetadata<'_>> {
        self.ast.iter_functions()
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Script({})", self.file.path.display())
    }
}

/// A file as it was parsed.
pub(super) struct Parsed {
    pub(super) engine: Engine,
    /// Nothing folded: still in the order in which it was written.
    pub(super) as_written: AST,
    pub(super) plain: AST,
    /// The literal constants at its top level.
    pub(super) constants: Vec<(String, Json)>,
}

impl Parsed {
    pub(super) fn of(source: &str) -> Result<Self, ParseError> {
        let mut engine = engine::new();
        engine.set_optimization_level(OptimizationLevel::None);
        let as_written = engine.compile(source)?;
        folding::check(&as_written)?;
        engine.set_optimization_level(OptimizationLevel::Simple);
        let plain = engine.compile(source)?;
        let constants = literal::constants(&plain, &as_written);
        Ok(Self { engine, as_written, plain, constants })
    }
}

/// What a file is compiled with besides what all are.
#[derive(Default, Clone, Copy)]
struct Beside<'a> {
    /// Modules that only this file may call.
    own: &'a [(&'static str, Shared<Module>)],
    /// Who is told of the lines that run.
    coverage: Option<&'a Arc<Coverage>>,
    /// The effective valves.
    valves: Option<&'a Json>,
}

/// The functions of a file with the values of its constants in them, on an engine that knows every
/// name they use: the host's, those of the file's modules, and its `own`; the module "" has no name.
fn folded(
    mut engine: Engine,
    source: &str,
    plain: &AST,
    mut values: HashMap<String, Dynamic>,
    linked: &Linked,
    beside: Beside<'_>,
) -> Result<Folded, ParseError> {
    let parameters = plain.iter_functions().flat_map(|function| function.params).map(str::to_owned);
    let scope = known_to(&parameters.collect(), &values);
    let register = |engine: &mut Engine| {
        linked.register(engine);
        for (name, module) in beside.own {
            if name.is_empty() {
                engine.register_global_module(module.clone());
            } else {
                engine.register_static_module(*name, module.clone());
            }
        }
    };
    register(&mut engine);
    engine.set_strict_variables(true);
    if beside.coverage.is_some() {
        // A line that is worked out beforehand would never run.
        engine.set_optimization_level(OptimizationLevel::None);
    }
    instrument::keep_unordered(&mut engine);
    let mut ast = engine.compile_with_scope(&scope, source)?.clone_functions_only();
    let mut instrumented = Instrumented::default();
    let none = Json::object();
    let valves = beside.valves.unwrap_or(&none);
    let own = instrumented.add(ast.clone(), valves, beside.coverage.map(|coverage| &**coverage))?;
    let of_modules = instrumented.add(linked.functions.clone(), &none, None)?;
    let cheap = Hook::ALL.into_iter().filter(|hook| cheap::is_cheap(&ast, hook.name())).collect();
    ast.combine(linked.functions.clone());
    values.extend(linked.values.clone());
    let names = Names::of(&ast);
    let mut engine = engine::with_modules(|name| names.modules.contains(name));
    register(&mut engine);
    instrumented.register(&mut engine, beside.coverage)?;
    let mut ast = own;
    ast.combine(of_modules);
    if names.modules.contains("tokens") {
        // Its tables take longer to unpack than a hook may run.
        std::thread::spawn(valvehouse_tokens::prepare);
    }
    engine.register_global_module(property_accessors(names.properties.iter().map(String::as_str)).into());
    values.retain(|name, _| names.variables.contains(name));
    engine::resolve_names(&mut engine, values, names.caught.iter().cloned().collect());
    Ok(Folded { engine, ast, names, cheap })
}

/// A file's functions and the engine that runs them.
struct Folded {
    engine: Engine,
    ast: AST,
    names: Names,
    /// The hooks that are over at once, as their syntax before any step shows.
    cheap: Vec<Hook>,
}

/// The names a file may use besides those of its functions. Their values are folded in, but for those
/// that are also called like a parameter: Rhai would fold them in there too.
pub(super) fn known_to(parameters: &HashSet<String>, values: &HashMap<String, Dynamic>) -> Scope<'static> {
    let mut scope = Scope::new();
    for (name, value) in values {
        if parameters.contains(name) {
            scope.push_dynamic(name.clone(), value.clone());
        } else {
            scope.push_constant_dynamic(name.clone(), value.clone());
        }
    }
    scope
}

/// Raises warnings about names that almost match a hook to errors, and adds an error if a guard has no hook.
fn as_a_guard(hooks: &[HookFunction], problems: &mut Vec<Problem>, file: &SourceFile, source: &str) {
    let almost = problems.iter_mut().filter(|problem| problem.code == Code::AlmostHook);
    almost.for_each(|problem| problem.severity = Severity::Error);
    if hooks.is_empty() && !problem::has_errors(problems) {
        let problem = Problem::of(Code::NoHook, file, "a guard without a hook guards nothing");
        problems.push(problem.at_byte(source, 0).help("write at least one hook: fn inlet(body) { body }"));
    }
}

/// What stands at the top level and would have to run: it never does.
fn never_run(ast: &AST, file: &SourceFile, source: &str) -> Vec<Problem> {
    let literal: Vec<String> =
        ast.iter_literal_variables(true, true).map(|(name, _, _)| name.to_owned()).collect();
    let mut problems = Vec::new();
    for statement in ast.statements() {
        if let Stmt::Var(variable, ..) = statement {
            let name = variable.0.name.as_str();
            if manifest::CONSTANTS.contains(&name) && !literal.iter().any(|known| known == name) {
                problems.push(
                    Problem::of(
                        Code::Computed,
                        file,
                        format!("`{name}` is computed; it is read without running the script"),
                    )
                    .at_word(source, name)
                    .help("write literal values only: numbers, strings, true, false, [], #{}"),
                );
            }
        }
    }
    problems
}

/// What the configuration gives valves, secret ones from the environment where it says `env:NAME`; and which
/// variables are not set.
fn configured(schema: &Schema, given: &Json, file: &SourceFile) -> (Json, Vec<Problem>) {
    let (taken, mut unset) = (given.copy(), Vec::new());
    let declares = |name: &str| schema.fields().iter().any(|field| field.name == name);
    for (name, _) in given.as_object().map(Object::entries).unwrap_or_default() {
        if *name != *"priority" && !declares(&name) {
            let near = did_you_mean(&name, schema.fields().iter().map(|field| &*field.name));
            let told =
                format!("the settings set the valve `{name}`, which this script does not declare{near}");
            let help =
                format!("correct it in `[{}s.{}] valves` of valvehouse.toml", file.kind.word(), file.id);
            unset.push(Problem::of(Code::UnknownName, file, told).help(help).warning());
        }
    }
    for field in schema.fields().iter().filter(|field| field.secret) {
        let Some(text) = given.text(&field.name) else { continue };
        let Some(variable) = text.strip_prefix("env:").map(str::trim) else { continue };
        match std::env::var(variable).ok().filter(|value| !value.is_empty()) {
            Some(value) => {
                // A text in an object of its own.
                let _ = taken.set(&field.name, value);
            }
            None => {
                taken.remove(&field.name);
                let told = format!("the valve `{}` has its default: `{variable}` is not set", field.name);
                let help = format!("set the environment variable `{variable}` where the host is started");
                unset.push(Problem::of(Code::ValveMisfit, file, told).help(help).warning());
            }
        }
    }
    (taken, unset)
}

/// The last place in the chain that a script may have: behind it are the host's own filters, which ask for
/// approval and tell of calls.
pub(super) const MAX_PRIORITY: f64 = 9997.0;

/// A priority that the host keeps for itself.
fn reserved_priority(valves: &Json, file: &SourceFile, source: &str) -> Option<Problem> {
    let wanted = valvehouse_core::valve::priority(valves);
    (wanted > MAX_PRIORITY).then(|| {
        let what =
            format!("`priority` {wanted} counts as {MAX_PRIORITY}: the places behind it are the host's own");
        let problem = Problem::of(Code::ValveMisfit, file, what).at_path(source, "Valves.priority");
        problem.help(format!("set it to {MAX_PRIORITY} or less")).warning()
    })
}

/// The valves that a text declares, also when it would not load; None where that cannot be told.
pub fn declared_valves(text: &str) -> Option<Schema> {
    let Parsed { constants, .. } = Parsed::of(text.trim_start_matches('\u{feff}')).ok()?;
    match constants.iter().find(|(name, _)| name == "Valves") {
        Some((_, literal)) => Schema::declare(literal).ok(),
        None => Some(Schema::default()),
    }
}
