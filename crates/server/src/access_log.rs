//! The access log: one line for each request, written where its metrics end.

use crate::metrics::endpoints::OPERATIONS;
use crate::recording::Follower;
use axum::extract::Request;
use axum::http::{Method, Uri};
use std::time::Duration;
use tracing::{Level, enabled};
use valvehouse_core::metrics::RequestGuard;
use valvehouse_core::text::shortened;
use valvehouse_core::trace::{ACCESS, RequestScope, Totals};

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
    method: Method,
    uri: Uri,
    level: Level,
}

impl Answering {
    /// Starts a request at an endpoint.
    pub(super) fn begin(metrics: RequestGuard, endpoint: &str, request: &Request) -> Self {
        let path = request.uri().path();
        // Probes, scrapes and the files of the page say nothing about the use of the host.
        let is_noise = endpoint == OPERATIONS || path == "/" || path.starts_with("/page");
        let (is_logged, level) = match is_noise {
            true => (enabled!(target: ACCESS, Level::DEBUG), Level::DEBUG),
            false => (enabled!(target: ACCESS, Level::INFO), Level::INFO),
        };
        let line = || Line { method: request.method().clone(), uri: request.uri().clone(), level };
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
        if let Some(line) = self.line.take() {
            line.write(&self.metrics, &self.scope);
        }
    }
}

impl Line {
    /// Writes the line. It has names and numbers, and nothing of the conversation.
    fn write(self, metrics: &RequestGuard, scope: &RequestScope) {
        macro_rules! write_at {
            ($level:ident, $trace:ident, $totals:ident) => {
                tracing::$level!(
                    target: ACCESS,
                    method = self.method.as_str(),
                    path = shortened(self.uri.path().to_owned(), MAX_PATH),
                    status = metrics.status(),
                    user = $trace.map(|trace| &*trace.request.user).filter(|user| !user.is_empty()),
                    model = $trace.map(|trace| &*trace.request.model).filter(|model| !model.is_empty()),
                    provider = $totals.provider(),
                    key = $trace.and_then(|trace| trace.key()),
                    tokens_in = Some($totals.tokens[0]).filter(|count| *count > 0),
                    tokens_out = Some($totals.tokens[1]).filter(|count| *count > 0),
                    ms = milliseconds(metrics.elapsed()),
                    first_ms = $totals.first.map(milliseconds),
                    ended_by = $totals.ended_by.as_ref().map(|(plugin, _)| &**plugin),
                    outcome = $totals.ended_by.as_ref().map(|(_, word)| *word),
                    disconnected = (!metrics.is_whole()).then_some(true),
                    "request"
                )
            };
        }
        let trace = scope.trace();
        let totals = trace.map_or_else(Totals::default, |trace| trace.totals());
        // The level of a line is a constant of its place.
        scope.enter(|| match self.level {
            Level::DEBUG => write_at!(debug, trace, totals),
            _ => write_at!(info, trace, totals),
        });
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
