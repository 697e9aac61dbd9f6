//! Functions of a script with a probe before each statement.
//!
//! A probe is an expression of Rhai's "custom syntax" that marks its line. No text becomes one: the engine
//! that runs them parses nothing. Rhai gives nobody the body of a parsed function to change, so each becomes
//! one that runs a changed copy of it, kept beside.

use super::{Coverage, Lines};
use crate::script::body::statements_of;
use crate::script::budget;
use rhai::{
    AST, CustomExpr, Dynamic, Engine, Expr, Expression, Module, ParseError, Position, ScriptFuncDef, Stmt,
    StmtBlock,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Marks a line.
const PROBE: &str = "probe";
/// Runs one of the bodies kept beside.
const BODY: &str = "probed";
/// Operations that Rhai counts for either, which the script did not ask for.
const OPERATIONS: u64 = 2;

/// What a function runs.
pub(crate) struct Body {
    name: String,
    code: Expr,
    ran: AtomicBool,
}

/// The functions with probes, and what their bodies run. All lines with a probe count as runnable.
pub(crate) fn probed(functions: &AST, coverage: &Coverage) -> Result<(AST, Vec<Body>), ParseError> {
    let originals: Vec<&ScriptFuncDef> = functions.iter_fn_def().map(|function| &**function).collect();
    let empty = empty_bodies(originals.len())?;
    let (mut module, mut bodies) = (Module::new(), Vec::new());
    for (index, original) in originals.into_iter().enumerate() {
        let mut body = body_of(original);
        Probes(&coverage.runnable).block(&mut body);
        bodies.push(Body {
            name: original.name.to_string(),
            code: Expr::Stmt(body.into()),
            ran: AtomicBool::new(false),
        });
        let name = name_of_empty(index);
        if let Some(empty) = empty.iter_fn_def().find(|function| function.name.as_str() == name) {
            module.set_script_fn(ScriptFuncDef { body: empty.body.clone(), ..original.clone() });
        }
    }
    module.build_index();
    Ok((AST::new([], module), bodies))
}

/// Makes the engine that runs them know probes and bodies.
pub(crate) fn register(
    engine: &mut Engine,
    bodies: Vec<Body>,
    coverage: &Arc<Coverage>,
) -> Result<(), ParseError> {
    let (lines, functions) = (coverage.clone(), coverage.clone());
    engine.register_custom_syntax([PROBE, "$int$"], false, move |_, inputs| {
        budget::forgive(OPERATIONS);
        lines.ran.add(number(inputs));
        Ok(Dynamic::UNIT)
    })?;
    engine.register_custom_syntax([BODY, "$int$"], false, move |context, inputs| {
        budget::forgive(OPERATIONS);
        let Some(body) = bodies.get(number(inputs)) else { return Ok(Dynamic::UNIT) };
        if !body.ran.swap(true, Relaxed) && !body.name.starts_with("anon$") {
            functions.called.lock().insert(body.name.clone());
        }
        context.eval_expression_tree(&Expression::from(&body.code))
    })?;
    Ok(())
}

fn number(inputs: &[Expression<'_>]) -> usize {
    let number = inputs.first().and_then(|input| input.get_literal_value::<i64>());
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

/// Functions that each run the body of their number.
fn empty_bodies(count: usize) -> Result<AST, ParseError> {
    let mut engine = Engine::new_raw();
    engine.register_custom_syntax([BODY, "$int$"], false, |_, _| Ok(Dynamic::UNIT))?;
    let text: String =
        (0..count).map(|index| format!("fn {}() {{ {BODY} {index} }}\n", name_of_empty(index))).collect();
    engine.compile(text)
}

fn name_of_empty(index: usize) -> String {
    format!("body_{index}")
}

/// A copy of what a function runs.
fn body_of(function: &ScriptFuncDef) -> StmtBlock {
    StmtBlock::new(statements_of(function), Position::NONE, Position::NONE)
}

/// Puts probes in, and notes their lines.
struct Probes<'a>(&'a Lines);

impl Probes<'_> {
    fn block(&self, block: &mut StmtBlock) {
        let statements = std::mem::take(block.statements_mut());
        // A closure that uses variables around it is made in a block of Rhai's own, which nobody wrote.
        let is_written = !matches!(statements.first(), Some(Stmt::Share(_)));
        let mut last = None;
        for mut statement in statements {
            let line = line_of(&statement).filter(|_| is_written);
            self.statement(&mut statement);
            if let Some(line) = line
                && last.replace(line) != Some(line)
            {
                self.0.add(line);
                block.statements_mut().push(probe(line));
            }
            block.statements_mut().push(statement);
        }
    }

    fn statement(&self, statement: &mut Stmt) {
        match statement {
            Stmt::If(flow, _) | Stmt::While(flow, _) | Stmt::Do(flow, ..) | Stmt::TryCatch(flow, _) => {
                self.expression(&mut flow.expr);
                self.block(&mut flow.body);
                self.block(&mut flow.branch);
            }
            Stmt::For(parts, _) => {
                self.expression(&mut parts.2.expr);
                self.block(&mut parts.2.body);
            }
            Stmt::Switch(parts, _) => {
                self.expression(&mut parts.0);
                for case in &mut parts.1.expressions {
                    self.expression(&mut case.lhs);
                    self.expression(&mut case.rhs);
                }
            }
            Stmt::Var(variable, ..) => self.expression(&mut variable.1),
            Stmt::Assignment(parts) => {
                self.expression(&mut parts.1.lhs);
                self.expression(&mut parts.1.rhs);
            }
            Stmt::FnCall(call, _) => call.args.iter_mut().for_each(|argument| self.expression(argument)),
            Stmt::Block(block) => self.block(block),
            Stmt::Expr(expression)
            | Stmt::BreakLoop(Some(expression), ..)
            | Stmt::Return(Some(expression), ..) => self.expression(expression),
            // Nothing in them runs.
            _ => {}
        }
    }

    fn expression(&self, expression: &mut Expr) {
        match expression {
            Expr::InterpolatedString(parts, _) | Expr::Array(parts, _) => {
                parts.iter_mut().for_each(|part| self.expression(part));
            }
            Expr::Map(entries, _) => entries.0.iter_mut().for_each(|(_, value)| self.expression(value)),
            Expr::Stmt(block) => self.block(block),
            Expr::FnCall(call, _) | Expr::MethodCall(call, _) => {
                call.args.iter_mut().for_each(|argument| self.expression(argument));
            }
            Expr::Dot(pair, ..) | Expr::Index(pair, ..) => {
                self.expression(&mut pair.lhs);
                self.expression(&mut pair.rhs);
            }
            Expr::And(parts, _) | Expr::Or(parts, _) | Expr::Coalesce(parts, _) => {
                parts.iter_mut().for_each(|part| self.expression(part));
            }
            // Constants, variables and properties.
            _ => {}
        }
    }
}

/// Where a statement begins; none of what only holds others.
fn line_of(statement: &Stmt) -> Option<usize> {
    match statement {
        Stmt::Noop(_) | Stmt::Block(_) | Stmt::Share(_) => None,
        // It says where its `=` is.
        Stmt::Assignment(parts) => parts.1.lhs.start_position().line(),
        statement => statement.position().line(),
    }
}

fn probe(line: usize) -> Stmt {
    let number = i64::try_from(line).unwrap_or_default();
    let custom = CustomExpr {
        inputs: [Expr::IntegerConstant(number, Position::NONE)].into_iter().collect(),
        tokens: [PROBE.into()].into_iter().collect(),
        state: Dynamic::UNIT,
        scope_may_be_changed: false,
        self_terminated: false,
    };
    Stmt::Expr(Expr::Custom(custom.into(), Position::NONE).into())
}
