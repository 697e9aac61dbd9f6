//! `GET /api/v1/events`: streams events until the client disconnects or this host stops.

use crate::api::EventStream;
use crate::auth;
use crate::page::PluginStats;
use crate::turn::events::{as_events, named_event};
use crate::turn::keep_alive::KeepAlive;
use axum::extract::State;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::{Interval, MissedTickBehavior, interval};
use valvehouse_core::trace::News;
use valvehouse_host::app::App;
use valvehouse_host::{Change, Report, traces};
use valvehouse_json::Json;

/// The interval at which changed metrics are sent.
const FIGURES: Duration = Duration::from_secs(2);
/// The time without an event after which a comment is sent, in milliseconds.
const KEEP_ALIVE_MS: u64 = 15_000;

/// Streams the start and end of requests, events that plugins emit in them, new generations and metrics. A
/// slow client receives `lost` with the number of missed events.
pub(super) async fn follow(State(app): State<Arc<App>>, parts: Parts) -> EventStream {
    let mut metrics = interval(FIGURES);
    metrics.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stopped = app.stopped();
    let feed = Feed {
        news: app.traces.news(),
        reports: app.host.reports(),
        metrics,
        view: ClientView::default(),
        parts,
        app,
    };
    let hello = stream::once(std::future::ready(Bytes::from_static(b": valvehouse events\n\n")));
    let events = stream::unfold(feed, |mut feed| async { Some((feed.next().await?, feed)) });
    let bytes = hello.chain(events).take_until(stopped);
    let mut response = Response::default();
    as_events(&mut response, KeepAlive::new(bytes.boxed(), KEEP_ALIVE_MS));
    EventStream(response)
}

struct Feed {
    app: Arc<App>,
    /// The request, whose operator may lose access.
    parts: Parts,
    news: Receiver<News>,
    reports: Receiver<Arc<Report>>,
    metrics: Interval,
    view: ClientView,
}

/// The event `metrics`.
#[derive(Serialize)]
struct Metrics {
    running: usize,
    plugins: BTreeMap<String, PluginStats>,
}

/// The metrics that the client received last.
#[derive(Default)]
struct ClientView {
    running: Option<usize>,
    /// The number of calls of each plugin.
    calls: HashMap<Arc<str>, u64>,
}

impl Feed {
    /// Returns the next event; `None` once the host has stopped or the operator has no access any more.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                news = self.news.recv() => return event_or_lag(news, |news| of_request(&self.app, news)),
                report = self.reports.recv() => return event_or_lag(report, |report| of_report(&report)),
                _ = self.metrics.tick() => {
                    auth::operator(&self.app, &self.parts).ok()?;
                    if let Some(metrics) = self.view.news(&self.app) {
                        return Some(named_event("metrics", &metrics));
                    }
                }
            }
        }
    }
}

fn event_or_lag<T>(result: Result<T, RecvError>, event_of: impl FnOnce(T) -> Bytes) -> Option<Bytes> {
    match result {
        Ok(news) => Some(event_of(news)),
        Err(RecvError::Lagged(missed)) => Some(named_event("lost", &Json::from([("missed", missed.into())]))),
        Err(RecvError::Closed) => None,
    }
}

fn of_request(app: &App, news: News) -> Bytes {
    match news {
        News::Begun(trace) => named_event("begun", &traces::summary(&app.host, &trace)),
        News::Ended(trace) => named_event("ended", &traces::summary(&app.host, &trace)),
        News::Emitted { trace, plugin, kind, event } => {
            let data = Json::from([
                ("trace", trace.into()),
                ("plugin", plugin.into()),
                ("type", kind.into()),
                ("event", event.into()),
            ]);
            named_event("emitted", &data)
        }
    }
}

fn of_report(report: &Report) -> Bytes {
    let change = |change: &Change| Json::from([("what", change.as_str().into()), ("id", change.id().into())]);
    let changes: Vec<Json> = report.changes.iter().map(change).collect();
    let data = Json::from([("generation", report.generation.into()), ("changes", changes.into())]);
    named_event("snapshot", &data)
}

impl ClientView {
    /// Returns the number of requests in progress and the plugins that were called since the last call;
    /// `None` if nothing changed.
    fn news(&mut self, app: &App) -> Option<Json> {
        let running = app.traces.running();
        let snapshot = app.host.snapshot();
        let mut plugins = BTreeMap::new();
        for plugin in snapshot.plugins.values() {
            let sum = plugin.sum();
            if self.calls.get(&plugin.id).copied().unwrap_or(0) != sum.calls {
                self.calls.insert(plugin.id.clone(), sum.calls);
                plugins.insert(plugin.id.to_string(), PluginStats::from(sum));
            }
        }
        if plugins.is_empty() && self.running == Some(running) {
            return None;
        }
        self.running = Some(running);
        Json::from_serialize(&Metrics { running, plugins }).ok()
    }
}
