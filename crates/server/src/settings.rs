//! `GET /api/v1/settings`: the effective settings with their origin.

use crate::api::{Callers, List, Reply, Routes, get};
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use valvehouse_config::{Effective, Origin, effective};
use valvehouse_host::app::App;

/// Returns the route.
pub(crate) fn routes() -> Routes {
    Routes::new("Operation", Callers::Operators)
        .route("/api/v1/settings", get("Lists the effective settings with their origin.", list))
}

/// An effective setting.
#[derive(Serialize, JsonSchema)]
struct SettingReport {
    /// The dotted key.
    key: String,
    /// The value as TOML with masked secrets; empty if there is none.
    value: String,
    #[schemars(extend("enum" = ["default", "file", "environment", "flag"]))]
    origin: &'static str,
    /// The file with line and column, or the name of the variable or flag; null for a default.
    place: Option<String>,
    /// The value that takes effect at the next start; null if it is in force.
    next: Option<String>,
    /// Set if changes take effect at the next start instead of at once.
    restart: bool,
    about: &'static str,
}

/// Handles `GET /api/v1/settings`.
async fn list(State(app): State<Arc<App>>) -> Reply<List<SettingReport>> {
    let started: HashMap<String, Effective> =
        effective(&app.config).into_iter().map(|one| (one.key.clone(), one)).collect();
    let latest = effective(&app.latest.lock());
    List::reply(latest.into_iter().map(|new| {
        match started.get(&new.key).filter(|old| new.restart && old.value != new.value) {
            Some(old) => report(old.clone(), Some(new.value)),
            None => report(new, None),
        }
    }))
}

fn report(
    Effective { key, value, origin, restart, about }: Effective,
    next: Option<String>,
) -> SettingReport {
    let (origin, place) = match origin {
        Origin::Default => ("default", None),
        Origin::File { file, line, column } => ("file", Some(format!("{file}:{line}:{column}"))),
        Origin::Env(name) => ("environment", Some(name)),
        Origin::Flag(key) => ("flag", Some(key)),
    };
    SettingReport { key, value, origin, place, next, restart, about }
}
