//! The routes of the Functions API.

use super::{drafts, function, grants, history, scripts, test_runs, valves};
use crate::api::{Callers, Routes, delete, get, post};
use axum::Extension;
use std::sync::Arc;
use valvehouse_host::access::OperatorRole::{Admin, Tune, Write};

/// The summary of the list, which has three paths.
const LIST: &str = "Lists all plugins without their text.";

/// Returns the routes. They require the operators' key, except those for the values of a user.
pub(crate) fn routes() -> Routes {
    plugins()
        .merge(switches())
        .merge(values())
        .merge(versions())
        .merge(approvals())
        .merge(tests())
        .merge(values_of_users())
}

/// Returns the routes of plugins and their texts.
fn plugins() -> Routes {
    Routes::with_details("Functions", Callers::Operators)
        .route("/api/v1/functions", get(LIST, function::list))
        .route("/api/v1/functions/", get(LIST, function::list))
        .route("/api/v1/functions/list", get(LIST, function::list))
        .route(
            "/api/v1/functions/export",
            get("Exports all plugins with their text, without secrets.", function::export),
        )
        .route(
            "/api/v1/functions/deleted",
            get("Lists plugins whose file was deleted, which a rollback restores.", history::deleted),
        )
        .route(
            "/api/v1/functions/create",
            post(
                Write,
                "Creates a plugin, which is live when the response arrives; rejected if it does not load.",
                scripts::create,
            )
            .conflicts()
            .unusable(),
        )
        .route(
            "/api/v1/functions/check",
            post(Write, "Returns the problems of a text with their fixes; nothing is stored.", drafts::check)
                .fails(404),
        )
        .route(
            "/api/v1/functions/complete",
            post(Write, "Returns the names that fit a position of a text; nothing runs.", drafts::complete),
        )
        .route("/api/v1/functions/id/{id}", get("Returns a plugin with its text.", function::show))
        .route(
            "/api/v1/functions/id/{id}/update",
            post(Write, "Replaces the text of a plugin; rejected if it does not load.", scripts::update)
                .conflicts()
                .unusable(),
        )
        .route(
            "/api/v1/functions/id/{id}/confirm",
            post(Admin, "Accepts a change that weakens a guard, or its removal.", scripts::confirm)
                .conflicts()
                .unusable(),
        )
        .route(
            "/api/v1/functions/id/{id}/adopt",
            post(
                Write,
                "Assigns the records of a removed plugin to the plugin with the same id, or deletes them.",
                scripts::adopt,
            )
            .conflicts(),
        )
        .route(
            "/api/v1/functions/id/{id}/release",
            post(Write, "Releases versions that were quarantined after a crash.", scripts::release)
                .conflicts(),
        )
        .route(
            "/api/v1/functions/id/{id}/delete",
            delete(Write, "Deletes the file of a plugin.", scripts::delete).conflicts().unusable(),
        )
}

/// Returns the routes of switches.
fn switches() -> Routes {
    Routes::with_details("Functions", Callers::Operators)
        .route(
            "/api/v1/functions/id/{id}/toggle",
            post(Tune, "Enables or disables a plugin.", scripts::toggle).guards_need_admin().conflicts(),
        )
        .route(
            "/api/v1/functions/id/{id}/toggle/global",
            post(
                Tune,
                "Runs a filter for every model, or only for those that list it.",
                scripts::toggle_global,
            )
            .guards_need_admin()
            .conflicts(),
        )
        .route(
            "/api/v1/functions/id/{id}/toggle/audit",
            post(Tune, "Puts a filter in audit mode, or ends it.", scripts::toggle_audit)
                .guards_need_admin()
                .conflicts(),
        )
}

/// Returns the routes of the values that operators set.
fn values() -> Routes {
    Routes::with_details("Functions", Callers::Operators)
        .route(
            "/api/v1/functions/id/{id}/valves",
            get("Returns the stored values of the plugin's valves with secrets masked.", valves::stored),
        )
        .route(
            "/api/v1/functions/id/{id}/valves/spec",
            get("Returns the plugin's valves as JSON Schema; null if it has none.", valves::spec),
        )
        .route(
            "/api/v1/functions/id/{id}/valves/effective",
            get("Returns the effective values with their sources.", valves::effective),
        )
        .route(
            "/api/v1/functions/id/{id}/valves/update",
            post(
                Tune,
                "Replaces all stored values of the plugin's valves; the next turn uses them.",
                valves::update,
            )
            .conflicts()
            .unusable(),
        )
}

/// Returns the routes of the versions of a plugin.
fn versions() -> Routes {
    Routes::with_details("Functions", Callers::Operators)
        .route(
            "/api/v1/functions/id/{id}/history",
            get("Lists the versions of a plugin, newest first.", history::list),
        )
        .route(
            "/api/v1/functions/id/{id}/history/{version}",
            get("Returns a version with its text, the plugin's valves and the differences.", history::show),
        )
        .route(
            "/api/v1/functions/id/{id}/rollback",
            post(Write, "Restores text, valves and switches of a version, byte for byte.", history::rollback)
                .guards_need_admin()
                .conflicts()
                .unusable(),
        )
}

/// Returns the routes of what plugins ask for.
fn approvals() -> Routes {
    Routes::with_details("Functions", Callers::Operators)
        .route(
            "/api/v1/functions/id/{id}/grants",
            get("Returns what a plugin asks for, and what it may use.", grants::show).conflicts().unusable(),
        )
        .route(
            "/api/v1/functions/id/{id}/grants/approve",
            post(
                Admin,
                "Grants a plugin what its text asks for, if it is the text that was shown.",
                grants::approve,
            )
            .conflicts()
            .unusable(),
        )
        .route(
            "/api/v1/functions/id/{id}/grants/revoke",
            post(
                Admin,
                "Revokes stored grants of a plugin; for a guard, with `?confirm=true`.",
                grants::revoke,
            )
            .conflicts()
            .unusable(),
        )
}

/// Returns the route that runs tests.
fn tests() -> Routes {
    let summary =
        "Runs the tests of a plugin on its script or on another text, without access to the outside.";
    Routes::with_details("Functions", Callers::Operators)
        .route("/api/v1/functions/id/{id}/test", post(Write, summary, test_runs::run).conflicts())
        .map(|router| router.layer(Extension(Arc::<test_runs::TestRuns>::default())))
}

/// Returns the routes of the values that users set.
fn values_of_users() -> Routes {
    Routes::with_details("Functions", Callers::Users)
        .route(
            "/api/v1/functions/id/{id}/valves/user",
            get("Returns the values that a user set.", valves::of_user),
        )
        .route(
            "/api/v1/functions/id/{id}/valves/user/spec",
            get("Returns the plugin's user valves as JSON Schema; null if it has none.", valves::user_spec),
        )
        .route(
            "/api/v1/functions/id/{id}/valves/user/update",
            post(Tune, "Replaces all values that a user set.", valves::update_user).conflicts().unusable(),
        )
}
