//! The coverage table: the guards that ran in the requests of the last hour, by endpoint, model, user and hook.

use crate::plugin::Plugin;
use crate::snapshot::Snapshot;
use std::sync::Arc;
use valvehouse_core::filter::Hook;
use valvehouse_core::trace::GuardCoverageRow;
use valvehouse_json::Json;
use valvehouse_script::{CHAT, Kind};

/// A cell of the coverage table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardCoverageCell {
    /// The name of the hook.
    pub hook: &'static str,
    /// The number of answered requests that reached the hook.
    pub requests: u64,
    /// The guards that have this hook, each with the number of those requests in which it ran.
    pub guards: Vec<(String, u64)>,
}

impl GuardCoverageCell {
    /// Returns `covered` if some guard ran in every request, `uncovered` if none ran in any, else `partly`.
    pub fn state(&self) -> &'static str {
        match self.guards.iter().map(|(_, count)| *count).max() {
            Some(most) if most >= self.requests => "covered",
            None | Some(0) => "uncovered",
            Some(_) => "partly",
        }
    }
}

impl Snapshot {
    /// Returns the enabled guards, sorted by id.
    pub fn guards(&self) -> Vec<&Arc<Plugin>> {
        let is_guard =
            |plugin: &&Arc<Plugin>| plugin.kind == Kind::Filter && plugin.security && plugin.enabled;
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
            let runs = |id: &str| {
                let run = row.runs.iter().find(|(own, plugin, _)| own == hook.name() && plugin == id);
                run.map_or(0, |(.., count)| *count)
            };
            let guards: Vec<(String, u64)> = guards
                .iter()
                .filter(|plugin| plugin.hooks().contains(&hook.name()))
                .map(|plugin| (plugin.id.to_string(), runs(&plugin.id)))
                .collect();
            (requests > 0 && !guards.is_empty()).then(|| GuardCoverageCell {
                hook: hook.name(),
                requests,
                guards,
            })
        });
        cells.collect()
    }

    /// Returns the coverage table as `{guards, data}`. Each entry of `data` is `{endpoint, model, user,
    /// requests, answered, hooks}`, and each of `hooks` is `{hook, requests, state, guards: [{id,
    /// requests}]}`.
    pub fn coverage_table(&self, rows: &[GuardCoverageRow]) -> Json {
        let cell = |cell: GuardCoverageCell| {
            let guards = cell
                .guards
                .iter()
                .map(|(id, count)| Json::from([("id", id.as_str().into()), ("requests", (*count).into())]));
            Json::from([
                ("hook", cell.hook.into()),
                ("requests", cell.requests.into()),
                ("state", cell.state().into()),
                ("guards", guards.collect::<Vec<_>>().into()),
            ])
        };
        let data = rows.iter().map(|row| {
            let cells: Vec<Json> = self.coverage_cells(row).into_iter().map(cell).collect();
            Json::from([
                ("endpoint", row.endpoint.as_str().into()),
                ("model", row.model.as_str().into()),
                ("user", row.user.as_str().into()),
                ("requests", row.requests.into()),
                ("answered", row.answered.into()),
                ("hooks", cells.into()),
            ])
        });
        let guards: Vec<Json> = self.guards().iter().map(|guard| Json::from(&*guard.id)).collect();
        Json::from([("guards", guards.into()), ("data", data.collect::<Vec<_>>().into())])
    }
}
