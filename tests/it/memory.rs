//! Models with a memory: a chat id continues the conversation.

use crate::host::{TestHost, until};
use crate::upstream::{MODEL, Reply, UpstreamRequest, chunk};
use serde_json::{Value, json};
use valvehouse::agent::Decision;
use valvehouse::kernel::{RunOptions, TurnEvent};
use valvehouse::store::RunStatus;

const REMEMBERS: &str = "[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true\ntools = [\"*\"]";

const PAY: &str = r#"
const tool = #{ description: "Pays.", parameters: #{ amount: #{ type: "integer", required: true } } };
fn handler(args) { #{ paid: args.amount } }
"#;

/// Asks for approval before every payment.
const ASKS: &str = r#"
fn pre_invocation(ctx) {
    let answer = ask(#{ type: "approval", data: #{ tool: ctx.tool.name, arguments: ctx.args } });
    if answer.approved != true { return skip(#{ error: "rejected", reason: answer.reason }); }
    ctx
}
"#;

/// Counts the user messages; calls `pay` if the last one asks for it.
fn model(request: &UpstreamRequest) -> Reply {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    let users = messages.iter().filter(|message| message["role"] == "user").count();
    let text = last["content"].as_str().unwrap_or_default();
    let message = match (last["role"].as_str(), text.strip_prefix("pay ")) {
        (Some("user"), Some(amount)) => json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": format!("call_{users}"), "type": "function",
             "function": {"name": "pay", "arguments": format!("{{\"amount\":{amount}}}")}}]}),
        (Some("tool"), _) => json!({"role": "assistant", "content": format!("done: {text}")}),
        _ => json!({"role": "assistant", "content": format!("answer {users}")}),
    };
    let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}]}))
}

async fn host(setup: crate::host::Setup) -> TestHost {
    let host = setup.config(REMEMBERS).start().await;
    host.upstream.script(model);
    host
}

fn chat_request(chat: &str, texts: &[(&str, &str)]) -> Value {
    let messages: Vec<Value> =
        texts.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
    json!({"model": "assistant", "chat_id": chat, "messages": messages})
}

/// Returns the role and the text of a conversation's messages.
async fn remembered(host: &TestHost, chat: &str) -> Vec<String> {
    let messages = host.store().messages(chat, 0, 10_000).await.unwrap();
    let messages: Vec<Value> =
        messages.iter().map(|message| serde_json::from_str(&message.to_string()).unwrap()).collect();
    let word = |message: &Value| {
        let text = match message["tool_calls"].as_array() {
            Some(calls) => format!("calls {}", calls[0]["function"]["name"].as_str().unwrap()),
            None => message["content"].as_str().unwrap_or_default().to_owned(),
        };
        format!("{}: {text}", message["role"].as_str().unwrap())
    };
    messages.iter().map(word).collect()
}

#[tokio::test]
async fn new_messages_continue_the_stored_conversation() {
    let host = host(TestHost::new()).await;
    assert_eq!(host.chat(&chat_request("a", &[("user", "one")])).await.text(), "answer 1");
    let answer = host.chat(&chat_request("a", &[("user", "two")])).await;
    assert_eq!(answer.text(), "answer 2");
    assert_eq!(answer.header("x-valvehouse-chat-id"), Some("a"));
    assert!(answer.header("x-valvehouse-run").is_some());
    assert_eq!(
        host.chat(&chat_request("b", &[("user", "one")])).await.text(),
        "answer 1",
        "another conversation"
    );
    let all = ["user: one", "assistant: answer 1", "user: two", "assistant: answer 2"];
    assert_eq!(remembered(&host, "a").await, all);
}

#[tokio::test]
async fn a_client_that_resends_history_adds_only_new_messages() {
    let host = host(TestHost::new()).await;
    let mut history = vec![("system", "be kind"), ("user", "one")];
    assert_eq!(host.chat(&chat_request("a", &history)).await.text(), "answer 1");
    history.extend([("assistant", "answer 1"), ("user", "two")]);
    let mut body = chat_request("a", &history);
    body["stream"] = true.into();
    host.upstream.reply(Reply::text("answer 2"));
    assert_eq!(host.chat(&body).await.text(), "answer 2");
    assert_eq!(
        remembered(&host, "a").await,
        ["system: be kind", "user: one", "assistant: answer 1", "user: two", "assistant: answer 2"]
    );
    let seen = host.upstream.last().json();
    assert_eq!(seen["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn the_model_receives_only_the_latest_system_message() {
    let host = host(TestHost::new()).await;
    let (mut history, clocks) = (Vec::new(), ["it is one", "it is two", "it is three", "it is three"]);
    let answers: Vec<String> = (1..=clocks.len()).map(|turn| format!("answer {turn}")).collect();
    for (clock, answer) in clocks.iter().zip(&answers) {
        history.push(("user", "and now?"));
        let all = [vec![("system", *clock)], history.clone()].concat();
        assert_eq!(host.chat(&chat_request("a", &all)).await.text(), *answer);
        let seen = host.upstream.last().json()["messages"].as_array().unwrap().clone();
        let systems: Vec<&Value> = seen.iter().filter(|message| message["role"] == "system").collect();
        assert_eq!(systems, [&json!({"role": "system", "content": clock})]);
        assert_eq!(seen.len(), all.len());
        history.push(("assistant", answer));
    }
    let remembered = remembered(&host, "a").await;
    assert_eq!(remembered.iter().filter(|line| line.starts_with("system: ")).count(), 3, "all are kept");
}

#[tokio::test]
async fn an_edited_message_starts_a_branch_and_keeps_the_original() {
    let host = host(TestHost::new()).await;
    host.chat(&chat_request("a", &[("user", "one")])).await;
    host.chat(&chat_request("a", &[("user", "two")])).await;
    let edited = [("user", "one"), ("assistant", "answer 1"), ("user", "deux")];
    let answer = host.chat(&chat_request("a", &edited)).await;
    assert_eq!((answer.text().as_str(), answer.header("x-valvehouse-chat-id")), ("answer 2", Some("a~1")));
    assert_eq!(remembered(&host, "a").await.len(), 4);
    // Each branch continues for the client that repeats it.
    let more = [edited.to_vec(), vec![("assistant", "answer 2"), ("user", "trois")]].concat();
    assert_eq!(host.chat(&chat_request("a", &more)).await.header("x-valvehouse-chat-id"), Some("a~1"));
    assert_eq!(remembered(&host, "a~1").await.len(), 6);
}

#[tokio::test]
async fn a_conversation_belongs_to_its_user() {
    let host = host(TestHost::new()).await;
    let mut body = chat_request("a", &[("user", "one")]);
    body["user"] = "ann".into();
    assert_eq!(host.chat(&body).await.status, 200);
    body["user"] = "bob".into();
    host.chat(&body).await.refused(403, "belongs to another user");
    // Bob cannot start a conversation under Ann's chat id either.
    body["messages"] = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"},
        {"role": "user", "content": "z"}]);
    host.chat(&body).await.refused(403, "belongs to another user");
    assert_eq!(remembered(&host, "a").await.len(), 2);
    body["user"] = "ann".into();
    assert_eq!(host.chat(&body).await.header("x-valvehouse-chat-id"), Some("a~1"));
}

#[tokio::test]
async fn a_run_waits_for_a_person_and_continues_after_the_decision() {
    let host = host(TestHost::new().filter("asks", ASKS).tool("pay", PAY)).await;
    for (decision, result, expected) in [
        (Decision::Approve { arguments: None }, r#"done: {"paid":5}"#, "paid"),
        (
            Decision::Reject { reason: Some("too much".into()) },
            r#"done: {"error":"rejected","reason":"too much"}"#,
            "too much",
        ),
        (
            Decision::Approve { arguments: Some(valvehouse::json::Json::parse(b"{\"amount\":2}").unwrap()) },
            r#"done: {"note":"a person changed the arguments of this call before it ran","arguments":{"amount":2},"result":{"paid":2}}"#,
            "changed",
        ),
    ] {
        let chat = format!("c-{expected}");
        let waits = host.chat(&chat_request(&chat, &[("user", "pay 5")])).await;
        assert!(waits.text().contains("asks whether `pay` may run with {\"amount\":5}"), "{}", waits.text());
        let run = waits.header("x-valvehouse-run").unwrap().to_owned();
        assert_eq!(waits.json()["pending_action"]["question"]["data"]["arguments"], json!({"amount": 5}));
        let stored = host.store().run(&run).await.unwrap().unwrap();
        assert_eq!(stored.status, RunStatus::Paused);
        let requests_before = host.upstream.requests().len();
        let ended = host.resume_run(&run, decision).await.unwrap();
        let answer: Value = serde_json::from_str(&ended.response.to_string()).unwrap();
        assert_eq!(answer["choices"][0]["message"]["content"], result);
        assert_eq!(
            host.upstream.requests().len(),
            requests_before + 1,
            "the model is not called again for its answer"
        );
        let all = remembered(&host, &chat).await;
        assert_eq!(all[..2], ["user: pay 5", "assistant: calls pay"]);
        assert_eq!(all[2..], [format!("tool: {}", &result[6..]), format!("assistant: {result}")]);
        let again = host.resume_run(&run, Decision::Retry).await;
        assert!(again.unwrap_err().to_string().contains("done"), "it is over");
    }
}

#[tokio::test]
async fn a_new_message_instead_of_a_decision_cancels_the_call() {
    let host = host(TestHost::new().filter("asks", ASKS).tool("pay", PAY)).await;
    let waits = host.chat(&chat_request("a", &[("user", "pay 5")])).await;
    let run = waits.header("x-valvehouse-run").unwrap().to_owned();
    // Clients that send the whole conversation repeat the text that was sent in place of a response.
    let text = waits.text();
    let all = [("user", "pay 5"), ("assistant", text.as_str()), ("user", "never mind")];
    assert_eq!(host.chat(&chat_request("a", &all)).await.text(), "answer 2");
    let remembered = remembered(&host, "a").await;
    assert_eq!(remembered[..2], ["user: pay 5", "assistant: calls pay"]);
    assert!(remembered[2].starts_with("tool: {\"error\":\"cancelled\""), "{remembered:?}");
    assert_eq!(remembered[3..], ["user: never mind", "assistant: answer 2"]);
    let gone = host.resume_run(&run, Decision::Approve { arguments: None });
    assert!(gone.await.unwrap_err().to_string().contains("cancelled"));
}

#[tokio::test]
async fn a_client_that_missed_the_answer_after_a_pause_continues() {
    let host = host(TestHost::new().filter("asks", ASKS).tool("pay", PAY)).await;
    let waits = host.chat(&chat_request("a", &[("user", "pay 5")])).await;
    let run = waits.header("x-valvehouse-run").unwrap();
    let yes = Decision::Approve { arguments: None };
    host.resume_run(run, yes).await.unwrap();
    let text = waits.text();
    let all = [("user", "pay 5"), ("assistant", text.as_str()), ("user", "thanks")];
    let answer = host.chat(&chat_request("a", &all)).await;
    assert_eq!((answer.text().as_str(), answer.header("x-valvehouse-chat-id")), ("answer 2", Some("a")));
    let remembered = remembered(&host, "a").await;
    assert_eq!(remembered[3..], ["assistant: done: {\"paid\":5}", "user: thanks", "assistant: answer 2"]);
}

#[tokio::test]
async fn a_regenerated_answer_is_a_branch_and_a_repeated_message_is_stored_again() {
    let host = host(TestHost::new()).await;
    host.chat(&chat_request("a", &[("user", "one")])).await;
    assert_eq!(host.chat(&chat_request("a", &[("user", "one")])).await.text(), "answer 2", "sent again");
    let again = [("user", "one"), ("assistant", " answer 1\n"), ("user", "one")];
    assert_eq!(host.chat(&chat_request("a", &again)).await.header("x-valvehouse-chat-id"), Some("a~1"));
    assert_eq!(remembered(&host, "a").await.len(), 4);
}

#[tokio::test]
async fn a_run_of_a_disconnected_client_can_be_resumed() {
    let host = host(TestHost::new().tool("pay", PAY)).await;
    let gate = crate::upstream::Gate::closed();
    host.upstream.reply(Reply::text("late").behind(&gate));
    let asking = tokio::spawn(host.posting(chat_request("a", &[("user", "one")]).to_string()).send());
    host.upstream.wait_for_requests(1).await;
    asking.abort();
    until("the run is left", || async {
        let runs = host.store().runs(Some("a"), Some(RunStatus::Failed), 10).await.unwrap();
        runs.iter().any(|run| run.error.contains("disconnected"))
    })
    .await;
    host.upstream.script(model);
    let run = host.store().runs(Some("a"), None, 10).await.unwrap().remove(0);
    let ended = host.resume_run(&run.id, Decision::GoOn).await.unwrap();
    assert!(ended.response.to_string().contains("answer 1"));
    assert_eq!(remembered(&host, "a").await, ["user: one", "assistant: answer 1"]);
}

#[tokio::test]
async fn a_paused_stream_ends_with_its_pending_action() {
    let host = host(TestHost::new().filter("asks", ASKS).tool("pay", PAY)).await;
    let call = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "pay", "arguments": "{\"amount\":5}"}}]});
    host.upstream.reply(Reply::raw(
        "text/event-stream",
        [
            chunk(&json!({"role": "assistant", "content": "I pay. "}), None),
            chunk(&call, None),
            chunk(&json!({}), Some("tool_calls")),
            "data: [DONE]\n\n".to_owned(),
        ]
        .concat(),
    ));
    let mut body = chat_request("a", &[("user", "pay 5")]);
    body["stream"] = true.into();
    let answer = host.chat(&body).await;
    let text = answer.text();
    let run = answer.header("x-valvehouse-run").unwrap().to_owned();
    assert!(text.starts_with("I pay. \n\nWaiting for a person: run ") && text.contains(&run), "{text}");
    assert_eq!(answer.finishes(), ["stop"]);
    host.upstream.script(|_| Reply::text("paid"));
    let yes = Decision::Approve { arguments: None };
    let mut resumed = host.app().resume(run, yes, None, RunOptions::default().streamed(true));
    let mut streamed = String::new();
    while let Some(event) = resumed.next().await {
        let event = event.unwrap();
        streamed += &event.text();
        if let TurnEvent::Answer(answer) = event {
            assert_eq!(answer.response.get("pending_action"), None);
        }
    }
    assert!(streamed.ends_with("paid"), "{streamed}");
    let all = ["user: pay 5", "assistant: calls pay", "tool: {\"paid\":5}", "assistant: paid"];
    assert_eq!(remembered(&host, "a").await, all);
}

#[tokio::test]
async fn the_anthropic_endpoint_stores_conversations() {
    let host = host(TestHost::new()).await;
    for (text, expected) in [("one", "answer 1"), ("two", "answer 2")] {
        let body = json!({"model": "assistant", "max_tokens": 100,
            "messages": [{"role": "user", "content": text}]});
        let request = host.request("POST", "/v1/messages").header("x-valvehouse-chat-id", "m");
        let answer = request.body(body.to_string()).send().await.unwrap().text().await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["content"][0]["text"], expected, "{answer}");
    }
    assert_eq!(remembered(&host, "m").await.len(), 4);
}

#[tokio::test]
async fn without_a_chat_id_nothing_is_stored_and_approvals_cannot_wait() {
    let host = host(TestHost::new().filter("asks", ASKS).tool("pay", PAY)).await;
    let mut body = chat_request("", &[("user", "one")]);
    body.as_object_mut().unwrap().remove("chat_id");
    let answer = host.chat(&body).await;
    assert_eq!((answer.text().as_str(), answer.header("x-valvehouse-run")), ("answer 1", None));
    body["messages"] = json!([{"role": "user", "content": "pay 5"}]);
    let answer = host.chat(&body).await;
    assert_eq!(answer.status, 500, "a guard that cannot ask does not let the tool run: {}", answer.body());
    assert!(host.store().conversations(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn title_and_tag_requests_of_a_client_are_not_stored() {
    let host = host(TestHost::new()).await;
    host.chat(&chat_request("a", &[("user", "one")])).await;
    let mut body = chat_request("a", &[("user", "a title for this, please")]);
    body["metadata"] = json!({"task": "title_generation", "chat_id": "a"});
    assert_eq!(host.chat(&body).await.text(), "answer 1");
    assert_eq!(remembered(&host, "a").await.len(), 2);
}
