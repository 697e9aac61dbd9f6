//! Functions that a host calls periodically: `tick()`, and lists that may wait.

use super::argument::UserValves;
use crate::declare::hooks::{self, Param};
use crate::declare::manifest::Manifest;
use crate::declare::schedule::{self, ScheduledCall};
use crate::diagnostic::{Code, Diagnostic};
use crate::load::source::SourceFile;
use crate::script::Script;
use crate::{pipe, tool};
use futures::future::BoxFuture;
use rhai::{AST, EvalAltResult};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::context::{Turn, TurnFacts};
use valvehouse_core::error::PluginError;
use valvehouse_core::trace::Trace;
use valvehouse_dialect::budget::Budget;
use valvehouse_dialect::interpreter::Args;
use valvehouse_dialect::value::error;
use valvehouse_json::Json;
use valvehouse_script_std::functions::bounded_json;

/// The time limit of `tick()`, including waiting.
const TICK: Duration = Duration::from_secs(300);
/// The running time limit of `tick()`, as a multiple of that of a hook.
const TICK_TIME: u32 = 10;
/// The time limit of a list, including waiting.
const LIST: Duration = Duration::from_secs(30);
/// The maximum size of a list, in bytes.
const MAX_LIST: usize = 4 << 20;

impl Script {
    /// Returns the functions that the host calls periodically, each with its interval.
    pub fn scheduled(&self) -> Vec<(ScheduledCall, Duration)> {
        let has = |name: &str| self.functions().any(|function| function.name == name);
        let due = |what: ScheduledCall| match what {
            ScheduledCall::Tick => self.manifest.every.filter(|_| self.tick.is_some()),
            ScheduledCall::Pipes => self.manifest.ttl.filter(|_| self.pipe.is_some() && has(what.as_str())),
            ScheduledCall::Tools => self.manifest.ttl.filter(|_| has(what.as_str()) && !has("handler")),
        };
        ScheduledCall::ALL.into_iter().filter_map(|what| Some((what, due(what)?))).collect()
    }

    /// Calls a scheduled function on the executor, within its own budget: `tick()` has ten times the running time
    /// of a hook and five minutes in total; a list has the budget of a hook. The steps are recorded in the trace.
    /// Returns the list; null for `tick()`.
    ///
    /// # Errors
    /// Returns an error if the call failed or its list is invalid.
    pub fn run_scheduled(
        self: &Arc<Self>,
        what: ScheduledCall,
        trace: Option<Arc<Trace>>,
    ) -> BoxFuture<'static, Result<Json, PluginError>> {
        let turn =
            Turn::new(TurnFacts { trace, ..TurnFacts::default() }, Default::default(), Default::default());
        // Nobody receives its events, and it cannot leave background work.
        let facts = turn.facts().trace.clone();
        self.run_scheduled_in(what, turn.behind().turn(facts))
    }

    /// Calls a scheduled function in this turn.
    ///
    /// # Errors
    /// Returns the failure of the call.
    pub fn run_scheduled_in(
        self: &Arc<Self>,
        what: ScheduledCall,
        turn: Turn,
    ) -> BoxFuture<'static, Result<Json, PluginError>> {
        let (this, own) = (self.clone(), turn.clone());
        let work =
            this.call_in_background(what.as_str(), self.budget_of(what), own, None, move |script, turn| {
                script.do_scheduled(what, turn)
            });
        Box::pin(async move { turn.lasting(work).await })
    }

    fn budget_of(&self, what: ScheduledCall) -> Budget {
        let hook = self.settings.hook;
        match what {
            ScheduledCall::Tick => Budget {
                operations: self.settings.tool.operations,
                time: hook.time.saturating_mul(TICK_TIME),
                wall: TICK,
                ..hook
            },
            ScheduledCall::Pipes | ScheduledCall::Tools => Budget { wall: LIST, ..hook },
        }
    }

    fn do_scheduled(&self, what: ScheduledCall, turn: &Turn) -> Result<Json, Box<EvalAltResult>> {
        if what == ScheduledCall::Tick {
            let users = Arc::<UserValves>::default();
            let params = self.tick.iter().flatten().map(|param| self.argument(*param, turn, &users));
            _ = self.evaluate(what.as_str(), params.collect())?;
            return Ok(Json::Null);
        }
        let listed = self.evaluate(what.as_str(), Args::new())?;
        // The length is measured first, because shared values may occur many times.
        let text = bounded_json(what.as_str(), &schedule::written(&listed)?, None)?;
        if text.len() > MAX_LIST {
            return Err(error(format!("the list exceeded its limit of {} MiB", MAX_LIST >> 20)));
        }
        let written = Json::parse(text.as_bytes()).map_err(|why| error(why.to_string()))?;
        let usable = match what {
            ScheduledCall::Tools => tool::check_list(self, &written),
            _ => pipe::check_list(self, &written),
        };
        usable.map_err(error)?;
        Ok(written.freeze())
    }
}

/// Reads the parameters of `fn tick` and its interval `every`. Also returns the problems found.
pub(crate) fn read(
    ast: &AST,
    manifest: &Manifest,
    file: &SourceFile,
    source: &str,
) -> (Option<Vec<Param>>, Vec<Diagnostic>) {
    let name = ScheduledCall::Tick.as_str();
    let of = |message: &str| Diagnostic::of(Code::BadSchedule, file, message);
    let mut problems = Vec::new();
    let has = |name: &str| ast.iter_functions().any(|function| function.name == name);
    if manifest.ttl.is_some() && !has("pipes") && !has("tools") {
        let problem = of("`ttl` has no effect: missing `fn pipes()` or `fn tools()`");
        let help = "write one of the functions, or remove `ttl`";
        problems.push(problem.at_frontmatter(source, "ttl", "ttl").help(help).warning());
    }
    // The overload with the most parameters is used.
    let functions = ast.iter_functions().filter(|function| function.name == name);
    let function = functions.max_by_key(|function| function.params.len());
    match (function, manifest.every) {
        (None, None) => (None, problems),
        (None, Some(_)) => {
            let problem = of("`every` has no effect: missing `fn tick()`");
            problems.push(
                problem
                    .at_frontmatter(source, "every", "every")
                    .help("write `fn tick() { … }`, or remove `every`")
                    .warning(),
            );
            (None, problems)
        }
        (Some(function), None) => {
            if function.params.is_empty() {
                let problem = of("`tick` is never called: missing `const every`");
                let help = "write `const every = \"1h\";`, or rename the function if it should not be a hook";
                problems.push(problem.at_function(source, name).help(help).warning());
            }
            (None, problems)
        }
        (Some(function), Some(_)) => match hooks::read_params(name, None, &function.params) {
            Ok(params) => (Some(params), problems),
            Err(unknown) => {
                problems.push(unknown.of(&file.id, &file.path, source));
                (None, problems)
            }
        },
    }
}

impl Diagnostic {
    /// Creates the problem of a scheduled function whose latest call failed.
    pub fn of_scheduled(file: &SourceFile, what: ScheduledCall, why: &str) -> Self {
        let name = what.as_str();
        let source = file.text.trim_start_matches('\u{feff}');
        let stays = if what == ScheduledCall::Tick { "" } else { "; the last valid list stays in use" };
        let what = format!("`{name}()` failed in the background: {why}{stays}");
        let problem = Self::of(Code::ScheduledFailed, file, what).at_function(source, name);
        problem
            .help(format!("the host retries it; run it now with: valvehouse run {name} {} --live", file.id))
            .warning()
    }
}
