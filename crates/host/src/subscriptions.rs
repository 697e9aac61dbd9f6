//! Subscriptions to resources of mounted servers. The clients of a resource share one subscription at its
//! server.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{broadcast, watch};

/// The maximum number of subscribed resources per server.
const MAX_RESOURCES: usize = 1_024;
/// The maximum number of updates buffered for a slow receiver.
const UPDATES: usize = 256;

/// The resources of mounted servers that clients subscribed to.
pub struct ResourceSubscriptions {
    /// The number of subscribed clients by server and URI.
    subscribed: Mutex<BTreeMap<String, BTreeMap<String, usize>>>,
    changes: watch::Sender<()>,
    updates: broadcast::Sender<ResourceUpdate>,
}

/// A possible change of a resource's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUpdate {
    /// The name of the server.
    pub server: Arc<str>,
    /// The URI of the resource.
    pub uri: Arc<str>,
}

/// A client's subscription to a resource; dropping it unsubscribes.
pub struct ResourceSubscription {
    all: Arc<ResourceSubscriptions>,
    server: String,
    uri: String,
}

impl Default for ResourceSubscriptions {
    fn default() -> Self {
        let (changes, updates) = (watch::Sender::new(()), broadcast::channel(UPDATES).0);
        Self { subscribed: Mutex::default(), changes, updates }
    }
}

impl ResourceSubscriptions {
    /// Subscribes to a resource; `None` if too many resources of the server have subscribers.
    pub fn subscribe(self: &Arc<Self>, server: &str, uri: &str) -> Option<ResourceSubscription> {
        let mut subscribed = self.subscribed.lock();
        let of_server = subscribed.entry(server.to_owned()).or_default();
        if of_server.len() >= MAX_RESOURCES && !of_server.contains_key(uri) {
            return None;
        }
        let clients = of_server.entry(uri.to_owned()).or_default();
        *clients += 1;
        if *clients == 1 {
            self.changes.send_replace(());
        }
        Some(ResourceSubscription { all: self.clone(), server: server.to_owned(), uri: uri.to_owned() })
    }

    /// Returns the resources of a server that have subscribers.
    pub fn subscribed(&self, server: &str) -> BTreeSet<String> {
        self.subscribed.lock().get(server).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// Returns a receiver that is notified when the set of subscribed resources changes.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Notifies the subscribers of a resource that it changed; does nothing if there are none.
    pub fn updated(&self, server: &str, uri: &str) {
        if self.subscribed.lock().get(server).is_some_and(|of_server| of_server.contains_key(uri)) {
            // The last receiver may be gone.
            let _ = self.updates.send(ResourceUpdate { server: server.into(), uri: uri.into() });
        }
    }

    /// Returns a receiver of all updates.
    pub fn updates(&self) -> broadcast::Receiver<ResourceUpdate> {
        self.updates.subscribe()
    }
}

impl ResourceSubscription {
    /// Returns `true` if this is a subscription to a resource of that server.
    pub fn is_of(&self, server: &str) -> bool {
        self.server == server
    }
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        let mut subscribed = self.all.subscribed.lock();
        let Some(of_server) = subscribed.get_mut(&self.server) else { return };
        let Some(clients) = of_server.get_mut(&self.uri) else { return };
        *clients -= 1;
        if *clients > 0 {
            return;
        }
        of_server.remove(&self.uri);
        if of_server.is_empty() {
            subscribed.remove(&self.server);
        }
        self.all.changes.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_subscribed_once_until_its_last_client_leaves() {
        let all = Arc::new(ResourceSubscriptions::default());
        let mut changes = all.changes();
        let mut updates = all.updates();
        let one = all.subscribe("far", "a://1").unwrap();
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        let two = all.subscribe("far", "a://1").unwrap();
        assert!(!changes.has_changed().unwrap());
        all.updated("far", "a://1");
        all.updated("other", "a://1");
        all.updated("far", "a://2");
        drop(one);
        assert_eq!(all.subscribed("far"), BTreeSet::from(["a://1".to_owned()]));
        drop(two);
        assert!(changes.has_changed().unwrap() && all.subscribed("far").is_empty());
        all.updated("far", "a://1");
        assert_eq!(&*updates.try_recv().unwrap().uri, "a://1");
        assert!(updates.try_recv().is_err());
    }

    #[test]
    fn subscribed_resources_per_server_are_limited() {
        let all = Arc::new(ResourceSubscriptions::default());
        let held: Vec<_> =
            (0..MAX_RESOURCES).map(|n| all.subscribe("far", &format!("a://{n}")).unwrap()).collect();
        assert!(all.subscribe("far", "a://more").is_none());
        assert!(all.subscribe("far", "a://7").is_some() && all.subscribe("near", "a://more").is_some());
        drop(held);
        assert!(all.subscribe("far", "a://more").is_some());
    }
}
