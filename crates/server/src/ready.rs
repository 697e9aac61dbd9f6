//! `GET /readyz`: reports if requests should be sent to this host, and the reason if not.
//!
//! All clients receive the result and the names of the failed checks; operators also receive details.

use super::auth;
use crate::api::{Description, Query, Reply};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use valvehouse_host::Snapshot;
use valvehouse_host::app::App;
use valvehouse_store::{Outage, StoreError, StoreErrorKind, now};

/// The timeout of the store. It is long, because a busy machine should still accept requests.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of a database on another machine. Readiness probes usually wait for about a second.
const SHARED_STORE_TIMEOUT: Duration = Duration::from_millis(500);
/// The maximum age of the last scan. Folders and store are scanned about every two seconds.
const MAX_SCAN_AGE: Duration = Duration::from_secs(30);

/// The check of the models.
const MODELS: &str = "models";

/// The hosts that use the same store.
pub(super) struct Hosts {
    pub(super) all: usize,
    /// The number of hosts that have applied the latest change.
    pub(super) agreeing: usize,
    pub(super) stored: u64,
}

/// Returns the hosts in the store, or the reason why they cannot be listed.
pub(super) async fn hosts(app: &App) -> Result<Hosts, String> {
    let store = app.host.store();
    if let Some(outage) = store.outage() {
        return Err(away(&outage));
    }
    let lookup = async {
        let stored = store.generation().await?;
        let hosts = store.hosts().await?;
        let agreeing = hosts.iter().filter(|host| host.applied_generation >= stored).count();
        Ok::<_, StoreError>(Hosts { all: hosts.len(), agreeing, stored })
    };
    let limit = store_timeout(app);
    match timeout(limit, lookup).await {
        Ok(answered) => answered.map_err(|error| format!("cannot {error}")),
        Err(_) => Err(format!("the store did not answer within {limit:?}")),
    }
}

/// Describes an outage of the store: its duration, and the snapshot of this host.
fn away(outage: &Outage) -> String {
    let ago = |time: i64| now().saturating_sub(time) / 1000;
    let snapshot = outage.snapshot.map_or_else(
        || "there is no snapshot to restart from".to_owned(),
        |seen| format!("the snapshot of generation {} is {} s old", seen.generation, ago(seen.at)),
    );
    format!(
        "cannot {}; unavailable for {} s, changes are refused; {snapshot}",
        outage.error,
        ago(outage.since)
    )
}

fn store_timeout(app: &App) -> Duration {
    if app.host.store().is_shared() { SHARED_STORE_TIMEOUT } else { STORE_TIMEOUT }
}

/// A check of one part of the host.
#[derive(Serialize, JsonSchema)]
struct Check {
    name: &'static str,
    /// Set if the check passed.
    ok: bool,
    /// Set if the host is not ready while the check fails.
    needed: bool,
    says: String,
}

impl Check {
    fn needed(name: &'static str, ok: bool, says: String) -> Self {
        Self { name, ok, needed: true, says }
    }

    fn new(name: &'static str, ok: bool, says: String) -> Self {
        Self { name, ok, needed: false, says }
    }
}

/// The query of the readiness route.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ReadyQuery {
    /// Any value but `0` and `false` returns every check to operators.
    verbose: Option<String>,
    /// Checks only this model, instead of all configured ones.
    model: Option<String>,
}

/// The readiness of a host.
#[derive(Serialize, JsonSchema)]
pub(super) struct Readiness {
    ready: bool,
    /// The failed checks that are needed: their names and, for operators, the models whose requests are all refused, with
    /// the reason. Null if there are none.
    reason: Option<String>,
    /// Set if details were requested without an operator's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    #[serde(flatten)]
    details: Option<Details>,
}

/// The part of the response for operators.
#[derive(Serialize, JsonSchema)]
struct Details {
    /// The number of the running set of plugins.
    generation: u64,
    /// The state of each plugin.
    plugins: BTreeMap<String, &'static str>,
    /// `used` or `breaker_open` for each provider.
    providers: BTreeMap<String, &'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<Vec<Check>>,
}

/// Describes the response of a host that is not ready.
pub(super) fn describe_unready(description: &mut Description<'_>) {
    let answer = description.answers.get("200").cloned().unwrap_or_else(|| json!({}));
    let mut unready =
        json!({"description": "Requests should be sent elsewhere; `reason` names the failed checks."});
    unready["content"] = answer["content"].clone();
    description.answers.insert("503".into(), unready);
}

pub(super) async fn ready(
    State(app): State<Arc<App>>,
    parts: Parts,
    Query(query): Query<ReadyQuery>,
) -> (StatusCode, Reply<Readiness>) {
    let snapshot = app.host.snapshot();
    let checks = checks(&app, &snapshot, query.model.as_deref()).await;
    let is_operator = auth::operator(&app, &parts).is_ok();
    // A bare `verbose` has no value.
    let is_bare = parts.uri.query().is_some_and(|query| query.split('&').any(|part| part == "verbose"));
    let is_verbose = query.verbose.map_or(is_bare, |value| !matches!(&*value, "0" | "false"));
    let lacking = checks.iter().filter(|check| check.needed && !check.ok);
    let lacking: Vec<&str> = lacking
        .map(|check| if is_operator && check.name == MODELS { &check.says } else { check.name })
        .collect();
    let status = if lacking.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let reason = (!lacking.is_empty()).then(|| lacking.join(", "));
    let note = (is_verbose && !is_operator).then_some("details need the key of an operator");
    let details = is_operator.then(|| Details {
        generation: snapshot.generation,
        plugins: plugins(&snapshot),
        providers: providers(&snapshot),
        checks: is_verbose.then_some(checks),
    });
    (status, Reply(Readiness { ready: reason.is_none(), reason, note, details }))
}

/// Checks that a model, or every configured model, can be used: a filter that refuses all of its requests stops it for
/// everybody, on every host.
fn models(snapshot: &Snapshot, model: Option<&str>) -> Check {
    let refused: Vec<String> = match model {
        Some(name) => match snapshot.ready(name, &[]) {
            Ok(_) => snapshot.refused_model(name).iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        },
        None => snapshot.refused_models().iter().map(ToString::to_string).collect(),
    };
    match refused.is_empty() {
        true => Check::needed(MODELS, true, "no filter refuses all requests to a model".into()),
        false => Check::needed(MODELS, false, refused.join("; ")),
    }
}

/// Returns the reason why writes currently fail, such as a full disk or a lock that another process holds.
async fn unwritable(app: &App) -> Option<String> {
    let store = app.host.store();
    let probed = timeout(store_timeout(app), store.probe()).await;
    // A store that does not respond in time is reported by the check of the hosts.
    let locked = probed.ok().and_then(Result::err);
    // The probe has just taken the lock, so an earlier failure to take it is over.
    let lasts = |error: &StoreError| error.kind != StoreErrorKind::Busy;
    let why = locked.or_else(|| app.host.kv().failure().or_else(|| store.failing()).filter(lasts));
    why.map(|error| format!("cannot {error}"))
}

async fn checks(app: &App, snapshot: &Snapshot, model: Option<&str>) -> Vec<Check> {
    let (hosts, unwritable) = tokio::join!(hosts(app), unwritable(app));
    let hosts = hosts.and_then(|hosts| unwritable.map_or(Ok(hosts), Err));
    let stopping = app.is_stopping();
    let goes_on = if stopping {
        "the host is stopping and finishes running requests"
    } else {
        "the host accepts requests"
    };
    let ago = app.host.looks().ago();
    let folders = snapshot.plan().folders_exist();
    let mut checks = vec![
        Check::needed("serving", !stopping, goes_on.into()),
        Check::needed(
            "generation",
            snapshot.generation > 0,
            format!("generation {} is running", snapshot.generation),
        ),
        match &hosts {
            Ok(hosts) => {
                Check::needed("store", true, format!("the store is available, at change {}", hosts.stored))
            }
            // If no host can reach the store, requests cannot be sent elsewhere.
            Err(why) if app.host.store().is_shared() => Check::new("store", false, why.clone()),
            Err(why) => Check::needed("store", false, why.clone()),
        },
        models(snapshot, model),
        Check::new(
            "folders",
            ago < MAX_SCAN_AGE,
            format!("scanned {:.1} s ago; {folders}", ago.as_secs_f64()),
        ),
    ];
    if let Ok(Hosts { all, agreeing, .. }) = hosts {
        let says = format!("{agreeing} of {all} on this store have applied its latest change");
        checks.push(Check::new("hosts", agreeing == all, says));
    }
    if let Some(refused) = app.host.refused() {
        // A host without a guard of that generation must not serve requests to which the guard applies
        // elsewhere.
        let missing: Vec<&str> = refused.missing_guards.iter().map(String::as_str).collect();
        let guards = match missing.is_empty() {
            true => String::new(),
            false => format!("; guards that are missing here: {}", missing.join(", ")),
        };
        let says = format!("{}{guards}", refused.message());
        checks.push(match missing.is_empty() {
            true => Check::new("scripts", false, says),
            false => Check::needed("scripts", false, says),
        });
    }
    let open: Vec<&str> = snapshot
        .plan()
        .providers
        .iter()
        .filter(|plan| !plan.provider.open_breakers().is_empty())
        .map(|plan| plan.provider.name())
        .collect();
    checks.push(Check::new("providers", open.is_empty(), listed("circuit breaker open", &open)));
    let refusals: Vec<String> = snapshot.filters().filter_map(|plugin| plugin.refusal()).collect();
    let refusals: Vec<&str> = refusals.iter().map(String::as_str).collect();
    checks.push(Check::new("guards", refusals.is_empty(), listed("requests are refused", &refusals)));
    let unwell: Vec<&str> = snapshot
        .plugins
        .values()
        .filter(|plugin| plugin.state_name() != "live")
        .map(|plugin| &*plugin.id)
        .collect();
    checks.push(Check::new("plugins", unwell.is_empty(), listed("not live", &unwell)));
    checks
}

fn listed(what: &str, names: &[&str]) -> String {
    format!("{what}: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") })
}

fn plugins(snapshot: &Snapshot) -> BTreeMap<String, &'static str> {
    snapshot.plugins.values().map(|plugin| (plugin.id.to_string(), plugin.state_name())).collect()
}

fn providers(snapshot: &Snapshot) -> BTreeMap<String, &'static str> {
    let providers = snapshot.plan().providers.iter().map(|plan| {
        let word = if plan.provider.open_breakers().is_empty() { "used" } else { "breaker_open" };
        (plan.provider.name().to_owned(), word)
    });
    providers.collect()
}
