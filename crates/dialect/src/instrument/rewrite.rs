//! The steps that are added to a function, their positions, and their names in Rhai's "custom syntax".

use super::handled::HandledTypes;
use super::kinds::{Kinds, KnownFunctions};
use super::literals::Literals;
use super::{chains, loops, operators, places, slices, switches, truths, values, writes};
use crate::instrument::Lines;
use crate::syntax::tokens;
use rhai::{AST, ASTFlags, ASTNode, CustomExpr, Dynamic, Expr, FnCallExpr, Position, Stmt, StmtBlock};

/// Returns `true` if one of these functions needs a step even without coverage.
pub(super) fn is_needed(file: &AST, functions: KnownFunctions<'_>, literals: &Literals) -> bool {
    !file.walk(&mut |path: &[ASTNode<'_>]| match path.last() {
        // The walk does not enter the value of a `break`.
        Some(ASTNode::Stmt(Stmt::Switch(..) | Stmt::Share(..) | Stmt::BreakLoop(Some(_), ..))) => false,
        Some(ASTNode::Stmt(Stmt::For(parts, _))) => parts.1.is_none(),
        Some(ASTNode::Expr(Expr::MethodCall(call, _))) => values::place_of(call).is_none(),
        Some(ASTNode::Stmt(statement)) if let Some(condition) = truths::condition_of(statement) => {
            truths::is_plain(condition, functions)
        }
        Some(ASTNode::Expr(Expr::And(parts, _) | Expr::Or(parts, _))) => {
            parts.iter().all(|part| truths::is_plain(part, functions))
        }
        Some(ASTNode::Expr(Expr::FnCall(call, _)) | ASTNode::Stmt(Stmt::FnCall(call, _)))
            if truths::is_not(call) =>
        {
            call.args.iter().all(|argument| truths::is_plain(argument, functions))
        }
        Some(ASTNode::Stmt(Stmt::Assignment(parts))) => {
            !parts.0.is_op_assignment() && !writes::is_optional(&parts.1.lhs)
        }
        Some(ASTNode::Expr(Expr::FnCall(call, _)) | ASTNode::Stmt(Stmt::FnCall(call, _))) => {
            !operators::is_comparison(call) && !is_call(call) && tokens::either(call).is_none()
        }
        Some(ASTNode::Expr(chain @ Expr::Index(..))) => !slices::is_slice(chain),
        Some(ASTNode::Expr(Expr::DynamicConstant(_, position))) => !literals.has(*position),
        Some(ASTNode::Expr(map @ Expr::Map(..))) => literals.tag(map).is_none(),
        _ => true,
    })
}

fn is_call(call: &FnCallExpr) -> bool {
    call.name == "call" && call.op_token.is_none() && call.namespace.is_empty()
}

/// Adds the steps to a body.
pub(super) struct Rewrite<'a> {
    /// The kinds of the values in the function.
    pub(super) kinds: &'a Kinds<'a>,
    /// The comparisons that expect values of several types.
    pub(super) handled: &'a HandledTypes,
    /// The literals whose keys are not sorted.
    pub(super) literals: &'a Literals,
    /// The set in which lines with a probe are recorded; `None` adds no probes.
    pub(super) lines: Option<&'a Lines>,
    /// The numbers of parameters of the script's functions `call`.
    pub(super) own_calls: &'a [usize],
    /// `true` if the body was changed.
    pub(super) has_changed: bool,
}

impl Rewrite<'_> {
    /// Adds the steps to a block. `has_value` if the value of its last statement is used.
    pub(super) fn block(&mut self, block: &mut StmtBlock, has_value: bool) {
        let statements = std::mem::take(block.statements_mut());
        let count = statements.len();
        // A closure with captured variables is created in a block that Rhai adds itself.
        let is_written = !matches!(statements.first(), Some(Stmt::Share(_)));
        let mut last = None;
        for (at, mut statement) in statements.into_iter().enumerate() {
            let line = line_of(&statement).filter(|_| is_written);
            self.statement(&mut statement, has_value && at + 1 == count);
            if let Some(line) = line
                && last.replace(line) != Some(line)
                && let Some(lines) = self.lines
            {
                lines.add(line);
                self.has_changed = true;
                let probe = custom(PROBE, [Expr::IntegerConstant(line as i64, Position::NONE)]);
                block.statements_mut().push(Stmt::Expr(probe.into()));
            }
            if let Stmt::Share(variables) = &statement {
                self.has_changed = true;
                let names = variables
                    .iter()
                    .map(|(variable, _)| Expr::StringConstant(variable.name.clone(), Position::NONE));
                block.statements_mut().push(Stmt::Expr(custom(CAPTURE, names).into()));
            }
            if let Stmt::Assignment(parts) = &statement
                && writes::is_optional(&parts.1.lhs)
                && let Some(source) = writes::source_of(&parts.1.lhs, self.kinds)
            {
                self.has_changed = true;
                let position = parts.1.lhs.start_position();
                let state = writes::state_of(&source, position);
                block.statements_mut().push(Stmt::Expr(custom_at(SOURCE, [source], state, position).into()));
            }
            block.statements_mut().push(statement);
        }
    }

    fn statement(&mut self, statement: &mut Stmt, has_value: bool) {
        let has_condition = truths::condition_of(statement).is_some();
        match statement {
            Stmt::If(flow, _) | Stmt::While(flow, _) | Stmt::Do(flow, ..) | Stmt::TryCatch(flow, _) => {
                match has_condition {
                    true => self.condition(&mut flow.expr),
                    false => self.expression(&mut flow.expr),
                }
                let has_value = has_value && matches!(statement, Stmt::If(..));
                let (Stmt::If(flow, _) | Stmt::While(flow, _) | Stmt::Do(flow, ..) | Stmt::TryCatch(flow, _)) =
                    statement
                else {
                    return;
                };
                self.block(&mut flow.body, has_value);
                self.block(&mut flow.branch, has_value);
            }
            Stmt::For(..) => self.repetition(statement),
            Stmt::Switch(parts, _) => {
                self.expression(&mut parts.0);
                // The interpreter hashes everything the value refers to, without checking a budget.
                let subject = std::mem::replace(&mut parts.0, Expr::Unit(Position::NONE));
                let (state, position) = (switches::state_of(&parts.1), subject.start_position());
                parts.0 = custom_at(SUBJECT, [subject], state, position);
                self.has_changed = true;
                for case in &mut parts.1.expressions {
                    self.condition(&mut case.lhs);
                    self.evaluated(&mut case.rhs, has_value);
                }
            }
            Stmt::Var(variable, ..) => self.expression(&mut variable.1),
            Stmt::Assignment(parts) => {
                let (operator, pair) = &mut **parts;
                let is_sum = operator.get_op_assignment_info().is_some_and(|(.., name)| name == "+");
                let may_nest = is_sum && operators::may_nest(&pair.lhs, &pair.rhs, self.kinds);
                let is_place = may_nest && places::is_place(&pair.lhs, self.kinds);
                // A target must keep its variable.
                self.inside(&mut pair.lhs);
                self.expression(&mut pair.rhs);
                if may_nest {
                    let value = std::mem::replace(&mut pair.rhs, Expr::Unit(Position::NONE));
                    // The step evaluates the target again, but calls must happen once.
                    let target = is_place.then(|| pair.lhs.clone());
                    pair.rhs = custom(ADDED, target.into_iter().chain([value]));
                    self.has_changed = true;
                }
            }
            Stmt::FnCall(call, position) if operators::is_doubtful(call, self.kinds, self.handled) => {
                let compared = self.compared(call, *position);
                *statement = Stmt::Expr(compared.into());
            }
            Stmt::FnCall(call, position) if tokens::either(call).is_some() => {
                let mut operands = Expr::FnCall(call.clone(), *position);
                self.inside(&mut operands);
                *statement = Stmt::Expr(operands.into());
            }
            Stmt::FnCall(call, _) if truths::is_not(call) => {
                call.args.iter_mut().for_each(|argument| self.condition(argument));
            }
            Stmt::FnCall(call, _) => {
                self.own_call(call);
                call.args.iter_mut().for_each(|argument| self.expression(argument));
            }
            Stmt::Block(block) => self.block(block, has_value),
            Stmt::Expr(expression) => self.evaluated(expression, has_value),
            Stmt::BreakLoop(Some(expression), ..) | Stmt::Return(Some(expression), ..) => {
                self.expression(expression)
            }
            // Nothing in them runs.
            _ => {}
        }
    }

    /// Handles a `for`.
    fn repetition(&mut self, statement: &mut Stmt) {
        let may_be_over_map = loops::may_be_over_map(statement, self.kinds);
        let Stmt::For(parts, _) = statement else { return };
        let (item, counter, flow) = &mut **parts;
        self.expression(&mut flow.expr);
        self.block(&mut flow.body, false);
        let Some(counter) = counter.as_ref().filter(|_| may_be_over_map) else { return };
        self.has_changed = true;
        let position = flow.expr.start_position();
        let over = std::mem::replace(&mut flow.expr, Expr::Unit(Position::NONE));
        flow.expr = custom_at(ENTRIES, [over], Dynamic::UNIT, position);
        let names = [item.name.clone(), counter.name.clone()];
        let entry = custom(ENTRY, names.map(|name| Expr::StringConstant(name, Position::NONE)));
        flow.body.statements_mut().insert(0, Stmt::Expr(entry.into()));
    }

    /// Makes `call(…)` call the script's own function of this name, not a closure. Functions are found by their hash;
    /// Rhai compares the name with that of the built-in function.
    fn own_call(&mut self, call: &mut FnCallExpr) {
        if is_call(call) && self.own_calls.contains(&call.args.len()) {
            call.name = "call of the script".into();
            self.has_changed = true;
        }
    }

    /// Returns the step that replaces a comparison.
    fn compared(&mut self, call: &mut FnCallExpr, position: Position) -> Expr {
        call.args.iter_mut().for_each(|argument| self.expression(argument));
        self.has_changed = true;
        let state = operators::state_of(&call.name, position);
        custom_at(COMPARE, std::mem::take(&mut call.args), state, position)
    }

    /// Converts a condition to a boolean unless it is one.
    fn condition(&mut self, condition: &mut Expr) {
        if let Expr::And(parts, _) | Expr::Or(parts, _) = condition {
            return parts.iter_mut().for_each(|part| self.condition(part));
        }
        if let Expr::FnCall(call, _) = condition
            && tokens::either(call).is_some()
        {
            call.args.iter_mut().for_each(|part| self.condition(part));
        }
        let is_doubtful = truths::is_doubtful(condition, self.kinds);
        self.expression(condition);
        if is_doubtful {
            let position = condition.start_position();
            let value = std::mem::replace(condition, Expr::Unit(Position::NONE));
            *condition = custom_at(TRUTH, [value], Dynamic::UNIT, position);
            self.has_changed = true;
        }
    }

    fn expression(&mut self, expression: &mut Expr) {
        self.evaluated(expression, true);
    }

    /// Handles an expression, whose value is used if `has_value`.
    fn evaluated(&mut self, expression: &mut Expr, has_value: bool) {
        if let Expr::Stmt(block) = expression {
            return self.block(block, has_value);
        }
        while slices::has_slice(expression) {
            let position = expression.start_position();
            slices::replace(expression, |inputs| custom_at(SLICE, inputs, Dynamic::UNIT, position));
            self.has_changed = true;
        }
        let own = |name: &str| self.kinds.is_own(name);
        self.has_changed |= values::return_texts(expression, has_value, &own);
        self.has_changed |= chains::detach(expression);
        self.inside(expression);
    }

    fn inside(&mut self, expression: &mut Expr) {
        match expression {
            Expr::InterpolatedString(parts, _) | Expr::Array(parts, _) => {
                parts.iter_mut().for_each(|part| self.expression(part));
            }
            Expr::Map(entries, position) => {
                let position = *position;
                entries.0.iter_mut().for_each(|(_, value)| self.expression(value));
                if let Some(tag) = self.literals.tag(expression) {
                    let map = std::mem::replace(expression, Expr::Unit(Position::NONE));
                    *expression = custom_at(ORDER, [map], tag.into(), position);
                    self.has_changed = true;
                }
            }
            Expr::DynamicConstant(value, position) => {
                self.has_changed |= self.literals.order(value, *position);
            }
            Expr::FnCall(call, position) if operators::is_doubtful(call, self.kinds, self.handled) => {
                let compared = self.compared(call, *position);
                *expression = compared;
            }
            Expr::FnCall(call, _) if truths::is_not(call) => {
                call.args.iter_mut().for_each(|argument| self.condition(argument));
            }
            Expr::FnCall(call, position) if let Some(is_or) = tokens::either(call) => {
                let (mut operands, position) = (std::mem::take(&mut call.args), *position);
                operands.iter_mut().for_each(|operand| self.expression(operand));
                *expression = custom_at(EITHER, operands, is_or.into(), position);
                self.has_changed = true;
            }
            Expr::FnCall(call, _) => {
                self.own_call(call);
                call.args.iter_mut().for_each(|argument| self.expression(argument));
            }
            Expr::MethodCall(call, _) => {
                call.args.iter_mut().for_each(|argument| self.expression(argument));
            }
            Expr::Dot(pair, flags, _) | Expr::Index(pair, flags, _) => {
                self.expression(&mut pair.lhs);
                // The rest of a chain is not an expression of its own, but a chain in brackets is.
                match &mut pair.rhs {
                    rest @ (Expr::Dot(..) | Expr::Index(..)) if !flags.contains(ASTFlags::BREAK) => {
                        self.has_changed |= chains::detach(rest);
                        self.inside(rest);
                    }
                    last => self.expression(last),
                }
            }
            Expr::And(parts, position) | Expr::Or(parts, position)
                if parts.iter().any(|part| truths::is_doubtful(part, self.kinds)) =>
            {
                let (mut parts, position) = (std::mem::take(&mut **parts), *position);
                parts.iter_mut().for_each(|part| self.expression(part));
                let is_or = matches!(expression, Expr::Or(..));
                *expression = custom_at(EITHER, parts, is_or.into(), position);
                self.has_changed = true;
            }
            Expr::And(parts, _) | Expr::Or(parts, _) | Expr::Coalesce(parts, _) => {
                parts.iter_mut().for_each(|part| self.expression(part));
            }
            // The value of a `throw`.
            Expr::Custom(custom, _) => custom.inputs.iter_mut().for_each(|input| self.expression(input)),
            // Constants, variables and properties.
            _ => {}
        }
    }
}

/// Returns the line at which a statement begins; `None` for one that only contains others.
fn line_of(statement: &Stmt) -> Option<usize> {
    match statement {
        Stmt::Noop(_) | Stmt::Block(_) | Stmt::Share(_) => None,
        // An assignment's own position is that of its `=`.
        Stmt::Assignment(parts) => parts.1.lhs.start_position().line(),
        statement => statement.position().line(),
    }
}

/// Records a line.
pub(super) const PROBE: &str = "probe";
/// Records variables that become shared.
pub(super) const CAPTURE: &str = "capture";
/// Measures the subject of a `switch`.
pub(super) const SUBJECT: &str = "subject";
/// Compares two values.
pub(super) const COMPARE: &str = "compare";
/// Takes a part of a list.
pub(super) const SLICE: &str = "slice";
/// Converts a condition to a boolean.
pub(super) const TRUTH: &str = "truth";
/// Returns an operand of `&&` or `||`.
pub(super) const EITHER: &str = "either";
/// Converts the result of a closure to a boolean.
pub(super) const ANSWER: &str = "answer";
/// Replaces a map that a loop with two variables goes over by its entries.
pub(super) const ENTRIES: &str = "entries";
/// Gives the two variables of a loop the key and value of an entry.
pub(super) const ENTRY: &str = "entry";
/// Checks the value before the `?.` of an assignment.
pub(super) const SOURCE: &str = "source";
/// Sets the key order of a map to that of its literal.
pub(super) const ORDER: &str = "order";
/// Prepares the value that `+=` adds.
pub(super) const ADDED: &str = "added";

/// Creates a step with its inputs.
pub(super) fn custom(step: &'static str, inputs: impl IntoIterator<Item = Expr>) -> Expr {
    custom_at(step, inputs, Dynamic::UNIT, Position::NONE)
}

/// Creates a step at a position of the script, with its own state.
pub(super) fn custom_at(
    step: &'static str,
    inputs: impl IntoIterator<Item = Expr>,
    state: Dynamic,
    position: Position,
) -> Expr {
    let custom = CustomExpr {
        inputs: inputs.into_iter().collect(),
        tokens: [step.into()].into_iter().collect(),
        state,
        scope_may_be_changed: false,
        self_terminated: false,
    };
    Expr::Custom(custom.into(), position)
}
