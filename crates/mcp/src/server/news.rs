//! Changes of the lists, for clients that follow them.

use super::caller::Caller;
use super::listing::{digest, tool};
use super::offers;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::broadcast::{self, error::RecvError};
use valvehouse_host::app::App;
use valvehouse_host::{Change, Report, Snapshot};

/// One change that clients hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    Tools,
    Prompts,
    Resources,
    Updated(String),
}

/// The lists of one caller, followed from now on.
pub(super) struct ListFollower {
    app: Arc<App>,
    caller: Caller,
    reports: broadcast::Receiver<Arc<Report>>,
    updates: broadcast::Receiver<String>,
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
    pub(super) fn begin(app: &Arc<App>, caller: Caller, updates: &broadcast::Sender<String>) -> Self {
        // Listens before it looks: a change in between is not missed.
        let (reports, updates) = (app.host.reports(), updates.subscribe());
        let known = Lists::of(&app.host.snapshot(), &caller);
        Self { app: app.clone(), caller, reports, updates, known }
    }

    /// Waits for the next changes. `subscribed` are the URIs whose updates are wanted.
    pub(super) async fn next(&mut self, subscribed: impl Fn() -> BTreeSet<String>) -> Vec<News> {
        loop {
            let news = tokio::select! {
                report = self.reports.recv() => match report {
                    Ok(report) => self.changed(Some(&report), &subscribed()),
                    Err(RecvError::Lagged(_)) => self.changed(None, &subscribed()),
                    Err(RecvError::Closed) => std::future::pending().await,
                },
                update = self.updates.recv() => match update {
                    Ok(uri) if subscribed().contains(&uri) => vec![News::Updated(uri)],
                    _ => Vec::new(),
                },
            };
            if !news.is_empty() {
                return news;
            }
        }
    }

    fn changed(&mut self, report: Option<&Report>, subscribed: &BTreeSet<String>) -> Vec<News> {
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
        // A resource may be another one when its script is.
        let functions = offers::resources(&snapshot, &self.caller);
        for uri in subscribed {
            let script = offers::reader(&functions, uri).and_then(|function| function.spec.module.clone());
            let is_new = |change: &Change| change.id().is_some_and(|id| script.as_deref() == Some(id));
            if report.is_none_or(|report| report.changes.iter().any(is_new)) && script.is_some() {
                news.push(News::Updated(uri.clone()));
            }
        }
        news
    }
}
