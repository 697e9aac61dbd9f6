//! Changes of the lists, for clients that follow them.

use super::caller::Caller;
use super::listing::{digest, tool};
use super::offers;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use valvehouse_core::tool::Tool;
use valvehouse_host::app::App;
use valvehouse_host::{Change, Report, ResourceSubscription, ResourceUpdate, Snapshot};

/// A change that clients are notified of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    Tools,
    Prompts,
    Resources,
    Updated(String),
}

/// The lists of a caller, whose changes are followed.
pub(super) struct ListFollower {
    app: Arc<App>,
    caller: Caller,
    reports: broadcast::Receiver<Arc<Report>>,
    updates: broadcast::Receiver<String>,
    /// The updates of mounted servers.
    remote_updates: broadcast::Receiver<ResourceUpdate>,
    /// The URIs of the subscribed resources.
    subscribed: watch::Receiver<BTreeSet<String>>,
    /// The subscriptions at mounted servers.
    held: BTreeMap<String, ResourceSubscription>,
    known: Lists,
}

#[derive(PartialEq, Eq)]
struct Lists {
    tools: String,
    prompts: String,
    resources: String,
}

impl Lists {
    fn of(snapshot: &Snapshot, caller: &Caller) -> Self {
        let tools: Vec<Value> = offers::listed_tools(snapshot, caller).iter().map(tool).collect();
        let prompts: Vec<Value> = offers::prompts(snapshot, caller)
            .iter()
            .map(|prompt| Value::from(&prompt.spec.metadata))
            .collect();
        let resources: Vec<Value> =
            offers::resources(snapshot, caller).iter().map(|one| Value::from(&one.spec.metadata)).collect();
        Self {
            tools: digest(tools.iter()),
            prompts: digest(prompts.iter()),
            resources: digest(resources.iter()),
        }
    }
}

impl ListFollower {
    /// Follows the lists, and the resources in `subscribed`, until that channel is closed.
    pub(super) fn begin(
        app: &Arc<App>,
        caller: Caller,
        updates: &broadcast::Sender<String>,
        subscribed: watch::Receiver<BTreeSet<String>>,
    ) -> Self {
        // Subscribes before reading, so that no change in between is missed.
        let (reports, updates) = (app.host.reports(), updates.subscribe());
        let remote_updates = app.subscriptions.updates();
        let known = Lists::of(&app.host.snapshot(), &caller);
        let held = BTreeMap::new();
        let mut following =
            Self { app: app.clone(), caller, reports, updates, remote_updates, subscribed, held, known };
        following.hold();
        following
    }

    /// Waits for the next changes; `None` at the end of the session.
    pub(super) async fn next(&mut self) -> Option<Vec<News>> {
        loop {
            let news = tokio::select! {
                report = self.reports.recv() => match report {
                    Ok(report) => self.changed(Some(&report)),
                    Err(RecvError::Lagged(_)) => self.changed(None),
                    Err(RecvError::Closed) => std::future::pending().await,
                },
                update = self.updates.recv() => match update {
                    Ok(uri) if self.subscribed.borrow().contains(&uri) => vec![News::Updated(uri)],
                    Err(RecvError::Lagged(_)) => self.all_updated(),
                    _ => Vec::new(),
                },
                update = self.remote_updates.recv() => match update {
                    Ok(update) if self.is_held(&update) => vec![News::Updated(update.uri.to_string())],
                    Err(RecvError::Lagged(_)) => self.all_updated(),
                    _ => Vec::new(),
                },
                changed = self.subscribed.changed() => {
                    changed.ok()?;
                    self.hold();
                    Vec::new()
                }
            };
            if !news.is_empty() {
                return Some(news);
            }
        }
    }

    /// Subscribes to the requested resources of mounted servers, and to no others; the owners change with the
    /// snapshot.
    fn hold(&mut self) {
        let requested = self.subscribed.borrow_and_update().clone();
        if requested.is_empty() && self.held.is_empty() {
            return;
        }
        let functions = offers::resources(&self.app.host.snapshot(), &self.caller);
        let mut before = std::mem::take(&mut self.held);
        for uri in requested {
            let Some(server) = offers::reader(&functions, &uri).and_then(|reader| server_of(&reader)) else {
                continue;
            };
            let held = before.remove(&uri).filter(|held| held.is_of(&server));
            match held.or_else(|| self.app.subscriptions.subscribe(&server, &uri)) {
                Some(held) => drop(self.held.insert(uri, held)),
                None => tracing::warn!(server, uri, "this server has too many subscriptions to resources"),
            }
        }
    }

    fn is_held(&self, update: &ResourceUpdate) -> bool {
        self.held.get(&*update.uri).is_some_and(|held| held.is_of(&update.server))
    }

    /// Returns an update of every subscribed resource, because some updates were missed.
    fn all_updated(&self) -> Vec<News> {
        self.subscribed.borrow().iter().cloned().map(News::Updated).collect()
    }

    fn changed(&mut self, report: Option<&Report>) -> Vec<News> {
        self.hold();
        let snapshot = self.app.host.snapshot();
        let now = Lists::of(&snapshot, &self.caller);
        let mut news = Vec::new();
        for (differs, one) in [
            (now.tools != self.known.tools, News::Tools),
            (now.prompts != self.known.prompts, News::Prompts),
            (now.resources != self.known.resources, News::Resources),
        ] {
            if differs {
                news.push(one);
            }
        }
        self.known = now;
        // A resource may change with its script.
        let functions = offers::resources(&snapshot, &self.caller);
        for uri in self.subscribed.borrow().iter() {
            let script = offers::reader(&functions, uri).and_then(|function| function.spec.module.clone());
            let is_new = |change: &Change| change.id().is_some_and(|id| script.as_deref() == Some(id));
            if report.is_none_or(|report| report.changes.iter().any(is_new)) && script.is_some() {
                news.push(News::Updated(uri.clone()));
            }
        }
        news
    }
}

/// Returns the mounted server whose resources a function reads.
fn server_of(reader: &Tool) -> Option<String> {
    reader.spec.metadata.get("mcp")?.text("server").map(String::from)
}
