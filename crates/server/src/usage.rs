//! `GET /api/v1/usage`: what clients used, as JSON or CSV.

use crate::api::{Callers, List, Query, Routes, get};
use crate::reply::OpenAiError;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_host::app::App;
use valvehouse_host::usage::{self, UsageEntry};
use valvehouse_store::Dimension;

/// Returns the route.
pub(crate) fn routes() -> Routes {
    Routes::new("Usage", Callers::Operators).route(
        "/api/v1/usage",
        get("Returns what clients used, by period and group.", show)
            .returns::<List<UsageEntry>>()
            .media_types(&["text/csv"]),
    )
}

/// The query of a report of usage.
#[derive(Deserialize, JsonSchema)]
struct UsageParameters {
    /// The beginning: a moment in RFC 3339, a day in UTC, or a length before now; by default `24h`.
    #[schemars(example = &"7d")]
    from: Option<String>,
    /// The end, in the same forms; by default now.
    to: Option<String>,
    /// The properties by which the sums are grouped, of `key`, `user`, `model`, `provider` and `endpoint`; or `plugin`
    /// alone, for the requests that each filter refused.
    #[schemars(example = &"key,model")]
    by: Option<String>,
    /// The length of a period, such as `1h`; by default one period. Minutes are kept for a day, hours for 30 days,
    /// days for three years.
    #[schemars(example = &"1h")]
    step: Option<String>,
    /// Only requests for this model.
    model: Option<String>,
    /// Only requests that this provider answered.
    provider: Option<String>,
    /// `csv` returns a table as text.
    format: Option<String>,
}

async fn show(
    State(app): State<Arc<App>>,
    Query(parameters): Query<UsageParameters>,
) -> Result<Response, OpenAiError> {
    let UsageParameters { from, to, by, step, model, provider, format } = parameters;
    let asked = [&from, &to, &by, &step].map(|text| text.as_deref());
    let mut asked = usage::question(asked).map_err(|why| Error::invalid(why.to_string(), Some(why.part)))?;
    let of = [(Dimension::Model, model), (Dimension::Provider, provider)].into_iter();
    asked.of = of.filter_map(|(dimension, value)| Some((dimension, value?))).collect();
    if asked.by == [Dimension::Plugin] && !asked.of.is_empty() {
        let why =
            "cannot list refusals by plugin for a model or provider: they are counted by the filter alone";
        return Err(Error::invalid(why, Some("by")).into());
    }
    app.usage.write(app.host.store()).await;
    let entries = usage::entries(app.host.store(), &asked).await?;
    match format.as_deref() {
        None | Some("json") => Ok(List::reply(entries).into_response()),
        Some("csv") => {
            let mut response = csv(&entries, &asked.by).into_response();
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8"));
            Ok(response)
        }
        Some(_) => Err(Error::invalid("invalid format: expected `json` or `csv`", Some("format")).into()),
    }
}

/// Returns the entries as a table. A value that a spreadsheet would take for a formula is preceded by a quote.
fn csv(entries: &[UsageEntry], by: &[Dimension]) -> String {
    let quoted = |text: &str| {
        let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    };
    let mut lines = Vec::with_capacity(entries.len() + 1);
    let names = by.iter().map(|dimension| dimension.as_str());
    let counts = [
        "requests",
        "client_errors",
        "server_errors",
        "refusals",
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "reasoning_tokens",
        "cost",
        "mean_ms",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "first_ms",
        "plugin_ms",
        "model_ms",
    ];
    lines.push(["at"].into_iter().chain(names).chain(counts).collect::<Vec<_>>().join(","));
    for entry in entries {
        let whole = [
            entry.requests,
            entry.client_errors,
            entry.server_errors,
            entry.refusals,
            entry.prompt_tokens,
            entry.completion_tokens,
            entry.cached_tokens,
            entry.reasoning_tokens,
        ];
        let parts = [
            Some(entry.cost),
            entry.mean_ms,
            entry.p50_ms,
            entry.p95_ms,
            entry.p99_ms,
            entry.first_ms,
            entry.plugin_ms,
            entry.model_ms,
        ];
        let parts = parts.map(|part| part.map_or_else(String::new, |part| part.to_string()));
        let values = whole.map(|count| count.to_string()).into_iter().chain(parts);
        let by = entry.by.values().map(|value| quoted(value));
        lines.push([entry.at.to_string()].into_iter().chain(by).chain(values).collect::<Vec<_>>().join(","));
    }
    lines.join("\r\n") + "\r\n"
}
