//! Chains that name a value, such as `body.messages[0].content`.

use super::kinds::Kinds;
use rhai::{ASTFlags, Expr};

/// Returns `true` if an expression is evaluated without side effects.
pub(super) fn is_place(expression: &Expr, kinds: &Kinds<'_>) -> bool {
    match expression {
        Expr::Dot(pair, ..) | Expr::Index(pair, ..) => {
            is_place(&pair.lhs, kinds) && is_place(&pair.rhs, kinds)
        }
        Expr::FnCall(call, _) | Expr::MethodCall(call, _) => {
            (call.op_token.is_some() || kinds.is_counting(call))
                && call.args.iter().all(|argument| is_place(argument, kinds))
        }
        Expr::Variable(..)
        | Expr::ThisPtr(..)
        | Expr::Property(..)
        | Expr::IntegerConstant(..)
        | Expr::StringConstant(..) => true,
        _ => false,
    }
}

/// Appends the text of a chain, with `…` for the parts that do not name a value.
pub(super) fn show(chain: &Expr, text: &mut String) {
    match chain {
        Expr::Variable(variable, ..) => text.push_str(&variable.1),
        Expr::ThisPtr(_) => text.push_str("this"),
        Expr::Property(property, _) => text.push_str(&property.2),
        Expr::Dot(pair, flags, _) => {
            show(&pair.lhs, text);
            text.push_str(if flags.contains(ASTFlags::NEGATED) { "?." } else { "." });
            show(&pair.rhs, text);
        }
        Expr::Index(pair, flags, _) => {
            show(&pair.lhs, text);
            text.push_str(if flags.contains(ASTFlags::NEGATED) { "?[" } else { "[" });
            match &pair.rhs {
                Expr::Dot(rest, dot, _) if !flags.contains(ASTFlags::BREAK) => {
                    show(&rest.lhs, text);
                    text.push_str(if dot.contains(ASTFlags::NEGATED) { "]?." } else { "]." });
                    show(&rest.rhs, text);
                }
                index => {
                    show(index, text);
                    text.push(']');
                }
            }
        }
        Expr::IntegerConstant(number, _) => text.push_str(&number.to_string()),
        Expr::StringConstant(word, _) => text.push_str(&format!("{word:?}")),
        _ => text.push('…'),
    }
}
