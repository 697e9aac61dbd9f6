//! Requests that ended: found by what they are selected by, in pages, until they are too old or too many.

use super::json;
use valvehouse_json::Json;
use valvehouse_store::{Kv, Store, StoredTrace, TraceCursor, TraceFilter};

pub(crate) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    requests_are_found_by_every_filter(&fresh().await).await;
    pages_follow_each_other_without_gaps(&fresh().await).await;
    old_and_surplus_requests_are_deleted(&fresh().await).await;
    any_name_and_any_depth_are_stored(&fresh().await).await;
    a_forgotten_user_has_no_requests(&fresh().await).await;
}

fn trace(us: i64) -> StoredTrace {
    StoredTrace {
        at: TraceCursor { us, id: format!("host-{us}") },
        key: if us % 2 == 0 { "ci" } else { "" }.to_owned(),
        user: format!("u{}", us % 3),
        model: if us < 5 { "small" } else { "large" }.to_owned(),
        status: if us % 5 == 0 { 429 } else { 200 },
        outcome: if us % 5 == 0 { "refused" } else { "succeeded" }.to_owned(),
        took_ms: us as u64 * 10,
        plugins: if us % 4 == 0 {
            vec!["redact".to_owned(), "log".to_owned()]
        } else {
            vec!["redact2".to_owned()]
        },
        facts: Json::from([("id", format!("host-{us}").into()), ("error", "größe".into())]),
        steps: json(r#"{"steps": [{"name": "redact", "values": []}], "lines": [], "events": []}"#),
    }
}

async fn found(store: &Store, filter: &TraceFilter) -> Vec<i64> {
    store.traces(filter, 100).await.unwrap().into_iter().map(|(at, _)| at.us).collect()
}

async fn requests_are_found_by_every_filter(store: &Store) {
    let all: Vec<StoredTrace> = (1..=120).map(trace).collect();
    assert!(store.add_traces(&all).await.unwrap() > 120 * 200);
    store.add_traces(&all[..60]).await.unwrap();
    assert_eq!(found(store, &TraceFilter::default()).await, (21..=120).rev().collect::<Vec<_>>());
    let text = |text: &str| Some(text.to_owned());
    let filters = [
        TraceFilter { key: text("ci"), to: Some(10), ..TraceFilter::default() },
        TraceFilter { user: text("u1"), to: Some(10), ..TraceFilter::default() },
        TraceFilter { model: text("small"), ..TraceFilter::default() },
        TraceFilter { plugin: text("redact"), from: Some(100), ..TraceFilter::default() },
        TraceFilter { status: Some([400, 499]), from: Some(60), ..TraceFilter::default() },
        TraceFilter {
            status: Some([429, 429]),
            outcome: text("refused"),
            to: Some(60),
            ..TraceFilter::default()
        },
        TraceFilter { failed: Some(true), to: Some(30), ..TraceFilter::default() },
        TraceFilter { failed: Some(false), to: Some(9), ..TraceFilter::default() },
        TraceFilter { min_ms: Some(1_190), ..TraceFilter::default() },
        TraceFilter { before: Some(trace(7).at), ..TraceFilter::default() },
        TraceFilter { user: text("nobody"), ..TraceFilter::default() },
    ];
    for filter in &filters {
        let selected: Vec<i64> =
            all.iter().rev().filter(|trace| filter.selects(trace)).map(|trace| trace.at.us).collect();
        assert_eq!(found(store, filter).await, selected, "{filter:?}");
    }
    let counts = filters.map(|filter| all.iter().filter(|trace| filter.selects(trace)).count());
    assert_eq!(counts, [4, 3, 4, 6, 13, 11, 5, 7, 2, 6, 0]);
    let [facts, steps] = store.trace("host-7").await.unwrap().unwrap();
    assert_eq!((facts, steps), (trace(7).facts, trace(7).steps));
    assert_eq!(store.trace("host-121").await.unwrap(), None);
}

async fn pages_follow_each_other_without_gaps(store: &Store) {
    let same = |id: &str| StoredTrace { at: TraceCursor { us: 5, id: id.to_owned() }, ..trace(5) };
    store.add_traces(&[trace(4), same("a"), same("b"), same("c"), trace(6)]).await.unwrap();
    let (mut filter, mut ids) = (TraceFilter::default(), Vec::new());
    loop {
        let page = store.traces(&filter, 2).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        filter.before = Some(last.to_string().parse().unwrap());
        ids.extend(page.into_iter().map(|(at, _)| at.id));
    }
    assert_eq!(ids, ["host-6", "c", "b", "a", "host-4"]);
}

async fn old_and_surplus_requests_are_deleted(store: &Store) {
    let all: Vec<StoredTrace> = (1..=1_200).map(trace).collect();
    let size = store.add_traces(&all).await.unwrap();
    assert_eq!(store.prune_traces(1, size).await.unwrap(), 0);
    assert_eq!(store.prune_traces(1_101, size).await.unwrap(), 1_100);
    let left = found(store, &TraceFilter::default()).await;
    assert_eq!((left.len(), left[99]), (100, 1_101));
    // The smallest part of the size that deletes a request, and a third of it.
    let size = store.add_traces(&all[..0]).await.unwrap() + rows_of(store).await;
    assert_eq!(store.prune_traces(0, size).await.unwrap(), 0);
    assert_eq!(store.prune_traces(0, size - 1).await.unwrap(), 1);
    let deleted = store.prune_traces(0, size / 3).await.unwrap();
    assert!((60..70).contains(&deleted), "{deleted}");
    assert_eq!(found(store, &TraceFilter::default()).await[0], 1_200, "the latest stay");
    store.prune_traces(0, 0).await.unwrap();
    assert!(found(store, &TraceFilter::default()).await.is_empty());
    // One key cannot push out the requests of another one.
    let of = |key: &str, us| StoredTrace { key: key.to_owned(), ..trace(us) };
    let few = store.add_traces(&(1..=30).map(|us| of("ci", us)).collect::<Vec<_>>()).await.unwrap();
    store.add_traces(&(31..=630).map(|us| of("mallory", us)).collect::<Vec<_>>()).await.unwrap();
    store.prune_traces(0, few * 3).await.unwrap();
    let kept = async |key: &str| {
        found(store, &TraceFilter { key: Some(key.to_owned()), ..TraceFilter::default() }).await
    };
    assert_eq!(kept("ci").await, (1..=30).rev().collect::<Vec<_>>());
    let others = kept("mallory").await;
    assert_eq!(others[0], 630, "the latest stay");
    assert!((50..=60).contains(&others.len()), "{others:?}");
}

/// Returns the size of the last hundred requests.
async fn rows_of(store: &Store) -> u64 {
    let size = store.add_traces(&(1_101..=1_200).map(trace).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(found(store, &TraceFilter::default()).await.len(), 100);
    size
}

async fn any_name_and_any_depth_are_stored(store: &Store) {
    let deep = json(&format!(
        "{}{}",
        "[".repeat(valvehouse_json::MAX_DEPTH),
        "]".repeat(valvehouse_json::MAX_DEPTH)
    ));
    let step = Json::from([("name", "redact".into()), ("values", Json::from(vec![deep]))]);
    let strange = StoredTrace {
        user: format!("a\0b{}", "🦀".repeat(3_000)),
        model: "m\u{10ffff}".repeat(2_000),
        steps: Json::from([("steps", Json::from(vec![step])), ("lines", json("[]")), ("events", json("[]"))]),
        ..trace(1)
    };
    store.add_traces(std::slice::from_ref(&strange)).await.unwrap();
    let filter = TraceFilter { user: Some(strange.user.clone()), ..TraceFilter::default() };
    assert_eq!(found(store, &filter).await, [1]);
    let [_, steps] = store.trace("host-1").await.unwrap().unwrap();
    assert_eq!(steps.list("steps"), [json(r#"{"name": "redact", "values": []}"#)]);
}

async fn a_forgotten_user_has_no_requests(store: &Store) {
    store.add_traces(&(1..=9).map(trace).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(store.user_records("u1").await.unwrap().requests, 3);
    let kv = Kv::default();
    assert_eq!(store.forget_user(&kv, "u1").await.unwrap().requests, 3);
    assert_eq!(found(store, &TraceFilter::default()).await, [9, 8, 6, 5, 3, 2]);
}
