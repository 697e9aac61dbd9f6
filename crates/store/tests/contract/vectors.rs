//! Vectors: in separate spaces of scripts and users, changed completely or not at all.

use super::json;
use valvehouse_json::Json;
use valvehouse_store::*;

pub(crate) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    vectors_come_back_as_they_were(&fresh().await).await;
    a_change_beyond_a_limit_changes_nothing(&fresh().await).await;
    spaces_do_not_meet(&fresh().await).await;
    every_change_raises_the_version_of_its_space(&fresh().await).await;
    vectors_of_a_removed_script_are_set_aside(&fresh().await).await;
    users_find_their_conversations_alone(&fresh().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_index_fulfills_the_vector_contract() {
    vectors_come_back_as_they_were(&MemoryVectors::default()).await;
    a_change_beyond_a_limit_changes_nothing(&MemoryVectors::default()).await;
    spaces_do_not_meet(&MemoryVectors::default()).await;
    every_change_raises_the_version_of_its_space(&MemoryVectors::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_copy_of_vectors_starts_from_the_store_and_does_not_change_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(Store::sqlite(&folder.path().join("state.db")).await.unwrap());
    let own = owner("notes", "own");
    let many: Vec<NewVector> =
        (0..450).map(|at| entry(&format!("{at:03}"), "{}", &[at as f32 + 1.0])).collect();
    put(&*store, &own, &many).await.unwrap();
    let copy = MemoryVectors::copy_of(store.clone());
    put(&copy, &own, &[entry("new", r#"{"a":1}"#, &[1.0])]).await.unwrap();
    copy.delete_vectors(&own, Some(&["000".to_owned()])).await.unwrap();
    assert_eq!(copy.vector_space(&own).await.unwrap().count, 450);
    assert_eq!(store.vector_space(&own).await.unwrap().count, 450);
    assert!(store.vectors(&own, VectorSelection::Ids(&["new".to_owned()])).await.unwrap().is_empty());
}

fn owner(plugin: &str, scope: &str) -> VectorOwner {
    VectorOwner { plugin: plugin.to_owned(), scope: scope.to_owned() }
}

fn entry(id: &str, data: &str, vector: &[f32]) -> NewVector {
    NewVector { id: id.to_owned(), data: json(data), vector: vector.to_vec() }
}

async fn put<S: Vectors + ?Sized>(
    store: &S,
    owner: &VectorOwner,
    entries: &[NewVector],
) -> Result<VectorSpace, StoreError> {
    let change = VectorChange { label: "", put: entries, replace: false, max_count: MAX_SPACE_VECTORS };
    store.change_vectors(owner, change).await
}

async fn ids<S: Vectors + ?Sized>(store: &S, owner: &VectorOwner) -> Vec<String> {
    let all = store.vectors(owner, VectorSelection::All { after: "", limit: 1_000 }).await.unwrap();
    all.into_iter().map(|one| one.id).collect()
}

async fn vectors_come_back_as_they_were<S: Vectors + ?Sized>(store: &S) {
    let own = owner("notes", "own");
    assert_eq!(store.vector_space(&own).await.unwrap(), VectorSpace::default());
    let entries = [
        entry("ä", r#"{"text":"größe 🦀"}"#, &[0.25, -1.5]),
        entry("b", "null", &[f32::MIN_POSITIVE, f32::MAX]),
        entry("b", "[1]", &[1.0, 2.0]),
    ];
    let space = put(store, &own, &entries).await.unwrap();
    assert_eq!((space.count, space.dimensions), (2, 2));
    let read = store.vectors(&own, VectorSelection::Ids(&["ä".to_owned(), "none".to_owned()])).await.unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].data, json(r#"{"text":"größe 🦀"}"#));
    let changed = VectorSelection::Changed { since: 0, after: "", limit: 10 };
    let read = store.vectors(&own, changed).await.unwrap();
    let vectors: Vec<(&str, &[f32])> =
        read.iter().map(|one| (one.id.as_str(), one.vector.as_slice())).collect();
    assert_eq!(vectors, [("b", &[1.0, 2.0][..]), ("ä", &[0.25, -1.5][..])]);
    let rest = VectorSelection::Changed { since: 0, after: "b", limit: 10 };
    assert_eq!(store.vectors(&own, rest).await.unwrap().len(), 1);
    let before = store.vector_space(&own).await.unwrap().bytes;
    put(store, &own, &[entry("b", r#"{"long":"0123456789"}"#, &[1.0, 2.0])]).await.unwrap();
    let after = store.vector_space(&own).await.unwrap();
    assert_eq!((after.count, after.bytes), (2, before + 18));
    assert_eq!(store.delete_vectors(&own, Some(&["b".to_owned(), "none".to_owned()])).await.unwrap(), 1);
    assert_eq!(ids(store, &own).await, ["ä"]);
    assert_eq!(store.delete_vectors(&own, None).await.unwrap(), 1);
    let empty = store.vector_space(&own).await.unwrap();
    assert_eq!((empty.count, empty.dimensions, empty.bytes), (0, 0, 0));
}

async fn a_change_beyond_a_limit_changes_nothing<S: Vectors + ?Sized>(store: &S) {
    let own = owner("notes", "own");
    put(store, &own, &[entry("a", "1", &[1.0, 0.0])]).await.unwrap();
    let before = store.vector_space(&own).await.unwrap();
    let large = format!("\"{}\"", "x".repeat(MAX_VECTOR_DATA));
    let long = "i".repeat(MAX_VECTOR_ID + 1);
    for (entries, cause) in [
        (vec![entry("b", "1", &[1.0])], "expected a vector of 2 dimensions like the others, got 1"),
        (
            vec![entry("b", "1", &[1.0, 2.0]), entry("c", "1", &[1.0])],
            "of 2 dimensions like the others, got 1",
        ),
        (vec![entry("b", "1", &[])], "1 to 4096 dimensions, got 0"),
        (vec![entry("b", "1", &vec![1.0; MAX_VECTOR_DIMENSIONS + 1])], "1 to 4096 dimensions, got 4097"),
        (vec![entry("", "1", &[1.0, 2.0])], "1 to 256 bytes, got 0"),
        (vec![entry(&long, "1", &[1.0, 2.0])], "1 to 256 bytes, got 257"),
        (vec![entry("b", &large, &[1.0, 2.0])], "exceeded its limit of 64 KiB"),
    ] {
        let error = put(store, &own, &entries).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Refused);
        assert!(error.cause.contains(cause), "{error}");
    }
    let entries = [entry("b", "1", &[1.0, 2.0]), entry("c", "1", &[1.0, 2.0])];
    let full = VectorChange { label: "", put: &entries, replace: false, max_count: 2 };
    assert!(store.change_vectors(&own, full).await.unwrap_err().cause.contains("limit of 2 entries"));
    let other = VectorChange { label: "large", put: &entries, replace: false, max_count: 9 };
    assert!(store.change_vectors(&own, other).await.unwrap_err().cause.contains("model"));
    let after = store.vector_space(&own).await.unwrap();
    assert_eq!((after.count, after.bytes), (before.count, before.bytes));
    // In place of all others, whose dimensions then do not matter.
    let replace =
        VectorChange { label: "large", put: &[entry("z", "1", &[1.0])], replace: true, max_count: 1 };
    let replaced = store.change_vectors(&own, replace).await.unwrap();
    assert_eq!((replaced.count, replaced.dimensions, replaced.label.as_str()), (1, 1, "large"));
    assert_eq!(ids(store, &own).await, ["z"]);
}

async fn spaces_do_not_meet<S: Vectors + ?Sized>(store: &S) {
    let spaces = [
        owner("a", "own"),
        owner("a", "user/ann"),
        owner("b", "own"),
        owner("", "user/ann"),
        owner("", "user/bob"),
    ];
    for (number, space) in spaces.iter().enumerate() {
        put(store, space, &[entry("x", &number.to_string(), &vec![1.0; number + 1])]).await.unwrap();
    }
    for (number, space) in spaces.iter().enumerate() {
        let read = store.vectors(space, VectorSelection::Ids(&["x".to_owned()])).await.unwrap();
        assert_eq!(read[0].data, json(&number.to_string()));
    }
    store.delete_vectors(&spaces[3], None).await.unwrap();
    assert!(ids(store, &spaces[3]).await.is_empty());
    assert_eq!(ids(store, &spaces[4]).await, ["x"]);
    assert_eq!(ids(store, &spaces[1]).await, ["x"]);
}

async fn every_change_raises_the_version_of_its_space<S: Vectors + ?Sized>(store: &S) {
    let (own, other) = (owner("a", "own"), owner("b", "own"));
    let first = put(store, &own, &[entry("a", "1", &[1.0])]).await.unwrap().version;
    let second = put(store, &own, &[entry("b", "1", &[1.0])]).await.unwrap().version;
    put(store, &other, &[entry("b", "1", &[1.0])]).await.unwrap();
    assert!(second > first);
    let changed = VectorSelection::Changed { since: first, after: "", limit: 10 };
    let read = store.vectors(&own, changed).await.unwrap();
    assert_eq!(read.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["b"]);
    store.delete_vectors(&own, Some(&["b".to_owned()])).await.unwrap();
    let third = store.vector_space(&own).await.unwrap().version;
    store.delete_vectors(&own, None).await.unwrap();
    assert!(third > second && store.vector_space(&own).await.unwrap().version > third);
}

async fn vectors_of_a_removed_script_are_set_aside(store: &Store) {
    let (own, aside) = (owner("notes", "user/ann"), owner("notes@3", "user/ann"));
    put(store, &own, &[entry("a", r#""kept""#, &[1.0])]).await.unwrap();
    store.put_aside("notes", 3).await.unwrap();
    assert!(ids(store, &own).await.is_empty());
    assert_eq!(store.vector_space(&own).await.unwrap(), VectorSpace::default());
    assert!(store.set_aside().await.unwrap()[0].has_rows);
    assert_eq!(ids(store, &aside).await, ["a"]);
    store.adopt("notes", 3, "test").await.unwrap();
    let read = store.vectors(&own, VectorSelection::Ids(&["a".to_owned()])).await.unwrap();
    assert_eq!(read[0].data, json(r#""kept""#));
    assert_eq!(store.vector_space(&own).await.unwrap().count, 1);
    store.put_aside("notes", 4).await.unwrap();
    store.drop_aside("notes", 4, "test").await.unwrap();
    assert!(!store.set_aside().await.unwrap().iter().any(|aside| aside.has_rows));
}

async fn users_find_their_conversations_alone(store: &Store) {
    for (number, (id, user)) in [("one", "ann"), ("two", "bob"), ("three", "ann")].into_iter().enumerate() {
        let kept = Json::from([("user", user.into()), (OWNER, user.into())]);
        let begin = NewRun {
            run: &format!("run {id}"),
            conversation: id,
            agent: "assistant",
            owner: "host",
            pid: 1,
            expected: 0,
            messages: &[json(r#"{"role":"user","content":"hello"}"#)],
            first: Some(First { name: "begin", state: &Json::object(), kept: &kept }),
        };
        assert!(matches!(store.begin_run(&begin).await.unwrap(), RunStart::Begun(_)), "{number}");
    }
    let of = async |user: &str| {
        let all = store.conversations_of(user, None, 10).await.unwrap();
        let mut ids: Vec<String> = all.into_iter().map(|one| one.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(of("ann").await, ["one", "three"]);
    assert_eq!(of("bob").await, ["two"]);
    assert!(of("").await.is_empty());
    assert!(store.conversation_of("ann", "one").await.unwrap().is_some());
    assert!(store.conversation_of("bob", "one").await.unwrap().is_none());
    // The owner is that of the beginning.
    let later = Json::from([(OWNER, "bob".into())]);
    let step = RunStep {
        run: "run one",
        owner: "host",
        expected: store.run("run one").await.unwrap().unwrap().step,
        messages: &[],
        checkpoint: None,
        status: RunStatus::Done,
        pending: &Json::Null,
        error: "",
        kept: Some(&later),
    };
    assert!(store.keep_step(&step).await.unwrap());
    assert_eq!(of("bob").await, ["two"]);
    let exported = store.export("two").await.unwrap().unwrap();
    assert!(store.import(&exported, Some("copy")).await.unwrap());
    assert_eq!(of("bob").await, ["copy", "two"]);
}
