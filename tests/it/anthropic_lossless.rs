//! Messages between clients and services lose nothing in either direction.

use crate::host::{Answer, TestHost};
use crate::upstream::{MODEL, Reply};
use serde_json::{Value, json};

const IDENTITY: &str = "fn inlet(body) { body }\nfn stream(event) { event }\nfn post_chat(ctx) { ctx }\nfn outlet(body) { body }";

async fn claude(setup: crate::host::Setup) -> TestHost {
    let host = setup.provider("kind = \"anthropic\"").start().await;
    host.upstream.script(|request| {
        let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
            "model": "claude", "content": [], "stop_reason": null, "stop_sequence": null, "usage": {
            "input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 5, "service_tier": "standard",
            "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}}}});
        let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null,
            "container": {"id": "c1"}}, "usage": {"output_tokens": 9}, "context_management": {"applied_edits": []}});
        let events = [
            start,
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}),
            json!({"type": "content_block_stop", "index": 0}),
            end,
            json!({"type": "message_stop"}),
        ];
        if request.json()["stream"] == json!(true) {
            let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
            return Reply::raw("text/event-stream", events.iter().map(event).collect::<String>());
        }
        Reply::json(&json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason":
            "end_turn", "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 7, "output_tokens": 9}}))
    });
    host
}

fn ask(host: &TestHost, body: &Value) -> reqwest::RequestBuilder {
    host.request("POST", "/v1/messages").header("anthropic-version", "2023-06-01").body(body.to_string())
}

fn of<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    events.iter().find(|event| event["type"] == kind).unwrap()
}

#[tokio::test]
async fn anthropic_streams_keep_container_context_management_and_initial_usage() {
    for filter in [None, Some(IDENTITY)] {
        let setup = TestHost::new();
        let host = claude(if let Some(filter) = filter { setup.filter("same", filter) } else { setup }).await;
        let body = json!({"model": MODEL, "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
        let events = Answer::of(ask(&host, &body)).await.typed_events();
        let usage = &of(&events, "message_start")["message"]["usage"];
        assert_eq!(
            (&usage["input_tokens"], &usage["service_tier"]),
            (&json!(7), &json!("standard")),
            "{usage}"
        );
        assert_eq!(usage["cache_creation"]["ephemeral_1h_input_tokens"], 4);
        assert!(of(&events, "message_start")["message"].get("anthropic").is_none());
        let end = of(&events, "message_delta");
        assert_eq!(
            (&end["delta"]["container"]["id"], &end["context_management"]),
            (&json!("c1"), &json!({"applied_edits": []})),
            "{end}"
        );
        assert_eq!((&end["usage"]["output_tokens"], &end["usage"]["input_tokens"]), (&json!(9), &json!(7)));
    }
}

#[tokio::test]
async fn streams_of_other_services_start_with_an_estimate_and_end_with_the_usage() {
    let host = TestHost::new().start().await;
    let body = json!({"model": MODEL, "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "one two three four five six"}]});
    host.upstream.script(|_| Reply::words(["hi"]));
    let events = Answer::of(ask(&host, &body)).await.typed_events();
    let estimated = of(&events, "message_start")["message"]["usage"]["input_tokens"].as_i64().unwrap();
    assert!((6..40).contains(&estimated), "{estimated}");
    let counted = Answer::of(
        host.request("POST", "/v1/messages/count_tokens")
            .body(json!({"model": MODEL, "messages": body["messages"]}).to_string()),
    );
    assert_eq!(counted.await.json()["input_tokens"].as_i64(), Some(estimated));
}

#[tokio::test]
async fn token_counting_and_batches_are_forwarded_to_a_supporting_service() {
    let host = claude(TestHost::new()).await;
    host.upstream.reply(Reply::raw("application/json", "{ \"input_tokens\" : 14 }"));
    let body = format!("{{ \"model\":\"{MODEL}\", \"messages\" : [] }}");
    let answer = Answer::of(host.request("POST", "/v1/messages/count_tokens").body(body.clone())).await;
    assert_eq!(answer.body(), "{ \"input_tokens\" : 14 }");
    let request = host.upstream.last();
    assert_eq!((request.path.as_str(), request.text()), ("/v1/messages/count_tokens", body));
    assert_eq!(request.headers["x-api-key"], "sk-upstream");
    assert_eq!(host.get("/v1/messages/batches/b1/results").await.status, 200);
    assert_eq!(host.upstream.last().path, "/v1/messages/batches/b1/results");
}

#[tokio::test]
async fn an_idle_filter_changes_no_byte_and_keeps_the_position_of_instructions() {
    let body = json!({"model": MODEL, "max_tokens": 9, "system": "top", "messages": [
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"},
        {"role": "system", "content": "in the middle"}, {"role": "user", "content": [
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}},
        {"type": "text", "text": "read", "cache_control": {"type": "ephemeral"}}]}]});
    let mut seen = Vec::new();
    for filters in [0, 1, 5] {
        let setup = (0..filters)
            .fold(TestHost::new(), |setup, number| setup.filter(&format!("same{number}"), IDENTITY));
        let host = claude(setup).await;
        assert_eq!(Answer::of(ask(&host, &body)).await.status, 200);
        seen.push(host.upstream.last().text());
    }
    assert!(seen.iter().all(|body| *body == seen[0]), "{seen:?}");
    let request: Value = serde_json::from_str(&seen[0]).unwrap();
    assert_eq!(
        (&request["system"], &request["messages"][2]),
        (&json!("top"), &json!({"role": "system", "content": "in the middle"}))
    );
    assert_eq!(request["messages"][3]["content"], body["messages"][3]["content"]);
}

#[tokio::test]
async fn unknown_error_types_keep_type_details_and_request_id() {
    let host = claude(TestHost::new()).await;
    let error = json!({"type": "error", "error": {"type": "conflict_error", "message": "m", "details": {"a": 1}}, "request_id": "req_9"});
    host.upstream.reply(Reply::json(&error).status(409).header("request-id", "req_9"));
    let body = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let answer = Answer::of(ask(&host, &body)).await;
    assert_eq!((answer.status, answer.json(), answer.header("request-id")), (409, error, Some("req_9")));
}

#[tokio::test]
async fn options_for_other_services_are_translated_or_reported() {
    let host = TestHost::new().start().await;
    let ask = async |more: Value| {
        let mut body =
            json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = Answer::of(ask(&host, &body)).await;
        assert_eq!(answer.status, 200, "{}", answer.body());
        (host.upstream.last().json(), answer.header("x-valvehouse-left-out").map(str::to_owned))
    };
    let (body_sent, left_out) = ask(json!({"thinking": {"type": "enabled", "budget_tokens": 2048},
        "tools": [{"type": "web_search_20250305", "name": "web_search"}]}))
    .await;
    assert_eq!(left_out.as_deref(), Some("web_search_20250305"));
    assert_eq!(body_sent["reasoning_effort"], "low");
    assert!(body_sent.get("tools").is_none() && body_sent.get("thinking").is_none(), "{body_sent}");
    let (body_sent, left_out) = ask(json!({"output_config": {"effort": "max"}})).await;
    assert_eq!((&body_sent["reasoning_effort"], left_out), (&json!("high"), None));
    let (body_sent, _) = ask(json!({"messages": [
        {"role": "user", "content": [{"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "long"}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "no such file", "is_error": true}]}]})).await;
    assert_eq!(body_sent["messages"][0]["content"][0], json!({"type": "text", "text": "T\n\nlong"}));
    assert_eq!(body_sent["messages"][0]["content"][1]["file"]["filename"], "document.pdf");
    assert_eq!(body_sent["messages"][2]["content"], "Error: no such file");
}
