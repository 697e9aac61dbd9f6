//! Every callback of seeds 000 and 002: its time, arguments, count and order, including over a pause.

use super::*;
use crate::kernel::calls;
use parking_lot::Mutex;
use valvehouse::agent::Decision;
use valvehouse::agent::callbacks::{Callback, CallbackEvent, Callbacks};
use valvehouse::error::Error;

type Log = Arc<Mutex<Vec<CallbackEvent>>>;

/// Returns callbacks that record every event.
fn all() -> (Callbacks, Log) {
    let log = Log::default();
    let callbacks = Callback::ALL.into_iter().fold(Callbacks::new(), |callbacks, callback| {
        let log = log.clone();
        callbacks.on(callback, move |event| log.lock().push(event.clone()))
    });
    (callbacks, log)
}

fn looks() -> Vec<Reply> {
    vec![calls("let me see", &[("weather", r#"{"city":"Oslo"}"#)]), "warm".into()]
}

fn down() -> Reply {
    Reply::error(Error::Unanswered { message: "it is down".into(), sent: false, timeout: false })
}

/// Returns the events of one run with these model replies.
async fn log_of(replies: Vec<Reply>, change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Log {
    let (callbacks, log) = all();
    let mut agent =
        change(agent(replies).0.name("Ann").tool(weather()).callbacks(callbacks)).build().unwrap();
    let _ = agent.run("how is it?").await;
    log
}

/// Returns the events of one callback.
async fn events(callback: &str) -> Vec<Json> {
    of(&log_of(looks(), |builder| builder).await, callback)
}

fn of(log: &Log, callback: &str) -> Vec<Json> {
    let log = log.lock();
    log.iter()
        .filter(|event| event.callback.name() == callback)
        .map(|event| event.data.deep_clone())
        .collect()
}

fn names(log: &Log) -> Vec<&'static str> {
    log.lock().iter().map(|event| event.callback.name()).collect()
}

fn failing() -> Tool {
    Tool::from_json_fn("weather", |_| Err("no sky".into())).tag("retriever")
}

#[tokio::test]
async fn callbacks_report_each_event_of_a_run_once_and_in_order() {
    let expected = "on_turn_start on_llm_start on_llm_call on_llm_end on_text on_agent_action \
        on_tool_start on_tool_call on_tool_end on_llm_start on_llm_call on_llm_end on_text on_agent_finish \
        on_turn_end";
    let log = log_of(looks(), |builder| builder).await;
    assert_eq!(names(&log).join(" "), expected);
    let run = log.lock()[0].run_id.clone();
    assert!(log.lock().iter().all(|event| event.agent_id == "a-1" && event.agent_name == "Ann"));
    assert!(log.lock().iter().all(|event| event.run_id == run && event.timestamp > 1_700_000_000_000));
}

#[tokio::test]
async fn on_turn_start_reports_the_input_of_a_run() {
    let events = events("on_turn_start").await;
    assert_eq!(
        (events.len(), lines_of(&events[0].get("input").unwrap())),
        (1, vec!["user: how is it?".into()])
    );
}

#[tokio::test]
async fn on_turn_end_reports_the_answer() {
    let events = events("on_turn_end").await;
    let text = events[0].at_path("result.choices.0.message.content");
    assert_eq!((events.len(), text), (1, "warm".into()));
}

#[tokio::test]
async fn on_turn_error_reports_why_a_run_failed() {
    let log = log_of(vec![down()], |builder| builder).await;
    let events = of(&log, "on_turn_error");
    assert_eq!((events.len(), events[0].text("error").unwrap().contains("down")), (1, true));
    assert!(of(&log, "on_turn_end").is_empty() && of(&log, "on_agent_finish").is_empty());
}

#[tokio::test]
async fn on_llm_start_reports_the_messages_for_the_model_once_a_round() {
    let events = events("on_llm_start").await;
    assert_eq!(events.len(), 2);
    assert_eq!(lines_of(&events[1].get("messages").unwrap()).len(), 3);
}

#[tokio::test]
async fn on_llm_call_reports_the_request_after_all_filters_with_the_model() {
    let events = events("on_llm_call").await;
    assert_eq!((events.len(), events[0].text("model").unwrap().as_str()), (2, "a-1"));
    assert_eq!(lines_of(&events[0].get("messages").unwrap()), ["user: how is it?"]);
}

#[tokio::test]
async fn on_llm_end_reports_the_answer_once_a_round() {
    let events = events("on_llm_end").await;
    let reasons = events.iter().map(|data| data.at_path("response.choices.0.finish_reason"));
    assert_eq!(reasons.collect::<Vec<_>>(), ["tool_calls".into(), "stop".into()]);
}

#[tokio::test]
async fn on_llm_error_reports_why_the_model_call_failed() {
    let log = log_of(vec![down()], |builder| builder).await;
    assert_eq!(of(&log, "on_llm_error").len(), 1);
    assert!(of(&log, "on_llm_end").is_empty());
}

#[tokio::test]
async fn on_token_reports_each_text_chunk_of_a_stream() {
    let (callbacks, log) = all();
    let mut agent = agent([Reply::chunks(["wa", "rm"])]).0.callbacks(callbacks).build().unwrap();
    let mut stream = agent.stream("how is it?");
    let mut stream_text = Vec::new();
    while let Some(chunk) = stream.next().await {
        stream_text.push(chunk.unwrap().text());
    }
    assert_eq!(stream.response().unwrap().text(), "warm");
    assert_eq!(stream_text.concat(), "warm");
    let tokens: Vec<_> = of(&log, "on_token").iter().map(|data| data.text("token").unwrap()).collect();
    assert_eq!(tokens, ["wa", "rm"]);
    assert_eq!(of(&log, "on_llm_start").len(), 1, "the model is called once");
}

#[tokio::test]
async fn on_token_reports_nothing_for_an_answer_that_is_not_streamed() {
    assert!(events("on_token").await.is_empty());
}

#[tokio::test]
async fn on_text_reports_each_text_of_the_model() {
    let texts: Vec<_> = events("on_text").await.iter().map(|data| data.text("text").unwrap()).collect();
    assert_eq!(texts, ["let me see", "warm"]);
}

#[tokio::test]
async fn on_agent_action_reports_the_tool_calls_of_the_model() {
    let events = events("on_agent_action").await;
    assert_eq!((events.len(), events[0].at_path("tool_calls.0.function.name")), (1, "weather".into()));
}

#[tokio::test]
async fn on_agent_finish_reports_the_final_text_once() {
    let events = events("on_agent_finish").await;
    assert_eq!(Json::from(events).to_string(), r#"[{"text":"warm"}]"#);
}

#[tokio::test]
async fn on_tool_start_reports_the_next_tool() {
    let events = events("on_tool_start").await;
    let expected = r#"[{"tool":"weather","args":{"city":"Oslo"},"tool_call_id":"call_0"}]"#;
    assert_eq!(Json::from(events).to_string(), expected);
}

#[tokio::test]
async fn on_tool_call_reports_the_call_after_all_filters() {
    let events = events("on_tool_call").await;
    assert_eq!(Json::from(events).to_string(), r#"[{"tool":"weather","args":{"city":"Oslo"}}]"#);
}

#[tokio::test]
async fn on_tool_end_reports_the_result_as_the_model_reads_it() {
    let events = events("on_tool_end").await;
    assert_eq!((events.len(), events[0].text("result").unwrap().as_str()), (1, "sunny in Oslo"));
}

#[tokio::test]
async fn on_tool_error_reports_why_a_tool_failed() {
    let log = log_of(looks(), |builder| builder.tool(failing())).await;
    let events = of(&log, "on_tool_error");
    assert_eq!((events.len(), events[0].text("error").unwrap().contains("no sky")), (1, true));
    assert!(of(&log, "on_tool_end").is_empty());
}

#[tokio::test]
async fn on_retriever_start_reports_calls_of_retrieval_tools() {
    let log = log_of(looks(), |builder| builder.tool(weather().tag("retriever"))).await;
    assert_eq!(of(&log, "on_retriever_start"), of(&log, "on_tool_start"));
    assert!(events("on_retriever_start").await.is_empty(), "and of no others");
}

#[tokio::test]
async fn on_retriever_end_reports_the_retrieved_documents() {
    let log = log_of(looks(), |builder| builder.tool(weather().tag("retriever"))).await;
    assert_eq!((of(&log, "on_retriever_end").len(), of(&log, "on_retriever_error").len()), (1, 0));
    assert_eq!(of(&log, "on_retriever_end"), of(&log, "on_tool_end"));
}

#[tokio::test]
async fn on_retriever_error_reports_failed_retrievals() {
    let log = log_of(looks(), |builder| builder.tool(failing())).await;
    assert_eq!((of(&log, "on_retriever_end").len(), of(&log, "on_retriever_error").len()), (0, 1));
}

#[tokio::test]
async fn on_retry_reports_that_a_model_is_called_again() {
    let retry = json(r#"{"max_retries":2,"initial_delay_ms":1,"max_delay_ms":1}"#);
    let log = log_of(vec![down(), "warm".into()], |builder| builder.middleware(("model_retry", retry))).await;
    let events = of(&log, "on_retry");
    assert_eq!(
        (events.len(), events[0].get("attempt"), events[0].get("max_retries")),
        (1, Some(1_i64.into()), Some(2_i64.into()))
    );
    assert!(events[0].text("error").unwrap().contains("down"));
    assert_eq!(of(&log, "on_llm_start").len(), 1);
}

#[tokio::test]
async fn on_custom_event_reports_events_of_the_application() {
    let (callbacks, log) = all();
    let agent = agent(["hi"]).0.callbacks(callbacks).build().unwrap();
    agent.emit_custom_event("lunch", &json(r#"{"at":12}"#));
    let events = of(&log, "on_custom_event");
    assert_eq!(Json::from(events).to_string(), r#"[{"name":"lunch","data":{"at":12}}]"#);
}

/// Returns the events of a run that waits and continues, in the same agent or in another one with the same
/// callbacks.
async fn over_a_pause(decision: Decision, elsewhere: bool) -> Log {
    let (callbacks, log) = all();
    let make = |replies: Vec<Reply>| {
        let builder = agent(replies).0.name("Ann").tool(weather()).callbacks(callbacks.clone());
        asking(builder).build().unwrap()
    };
    let mut agent = make(looks());
    agent.run("how is it?").await.unwrap();
    let text = agent.export_state().to_string();
    if elsewhere {
        agent = make(vec!["warm".into()]);
        agent.import_state(&json(&text)).unwrap();
    }
    agent.resume(decision).await.unwrap();
    log
}

#[tokio::test]
async fn on_interrupt_reports_the_pending_question_without_finishing_the_run() {
    let log = log_of(looks(), asking).await;
    let events = of(&log, "on_interrupt");
    assert_eq!((events.len(), events[0].at_path("pending.question.data.tool")), (1, "weather".into()));
    assert_eq!(names(&log).last(), Some(&"on_interrupt"));
}

#[tokio::test]
async fn on_resume_reports_the_decision() {
    let log = over_a_pause(Decision::Reject { reason: Some("no".into()) }, false).await;
    let events = of(&log, "on_resume");
    let expected = r#"[{"decision":{"decision":"reject","reason":"no"}}]"#;
    assert_eq!(Json::from(events).to_string(), expected);
}

#[tokio::test]
async fn each_event_is_reported_once_across_a_pause() {
    let expected = "on_turn_start on_llm_start on_llm_call on_llm_end on_text on_agent_action \
        on_tool_start on_interrupt on_resume on_tool_call on_tool_end on_llm_start on_llm_call on_llm_end \
        on_text on_agent_finish on_turn_end";
    for elsewhere in [false, true] {
        let log = over_a_pause(Decision::Approve { arguments: None }, elsewhere).await;
        // The approval asks after the callback that comes last.
        let names: Vec<_> = names(&log);
        let mut sorted = names.clone();
        sorted.sort_unstable();
        let mut once: Vec<_> = expected.split_whitespace().collect();
        once.sort_unstable();
        assert_eq!(sorted, once, "{names:?}");
        let at = |name: &str| names.iter().position(|own| *own == name).unwrap();
        assert!(at("on_interrupt") < at("on_resume") && at("on_resume") < at("on_tool_end"));
        let run = log.lock()[0].run_id.clone();
        assert!(log.lock().iter().all(|event| event.run_id == run));
    }
}
