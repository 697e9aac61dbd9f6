//! The coverage table: the guards that ran in the requests of the last hour, by endpoint, model, user and hook.

use crate::plugin::Plugin;
use crate::snapshot::Snapshot;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use valvehouse_core::filter::Hook;
use valvehouse_core::trace::GuardCoverageRow;
use valvehouse_script::{CHAT, Kind};

/// The guards that ran in the requests of the last hour, on all hosts.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Coverage")]
pub struct GuardCoverageTable {
    /// The ids of the enabled guards.
    guards: Vec<String>,
    /// The rows with the most requests first.
    data: Vec<TableRow>,
}

/// The requests of one endpoint, model and user.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CoverageRow")]
struct TableRow {
    endpoint: String,
    model: String,
    /// The id of the user; empty if unknown.
    user: String,
    requests: u64,
    /// The number of completely answered requests.
    answered: u64,
    hooks: Vec<GuardCoverageCell>,
}

/// The guards at a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "CoverageCell")]
pub struct GuardCoverageCell {
    /// The name of the hook.
    pub hook: &'static str,
    /// The number of answered requests that reached this hook.
    pub requests: u64,
    /// `covered` if some guard ran in every request, `uncovered` if none ran in any, else `partly`.
    #[schemars(extend("enum" = ["covered", "partly", "uncovered"]))]
    pub state: &'static str,
    /// The guards that have this hook.
    pub guards: Vec<GuardRuns>,
}

/// The number of requests in which a guard ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GuardRuns {
    /// The id of the guard.
    pub id: String,
    /// The number of requests.
    pub requests: u64,
}

impl Snapshot {
    /// Returns the enabled guards that are not in audit mode, sorted by id.
    pub fn guards(&self) -> Vec<&Arc<Plugin>> {
        let is_guard = |plugin: &&Arc<Plugin>| {
            plugin.kind == Kind::Filter && plugin.security && plugin.enabled && !plugin.audited
        };
        let mut guards: Vec<&Arc<Plugin>> = self.plugins.values().filter(is_guard).collect();
        guards.sort_by(|a, b| a.id.cmp(&b.id));
        guards
    }

    /// Returns the cells of a row: the hooks that at least one guard has and that requests reached.
    pub fn coverage_cells(&self, row: &GuardCoverageRow) -> Vec<GuardCoverageCell> {
        let guards = self.guards();
        let cells = Hook::ALL.into_iter().filter_map(|hook| {
            let is_reached = match row.endpoint.as_str() {
                CHAT | "messages" | "responses" | "ollama" | "agents" => true,
                "outlet" => hook == Hook::Outlet,
                _ => hook == Hook::Inlet,
            };
            if !is_reached {
                return None;
            }
            let requests = match hook {
                Hook::Stream | Hook::StreamEnd => row.streamed,
                Hook::PreInvocation | Hook::PostInvocation => row.called,
                _ => row.answered,
            };
            let runs = |plugin: &&Arc<Plugin>| {
                let is_it = |(own, id, _): &&(String, String, u64)| own == hook.name() && **id == *plugin.id;
                let requests = row.runs.iter().find(is_it).map_or(0, |(.., count)| *count);
                GuardRuns { id: plugin.id.to_string(), requests }
            };
            let here = guards.iter().filter(|plugin| plugin.hooks().contains(&hook.name()));
            let guards: Vec<GuardRuns> = here.map(runs).collect();
            let state = match guards.iter().map(|guard| guard.requests).max()? {
                most if most >= requests => "covered",
                0 => "uncovered",
                _ => "partly",
            };
            (requests > 0).then(|| GuardCoverageCell { hook: hook.name(), requests, state, guards })
        });
        cells.collect()
    }

    /// Returns the coverage table.
    pub fn coverage_table(&self, rows: Vec<GuardCoverageRow>) -> GuardCoverageTable {
        let data = rows.into_iter().map(|row| TableRow {
            hooks: self.coverage_cells(&row),
            endpoint: row.endpoint,
            model: row.model,
            user: row.user,
            requests: row.requests,
            answered: row.answered,
        });
        let guards = self.guards().iter().map(|guard| guard.id.to_string()).collect();
        GuardCoverageTable { guards, data: data.collect() }
    }
}
