//! Variables across the runs of an agent: what a filter, a tool or the caller sets is visible to the next
//! one.

use super::*;
use crate::kernel::{calls, counter, texts_by_role};
use valvehouse::filter::{self, Verdict};

/// Returns the replies of two runs, each with two calls of `count`.
fn counts() -> Vec<Reply> {
    let round = || vec![calls("", &[("count", "{}"), ("count", "{}")]), Reply::text("done")];
    [round(), round()].concat()
}

fn number(agent: &Agent) -> Option<Json> {
    agent.variables().get("counter")
}

#[tokio::test]
async fn tools_pass_the_context_to_later_calls_and_runs() {
    let (_folder, store) = store().await;
    for storage in [None, Some(store)] {
        let (mut builder, model) = agent(counts());
        if let Some(store) = storage {
            builder = builder.storage(store).auto_checkpoint(true);
        }
        let mut agent = builder.tool(counter()).build().unwrap();
        agent.run("count").await.unwrap();
        assert_eq!(texts_by_role(&model.requests()[1], "tool"), ["1", "2"]);
        agent.run("count").await.unwrap();
        assert_eq!(texts_by_role(&model.requests()[3], "tool"), ["1", "2", "3", "4"]);
        assert_eq!(number(&agent), Some(4_i64.into()));
    }
}

#[tokio::test]
async fn the_caller_sets_variables_between_runs() {
    let mut agent = agent(counts()).0.tool(counter()).variables(json(r#"{"counter":10}"#)).build().unwrap();
    agent.run("count").await.unwrap();
    assert_eq!(number(&agent), Some(12_i64.into()));
    agent.set_variable("counter", 100_i64);
    agent.run("count").await.unwrap();
    assert_eq!(number(&agent), Some(102_i64.into()));
}

#[tokio::test]
async fn a_filter_rejects_a_chat_based_on_variables() {
    let auth = || {
        filter::pre_chat("auth", |ctx| {
            let may = ctx.context().get_or("permissions", Json::array()).items().contains(&"chat".into());
            Ok(if may { Verdict::Continue } else { Verdict::Reject("unauthorized".into()) })
        })
    };
    let (builder, model) = agent(["hi"]);
    let mut agent = builder.filter(auth()).build().unwrap();
    let refused = agent.run("hello").await.unwrap_err();
    assert!(refused.to_string().contains("unauthorized") && model.requests().is_empty());
    agent.set_variable("permissions", json(r#"["read","chat"]"#));
    assert_eq!(agent.run("hello").await.unwrap().text(), "hi");
}

#[tokio::test]
async fn a_tool_reads_the_owner_of_its_agent() {
    let tool = Tool::from_json_fn_with_context("who", |_, context| Ok(context.get_or("user_id", "").into()));
    let (builder, model) = agent([calls("", &[("who", "{}")]), "done".into()]);
    let mut agent = builder.tool(tool).variables(json(r#"{"user_id":"u123"}"#)).build().unwrap();
    agent.run("who am I?").await.unwrap();
    assert_eq!(texts_by_role(&model.requests()[1], "tool"), ["u123"]);
}

#[tokio::test]
async fn variables_survive_the_process_and_a_pause() {
    let (_folder, store) = store().await;
    let make = |replies: Vec<Reply>| {
        let builder = asking(agent(replies).0.tool(counter())).conversation("c");
        builder.storage(store.clone()).auto_checkpoint(true).build().unwrap()
    };
    let mut first = make(counts());
    first.set_variable("counter", 5_i64);
    first.run("count").await.unwrap();
    let mut second = make(vec!["done".into()]);
    second.load_latest().await.unwrap();
    for _ in 0..2 {
        second.resume(valvehouse::agent::Decision::Approve { arguments: None }).await.unwrap();
    }
    assert_eq!(number(&second), Some(7_i64.into()));
}
