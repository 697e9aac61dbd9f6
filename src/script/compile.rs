//! From a file's text to a script that can be called.

use super::answer::Thrown;
use super::budget::{Budget, Guard};
use super::call::Running;
use super::hooks::{self, HookFunction};
use super::manifest::{self, Capability, Manifest};
use super::names::{self, Names};
use super::problem::{self, Problem, Severity};
use super::value::{dynamic_of, property_accessors};
use super::{doubts, engine, literal, package};
use crate::context::Turn;
use crate::fault::{Breakage, Refusal};
use crate::filter::Hook;
use crate::json::Json;
use crate::store::Kv;

use rhai::{AST, CallFnOptions, Dynamic, Engine, EvalAltResult, OptimizationLevel, Scope, Stmt};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Longest source that is read.
pub(super) const MAX_SOURCE: usize = 256 * 1024;
/// Most parameters of one function: Rhai compares each with each.
const MAX_PARAMETERS: usize = 32;

/// A script file as it was read.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// The plugin's id.
    pub id: Arc<str>,
    /// Where it was read.
    pub path: PathBuf,
    /// Its text.
    pub text: Arc<str>,
}

/// What the host says of a script: values for its valves, and what it may spend.
#[derive(Debug, Clone)]
pub struct Settings {
    /// From the configuration file.
    pub configured: Json,
    /// From the store.
    pub stored: Json,
    /// For `stream` and `stream_end`.
    pub stream: Budget,
    /// For every other filter hook.
    pub hook: Budget,
    /// The scripts' own maps.
    pub kv: Arc<Kv>,
}

impl Default for Settings {
    fn default() -> Self {
        use std::time::Duration;
        Self {
            configured: Json::Null,
            stored: Json::Null,
            stream: Budget { operations: 50_000, time: Duration::from_millis(5) },
            hook: Budget { operations: 1_000_000, time: Duration::from_millis(100) },
            kv: Arc::default(),
        }
    }
}

/// A compiled script with its valves folded in. Frozen: another value makes another script.
pub struct Script {
    /// The file it comes from.
    pub file: SourceFile,
    /// What it says of itself.
    pub manifest: Manifest,
    /// Its effective valves; read-only.
    pub valves: Json,
    /// What is not meant, though it loads: valves that no longer fit, hooks spelt almost right.
    pub warnings: Vec<Problem>,
    hooks: Vec<HookFunction>,
    waiting: bool,
    engine: Engine,
    ast: AST,
    settings: Settings,
}

impl Script {
    /// Reads, checks and compiles; nothing of the script runs.
    pub fn compile(file: &SourceFile, settings: &Settings) -> Result<Self, Vec<Problem>> {
        let (id, path, text) = (&*file.id, file.path.as_path(), &*file.text);
        check_size(file).map_err(|problem| vec![problem])?;
        let source = text.trim_start_matches('\u{feff}');
        let mut engine = engine::new();
        let parse_problem = |error: &rhai::ParseError| vec![problem::of_parse(id, path, source, error)];
        engine.set_optimization_level(OptimizationLevel::None);
        let as_written = engine.compile(source).map_err(|error| parse_problem(&error))?;
        engine.set_optimization_level(OptimizationLevel::Simple);
        let plain = engine.compile(source).map_err(|error| parse_problem(&error))?;

        let constants = literal::constants(&plain, &as_written);
        let computed = never_run(&plain, id, file, source);
        let manifest = manifest::read(id, path, source, &constants);
        let (hooks, mut problems) = hooks::read(&plain, id, path, source);
        problems.extend(names::assigned(&plain, &constants, file, source));
        problems.extend(computed);
        let manifest = match manifest {
            Ok(manifest) => {
                problems.extend(names::misused(&plain, &manifest, file, source));
                problems.extend(doubts::about(&as_written, file, source));
                manifest
            }
            Err(more) => {
                problems.extend(more);
                return Err(problems);
            }
        };
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(problems);
        }

        let (valves, misfits) = manifest.valves.effective(&[&settings.configured, &settings.stored]);
        problems.extend(misfits.into_iter().map(|misfit| {
            let word = misfit.split('`').nth(1).unwrap_or("Valves").to_owned();
            Problem::new(id, path, misfit)
                .at_word(source, &word)
                .help(format!("set it again, or put it back: valvehouse valves reset {id} {word}"))
                .warning()
        }));
        let mut folded: HashMap<String, Dynamic> =
            constants.iter().map(|(name, value)| (name.clone(), dynamic_of(value))).collect();
        folded.insert("Valves".into(), dynamic_of(&valves));
        let mut scope = Scope::new();
        for (name, value) in &folded {
            scope.push_constant_dynamic(name.as_str(), value.clone());
        }
        engine.set_strict_variables(true);
        let ast = engine.compile_with_scope(&scope, source).map_err(|error| parse_problem(&error))?;
        let mut ast = ast.clone_functions_only();
        ast.set_source(path.display().to_string());

        let names = Names::of(&ast);
        if names.modules.contains("tokens") {
            // Its tables take longer to unpack than a hook may run.
            std::thread::spawn(package::prepare_tokens);
        }
        engine.register_global_module(property_accessors(names.properties.iter().map(String::as_str)).into());
        folded.retain(|name, _| names.variables.contains(name));
        engine::resolve_names(&mut engine, folded, names.caught.into_iter().collect());
        Ok(Self {
            file: file.clone(),
            waiting: names.calls.iter().any(|name| name == "ask" || name == "__event_call__"),
            manifest,
            valves: valves.freeze(),
            warnings: problems,
            hooks,
            engine,
            ast,
            settings: settings.clone(),
        })
    }

    /// The plugin's id.
    pub fn id(&self) -> &str {
        &self.file.id
    }

    /// Where its hooks stand in the chain.
    pub fn priority(&self) -> f64 {
        crate::valve::priority(&self.valves)
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

    /// Calls one hook's function within its budget.
    pub(super) fn call(&self, hook: Hook, args: Vec<Dynamic>, turn: &Turn) -> Result<Dynamic, Ended> {
        let budget = match hook {
            Hook::Stream | Hook::StreamEnd => self.settings.stream,
            _ => self.settings.hook,
        };
        let _guard = Guard::enter(budget);
        let _running = Running::enter(&self.file.id, turn, self.kv());
        let options = CallFnOptions::new().eval_ast(false).rewind_scope(false);
        let name = hook.name();
        self.engine
            .call_fn_with_options(options, &mut Scope::new(), &self.ast, name, args)
            .map_err(|error| self.ended(name, &error))
    }

    fn kv(&self) -> Option<Arc<Kv>> {
        let declared = self.manifest.requirements.contains(&Capability::Kv);
        declared.then(|| self.settings.kv.clone())
    }

    fn ended(&self, function: &str, error: &EvalAltResult) -> Ended {
        if let EvalAltResult::ErrorRuntime(value, _) = error.unwrap_inner()
            && let Some(thrown) = value.read_lock::<Thrown>()
            && !thrown.bug
        {
            return Ended::Refused(thrown.refusal.clone());
        }
        Ended::Broken(Breakage::new(problem::of_run(&self.file.path, function, error)))
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Script({})", self.file.path.display())
    }
}

/// How a call ended without a value.
pub(super) enum Ended {
    Refused(Refusal),
    Broken(Breakage),
}

fn check_size(file: &SourceFile) -> Result<(), Problem> {
    let problem = |message: String| Problem::new(&file.id, &file.path, message);
    if file.text.len() > MAX_SOURCE {
        return Err(problem(format!(
            "the script has {} KB; at most {} KB are read",
            file.text.len() / 1024,
            MAX_SOURCE / 1024
        ))
        .help("split it, or move data into valves or the store"));
    }
    for (at, _) in file.text.match_indices("fn ") {
        let signature = file.text[at..].split_once(')').map_or("", |(signature, _)| signature);
        if signature.contains('(') && signature.matches(',').count() >= MAX_PARAMETERS {
            return Err(problem(format!("a function has more than {MAX_PARAMETERS} parameters"))
                .help("hand in one map instead"));
        }
    }
    Ok(())
}

/// What stands at the top level and would have to run: it never does.
fn never_run(ast: &AST, id: &str, file: &SourceFile, source: &str) -> Vec<Problem> {
    const READ: [&str; 8] =
        ["Valves", "UserValves", "file_handler", "toggle", "icon", "on_tool_error", "tool", "parameters"];
    let literal: Vec<String> =
        ast.iter_literal_variables(true, true).map(|(name, _, _)| name.to_owned()).collect();
    let mut problems = Vec::new();
    for statement in ast.statements() {
        if let Stmt::Import(_, position) = statement {
            problems.push(
                Problem::new(id, &file.path, "`import` is not in this version")
                    .at(source, *position)
                    .help("copy the functions it would bring into this file"),
            );
        }
        if let Stmt::Var(variable, ..) = statement {
            let name = variable.0.name.as_str();
            if READ.contains(&name) && !literal.iter().any(|known| known == name) {
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
