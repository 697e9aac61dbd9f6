//! The metrics of requests, by endpoint.

use super::families::Families;
use crate::{actions, openai};
use axum::extract::MatchedPath;
use valvehouse_core::metrics::EndpointMetricsMap;

/// The name of the endpoint for the operation of the host.
pub(crate) const OPERATIONS: &str = "operations";

/// The prefixes of routes with the names of their endpoints. The first match applies.
const ROUTES: [(&str, &str); 32] = [
    ("/v1/chat/completions", openai::chat::DOOR),
    ("/v1/messages", "messages"),
    ("/v1/responses", "responses"),
    ("/v1/conversations", "responses"),
    ("/v1/embeddings", "embeddings"),
    ("/v1/completions", "completions"),
    ("/v1/moderations", "moderations"),
    ("/v1/rerank", "rerank"),
    ("/v1/audio", "audio"),
    ("/v1/images", "images"),
    ("/v1/files", "files"),
    ("/v1/batches", "batches"),
    ("/openai/deployments", "azure"),
    ("/v1/realtime", "none"),
    ("/v1/models", "models"),
    ("/api/chat/actions", actions::DOOR),
    ("/v1/api/chat/actions", actions::DOOR),
    ("/api/v1/agents", "agents"),
    ("/api/v1/questions", "questions"),
    ("/api/v1/functions", "functions"),
    ("/api/v1/traces", "traces"),
    ("/api/v1/try", "traces"),
    ("/api/v1/events", "events"),
    ("/api/v1/session", "session"),
    ("/api/v1/", "page"),
    ("/page", "page"),
    ("/api/", "ollama"),
    ("/mcp", "mcp"),
    ("/livez", OPERATIONS),
    ("/readyz", OPERATIONS),
    ("/metrics", OPERATIONS),
    ("/openapi.json", OPERATIONS),
];

/// Returns the name of the endpoint of a route. It depends only on the matched route, so a client cannot
/// create names.
pub(crate) fn endpoint_of(route: Option<&MatchedPath>) -> &'static str {
    match route.map(MatchedPath::as_str) {
        Some("/") => "page",
        Some(route) => {
            let found = ROUTES.iter().find(|(begin, _)| route.starts_with(begin));
            // The routes of pipelines have no common prefix.
            found.map_or("pipelines", |(_, name)| *name)
        }
        None => "none",
    }
}

pub(super) fn collect(endpoints: &EndpointMetricsMap, families: &mut Families) {
    let used: Vec<_> =
        endpoints.iter().filter(|(_, endpoint)| endpoint.times().count + endpoint.running() > 0).collect();
    let mut requests = families.counter(
        "http_requests_total",
        "Completed requests by endpoint and status class; gone: the client disconnected before the response.",
    );
    for (name, endpoint) in &used {
        for (class, count) in endpoint.answered() {
            requests.add(&[("endpoint", name), ("status", class)], count as f64);
        }
    }
    let mut left = families.counter("http_responses_aborted_total", "Responses aborted by the client.");
    used.iter().for_each(|(name, endpoint)| left.add(&[("endpoint", name)], endpoint.left() as f64));
    let mut running = families.gauge("http_requests_running", "Requests in progress, including streams.");
    used.iter().for_each(|(name, endpoint)| running.add(&[("endpoint", name)], endpoint.running() as f64));
    let mut streams = families.gauge("http_streams_open", "Streamed responses in progress.");
    used.iter().for_each(|(name, endpoint)| streams.add(&[("endpoint", name)], endpoint.streams() as f64));
    let mut times = families.histogram(
        "http_request_duration_seconds",
        "Time from the request to the last byte of its response, in seconds.",
    );
    used.iter().for_each(|(name, endpoint)| times.spread(&[("endpoint", name)], &endpoint.times()));
    let mut first = families.histogram(
        "http_time_to_first_byte_seconds",
        "Time from the request to the first byte of its response body, in seconds.",
    );
    used.iter().for_each(|(name, endpoint)| first.spread(&[("endpoint", name)], &endpoint.first()));
}
