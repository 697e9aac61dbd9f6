//! The exporter, which sends traces in batches and metrics periodically.

use super::metrics::ModelMetrics;
use super::span;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, error::RecvError, error::TryRecvError};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};
use url::Url;
use valvehouse_config::{OtlpSettings, Secret};
use valvehouse_core::error::Error;
use valvehouse_core::trace::{News, Trace};
use valvehouse_json::Json;
use valvehouse_net::{Client, HttpCall};

/// The interval at which traces are sent.
const EVERY: Duration = Duration::from_secs(1);
/// The interval at which metrics are sent.
const METRICS_EVERY: Duration = Duration::from_secs(15);
/// The time limit of a request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of traces in a batch.
const BATCH: usize = 128;
/// The maximum number of traces that wait for an unreachable collector; the oldest are dropped first.
const WAITING: usize = 1_000;

/// Sends traces and metrics to a collector.
pub struct Exporter {
    client: Client,
    traces: Url,
    /// The place of metrics; `None` after the collector has rejected them.
    metrics: Option<Url>,
    headers: Vec<(String, Secret)>,
    resource: Json,
    waiting: VecDeque<Arc<Trace>>,
    models: ModelMetrics,
    /// `true` if the last batch could not be sent.
    is_away: bool,
}

/// The result of sending a batch.
enum Outcome {
    Yes,
    /// The batch was rejected; the text is the reason.
    Never(String),
    /// The batch can be sent again later; the text is the reason.
    Later(String),
}

impl Exporter {
    /// Creates an exporter to a collector with these settings.
    ///
    /// # Errors
    /// Returns a text that names an unusable setting.
    pub(crate) fn new(endpoint: &Url, settings: &OtlpSettings) -> Result<Self, String> {
        let place = |signal: &str| {
            let mut url = endpoint.clone();
            match url.path_segments_mut() {
                Ok(mut path) => drop(path.pop_if_empty().extend(["v1", signal])),
                Err(()) => {
                    return Err(format!("invalid otlp.endpoint {endpoint}: expected the URL of a collector"));
                }
            }
            Ok(url)
        };
        let (traces, metrics) = (place("traces")?, Some(place("metrics")?));
        let read = |(name, value): (&String, &valvehouse_config::SecretSource)| match value.read() {
            Ok(value) => Ok((name.clone(), value)),
            Err(error) => Err(format!("otlp.headers.{name}: {error}")),
        };
        let headers = settings.headers.iter().map(read).collect::<Result<_, _>>()?;
        let resource = span::attributes([
            ("service.name", settings.service.as_str().into()),
            ("service.version", env!("CARGO_PKG_VERSION").into()),
        ]);
        let client = Client::new().map_err(|error| error.to_string())?;
        let (waiting, models) = (VecDeque::new(), ModelMetrics::default());
        Ok(Self { client, traces, metrics, headers, resource, waiting, models, is_away: false })
    }

    /// Sends the traces that end from now on, and the metrics, until `closing` resolves, then the rest.
    pub async fn run(mut self, mut news: Receiver<News>, mut closing: oneshot::Receiver<()>) {
        let mut every = interval(EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut metrics_every = interval_at(Instant::now() + METRICS_EVERY, METRICS_EVERY);
        metrics_every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = news.recv() => match event {
                    Ok(event) => self.take(event),
                    Err(RecvError::Lagged(missed)) => tracing::warn!("{missed} request events were not exported"),
                    Err(RecvError::Closed) => break,
                },
                _ = every.tick() => self.send().await,
                _ = metrics_every.tick() => self.send_metrics().await,
                // A dropped sender means the same as a message.
                _ = &mut closing => break,
            }
        }
        loop {
            match news.try_recv() {
                Ok(event) => self.take(event),
                Err(TryRecvError::Lagged(_)) => {}
                Err(_) => break,
            }
        }
        self.send().await;
        self.send_metrics().await;
    }

    fn take(&mut self, news: News) {
        let News::Ended(trace) = news else { return };
        if self.metrics.is_some() {
            self.models.count(&trace);
        }
        if self.waiting.len() >= WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(trace);
    }

    async fn send(&mut self) {
        while !self.waiting.is_empty() {
            let batch: Vec<Arc<Trace>> = self.waiting.iter().take(BATCH).cloned().collect();
            let spans: Vec<Json> = batch.iter().flat_map(|trace| span::of(trace)).collect();
            let taken =
                self.deliver(&self.traces, ["resourceSpans", "scopeSpans", "spans"], spans.into()).await;
            if let (Outcome::Later(why) | Outcome::Never(why), false) = (&taken, self.is_away) {
                tracing::warn!("cannot send traces to {}: {why}", self.traces);
            }
            self.is_away = !matches!(taken, Outcome::Yes);
            if let Outcome::Later(_) = taken {
                return;
            }
            self.waiting.drain(..batch.len());
        }
    }

    /// Sends the metrics since the start. What cannot be sent is part of the next ones.
    async fn send_metrics(&mut self) {
        let (Some(url), Some(metrics)) = (&self.metrics, self.models.to_json()) else { return };
        let taken = self.deliver(url, ["resourceMetrics", "scopeMetrics", "metrics"], metrics).await;
        if let Outcome::Never(why) = taken {
            tracing::warn!("metrics are not sent any more, because {url} rejects them: {why}");
            self.metrics = None;
        }
    }

    async fn deliver(&self, url: &Url, fields: [&'static str; 3], contents: Json) -> Outcome {
        let bytes = match self.body(fields, contents).encode() {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) => return Outcome::Never(error.to_string()),
        };
        let call = HttpCall::post(url.clone(), bytes).header("content-type", "application/json");
        let call = self.headers.iter().fold(call, |call, (name, value)| call.secret_header(name, value));
        let status = match self.client.send(call.within(TIMEOUT)).await {
            Ok(response) => response.status,
            Err(Error::Provider { message, .. } | Error::Unanswered { message, .. }) => {
                return Outcome::Later(message.to_string());
            }
            Err(error) => return Outcome::Later(error.to_string()),
        };
        match status {
            200..=299 => Outcome::Yes,
            429 | 500..=599 => Outcome::Later(format!("status {status}")),
            _ => Outcome::Never(format!("status {status}")),
        }
    }

    fn body(&self, [resources, scopes, field]: [&'static str; 3], contents: Json) -> Json {
        let scope = [("name", "valvehouse".into()), ("version", env!("CARGO_PKG_VERSION").into())];
        let scope = Json::from([("scope", Json::from(scope)), (field, contents)]);
        let resource = Json::from([("attributes", self.resource.deep_clone())]);
        let all = Json::from([("resource", resource), (scopes, vec![scope].into())]);
        Json::from([(resources, vec![all].into())])
    }
}
