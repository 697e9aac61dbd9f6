//! The access log: one line for each request, written where its metrics end.

use crate::metrics::endpoints::OPERATIONS;
use crate::recording::Follower;
use axum::extract::Request;
use axum::http::{Method, Uri};
use std::sync::Arc;
use std::time::Duration;
use tracing::{Level, enabled};
use valvehouse_core::metrics::RequestGuard;
use valvehouse_core::text::shortened;
use valvehouse_core::trace::{ACCESS, AccessLine, RequestScope, Totals};
use valvehouse_host::app::App;

/// The maximum length of a logged path, in characters.
const MAX_PATH: usize = 200;

/// A request in progress. It is counted, and logged when this value is dropped.
pub(super) struct Answering {
    metrics: RequestGuard,
    scope: RequestScope,
    /// The request's line; `None` if it is not logged.
    line: Option<Line>,
}

struct Line {
    app: Arc<App>,
    method: Method,
    uri: Uri,
    level: Level,
    /// Set if the page reads what it shows.
    is_of_page: bool,
}

impl Answering {
    /// Starts a request at an endpoint.
    pub(super) fn begin(app: &Arc<App>, endpoint: &'static str, request: &Request) -> Self {
        let path = request.uri().path();
        // Probes, scrapes and the files of the page say nothing about the use of the host.
        let is_noise = endpoint == OPERATIONS || path == "/" || path.starts_with("/page");
        let (is_logged, level) = match is_noise {
            true => (enabled!(target: ACCESS, Level::DEBUG), Level::DEBUG),
            false => (enabled!(target: ACCESS, Level::INFO), Level::INFO),
        };
        let metrics = app.endpoints.of(endpoint).begin();
        let is_same_site =
            || request.headers().get("sec-fetch-site").is_some_and(|site| site == "same-origin");
        let is_of_page = path.starts_with("/api/v1/") && request.method() == Method::GET && is_same_site();
        let line = || {
            let (method, uri) = (request.method().clone(), request.uri().clone());
            Line { app: app.clone(), method, uri, level, is_of_page }
        };
        Self { metrics, scope: RequestScope::default(), line: is_logged.then(line) }
    }

    /// Returns the scope in which the request runs.
    pub(super) fn scope(&self) -> RequestScope {
        self.scope.clone()
    }

    /// Records the status.
    pub(super) fn answers(&mut self, status: u16) {
        self.metrics.answers(status);
    }

    /// Counts the request in the usage if it was refused before it had a trace, at whose end others are counted.
    pub(super) fn count_refusal(&self, app: &App, endpoint: &str) {
        let status = self.metrics.status().filter(|status| *status >= 400);
        if let (Some(status), None) = (status, self.scope.trace()) {
            let model = known_model(app, &self.scope).unwrap_or("");
            let of = [self.scope.key().unwrap_or(""), model, endpoint];
            app.usage.count_refusal(of, status, self.metrics.elapsed());
        }
    }
}

impl Follower for Answering {
    fn scope(&self) -> Option<RequestScope> {
        Some(self.scope.clone())
    }

    fn streams(&mut self) {
        self.metrics.streams();
    }

    fn sends(&mut self) {
        self.metrics.sends();
    }

    fn done(mut self) {
        self.metrics.done();
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Some(mut line) = self.line.take() else { return };
        // The page reads again and again; only a failure says something about the use of the host.
        if line.is_of_page && self.metrics.status().is_some_and(|status| status < 400) {
            line.level = Level::DEBUG;
        }
        if line.level == Level::INFO || enabled!(target: ACCESS, Level::DEBUG) {
            line.write(&self.metrics, &self.scope);
        }
    }
}

impl Line {
    /// Writes the line.
    fn write(self, metrics: &RequestGuard, scope: &RequestScope) {
        let trace = scope.trace();
        let totals = trace.map_or_else(Totals::default, |trace| trace.totals());
        let path = self.uri.path();
        let short;
        let line = AccessLine {
            level: self.level,
            method: self.method.as_str(),
            path: match path.len() {
                ..=MAX_PATH => path,
                _ => {
                    short = shortened(path.to_owned(), MAX_PATH);
                    &short
                }
            },
            status: metrics.status(),
            user: trace.map(|trace| &*trace.request.user).filter(|user| !user.is_empty()),
            model: match trace {
                Some(trace) => Some(&*trace.request.model).filter(|model| !model.is_empty()),
                None => known_model(&self.app, scope),
            },
            provider: totals.provider(),
            key: scope.key(),
            tokens_in: Some(totals.tokens[0]).filter(|count| *count > 0),
            tokens_out: Some(totals.tokens[1]).filter(|count| *count > 0),
            ms: milliseconds(metrics.elapsed()),
            first_ms: totals.first.map(milliseconds),
            ended_by: totals.ended_by.as_ref().map(|(plugin, _)| &**plugin),
            outcome: totals.ended_by.as_ref().map(|(_, word)| *word),
            disconnected: (!metrics.is_whole()).then_some(true),
            request: trace.map(|trace| trace.id.as_str()),
        };
        match self.app.access_log.get() {
            Some(write) => write(&line),
            None => emit(&line),
        }
    }
}

/// Returns the model that the client of a refused request named, if it is a configured one.
fn known_model<'a>(app: &App, scope: &'a RequestScope) -> Option<&'a str> {
    let name = scope.named_model()?;
    app.host.snapshot().plan().model(name).is_some().then_some(name)
}

/// Emits a line as an event of `tracing`.
fn emit(line: &AccessLine<'_>) {
    macro_rules! emit_at {
        ($level:ident) => {
            tracing::$level!(
                target: ACCESS,
                method = line.method,
                path = line.path,
                status = line.status,
                user = line.user,
                model = line.model,
                provider = line.provider,
                key = line.key,
                tokens_in = line.tokens_in,
                tokens_out = line.tokens_out,
                ms = line.ms,
                first_ms = line.first_ms,
                ended_by = line.ended_by,
                outcome = line.outcome,
                disconnected = line.disconnected,
                request = line.request,
                "request"
            )
        };
    }
    // The level of an event is a constant of its place.
    match line.level {
        Level::DEBUG => emit_at!(debug),
        _ => emit_at!(info),
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
