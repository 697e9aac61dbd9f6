//! `time::…`: points in time as Unix seconds, and their texts. Time zones have IANA names.

use super::argument::{AnyNumber, RhaiResultOf, fail, float};
use super::host_calls;
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::{TimeZone, db};
use jiff::{Timestamp, Zoned};
use rhai::plugin::*;
use valvehouse_dialect::call;

/// The maximum length of a pattern, in bytes.
const MAX_PATTERN: usize = 1024;

#[export_module]
pub(super) mod functions {
    /// Returns the current time in seconds since 1970.
    #[rhai_fn(volatile)]
    pub fn unix() -> i64 {
        super::now().as_second()
    }

    /// Returns the current time in milliseconds since 1970.
    #[rhai_fn(volatile)]
    pub fn unix_ms() -> i64 {
        super::now().as_millisecond()
    }

    /// Returns the milliseconds since the start of the turn.
    #[rhai_fn(volatile)]
    pub fn elapsed_ms() -> i64 {
        super::super::turn::elapsed_ms()
    }

    /// Pauses for a number of milliseconds, at most 600 000, without blocking others. The pause counts toward the
    /// elapsed time of the call, and ends with the turn.
    #[rhai_fn(return_raw, volatile)]
    pub fn sleep(ms: AnyNumber) -> RhaiResultOf<()> {
        super::super::waiting::pause("time::sleep", float("time::sleep", "ms", &ms)?)
    }

    /// Returns the current time in the form `2026-11-21T03:46:00Z`.
    #[rhai_fn(volatile)]
    pub fn iso() -> String {
        Timestamp::from_second(unix()).unwrap_or_default().to_string()
    }

    /// Returns a time in the form `2026-11-21T03:46:00Z`, with milliseconds if it has any.
    #[rhai_fn(return_raw, name = "iso")]
    pub fn iso_at(unix: AnyNumber) -> RhaiResultOf<String> {
        Ok(timestamp("time::iso", &unix)?.to_string())
    }

    /// Returns a time in a time zone, in the form `2026-11-21T04:46:00+01:00`.
    #[rhai_fn(return_raw, name = "iso")]
    pub fn iso_in(unix: AnyNumber, zone: &str) -> RhaiResultOf<String> {
        let time = timestamp("time::iso", &unix)?.to_zoned(find_zone("time::iso", zone)?);
        written("time::iso", "%Y-%m-%dT%H:%M:%S%.f%:z", &time)
    }

    /// Formats a time with a strftime pattern, in UTC: `time::format(0, "%d.%m.%Y")` is `"01.01.1970"`.
    #[rhai_fn(return_raw)]
    pub fn format(unix: AnyNumber, strftime: &str) -> RhaiResultOf<String> {
        written("time::format", strftime, &timestamp("time::format", &unix)?.to_zoned(TimeZone::UTC))
    }

    /// Formats a time with a strftime pattern, in a time zone.
    #[rhai_fn(return_raw, name = "format")]
    pub fn format_in(unix: AnyNumber, strftime: &str, zone: &str) -> RhaiResultOf<String> {
        let time = timestamp("time::format", &unix)?.to_zoned(find_zone("time::format", zone)?);
        written("time::format", strftime, &time)
    }

    /// Parses a text with a strftime pattern and returns Unix seconds; in UTC unless the text has another zone.
    #[rhai_fn(return_raw)]
    pub fn parse(text: &str, strftime: &str) -> RhaiResultOf<i64> {
        read(text, strftime, TimeZone::UTC)
    }

    /// Parses a text with a strftime pattern and returns Unix seconds, in a time zone unless the text has another
    /// one.
    #[rhai_fn(return_raw, name = "parse")]
    pub fn parse_in(text: &str, strftime: &str, zone: &str) -> RhaiResultOf<i64> {
        read(text, strftime, find_zone("time::parse", zone)?)
    }
}

/// Returns the current time of the running call.
fn now() -> Timestamp {
    Timestamp::from_millisecond(host_calls::value("time", call::now_ms)).unwrap_or_default()
}

/// Returns a point in time, to the millisecond.
fn timestamp(function: &str, unix: &AnyNumber) -> RhaiResultOf<Timestamp> {
    let time = match unix.as_int() {
        // `()` stands for the current time.
        Err(_) if unix.is_unit() => Some(now()),
        Ok(seconds) => Timestamp::from_second(seconds).ok(),
        Err(_) => {
            let milliseconds = (float(function, "unix", unix)? * 1e3).round();
            Some(milliseconds)
                .filter(|milliseconds| milliseconds.is_finite())
                .and_then(|milliseconds| Timestamp::from_millisecond(milliseconds as i64).ok())
        }
    };
    time.ok_or_else(|| {
        let hint = "; divide milliseconds by 1000";
        fail(function, format!("invalid time {unix}: expected Unix seconds up to the year 9999{hint}"))
    })
}

fn written(function: &str, strftime: &str, time: &Zoned) -> RhaiResultOf<String> {
    check_pattern(function, strftime)?;
    strtime::format(strftime, time).map_err(|error| fail(function, format!("`{strftime}`: {error}")))
}

fn read(text: &str, strftime: &str, zone: TimeZone) -> RhaiResultOf<i64> {
    check_pattern("time::parse", strftime)?;
    let read = BrokenDownTime::parse(strftime, text).and_then(|time| {
        if time.timestamp().is_some() || time.offset().is_some() {
            time.to_timestamp()
        } else if time.iana_time_zone().is_some() {
            time.to_zoned().map(|time| time.timestamp())
        } else {
            time.to_datetime()?.to_zoned(zone).map(|time| time.timestamp())
        }
    });
    let shown = valvehouse_dialect::call::redaction::excerpt(text);
    let fail = |error| fail("time::parse", format!("cannot parse `{shown}` as `{strftime}`: {error}"));
    read.map(Timestamp::as_second).map_err(fail)
}

fn check_pattern(function: &str, strftime: &str) -> RhaiResultOf<()> {
    if strftime.len() <= MAX_PATTERN {
        return Ok(());
    }
    Err(fail(
        function,
        format!("the pattern exceeded its limit of {MAX_PATTERN} bytes: it has {}", strftime.len()),
    ))
}

/// Returns the time zone with this name, such as `Europe/Berlin`.
fn find_zone(function: &str, name: &str) -> RhaiResultOf<TimeZone> {
    TimeZone::get(name).map_err(|_| {
        let nearest = nearest(name).map_or(String::new(), |zone| format!("; did you mean `{zone}`?"));
        fail(
            function,
            format!("unknown time zone `{}`{nearest}", valvehouse_dialect::call::redaction::excerpt(name)),
        )
    })
}

/// Returns the most similar known name, compared as a whole and by its city.
fn nearest(name: &str) -> Option<String> {
    let name: String =
        name.chars().take(60).map(|c| if c == ' ' { '_' } else { c.to_ascii_lowercase() }).collect();
    let alike = |zone: &str| {
        let zone = zone.to_ascii_lowercase();
        let city = zone.rsplit('/').next().unwrap_or(&zone);
        strsim::jaro_winkler(&zone, &name).max(strsim::jaro_winkler(city, &name))
    };
    let zones = db().available().map(|zone| (alike(zone.as_str()), zone.as_str().to_owned()));
    let best = zones.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(&a.1)))?;
    (best.0 > 0.7).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    #[test]
    fn now_returns_the_current_time() {
        gives(&[
            ("time::unix() > 1_700_000_000", "true"),
            ("time::unix_ms() / 1000 - time::unix() <= 1", "true"),
            ("regex::is_match(time::iso(), `^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$`)", "true"),
        ]);
        refuses(&[("time::unix(1)", "unix (integer)"), ("time::unix_ms(1)", "unix_ms (integer)")]);
    }

    #[test]
    fn times_are_formatted() {
        gives(&[
            ("time::iso(1795232760)", r#""2026-11-21T03:46:00Z""#),
            ("time::iso(1.5)", r#""1970-01-01T00:00:01.5Z""#),
            (r#"time::iso(1795232760, "Europe/Berlin")"#, r#""2026-11-21T04:46:00+01:00""#),
            (r#"time::iso(0.25, "UTC")"#, r#""1970-01-01T00:00:00.25+00:00""#),
            (r#"time::format(0, "%d.%m.%Y %H:%M")"#, r#""01.01.1970 00:00""#),
            (r#"time::format(0.9, "%H:%M %Z", "America/New_York")"#, r#""19:00 EST""#),
        ]);
        refuses(&[
            (r#"time::iso("now")"#, "`unix` must be a number, not string"),
            ("time::iso(1795232760000)", "divide milliseconds by 1000"),
            ("time::iso(1.0/0.0)", "up to the year"),
            (
                r#"time::iso(0, "Europe/Berln")"#,
                "unknown time zone `Europe/Berln`; did you mean `Europe/Berlin`?",
            ),
            (r#"time::format(0, "%H", "new york")"#, "did you mean `America/New_York`?"),
            (r#"time::format(0, "%!")"#, "`%!`"),
            (r#"time::format(0, big(2000))"#, "limit of 1024 bytes: it has 2000"),
        ]);
    }

    #[test]
    fn times_are_parsed() {
        gives(&[
            (r#"time::parse("2026-11-21 03:46", "%Y-%m-%d %H:%M")"#, "1795232760"),
            (r#"time::parse("2026-11-21 04:46", "%Y-%m-%d %H:%M", "Europe/Berlin")"#, "1795232760"),
            (
                r#"time::parse("2026-11-21T04:46:00+01:00", "%Y-%m-%dT%H:%M:%S%:z", "Asia/Tokyo")"#,
                "1795232760",
            ),
            (r#"time::parse("21.11.2026", "%d.%m.%Y")"#, "1795219200"),
            (r#"time::parse("1795232760", "%s")"#, "1795232760"),
        ]);
        refuses(&[
            (r#"time::parse("tomorrow", "%Y-%m-%d")"#, "`tomorrow` as `%Y-%m-%d`"),
            (r#"time::parse("10:00", "%H:%M")"#, "`10:00` as `%H:%M`"),
            (r#"time::parse("x", "x", "Mars/Base")"#, "unknown time zone `Mars/Base`"),
        ]);
    }
}
