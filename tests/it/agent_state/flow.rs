//! The two tracks of messages: their flow through a run and their invariants.

use super::*;
use crate::kernel::{calls, texts_by_role};
use parking_lot::Mutex;
use valvehouse::agent::callbacks::Callbacks;
use valvehouse::agent::summary::Summarization;
use valvehouse::filter::{self, Verdict::Continue};

fn looks() -> Vec<Reply> {
    vec![calls("", &[("weather", r#"{"city":"Oslo"}"#)]), "warm".into()]
}

#[tokio::test]
async fn an_agent_run_follows_the_documented_flow() {
    let (_folder, store) = store().await;
    let (builder, model) = agent(looks());
    let builder = builder.tool(weather()).middleware(("summarization", window(2)));
    let mut agent = builder.storage(store).auto_checkpoint(true).build().unwrap();
    // `State.messages` is the history.
    let history =
        vec![message::user("one"), message::assistant("1"), message::user("two"), message::assistant("2")];
    let before = lines(&history);
    let new = vec![message::user("how is it?")];
    agent.run_messages([history, new].concat(), None).await.unwrap();
    // At the start, all messages are the history and the new message.
    let all = [before, vec!["user: how is it?".into()]].concat();
    // The request to the model is shortened; the call and its result are appended to all messages.
    let requests = model.requests();
    assert!(
        sent(&requests[0]).len() < all.len() && sent(&requests[0]).ends_with(&["user: how is it?".into()])
    );
    assert!(sent(&requests[1]).ends_with(&["assistant: calls weather".into(), "tool: sunny in Oslo".into()]));
    // `State.messages` equals `full_messages`.
    let more = ["assistant: calls weather", "tool: sunny in Oslo", "assistant: warm"].map(String::from);
    let full = [all, more.to_vec()].concat();
    assert_eq!(lines(&agent.state().messages), full);
    assert_eq!(lines_of(&agent.graph_state().get("full_messages").unwrap()), full);
}

#[tokio::test]
async fn compression_affects_only_the_messages_for_the_model() {
    let (builder, model) = agent(["yes"]);
    let last = filter::pre_chat("last", |ctx| {
        ctx.set_messages(vec![message::user("short")]);
        Ok(Continue)
    });
    let mut agent = builder.filter(last).build().unwrap();
    agent.run("one").await.unwrap();
    agent.run("two").await.unwrap();
    assert_eq!(sent(&model.requests()[1]), ["user: short"]);
    assert_eq!(
        lines(&agent.state().messages),
        ["user: one", "assistant: yes", "user: two", "assistant: yes"]
    );
}

#[tokio::test]
async fn the_whole_history_is_stored_regardless_of_compression() {
    let (_folder, store) = store().await;
    let (builder, _) = agent(["yes"]);
    let builder =
        builder.middleware(("summarization", window(1))).storage(store.clone()).auto_checkpoint(true);
    let mut agent = builder.build().unwrap();
    for number in 0..20 {
        agent.run(&number.to_string()).await.unwrap();
    }
    let stored = store.messages(agent.conversation(), 0, 99).await.unwrap();
    let expected: Vec<String> =
        (0..20).flat_map(|number| [format!("user: {number}"), "assistant: yes".into()]).collect();
    assert_eq!(lines(&stored), expected);
}

#[tokio::test]
async fn new_messages_are_added_to_both_tracks() {
    let mut agent = agent(looks()).0.tool(weather()).build().unwrap();
    agent.run("how is it?").await.unwrap();
    let graph = agent.graph_state();
    let full = lines_of(&graph.get("full_messages").unwrap());
    assert_eq!(full.len(), 4);
    assert_eq!(lines_of(&graph.get("messages").unwrap()), full[..3], "the answer ends the run");
}

#[tokio::test]
async fn a_restored_checkpoint_has_the_whole_history_and_is_compressed_again() {
    let (_folder, store) = store().await;
    let make = || {
        let (builder, model) = agent(["yes"]);
        let builder = builder.middleware(("summarization", window(2))).conversation("c");
        (builder.storage(store.clone()).auto_checkpoint(true).build().unwrap(), model)
    };
    let (mut first, _) = make();
    for text in ["one", "two", "three"] {
        first.run(text).await.unwrap();
    }
    let (mut second, model) = make();
    second.load_latest().await.unwrap();
    assert_eq!(lines(&second.state().messages), lines(&first.state().messages));
    second.run("four").await.unwrap();
    assert!(sent(&model.requests()[0]).len() < 6);
    assert_eq!(second.state().messages.len(), 8);
}

#[tokio::test]
async fn restoring_a_checkpoint_starts_a_branch_and_keeps_the_original() {
    let (_folder, store) = store().await;
    let make = || {
        let (builder, model) = agent(["yes"]);
        (builder.conversation("c").storage(store.clone()).auto_checkpoint(true).build().unwrap(), model)
    };
    let (mut stays, model) = make();
    stays.run("one").await.unwrap();
    let early = stays.list_checkpoints().await.unwrap()[0].id.clone();
    stays.run("two").await.unwrap();
    let (mut back, _) = make();
    back.load_checkpoint(&early).await.unwrap();
    back.run("deux").await.unwrap();
    assert_ne!(back.conversation(), stays.conversation());
    stays.run("three").await.unwrap();
    assert_eq!(stays.conversation(), "c");
    assert_eq!(texts_by_role(model.requests().last().unwrap(), "user"), ["one", "two", "three"]);
    assert_eq!(lines(&back.state().messages)[2], "user: deux");
    assert_eq!(lines(&store.messages("c", 0, 99).await.unwrap()), lines(&stays.state().messages));
}

#[tokio::test]
async fn the_same_message_twice_is_stored_twice() {
    let (_folder, store) = store().await;
    let failing = || valvehouse::error::Error::Provider { message: "gone".into(), timeout: false };
    for storage in [None, Some(store)] {
        let (mut builder, model) = agent([Reply::error(failing()), "yes".into()]);
        if let Some(store) = storage {
            builder = builder.storage(store).auto_checkpoint(true);
        }
        let mut agent = builder.build().unwrap();
        assert!(agent.run("hello").await.is_err());
        agent.run("hello").await.unwrap();
        assert_eq!(lines(&agent.state().messages), ["user: hello", "user: hello", "assistant: yes"]);
        assert_eq!(sent(&model.requests()[1]), ["user: hello", "user: hello"]);
    }
}

#[test]
fn summarization_has_its_documented_defaults() {
    let default = Summarization::default();
    let numbers =
        [default.window_size, default.max_tokens, default.compress_threshold, default.token_threshold];
    assert_eq!(numbers, [20, 4000, 30, 3000]);
    assert!(default.preserve_system);
}

#[tokio::test]
async fn the_documented_summarization_example_summarizes_beyond_thirty_messages() {
    let options = json(
        r#"{"window_size":20,"max_tokens":4000,"summarize":true,"compress_threshold":30,
            "token_threshold":3000,"preserve_system":true}"#,
    );
    let (builder, model) = agent(["yes"]);
    let mut agent = builder.middleware(("summarization", options)).build().unwrap();
    let mut most = 0;
    for number in 0..20 {
        agent.run(&number.to_string()).await.unwrap();
        most = most.max(sent(model.requests().last().unwrap()).len());
    }
    assert_eq!(most, 29, "thirty-one are too many");
    assert_eq!(agent.graph_state().get("compression_applied"), Some(true.into()));
    assert_eq!(agent.graph_state().get("conversation_summary"), Some("yes".into()));
    assert_eq!(agent.state().messages.len(), 40);
    assert_eq!(model.requests().len(), 21, "one of them for the summary");
}

#[tokio::test]
async fn streaming_calls_the_model_once_and_gives_the_same_answer() {
    let (builder, model) = agent(looks());
    let tokens = Arc::new(Mutex::new(String::new()));
    let token_log = tokens.clone();
    let callbacks =
        Callbacks::new().on_token(move |event| token_log.lock().push_str(&event.data.text("token").unwrap()));
    let mut agent = builder.tool(weather()).callbacks(callbacks).build().unwrap();
    let mut stream = agent.stream("how is it?");
    while stream.next().await.is_some() {}
    assert_eq!(stream.response().unwrap().text(), "warm");
    assert_eq!((model.requests().len(), tokens.lock().as_str()), (2, "warm"));
}

#[tokio::test]
async fn an_imported_agent_continues_in_an_empty_store() {
    for waits in [false, true] {
        let (_folder, first_store) = store().await;
        let (_other_folder, second_store) = store().await;
        let make = |replies: Vec<Reply>, store: Arc<Store>| {
            let builder = agent(replies).0.tool(weather()).storage(store).auto_checkpoint(true);
            if waits { asking(builder).build().unwrap() } else { builder.build().unwrap() }
        };
        let mut first = make(looks(), first_store);
        first.run("how is it?").await.unwrap();
        let exported = json(&first.export_state().to_string());
        let mut second = make(vec!["warm".into()], second_store.clone());
        second.import_state(&exported).unwrap();
        if waits {
            second.resume(valvehouse::agent::Decision::Approve { arguments: None }).await.unwrap();
        }
        second.run("and now?").await.unwrap();
        let expected =
            ["user: how is it?", "assistant: calls weather", "tool: sunny in Oslo", "assistant: warm"];
        let stored = lines(&second_store.messages(second.conversation(), 0, 99).await.unwrap());
        assert_eq!((&stored[..4], stored.len()), (expected.map(String::from).as_slice(), 6));
        assert_eq!(lines(&second.state().messages), stored);
    }
}
