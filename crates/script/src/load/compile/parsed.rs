//! A parsed file before folding, and its functions after folding, with the engine that runs them.

use crate::check::lint;
use crate::check::names::Names;
use crate::declare::manifest;
use crate::diagnostic::{Code, Diagnostic};
use crate::load::link::LinkedModules;
use crate::load::source::SourceFile;
use rhai::{AST, Dynamic, Engine, Module, OptimizationLevel, ParseError, Shared, Stmt};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use valvehouse_core::filter::Hook;
use valvehouse_core::valve::ValveSchema;
use valvehouse_dialect::instrument::{self, Coverage, InstrumentedBodies, Literals};
use valvehouse_dialect::language;
use valvehouse_dialect::syntax::{bounded_call, folding, literal};
use valvehouse_dialect::value::{KeyOrders, lend_functions_missing_beside, property_accessors};
use valvehouse_json::Json;
use valvehouse_script_std::{engine, functions, reference};

/// A parsed file.
pub(crate) struct ParsedFile {
    pub(crate) engine: Engine,
    /// The syntax without folding, in source order.
    pub(crate) as_written: AST,
    pub(crate) plain: AST,
    /// The literal constants of the top level.
    pub(crate) constants: Vec<(String, Json)>,
}

impl ParsedFile {
    pub(crate) fn of(source: &str) -> Result<Self, ParseError> {
        let mut engine = engine::new();
        let (as_written, plain) = folding::parse(&mut engine, source)?;
        let constants = literal::constants(&plain, &as_written);
        Ok(Self { engine, as_written, plain, constants })
    }
}

/// Finds computed statements at the top level, which never run.
pub(crate) fn never_run(ast: &AST, file: &SourceFile, source: &str) -> Vec<Diagnostic> {
    let literal: Vec<String> =
        ast.iter_literal_variables(true, true).map(|(name, _, _)| name.to_owned()).collect();
    let mut problems = Vec::new();
    for statement in ast.statements() {
        if let Stmt::Var(variable, ..) = statement {
            let name = variable.0.name.as_str();
            if manifest::CONSTANTS.contains(&name) && !literal.iter().any(|known| known == name) {
                problems.push(
                    Diagnostic::of(
                        Code::Computed,
                        file,
                        format!("cannot compute `{name}`: this constant is read without running the script"),
                    )
                    .at_word(source, name)
                    .help("write literal values only: numbers, strings, true, false, [], #{}"),
                );
            }
        }
    }
    problems
}

/// Returns the valves that a text declares, even if it does not load; `None` if they cannot be determined.
pub fn declared_valves(text: &str) -> Option<ValveSchema> {
    let ParsedFile { constants, .. } = ParsedFile::of(text.trim_start_matches('\u{feff}')).ok()?;
    match constants.iter().find(|(name, _)| name == "Valves") {
        Some((_, literal)) => ValveSchema::declare(literal).ok(),
        None => Some(ValveSchema::default()),
    }
}

/// The settings of one file's compilation.
#[derive(Default, Clone, Copy)]
pub(super) struct Beside<'a> {
    /// Modules that only this file may call.
    pub(super) own: &'a [(&'static str, Shared<Module>)],
    /// The recorder of the lines that run.
    pub(super) coverage: Option<&'a Arc<Coverage>>,
    /// The effective valves.
    pub(super) valves: Option<&'a Json>,
}

/// A file's functions, and the engine that runs them.
pub(super) struct FoldedFunctions {
    pub(super) engine: Engine,
    pub(super) ast: AST,
    pub(super) names: Names,
    /// The key orders of map literals.
    pub(super) orders: KeyOrders,
    /// The hooks that are proven to be short by their syntax before instrumentation.
    pub(super) cheap: Vec<Hook>,
}

/// Returns the first use of each name that a file does not know, in order.
pub(super) fn unknown_names(
    as_written: &AST,
    values: &HashMap<String, Dynamic>,
    own: &[(&str, Shared<Module>)],
) -> Vec<ParseError> {
    let imports = as_written.statements().iter().filter_map(|statement| match statement {
        Stmt::Import(import, _) => Some(import.1.as_str()),
        _ => None,
    });
    let known = functions::modules().iter().map(|(name, _)| *name).chain(["global"]);
    let known: HashSet<&str> = known.chain(imports).chain(own.iter().map(|(name, _)| *name)).collect();
    folding::unknown_names(as_written, |name| values.contains_key(name), |module| known.contains(module))
}

/// Folds constants and valves into the functions of a file, on an engine that knows every name they use: those of
/// the host, of the file's modules and of its `own` modules. The functions of the module "" need no prefix.
pub(super) fn folded(
    mut engine: Engine,
    source: &str,
    as_written: &AST,
    mut values: HashMap<String, Dynamic>,
    linked: &LinkedModules,
    beside: Beside<'_>,
) -> Result<FoldedFunctions, ParseError> {
    if let Some(unknown) = unknown_names(as_written, &values, beside.own).into_iter().next() {
        return Err(unknown);
    }
    let parameters = as_written.iter_functions().flat_map(|function| function.params).map(str::to_owned);
    let scope = folding::known_to(&parameters.collect(), &values);
    let register_own = |engine: &mut Engine| {
        if !beside.own.is_empty() {
            lend_functions_missing_beside(engine, beside.own.iter().map(|(_, module)| module));
        }
        for (name, module) in beside.own {
            if name.is_empty() {
                engine.register_global_module(module.clone());
            } else {
                engine.register_static_module(*name, module.clone());
            }
        }
    };
    linked.register(&mut engine);
    register_own(&mut engine);
    instrument::keep_unordered(&mut engine);
    // A line that is folded completely would never run.
    let level = if beside.coverage.is_some() { OptimizationLevel::None } else { OptimizationLevel::Simple };
    let mut ast = engine.optimize_ast(&scope, as_written.clone_functions_only(), level);
    let mut instrumented = InstrumentedBodies::new(reference::boolean_functions());
    let none = Json::object();
    let valves = beside.valves.unwrap_or(&none);
    let literals = Literals::of([as_written].into_iter().chain(&linked.as_written), &linked.orders);
    let coverage = beside.coverage.map(|coverage| &**coverage);
    let own = instrumented.add(ast.clone(), valves, &literals, coverage)?;
    let of_modules = instrumented.add(linked.functions.clone(), &none, &literals, None)?;
    let cheap = Hook::ALL.into_iter().filter(|hook| bounded_call::is_bounded(&ast, hook.name())).collect();
    ast.combine(linked.functions.clone());
    values.extend(linked.values.clone());
    let names = Names::of(&ast);
    let mut engine = engine::with_modules(|name| names.modules.contains(name));
    linked.register_instrumented(&mut engine, &of_modules);
    register_own(&mut engine);
    instrumented.register(&mut engine, beside.coverage)?;
    let mut ast = own;
    ast.combine(of_modules);
    if names.modules.contains("tokens") {
        // Unpacking the tables takes longer than a hook may run.
        std::thread::spawn(valvehouse_tokens::prepare);
    }
    let properties = || names.properties.iter().map(String::as_str);
    let misspelt = lint::misspelt_once(source, properties());
    engine.register_global_module(property_accessors(properties(), &misspelt).into());
    values.retain(|name, _| names.variables.contains(name));
    language::resolve_names(&mut engine, values, names.caught.iter().cloned().collect());
    Ok(FoldedFunctions { engine, ast, names, orders: linked.orders.clone(), cheap })
}
