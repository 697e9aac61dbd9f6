//! From a file's text to a script that can be called.

use super::callbacks::{self, CallbackFunction};
use super::hooks::{self, HookFunction};
use super::interpreter::Interpreter;
use super::link::{self, Linked};
use super::literal::KeyOrders;
use super::manifest::{self, Manifest};
use super::names::{self, Names};
use super::pipe::{self, PipeFunction};
use super::problem::{self, Problem};
use super::reach::Reach;
use super::settings::Settings;
use super::source::{Kind, SourceFile, check_text};
use super::sources::Sources;
use super::tool::{self, ToolFunction};
use super::value::{dynamic_of, property_accessors};
use super::{budget, doubts, engine, imports, literal, shadow};
use crate::breaker::Breaker;
use crate::config::Secret;
use crate::figures::Figures;
use crate::filter::Hook;
use crate::json::Json;
use crate::valve::Schema;
use rhai::{AST, Dynamic, Engine, OptimizationLevel, ParseError, Scope, Stmt};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// A compiled script with its valves folded in. Frozen: another value makes another script.
pub struct Script {
    /// The file it comes from.
    pub file: SourceFile,
    /// What it says of itself.
    pub manifest: Manifest,
    /// Its effective valves; read-only.
    pub valves: Json,
    /// What its secret valves are set to: nobody reads that in what it prints or breaks with.
    pub(super) secrets: Arc<[Secret]>,
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
    pub(super) interpreter: Interpreter,
    pub(super) settings: Settings,
    pub(super) reach: Arc<Reach>,
    /// Its own file and those of its modules.
    pub(super) sources: Sources,
}

impl Script {
    /// Reads, checks and compiles; nothing of a filter runs, of a tool only what lists its tools.
    pub fn compile(file: &SourceFile, settings: &Settings) -> Result<Self, Vec<Problem>> {
        let (id, path, text) = (&*file.id, file.path.as_path(), &*file.text);
        check_text(file).map_err(|problem| vec![problem])?;
        let source = text.trim_start_matches('\u{feff}');
        let parse_problem = |error| vec![problem::of_parse(id, path, source, &error)];
        let Parsed { engine, as_written, plain, constants } = Parsed::of(source).map_err(parse_problem)?;
        let computed = never_run(&plain, id, file, source);
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
        if file.kind == Kind::Filter {
            problems.extend(manifest::misplaced_match(&manifest, &hooks, file, source));
        }
        problems.extend(names::misused(&plain, &manifest, file, source));
        problems.extend(doubts::about(&as_written, file, source));
        problems.extend(shadow::of_host(&as_written, file, source));
        let (linked, of_modules) = link::link(file, source, &as_written, &manifest);
        problems.extend(of_modules);
        let (valves, misfits) = manifest.valves.effective(&[&settings.configured, &settings.stored]);
        problems.extend(misfits.into_iter().map(|misfit| {
            let word = misfit.split('`').nth(1).unwrap_or("Valves").to_owned();
            Problem::new(id, path, misfit)
                .at_word(source, &word)
                .help(format!("set it again, or put it back: valvehouse valves reset {id} {word}"))
                .warning()
        }));
        let reach = Reach::of(&manifest, &valves, settings, file, source);
        let reach = reach.map_err(|more| problems.extend(more)).unwrap_or_default();
        if problem::has_errors(&problems) {
            return Err(problems);
        }

        let secrets = secrets(&manifest.valves, &valves);
        let mut values: HashMap<String, Dynamic> =
            constants.iter().map(|(name, value)| (name.clone(), dynamic_of(value))).collect();
        values.insert("Valves".into(), dynamic_of(&valves));
        values.extend(names::functions_as_values(&plain));
        let (mut engine, mut ast, names) =
            folded(engine, source, &plain, values, &linked).map_err(parse_problem)?;
        if settings.guarded {
            budget::obey(&mut engine);
        }
        ast.set_source(path.display().to_string());
        let mut script = Self {
            file: file.clone(),
            waiting: names.may_wait(),
            has_windows: names.modules.contains("stream"),
            manifest,
            secrets,
            valves: valves.freeze(),
            warnings: Vec::new(),
            breaker: Arc::new(Breaker::new(id, settings.breaker)),
            hooks,
            callbacks,
            listening: Breaker::new(id, settings.breaker),
            tools: Vec::new(),
            pipe: None,
            engine,
            ast,
            interpreter: Interpreter::default(),
            settings: settings.clone(),
            reach: Arc::new(reach),
            sources: linked.sources,
        };
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

    /// What is wrong with a module, looked at by itself: whoever imports it may still lack something.
    pub fn check_module(file: &SourceFile, root: &Path) -> Vec<Problem> {
        link::check(file, &imports::key_of(root, &file.path))
    }

    /// The plugin's id.
    pub fn id(&self) -> &str {
        &self.file.id
    }

    /// Where its hooks stand in the chain.
    pub fn priority(&self) -> f64 {
        crate::valve::priority(&self.valves)
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
struct Parsed {
    engine: Engine,
    /// Nothing folded: still in the order in which it was written.
    as_written: AST,
    plain: AST,
    /// The literal constants at its top level.
    constants: Vec<(String, Json)>,
}

impl Parsed {
    fn of(source: &str) -> Result<Self, ParseError> {
        let mut engine = engine::new();
        engine.set_optimization_level(OptimizationLevel::None);
        let as_written = engine.compile(source)?;
        engine.set_optimization_level(OptimizationLevel::Simple);
        let plain = engine.compile(source)?;
        let constants = literal::constants(&plain, &as_written);
        Ok(Self { engine, as_written, plain, constants })
    }
}

/// The functions of a file with the values of its constants in them, on an engine that knows every
/// name they use.
fn folded(
    mut engine: Engine,
    source: &str,
    plain: &AST,
    mut values: HashMap<String, Dynamic>,
    linked: &Linked,
) -> Result<(Engine, AST, Names), ParseError> {
    let parameters = plain.iter_functions().flat_map(|function| function.params).map(str::to_owned);
    let scope = known_to(&parameters.collect(), &values);
    linked.register(&mut engine);
    engine.set_strict_variables(true);
    let mut ast = engine.compile_with_scope(&scope, source)?.clone_functions_only();
    ast.combine(linked.functions.clone());
    values.extend(linked.values.clone());
    let names = Names::of(&ast);
    let mut engine = engine::with_modules(|name| names.modules.contains(name));
    linked.register(&mut engine);
    if names.modules.contains("tokens") {
        // Its tables take longer to unpack than a hook may run.
        std::thread::spawn(crate::chat::tokens::prepare);
    }
    engine.register_global_module(property_accessors(names.properties.iter().map(String::as_str)).into());
    values.retain(|name, _| names.variables.contains(name));
    engine::resolve_names(&mut engine, values, names.caught.iter().cloned().collect());
    Ok((engine, ast, names))
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

/// What stands at the top level and would have to run: it never does.
fn never_run(ast: &AST, id: &str, file: &SourceFile, source: &str) -> Vec<Problem> {
    let literal: Vec<String> =
        ast.iter_literal_variables(true, true).map(|(name, _, _)| name.to_owned()).collect();
    let mut problems = Vec::new();
    for statement in ast.statements() {
        if let Stmt::Var(variable, ..) = statement {
            let name = variable.0.name.as_str();
            if manifest::CONSTANTS.contains(&name) && !literal.iter().any(|known| known == name) {
                problems.push(
                    Problem::new(
                        id,
                        &file.path,
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

/// Shorter texts are in every other line; hiding them would tell what they are.
const SHORTEST_SECRET: usize = 6;

fn secrets(schema: &Schema, valves: &Json) -> Arc<[Secret]> {
    let secret = schema.fields().iter().filter(|field| field.secret);
    let texts =
        secret.filter_map(|field| valves.text(&field.name)).filter(|text| text.len() >= SHORTEST_SECRET);
    texts.map(|text| Secret::new(&text)).collect()
}

/// The valves that a text declares, also when it would not load; None where that cannot be told.
pub fn declared_valves(text: &str) -> Option<Schema> {
    let Parsed { constants, .. } = Parsed::of(text.trim_start_matches('\u{feff}')).ok()?;
    match constants.iter().find(|(name, _)| name == "Valves") {
        Some((_, literal)) => Schema::declare(literal).ok(),
        None => Some(Schema::default()),
    }
}
