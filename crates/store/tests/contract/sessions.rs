//! Sessions of clients: found by their id until they expire.

use super::*;

pub(super) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    a_session_is_found_until_it_ends(&fresh().await).await;
}

async fn a_session_is_found_until_it_ends(store: &Store) {
    let later = now() + 60_000;
    store.save_session("a", "über", later).await.unwrap();
    store.save_session("b", "two", later).await.unwrap();
    store.save_session("a", "größer", later).await.unwrap();
    store.save_session("ended", "three", now() - 1).await.unwrap();
    assert_eq!(store.session("a").await.unwrap().as_deref(), Some("größer"));
    assert_eq!(store.session("ended").await.unwrap(), None);
    store.end_session("a").await.unwrap();
    store.end_session("never").await.unwrap();
    assert_eq!(store.session("a").await.unwrap(), None);
    assert_eq!(store.session("b").await.unwrap().as_deref(), Some("two"));
}
