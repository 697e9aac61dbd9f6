//! Responses that clients continue.

use super::*;
use valvehouse_store::StoredResponse;

pub(super) async fn check<F: Future<Output = Box<dyn Store>>>(fresh: &impl Fn() -> F) {
    a_response_is_found_until_it_is_deleted_or_expires(&*fresh().await).await;
}

async fn a_response_is_found_until_it_is_deleted_or_expires(store: &dyn Store) {
    let stored = |id: &str, expires_ms| StoredResponse {
        id: id.into(),
        owner: "ann".into(),
        expires_ms,
        input_items: 1,
        items: r#"[{"role":"user"},{"role":"assistant"}]"#.into(),
        response: r#"{"id":"resp_1"}"#.into(),
    };
    let (kept, expired) = (stored("resp_1", now() + 60_000), stored("resp_2", now() - 1));
    store.save_response(&expired).await.unwrap();
    store.save_response(&kept).await.unwrap();
    assert_eq!(store.response("resp_1").await.unwrap(), Some(kept));
    assert_eq!(store.response("resp_2").await.unwrap(), None);
    let items = store.response_items_with("ann", "assistant").await.unwrap();
    assert_eq!(items.as_deref(), Some(r#"[{"role":"user"},{"role":"assistant"}]"#));
    assert_eq!(store.response_items_with("bob", "assistant").await.unwrap(), None);
    assert_eq!(store.response_items_with("ann", "msg_0").await.unwrap(), None);
    store.delete_response("resp_1").await.unwrap();
    assert_eq!(store.response("resp_1").await.unwrap(), None);
}
