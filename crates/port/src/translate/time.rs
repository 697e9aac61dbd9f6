//! Points in time, in seconds since 1970.

use super::arguments::Arguments;
use super::context::{Hindrance, Outcome, Translator};
use crate::code::{Code, call, strength};
use crate::kinds::Type;
use crate::names;
use crate::python::{Expr, ExprKind};
use crate::report::NoteKind;

impl Translator<'_> {
    /// Returns the code of a part of a point in time, such as its year or hour.
    pub(super) fn part_of_time(&mut self, of: &Code, name: &str) -> Outcome {
        let format = match name {
            "year" => "%Y",
            "month" => "%-m",
            "day" => "%-d",
            "hour" => "%-H",
            "minute" => "%-M",
            "second" => "%-S",
            "microsecond" => return Ok(Code::atom("0", Type::Int)),
            "tzinfo" => return Ok(Code::atom("\"UTC\"", Type::Text)),
            "min" | "max" => return Hindrance::err(NoteKind::Package, format!("`.{name}` of a time")),
            _ => return Hindrance::err(NoteKind::Package, format!("`.{name}` of a time")),
        };
        Ok(Code::atom(format!("parse_int(time::format({}, \"{format}\"))", of.text), Type::Int))
    }

    /// Returns the code that calls a method of a point in time or of a duration.
    pub(super) fn time_method(&mut self, of: &Code, name: &str, arguments: &Arguments<'_>) -> Outcome {
        match name {
            "strftime" => {
                let format = self.expr(arguments.need(0, name)?)?;
                Ok(call("time::format", &[of.text.clone(), format.text], Type::Text))
            }
            "isoformat" => Ok(call("time::iso", std::slice::from_ref(&of.text), Type::Text)),
            "timestamp" | "total_seconds" => Ok(of.clone().typed(Type::Float)),
            "replace" | "astimezone" | "localize" | "date" | "time" | "utctimetuple" | "timetuple" => {
                Ok(of.clone())
            }
            "weekday" => Ok(Code::new(
                format!("parse_int(time::format({}, \"%u\")) - 1", of.text),
                strength::ADD,
                Type::Int,
            )),
            "isoweekday" => {
                Ok(Code::atom(format!("parse_int(time::format({}, \"%u\"))", of.text), Type::Int))
            }
            "ctime" => Ok(call(
                "time::format",
                &[of.text.clone(), names::quoted("%a %b %e %H:%M:%S %Y")],
                Type::Text,
            )),
            _ => Hindrance::err(NoteKind::Package, format!("`.{name}()` of a time")),
        }
    }

    /// Returns the code of a duration in seconds: `timedelta(days=1, hours=2)`.
    pub(super) fn span(&mut self, arguments: &Arguments<'_>) -> Outcome {
        let mut parts = Vec::new();
        let places = ["days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks"];
        let positional =
            arguments.positional.iter().enumerate().map(|(at, value)| (places.get(at).copied(), *value));
        let named = arguments.named.iter().map(|(name, value)| (Some(*name), *value));
        for (name, value) in positional.chain(named).collect::<Vec<_>>() {
            let seconds = match name {
                Some("days") => 86_400,
                Some("seconds") => 1,
                Some("minutes") => 60,
                Some("hours") => 3_600,
                Some("weeks") => 604_800,
                _ => return Hindrance::err(NoteKind::Package, "`timedelta` in fractions of a second"),
            };
            let value: &Expr = value;
            if let ExprKind::Int(number) = &value.kind
                && let Some(all) = number.checked_mul(seconds)
            {
                parts.push(all.to_string());
                continue;
            }
            let value = self.expr(value)?;
            parts.push(if seconds == 1 {
                value.at(strength::ADD + 1)
            } else {
                format!("{} * {seconds}", value.at(strength::MULTIPLY))
            });
        }
        Ok(match parts.as_slice() {
            [] => Code::atom("0", Type::Span),
            [one] if !one.contains(' ') => Code::atom(one.clone(), Type::Span),
            _ => Code::new(parts.join(" + "), strength::ADD, Type::Span),
        })
    }

    /// Returns the code that converts seconds to milliseconds.
    pub(super) fn milliseconds(&mut self, value: &Expr) -> Outcome<Option<String>> {
        match &value.kind {
            ExprKind::None => return Ok(None),
            ExprKind::Int(seconds) => return Ok(Some(grouped(seconds.saturating_mul(1_000)))),
            ExprKind::Float(text) => {
                let seconds: f64 = text.parse().unwrap_or(10.0);
                let milliseconds = (seconds * 1_000.0).clamp(0.0, 9.0e15);
                return Ok(Some(grouped(milliseconds as i64)));
            }
            // The timeouts `(connect, read)`.
            ExprKind::Tuple(all) => {
                return match all.last() {
                    Some(last) => self.milliseconds(last),
                    None => Ok(None),
                };
            }
            ExprKind::Call(of, args) => {
                let path = self.full_path_or_empty(of);
                if matches!(path.as_str(), "aiohttp.ClientTimeout" | "httpx.Timeout") {
                    let arguments = Arguments::of(args);
                    return match total(&arguments) {
                        Some(value) => self.milliseconds(value),
                        None => Ok(None),
                    };
                }
            }
            _ => {}
        }
        let code = self.expr(value)?;
        if code.text == "()" {
            return Ok(None);
        }
        if code.kind == Type::Nothing {
            return Ok(None);
        }
        Ok(Some(format!("{} * 1_000", code.at(strength::MULTIPLY))))
    }
}

/// Returns a number with `_` between its thousands.
fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digit.is_ascii_digit() && !out.ends_with('-') {
            out.push('_');
        }
        out.push(digit);
    }
    out
}

/// Returns the time for a whole request among the arguments of `ClientTimeout` or `Timeout`.
pub(super) fn total<'e>(arguments: &Arguments<'e>) -> Option<&'e Expr> {
    let names = ["total", "timeout", "read", "sock_read"];
    names.iter().find_map(|name| arguments.named(name)).or_else(|| arguments.at(0))
}
