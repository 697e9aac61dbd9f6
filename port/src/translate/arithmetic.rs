//! Binary operators.

use super::context::{Hindrance, Outcome, Translator};
use super::helper::Helper;
use crate::code::{Code, call, strength};
use crate::kinds::Type;
use crate::python::{BinaryOp, Expr, ExprKind};
use crate::report::NoteKind;

impl Translator<'_> {
    pub(super) fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Outcome {
        if op == BinaryOp::Mod
            && let ExprKind::Text(text) = &left.kind
        {
            return self.percent_format(text, right);
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        if matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor) {
            return self.operate(op, &left, &right);
        }
        self.operate(op, &as_number(left), &as_number(right))
    }

    /// Returns `true` for a number that a subtraction or a sign may have made negative.
    fn may_be_negative(&self, code: &Code) -> bool {
        code.text.contains('-') || self.scope.signed.contains(&code.text)
    }

    /// Returns the code of a binary operator.
    pub(super) fn operate(&mut self, op: BinaryOp, left: &Code, right: &Code) -> Outcome {
        let numbers = match (&left.kind, &right.kind) {
            (Type::Int, Type::Int) => Type::Int,
            (Type::Int | Type::Float, Type::Int | Type::Float) => Type::Float,
            (left, right) if left.is_time() && right.is_time() => Type::Span,
            (time, _) if time.is_time() => time.clone(),
            (_, time) if time.is_time() => time.clone(),
            (Type::Span, _) | (_, Type::Span) => Type::Span,
            _ => Type::Unknown,
        };
        let of = |mark: &str, level: u8, kind: Type| {
            Code::new(format!("{} {mark} {}", left.at(level), right.at(level + 1)), level, kind)
        };
        if left.kind == Type::Day {
            match op {
                BinaryOp::Add => return super::time::day_and("+", left, right),
                BinaryOp::Sub => return super::time::day_and("-", left, right),
                _ => {}
            }
        }
        Ok(match op {
            BinaryOp::Add => {
                let kind = match (&left.kind, &right.kind) {
                    (Type::Text, _) | (_, Type::Text) => Type::Text,
                    (Type::List(a), Type::List(b)) => Type::list_of((**a).clone().join((**b).clone())),
                    (Type::List(_), _) | (_, Type::List(_)) => Type::list(),
                    _ => numbers,
                };
                of("+", strength::ADD, kind)
            }
            BinaryOp::Sub => match (&left.kind, &right.kind) {
                // `-` on sets is their difference.
                (Type::List(_) | Type::Unknown, Type::List(_)) => Code::atom(
                    format!("{}.filter(|one| !(one in {}))", left.owner(), right.at(strength::IN + 1)),
                    Type::list(),
                ),
                _ => of("-", strength::ADD, numbers),
            },
            BinaryOp::Mul => match (&left.kind, &right.kind) {
                (Type::Text, _) => repeated(left, right),
                (_, Type::Text) => repeated(right, left),
                (Type::List(_), _) | (_, Type::List(_)) => {
                    return Hindrance::err(NoteKind::Python, "a repeated list");
                }
                _ => of("*", strength::MULTIPLY, numbers),
            },
            BinaryOp::Div if self.scope.needs_divisor => {
                let divided = self.helper(Helper::Divided);
                call(divided, &[left.text.clone(), right.text.clone()], Type::Float)
            }
            BinaryOp::Div => {
                if is_surely_float(left) || is_surely_float(right) {
                    of("/", strength::MULTIPLY, Type::Float)
                } else {
                    // Rhai divides integers as Python's `//` does.
                    let text = format!("{}.to_float() / {}", left.owner(), right.at(strength::MULTIPLY + 1));
                    Code::new(text, strength::MULTIPLY, Type::Float)
                }
            }
            BinaryOp::FloorDiv => {
                let is_integer = numbers == Type::Int || matches!(left.kind, Type::Int);
                if is_integer && !self.may_be_negative(left) {
                    of("/", strength::MULTIPLY, Type::Int)
                } else {
                    let text = format!("{}.to_float() / {}", left.owner(), right.at(strength::MULTIPLY + 1));
                    Code::atom(format!("floor({text}).to_int()"), Type::Int)
                }
            }
            // The remainder has the sign of the divisor.
            BinaryOp::Mod if self.may_be_negative(left) && right.is_simple() => Code::new(
                format!("({} % {1} + {1}) % {1}", left.at(strength::MULTIPLY), right.text),
                strength::MULTIPLY,
                numbers,
            ),
            BinaryOp::Mod => of("%", strength::MULTIPLY, numbers),
            BinaryOp::Pow => {
                let text = format!("{} ** {}", left.at(strength::POWER + 1), right.at(strength::POWER + 1));
                Code::new(text, strength::POWER, numbers)
            }
            BinaryOp::And if matches!(left.kind, Type::List(_)) && right.is_simple() => {
                Code::atom(format!("{}.filter(|one| one in {})", left.owner(), right.text), left.kind.clone())
            }
            BinaryOp::Or if matches!((&left.kind, &right.kind), (Type::List(_), _)) => {
                let unique = self.helper(super::Helper::Unique);
                let sum = format!("{} + {}", left.at(strength::ADD), right.at(strength::ADD + 1));
                call(unique, &[sum], left.kind.clone())
            }
            BinaryOp::Or if left.kind == Type::Map || right.kind == Type::Map => {
                of("+", strength::ADD, Type::Map)
            }
            BinaryOp::And => of("&", strength::AND, numbers),
            BinaryOp::Or => of("|", strength::OR, numbers),
            BinaryOp::Xor => of("^", strength::OR, numbers),
            BinaryOp::ShiftLeft => of("<<", strength::SHIFT, numbers),
            BinaryOp::ShiftRight => of(">>", strength::SHIFT, numbers),
            BinaryOp::MatMul => return Hindrance::err(NoteKind::Python, "`@`"),
        })
    }
}

/// Returns the number that a truth value counts as.
fn as_number(code: Code) -> Code {
    match code.kind {
        Type::Bool => Code::new(format!("if {} {{ 1 }} else {{ 0 }}", code.text), strength::ANY, Type::Int),
        _ => code,
    }
}

/// Returns `true` if the value is not an integer. The type `float` of a parameter, a setting or a field of JSON also
/// admits integers.
fn is_surely_float(code: &Code) -> bool {
    code.kind == Type::Float
        && (code.text.contains('.') && code.text.parse::<f64>().is_ok()
            || ["to_float()", "/ 1000.0", "* 100.0"].iter().any(|end| code.text.ends_with(end))
            || ["float_of(", "parse_float("].iter().any(|start| code.text.starts_with(start)))
}

/// Returns the code that repeats a text.
fn repeated(text: &Code, times: &Code) -> Code {
    let range = format!("0..{}", times.at(strength::RANGE + 1));
    let code =
        format!("{{ let text = \"\"; for n in {range} {{ text += {}; }} text }}", text.at(strength::ADD));
    Code::atom(code, Type::Text)
}
