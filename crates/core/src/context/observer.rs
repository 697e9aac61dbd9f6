//! The notices that the observers of a turn receive while it runs.

use parking_lot::Mutex;
use std::ops::BitOr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;
use valvehouse_json::Json;

/// A notice about a step of a turn, sent once and in order. The values are live: copy those that outlive the
/// call.
#[derive(Debug, Clone)]
pub enum Notice {
    /// A model call starts.
    LlmStart {
        /// The messages sent to the model.
        messages: Json,
    },
    /// The model streamed text, after all filters.
    LlmToken {
        /// The text.
        text: String,
    },
    /// A model call returned, after all filters.
    LlmEnd {
        /// The answer, a `chat.completion`.
        response: Json,
    },
    /// A model call or a filter around it failed.
    LlmError {
        /// The error message.
        message: String,
    },
    /// A tool call starts.
    ToolStart {
        /// The call.
        call: ToolCalled,
    },
    /// A tool call returned.
    ToolEnd {
        /// The call.
        call: ToolCalled,
        /// The content of the tool's message to the model.
        result: String,
    },
    /// A tool call failed or was refused by a filter.
    ToolError {
        /// The call.
        call: ToolCalled,
        /// The error message.
        message: String,
    },
    /// A failed model or tool call is retried.
    Retry {
        /// The target: `provider mock` or `tool weather`.
        what: String,
        /// The number of the retry, from 1.
        attempt: u32,
        /// The maximum number of retries.
        most: u32,
        /// The error that caused the retry.
        error: String,
        /// The delay before the retry.
        delay: Duration,
    },
    /// A plugin emitted an event.
    Emitted {
        /// The event, `{type, data}`.
        event: Json,
    },
}

/// A tool call by a model.
#[derive(Debug, Clone)]
pub struct ToolCalled {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: Json,
    /// The tool's tags; empty for an unknown tool.
    pub tags: Vec<String>,
}

/// The kind of a [`Notice`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NoticeKind {
    /// A model call starts: [`Notice::LlmStart`].
    LlmStart,
    /// A model streamed text: [`Notice::LlmToken`].
    LlmToken,
    /// A model call returned: [`Notice::LlmEnd`].
    LlmEnd,
    /// A model call failed: [`Notice::LlmError`].
    LlmError,
    /// A tool call starts: [`Notice::ToolStart`].
    ToolStart,
    /// A tool call returned: [`Notice::ToolEnd`].
    ToolEnd,
    /// A tool call failed: [`Notice::ToolError`].
    ToolError,
    /// A failed call is retried: [`Notice::Retry`].
    Retry,
    /// A plugin emitted an event: [`Notice::Emitted`].
    Emitted,
}

/// A set of kinds of notices: `NoticeKind::ToolStart | NoticeKind::ToolEnd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticeKinds(u16);

impl NoticeKinds {
    /// All kinds.
    pub const ALL: Self = Self(u16::MAX);
    /// The kinds that need a model's answer or a tool's result as values. A turn with an observer of one of
    /// them is not passed through as bytes.
    pub const OF_CALLS: Self = Self(!(Self::of(NoticeKind::Retry).0 | Self::of(NoticeKind::Emitted).0));

    const fn of(kind: NoticeKind) -> Self {
        Self(1 << kind as u8)
    }

    /// Returns the kinds without one of them.
    #[must_use]
    pub fn without(self, kind: NoticeKind) -> Self {
        Self(self.0 & !Self::of(kind).0)
    }

    /// Returns `true` if the sets have a kind in common.
    pub fn intersects(self, others: impl Into<Self>) -> bool {
        self.0 & others.into().0 != 0
    }
}

impl From<NoticeKind> for NoticeKinds {
    fn from(kind: NoticeKind) -> Self {
        Self::of(kind)
    }
}

impl<T: Into<NoticeKinds>> BitOr<T> for NoticeKinds {
    type Output = Self;

    fn bitor(self, others: T) -> Self {
        Self(self.0 | others.into().0)
    }
}

impl BitOr for NoticeKind {
    type Output = NoticeKinds;

    fn bitor(self, other: Self) -> NoticeKinds {
        NoticeKinds::of(self) | other
    }
}

/// An observer of a turn. It runs on the turn's own task, so it must return quickly.
pub trait Observer: Send + Sync {
    /// Returns the kinds of notices that the observer receives. Notices that nobody receives are not built.
    fn kinds(&self) -> NoticeKinds {
        NoticeKinds::ALL
    }

    /// Handles a notice.
    fn notice(&self, notice: Notice);
}

/// A shared observer, of which the program keeps a handle.
impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn kinds(&self) -> NoticeKinds {
        (**self).kinds()
    }

    fn notice(&self, notice: Notice) {
        (**self).notice(notice);
    }
}

/// The observers of a turn.
#[derive(Default)]
pub(super) struct Observers {
    /// The kinds that any of them receives, so that a turn without observers takes no lock.
    kinds: AtomicU16,
    all: Mutex<Arc<Vec<Arc<dyn Observer>>>>,
}

impl Observers {
    pub(super) fn add(&self, observer: Arc<dyn Observer>) {
        self.kinds.fetch_or(observer.kinds().0, Relaxed);
        Arc::make_mut(&mut *self.all.lock()).push(observer);
    }

    pub(super) fn receive(&self, kinds: NoticeKinds) -> bool {
        self.kinds.load(Relaxed) & kinds.0 != 0
    }

    /// Sends a notice to the observers of its kind. They may start other turns, so no lock is held.
    pub(super) fn notice(&self, kind: NoticeKind, notice: Notice) {
        let observers = self.all.lock().clone();
        let mut receivers = observers.iter().filter(|observer| observer.kinds().intersects(kind)).peekable();
        while let Some(observer) = receivers.next() {
            if receivers.peek().is_none() {
                return observer.notice(notice);
            }
            observer.notice(notice.clone());
        }
    }
}
