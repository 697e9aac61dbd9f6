//! The contract of conversations: messages are returned unchanged; and helpers of the other contracts.

use super::{json, *};

static NULL: Json = Json::Null;

/// The owner of the runs in these tests.
pub(super) const ME: &str = "me";
/// A number that no system uses as a process id.
pub(super) const NO_PROCESS: u32 = i32::MAX.cast_unsigned();

pub(super) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    no_conversation_is_there_at_first(&fresh().await).await;
    what_was_said_comes_back_as_it_was_said(&fresh().await).await;
    any_text_is_an_id(&fresh().await).await;
    an_id_with_a_nul_is_one_or_is_refused(&fresh().await).await;
    a_conversation_may_be_empty(&fresh().await).await;
    messages_are_read_by_their_places(&fresh().await).await;
    a_long_message_is_a_message(&fresh().await).await;
    what_an_agent_keeps_stays_until_it_changes(&fresh().await).await;
    what_cannot_be_read_back_is_refused_as_a_whole(&fresh().await).await;
    the_latest_conversation_comes_first(&fresh().await).await;
    a_fork_shares_what_was_said_and_then_goes_its_own_way(&fresh().await).await;
    a_fork_is_refused_where_there_is_nothing_to_share(&fresh().await).await;
    a_forgotten_conversation_leaves_nothing(&fresh().await).await;
    no_host_has_to_notice_what_is_said(&fresh().await).await;
}

pub(super) fn user_message(text: &str) -> Json {
    Json::from([("role", "user".into()), ("content", text.into())])
}

pub(super) fn beginning<'a>(
    run: &'a str,
    conversation: &'a str,
    expected: u64,
    messages: &'a [Json],
) -> NewRun<'a> {
    NewRun {
        run,
        conversation,
        agent: "agent",
        owner: ME,
        pid: std::process::id(),
        expected,
        messages,
        first: None,
    }
}

/// Returns a step that only adds messages.
pub(super) fn step<'a>(run: &'a str, expected: u64, messages: &'a [Json]) -> RunStep<'a> {
    RunStep {
        run,
        owner: ME,
        expected,
        messages,
        checkpoint: None,
        status: RunStatus::Running,
        pending: &NULL,
        error: "",
        kept: None,
    }
}

pub(super) fn ended<'a>(run: &'a str, expected: u64, status: RunStatus) -> RunStep<'a> {
    RunStep { status, ..step(run, expected, &[]) }
}

/// Begins a run, which must succeed.
pub(super) async fn begin(
    store: &Store,
    run: &str,
    conversation: &str,
    expected: u64,
    messages: &[Json],
) -> Run {
    match store.begin_run(&beginning(run, conversation, expected, messages)).await.unwrap() {
        RunStart::Begun(run) => run,
        other => panic!("{run} did not begin: {other:?}"),
    }
}

/// Creates a conversation with these messages in one finished run.
pub(super) async fn conversation_of(store: &Store, id: &str, messages: &[Json]) {
    begin(store, &format!("run of {id}"), id, 0, messages).await;
    assert!(store.keep_step(&ended(&format!("run of {id}"), 0, RunStatus::Done)).await.unwrap());
}

pub(super) async fn texts(store: &Store, conversation: &str) -> Vec<String> {
    let messages = store.messages(conversation, 0, u64::MAX).await.unwrap();
    messages.iter().map(|message| message.text("content").unwrap().into()).collect()
}

async fn no_conversation_is_there_at_first(store: &Store) {
    assert_eq!(store.conversation("a").await.unwrap(), None);
    assert_eq!(store.conversations(None, 10).await.unwrap(), []);
    assert_eq!(store.messages("a", 0, 10).await.unwrap(), []);
    assert_eq!(store.run("a").await.unwrap(), None);
    assert_eq!(store.runs(None, None, 10).await.unwrap(), []);
    assert_eq!(store.checkpoint("a").await.unwrap(), None);
    assert_eq!(store.latest_checkpoint("a").await.unwrap(), None);
    assert_eq!(store.checkpoints("a", 10).await.unwrap(), []);
    assert_eq!(store.export("a").await.unwrap(), None);
    assert_eq!(store.claim_run("a", 0, ME, 1).await.unwrap(), None);
    assert!(!store.keep_step(&step("a", 0, &[user_message("x")])).await.unwrap());
    assert!(!store.forget_conversation("a").await.unwrap());
    assert_eq!(store.prune(None, Prune::default()).await.unwrap(), 0);
    assert_eq!(store.prune(Some("a"), Prune::default()).await.unwrap(), 0);
}

async fn what_was_said_comes_back_as_it_was_said(store: &Store) {
    let spelled = [
        r#"{"role":"user","content":"hi"}"#,
        r#"{"z":1e2,"a":[1,2.0,-0,1.50,{"b":false}],"n":12345678901234567890123}"#,
        r#"{"content":"ü\u0000\" 🦊 \u001f","role":"tool","tool_call_id":"'; DROP TABLE messages; --"}"#,
        r#"{"content":null,"tool_calls":[{"function":{"arguments":"{\"x\": 1}"}}],"role":"assistant"}"#,
        "{}",
    ];
    let messages: Vec<Json> = spelled.iter().map(|text| json(text)).collect();
    begin(store, "r", "a", 0, &messages[..2]).await;
    assert!(store.keep_step(&step("r", 0, &messages[2..])).await.unwrap());
    let found = store.messages("a", 0, 10).await.unwrap();
    assert_eq!(found.iter().map(Json::to_string).collect::<Vec<_>>(), spelled);
}

async fn any_text_is_an_id(store: &Store) {
    let ids = ["", "a", "A", "a ", "' OR 1=1; --", "%", "ü", "u\u{308}", "🦊", &"x".repeat(10_000)];
    for id in ids {
        begin(store, id, id, 0, &[user_message(id)]).await;
        assert!(store.keep_step(&step(id, 0, &[user_message("more")])).await.unwrap());
    }
    for id in ids {
        assert_eq!(texts(store, id).await, [id, "more"]);
        assert_eq!(store.conversation(id).await.unwrap().unwrap().id, id);
        assert_eq!(store.run(id).await.unwrap().unwrap().conversation, id);
        assert_eq!(store.runs(Some(id), None, 10).await.unwrap().len(), 1);
    }
    for id in ids {
        assert!(store.forget_conversation(id).await.unwrap());
    }
    assert_eq!(store.conversations(None, 100).await.unwrap(), []);
}

/// Not every database supports a NUL character in texts.
async fn an_id_with_a_nul_is_one_or_is_refused(store: &Store) {
    for id in ["a\0b", "a\0c"] {
        match store.begin_run(&beginning(id, id, 0, &[user_message(id)])).await {
            Ok(_) => assert_eq!(texts(store, id).await, [id]),
            Err(error) => assert_eq!(error.kind, valvehouse_store::StoreErrorKind::Refused, "{error}"),
        }
    }
}

async fn a_conversation_may_be_empty(store: &Store) {
    conversation_of(store, "a", &[]).await;
    let found = store.conversation("a").await.unwrap().unwrap();
    assert_eq!((found.length, found.kept, found.forked_from), (0, Json::object(), None));
    assert_eq!(store.messages("a", 0, 10).await.unwrap(), []);
    assert!(store.fork("a", 0, "b", &Json::object()).await.unwrap());
    assert_eq!(store.conversation("b").await.unwrap().unwrap().forked_from, Some(("a".to_owned(), 0)));
    begin(store, "first words", "a", 0, &[user_message("hi")]).await;
    assert_eq!(texts(store, "a").await, ["hi"]);
}

async fn messages_are_read_by_their_places(store: &Store) {
    let messages: Vec<Json> = (0..10i64).map(Json::from).collect();
    begin(store, "r", "a", 0, &messages[..3]).await;
    conversation_of(store, "b", &[user_message("somebody else's")]).await;
    assert!(store.keep_step(&step("r", 0, &messages[3..4])).await.unwrap());
    assert!(store.keep_step(&step("r", 1, &[])).await.unwrap());
    assert!(store.keep_step(&step("r", 2, &messages[4..])).await.unwrap());
    assert_eq!(store.conversation("a").await.unwrap().unwrap().length, 10);
    for (from, to, found) in
        [(0, 10, 0..10), (2, 5, 2..5), (8, u64::MAX, 8..10), (10, 20, 10..10), (5, 5, 5..5), (7, 2, 7..7)]
    {
        assert_eq!(store.messages("a", from, to).await.unwrap(), messages[found], "{from} to {to}");
    }
}

async fn a_long_message_is_a_message(store: &Store) {
    let long = user_message(&"ä\"".repeat(1 << 19));
    conversation_of(store, "a", &[user_message("before"), long.clone(), user_message("after")]).await;
    assert_eq!(store.messages("a", 1, 2).await.unwrap()[0].to_string(), long.to_string());
    let exported = store.export("a").await.unwrap().unwrap();
    assert!(store.import(&exported, Some("b")).await.unwrap());
    assert_eq!(
        store.messages("b", 0, 3).await.unwrap(),
        [user_message("before"), long, user_message("after")]
    );
}

async fn what_an_agent_keeps_stays_until_it_changes(store: &Store) {
    let large = Json::from([("summary", "x".repeat(1 << 20).into()), ("n", json("1.50"))]);
    begin(store, "r", "a", 0, &[]).await;
    assert!(store.keep_step(&RunStep { kept: Some(&large), ..step("r", 0, &[]) }).await.unwrap());
    assert!(store.keep_step(&step("r", 1, &[user_message("x")])).await.unwrap());
    let found = store.conversation("a").await.unwrap().unwrap();
    assert_eq!(found.kept.to_string(), large.to_string());
    let other = json(r#"{"b":1,"a":2}"#);
    assert!(
        store.keep_step(&RunStep { kept: Some(&other), ..ended("r", 2, RunStatus::Done) }).await.unwrap()
    );
    begin(store, "next", "a", 1, &[]).await;
    assert_eq!(store.conversation("a").await.unwrap().unwrap().kept.to_string(), other.to_string());
    let error =
        store.keep_step(&RunStep { kept: Some(&json("[1]")), ..step("next", 0, &[]) }).await.unwrap_err();
    assert!(error.to_string().contains("must be an object, not array"), "{error}");
}

async fn what_cannot_be_read_back_is_refused_as_a_whole(store: &Store) {
    let deep = |levels: usize| json(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
    let (state, pending) = (deep(124), deep(126));
    begin(store, "r", "a", 0, &[deep(126)]).await;
    let error = store.keep_step(&step("r", 0, &[user_message("x"), deep(127)])).await.unwrap_err();
    assert!(error.to_string().contains("nested deeper than 126 levels"), "{error}");
    let (messages, kept) = ([user_message("x")], Json::from([("x", deep(127))]));
    let refused = [
        RunStep { checkpoint: Some(("model", &state)), ..step("r", 0, &messages) },
        RunStep { pending: &pending, ..step("r", 0, &messages) },
        RunStep { kept: Some(&kept), ..step("r", 0, &messages) },
    ];
    for step in refused {
        assert!(store.keep_step(&step).await.is_err());
    }
    assert!(store.begin_run(&beginning("s", "b", 0, &[Json::Null, deep(127)])).await.is_err());
    assert_eq!(store.run("r").await.unwrap().unwrap().step, 0);
    assert_eq!(store.conversation("a").await.unwrap().unwrap().length, 1);
    assert_eq!(store.conversation("b").await.unwrap(), None);
    let kept = RunStep {
        checkpoint: Some(("model", &state.at(0).unwrap())),
        pending: &pending.at(0).unwrap(),
        kept: Some(&Json::from([("x", pending.clone())])),
        ..ended("r", 0, RunStatus::Paused)
    };
    assert!(store.keep_step(&kept).await.unwrap());
    let exported = store.export("a").await.unwrap().unwrap().to_string();
    assert!(store.import(&json(&exported), Some("b")).await.unwrap(), "what is kept can be carried on");
}

async fn the_latest_conversation_comes_first(store: &Store) {
    for id in ["a", "b", "c"] {
        conversation_of(store, id, &[user_message(id)]).await;
        until_later().await;
    }
    let with_b = NewRun { agent: "other", ..beginning("more", "b", 1, &[]) };
    assert!(matches!(store.begin_run(&with_b).await.unwrap(), RunStart::Begun(_)));
    let ids = async |agent, limit| {
        let found = store.conversations(agent, limit).await.unwrap();
        found.into_iter().map(|conversation| conversation.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(None, 10).await, ["b", "c", "a"]);
    assert_eq!(ids(None, 1).await, ["b"]);
    assert_eq!(ids(None, 0).await, [""; 0]);
    assert_eq!(ids(Some("agent"), 10).await, ["c", "a"]);
    assert_eq!(ids(Some("other"), 10).await, ["b"], "it is held with the agent of its latest run");
    assert_eq!(ids(Some("nobody"), 10).await, [""; 0]);
}

/// Waits until the clock shows another millisecond.
async fn until_later() {
    let before = now();
    while now() == before {
        tokio::task::yield_now().await;
    }
}

async fn a_fork_shares_what_was_said_and_then_goes_its_own_way(store: &Store) {
    conversation_of(store, "a", &[user_message("1"), user_message("2"), user_message("3")]).await;
    let kept = json(r#"{"summary":"two"}"#);
    assert!(store.fork("a", 2, "b", &kept).await.unwrap());
    begin(store, "on a", "a", 3, &[user_message("4a")]).await;
    begin(store, "on b", "b", 2, &[user_message("3b")]).await;
    assert_eq!(texts(store, "a").await, ["1", "2", "3", "4a"]);
    assert_eq!(texts(store, "b").await, ["1", "2", "3b"]);
    let found = store.conversation("b").await.unwrap().unwrap();
    assert_eq!((found.length, found.agent.as_str(), found.kept), (3, "agent", kept));
    assert_eq!(found.forked_from, Some(("a".to_owned(), 2)));
    assert_eq!(store.runs(Some("b"), None, 10).await.unwrap().len(), 1, "runs are not shared");
    assert!(store.forget_conversation("a").await.unwrap());
    assert_eq!(texts(store, "b").await, ["1", "2", "3b"], "forgetting the one leaves the other");
}

async fn a_fork_is_refused_where_there_is_nothing_to_share(store: &Store) {
    conversation_of(store, "a", &[user_message("1")]).await;
    conversation_of(store, "b", &[user_message("another")]).await;
    assert!(!store.fork("a", 1, "b", &Json::object()).await.unwrap());
    assert!(!store.fork("a", 1, "a", &Json::object()).await.unwrap());
    for (from, length, kept, cause) in [
        ("nobody", 0, Json::object(), "unknown conversation \"nobody\""),
        ("a", 2, Json::object(), "the conversation \"a\" has 1 messages, not 2"),
        ("a", 1, Json::Null, "must be an object, not null"),
    ] {
        let error = store.fork(from, length, "c", &kept).await.unwrap_err().to_string();
        assert!(error.contains("fork a conversation") && error.contains(cause), "{error}");
    }
    assert_eq!(store.conversation("c").await.unwrap(), None);
    assert_eq!(texts(store, "b").await, ["another"]);
}

async fn a_forgotten_conversation_leaves_nothing(store: &Store) {
    conversation_of(store, "a", &[user_message("secret")]).await;
    conversation_of(store, "b", &[user_message("other")]).await;
    begin(store, "r", "a", 1, &[]).await;
    let state = json("1");
    assert!(
        store.keep_step(&RunStep { checkpoint: Some(("m", &state)), ..step("r", 0, &[]) }).await.unwrap()
    );
    let checkpoint = store.latest_checkpoint("r").await.unwrap().unwrap();
    assert!(store.forget_conversation("a").await.unwrap());
    assert!(!store.keep_step(&step("r", 1, &[user_message("late")])).await.unwrap(), "its run is gone");
    assert_eq!(store.conversation("a").await.unwrap(), None);
    assert_eq!(store.messages("a", 0, 10).await.unwrap(), []);
    assert_eq!(store.run("r").await.unwrap(), None);
    assert_eq!(store.checkpoint(&checkpoint.id).await.unwrap(), None);
    assert_eq!(store.runs(None, None, 10).await.unwrap().len(), 1);
    assert_eq!(texts(store, "b").await, ["other"]);
    conversation_of(store, "a", &[user_message("anew")]).await;
    assert_eq!(texts(store, "a").await, ["anew"]);
}

async fn no_host_has_to_notice_what_is_said(store: &Store) {
    conversation_of(store, "a", &[user_message("1")]).await;
    store.fork("a", 1, "b", &Json::object()).await.unwrap();
    store.forget_conversation("a").await.unwrap();
    assert_eq!(store.generation().await.unwrap(), 0);
}
