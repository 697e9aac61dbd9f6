//! The functions with instrumentation steps, and the bodies they run.
//!
//! A step is an expression of Rhai's "custom syntax". No source text can contain one, because the engine that runs
//! them parses nothing.

use super::handled::HandledTypes;
use super::kinds::{Kinds, KnownFunctions};
use super::literals::Literals;
use super::rewrite::{
    ADDED, ANSWER, CAPTURE, COMPARE, EITHER, ENTRIES, ENTRY, ORDER, PROBE, Rewrite, SLICE, SOURCE, SUBJECT,
    TRUTH, custom, is_needed,
};
use super::{loops, operators, predicates, switches, truths, writes};
use crate::budget::{self, WALK};
use crate::instrument::Coverage;
use crate::syntax::statements_of;
use crate::value::{after, places, set_order};
use crate::{call, standard};
use rhai::{
    AST, Dynamic, Engine, EvalAltResult, EvalContext, Expr, Expression, INT, ImmutableString, Module,
    ParseError, Position, ScriptFuncDef, StmtBlock,
};
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use valvehouse_core::filter::Hook;
use valvehouse_json::Json;

/// Runs one of the stored bodies.
const BODY: &str = "instrumented";
/// The number of operations that Rhai counts for a step and that are not charged to the script.
const OPERATIONS: u64 = 2;

/// The bodies of instrumented functions in all files of a script.
pub struct InstrumentedBodies {
    bodies: Vec<Body>,
    /// The modules and names of the host's functions that always return a boolean.
    booleans: &'static HashSet<(&'static str, &'static str)>,
}

/// The instrumented body of a function.
struct Body {
    name: String,
    code: Expr,
    /// `true` once it has run; used for coverage.
    ran: AtomicBool,
}

impl InstrumentedBodies {
    /// Creates an empty list. `booleans` are the modules and names of the host's functions that always return a boolean.
    pub fn new(booleans: &'static HashSet<(&'static str, &'static str)>) -> Self {
        Self { bodies: Vec::new(), booleans }
    }

    /// Returns the functions of a file with the steps they need. Hooks receive the `valves`. With `coverage`, all
    /// lines with a probe are recorded as runnable.
    ///
    /// # Errors
    /// Returns an error if a function cannot be parsed again.
    pub fn add(
        &mut self,
        functions: AST,
        valves: &Json,
        literals: &Literals,
        coverage: Option<&Coverage>,
    ) -> Result<AST, ParseError> {
        let asked = predicates::of(&functions);
        let own: HashSet<String> =
            functions.iter_fn_def().map(|function| function.name.to_string()).collect();
        let known = KnownFunctions { own: &own, booleans: self.booleans };
        if coverage.is_none() && asked.is_empty() && !is_needed(&functions, known, literals) {
            return Ok(functions);
        }
        let first = self.bodies.len();
        let (mut changed, mut module) = (Vec::new(), Module::new());
        let calls = functions.iter_fn_def().filter(|function| function.name == "call");
        let each = predicates::closures_of(&functions, &["for_each"]);
        let own_calls: Vec<usize> = calls.map(|function| function.params.len()).collect();
        for original in functions.iter_fn_def() {
            let statements = statements_of(original);
            let kinds = Kinds::of(original, &statements, valves, known);
            let mut body = StmtBlock::new(statements.clone(), Position::NONE, Position::NONE);
            let lines = coverage.map(Coverage::runnable_lines);
            let handled = HandledTypes::of(&statements);
            let mut rewrite = Rewrite {
                kinds: &kinds,
                handled: &handled,
                literals,
                lines,
                own_calls: &own_calls,
                has_changed: false,
            };
            // The end of a hook changes the request; that of any other function is its value.
            let is_hook = Hook::ALL.iter().any(|hook| hook.name() == original.name.as_str());
            rewrite.block(&mut body, !is_hook && !each.contains(original.name.as_str()));
            let has_changed = rewrite.has_changed;
            let is_asked = asked.contains(&*original.name) && predicates::is_doubtful(&statements, &kinds);
            if has_changed || is_asked {
                changed.push(original);
                let (name, body) = (original.name.to_string(), Expr::Stmt(body.into()));
                let code = if is_asked { custom(ANSWER, [body]) } else { body };
                self.bodies.push(Body { name, code, ran: AtomicBool::new(false) });
            } else {
                module.set_script_fn(ScriptFuncDef::clone(original));
            }
        }
        let empty = empty_bodies(first..self.bodies.len())?;
        for (index, original) in (first..).zip(changed) {
            let name = name_of_empty(index);
            if let Some(empty) = empty.iter_fn_def().find(|function| function.name.as_str() == name) {
                module.set_script_fn(ScriptFuncDef {
                    body: empty.body.clone(),
                    ..ScriptFuncDef::clone(original)
                });
            }
        }
        module.build_index();
        Ok(AST::new([], module))
    }

    /// Registers the steps on the engine that runs the functions.
    ///
    /// # Errors
    /// Returns an error if the engine has other syntax of the same name.
    pub fn register(self, engine: &mut Engine, coverage: Option<&Arc<Coverage>>) -> Result<(), ParseError> {
        if self.bodies.is_empty() {
            return Ok(());
        }
        if let Some(coverage) = coverage.cloned() {
            engine.register_custom_syntax([PROBE, "$int$"], false, move |_, inputs| {
                budget::forgive(OPERATIONS);
                coverage.add_run(number(inputs));
                Ok(Dynamic::UNIT)
            })?;
        }
        engine.register_custom_syntax([CAPTURE, "$string$"], false, |context, inputs| {
            budget::forgive(OPERATIONS);
            share(context, inputs);
            Ok(Dynamic::UNIT)
        })?;
        // This engine parses nothing.
        let parse = |_: &[ImmutableString], _: &str, _: &mut Dynamic| Ok(None);
        engine.register_custom_syntax_with_state_raw(SUBJECT, parse, false, |context, inputs, cases| {
            budget::forgive(1);
            let Some(subject) = inputs.first() else { return Ok(Dynamic::UNIT) };
            let value = context.eval_expression_tree(subject)?;
            standard::check_size(context.engine(), &value)?;
            switches::look(&value, cases, subject.position())?;
            Ok(value)
        });
        engine.register_custom_syntax_with_state_raw(EITHER, parse, false, truths::either);
        engine.register_custom_syntax_with_state_raw(COMPARE, parse, false, operators::compare);
        engine.register_custom_syntax([SLICE, "$expr$", "$expr$"], false, slice)?;
        engine.register_custom_syntax([TRUTH, "$expr$"], false, truths::convert)?;
        engine.register_custom_syntax([ANSWER, "$expr$"], false, predicates::answer)?;
        engine.register_custom_syntax([ENTRIES, "$expr$"], false, loops::entries)?;
        engine.register_custom_syntax([ENTRY, "$string$", "$string$"], false, |context, inputs| {
            loops::take_apart(context, inputs);
            Ok(Dynamic::UNIT)
        })?;
        engine.register_custom_syntax_with_state_raw(SOURCE, parse, false, |context, inputs, target| {
            budget::forgive(OPERATIONS);
            if let Some(source) = inputs.first() {
                let source = context.eval_expression_tree(source)?.flatten();
                writes::look(&source, target)?;
            }
            Ok(Dynamic::UNIT)
        });
        engine.register_custom_syntax_with_state_raw(ORDER, parse, false, |context, inputs, tag| {
            budget::forgive(1);
            let Some(map) = inputs.first() else { return Ok(Dynamic::UNIT) };
            let mut map = context.eval_expression_tree(map)?;
            if let Ok(tag) = tag.as_int() {
                set_order(&mut map, tag);
            }
            Ok(map)
        });
        engine.register_custom_syntax([ADDED, "$expr$", "$expr$"], false, |context, inputs| {
            budget::forgive(1);
            operators::added(context, inputs)
        })?;
        let coverage = coverage.cloned();
        engine.register_custom_syntax([BODY, "$int$"], false, move |context, inputs| {
            budget::forgive(OPERATIONS);
            let Some(body) = self.bodies.get(number(inputs)) else { return Ok(Dynamic::UNIT) };
            if let Some(coverage) = &coverage
                && !body.ran.swap(true, Relaxed)
                && !body.name.starts_with("anon$")
            {
                coverage.add_call(&body.name);
            }
            context.eval_expression_tree(&Expression::from(&body.code))
        })?;
        Ok(())
    }
}

/// Returns a part of a list, a text, bytes or the bits of a number.
fn slice(
    context: &mut EvalContext<'_, '_, '_, '_, '_, '_>,
    inputs: &[Expression<'_>],
) -> Result<Dynamic, Box<EvalAltResult>> {
    budget::forgive(1);
    let [value, range] = inputs else { return Ok(Dynamic::UNIT) };
    let mut value = context.eval_expression_tree(value)?.flatten();
    let mut range = context.eval_expression_tree(range)?;
    let exclusive = range.read_lock::<Range<INT>>().map(|range| (range.start, range.end));
    let inclusive =
        range.read_lock::<RangeInclusive<INT>>().map(|range| (*range.start(), after(*range.end())));
    if let Some((start, end)) = exclusive.or(inclusive) {
        standard::check_size(context.engine(), &value)?;
        if let Ok(array) = value.as_array_ref() {
            return Ok(array[places(start, end, array.len())].to_vec().into());
        }
        if let Ok(text) = value.as_immutable_string_ref() {
            budget::charge_bytes(text.len(), WALK).map_err(budget::ended)?;
            let places = places(start, end, text.chars().count());
            return Ok(text.chars().skip(places.start).take(places.len()).collect::<String>().into());
        }
    }
    let function = match () {
        () if value.is_int() => "get_bits",
        () if value.is_blob() => "extract",
        () => "index$get$",
    };
    context.call_native_fn_raw(function, true, &mut [&mut value, &mut range])
}

fn number(inputs: &[Expression<'_>]) -> usize {
    let number = inputs.first().and_then(|input| input.get_literal_value::<i64>());
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

/// Compiles functions that each run the body with their number.
fn empty_bodies(numbers: std::ops::Range<usize>) -> Result<AST, ParseError> {
    let mut engine = Engine::new_raw();
    engine.register_custom_syntax([BODY, "$int$"], false, |_, _| Ok(Dynamic::UNIT))?;
    let text: String =
        numbers.map(|index| format!("fn {}() {{ {BODY} {index} }}\n", name_of_empty(index))).collect();
    engine.compile(text)
}

fn name_of_empty(index: usize) -> String {
    format!("body_{index}")
}

/// Makes a variable shared before the interpreter does, and records it. Outside of calls, such as when the tools of
/// a file are listed, captured variables are kept.
fn share(context: &mut EvalContext<'_, '_, '_, '_, '_, '_>, inputs: &[Expression<'_>]) {
    for input in inputs {
        let Some(name) = input.get_literal_value::<ImmutableString>() else { continue };
        let Some(value) = context.scope_mut().get_mut(&name) else { continue };
        if !value.is_shared() {
            *value = std::mem::take(value).into_shared();
            call::remember_captured(value);
        }
    }
}
