//! Subscriptions at an MCP server to the resources that clients of this host subscribed to.

use super::link::{Link, Remote, is_stateless};
use rmcp::model::{ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams};
use rmcp::service::{ServiceError, Subscription};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_host::ResourceSubscriptions;

/// The time limit for a response of the server.
const ANSWER: Duration = Duration::from_secs(30);
/// The time for which changes of subscriptions are collected before they are sent.
const COLLECTING: Duration = Duration::from_millis(20);
/// The initial and the maximum delay before an interrupted stream is opened again; random jitter at most
/// doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Subscribes at a connected server to the resources that clients subscribed to, until the connection ends.
/// Each new connection starts without subscriptions.
pub(super) async fn follow_resources(remote: Remote, link: Arc<Link>) {
    let Some(all) = &link.subscriptions else { return };
    let info = remote.peer_info();
    let resources = info.as_ref().and_then(|info| info.capabilities.resources.as_ref());
    if resources.is_none_or(|resources| resources.subscribe != Some(true)) {
        return;
    }
    match is_stateless(&remote) {
        true => by_stream(&remote, &link, all).await,
        false => one_by_one(&remote, &link, all).await,
    }
}

/// Subscribes at a server with sessions, whose updates are passed to the client handler.
async fn one_by_one(remote: &Remote, link: &Link, all: &ResourceSubscriptions) {
    let server = &link.server.name;
    let mut changes = all.changes();
    let mut held = BTreeSet::new();
    loop {
        changes.borrow_and_update();
        let subscribed = all.subscribed(server);
        for uri in subscribed.difference(&held) {
            let request = remote.subscribe(SubscribeRequestParams::new(uri.clone()));
            match in_time(request).await {
                // A change before the subscription may have been missed.
                Ok(()) => all.updated(server, uri),
                Err(why) => {
                    let why = link.showable(why);
                    tracing::warn!(server, uri, "cannot subscribe to a resource: {why}");
                }
            }
        }
        for uri in held.difference(&subscribed) {
            if let Err(why) = in_time(remote.unsubscribe(UnsubscribeRequestParams::new(uri.clone()))).await {
                tracing::debug!(server, uri, "cannot unsubscribe from a resource: {why}");
            }
        }
        held = subscribed;
        if changes.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(COLLECTING).await;
    }
}

async fn in_time<T>(request: impl Future<Output = Result<T, ServiceError>>) -> Result<T, String> {
    match tokio::time::timeout(ANSWER, request).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("it did not answer within {} s", ANSWER.as_secs())),
    }
}

/// Subscribes at a server without sessions: one stream has all updates, and is replaced when the resources
/// change.
async fn by_stream(remote: &Remote, link: &Link, all: &ResourceSubscriptions) {
    let server = &link.server.name;
    let mut changes = all.changes();
    let mut held = BTreeSet::new();
    let mut stream: Option<Subscription> = None;
    let mut pause = FIRST_PAUSE;
    loop {
        changes.borrow_and_update();
        let subscribed = all.subscribed(server);
        if subscribed != held {
            // The new stream is opened before the old one ends.
            let next = opened(remote, link, &subscribed).await;
            if let Some(mut old) = std::mem::replace(&mut stream, next)
                && let Err(error) = old.cancel().await
            {
                tracing::debug!(server, "cannot close a stream of updates: {error}");
            }
            if stream.is_some() {
                // A change before the subscription may have been missed.
                subscribed.difference(&held).for_each(|uri| all.updated(server, uri));
                pause = FIRST_PAUSE;
            }
            held = subscribed;
        }
        let is_missing = stream.is_none() && !held.is_empty();
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
                tokio::time::sleep(COLLECTING).await;
            }
            news = next(&mut stream) => match news {
                Some(ServerNotification::ResourceUpdatedNotification(update)) => {
                    all.updated(server, &update.params.uri);
                }
                Some(_) => {}
                None => stream = None,
            },
            () = tokio::time::sleep(pause + pause.mul_f64(fastrand::f64())), if is_missing => {
                pause = (pause * 2).min(MAX_PAUSE);
                held.clear();
            }
        }
    }
}

/// Opens a stream of updates of these resources; `None` if there are none, or the server has no such stream.
async fn opened(remote: &Remote, link: &Link, uris: &BTreeSet<String>) -> Option<Subscription> {
    if uris.is_empty() {
        return None;
    }
    let filter = SubscriptionFilter::builder().resource_subscriptions(uris.iter().cloned()).build();
    match in_time(remote.listen(filter)).await {
        Ok(stream) => Some(stream),
        Err(why) => {
            let why = link.showable(why);
            tracing::warn!(server = link.server.name, "cannot subscribe to resources: {why}");
            None
        }
    }
}

/// Returns the next message of a stream, or `None` at its end. Without a stream it never returns.
async fn next(stream: &mut Option<Subscription>) -> Option<ServerNotification> {
    match stream {
        Some(stream) => stream.next().await.ok().flatten(),
        None => std::future::pending().await,
    }
}
