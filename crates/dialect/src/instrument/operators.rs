//! Operators whose operand kinds are only known at run time.
//!
//! Rhai applies its built-in operators before it looks for a function of the host: `"5" > 3` is `false`, so that a
//! limit never applies, and `[] += live` adds a live array as one element. If the syntax does not prove the kinds
//! of the operands, a step replaces the operator.

use super::handled::HandledTypes;
use super::kinds::{Kinds, OperandKind};
use crate::answer::{Operand, ThrownError};
use crate::budget;
use crate::value::{List, error, is_container, may_read_like, report_containers, report_pair};
use rhai::{
    Array, Dynamic, Engine, EvalAltResult, EvalContext, Expr, Expression, FnCallExpr, FnNamespace,
    FuncRegistration, ImmutableString, Module, NativeCallContext, Position, RhaiFunc, Shared,
};
use std::any::TypeId;
use std::cmp::Ordering;
use std::sync::OnceLock;

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// The number of array elements that are copied for the cost of one operation.
const ELEMENTS: usize = 16;
/// Operators that compare the order of two values.
const ORDERING: [&str; 4] = ["<", "<=", ">", ">="];
/// All operators that compare two values, the ordering ones first.
const COMPARING: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];

/// Returns `true` if a call compares the order of operands that may not be ordered, or the equality of operands that
/// may read the same without being equal.
pub(super) fn is_doubtful(call: &FnCallExpr, kinds: &Kinds<'_>, handled: &HandledTypes) -> bool {
    if !is_comparison(call) || handled.has(call) {
        return false;
    }
    let [first, second] = call.args.as_slice() else { return false };
    let is_ordering = ORDERING.contains(&call.name.as_str());
    match (kinds.kind_of(first), kinds.kind_of(second)) {
        (Some(first), Some(second)) if is_ordering => first != second || !first.is_ordered(),
        (Some(first), Some(second)) if first == second => !first.is_ordered() && may_hold_alike(call),
        (Some(first), Some(second)) => first.is_ordered() && second.is_ordered(),
        (Some(kind), None) | (None, Some(kind)) => is_ordering || kind.is_ordered() || may_hold_alike(call),
        (None, None) => true,
    }
}

/// Returns `true` if each operand may be a list or map with values that read the same as others.
fn may_hold_alike(call: &FnCallExpr) -> bool {
    let may_hold = |operand: &Expr| match operand {
        Expr::Array(parts, _) => !parts.is_empty(),
        Expr::Map(parts, _) => !parts.0.is_empty(),
        Expr::DynamicConstant(value, _) => value.is_array() || value.is_map(),
        Expr::Variable(..) | Expr::Dot(..) | Expr::Index(..) | Expr::FnCall(..) | Expr::MethodCall(..) => {
            true
        }
        _ => false,
    };
    call.args.iter().all(may_hold)
}

/// Returns `true` if a call compares two values, neither of which is a constant that equals no value of another type
/// anyway: `role == "user"` does not.
pub(super) fn is_comparison(call: &FnCallExpr) -> bool {
    let is_plain = |operand: &Expr| match operand {
        Expr::StringConstant(text, _) => !may_read_like(text),
        Expr::Unit(_) | Expr::InterpolatedString(..) => true,
        _ => false,
    };
    let name = call.name.as_str();
    call.op_token.is_some()
        && COMPARING.contains(&name)
        && (ORDERING.contains(&name) || !call.args.iter().any(is_plain))
}

/// Returns `true` if `target += value` may add a live array to a native array.
pub(super) fn may_nest(target: &Expr, value: &Expr, kinds: &Kinds<'_>) -> bool {
    kinds.kind_of(value).is_none() && kinds.kind_of(target).is_none_or(|kind| kind == OperandKind::Array)
}

/// Makes an engine evaluate comparisons of constants of two types at run time, where they are reported: Rhai would
/// replace each by `false` or `true`.
pub fn keep_unordered(engine: &mut Engine) {
    static UNORDERED: OnceLock<Shared<Module>> = OnceLock::new();
    let module = UNORDERED.get_or_init(|| {
        let types: [(TypeId, u8); 9] = [
            (TypeId::of::<i64>(), 0),
            (TypeId::of::<f64>(), 0),
            (TypeId::of::<ImmutableString>(), 1),
            (TypeId::of::<char>(), 1),
            (TypeId::of::<bool>(), 2),
            (TypeId::of::<()>(), 3),
            (TypeId::of::<Array>(), 4),
            (TypeId::of::<rhai::Map>(), 5),
            (TypeId::of::<rhai::Blob>(), 6),
        ];
        let mut module = Module::new();
        let pairs = types.iter().flat_map(|first| types.iter().map(move |second| (first, second)));
        for (first, second) in pairs.filter(|(first, second)| first.1 != second.1 || first.1 == 3) {
            // Numbers, texts and booleans may read the same.
            let may_be_alike = first.1 < 3 && second.1 < 3;
            for operator in COMPARING.iter().take(if may_be_alike { COMPARING.len() } else { ORDERING.len() })
            {
                let call = |_: Option<NativeCallContext<'_>>, _: &mut [&mut Dynamic]| Ok(Dynamic::FALSE);
                let func = Shared::new(call);
                let func = RhaiFunc::Pure { func, has_context: false, is_pure: true, is_volatile: false };
                FuncRegistration::new(*operator).with_namespace(FnNamespace::Global).set_into_module_raw(
                    &mut module,
                    [first.0, second.0],
                    func,
                );
            }
        }
        module.build_index();
        module.into()
    });
    engine.register_global_module(module.clone());
    // With fast operators, the optimizer does not look for functions.
    engine.set_fast_operators(false);
}

/// Encodes the operator and its position in one number, as the state of a step.
pub(super) fn state_of(operator: &str, position: Position) -> Dynamic {
    let operator = COMPARING.iter().position(|name| *name == operator).unwrap_or_default();
    let (line, column) = (position.line().unwrap_or(0), position.position().unwrap_or(0));
    let number = (line << 20) | (column.min(0xFFFF) << 4) | operator;
    (number as i64).into()
}

fn operator_of(state: &Dynamic) -> (&'static str, Position) {
    let number = state.as_int().ok().and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
    let operator = COMPARING.get(number & 0xF).copied().unwrap_or("<");
    let (line, column) = (u16::try_from(number >> 20), u16::try_from(number >> 4 & 0xFFFF));
    let position = match (line, column) {
        (Ok(line), Ok(column)) if line > 0 => Position::new(line, column),
        _ => Position::NONE,
    };
    (operator, position)
}

/// Compares two values.
///
/// # Errors
///
/// Returns an error that names both types if the values are not ordered, and in a guard if they are not equal but read
/// the same.
pub(super) fn compare(
    context: &mut EvalContext<'_, '_, '_, '_, '_, '_>,
    inputs: &[Expression<'_>],
    state: &Dynamic,
) -> Answer<Dynamic> {
    let [first, second] = inputs else { return Ok(Dynamic::UNIT) };
    let first = context.eval_expression_tree(first)?.flatten();
    let second = context.eval_expression_tree(second)?.flatten();
    let (operator, position) = operator_of(state);
    if let (Ok(first), Ok(second)) = (first.as_int(), second.as_int()) {
        return Ok(holds(operator, first.cmp(&second)).into());
    }
    if !ORDERING.contains(&operator) {
        return equality(context, first, second, operator, position);
    }
    match order(&first, &second) {
        Order::Is(order) => Ok(holds(operator, order).into()),
        Order::Never => Ok(false.into()),
        Order::OfType => {
            let mut args = [first, second];
            let [first, second] = &mut args;
            let answer = context.call_native_fn_raw(operator, false, &mut [first, second]);
            answer.map_err(|failed| match &*failed {
                EvalAltResult::ErrorFunctionNotFound(..) => {
                    let names = args.each_ref().map(|value| name_of(context.engine(), value));
                    unordered(operator, names, position)
                }
                _ => failed,
            })
        }
        Order::None => {
            let names = [&first, &second].map(|value| name_of(context.engine(), value));
            Err(unordered(operator, names, position))
        }
    }
}

/// Tests two values for equality like Rhai, and reports those that read the same.
fn equality(
    context: &mut EvalContext<'_, '_, '_, '_, '_, '_>,
    first: Dynamic,
    second: Dynamic,
    operator: &str,
    position: Position,
) -> Answer<Dynamic> {
    if let (Some(first_kind), Some(second_kind)) = (OperandKind::of(&first), OperandKind::of(&second))
        && first_kind != second_kind
    {
        report_pair(&first, &second, operator, position)?;
        return Ok((operator == "!=").into());
    }
    if first.is_unit() && second.is_unit() {
        return Ok((operator == "==").into());
    }
    if let Order::Is(order) = order(&first, &second) {
        return Ok(holds(operator, order).into());
    }
    if is_container(&first) && is_container(&second) {
        report_containers(&first, &second, operator, position)?;
    }
    let mut args = [first, second];
    let [first, second] = &mut args;
    context.call_native_fn_raw(operator, false, &mut [first, second]).or_else(|failed| match &*failed {
        EvalAltResult::ErrorFunctionNotFound(..) if args[0].type_id() != args[1].type_id() => {
            Ok((operator == "!=").into())
        }
        _ => Err(failed),
    })
}

/// The order of two values.
enum Order {
    Is(Ordering),
    /// NaN is not ordered relative to any number.
    Never,
    /// The functions of their common type decide.
    OfType,
    None,
}

fn order(first: &Dynamic, second: &Dynamic) -> Order {
    if let (Some(first), Some(second)) = (number(first), number(second)) {
        return nearly(first, second).map_or(Order::Never, Order::Is);
    }
    if let (Ok(first), Ok(second)) = (first.as_bool(), second.as_bool()) {
        return Order::Is(first.cmp(&second));
    }
    if let (Ok(first), Ok(second)) = (first.as_immutable_string_ref(), second.as_immutable_string_ref()) {
        return Order::Is(first.as_str().cmp(second.as_str()));
    }
    let text = |value: &Dynamic| match value.as_char() {
        Ok(character) => Some(character.to_string()),
        Err(_) => value.as_immutable_string_ref().ok().map(|text| text.to_string()),
    };
    if (first.is_char() || second.is_char())
        && let (Some(first), Some(second)) = (text(first), text(second))
    {
        return Order::Is(first.cmp(&second));
    }
    if first.type_id() == second.type_id() && !first.is_unit() { Order::OfType } else { Order::None }
}

fn number(value: &Dynamic) -> Option<f64> {
    value.as_float().ok().or_else(|| value.as_int().ok().map(|number| number as f64))
}

/// Compares like Rhai: numbers within the rounding error are equal.
fn nearly(first: f64, second: f64) -> Option<Ordering> {
    let scale = if first * second == 0.0 { 1.0 } else { first.abs().max(second.abs()) };
    let difference = (first - second) / scale;
    if difference.abs() <= f64::EPSILON { Some(Ordering::Equal) } else { first.partial_cmp(&second) }
}

fn holds(operator: &str, order: Ordering) -> bool {
    match operator {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        "==" => order.is_eq(),
        _ => order.is_ne(),
    }
}

/// Returns the name of a value's type in scripts.
fn name_of<'a>(engine: &'a Engine, value: &Dynamic) -> &'a str {
    match OperandKind::of(value) {
        Some(kind) => kind.as_str(),
        None if value.is::<List>() => OperandKind::Array.as_str(),
        None if value.is::<crate::value::Map>() => OperandKind::Map.as_str(),
        None if value.is_fnptr() => "a function",
        None if value.is_blob() => "a blob",
        None => engine.map_type_name(value.type_name()),
    }
}

fn unordered(operator: &str, [first, second]: [&str; 2], position: Position) -> Box<EvalAltResult> {
    let help = match (first, second) {
        ("()", _) | (_, "()") => "one of the values is `()`; write a default with `??`, such as `value ?? 0`",
        ("a string", "a number") | ("a number", "a string") => {
            "convert the string first with `parse_int(text)` or `parse_float(text)`"
        }
        ("an array" | "a map", _) | (_, "an array" | "a map") => "compare the `.len()`, or an element",
        _ => "convert one of the values first",
    };
    let message = format!(
        "cannot compare {first} with {second} by `{operator}`: the two types have no \
                           order; {help}"
    );
    let absent = match (first, second) {
        ("()", _) => Some(Operand::Left),
        (_, "()") => Some(Operand::Right),
        _ => None,
    };
    ThrownError { absent, ..ThrownError::bug(message, position.line()) }.into_error(position)
}

/// Returns the value to add to a target by `+=`: a live array is converted to a native one if the target is a
/// native array. Without a target (whose calls must happen only once), it is always converted: native and live
/// arrays both grow by the elements, and apart from texts, no other target accepts an array.
pub(super) fn added(
    context: &mut EvalContext<'_, '_, '_, '_, '_, '_>,
    inputs: &[Expression<'_>],
) -> Answer<Dynamic> {
    let (target, value) = match inputs {
        [target, value] => (Some(target), value),
        [value] => (None, value),
        _ => return Ok(Dynamic::UNIT),
    };
    let value = context.eval_expression_tree(value)?.flatten();
    let Some(list) = value.read_lock::<List>().map(|list| list.clone()) else { return Ok(value) };
    let variable = target.and_then(|name| name.get_string_value()).and_then(|name| context.scope().get(name));
    let is_own = match (variable, target) {
        (Some(target), _) => target.read_lock::<Array>().is_some(),
        (None, None) => true,
        (None, Some(target)) => {
            let target = context.eval_expression_tree(target)?;
            let length = target.read_lock::<Array>().map(|array| array.len());
            budget::charge((length.unwrap_or(0) / ELEMENTS) as u64).map_err(budget::ended)?;
            length.is_some()
        }
    };
    if !is_own {
        return Ok(value);
    }
    let (length, max) = (list.array.len(), context.engine().max_array_size());
    if length > max {
        return Err(error(format!(
            "cannot add {length} elements to an array: it exceeded its limit of {max} elements"
        )));
    }
    if target.is_none() {
        budget::charge((length / ELEMENTS) as u64).map_err(budget::ended)?;
    }
    Ok(list.elements().into())
}
