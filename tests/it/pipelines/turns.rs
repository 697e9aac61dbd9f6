//! The parts of one turn: inlets, the chat, outlets.

use super::{call, post};
use crate::host::{Answer, TestHost, chat_body, streaming, until};
use crate::upstream::MODEL;
use serde_json::{Value, json};

/// Counts its calls in its state and adds what it read to the metadata.
const COUNTS: &str = r#"
fn inlet(body, state, __metadata__) {
    state.inlets = state.ensure("inlets", 0) + 1;
    __metadata__.by = "counts";
    body.messages[-1].content += " [in]";
    body
}
fn stream(event, state) { state.events = state.ensure("events", 0) + 1; event }
fn outlet(body, state, __metadata__) {
    body.messages[-1].content += ` [out ${state.ensure("inlets", 0)} ${__metadata__.by} ${state.ensure("events", 0) > 0}]`;
    body
}
"#;

fn user() -> Value {
    json!({"id": "u1", "email": "ann@example.com", "name": "Ann", "role": "user"})
}

fn outlet(chat: &str, message: &str) -> Value {
    let messages = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]);
    json!({"body": {"model": "x", "messages": messages, "chat_id": chat, "id": message}, "user": user()})
}

fn inlet(chat: &str, message: &str) -> Value {
    let metadata = json!({"chat_id": chat, "message_id": message});
    let messages = json!([{"role": "user", "content": "hi"}]);
    json!({"body": {"model": "x", "messages": messages, "metadata": metadata}, "user": user()})
}

async fn last_of(host: &TestHost, path: &str, body: &Value) -> String {
    let answer = post(host, path, body).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    let body = answer.json();
    body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn values_kept_by_an_inlet_reach_the_outlet_of_the_same_turn() {
    let host = TestHost::new().filter("counts", COUNTS).start().await;
    assert_eq!(last_of(&host, "/counts/filter/inlet", &inlet("c1", "m1")).await, "hi [in]");
    assert_eq!(
        last_of(&host, "/counts/filter/outlet", &outlet("c1", "m1")).await,
        "hello [out 1 counts false]"
    );
    for (chat, message) in [("c1", "m2"), ("c2", "m1"), ("", "")] {
        let text = last_of(&host, "/counts/filter/outlet", &outlet(chat, message)).await;
        assert_eq!(text, "hello [out 0  false]", "another turn: {chat} {message}");
    }
    let mut others = outlet("c1", "m1");
    others["user"]["id"] = json!("u2");
    assert_eq!(last_of(&host, "/counts/filter/outlet", &others).await, "hello [out 0  false]");
}

/// Sends a chat as Open WebUI does for a model of this host: the inlets, the model's own inlet, the chat.
async fn through_open_webui(host: &TestHost, key: Option<&str>, metadata: &Value, stream: bool) -> Answer {
    let mut body = chat_body(MODEL, "hi");
    body["stream"] = json!(stream);
    body["metadata"] = metadata.clone();
    body["metadata"]["model"] = json!({"id": MODEL, "pipeline": {"type": "pipe", "valves": false}});
    for id in ["counts", MODEL] {
        let path = format!("/{id}/filter/inlet");
        let answer = call(host, "POST", &path, key, Some(&json!({"body": body, "user": user()}))).await;
        assert_eq!(answer.status, 200, "{}", answer.body());
        body = answer.json();
    }
    // Open WebUI does not forward its metadata, but it sends the user to a pipe.
    body.as_object_mut().unwrap().remove("metadata");
    body["user"] = user();
    call(host, "POST", "/chat/completions", key, Some(&body)).await
}

#[tokio::test]
async fn inlets_called_one_by_one_do_not_run_again_in_the_chat() {
    let host = TestHost::new().filter("counts", COUNTS).start().await;
    let metadata = json!({"chat_id": "c1", "message_id": "m1"});

    let streamed = through_open_webui(&host, None, &metadata, true).await;
    let whole_text = "hello from upstream [out 1 counts true]";
    assert_eq!(streamed.text(), whole_text, "one turn from its inlet through its stream to its outlet");
    assert_eq!(host.upstream.last().last_text(), "hi [in]");
    assert_eq!(last_of(&host, "/counts/filter/outlet", &outlet("c1", "m1")).await, "hello");

    let whole = through_open_webui(&host, None, &json!({"chat_id": "c1", "message_id": "m2"}), false).await;
    assert_eq!(
        whole.text(),
        "hello from upstream [out 1 counts true]",
        "nothing else would change this answer"
    );
    assert_eq!(last_of(&host, "/counts/filter/outlet", &outlet("c1", "m2")).await, "hello");

    let of_api = through_open_webui(&host, None, &json!({"chat_id": "", "message_id": null}), false).await;
    assert_eq!(of_api.text(), "hello from upstream [out 1 counts true]");
    assert_eq!(host.upstream.last().last_text(), "hi [in]");

    let task = json!({"chat_id": "c1", "message_id": "m1", "task": "title_generation"});
    assert_eq!(through_open_webui(&host, None, &task, false).await.text(), "hello from upstream");
}

#[tokio::test]
async fn an_answer_of_an_inlet_is_returned_by_the_chat() {
    let host = TestHost::new().filter("counts", "fn inlet(body) { skip(`Forty-two`) }").start().await;
    let metadata = json!({"chat_id": "c1", "message_id": "m1"});
    for stream in [true, false] {
        assert_eq!(through_open_webui(&host, None, &metadata, stream).await.text(), "Forty-two");
    }
    assert!(host.upstream.requests().is_empty());
}

#[tokio::test]
async fn an_outlet_without_an_inlet_runs_once_and_on_early_answers_only_for_guards() {
    let signs = |mark: &str| format!("fn outlet(body) {{ body.messages[-1].content += \" {mark}\"; body }}");
    let counts =
        "fn inlet(body) { if body.messages[-1].content == \"no\" { return skip(\"Forty-two\"); } body }";
    let host = TestHost::new().filter("counts", counts).filter("signs", signs("signed")).start().await;
    let host_with_guard = TestHost::new()
        .filter("counts", "fn inlet(body) { skip(\"Forty-two\") }")
        .filter("signs", signs("signed"))
        .filter("guard", format!("/*\nsecurity: true\n*/\n{}", signs("seen")))
        .start()
        .await;
    for stream in [false, true] {
        let message = format!("m-{stream}");
        let metadata = json!({"chat_id": "c1", "message_id": message});
        let mut body = chat_body(MODEL, "hi");
        body["metadata"] = metadata.clone();
        body["metadata"]["model"] = json!({"id": MODEL, "pipeline": {"type": "pipe", "valves": false}});
        // Open WebUI calls the inlet of every plugin that has one of the hooks.
        post(&host, "/signs/filter/inlet", &json!({"body": body, "user": user()})).await;
        let text = through_open_webui(&host, None, &metadata, stream).await.text();
        assert_eq!(last_of(&host, "/signs/filter/outlet", &outlet("c1", &message)).await, "hello");
        assert_eq!(text.matches("signed").count(), 1, "{text}");

        let answered = through_open_webui(&host_with_guard, None, &metadata, stream).await.text();
        assert_eq!(answered, "Forty-two seen");
        let host = &host_with_guard;
        assert_eq!(last_of(host, "/signs/filter/outlet", &outlet("c1", &message)).await, "hello");
        assert_eq!(last_of(host, "/guard/filter/outlet", &outlet("c1", &message)).await, "hello seen");
    }
    assert!(host_with_guard.upstream.requests().is_empty());
}

/// Any client with a key can name users, chats and messages; only an Open WebUI with the operator's key is
/// trusted.
#[tokio::test]
async fn a_client_cannot_answer_or_skip_filters_for_the_turn_of_another() {
    let host = TestHost::new()
        .filter("counts", "fn inlet(body) { skip(`Planted`) }")
        .filter("marks", "fn inlet(body) { body.messages[-1].content += ` [marked]`; body }")
        .config("[server]\nkeys = [\"of-a-user\"]\n[admin]\nkey = \"of-an-operator\"")
        .start()
        .await;
    let mut chat = chat_body(MODEL, "hi");
    chat["metadata"] = json!({"chat_id": "c1", "message_id": "m1",
        "model": {"id": MODEL, "pipeline": {"type": "pipe", "valves": false}}});
    let asks = async |path: &str, key: &str, body: &Value| {
        let request = host.request("POST", path).bearer_auth(key).header("content-type", "application/json");
        let answer = Answer::of(request.body(body.to_string())).await;
        assert_eq!(answer.status, 200, "{}", answer.body());
        answer
    };
    for plugin in ["counts", "marks"] {
        let inlet = json!({"body": chat, "user": user()});
        asks(&format!("/{plugin}/filter/inlet"), "of-a-user", &inlet).await;
    }
    host.delete("counts");
    until("the filter is gone", async || !host.snapshot().plugins.contains_key("counts")).await;
    let mut body = chat_body(MODEL, "hi");
    (body["id"], body["chat_id"], body["user"]) = (json!("m1"), json!("c1"), user());
    let answer = asks("/v1/chat/completions", "of-an-operator", &body).await;
    assert_eq!(answer.text(), "hello from upstream", "nothing is planted");
    assert_eq!(host.upstream.last().last_text(), "hi [marked]", "and the inlet runs");
}

#[tokio::test]
async fn a_service_receives_no_host_fields() {
    let host = TestHost::new().filter("counts", COUNTS).start().await;
    through_open_webui(&host, None, &json!({"chat_id": "c1", "message_id": "m1"}), false).await;
    let request = host.upstream.last().json();
    let keys: Vec<&String> = request.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["model", "messages", "stream"], "{request}");

    // This holds without filters, too.
    let plain = TestHost::new().start().await;
    let mut body = chat_body(MODEL, "hi");
    body["user"] = user();
    assert_eq!(plain.chat(&body).await.text(), "hello from upstream");
    assert!(plain.upstream.last().json().get("user").is_none());
}

#[tokio::test]
async fn a_chat_key_cannot_skip_filters() {
    let host = TestHost::new()
        .filter("counts", COUNTS)
        .config("[server]\nkeys = [\"sk-chat\"]\n[admin]\nkey = \"sk-admin\"")
        .start()
        .await;
    let metadata = json!({"chat_id": "c1", "message_id": "m1"});
    through_open_webui(&host, Some("sk-chat"), &metadata, true).await;
    assert_eq!(
        host.upstream.last().last_text(),
        "hi [in] [in]",
        "what was looked at may not be what is sent"
    );
    through_open_webui(&host, Some("sk-admin"), &metadata, true).await;
    assert_eq!(host.upstream.last().last_text(), "hi [in]");
}

#[tokio::test]
async fn a_guard_checks_the_chat_even_if_its_inlet_already_ran() {
    let guard = format!("/*\nsecurity: true\n*/\n{COUNTS}");
    let host = TestHost::new().filter("counts", guard).start().await;
    through_open_webui(&host, None, &json!({"chat_id": "c1", "message_id": "m1"}), true).await;
    assert_eq!(host.upstream.last().last_text(), "hi [in] [in]");
}

#[tokio::test]
async fn models_with_slashes_in_their_names_run_hooks() {
    let host = TestHost::new().start().await;
    for name in ["mock/mock-1", "mock/some/thing", "v1-model"] {
        let mut body = chat_body(name, "hi");
        body["metadata"] = json!({"model": {"pipeline": {"type": "pipe"}}});
        for form in ["", "/v1"] {
            let path = format!("{form}/{name}/filter/outlet");
            let answer = post(&host, &path, &json!({"body": body, "user": user()})).await;
            assert_eq!((answer.status, answer.json()), (200, body.clone()), "{path}");
        }
    }
}

#[tokio::test]
async fn open_webui_as_a_pipeline_client_receives_events_in_the_stream() {
    let emits = r#"fn inlet(body) {
        emit(#{ type: "status", data: #{ description: "Looking", done: false } });
        emit(#{ type: "citation", data: #{ source: #{ name: "a" }, document: ["b"], metadata: [#{ source: "c" }] } });
        body
    }"#;
    let host = TestHost::new().filter("emits", emits).start().await;
    let mut body = streaming(MODEL, "hi");
    body["user"] = user();
    let answer = host.chat(&body).await;
    let events: Vec<Value> = answer.events().iter().filter_map(|event| event.get("event").cloned()).collect();
    let citation = json!({"source": {"name": "a"}, "document": ["b"], "metadata": [{"source": "c"}]});
    assert_eq!(
        events,
        [
            json!({"type": "status", "data": {"description": "Looking", "done": false}}),
            json!({"type": "citation", "data": citation}),
        ]
    );
    assert_eq!(answer.text(), "hello from upstream");
}

/// Returns the descriptions of the status events of a stream, and the places of its texts as ".".
fn order_of(answer: &Answer) -> Vec<String> {
    let of = |event: &Value| match event["event"]["data"]["description"].as_str() {
        Some(text) => Some(text.to_owned()),
        None => event["choices"][0]["delta"]["content"]
            .as_str()
            .filter(|text| !text.is_empty())
            .map(|_| ".".into()),
    };
    let mut order: Vec<String> = answer.events().iter().filter_map(of).collect();
    order.dedup();
    order
}

#[tokio::test]
async fn events_of_inlets_and_outlets_called_one_by_one_are_part_of_the_stream() {
    let says = |text: &str| format!("emit(#{{ type: \"status\", data: #{{ description: \"{text}\" }} }});");
    let counts = format!(
        "fn inlet(body) {{ {} body }} fn outlet(body) {{ {} body }}",
        says("from inlet"),
        says("from outlet")
    );
    let guard = format!("/*\nsecurity: true\n*/\nfn inlet(body) {{ {} body }}", says("from guard"));
    let host = TestHost::new().filter("counts", counts).filter("guard", guard).start().await;
    let metadata = json!({"chat_id": "c1", "message_id": "m1"});
    let mut body = chat_body(MODEL, "hi");
    body["metadata"] = metadata.clone();
    body["metadata"]["model"] = json!({"id": MODEL, "pipeline": {"type": "pipe", "valves": false}});
    post(&host, "/guard/filter/inlet", &json!({"body": body, "user": user()})).await;
    let streamed = through_open_webui(&host, None, &metadata, true).await;
    // The guard checks the chat again; the events of its first call would be shown twice.
    assert_eq!(order_of(&streamed), ["from inlet", "from guard", ".", "from outlet"]);
    assert!(streamed.body().ends_with("data: [DONE]\n\n"), "{}", streamed.body());
    // They are shown once: the next answer to the same message has its own.
    let mut again = streaming(MODEL, "hi");
    (again["id"], again["chat_id"], again["user"]) = (json!("m1"), json!("c1"), user());
    let again = call(&host, "POST", "/chat/completions", None, Some(&again)).await;
    assert!(!order_of(&again).contains(&"from inlet".to_owned()), "{}", again.body());
}

#[tokio::test]
async fn text_that_an_outlet_changes_reaches_open_webui_with_its_outlet_call() {
    let counts = "fn inlet(body) { body } fn outlet(body) { body.messages[-1].text = \"BYE\"; body }";
    let host = TestHost::new().filter("counts", counts).start().await;
    let metadata = json!({"chat_id": "c1", "message_id": "m1"});
    assert_eq!(through_open_webui(&host, None, &metadata, true).await.text(), "hello from upstream");
    let mut shown = outlet("c1", "m1");
    shown["body"]["messages"][1]["content"] = json!("<details>thought</details>\nhello from upstream");
    let text = last_of(&host, "/counts/filter/outlet", &shown).await;
    assert_eq!(text, "<details>thought</details>\nBYE");
    assert_eq!(last_of(&host, "/counts/filter/outlet", &outlet("c1", "m1")).await, "hello", "once");
}

#[tokio::test]
async fn a_question_in_open_webui_fails_at_once() {
    let asks = r#"fn inlet(body) {
        try { ask(#{ type: "confirmation", data: #{ title: "Sure?" }, timeout: 60_000 }); } catch (e) { body.messages[-1].text = e.message; }
        body
    }"#;
    let host = TestHost::new().filter("asks", asks).start().await;
    let mut body = streaming(MODEL, "hi");
    body["user"] = user();
    assert!(!host.chat(&body).await.body().contains("confirmation"));
    let told = host.upstream.last().last_text();
    assert!(told.contains("cannot answer questions, as is the case in Open WebUI"), "{told}");
}

/// Deletes the plugin over the API, because a file that is deleted by hand may be restored.
async fn remove(host: &TestHost) {
    let gone = call(host, "DELETE", "/api/v1/functions/id/counts/delete", None, None).await;
    assert_eq!(gone.status, 200, "{}", gone.body());
    host.stands("counts", "gone").await;
}

/// Another plugin, which adds its state to the message.
const READS: &str = r#"
fn inlet(body, state) { body.messages[-1].content += ` [other in ${state.ensure("inlets", 0)}]`; body }
fn outlet(body, state) { body.messages[-1].content += ` [other out ${state.ensure("inlets", 0)}]`; body }
"#;

#[tokio::test]
async fn values_of_a_removed_plugin_are_hidden_from_its_successor_within_a_turn() {
    let host = TestHost::new().filter("counts", COUNTS).start().await;
    let began = ["m1", "m2", "m3"];
    for message in began {
        assert_eq!(last_of(&host, "/counts/filter/inlet", &inlet("c1", message)).await, "hi [in]");
    }
    // An edited file is still the same plugin.
    host.update("counts", &COUNTS.replace("[out", "[then")).await;
    let text = last_of(&host, "/counts/filter/outlet", &outlet("c1", "m1")).await;
    assert_eq!(text, "hello [then 1 counts false]");
    remove(&host).await;
    // While the plugin does not exist, no outlet runs.
    let gone = post(&host, "/counts/filter/outlet", &outlet("c1", "m2")).await;
    assert!(gone.status == 404 || gone.body().contains("hello\""), "{}", gone.body());
    host.save("counts", READS);
    host.stands("counts", "live").await;
    for message in ["m2", "m3"] {
        let text = last_of(&host, "/counts/filter/outlet", &outlet("c1", message)).await;
        assert_eq!(text, "hello [other out 0]", "{message}");
    }
}

#[tokio::test]
async fn a_plugin_replaced_between_inlet_and_chat_runs_its_inlet() {
    let host = TestHost::new().filter("counts", COUNTS).start().await;
    let mut body = chat_body(MODEL, "hi");
    body["metadata"] = json!({"chat_id": "c1", "message_id": "m1"});
    body["metadata"]["model"] = json!({"id": MODEL, "pipeline": {"type": "pipe", "valves": false}});
    for id in ["counts", MODEL] {
        let path = format!("/{id}/filter/inlet");
        let answer = post(&host, &path, &json!({"body": body, "user": user()})).await;
        assert_eq!(answer.status, 200, "{}", answer.body());
        body = answer.json();
    }
    remove(&host).await;
    host.save("counts", READS);
    host.stands("counts", "live").await;
    body.as_object_mut().unwrap().remove("metadata");
    body["user"] = user();
    let answer = post(&host, "/chat/completions", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    assert_eq!(host.upstream.last().last_text(), "hi [in] [other in 0]");
}
