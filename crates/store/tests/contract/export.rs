//! Exports and imports of conversations, complete or not at all.

use super::conversations::{begin, conversation_of, ended, step, texts, user_message};
use super::{json, *};

pub(super) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    a_conversation_goes_out_and_comes_in_byte_for_byte(&fresh().await, &fresh().await).await;
    beside_the_original_runs_have_ids_of_their_own(&fresh().await).await;
    nothing_takes_the_place_of_a_conversation(&fresh().await).await;
    whoever_worked_on_it_does_so_no_more(&fresh().await, &fresh().await).await;
    what_is_damaged_is_refused_and_leaves_nothing(&fresh().await, &fresh().await).await;
}

/// Creates a conversation with all features: a fork, a finished run and a waiting one.
async fn rich(store: &Store) {
    conversation_of(store, "root", &[user_message("1"), user_message("2")]).await;
    store.fork("root", 1, "a", &json(r#"{"z":1e2,"a":{}}"#)).await.unwrap();
    let states = [json(r#"{"z":1.50,"a":"ü\u0000"}"#), json("[1,2.0]")];
    begin(store, "first", "a", 1, &[json(r#"{"z":-0,"a":[1e2]}"#)]).await;
    for (place, state) in states.iter().enumerate() {
        let messages = [user_message("more")];
        let step = RunStep { checkpoint: Some(("model", state)), ..step("first", place as u64, &messages) };
        assert!(store.keep_step(&step).await.unwrap());
    }
    assert!(store.keep_step(&ended("first", 2, RunStatus::Done)).await.unwrap());
    begin(store, "second", "a", 4, &[user_message("?")]).await;
    let paused = RunStep {
        checkpoint: Some(("tool", &states[0])),
        pending: &states[0],
        error: "nobody is there",
        ..ended("second", 0, RunStatus::Paused)
    };
    assert!(store.keep_step(&paused).await.unwrap());
}

async fn exported(store: &Store, id: &str) -> Json {
    store.export(id).await.unwrap().unwrap()
}

async fn a_conversation_goes_out_and_comes_in_byte_for_byte(store: &Store, other: &Store) {
    rich(store).await;
    let first = exported(store, "a").await;
    assert!(other.import(&json(&first.to_string()), None).await.unwrap());
    assert_eq!(exported(other, "a").await.to_string(), first.to_string());
    assert_eq!(other.conversation("a").await.unwrap(), store.conversation("a").await.unwrap());
    assert_eq!(other.checkpoints("a", 9).await.unwrap(), store.checkpoints("a", 9).await.unwrap());
    let claimed = other.claim_run("second", 1, "other", std::process::id()).await.unwrap().unwrap();
    assert_eq!(claimed.pending, first.at_path("runs.1.pending"), "it goes on where it waited");

    assert!(other.forget_conversation("a").await.unwrap());
    assert!(other.import(&first, Some("ü' --")).await.unwrap());
    let renamed = exported(other, "ü' --").await;
    assert_eq!(renamed.text("id").unwrap(), "ü' --");
    renamed.set("id", "a").unwrap();
    assert_eq!(renamed.to_string(), first.to_string(), "under another id only that is another");

    conversation_of(store, "empty", &[]).await;
    let empty = exported(store, "empty").await;
    assert!(other.import(&empty, None).await.unwrap());
    assert_eq!(exported(other, "empty").await.to_string(), empty.to_string());
}

async fn beside_the_original_runs_have_ids_of_their_own(store: &Store) {
    rich(store).await;
    let original = exported(store, "a").await;
    assert!(store.import(&original, Some("b")).await.unwrap());
    let ids = |conversation: &Json| {
        let runs = conversation.at_path("runs").items();
        let checkpoints = runs.iter().flat_map(|run| run.at_path("checkpoints").items()).collect::<Vec<_>>();
        runs.iter().chain(&checkpoints).map(|part| part.text("id").unwrap()).collect::<Vec<_>>()
    };
    let copy = exported(store, "b").await;
    assert!(ids(&copy).iter().all(|id| !ids(&original).contains(id)), "{copy}");
    for (from, to) in ids(&copy).iter().zip(ids(&original)) {
        let text = exported(store, "b").await.to_string();
        assert_eq!(text.matches(from.as_str()).count(), 1);
        assert!(store.checkpoint(from).await.unwrap().is_some() || store.run(from).await.unwrap().is_some());
        assert!(store.checkpoint(&to).await.unwrap().is_some() || store.run(&to).await.unwrap().is_some());
    }
    let back = ids(&copy)
        .iter()
        .zip(ids(&original))
        .fold(copy.to_string(), |text, (from, to)| text.replace(from.as_str(), &to));
    assert_eq!(back.replacen("\"b\"", "\"a\"", 1), original.to_string(), "all else is the same");
    assert_eq!(exported(store, "a").await.to_string(), original.to_string());
}

async fn nothing_takes_the_place_of_a_conversation(store: &Store) {
    rich(store).await;
    let first = exported(store, "a").await;
    assert!(!store.import(&first, None).await.unwrap());
    assert!(!store.import(&first, Some("root")).await.unwrap());
    assert_eq!(texts(store, "root").await, ["1", "2"]);
    assert_eq!(exported(store, "a").await.to_string(), first.to_string());
}

async fn whoever_worked_on_it_does_so_no_more(store: &Store, other: &Store) {
    let run = begin(store, "r", "a", 0, &[user_message("hi")]).await;
    assert!(run.is_alive());
    assert!(other.import(&exported(store, "a").await, None).await.unwrap());
    let copy = other.run("r").await.unwrap().unwrap();
    assert_eq!((copy.status, copy.owner.as_str(), copy.is_alive()), (RunStatus::Running, "", false));
    assert!(other.claim_run("r", 0, "other", std::process::id()).await.unwrap().is_some());
}

async fn what_is_damaged_is_refused_and_leaves_nothing(store: &Store, other: &Store) {
    rich(store).await;
    let whole = exported(store, "a").await;
    let damage: [(&str, &str, &str); 22] = [
        ("format", r#""valvehouse conversation 9""#, "`format` must be \"valvehouse conversation 1\""),
        ("id", "1", "`id` must be a string, but is 1"),
        ("agent", "null", "`agent` must be a string, but is null"),
        ("kept", "[]", "`kept` must be an object, but is of type array"),
        ("created_at", "\"today\"", "`created_at` must be a whole number of milliseconds"),
        ("updated_at", "1.5", "`updated_at` must be"),
        ("forked_from", "1", "`forked_from` must be an object or null, but is 1"),
        ("forked_from.length", "-1", "`forked_from.length` must be a whole number from 0, but is -1"),
        ("messages", "{}", "`messages` must be a list"),
        ("messages", "[]", "`runs[0].checkpoints[0].length` must be a whole number from 0 to 0, but is 3"),
        ("runs", "null", "`runs` must be a list, but is null"),
        ("runs.1", "7", "`runs[1]` must be an object"),
        ("runs.1.id", "\"first\"", "two of its `runs` have the id \"first\""),
        ("runs.0.status", "\"asleep\"", "must be one of running, paused, done, failed, cancelled"),
        ("runs.0.status", "\"failed\"", "more than one of its `runs` is running, paused or failed"),
        ("runs.0.step", "1", "`runs[0].checkpoints[1].step` must be a whole number from 0 to 1, but is 2"),
        ("runs.0.error", "{}", "`runs[0].error` must be a string"),
        ("runs.0.checkpoints", "0", "`runs[0].checkpoints` must be a list"),
        ("runs.0.checkpoints.0.step", "2", "the run \"first\" are not in the order of their steps"),
        ("runs.0.checkpoints.0.id", "[]", "`runs[0].checkpoints[0].id` must be a string"),
        ("runs.0.checkpoints.0.length", "6", "`runs[0].checkpoints[0].length` must be a whole number"),
        ("runs.0.checkpoints.0.saved_at", "null", "`runs[0].checkpoints[0].saved_at` must be"),
    ];
    for (path, value, cause) in damage {
        let damaged = whole.deep_clone();
        put(&damaged, path, json(value));
        let error = other.import(&damaged, None).await.unwrap_err().to_string();
        assert!(error.contains("import a conversation") && error.contains(cause), "{path} {value}: {error}");
    }
    for missing in ["format", "forked_from", "kept", "messages", "runs", "id"] {
        let damaged = whole.deep_clone();
        damaged.remove(missing);
        let error = other.import(&damaged, None).await.unwrap_err().to_string();
        assert!(error.contains(&format!("`{missing}` must be")) && error.contains("is missing"), "{error}");
    }
    for nothing in ["null", "[]", "\"x\"", "{}"] {
        assert!(other.import(&json(nothing), None).await.is_err());
    }
    // This error occurs only after half of the conversation is written.
    let deep = whole.deep_clone();
    let last = json(&format!("{}{}", "[".repeat(127), "]".repeat(127)));
    deep.at_path("messages").as_array().unwrap().push(last).unwrap();
    let error = other.import(&deep, None).await.unwrap_err().to_string();
    assert!(error.contains("nested deeper than 126 levels"), "{error}");
    assert_eq!(other.conversations(None, 10).await.unwrap(), []);
    assert_eq!(other.runs(None, None, 10).await.unwrap(), []);
    assert!(other.import(&whole, None).await.unwrap(), "the whole one is none the worse");
}

/// Sets the value at a path.
fn put(json: &Json, path: &str, value: Json) {
    let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = if parent.is_empty() { json.clone() } else { json.at_path(parent) };
    match &parent {
        Json::Array(list) => list.set(key.parse().unwrap(), value).unwrap(),
        parent => parent.set(key, value).unwrap(),
    }
}
