//! Metrics of requests, by endpoint.

use super::histogram::{Histogram, HistogramSnapshot, counted};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The status classes of responses; `gone` if the client disconnected before there was a status.
pub const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "gone"];

/// The names of all endpoints; the last one counts requests that belong to no other.
const NAMES: [&str; 26] = [
    "chat",
    "messages",
    "responses",
    "embeddings",
    "completions",
    "moderations",
    "rerank",
    "audio",
    "images",
    "files",
    "batches",
    "azure",
    "ollama",
    "models",
    "agents",
    "actions",
    "questions",
    "functions",
    "traces",
    "events",
    "session",
    "page",
    "operations",
    "pipelines",
    "mcp",
    "none",
];

/// The metrics of all endpoints.
#[derive(Debug)]
pub struct EndpointMetricsMap(Vec<(&'static str, Arc<EndpointMetrics>)>);

impl Default for EndpointMetricsMap {
    fn default() -> Self {
        Self(NAMES.iter().map(|name| (*name, Arc::default())).collect())
    }
}

impl EndpointMetricsMap {
    /// Returns the metrics of an endpoint; for an unknown name, those of the last one.
    pub fn of(&self, name: &str) -> &Arc<EndpointMetrics> {
        let place = NAMES.iter().position(|known| *known == name);
        &self.0[place.unwrap_or(NAMES.len() - 1)].1
    }

    /// Returns the metrics of all endpoints with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &EndpointMetrics)> {
        self.0.iter().map(|(name, endpoint)| (*name, &**endpoint))
    }
}

/// The metrics of one endpoint.
#[derive(Debug)]
pub struct EndpointMetrics {
    answered: [AtomicU64; CLASSES.len()],
    /// The responses that the client aborted.
    left: AtomicU64,
    running: AtomicU64,
    streams: AtomicU64,
    times: Histogram,
    first: Histogram,
}

impl Default for EndpointMetrics {
    fn default() -> Self {
        Self {
            answered: Default::default(),
            left: AtomicU64::new(0),
            running: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            times: Histogram::of_work(),
            first: Histogram::of_work(),
        }
    }
}

impl EndpointMetrics {
    /// Starts a request.
    pub fn begin(self: &Arc<Self>) -> RequestGuard {
        self.running.fetch_add(1, Relaxed);
        let (endpoint, began) = (self.clone(), Instant::now());
        RequestGuard { endpoint, began, status: None, is_stream: false, has_begun: false, is_whole: false }
    }

    /// Returns the number of requests by the class of their status.
    pub fn answered(&self) -> [(&'static str, u64); CLASSES.len()] {
        let counts = counted(&self.answered);
        std::array::from_fn(|place| (CLASSES[place], counts[place]))
    }

    /// Returns the number of responses aborted by the client.
    pub fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }

    /// Returns the number of requests in progress, including streams.
    pub fn running(&self) -> u64 {
        self.running.load(Relaxed)
    }

    /// Returns the number of streams in progress.
    pub fn streams(&self) -> u64 {
        self.streams.load(Relaxed)
    }

    /// Returns the distribution of times from a request to the end of its response.
    pub fn times(&self) -> HistogramSnapshot {
        self.times.read()
    }

    /// Returns the distribution of times from a request to the first byte of its response.
    pub fn first(&self) -> HistogramSnapshot {
        self.first.read()
    }
}

/// A request in progress, which ends when this value is dropped.
#[derive(Debug)]
pub struct RequestGuard {
    endpoint: Arc<EndpointMetrics>,
    began: Instant,
    status: Option<u16>,
    is_stream: bool,
    has_begun: bool,
    is_whole: bool,
}

impl RequestGuard {
    /// Records the status.
    pub fn answers(&mut self, status: u16) {
        self.status = Some(status);
    }

    /// Records that the response is streamed.
    pub fn streams(&mut self) {
        self.is_stream = true;
        self.endpoint.streams.fetch_add(1, Relaxed);
    }

    /// Records that bytes of the response are sent.
    pub fn sends(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.endpoint.first.add(self.began.elapsed());
        }
    }

    /// Records that the response was sent completely.
    pub fn done(&mut self) {
        self.sends();
        self.is_whole = true;
    }

    /// Returns the status; `None` if there was none yet.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Returns `true` if the response was sent completely.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the time since the start of the request.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let endpoint = &self.endpoint;
        endpoint.running.fetch_sub(1, Relaxed);
        if self.is_stream {
            endpoint.streams.fetch_sub(1, Relaxed);
        }
        let class = self.status.map_or(CLASSES.len() - 1, |status| usize::from(status / 100).clamp(1, 5) - 1);
        endpoint.answered[class].fetch_add(1, Relaxed);
        if self.status.is_some() && !self.is_whole {
            endpoint.left.fetch_add(1, Relaxed);
        }
        endpoint.times.add(self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_by_status_and_by_whether_the_client_read_the_response() {
        let endpoints = EndpointMetricsMap::default();
        let endpoint = endpoints.of("chat");
        let mut stream = endpoint.begin();
        stream.answers(200);
        stream.streams();
        stream.sends();
        assert_eq!((endpoint.running(), endpoint.streams()), (1, 1));
        drop(stream);
        let mut whole = endpoint.begin();
        whole.answers(404);
        whole.done();
        drop(whole);
        drop(endpoint.begin());
        assert_eq!(endpoint.answered().map(|(_, count)| count), [0, 1, 0, 1, 0, 1]);
        assert_eq!((endpoint.left(), endpoint.running(), endpoint.streams()), (1, 0, 0));
        assert_eq!((endpoint.times().count, endpoint.first().count), (3, 2));
    }

    #[test]
    fn an_unknown_endpoint_counts_as_none() {
        let endpoints = EndpointMetricsMap::default();
        drop(endpoints.of("nowhere").begin());
        let used: Vec<&str> = endpoints
            .iter()
            .filter(|(_, endpoint)| endpoint.times().count == 1)
            .map(|(name, _)| name)
            .collect();
        assert_eq!(used, ["none"]);
    }
}
