//! Events on their way to those who listen beside the run.

use crate::callbacks::event::CallbackEvent;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use valvehouse_core::callback::{Callback, Listener};
use valvehouse_core::context::Turn;
use valvehouse_json::Json;

/// As many events wait; more are lost, since a run waits for nobody who listens.
const MAX_EVENTS: usize = 10_000;

/// As long the end of a run waits for those who still listen.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(5);

/// The events of one run, and the task that hands them on in order. It ends when this is dropped, after
/// the last of them.
pub(super) struct Queue {
    sender: mpsc::Sender<Message>,
    lost: AtomicU64,
}

enum Message {
    Event(CallbackEvent),
    /// Everything before was handed on.
    Mark(oneshot::Sender<()>),
}

/// One who listens, with its scratch map of the run.
pub(super) type Place = (Arc<dyn Listener>, Json);

impl Queue {
    /// Needs a runtime.
    pub(super) fn start(listeners: Vec<Place>, turn: Turn) -> Self {
        Self::with_room(MAX_EVENTS, listeners, turn)
    }

    pub(super) fn with_room(most: usize, listeners: Vec<Place>, turn: Turn) -> Self {
        let (sender, sent) = mpsc::channel(most);
        tokio::spawn(hand_on(sent, listeners, turn));
        Self { sender, lost: AtomicU64::new(0) }
    }

    /// Never waits.
    pub(super) fn push(&self, event: CallbackEvent) {
        if self.sender.try_send(Message::Event(event)).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Waits until everything so far was handed on, or for too long.
    pub(super) async fn drain(&self, longest: Duration, run: &str) {
        let all = async {
            let (mark, handed_on) = oneshot::channel();
            if self.sender.send(Message::Mark(mark)).await.is_ok() {
                // A task that is gone leaves nothing to wait for.
                let _ = handed_on.await;
            }
        };
        if timeout(longest, all).await.is_err() {
            let seconds = longest.as_secs_f64();
            tracing::warn!(run, "the callbacks of scripts are not done after {seconds} s; the run goes on");
        }
        let lost = self.lost.swap(0, Relaxed);
        if lost > 0 {
            tracing::warn!(run, "the callbacks of scripts are too slow: {lost} events were lost");
        }
    }
}

async fn hand_on(mut sent: mpsc::Receiver<Message>, listeners: Vec<Place>, turn: Turn) {
    while let Some(next) = sent.recv().await {
        match next {
            Message::Event(event) => {
                for (listener, state) in listeners.iter().filter(|(one, _)| one.hears(event.callback)) {
                    let heard = listener.hear(event.callback, event.to_json(), state.clone(), turn.clone());
                    if let Err(why) = heard.await {
                        failed(&**listener, event.callback, &why);
                    }
                }
            }
            // The one that waited may have gone on.
            Message::Mark(mark) => drop(mark.send(())),
        }
    }
}

fn failed(listener: &dyn Listener, callback: Callback, why: &str) {
    tracing::warn!(plugin = listener.name(), "{callback} failed: {why}");
}
