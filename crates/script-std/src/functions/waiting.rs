//! `retry`, `poll`, `parallel`, and the pause of `time::sleep`.

use super::argument::{AnyArray, AnyMap, RhaiResultOf, fail, float, items, running, unfit};
use super::host_calls;
use crate::reference::options_of;
use rhai::plugin::*;
use rhai::{Array, EvalAltResult, FnPtr};
use std::time::Duration;
use valvehouse_core::context::Turn;
use valvehouse_core::text::{nearest, suggested};
use valvehouse_dialect::answer::summary_of_run;
use valvehouse_dialect::value::{Shape, error, json_of, live};
use valvehouse_dialect::{budget, call};
use valvehouse_executor::Job;
use valvehouse_json::Json;

/// The maximum pause, in milliseconds.
const MAX_PAUSE: f64 = 600_000.0;
/// The maximum number of calls by `retry`.
const MAX_TIMES: usize = 100;
/// The maximum number of concurrent functions; `PARALLEL` is the default.
const MAX_PARALLEL: usize = 64;
const PARALLEL: usize = 8;

#[export_module]
pub(super) mod functions {
    /// Calls a function until it does not throw, at most `times` times (3), with a delay of `delay` ms (500) before
    /// the second call that doubles each time, up to `max_delay` ms (30 000): `retry(#{ times: 5 }, ||
    /// http::get(url))`. Throws the error of the last call.
    #[rhai_fn(return_raw, volatile)]
    pub fn retry(context: NativeCallContext<'_>, options: AnyMap, function: FnPtr) -> RhaiResultOf<Dynamic> {
        let options = Options::of("retry", &options)?;
        let times = options.count("times", 3, MAX_TIMES)?;
        let (mut delay, longest) = (options.ms("delay", 500.0)?, options.ms("max_delay", 30_000.0)?);
        for left in (0..times).rev() {
            match function.call_raw(&context, None, []) {
                Err(thrown) if left > 0 && is_catchable(&thrown) => {}
                result => return result,
            }
            pause("retry", delay)?;
            delay = (delay * 2.0).min(longest);
        }
        Err(fail("retry", "`times` must be at least 1"))
    }

    /// Calls a function every `every` ms (1 000) until it returns a value other than `()` and `false`, and returns
    /// that value: `poll(#{ every: 2_000, timeout: 60_000 }, || http::get(url).json().result)`. Throws after
    /// `timeout` ms (30 000).
    #[rhai_fn(return_raw, volatile)]
    pub fn poll(context: NativeCallContext<'_>, options: AnyMap, function: FnPtr) -> RhaiResultOf<Dynamic> {
        let options = Options::of("poll", &options)?;
        let (every, timeout) = (options.ms("every", 1_000.0)?, options.ms("timeout", 30_000.0)?);
        if every < 1.0 {
            return Err(fail("poll", "`every` must be at least 1 ms"));
        }
        let began = super::now();
        loop {
            let value: Dynamic = function.call_raw(&context, None, [])?;
            if !(value.is_unit() || value.as_bool() == Ok(false)) {
                return Ok(value);
            }
            if super::now().saturating_sub(began) as f64 + every > timeout {
                return Err(fail("poll", format!("exceeded its limit of {timeout} ms without a result")));
            }
            pause("poll", every)?;
        }
    }

    /// Calls functions concurrently and returns their results in order: `parallel([|| http::get(a), ||
    /// http::get(b)])`. At most 8 run at a time. If one throws, the others are canceled and `parallel` throws the
    /// same error. They share the budget of the call and cannot use `ask`.
    #[rhai_fn(return_raw, volatile)]
    pub fn parallel(context: NativeCallContext<'_>, functions: AnyArray) -> RhaiResultOf<Array> {
        at_once("parallel", &context, &functions, PARALLEL, false)
    }

    /// Like `parallel` with options: `limit` is the number of functions that run at a time, at most 64 (8);
    /// `settle: true` waits for all of them and returns `#{ value }` or `#{ error }` for each.
    #[rhai_fn(return_raw, volatile, name = "parallel")]
    pub fn parallel_with(
        context: NativeCallContext<'_>,
        functions: AnyArray,
        options: AnyMap,
    ) -> RhaiResultOf<Array> {
        let options = Options::of("parallel", &options)?;
        at_once("parallel", &context, &functions, options.limit()?, options.truth("settle")?)
    }
}

/// Returns the time that the running call sees, in milliseconds.
fn now() -> i64 {
    host_calls::value("time::unix_ms", call::now_ms)
}

/// Waits for a number of milliseconds. A step that runs again does not wait again.
pub(super) fn pause(function: &str, ms: f64) -> RhaiResultOf<()> {
    if !(0.0..=MAX_PAUSE).contains(&ms) {
        return Err(fail(function, format!("the pause must be from 0 to 600 000 ms, not {ms}")));
    }
    let call = running(function)?;
    host_calls::once(
        "time::sleep",
        || ms.into(),
        || {
            if call.resources.clock.pass(ms as i64) {
                return Ok(());
            }
            budget::wait(&call.turn, tokio::time::sleep(Duration::from_secs_f64(ms / 1e3)))
        },
    )
}

/// Returns `true` if a script can catch an error.
fn is_catchable(error: &EvalAltResult) -> bool {
    !matches!(error.unwrap_inner(), EvalAltResult::ErrorTerminated(..)) && error.unwrap_inner().is_catchable()
}

/// Calls functions concurrently.
fn at_once(
    name: &str,
    context: &NativeCallContext<'_>,
    functions: &Dynamic,
    limit: usize,
    settles: bool,
) -> RhaiResultOf<Array> {
    let functions = items(name, "functions", functions)?;
    let functions = functions.into_iter().map(|function| match function.try_cast_result::<FnPtr>() {
        Ok(function) => Ok(function),
        Err(other) => Err(unfit(name, "functions", "an array of functions, such as [|| …, || …]", &other)),
    });
    let functions = functions.collect::<RhaiResultOf<Vec<FnPtr>>>()?;
    let works = functions.iter().map(|function| {
        Box::new(move || -> RhaiResultOf<Dynamic> { function.call_raw(context, None, []) }) as Job<'_, _>
    });
    beside_each_other(name, works.collect(), limit, settles)
}

/// Runs work concurrently as one call of the host: its results are recorded together.
pub(super) fn beside_each_other(
    name: &str,
    works: Vec<Job<'_, RhaiResultOf<Dynamic>>>,
    limit: usize,
    settles: bool,
) -> RhaiResultOf<Array> {
    let call = running(name)?;
    let count = works.len();
    host_calls::once(name, || count.into(), || run_beside(&call.turn, works, limit, settles))
}

/// Runs work concurrently; each piece records its own effects. If one waits for a person, those that have begun are
/// completed.
pub(super) fn run_beside(
    turn: &Turn,
    works: Vec<Job<'_, RhaiResultOf<Dynamic>>>,
    limit: usize,
    settles: bool,
) -> RhaiResultOf<Array> {
    budget::charge(works.len() as u64).map_err(budget::ended)?;
    let is_enough = |value: &RhaiResultOf<Dynamic>| match value {
        Ok(_) => false,
        Err(thrown) => !turn.is_paused() && (!settles || !is_catchable(thrown)),
    };
    let values = budget::together(turn, works, limit, is_enough)?;
    if turn.is_paused() {
        return Err(budget::ended(budget::ExceededLimit::Paused));
    }
    let mut results = Array::new();
    let mut failure = None;
    for value in values.into_iter().flatten() {
        match value {
            Ok(value) if settles => {
                results.push(rhai::Map::from([("value".into(), value)]).into());
            }
            Ok(value) => results.push(value),
            Err(thrown) if settles && is_catchable(&thrown) => {
                let message = summary_of_run(&thrown);
                results.push(rhai::Map::from([("error".into(), message.into())]).into());
            }
            Err(thrown) => failure = Some(thrown),
        }
    }
    failure.map_or(Ok(results), Err)
}

/// Returns the names of the options of a function.
pub(super) fn known_options(function: &str) -> Vec<&'static str> {
    options_of(function).map_or_else(Vec::new, |options| options.keys().iter().map(|key| key.name).collect())
}

/// Creates the error of an option that a function does not have.
pub(super) fn unknown_option(function: &str, name: &str, known: &[&str]) -> Box<EvalAltResult> {
    let near = suggested(nearest(name, known.iter().copied()));
    fail(function, format!("unknown option `{name}`; {near}the options are {}", known.join(", ")))
}

/// The values of an option map.
pub(super) struct Options<'a> {
    function: &'a str,
    options: Json,
}

impl<'a> Options<'a> {
    /// Reads the options that [`options_of`] lists for the function.
    pub(super) fn of(function: &'a str, options: &Dynamic) -> RhaiResultOf<Self> {
        Self::read(function, options, &known_options(function))
    }

    pub(super) fn read(function: &'a str, options: &Dynamic, known: &[&str]) -> RhaiResultOf<Self> {
        let options = match json_of(options)? {
            options @ Json::Object(_) => options,
            _ => return Err(unfit(function, "options", "a map", options)),
        };
        for (name, _) in options.entries() {
            if !known.contains(&name.as_str()) {
                return Err(unknown_option(function, &name, known));
            }
        }
        Ok(Self { function, options })
    }

    pub(super) fn value(&self, name: &str) -> Option<Dynamic> {
        self.options
            .get(name)
            .filter(|value| !matches!(value, Json::Null))
            .map(|value| live(&value, Shape::Plain))
    }

    fn ms(&self, name: &str, default: f64) -> RhaiResultOf<f64> {
        let Some(value) = self.value(name) else { return Ok(default) };
        let ms = float(self.function, name, &value)?;
        match (0.0..=MAX_PAUSE).contains(&ms) {
            true => Ok(ms),
            false => Err(fail(self.function, format!("`{name}` must be from 0 to 600 000 ms, not {ms}"))),
        }
    }

    pub(super) fn count(&self, name: &str, default: usize, most: usize) -> RhaiResultOf<usize> {
        let Some(value) = self.value(name) else { return Ok(default) };
        let count = value.as_int().ok().and_then(|count| usize::try_from(count).ok());
        match count.filter(|count| (1..=most).contains(count)) {
            Some(count) => Ok(count),
            None => Err(fail(self.function, format!("`{name}` must be from 1 to {most}, not {value}"))),
        }
    }

    /// Returns the maximum number of concurrent calls.
    pub(super) fn limit(&self) -> RhaiResultOf<usize> {
        self.count("limit", PARALLEL, MAX_PARALLEL)
    }

    pub(super) fn truth(&self, name: &str) -> RhaiResultOf<bool> {
        self.truth_or(name, false)
    }

    /// Creates the error of an invalid option.
    pub(super) fn wrong(&self, why: &str) -> Box<EvalAltResult> {
        fail(self.function, why)
    }

    pub(super) fn truth_or(&self, name: &str, default: bool) -> RhaiResultOf<bool> {
        let Some(value) = self.value(name) else { return Ok(default) };
        value.as_bool().map_err(|_| error(format!("{}: `{name}` must be true or false", self.function)))
    }
}
