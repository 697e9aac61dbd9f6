//! Responses that clients continue, and their conversations.

use super::*;
use valvehouse_store::StoredResponse;

pub(super) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    a_response_is_found_until_it_is_deleted_or_expires(&fresh().await).await;
    a_response_is_changed_only_by_its_runner(&fresh().await).await;
    the_size_of_a_caller_is_that_of_its_responses_and_conversations(&fresh().await).await;
    events_are_read_from_any_place_until_they_expire(&fresh().await).await;
    a_conversation_keeps_its_items_in_order(&fresh().await).await;
}

fn stored(id: &str, expires_ms: i64, runner: &str) -> StoredResponse {
    StoredResponse {
        id: id.into(),
        owner: "ann".into(),
        expires_ms,
        input_items: 1,
        items: r#"[{"role":"user"},{"role":"assistant"}]"#.into(),
        response: r#"{"id":"resp_1"}"#.into(),
        runner: runner.into(),
        seen_ms: 5,
    }
}

async fn a_response_is_found_until_it_is_deleted_or_expires(store: &Store) {
    let (kept, expired) = (stored("resp_1", now() + 60_000, ""), stored("resp_2", now() - 1, ""));
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

async fn a_response_is_changed_only_by_its_runner(store: &Store) {
    store.save_response(&stored("resp_1", now() + 60_000, "host 1")).await.unwrap();
    assert!(store.touch_response("resp_1", "host 1").await.unwrap());
    assert!(!store.touch_response("resp_1", "host 2").await.unwrap());
    assert_eq!(store.response_runner("resp_1").await.unwrap().unwrap().0, "host 1");
    assert_eq!(store.response_runner("resp_2").await.unwrap(), None);
    assert!(store.response("resp_1").await.unwrap().unwrap().seen_ms > 5);
    assert!(!store.change_response("resp_1", "host 2", "{}", None, true).await.unwrap());
    assert!(store.change_response("resp_1", "host 1", "[1]", None, false).await.unwrap());
    let begun = store.response("resp_1").await.unwrap().unwrap();
    assert_eq!((begun.response.as_str(), begun.runner.as_str()), ("[1]", "host 1"));
    assert!(begun.items.contains("assistant"), "{begun:?}");
    assert!(store.change_response("resp_1", "host 1", "[2]", Some("[]"), true).await.unwrap());
    let over = store.response("resp_1").await.unwrap().unwrap();
    assert_eq!((over.response.as_str(), over.runner.as_str(), over.items.as_str()), ("[2]", "", "[]"));
    assert!(!store.change_response("resp_1", "host 1", "[3]", None, true).await.unwrap());
    assert!(!store.touch_response("resp_1", "host 1").await.unwrap());
}

async fn the_size_of_a_caller_is_that_of_its_responses_and_conversations(store: &Store) {
    let (one, expired) = (stored("resp_1", now() + 60_000, "host 1"), stored("resp_2", now() - 1, ""));
    let size = |text: &str| i64::try_from(text.len()).unwrap();
    assert_eq!(store.stored_size("ann").await.unwrap(), 0);
    store.save_response(&one).await.unwrap();
    store.save_response(&expired).await.unwrap();
    assert_eq!(store.stored_size("ann").await.unwrap(), size(&one.items) + size(&one.response));
    assert!(store.change_response("resp_1", "host 1", "{\"ä\":1}", None, true).await.unwrap());
    let of_response = size(&one.items) + size("{\"ä\":1}");
    assert_eq!(store.stored_size("ann").await.unwrap(), of_response);
    let conversation = ResponseConversation {
        id: "conv_1".into(),
        owner: "ann".into(),
        created_ms: 1,
        expires_ms: now() + 60_000,
        metadata: "{}".into(),
    };
    store.save_response_conversation(&conversation).await.unwrap();
    let item = ResponseItem { id: "msg_1".into(), item: "{\"id\":\"msg_1\"}".into() };
    store.append_conversation_items("conv_1", std::slice::from_ref(&item), now() + 60_000).await.unwrap();
    assert_eq!(store.stored_size("ann").await.unwrap(), of_response + size(&item.item));
    assert_eq!(store.stored_size("bob").await.unwrap(), 0);
    store.delete_response("resp_1").await.unwrap();
    assert_eq!(store.stored_size("ann").await.unwrap(), size(&item.item));
}

async fn events_are_read_from_any_place_until_they_expire(store: &Store) {
    let events: Vec<(i64, String)> = (0..250).map(|number| (number, format!("{{\"n\":{number}}}"))).collect();
    let soon = now() + 60_000;
    store.append_response_events("resp_1", &events[..100], soon).await.unwrap();
    store.append_response_events("resp_1", &events[90..], soon).await.unwrap();
    store.append_response_events("resp_2", &events[..1], now() - 1).await.unwrap();
    store.append_response_events("resp_2", &[], soon).await.unwrap();
    assert_eq!(store.response_events("resp_1", -1, 1000).await.unwrap(), events);
    assert_eq!(store.response_events("resp_1", 97, 5).await.unwrap(), events[98..103]);
    assert_eq!(store.response_events("resp_1", 249, 5).await.unwrap(), []);
    assert_eq!(store.response_events("resp_2", -1, 5).await.unwrap(), []);
    store.delete_response("resp_1").await.unwrap();
    assert_eq!(store.response_events("resp_1", -1, 5).await.unwrap(), []);
}

async fn a_conversation_keeps_its_items_in_order(store: &Store) {
    let conversation = |id: &str, expires_ms| ResponseConversation {
        id: id.into(),
        owner: "ann".into(),
        created_ms: 7,
        expires_ms,
        metadata: "{}".into(),
    };
    let item = |id: &str| ResponseItem { id: id.into(), item: format!(r#"{{"id":"{id}"}}"#) };
    let soon = now() + 60_000;
    store.save_response_conversation(&conversation("conv_old", now() - 1)).await.unwrap();
    store.save_response_conversation(&conversation("conv_1", soon)).await.unwrap();
    assert_eq!(store.response_conversation("conv_1").await.unwrap(), Some(conversation("conv_1", soon)));
    assert_eq!(store.response_conversation("conv_old").await.unwrap(), None);
    assert!(!store.append_conversation_items("conv_old", &[item("a")], soon).await.unwrap());
    assert!(!store.append_conversation_items("conv_2", &[item("a")], soon).await.unwrap());
    assert!(store.append_conversation_items("conv_1", &[item("a"), item("b")], soon + 1).await.unwrap());
    assert!(store.append_conversation_items("conv_1", &[item("c")], soon + 2).await.unwrap());
    assert_eq!(store.conversation_items("conv_1").await.unwrap(), [item("a"), item("b"), item("c")]);
    assert_eq!(store.response_conversation("conv_1").await.unwrap().unwrap().expires_ms, soon + 2);
    let found = store.response_items_with("ann", "\"b\"").await.unwrap();
    assert_eq!(found.as_deref(), Some(r#"[{"id":"b"}]"#));
    assert_eq!(store.response_items_with("bob", "\"b\"").await.unwrap(), None);
    assert!(store.delete_conversation_item("conv_1", "b").await.unwrap());
    assert!(!store.delete_conversation_item("conv_1", "b").await.unwrap());
    let half = usize::try_from(MAX_CONVERSATION_SIZE / 2 - 10).unwrap();
    let large = ResponseItem { id: "l".into(), item: "x".repeat(half) };
    assert!(store.append_conversation_items("conv_1", std::slice::from_ref(&large), soon).await.unwrap());
    assert!(!store.append_conversation_items("conv_1", &[large.clone(), item("d")], soon).await.unwrap());
    assert!(store.delete_conversation_item("conv_1", "l").await.unwrap());
    assert!(store.append_conversation_items("conv_1", &[large], soon).await.unwrap());
    assert_eq!(store.conversation_items("conv_1").await.unwrap().len(), 3);
    store.set_conversation_metadata("conv_1", r#"{"a":"b"}"#).await.unwrap();
    assert_eq!(store.response_conversation("conv_1").await.unwrap().unwrap().metadata, r#"{"a":"b"}"#);
    store.delete_response_conversation("conv_1").await.unwrap();
    assert_eq!(store.response_conversation("conv_1").await.unwrap(), None);
    assert_eq!(store.conversation_items("conv_1").await.unwrap(), []);
}
