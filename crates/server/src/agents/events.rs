//! `GET /api/v1/agents/runs/{run}/events`: the events of a run, from its first stored step to its end.

use super::runs::RunPath;
use crate::api::{EventStream, Path};
use crate::reply::OpenAiError;
use crate::turn::events::{as_events, named_event};
use crate::turn::keep_alive::KeepAlive;
use axum::extract::State;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};
use valvehouse_agent::{checkpoint_to_json, run_to_json, standing};
use valvehouse_core::error::Error;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_store::Run;

/// The interval at which the store is polled, because another process may have continued the run.
const ELSEWHERE: Duration = Duration::from_secs(1);
/// The maximum number of a conversation's newest checkpoints that are searched for the steps of the run.
const STEPS: u64 = 1000;

/// Streams the steps of a run, the changes of its status, its questions and its end.
pub(super) async fn follow(
    State(app): State<Arc<App>>,
    Path(RunPath { run: id }): Path<RunPath>,
) -> Result<EventStream, OpenAiError> {
    // The subscription starts first, so that no change is missed.
    let moved = app.runs.moved();
    let run = app.runs.run(&id).await?;
    let keep_alive_ms = app.config.server.keep_alive_ms;
    let stopped = app.stopped();
    let following = Following { app, run, moved, view: ClientView::default() };
    let bytes = stream::unfold(Some(following), |following| async { following?.next().await });
    let bytes = bytes.take_until(stopped);
    let mut response = Response::default();
    as_events(&mut response, KeepAlive::new(bytes.boxed(), keep_alive_ms));
    Ok(EventStream(response))
}

struct Following {
    app: Arc<App>,
    run: Run,
    moved: broadcast::Receiver<Arc<str>>,
    view: ClientView,
}

/// The last state of a run that the client received.
#[derive(Default)]
struct ClientView {
    /// The number of the latest step.
    step: u64,
    status: Option<&'static str>,
    pending: Json,
}

impl Following {
    /// Returns the next events of a run and the follower of the rest; `None` as the follower once the run has
    /// ended.
    async fn next(mut self) -> Option<(Bytes, Option<Self>)> {
        loop {
            match self.news().await {
                Ok(news) if is_over(&self.run) => {
                    return Some(([news, self.end().await].concat().into(), None));
                }
                Ok(news) if news.is_empty() => self.moves().await,
                Ok(news) => return Some((news, Some(self))),
                Err(error) => return Some((self.failed(&error), None)),
            }
        }
    }

    /// Waits until the run may have changed.
    async fn moves(&mut self) {
        let id = self.run.id.clone();
        let change = async {
            loop {
                match self.moved.recv().await {
                    Ok(moved) if *moved != *id => {}
                    // Notifications were missed, perhaps one of this run.
                    Ok(_) | Err(RecvError::Lagged(_)) => return,
                    // The host is stopping.
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        // The store is read after a timeout as well.
        let _ = tokio::time::timeout(ELSEWHERE, change).await;
    }

    /// Returns the events for changes in the store that the client has not received.
    async fn news(&mut self) -> Result<Bytes, Error> {
        self.run = self.app.runs.run(&self.run.id).await?;
        let mut out = BytesMut::new();
        if self.run.step > self.view.step {
            let store = self.app.runs.store();
            let steps = store.checkpoints(&self.run.conversation, STEPS).await?;
            // Later steps are sent with the next state of the run.
            let is_new = |step: u64| step > self.view.step && step <= self.run.step;
            for step in steps.iter().rev().filter(|step| step.run == self.run.id && is_new(step.step)) {
                out.extend_from_slice(&named_event("step", &checkpoint_to_json(step)));
            }
            self.view.step = self.run.step;
        }
        let status = standing(&self.run);
        let summary = run_to_json(&self.run, "");
        if self.view.status.replace(status) != Some(status) {
            let news = [("status", status.into()), ("error", summary.field("error"))];
            out.extend_from_slice(&named_event("status", &Json::from(news)));
        }
        let pending = summary.field("pending_action");
        if pending != self.view.pending {
            if !pending.is_null() {
                out.extend_from_slice(&named_event("pending_action", &pending));
            }
            self.view.pending = pending;
        }
        Ok(out.freeze())
    }

    /// Returns the last event: the run with its agent.
    async fn end(&self) -> Bytes {
        match self.app.runs.conversation(&self.run.conversation).await {
            Ok(conversation) => named_event("end", &run_to_json(&self.run, &conversation.agent)),
            Err(error) => self.failed(&error),
        }
    }

    /// Returns the last event of a run that can no longer be followed.
    fn failed(&self, error: &Error) -> Bytes {
        tracing::warn!(run = self.run.id, "cannot follow a run: {error}");
        named_event("error", &crate::reply::body(error))
    }
}

/// Returns `true` if a run has ended. A failed run can only continue with another request.
fn is_over(run: &Run) -> bool {
    matches!(standing(run), "done" | "failed" | "cancelled")
}
