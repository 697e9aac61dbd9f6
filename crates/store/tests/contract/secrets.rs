//! Secrets of hosts: found by name only, and changed by one host at a time.

use valvehouse_store::Store;

pub(crate) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    a_secret_is_found_under_its_name_until_it_is_dropped(&fresh().await).await;
    a_lease_belongs_to_one_holder_until_it_ends(&fresh().await).await;
}

async fn a_secret_is_found_under_its_name_until_it_is_dropped(store: &Store) {
    assert_eq!(store.secret("a").await.unwrap(), None);
    store.set_secret("a", Some("first")).await.unwrap();
    store.set_secret("b", Some("other")).await.unwrap();
    store.set_secret("a", Some("größe 🦀")).await.unwrap();
    assert_eq!(store.secret("a").await.unwrap().as_deref(), Some("größe 🦀"));
    assert_eq!(store.secret("b").await.unwrap().as_deref(), Some("other"));
    store.set_secret("a", None).await.unwrap();
    assert_eq!(store.secret("a").await.unwrap(), None);
    assert_eq!(store.secret("b").await.unwrap().as_deref(), Some("other"));
}

async fn a_lease_belongs_to_one_holder_until_it_ends(store: &Store) {
    assert!(store.lease_secret("a", "one", 60_000).await.unwrap());
    assert!(!store.lease_secret("a", "two", 60_000).await.unwrap());
    assert!(store.lease_secret("b", "two", 60_000).await.unwrap());
    // The lease is extended to an immediate end and returned.
    assert!(store.lease_secret("a", "one", 1).await.unwrap());
    while !store.lease_secret("a", "two", 60_000).await.unwrap() {}
    assert!(!store.lease_secret("a", "one", 60_000).await.unwrap());
    assert!(store.lease_secret("a", "two", 0).await.unwrap());
    assert!(store.lease_secret("a", "one", 60_000).await.unwrap());
}
