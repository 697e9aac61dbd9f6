//! The routes of traces.

use super::{dry_run, feed, list, replay};
use crate::api::{Callers, Routes, get, post, put};
use valvehouse_host::access::OperatorRole::{Tune, Write};

/// Returns the routes, which require the operators' key.
pub(crate) fn routes() -> Routes {
    Routes::new("Traces", Callers::Operators)
        .route("/api/v1/traces", get("Lists requests in progress and the last ones that ended.", list::all))
        .route("/api/v1/traces/contents", get("Lists the plugins whose values are recorded.", list::contents))
        .route(
            "/api/v1/traces/contents/{plugin}",
            put(Write, "Starts or stops recording the values of a plugin.", list::keep_contents),
        )
        .route("/api/v1/traces/{id}", get("Returns a request with its steps, lines and events.", list::one))
        .route(
            "/api/v1/traces/{id}/replay",
            post(Write, "Replays the steps of a plugin against its script or an edited one.", replay::replay)
                .conflicts()
                .unusable(),
        )
        .route(
            "/api/v1/try",
            post(
                Tune,
                "Runs a chat through the chain, or presses a button, and returns the steps of each hook.",
                dry_run::run,
            )
            .returns::<dry_run::DryRun>()
            .streams()
            .result("The answer with its trace. Streamed with `stream` and `accept: text/event-stream`: OpenAI's events and those of plugins.")
            .fails(404)
            .unusable(),
        )
        .route(
            "/api/v1/events",
            get("Streams events as they happen.", feed::follow)
                .result("Streams events: `snapshot`, `begun`, `ended`, `emitted`, `metrics` or `lost`."),
        )
}
