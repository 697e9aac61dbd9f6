//! Metrics of requests, by endpoint.

use super::spread::{Spread, SpreadSnapshot, counted};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

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
pub struct Doors(Vec<(&'static str, Arc<Door>)>);

impl Default for Doors {
    fn default() -> Self {
        Self(NAMES.iter().map(|name| (*name, Arc::default())).collect())
    }
}

impl Doors {
    /// Returns the metrics of an endpoint; for an unknown name, those of the last one.
    pub fn of(&self, name: &str) -> &Arc<Door> {
        let place = NAMES.iter().position(|known| *known == name);
        &self.0[place.unwrap_or(NAMES.len() - 1)].1
    }

    /// Returns the metrics of all endpoints with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Door)> {
        self.0.iter().map(|(name, door)| (*name, &**door))
    }
}

/// The metrics of one endpoint.
#[derive(Debug)]
pub struct Door {
    answered: [AtomicU64; CLASSES.len()],
    /// The responses that the client aborted.
    left: AtomicU64,
    running: AtomicU64,
    streams: AtomicU64,
    times: Spread,
    first: Spread,
}

impl Default for Door {
    fn default() -> Self {
        Self {
            answered: Default::default(),
            left: AtomicU64::new(0),
            running: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            times: Spread::of_work(),
            first: Spread::of_work(),
        }
    }
}

impl Door {
    /// Starts a request.
    pub fn begin(self: &Arc<Self>) -> RequestGuard {
        self.running.fetch_add(1, Relaxed);
        let (door, began) = (self.clone(), Instant::now());
        RequestGuard { door, began, status: None, is_stream: false, has_begun: false, is_whole: false }
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
    pub fn times(&self) -> SpreadSnapshot {
        self.times.read()
    }

    /// Returns the distribution of times from a request to the first byte of its response.
    pub fn first(&self) -> SpreadSnapshot {
        self.first.read()
    }
}

/// A request in progress, which ends when this value is dropped.
#[derive(Debug)]
pub struct RequestGuard {
    door: Arc<Door>,
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
        self.door.streams.fetch_add(1, Relaxed);
    }

    /// Records that bytes of the response are sent.
    pub fn sends(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.door.first.add(self.began.elapsed());
        }
    }

    /// Records that the response was sent completely.
    pub fn done(mut self) {
        self.sends();
        self.is_whole = true;
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let door = &self.door;
        door.running.fetch_sub(1, Relaxed);
        if self.is_stream {
            door.streams.fetch_sub(1, Relaxed);
        }
        let class = self.status.map_or(CLASSES.len() - 1, |status| usize::from(status / 100).clamp(1, 5) - 1);
        door.answered[class].fetch_add(1, Relaxed);
        if self.status.is_some() && !self.is_whole {
            door.left.fetch_add(1, Relaxed);
        }
        door.times.add(self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_by_its_status_and_by_whether_it_was_read() {
        let doors = Doors::default();
        let door = doors.of("chat");
        let mut stream = door.begin();
        stream.answers(200);
        stream.streams();
        stream.sends();
        assert_eq!((door.running(), door.streams()), (1, 1));
        drop(stream);
        let mut whole = door.begin();
        whole.answers(404);
        whole.done();
        drop(door.begin());
        assert_eq!(door.answered().map(|(_, count)| count), [0, 1, 0, 1, 0, 1]);
        assert_eq!((door.left(), door.running(), door.streams()), (1, 0, 0));
        assert_eq!((door.times().count, door.first().count), (3, 2));
    }

    #[test]
    fn an_unknown_door_is_the_last_one() {
        let doors = Doors::default();
        drop(doors.of("nowhere").begin());
        let used: Vec<&str> =
            doors.iter().filter(|(_, door)| door.times().count == 1).map(|(name, _)| name).collect();
        assert_eq!(used, ["none"]);
    }
}
