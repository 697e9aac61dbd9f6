//! The resources that a plugin may reach beyond its turn.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use valvehouse_core::context::Turn;
use valvehouse_core::fault::Fault;
use valvehouse_json::Json;
use valvehouse_net::Web;
use valvehouse_os::{Folders, Programs, Variables};
use valvehouse_store::{self as store, Kv};

/// The time that a script is told, in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(crate) enum Clock {
    /// That of the machine.
    #[default]
    Real,
    /// One that a test sets: it stands still between.
    Set(Arc<SetClock>),
}

/// A clock that stands still until it is set.
#[derive(Debug)]
pub(crate) struct SetClock {
    pub(crate) now: AtomicI64,
    /// The time when the running turn began.
    pub(crate) began: AtomicI64,
}

impl Clock {
    pub(crate) fn now_ms(&self) -> i64 {
        match self {
            Self::Real => store::now(),
            Self::Set(clock) => clock.now.load(Relaxed),
        }
    }

    /// Lets time pass at once where the clock stands still; returns `false` where one has to wait for it.
    pub(crate) fn pass(&self, ms: i64) -> bool {
        match self {
            Self::Real => false,
            Self::Set(clock) => {
                clock.now.fetch_add(ms, Relaxed);
                true
            }
        }
    }

    /// Milliseconds since a turn began.
    pub(crate) fn elapsed_ms(&self, turn: &Turn) -> i64 {
        match self {
            Self::Real => i64::try_from(turn.started().elapsed().as_millis()).unwrap_or(i64::MAX),
            Self::Set(clock) => clock.now.load(Relaxed) - clock.began.load(Relaxed),
        }
    }
}

/// Asks models of this host in the name of scripts.
pub trait Models: Send + Sync + std::fmt::Debug {
    /// One chat through the filters of its model, without those of the plugin that asks. The answer
    /// is `content tool_calls finish_reason usage model id`.
    fn chat(&self, plugin: String, request: Json, turn: Turn) -> BoxFuture<'static, Result<Json, Fault>>;

    /// The same, read as it comes: the events of the stream.
    fn stream(&self, plugin: String, request: Json, turn: Turn) -> BoxStream<'static, Result<Json, Fault>>;
}

/// The resources of one plugin. Each refuses uses that were not granted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    /// The clock that it sees.
    pub(crate) clock: Clock,
    /// Maps that last.
    pub(crate) kv: Option<Arc<Kv>>,
    /// Models of this host.
    pub(crate) models: Option<Arc<dyn Models>>,
    /// Other hosts.
    pub(crate) web: Web,
    /// The files in granted folders.
    pub(crate) folders: Folders,
    /// Other programs.
    pub(crate) programs: Programs,
    /// Environment variables.
    pub(crate) variables: Variables,
}
