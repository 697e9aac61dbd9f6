//! Points in time, in seconds since 1970.

use super::arguments::Arguments;
use super::context::{Hindrance, Outcome, Translator};
use crate::code::{Code, call, strength};
use crate::kinds::Type;
use crate::names;
use crate::python::{Expr, ExprKind};
use crate::report::NoteKind;

/// The form of a day.
const DAY: &str = "\"%Y-%m-%d\"";

/// Returns the code that shows a point in time with a pattern, in its time zone.
pub(super) fn shown(of: &Code, pattern: &str) -> Code {
    let mut args = vec![seconds(of), pattern.to_owned()];
    if let Type::Local(zone) = &of.kind {
        args.push(zone.to_string());
    }
    call("time::format", &args, Type::Text)
}

/// Returns the code of a day, or of a point in time, in seconds.
fn seconds(of: &Code) -> String {
    match of.kind {
        Type::Day => format!("time::parse({}, {DAY})", of.text),
        _ => of.text.clone(),
    }
}

/// Returns the code of the day of a point in time.
pub(super) fn day_of(time: &Code) -> Code {
    shown(time, DAY).typed(Type::Day)
}

/// Adds a duration to a day, or subtracts a day or a duration from one.
pub(super) fn day_and(mark: &str, day: &Code, other: &Code) -> Outcome {
    let difference = Code::new(
        format!("{} {mark} {}", seconds(day), Code::atom(seconds(other), Type::Int).at(strength::ADD + 1)),
        strength::ADD,
        Type::Time,
    );
    match (mark, &other.kind) {
        ("-", Type::Day) => Ok(difference.typed(Type::Span)),
        (_, Type::Span) => {
            let sum = format!("{} {mark} {}", seconds(day), other.at(strength::ADD + 1));
            Ok(day_of(&Code::new(sum, strength::ADD, Type::Time)))
        }
        _ => Hindrance::err(NoteKind::Package, "a calculation with a day"),
    }
}

impl Translator<'_> {
    /// Returns the type of a point in time that is shown in this time zone.
    pub(super) fn time_in(&mut self, zone: Option<&Expr>) -> Outcome<Type> {
        let Some(zone) = zone else { return Ok(Type::Time) };
        let zone = self.expr(zone)?;
        if zone.kind == Type::Span {
            return Hindrance::err(NoteKind::Package, "a time zone with a fixed offset");
        }
        match zone.text.as_str() {
            "()" | "\"UTC\"" => Ok(Type::Time),
            // The code is repeated where the time is shown.
            text if text.contains(['(', '{', '|']) => {
                Hindrance::err(NoteKind::Package, "a computed time zone: assign it to a variable first")
            }
            text => Ok(Type::Local(text.into())),
        }
    }

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
            "tzinfo" => {
                let zone = match &of.kind {
                    Type::Local(zone) => zone.to_string(),
                    _ => names::quoted("UTC"),
                };
                return Ok(Code::atom(zone, Type::Text));
            }
            _ => return Hindrance::err(NoteKind::Package, format!("`.{name}` of a time")),
        };
        let part = shown(of, &names::quoted(format));
        Ok(call("parse_int", &[part.text], Type::Int))
    }

    /// Returns the code that calls a method of a day, of a point in time or of a duration.
    pub(super) fn time_method(&mut self, of: &Code, name: &str, arguments: &Arguments<'_>) -> Outcome {
        let unknown = || Hindrance::err(NoteKind::Package, format!("`.{name}()` of a time"));
        match name {
            "strftime" => {
                let format = self.expr(arguments.need(0, name)?)?;
                Ok(shown(of, &format.text))
            }
            "isoformat" if of.kind == Type::Day => Ok(of.clone().typed(Type::Text)),
            "isoformat" => {
                let mut args = vec![of.text.clone()];
                if let Type::Local(zone) = &of.kind {
                    args.push(zone.to_string());
                }
                Ok(call("time::iso", &args, Type::Text))
            }
            "timestamp" | "total_seconds" => Ok(of.clone().typed(Type::Float)),
            "utctimetuple" | "timetuple" => Ok(of.clone()),
            "date" if of.kind != Type::Day => Ok(day_of(of)),
            "astimezone" => {
                let kind = self.time_in(arguments.get(0, "tz"))?;
                Ok(of.clone().typed(kind))
            }
            "replace" => self.replaced_time(of, arguments),
            "weekday" => Ok(Code::new(
                format!("parse_int({}) - 1", shown(of, "\"%u\"").text),
                strength::ADD,
                Type::Int,
            )),
            "isoweekday" => Ok(call("parse_int", &[shown(of, "\"%u\"").text], Type::Int)),
            "ctime" => Ok(shown(of, &names::quoted("%a %b %e %H:%M:%S %Y"))),
            _ => unknown(),
        }
    }

    /// Translates `time.replace(…)` for a change of the time zone to UTC and for a time of day.
    fn replaced_time(&mut self, of: &Code, arguments: &Arguments<'_>) -> Outcome {
        let hindered = || Hindrance::err(NoteKind::Package, "`.replace()` of a time");
        if of.kind == Type::Day || arguments.count() > 0 {
            return hindered();
        }
        let mut time_of_day = Vec::new();
        for (name, value) in arguments.all_named() {
            match (*name, &value.kind) {
                ("tzinfo", _) if of.kind == Type::Time && self.time_in(Some(value))? == Type::Time => {}
                ("microsecond", ExprKind::Int(0)) => {}
                ("hour", ExprKind::Int(hours)) => time_of_day.push(hours.saturating_mul(3_600)),
                ("minute", ExprKind::Int(minutes)) => time_of_day.push(minutes.saturating_mul(60)),
                ("second", ExprKind::Int(seconds)) => time_of_day.push(*seconds),
                _ => return hindered(),
            }
        }
        match time_of_day.as_slice() {
            [] => Ok(of.clone()),
            all if all.len() == 3 && of.kind == Type::Time => {
                let midnight = format!("{0} - {0} % 86400", of.at(strength::MULTIPLY));
                let text = match all.iter().fold(0, |sum: i64, part| sum.saturating_add(*part)) {
                    0 => midnight,
                    seconds => format!("{midnight} + {seconds}"),
                };
                Ok(Code::new(text, strength::ADD, Type::Time))
            }
            _ => hindered(),
        }
    }

    /// Returns the code of a duration in seconds: `timedelta(days=1, hours=2)`.
    pub(super) fn span(&mut self, arguments: &Arguments<'_>) -> Outcome {
        let mut parts = Vec::new();
        let places = ["days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks"];
        let positional =
            arguments.positional().iter().enumerate().map(|(at, value)| (places.get(at).copied(), *value));
        let named = arguments.all_named().iter().map(|(name, value)| (Some(*name), *value));
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
    /// Returns the code of a request's timeout in milliseconds, at most that of the host.
    pub(super) fn timeout(&mut self, value: &Expr) -> Outcome<Option<String>> {
        const MAX_TIMEOUT: i64 = 300_000;
        let code = self.milliseconds(value)?;
        // A literal has only digits, and `_` between its thousands.
        Ok(code.map(|code| match code.replace('_', "").parse::<i64>() {
            Ok(milliseconds) => grouped(milliseconds.min(MAX_TIMEOUT)),
            Err(_) => format!("min({code}, {})", grouped(MAX_TIMEOUT)),
        }))
    }

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
