//! The table of the graph state: one test per row, on the checkpoints of a run.

use super::*;
use crate::kernel::calls;
use valvehouse::agent::Decision;
use valvehouse::agent::callbacks::Callbacks;

/// Runs an agent that calls `weather`, with a checkpoint after each step.
async fn ran(change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> (TempDir, Agent) {
    let (folder, store) = store().await;
    let replies = [calls("let me see", &[("weather", r#"{"city":"Oslo"}"#)]), "warm".into()];
    let builder = agent(replies).0.name("Ann").tool(weather()).system_prompt("Be brief.");
    let mut agent = change(builder.storage(store).auto_checkpoint(true)).build().unwrap();
    agent.run("how is it?").await.unwrap();
    (folder, agent)
}

/// Returns the graph state after the last step with this name.
async fn after(step: &str, agent: &mut Agent) -> Json {
    let checkpoints = agent.list_checkpoints().await.unwrap();
    let names: Vec<&str> = checkpoints.iter().map(|checkpoint| checkpoint.name.as_str()).collect();
    let found = checkpoints.iter().rev().find(|checkpoint| checkpoint.name == step);
    let id = &found.unwrap_or_else(|| panic!("no {step} in {names:?}")).id;
    agent.load_checkpoint(id).await.unwrap();
    agent.graph_state()
}

async fn row(name: &str, step: &str) -> Json {
    let (_folder, mut agent) = ran(|builder| builder).await;
    after(step, &mut agent).await.get(name).unwrap_or_else(|| panic!("no {name}"))
}

#[tokio::test]
async fn the_state_has_exactly_the_documented_fields() {
    let mut rows =
        "messages full_messages system_prompt tools max_iterations iteration scratchpad callbacks \
        callback_meta last_response last_content tool_calls tool_results finish_reason context \
        compression_applied conversation_summary"
            .split_whitespace()
            .collect::<Vec<_>>();
    let (_folder, agent) = ran(|builder| builder).await;
    let state = agent.graph_state();
    let mut keys: Vec<String> = state.as_object().unwrap().keys().iter().map(ToString::to_string).collect();
    keys.sort();
    rows.sort_unstable();
    assert_eq!(keys, rows);
    let empty = super::agent(["hi"]).0.build().unwrap().graph_state();
    assert_eq!(empty.as_object().unwrap().len(), rows.len());
}

#[tokio::test]
async fn graph_state_messages_are_those_visible_to_the_model() {
    let seen = row("messages", "tool").await;
    let expected = ["user: how is it?", "assistant: calls weather", "tool: sunny in Oslo"];
    assert_eq!(lines_of(&seen), expected);
    let (_folder, mut agent) = ran(|builder| builder.middleware(("summarization", window(2)))).await;
    agent.run("and now?").await.unwrap();
    let seen = lines_of(&agent.graph_state().get("messages").unwrap());
    assert!(seen[0].contains("left out"), "{seen:?}");
    assert!(seen.len() < 5 && seen.contains(&"user: and now?".into()), "{seen:?}");
}

#[tokio::test]
async fn graph_state_full_messages_are_the_whole_conversation() {
    let (_folder, mut agent) = ran(|builder| builder.middleware(("summarization", window(1)))).await;
    let full = agent.graph_state().get("full_messages").unwrap();
    let expected = ["user: how is it?", "assistant: calls weather", "tool: sunny in Oslo", "assistant: warm"];
    assert_eq!(lines_of(&full), expected);
    let before = after("model", &mut agent).await;
    assert_eq!(lines_of(&before.get("full_messages").unwrap()), expected[..2]);
}

#[tokio::test]
async fn graph_state_system_prompt_is_that_of_the_agent() {
    assert_eq!(row("system_prompt", "model").await, "Be brief.".into());
}

#[tokio::test]
async fn graph_state_tools_are_the_schemas_for_the_model() {
    let tools = row("tools", "model").await;
    assert_eq!(tools.at_path("0.function.name"), "weather".into());
}

#[tokio::test]
async fn graph_state_max_iterations_is_that_of_the_agent() {
    let (_folder, agent) = ran(|builder| builder.max_iterations(7)).await;
    assert_eq!(agent.graph_state().get("max_iterations"), Some(7_i64.into()));
}

#[tokio::test]
async fn graph_state_iteration_counts_the_model_calls_so_far() {
    for (step, count) in [("begin", 0_i64), ("tool", 1), ("end", 2)] {
        assert_eq!(row("iteration", step).await, count.into(), "{step}");
    }
}

#[tokio::test]
async fn graph_state_scratchpad_lists_the_steps_so_far() {
    assert_eq!(row("scratchpad", "model").await.items().len(), 0);
    assert_eq!(row("scratchpad", "tool").await.at_path("0.name"), "weather".into());
}

#[tokio::test]
async fn graph_state_callbacks_list_listeners_and_their_events() {
    let listens = Callbacks::new().on_tool_start(|_| ());
    let (_folder, agent) = ran(|builder| builder.callbacks(listens)).await;
    let callbacks = agent.graph_state().get("callbacks").unwrap();
    assert_eq!(callbacks.to_string(), r#"{"on_tool_start":["rust"]}"#);
}

#[tokio::test]
async fn graph_state_callback_meta_names_the_run() {
    let (_folder, agent) = ran(|builder| builder).await;
    let meta = agent.graph_state().get("callback_meta").unwrap();
    let run = agent.state().run_id.clone().unwrap();
    assert_eq!([meta.text("agent_id").unwrap(), meta.text("agent_name").unwrap()], ["a-1", "Ann"]);
    assert_eq!(meta.text("run_id").unwrap(), run);
    assert_eq!(meta.text("chat_id").unwrap(), agent.conversation());
}

#[tokio::test]
async fn graph_state_last_response_is_the_latest_answer_of_the_model() {
    assert!(row("last_response", "begin").await.is_null());
    let answer = row("last_response", "tool").await;
    assert_eq!(answer.text("object").as_deref(), Some("chat.completion"));
}

#[tokio::test]
async fn graph_state_last_content_is_the_text_of_the_latest_answer() {
    assert!(row("last_content", "begin").await.is_null());
    assert_eq!(row("last_content", "tool").await, "let me see".into());
    assert_eq!(row("last_content", "end").await, "warm".into());
}

#[tokio::test]
async fn graph_state_tool_calls_are_the_pending_calls() {
    let calls = row("tool_calls", "model").await;
    assert_eq!(calls.at_path("0.function.name"), "weather".into());
    assert!(row("tool_calls", "tool").await.is_empty());
}

#[tokio::test]
async fn graph_state_tool_results_are_those_of_the_latest_answer() {
    assert!(row("tool_results", "model").await.is_empty());
    assert_eq!(lines_of(&row("tool_results", "tool").await), ["tool: sunny in Oslo"]);
}

#[tokio::test]
async fn graph_state_finish_reason_is_that_of_the_latest_answer() {
    assert_eq!(row("finish_reason", "tool").await, "tool_calls".into());
    assert_eq!(row("finish_reason", "end").await, "stop".into());
}

#[tokio::test]
async fn graph_state_context_is_shared_with_tools_and_filters() {
    let counts = |builder: AgentBuilder| {
        let variables = json(r#"{"user_id":"u123"}"#);
        builder.variables(variables)
    };
    let (_folder, mut agent) = ran(counts).await;
    assert_eq!(after("tool", &mut agent).await.at_path("context.user_id"), "u123".into());
}

#[tokio::test]
async fn graph_state_compression_applied_is_true_after_compression() {
    assert_eq!(row("compression_applied", "end").await, false.into());
    let (_folder, agent) = ran(|builder| builder.middleware(("summarization", window(1)))).await;
    assert_eq!(agent.graph_state().get("compression_applied"), Some(true.into()));
}

#[tokio::test]
async fn graph_state_conversation_summary_replaces_the_old_messages() {
    assert!(row("conversation_summary", "end").await.is_null());
    // The canned model writes the summary in its third reply.
    let options = json(r#"{"window_size":1,"compress_threshold":4,"summarize":true}"#);
    let (_folder, mut agent) = ran(|builder| builder.middleware(("summarization", options))).await;
    agent.run("and now?").await.unwrap();
    let state = agent.graph_state();
    assert_eq!(state.get("conversation_summary"), Some("warm".into()));
    let seen = lines_of(&state.get("messages").unwrap());
    assert!(seen[0].contains("Summary of the first 4 messages") && seen[0].contains("warm"), "{seen:?}");
    assert_eq!(seen[1..], ["user: and now?"]);
}

#[tokio::test]
async fn a_paused_run_shows_its_pending_action() {
    let (_folder, mut agent) = ran(asking).await;
    let state = agent.graph_state();
    assert_eq!(state.at_path("tool_calls.0.function.name"), "weather".into());
    assert!(state.get("tool_results").unwrap().is_empty());
    agent.resume(Decision::Reject { reason: Some("no".into()) }).await.unwrap();
    assert_eq!(agent.graph_state().get("iteration"), Some(2_i64.into()));
}
