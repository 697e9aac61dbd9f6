//! Errors of services at every endpoint: in the words on which its clients act, whatever the service and its words.

use crate::generator::endpoints::{ENDPOINTS, asking, post};
use crate::host::{Answer, TestHost, chat_body};
use crate::upstream::{MODEL, Reply, Upstream};
use serde_json::{Value, json};

/// The settings of each kind of service.
const SERVICES: [&str; 4] = [
    "kind = \"openai\"",
    "kind = \"anthropic\"",
    "kind = \"openai\"\napi = \"responses\"",
    "kind = \"ollama\"",
];

/// Errors about the length of a conversation, each in the form of its service.
fn too_long() -> [Value; 5] {
    let anthropic =
        json!({"type": "invalid_request_error", "message": "prompt is too long: 5000 tokens > 4096 maximum"});
    let gemini = "The input token count (5000) exceeds the maximum number of tokens allowed (4096).";
    let vllm = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages.";
    [
        json!({"error": {"message": "Too much: 5000 of 4096 tokens.", "code": "context_length_exceeded"}}),
        json!({"type": "error", "error": anthropic}),
        json!([{"error": {"code": 400, "message": gemini, "status": "INVALID_ARGUMENT"}}]),
        json!({"object": "error", "message": vllm, "type": "BadRequestError", "code": 400}),
        json!({"error": {"code": 400, "message": "5000 of 4096 tokens", "type": "exceed_context_size_error"}}),
    ]
}

async fn ask(host: &TestHost, endpoint: &str, is_streamed: bool) -> Answer {
    post(host, endpoint, &asking(endpoint, MODEL, "hi", is_streamed)).await
}

/// Checks an answer for the words on which the clients of an endpoint act.
fn check(endpoint: &str, answer: &Answer) {
    let body = answer.body();
    assert_eq!(answer.status, 400, "{body}");
    match endpoint {
        "/v1/messages" => {
            assert!(body.contains("prompt is too long: 5000 tokens > 4096 maximum"), "{body}");
            assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
        }
        "/api/chat" => assert!(answer.json()["error"].is_string(), "{body}"),
        _ => assert_eq!(answer.json()["error"]["code"], "context_length_exceeded"),
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_reported_to_each_client_in_its_words() {
    for service in SERVICES {
        let host = TestHost::new().provider(service).start().await;
        for error in too_long() {
            for endpoint in ENDPOINTS {
                for is_streamed in [false, true] {
                    host.upstream.reply(Reply::json(&error).status(400));
                    check(endpoint, &ask(&host, endpoint, is_streamed).await);
                }
                // As the first event of a stream, which a chat client receives as it is.
                if service == SERVICES[0] && endpoint != ENDPOINTS[0] {
                    host.upstream.reply(Reply::raw("text/event-stream", format!("data: {error}\n\n")));
                    check(endpoint, &ask(&host, endpoint, true).await);
                }
            }
        }
    }
}

#[tokio::test]
async fn the_refusal_of_the_operators_key_is_not_one_of_the_clients_key() {
    let refused = |status| {
        let error = json!({"message": "Incorrect API key provided", "type": "invalid_request_error"});
        Reply::json(&json!({"error": error})).status(status)
    };
    let flagged = json!({"error": {"code": 403, "message": "no", "metadata": {"flagged_input": "hi"}}});
    for service in SERVICES {
        let host = TestHost::new().provider(service).start().await;
        for (endpoint, is_streamed, status) in ENDPOINTS
            .iter()
            .flat_map(|endpoint| [(*endpoint, false, 401), (*endpoint, true, 401), (*endpoint, false, 403)])
        {
            host.upstream.reply(refused(status));
            let before = host.upstream.requests().len();
            let answer = ask(&host, endpoint, is_streamed).await;
            assert_eq!(host.upstream.requests().len(), before + 1, "it is not sent again");
            let body = answer.json();
            assert_eq!(answer.status, 502, "{endpoint}: {body}");
            match endpoint {
                "/v1/messages" => assert_eq!(body["error"]["type"], "api_error"),
                "/api/chat" => assert!(body["error"].as_str().unwrap().contains("refuses this host's key")),
                _ => assert_eq!(body["error"]["code"], "upstream_auth"),
            }
            assert!(body.to_string().contains("Incorrect API key provided"), "{body}");
            assert_eq!(answer.header("x-should-retry"), Some("false"));
        }
        // A refused content is the client's own.
        host.upstream.reply(Reply::json(&flagged).status(403));
        assert_eq!(ask(&host, ENDPOINTS[0], false).await.status, 403);
    }
    // A key that the client itself sent is the client's own, too.
    let service = Upstream::start().await;
    service.reply(refused(401));
    let own = format!(
        "[[providers]]\nname = \"own\"\nkind = \"openai\"\nbase_url = \"{}\"\napi_key = \"client\"\nmodels = [\"own-1\"]",
        service.url()
    );
    let host = TestHost::new().config(&own).start().await;
    for path in ["/v1/chat/completions", "/v1/embeddings"] {
        let mut body = chat_body("own-1", "hi");
        body["input"] = json!("hi");
        let request = host.request("POST", path).header("content-type", "application/json");
        let answer =
            Answer::of(request.header("authorization", "Bearer sk-mine").body(body.to_string())).await;
        assert_eq!(answer.status, 401, "{path}: {}", answer.body());
    }
    let host = TestHost::new().start().await;
    host.upstream.reply(refused(401));
    for path in ["/v1/embeddings", "/api/embed", "/v1/audio/speech"] {
        let body = json!({"model": MODEL, "input": "hi"});
        let request = host.request("POST", path).header("content-type", "application/json");
        let answer = Answer::of(request.body(body.to_string())).await;
        assert_eq!(answer.status, 502, "{path}: {}", answer.body());
    }
}

#[tokio::test]
async fn the_reason_of_a_failed_response_may_follow_in_an_event_of_its_own() {
    let host = TestHost::new().provider(SERVICES[2]).start().await;
    let head = json!({"id": "resp_1", "object": "response", "status": "failed", "model": MODEL, "output": [], "error": null});
    let begun = json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}});
    let failed = json!({"type": "response.failed", "response": head});
    let reason =
        json!({"type": "error", "code": "content_policy_violation", "message": "not this", "param": null});
    let error = json!({"code": "content_policy_violation", "message": "not this"});
    let beside = json!({"type": "response.failed", "response": head, "error": error});
    for (events, is_given) in [
        (vec![&begun, &failed, &reason], true),
        (vec![&begun, &beside], true),
        (vec![&begun, &failed], false),
    ] {
        let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        host.upstream.reply(Reply::raw("text/event-stream", stream));
        for endpoint in ENDPOINTS {
            let answer = ask(&host, endpoint, true).await;
            let body = answer.body();
            let message = if is_given { "not this" } else { "failed without a reason" };
            assert!(body.contains(message), "{endpoint}: {body}");
            let has_code = matches!(endpoint, "/v1/chat/completions" | "/v1/responses");
            assert_eq!(body.contains("content_policy_violation"), has_code && is_given, "{endpoint}: {body}");
        }
    }
}
