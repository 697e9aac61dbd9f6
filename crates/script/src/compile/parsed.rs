//! A file as it was parsed, before anything of it is folded.

use crate::problem::{Code, Problem};
use crate::source::SourceFile;
use crate::{engine, folding, literal, manifest};
use rhai::{AST, Engine, OptimizationLevel, ParseError, Stmt};
use valvehouse_core::valve::Schema;
use valvehouse_json::Json;

/// A file as it was parsed.
pub(crate) struct Parsed {
    pub(crate) engine: Engine,
    /// Nothing folded: still in the order in which it was written.
    pub(crate) as_written: AST,
    pub(crate) plain: AST,
    /// The literal constants at its top level.
    pub(crate) constants: Vec<(String, Json)>,
}

impl Parsed {
    pub(crate) fn of(source: &str) -> Result<Self, ParseError> {
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

/// Finds statements at the top level that would have to run: they never do.
pub(crate) fn never_run(ast: &AST, file: &SourceFile, source: &str) -> Vec<Problem> {
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

/// The valves that a text declares, also when it would not load; None where that cannot be told.
pub fn declared_valves(text: &str) -> Option<Schema> {
    let Parsed { constants, .. } = Parsed::of(text.trim_start_matches('\u{feff}')).ok()?;
    match constants.iter().find(|(name, _)| name == "Valves") {
        Some((_, literal)) => Schema::declare(literal).ok(),
        None => Some(Schema::default()),
    }
}
