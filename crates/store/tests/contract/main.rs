//! The contract of every store. Each test is a function of `&Store` and runs on a new one.

#![allow(clippy::unwrap_used)]

mod conversations;
mod export;
mod history;
mod pruning;
mod questions;
mod responses;
mod runs;
mod scripts;
mod secrets;
mod sessions;
mod traces;
mod vectors;

#[cfg(all(unix, feature = "postgres"))]
use valvehouse_grants::{Secret, SecretSource};
use valvehouse_json::Json;
use valvehouse_store::*;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_fulfills_the_store_contract() {
    let folder = tempfile::tempdir().unwrap();
    let count = std::sync::atomic::AtomicUsize::new(0);
    check(|| async {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let file = folder.path().join(format!("{number}.db"));
        Store::sqlite(&file).await.unwrap()
    })
    .await;
}

#[cfg(all(unix, feature = "postgres"))]
#[tokio::test(flavor = "multi_thread")]
async fn postgres_fulfills_the_store_contract() {
    let Some(server) = valvehouse_testkit::postgres::Postgres::start() else { return };
    let key = SecretSource::Literal(Secret::new("a key that all hosts of these tests have"));
    check(|| async {
        let store = Store::postgres(&server.database(), Some(&key)).await;
        store.unwrap_or_else(|error| panic!("{error}"))
    })
    .await;
}

/// Runs all tests; `fresh` returns a new, empty store.
async fn check<F: Future<Output = Store>>(fresh: impl Fn() -> F) {
    nothing_is_there_at_first(&fresh().await).await;
    replacing_valves_forgets_the_others(&fresh().await).await;
    merging_valves_keeps_the_others(&fresh().await).await;
    resetting_takes_out_some_or_all(&fresh().await).await;
    users_and_operators_do_not_meet(&fresh().await).await;
    values_come_back_as_they_were(&fresh().await).await;
    a_refused_change_changes_nothing(&fresh().await).await;
    every_change_raises_the_generation(&fresh().await).await;
    half_a_switch_leaves_the_other_half(&fresh().await).await;
    grants_are_changed_only_by_who_knows_them(&fresh().await).await;
    the_last_good_version_is_the_last_one(&fresh().await).await;
    a_new_version_of_a_guard_needs_its_own_confirmation(&fresh().await).await;
    scripts_find_what_they_kept(&fresh().await).await;
    counts_are_added_to_what_is_stored(&fresh().await).await;
    a_value_is_replaced_only_as_it_was_seen(&fresh().await).await;
    what_has_expired_is_gone(&fresh().await).await;
    hosts_come_and_go(&fresh().await).await;
    history::check(&fresh).await;
    conversations::check(&fresh).await;
    runs::check(&fresh).await;
    export::check(&fresh).await;
    pruning::check(&fresh).await;
    questions::check(&fresh).await;
    responses::check(&fresh).await;
    secrets::check(&fresh).await;
    scripts::check(&fresh).await;
    sessions::check(&fresh).await;
    traces::check(&fresh).await;
    vectors::check(&fresh).await;
}

async fn nothing_is_there_at_first(store: &Store) {
    assert_eq!(store.generation().await.unwrap(), 0);
    assert_eq!(store.settings().await.unwrap().valves, []);
    assert_eq!(store.valves("a", None).await.unwrap(), Json::object());
    assert_eq!(store.settings().await.unwrap().switches, []);
    assert_eq!(store.grants().await.unwrap(), []);
    assert_eq!(store.last_good().await.unwrap(), []);
    assert_eq!(store.kv_all().await.unwrap(), []);
    assert_eq!(store.hosts().await.unwrap(), []);
}

async fn replacing_valves_forgets_the_others(store: &Store) {
    store.replace_valves("a", None, &json(r#"{"x": 1, "y": 2}"#), "test").await.unwrap();
    store.replace_valves("a", None, &json(r#"{"y": 3, "z": null}"#), "test").await.unwrap();
    assert_eq!(store.valves("a", None).await.unwrap(), json(r#"{"y": 3}"#));
    store.replace_valves("a", None, &Json::object(), "test").await.unwrap();
    assert_eq!(store.settings().await.unwrap().valves, [], "nothing set is not a row");
}

async fn merging_valves_keeps_the_others(store: &Store) {
    store.merge_valves("a", None, &json(r#"{"x": 1, "y": 2}"#), "test").await.unwrap();
    store.merge_valves("a", None, &json(r#"{"y": null, "z": 3}"#), "test").await.unwrap();
    assert_eq!(store.valves("a", None).await.unwrap(), json(r#"{"x": 1, "z": 3}"#));
}

async fn resetting_takes_out_some_or_all(store: &Store) {
    store.replace_valves("a", None, &json(r#"{"x": 1, "y": 2}"#), "test").await.unwrap();
    store.reset_valves("a", None, &["x".to_owned(), "never".to_owned()], "test").await.unwrap();
    assert_eq!(store.valves("a", None).await.unwrap(), json(r#"{"y": 2}"#));
    store.reset_valves("a", None, &[], "test").await.unwrap();
    assert_eq!(store.settings().await.unwrap().valves, []);
}

async fn users_and_operators_do_not_meet(store: &Store) {
    for (user, x) in [(None, 1i64), (Some(""), 2), (Some("ann"), 3), (Some("bob"), 4)] {
        let values = Json::object();
        values.set("x", x).unwrap();
        store.merge_valves("a", user, &values, "test").await.unwrap();
    }
    store.reset_valves("a", Some("bob"), &[], "test").await.unwrap();
    let found: Vec<_> = store
        .settings()
        .await
        .unwrap()
        .valves
        .into_iter()
        .map(|row| (row.user, row.values.get("x").unwrap().as_i64().unwrap()))
        .collect();
    assert_eq!(found, [(None, 1), (Some(String::new()), 2), (Some("ann".to_owned()), 3)]);
}

async fn values_come_back_as_they_were(store: &Store) {
    let values = json(r#"{"z": 1e2, "a": [1, 2.0, "ü\u0000\"", {"b": false}], "n": -0}"#);
    store.replace_valves("ü' --", Some("a\"b"), &values, "test").await.unwrap();
    let found = store.settings().await.unwrap().valves;
    assert_eq!((found[0].plugin.as_str(), found[0].user.as_deref()), ("ü' --", Some("a\"b")));
    assert_eq!(found[0].values.to_string(), values.to_string());
}

async fn a_refused_change_changes_nothing(store: &Store) {
    store.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
    let error = store.merge_valves("a", None, &json("[1]"), "test").await.unwrap_err();
    assert!(error.to_string().contains("expected an object"), "{error}");
    assert_eq!(store.generation().await.unwrap(), 1);
    assert_eq!(store.valves("a", None).await.unwrap(), json(r#"{"x": 1}"#));
}

async fn every_change_raises_the_generation(store: &Store) {
    let switch = Switch { plugin: "a".into(), enabled: Some(true), global: None, audit: None };
    let answers = [
        store.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap(),
        store.merge_valves("a", Some("ann"), &json(r#"{"x": 1}"#), "test").await.unwrap(),
        store.reset_valves("a", None, &[], "test").await.unwrap(),
        store.set_switch(&switch, "test").await.unwrap(),
        store.confirm_removal("a", "test").await.unwrap(),
        store.set_grants("a", Some(&json(r#"{"kv": true}"#)), None, "test").await.unwrap().unwrap(),
        store.set_grants("a", None, None, "test").await.unwrap().unwrap(),
    ];
    assert_eq!(answers, [1, 2, 3, 4, 5, 6, 7]);
    store.announce("h", 1, 5, None).await.unwrap();
    store.save_last_good(&[]).await.unwrap();
    assert_eq!(store.generation().await.unwrap(), 7, "what hosts write about themselves is not a change");
}

async fn half_a_switch_leaves_the_other_half(store: &Store) {
    let switch = |enabled, global| Switch { plugin: "a".into(), enabled, global, audit: None };
    store.set_switch(&switch(None, Some(false)), "test").await.unwrap();
    assert_eq!(store.settings().await.unwrap().switches, [switch(None, Some(false))]);
    store.set_switch(&switch(Some(false), None), "test").await.unwrap();
    store.set_switch(&switch(None, Some(true)), "test").await.unwrap();
    assert_eq!(store.settings().await.unwrap().switches, [switch(Some(false), Some(true))]);
}

async fn grants_are_changed_only_by_who_knows_them(store: &Store) {
    let (one, two) = (json(r#"{"http": ["a"]}"#), json(r#"{"http": ["a", "b"], "kv": true}"#));
    assert_eq!(store.set_grants("x", Some(&one), None, "test").await.unwrap(), Some(1));
    assert_eq!(store.set_grants("x", Some(&two), None, "test").await.unwrap(), None, "something is there");
    assert_eq!(
        store.set_grants("x", Some(&two), Some(&two), "test").await.unwrap(),
        None,
        "another is there"
    );
    assert_eq!(
        store.set_grants("y", Some(&two), Some(&one), "test").await.unwrap(),
        None,
        "nothing is there"
    );
    assert_eq!(store.generation().await.unwrap(), 1);
    assert_eq!(store.grants().await.unwrap(), [("x".to_owned(), one.deep_clone())]);
    assert_eq!(store.set_grants("x", Some(&two), Some(&one), "test").await.unwrap(), Some(2));
    store.set_grants("a-tool", Some(&one), None, "test").await.unwrap();
    let found = store.grants().await.unwrap();
    assert_eq!(found, [("a-tool".to_owned(), one.deep_clone()), ("x".to_owned(), two.deep_clone())]);
    let error = store.set_grants("x", Some(&json("[1]")), Some(&two), "test").await.unwrap_err();
    assert!(error.to_string().contains("expected an object"), "{error}");
    store.set_grants("x", None, None, "test").await.unwrap();
    assert_eq!(store.grants().await.unwrap(), [("a-tool".to_owned(), one)]);
}

fn version(id: &str, hash: &str, security: bool) -> LastGood {
    LastGood {
        id: id.to_owned(),
        path: format!("filters/{id}.rhai"),
        hash: hash.to_owned(),
        source: format!("// {hash}\nfn inlet(body) {{}}"),
        imports: json(r#"[{"from":"","name":"lib/a","key":"lib/a","text":"fn a() { 1 }"}]"#),
        security,
        saved_at: 1_700_000_000_000,
    }
}

/// Checks that a confirmation of one version does not apply to the next, and that one of all versions does.
async fn a_new_version_of_a_guard_needs_its_own_confirmation(store: &Store) {
    for change in [GuardChange::Off, GuardChange::Change("of version 1".into())] {
        store.confirm("g", &change, "test").await.unwrap();
    }
    store.save_last_good(&[version("g", "2", true)]).await.unwrap();
    assert_eq!(store.settings().await.unwrap().confirmed, [("g".to_owned(), GuardChange::Off)]);
}

async fn the_last_good_version_is_the_last_one(store: &Store) {
    let (first, second, guard) =
        (version("a", "1", false), version("a", "2", false), version("g", "1", true));
    store.save_last_good(&[first, guard.clone()]).await.unwrap();
    store.save_last_good(std::slice::from_ref(&second)).await.unwrap();
    assert_eq!(store.last_good().await.unwrap(), [second, guard]);
    store.forget_last_good("a").await.unwrap();
    store.confirm_removal("g", "test").await.unwrap();
    assert_eq!(store.last_good().await.unwrap(), []);
}

fn row(key: &str, value: Json, expires_at: Option<i64>) -> KvRow {
    KvRow { plugin: "a".into(), scope: "user/ann".into(), key: key.into(), value, expires_at }
}

async fn scripts_find_what_they_kept(store: &Store) {
    let delete =
        |key: &str| KvChange::Delete { plugin: "a".into(), scope: "user/ann".into(), key: key.into() };
    let other_scope = KvRow { scope: "user/bob".into(), ..row("x", "bob's".into(), None) };
    let changes = [
        KvChange::Set(row("x", 1i64.into(), None)),
        KvChange::Set(row("x", json(r#"{"b": 1, "a": null}"#), Some(i64::MAX))),
        KvChange::Set(row("y", Json::Null, None)),
        KvChange::Set(row("z", 1i64.into(), None)),
        KvChange::Set(other_scope.clone()),
        delete("z"),
        delete("never"),
    ];
    store.kv_write(&changes).await.unwrap();
    let mut found = store.kv_all().await.unwrap();
    found.sort_by_key(|row| (row.scope.clone(), row.key.clone()));
    let kept =
        [row("x", json(r#"{"b": 1, "a": null}"#), Some(i64::MAX)), row("y", Json::Null, None), other_scope];
    assert_eq!(found, kept);
}

async fn counts_are_added_to_what_is_stored(store: &Store) {
    let number = |key: &str, value: i64, end| row(key, value.into(), end);
    let window = |hits: [i64; 2]| row("window", hits.map(Json::from).to_vec().into(), Some(i64::MAX));
    let soon = now() + 3_600_000;
    let first = [
        KvChange::Add(number("new", 1, None)),
        KvChange::Add(number("ends", 5, Some(soon))),
        KvChange::Set(number("over", 9, Some(1))),
        KvChange::Set(row("text", "a".into(), None)),
        KvChange::Hits(window([now(), 1]), 60_000),
    ];
    store.kv_write(&first).await.unwrap();
    let second = [
        KvChange::Add(number("new", 2, Some(soon))),
        KvChange::Add(number("ends", 6, None)),
        KvChange::Add(number("over", 7, None)),
        KvChange::Add(number("text", 1, None)),
        KvChange::Hits(window([now() + 1_000, 2]), 60_000),
        KvChange::Set(number("both", 3, None)),
        KvChange::Add(number("both", 4, None)),
    ];
    store.kv_write(&second).await.unwrap();
    let many: Vec<_> = (0..300).map(|key| KvChange::Add(number(&format!("key {key}"), key, None))).collect();
    for _ in 0..2 {
        store.kv_write(&many).await.unwrap();
    }
    let found = store.kv_all().await.unwrap();
    let of = |key: &str| found.iter().find(|row| row.key == key).unwrap();
    assert_eq!(*of("new"), number("new", 3, None), "it ends as the first one does");
    assert_eq!(*of("ends"), number("ends", 11, Some(soon)));
    assert_eq!(*of("over"), number("over", 7, None), "it begins afresh");
    assert_eq!(*of("text"), row("text", "a".into(), None), "what cannot be counted on stays");
    assert_eq!(*of("both"), number("both", 7, None), "in the order of the changes");
    assert_eq!([1, 3].map(|at| of("window").value.at(at)), [1_i64, 2].map(|hits| Some(hits.into())));
    assert!((0..300_i64).all(|key| of(&format!("key {key}")).value == Json::from(2 * key)));
}

async fn a_value_is_replaced_only_as_it_was_seen(store: &Store) {
    let (none, one) = (row("k", Json::Null, None), row("k", json(r#"{"n": 1.0}"#), None));
    let two = row("k", json("[2]"), Some(now() + 3_600_000));
    let set = |row: &KvRow| KvChange::Set(row.clone());
    let gone = KvChange::Delete { plugin: "a".into(), scope: "user/ann".into(), key: "k".into() };
    assert_eq!(store.kv_swap(&one, &set(&two)).await.unwrap(), Some(none.clone()));
    assert_eq!(store.kv_swap(&none, &set(&one)).await.unwrap(), None);
    assert_eq!(store.kv_swap(&none, &set(&two)).await.unwrap(), Some(one.clone()));
    assert_eq!(store.kv_all().await.unwrap(), std::slice::from_ref(&one));
    let ends = KvRow { expires_at: Some(now() + 1), ..one.clone() };
    assert_eq!(store.kv_swap(&ends, &gone).await.unwrap(), Some(one.clone()), "its end is a part of it");
    assert_eq!(store.kv_swap(&one, &set(&two)).await.unwrap(), None);
    assert_eq!(store.kv_swap(&two, &gone).await.unwrap(), None);
    assert_eq!(store.kv_all().await.unwrap(), []);
    let over = KvRow { expires_at: Some(1), ..one.clone() };
    store.kv_write(&[set(&over)]).await.unwrap();
    assert_eq!(store.kv_swap(&none, &set(&one)).await.unwrap(), None, "what has ended is not there");
    assert_eq!(store.kv_all().await.unwrap(), [one]);
}

async fn what_has_expired_is_gone(store: &Store) {
    let (old, fresh) = (row("old", 1i64.into(), Some(1)), row("fresh", 1i64.into(), Some(i64::MAX)));
    store.kv_write(&[KvChange::Set(old), KvChange::Set(fresh.clone())]).await.unwrap();
    assert_eq!(store.kv_all().await.unwrap(), [fresh]);
}

async fn hosts_come_and_go(store: &Store) {
    store.announce("one", 11, 1, None).await.unwrap();
    store.announce("two", 22, 1, None).await.unwrap();
    store.announce("one", 11, 2, None).await.unwrap();
    let seen: Vec<_> = store
        .hosts()
        .await
        .unwrap()
        .into_iter()
        .map(|host| (host.host_id, host.pid, host.applied_generation))
        .collect();
    assert_eq!(seen, [("one".to_owned(), 11, 2), ("two".to_owned(), 22, 1)]);
    let status = Json::from([("x", 1i64.into())]);
    store.announce("two", 22, 1, Some(&status)).await.unwrap();
    store.announce("two", 22, 2, None).await.unwrap();
    let tells: Vec<_> = store.hosts().await.unwrap().into_iter().map(|host| host.tells).collect();
    assert_eq!(tells, [Json::object(), status], "what is not new stays");
    store.leave("one").await.unwrap();
    assert_eq!(store.hosts().await.unwrap().len(), 1);
}
