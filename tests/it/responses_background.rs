//! Responses that are created in the background, and the conversations that they continue.

use crate::generator::clients;
use crate::host::{Answer, TestHost, until};
use crate::python::passes;
use crate::upstream::{Gate, Reply};
use serde_json::{Value, json};
use std::sync::Arc;
use valvehouse::store::StoredResponse;

async fn host(gate: &Arc<Gate>) -> TestHost {
    let host = TestHost::new()
        .config("[[models]]\nname = \"mock-1\"\nprovider = \"mock\"")
        .provider("kind = \"vllm\"")
        .start()
        .await;
    let gate = gate.clone();
    host.upstream.script(move |request| match request.last_text().as_str() {
        "wait" => Reply::begun(["half ", "an "]).then_gate(&gate).then(ending("answer")),
        "cut" => Reply::begun(["half an "]).then_cut(),
        "long" => Reply::begun(["too much"])
            .then(format!("{}data: [DONE]\n\n", crate::upstream::chunk(&json!({}), Some("length")))),
        "fail" => {
            Reply::json(&json!({"error": {"message": "no", "type": "invalid_request_error"}})).status(400)
        }
        _ => Reply::fitting(request, "hello"),
    });
    host
}

/// Returns the end of a response that has started.
fn ending(text: &str) -> String {
    let chunk = crate::upstream::chunk;
    let last = chunk(&json!({}), Some("stop"));
    format!("{}{last}data: [DONE]\n\n", chunk(&json!({"content": text}), None))
}

async fn send(host: &TestHost, method: &str, path: &str, body: &Value) -> Answer {
    let request = host.request(method, path).header("content-type", "application/json");
    Answer::of(request.body(body.to_string())).await
}

async fn begin(host: &TestHost, text: &str) -> Value {
    let body = json!({"model": "mock-1", "input": text, "background": true});
    let answer = send(host, "POST", "/v1/responses", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    answer.json()
}

async fn fetched(host: &TestHost, id: &str) -> Value {
    host.get(&format!("/v1/responses/{id}")).await.json()
}

async fn over(host: &TestHost, id: &str) -> Value {
    until("the response is over", async || {
        !["queued", "in_progress"].contains(&fetched(host, id).await["status"].as_str().unwrap())
    })
    .await;
    fetched(host, id).await
}

fn id(response: &Value) -> &str {
    response["id"].as_str().unwrap()
}

fn text(response: &Value) -> &Value {
    &response["output"][0]["content"][0]["text"]
}

#[tokio::test]
async fn a_background_response_finishes_without_its_client_and_can_be_read_from_any_event() {
    let gate = Arc::new(Gate::closed());
    let host = host(&gate).await;
    let queued = begin(&host, "wait").await;
    assert_eq!((&queued["status"], &queued["background"]), (&json!("queued"), &json!(true)));
    let id = id(&queued);
    until("it is in progress", async || fetched(&host, id).await["status"] == "in_progress").await;
    // A stream that is read while it grows.
    let path = format!("/v1/responses/{id}?stream=true");
    let reading = tokio::spawn(Answer::of(host.request("GET", &path)));
    until("its first words are there", async || {
        !host.store().response_events(id, 4, 1).await.unwrap().is_empty()
    })
    .await;
    gate.open();
    let whole = over(&host, id).await;
    assert_eq!((&whole["status"], text(&whole)), (&json!("completed"), &json!("half an answer")));
    let all = reading.await.unwrap().typed_events();
    let kinds: Vec<&str> = all.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..3], ["response.created", "response.queued", "response.in_progress"]);
    assert_eq!(kinds.last(), Some(&"response.completed"));
    let numbers: Vec<u64> = all.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..all.len() as u64).collect::<Vec<_>>());
    assert_eq!(all.last().unwrap()["response"], whole);
    assert_eq!(all[0]["response"]["status"], "queued");
    for after in [0, 3, all.len() - 2] {
        let rest = host.get(&format!("{path}&starting_after={after}")).await;
        assert!(rest.is_stream());
        assert_eq!(rest.typed_events(), all[after + 1..]);
    }
    assert_eq!(
        host.get(&format!("{path}&starting_after={}", all.len())).await.typed_events(),
        [] as [Value; 0]
    );
    host.get(&format!("{path}&starting_after=x")).await.refused(400, "starting_after");
    let plain = send(&host, "POST", "/v1/responses", &json!({"model": "mock-1", "input": "hi"})).await.json();
    let plain = plain["id"].as_str().unwrap();
    host.get(&format!("/v1/responses/{plain}?stream=true"))
        .await
        .refused(400, "not created with `background: true`");
    let canceled = send(&host, "POST", &format!("/v1/responses/{plain}/cancel"), &json!({})).await;
    canceled.refused(400, "not created with `background: true`");
}

#[tokio::test]
async fn a_client_can_resume_a_background_stream() {
    let gate = Arc::new(Gate::closed());
    let host = host(&gate).await;
    let body = json!({"model": "mock-1", "input": "wait", "background": true, "stream": true});
    let request = host.request("POST", "/v1/responses").header("content-type", "application/json");
    let mut response = request.body(body.to_string()).send().await.unwrap();
    let first = String::from_utf8(response.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let created: Value =
        serde_json::from_str(first.lines().nth(1).unwrap().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(created["type"], "response.created");
    let id = created["response"]["id"].as_str().unwrap();
    drop(response);
    gate.open();
    assert_eq!(text(&over(&host, id).await), "half an answer");
    let rest = host.get(&format!("/v1/responses/{id}?stream=true&starting_after=0")).await.typed_events();
    assert_eq!(rest[0]["sequence_number"], 1);
    assert_eq!(rest.last().unwrap()["type"], "response.completed");
}

#[tokio::test]
async fn a_background_response_can_be_canceled() {
    let gate = Arc::new(Gate::closed());
    let host = host(&gate).await;
    let queued = begin(&host, "wait").await;
    let id = id(&queued);
    until("its first words are there", async || {
        !host.store().response_events(id, 4, 1).await.unwrap().is_empty()
    })
    .await;
    let path = format!("/v1/responses/{id}/cancel");
    let canceled = send(&host, "POST", &path, &json!({})).await.json();
    assert_eq!((&canceled["id"], &canceled["status"]), (&json!(id), &json!("cancelled")));
    assert_eq!(send(&host, "POST", &path, &json!({})).await.json(), canceled);
    host.upstream.was_deserted(1).await;
    let all = host.get(&format!("/v1/responses/{id}?stream=true")).await.typed_events();
    assert_ne!(all.last().unwrap()["type"], "response.completed");
    let done = begin(&host, "hi").await;
    let done = over(&host, self::id(&done)).await;
    let path = format!("/v1/responses/{}/cancel", self::id(&done));
    assert_eq!(send(&host, "POST", &path, &json!({})).await.json(), done);
    let deleted = begin(&host, "wait").await;
    let path = format!("/v1/responses/{}", self::id(&deleted));
    assert_eq!(send(&host, "DELETE", &path, &json!({})).await.json()["deleted"], true);
    host.get(&path).await.refused(404, "unknown response");
}

#[tokio::test]
async fn failed_and_incomplete_responses_are_fetched_like_completed_ones() {
    let host = host(&Arc::new(Gate::closed())).await;
    for (input, status) in [("cut", "failed"), ("long", "incomplete")] {
        let streamed = json!({"model": "mock-1", "input": input, "stream": true});
        let all = send(&host, "POST", "/v1/responses", &streamed).await.typed_events();
        let last = &all.last().unwrap()["response"];
        assert_eq!(last["status"], status, "{last}");
        assert_eq!(fetched(&host, id(last)).await, *last);
        let in_background = over(&host, id(&begin(&host, input).await)).await;
        assert_eq!(in_background["status"], status, "{in_background}");
        assert_eq!(text(&in_background), text(last));
        assert_eq!(in_background["error"].is_object(), status == "failed");
    }
    let refused = over(&host, id(&begin(&host, "fail").await)).await;
    assert_eq!((&refused["status"], &refused["error"]["message"]), (&json!("failed"), &json!("no")));
    let all = host.get(&format!("/v1/responses/{}?stream=true", id(&refused))).await.typed_events();
    let kinds: Vec<&str> = all.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected =
        ["response.created", "response.queued", "response.in_progress", "error", "response.failed"];
    assert_eq!(kinds, expected);
    for (body, words) in [
        (json!({"model": "mock-1", "input": "hi", "background": true, "store": false}), "store: false"),
        (json!({"model": "mock-1", "input": [{"role": "robot"}], "background": true}), "role"),
    ] {
        let answer = send(&host, "POST", "/v1/responses", &body).await;
        assert!(
            (400..=404).contains(&answer.status) && answer.message().contains(words),
            "{}",
            answer.body()
        );
    }
}

#[tokio::test]
async fn a_background_response_of_a_dead_host_becomes_failed() {
    let gate = Arc::new(Gate::closed());
    let mut host = host(&gate).await;
    let stopped = begin(&host, "wait").await;
    until("its first words are there", async || {
        !host.store().response_events(id(&stopped), 4, 1).await.unwrap().is_empty()
    })
    .await;
    host.app().close().await;
    host.restart().await;
    let failed = fetched(&host, id(&stopped)).await;
    assert_eq!(failed["status"], "failed", "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("the host stopped"), "{failed}");
    let died = |id: &str, seen_ms: i64| StoredResponse {
        id: id.into(),
        owner: String::new(),
        expires_ms: i64::MAX,
        input_items: 0,
        items: "[]".into(),
        response: json!({"id": id, "status": "in_progress", "background": true, "output": []}).to_string(),
        runner: "another host".into(),
        seen_ms,
    };
    host.store().save_response(&died("resp_dead", valvehouse::store::now() - 60_000)).await.unwrap();
    host.store().save_response(&died("resp_alive", valvehouse::store::now())).await.unwrap();
    // A row that was changed by hand causes an error and not an empty response.
    for (id, items, response) in
        [("resp_torn", "[]", "{\"id\":"), ("resp_cut", "[{", "{\"background\":true}")]
    {
        let row = died(id, valvehouse::store::now());
        let row =
            StoredResponse { items: items.into(), response: response.into(), runner: String::new(), ..row };
        host.store().save_response(&row).await.unwrap();
    }
    for path in ["resp_torn", "resp_torn?stream=true", "resp_cut/input_items"] {
        let answer = host.get(&format!("/v1/responses/{path}")).await;
        assert_eq!(answer.status, 500, "{path}: {}", answer.body());
    }
    let on = json!({"model": "mock-1", "input": "hi", "previous_response_id": "resp_cut"});
    assert_eq!(send(&host, "POST", "/v1/responses", &on).await.status, 500);
    let failed = fetched(&host, "resp_dead").await;
    assert_eq!(failed["status"], "failed");
    assert!(
        failed["error"]["message"].as_str().unwrap().contains("stopped before it was finished"),
        "{failed}"
    );
    assert_eq!(fetched(&host, "resp_alive").await["status"], "in_progress");
    let on = json!({"model": "mock-1", "input": "hi", "previous_response_id": "resp_alive"});
    send(&host, "POST", "/v1/responses", &on).await.refused(400, "is not finished");
    // A response of another host is cancelled in the store.
    let canceled = send(&host, "POST", "/v1/responses/resp_alive/cancel", &json!({})).await.json();
    assert_eq!(canceled["status"], "cancelled");
    assert!(!host.store().touch_response("resp_alive", "another host").await.unwrap());
}

#[tokio::test]
async fn a_conversation_keeps_its_messages() {
    let host = host(&Arc::new(Gate::closed())).await;
    let created = json!({"items": [{"role": "user", "content": "I am Ann"}], "metadata": {"topic": "names"}});
    let conversation = send(&host, "POST", "/v1/conversations", &created).await.json();
    let id = conversation["id"].as_str().unwrap();
    assert!(id.starts_with("conv_") && conversation["object"] == "conversation", "{conversation}");
    assert_eq!(conversation["metadata"], json!({"topic": "names"}));
    let path = format!("/v1/conversations/{id}");
    assert_eq!(host.get(&path).await.json(), conversation);
    for (given, stream, background) in
        [(json!(id), false, false), (json!({"id": id}), true, false), (json!(id), false, true)]
    {
        let body = json!({"model": "mock-1", "input": "who am I?", "conversation": given, "stream": stream,
            "background": background});
        let answer = send(&host, "POST", "/v1/responses", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.body());
        if background {
            let answer = answer.json();
            assert_eq!(answer["conversation"], json!({"id": id}));
            over(&host, self::id(&answer)).await;
        }
    }
    let texts = host.upstream.last().json()["messages"].clone();
    let texts: Vec<&str> =
        texts.as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(texts, ["I am Ann", "who am I?", "hello", "who am I?", "hello", "who am I?"]);
    let items = async |query: &str| host.get(&format!("{path}/items{query}")).await.json();
    let all = items("?order=asc&limit=100").await["data"].as_array().unwrap().clone();
    assert_eq!(all.len(), 7);
    assert_eq!(items("").await["data"][0], all[6]);
    let page = items(&format!("?limit=2&after={}", all[6]["id"].as_str().unwrap())).await;
    assert_eq!((&page["data"][0], &page["has_more"]), (&all[5], &json!(true)));
    let added = json!({"items": [{"role": "user", "content": "and more"}]});
    let added = send(&host, "POST", &format!("{path}/items"), &added).await.json();
    let item = format!("{path}/items/{}", added["data"][0]["id"].as_str().unwrap());
    assert_eq!(host.get(&item).await.json(), added["data"][0]);
    assert_eq!(send(&host, "DELETE", &item, &json!({})).await.json(), conversation);
    host.get(&item).await.refused(404, "unknown item");
    let changed = send(&host, "POST", &path, &json!({"metadata": {}})).await.json();
    assert_eq!(changed["metadata"], json!({}));
    let both =
        json!({"model": "mock-1", "input": "hi", "conversation": id, "previous_response_id": "resp_1"});
    send(&host, "POST", "/v1/responses", &both).await.refused(400, "together with `previous_response_id`");
    let failed = json!({"model": "mock-1", "input": "cut", "conversation": id, "stream": true});
    send(&host, "POST", "/v1/responses", &failed).await;
    assert_eq!(items("?limit=100").await["data"].as_array().unwrap().len(), 7, "a failure adds nothing");
    assert_eq!(send(&host, "DELETE", &path, &json!({})).await.json()["object"], "conversation.deleted");
    host.get(&path).await.refused(404, "unknown conversation");
    let gone = json!({"model": "mock-1", "input": "hi", "conversation": id});
    send(&host, "POST", "/v1/responses", &gone).await.refused(404, "unknown conversation");
    for (body, words) in [
        (json!({"items": "x"}), "list of items"),
        (json!({"metadata": {"a": 1}}), "metadata"),
        (json!({"items": [{}]}), "role"),
        (json!({"items": vec![json!({"role": "user", "content": "x"}); 21]}), "limit of 20"),
    ] {
        send(&host, "POST", "/v1/conversations", &body).await.refused(400, words);
    }
}

#[tokio::test]
async fn what_a_caller_stores_is_limited() {
    let host = TestHost::new()
        .config("[server]\nmax_stored_mb_each = 1\n[[models]]\nname = \"mock-1\"\nprovider = \"mock\"")
        .provider("kind = \"vllm\"")
        .start()
        .await;
    host.upstream.script(move |request| Reply::fitting(request, "hello"));
    let long = "x".repeat(400_000);
    let stored = begin(&host, &long).await;
    over(&host, id(&stored)).await;
    let conversation = send(&host, "POST", "/v1/conversations", &json!({})).await.json();
    let items = json!({"items": [{"type": "message", "role": "user", "content": &long}]});
    let path = format!("/v1/conversations/{}/items", id(&conversation));
    assert_eq!(send(&host, "POST", &path, &items).await.status, 200);

    let request = |background: bool| json!({"model": "mock-1", "input": &long, "background": background});
    for (path, body) in [
        ("/v1/responses", request(true)),
        ("/v1/conversations", items.clone()),
        (path.as_str(), items.clone()),
    ] {
        let refused = send(&host, "POST", path, &body).await;
        refused.refused(413, "max_stored_mb_each");
        assert_eq!(refused.json()["error"]["code"], "storage_full", "{path}");
    }
    // Its client did not ask for it to be stored, and has its answer.
    let answer = send(&host, "POST", "/v1/responses", &request(false)).await.json();
    assert_eq!((text(&answer), &answer["store"]), (&json!("hello"), &json!(false)));

    let path = format!("/v1/responses/{}", id(&stored));
    assert_eq!(send(&host, "DELETE", &path, &json!({})).await.status, 200);
    let answer = send(&host, "POST", "/v1/responses", &request(false)).await.json();
    assert_eq!(answer["store"], json!(true));
}

#[tokio::test]
async fn a_caller_leaves_room_for_the_background_responses_of_others() {
    let host = TestHost::new().start().await;
    let tasks = &host.app().detached;
    let spawn = |id: &str, caller: &str| tasks.spawn(id, caller, |_| std::future::pending::<()>());
    let own = (0..).take_while(|number| spawn(&format!("a{number}"), "ann").is_ok()).count();
    assert_eq!(own, 128);
    assert!(spawn("b", "bob").is_ok());
    let refused = spawn("a", "ann").unwrap_err().to_string();
    assert!(refused.contains("128 of this caller are pending, 129 of all, at most 256"), "{refused}");
}

#[tokio::test]
async fn a_conversation_belongs_to_its_key() {
    let keys = "[[server.keys]]\nuser = { id = \"ann\" }\nkey = \"ann-secret-0001\"\n[[server.keys]]\nuser = { id = \"bob\" }\nkey = \"bob-secret-0001\"";
    let host = TestHost::new().config(keys).start().await;
    let ask = async |key: &str, method: &str, path: &str| {
        let request = host.request(method, path).header("authorization", format!("Bearer {key}"));
        Answer::of(request.header("content-type", "application/json").body("{}")).await
    };
    let created = ask("ann-secret-0001", "POST", "/v1/conversations").await.json();
    let path = format!("/v1/conversations/{}", created["id"].as_str().unwrap());
    assert_eq!(ask("ann-secret-0001", "GET", &path).await.json(), created);
    for (method, path) in [("GET", path.clone()), ("DELETE", path.clone()), ("GET", format!("{path}/items"))]
    {
        ask("bob-secret-0001", method, &path).await.refused(404, "unknown conversation");
        ask("wrong", method, &path).await.refused(401, "key");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_openai_sdk_uses_the_responses_api"]
async fn the_openai_sdk_uses_background_responses_and_conversations() {
    let Some(mut client) = clients::python("tests/python/background_client.py") else { return };
    let host = host(&Arc::new(Gate::closed())).await;
    client.arg(host.url("/v1"));
    passes(client).await;
}
