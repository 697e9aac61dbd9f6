//! The status of plugins: on this host, and on all running hosts together. Each host stores its own status
//! periodically, so that commands can report it.

use crate::plugin::{Plugin, State};
use crate::snapshot::Snapshot;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use valvehouse_core::breaker::OpenState;
use valvehouse_core::filter::FailurePolicy;
use valvehouse_core::metrics::{PromptCacheCount, Sum};
use valvehouse_core::text::count;
use valvehouse_core::trace::{GuardCoverage, GuardCoverageRow};
use valvehouse_json::{Json, Object};
use valvehouse_script::{Code, Diagnostic, Kind, Severity};
use valvehouse_store::HostSeen;

/// The prefix of a provider's name in the stored status, whose other keys are plugin ids; ids contain no
/// colon.
const PROVIDER: &str = "provider:";
/// The key of the coverage table in the stored status.
const COVERAGE: &str = "coverage:";
/// The key of the host's own status.
const NODE: &str = "node:";
/// The maximum number of coverage rows that a host stores.
const MAX_COVERAGE: usize = 200;

impl Plugin {
    /// Returns the cost of all calls of the plugin on this host.
    pub fn sum(&self) -> Sum {
        let sums = self.script.iter().flat_map(|script| script.metrics().sums());
        sums.fold(Sum::default(), |all, (_, sum)| all.and(sum))
    }

    /// Returns the number of requests on this host for which it preserved the provider's prompt cache, and
    /// the number measured.
    pub fn prompt_cache(&self) -> PromptCacheCount {
        self.script.as_ref().map_or(PromptCacheCount::default(), |script| script.prompt_cache.count())
    }

    /// Returns the name of the state: `breaker_open`, or that of its file.
    pub fn state_name(&self) -> &'static str {
        match &self.script {
            Some(script) if script.breaker.open().is_some() => "breaker_open",
            _ => self.state.as_str(),
        }
    }

    /// Returns `true` if missing grants are the only reason why it does not load.
    pub fn is_held(&self) -> bool {
        let mut errors =
            self.state.problems().iter().filter(|problem| problem.severity == Severity::Error).peekable();
        let is_broken = matches!(self.state, State::Broken(_));
        is_broken && errors.peek().is_some() && errors.all(|problem| problem.grant.is_some())
    }

    /// Returns the problems of its file or, if the file runs, its warnings.
    pub fn problems(&self) -> impl Iterator<Item = &Diagnostic> {
        // The problems of a stale plugin concern the file, not the running version.
        let warnings = self.script.as_ref().filter(|_| self.state == State::Live);
        self.state.problems().iter().chain(warnings.into_iter().flat_map(|script| &script.warnings))
    }

    /// Returns the problems of its status rather than of its text: the guard is missing, or it waits for an
    /// operator.
    pub fn standing_problems(&self) -> Vec<Diagnostic> {
        let waits = |problem: &&Diagnostic| matches!(problem.code, Code::GuardWeakened | Code::SameId);
        self.state.problems().iter().filter(waits).cloned().chain(self.absence()).collect()
    }

    /// Returns the problem of a guard whose file is missing; `None` for any other plugin.
    pub fn absence(&self) -> Option<Diagnostic> {
        if self.state != State::Missing {
            return None;
        }
        let what = format!("the guard `{}` is missing: {}", self.id, self.consequence());
        let help = format!("restore its file, or to accept its removal, run: valvehouse confirm {}", self.id);
        let problem = Diagnostic::new(Code::GuardGone, &self.id, &self.path, what).help(help);
        Some(if self.refusal().is_some() { problem } else { problem.warning() })
    }

    /// Returns the consequence for requests while it is a guard that cannot run.
    pub fn consequence(&self) -> &'static str {
        consequence(self.enabled, self.audited)
    }

    /// Returns the state of its circuit breaker on this host; `None` if it is closed.
    pub fn open_breaker(&self) -> Option<OpenState> {
        self.script.as_ref().and_then(|script| script.breaker.open())
    }

    /// Describes an open circuit breaker: the reason, the consequence for requests, and the next attempt.
    pub fn breaker_in_words(&self, open: &OpenState) -> String {
        let ignored = self
            .script
            .as_ref()
            .is_some_and(|script| script.manifest.failure_policy == FailurePolicy::FailOpen);
        let meanwhile = match self.kind {
            Kind::Filter if ignored || self.audited => "skipped",
            Kind::Filter => "its requests are refused with 503",
            Kind::Tool => "models that call it get an error",
            Kind::Action => "users who press its buttons get an error",
        };
        let (breaks, seconds) = (count(open.failures, "time"), open.next_try.as_secs_f64().ceil());
        format!(
            "its circuit breaker is open: it failed {breaks} in a short time; {meanwhile}, and the next call is tried within {seconds} s"
        )
    }
}

/// Returns the consequence for requests while a guard cannot run.
pub(crate) fn consequence(is_enabled: bool, is_audited: bool) -> &'static str {
    match (is_enabled, is_audited) {
        (false, _) => "no request is refused, since it is switched off",
        (true, true) => "no request is refused, since it is in audit mode",
        (true, false) => "requests are refused",
    }
}

/// The status of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Its version; empty if the host does not report it.
    pub version: String,
    /// The time at which it applied its generation, in milliseconds since 1970; 0 if unknown.
    pub since: i64,
    /// The latest generation of the store if the host rejected it.
    pub refused: Option<u64>,
    /// The reason for the rejection.
    pub error: Option<String>,
}

impl NodeStatus {
    /// Reads the status that a host reports.
    pub fn of(host: &HostSeen) -> Self {
        // A host may report none.
        host.tells.field(NODE).to().unwrap_or_else(|_| Self::default())
    }

    /// Returns `true` if the host rejected this generation or a later one.
    pub fn refuses(&self, generation: u64) -> bool {
        self.refused.is_some_and(|refused| refused >= generation)
    }
}

/// The status of the plugins and providers on all hosts together.
#[derive(Debug, Default)]
pub struct SharedStatus {
    plugins: BTreeMap<String, PluginStanding>,
    /// The providers with their circuit breakers that are open on any host.
    providers: BTreeMap<String, Vec<OpenState>>,
    /// The coverage rows of the last hour, by host.
    coverage: Vec<GuardCoverageRow>,
    /// The number of hosts that reported.
    pub hosts: usize,
}

/// The status of one plugin on all hosts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginStanding {
    /// The costs of its calls, by hook or tool.
    pub sums: BTreeMap<String, Sum>,
    /// The state of its circuit breaker if it is open on any host.
    pub open_breaker: Option<OpenState>,
    /// The number of requests for which it preserved the provider's prompt cache.
    pub prompt_cache: PromptCacheCount,
    /// The messages of its scheduled functions that failed on any host.
    pub failing: BTreeSet<String>,
}

impl SharedStatus {
    /// Returns the status that a host stores; plugins without calls are left out.
    pub(crate) fn of_snapshot(
        snapshot: &Snapshot,
        coverage: Option<&GuardCoverage>,
        node: &NodeStatus,
    ) -> Json {
        let plugins = snapshot.plugins.values().filter_map(|plugin| {
            let script = plugin.script.as_ref()?;
            let sums = script.metrics().sums();
            let open_breaker = script.breaker.open();
            if sums.is_empty() && open_breaker.is_none() {
                return None;
            }
            let sums: Object = sums.into_iter().map(|(name, sum)| (name.into(), sum.into_json())).collect();
            let report = Json::from([
                ("sums", sums.into()),
                ("rests", open_breaker.map_or(Json::Null, |open| written(&open))),
                ("prompt_cache", script.prompt_cache.count().to_json()),
                ("failing", snapshot.failing(&plugin.id).map(Json::from).collect::<Vec<_>>().into()),
            ]);
            Some(((*plugin.id).into(), report))
        });
        let providers = snapshot.plan().providers.iter().filter_map(|plan| {
            let name = format!("{PROVIDER}{}", plan.provider.name());
            let open: Vec<Json> = plan.provider.open_breakers().iter().map(written).collect();
            (!open.is_empty()).then(|| (name.into(), Json::from([("rests", open.into())])))
        });
        let rows = coverage.map(GuardCoverage::rows).filter(|rows| !rows.is_empty());
        let rows = rows.map(|rows| {
            let rows = rows.iter().take(MAX_COVERAGE).map(GuardCoverageRow::to_json);
            (COVERAGE.into(), Json::from(rows.collect::<Vec<_>>()))
        });
        let node = Json::from_serialize(node).ok().map(|node| (NODE.into(), node));
        plugins.chain(providers).chain(rows).chain(node).collect::<Object>().into()
    }

    /// Merges the status of these hosts.
    pub fn from_hosts(hosts: &[HostSeen]) -> Self {
        let mut standing = Self { hosts: hosts.len(), ..Self::default() };
        for host in hosts {
            let Json::Object(plugins) = &host.tells else { continue };
            for (id, report) in plugins.entries() {
                if let Some(name) = id.strip_prefix(PROVIDER) {
                    let open = standing.providers.entry(name.to_owned()).or_default();
                    open.extend(report.list("rests").iter().map(read));
                    open.sort_by(|one, other| one.cause.cmp(&other.cause));
                    open.dedup_by(|one, other| one.cause == other.cause);
                    continue;
                }
                if id == NODE {
                    continue;
                }
                if id == COVERAGE {
                    standing.coverage.extend(report.items().iter().map(GuardCoverageRow::from_json));
                    continue;
                }
                standing.plugins.entry(id.to_string()).or_default().add(&report);
            }
        }
        standing
    }

    /// Returns the coverage rows of the last hour on all hosts.
    pub fn coverage(&self) -> Vec<GuardCoverageRow> {
        GuardCoverageRow::merged(self.coverage.iter().cloned())
    }

    /// Returns the status of a plugin; `None` if no host has called it.
    pub fn of(&self, id: &str) -> Option<&PluginStanding> {
        self.plugins.get(id)
    }

    /// Returns the diagnostics of scheduled functions whose last call failed on any host.
    pub fn scheduled_problems(&self, snapshot: &Snapshot) -> Vec<Diagnostic> {
        let of_plugin = |(id, standing): (&String, &PluginStanding)| {
            let plugin = snapshot.plugins.get(id.as_str())?.clone();
            let problems = standing.failing.iter().map(|message| {
                Diagnostic::new(Code::ScheduledFailed, &plugin.id, &plugin.path, message.as_str()).warning()
            });
            Some(problems.collect::<Vec<_>>())
        };
        self.plugins.iter().filter_map(of_plugin).flatten().collect()
    }

    /// Returns the states of a provider's circuit breakers that are open on any host.
    pub fn provider(&self, name: &str) -> &[OpenState] {
        self.providers.get(name).map_or(&[], Vec::as_slice)
    }
}

impl PluginStanding {
    fn add(&mut self, report: &Json) {
        if let Some(Json::Object(sums)) = report.get("sums") {
            for (name, sum) in sums.entries() {
                let own = self.sums.entry(name.to_string()).or_default();
                *own = own.and(Sum::from_json(&sum));
            }
        }
        if let Some(open_breaker @ Json::Object(_)) = report.get("rests") {
            self.open_breaker = Some(read(&open_breaker));
        }
        self.prompt_cache = self.prompt_cache.and(PromptCacheCount::from_json(&report.field("prompt_cache")));
        self.failing.extend(report.list("failing").iter().filter_map(Json::as_str).map(str::to_owned));
    }
}

fn written(open: &OpenState) -> Json {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Json::from([
        ("breaks", open.failures.into()),
        ("since_ms", ms(open.since).into()),
        ("next_try_ms", ms(open.next_try).into()),
        ("cause", open.cause.as_str().into()),
    ])
}

fn read(json: &Json) -> OpenState {
    let number = |name: &str| json.get(name).and_then(|value| value.as_i64()).unwrap_or(0).unsigned_abs();
    OpenState {
        failures: usize::try_from(number("breaks")).unwrap_or(0),
        since: Duration::from_millis(number("since_ms")),
        next_try: Duration::from_millis(number("next_try_ms")),
        cause: json.text_or_empty("cause").to_string(),
    }
}
