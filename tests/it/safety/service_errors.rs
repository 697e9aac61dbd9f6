//! Errors of services, and fields of their choices: the text filters of answers see their texts, and clients still get
//! the codes they act on.

use crate::generator::endpoints::{ENDPOINTS, asking, post};
use crate::host::{Answer, TestHost};
use crate::upstream::{MODEL, Reply, chunk};
use serde_json::{Value, json};

/// Removes a word from all texts of answers.
const GUARD: &str = "/*\nsecurity: true\n*/\nfn stream(event, state) {
    stream::window(event, state, 40, |text| regex::replace(text, `SECRET[A-Z]*`, \"###\"));
}";
/// Refuses answers with the word.
const REFUSES: &str = "/*\nsecurity: true\n*/\nfn stream(event) {
    if event.text.contains(\"SECRET\") { deny(\"not this answer\", 403); }
    event
}";

pub(super) async fn ask(host: &TestHost, path: &str, stream: bool) -> Answer {
    post(host, path, &asking(path, MODEL, "hi", stream)).await
}

/// Returns errors of services in their usual shapes, each with the word.
fn errors() -> [(u16, Value); 11] {
    [
        (400, json!({"error": {"message": "bad SECRETWORD here", "type": "invalid_request_error"}})),
        (
            400,
            json!({"error": {"message": "This model's maximum context length is 128000 tokens, SECRETWORD",
                "type": "invalid_request_error", "code": "context_length_exceeded"}}),
        ),
        (400, json!({"error": {"message": "no", "type": "not a code, SECRETWORD", "param": ["SECRETWORD"]}})),
        (400, json!({"error": {"message": "no", "param": "SECRETWORD"}})),
        (422, json!({"detail": [{"loc": ["body"], "msg": "SECRETWORD"}]})),
        (429, json!({"error": {"message": "wait, SECRETWORD", "type": "rate_limit_error"}})),
        (500, json!({"error": "SECRETWORD"})),
        (503, json!({"error": {"message": "no", "metadata": {"raw": "SECRETWORD"}}})),
        // Single words in place of codes.
        (400, json!({"error": {"message": "no", "code": "SECRETWORD", "type": "SECRETWORD"}})),
        (400, json!({"error": {"message": "no", "status": "SECRETWORD", "reason": "SECRETWORD"}})),
        (400, json!({"error": {"message": "no", "write to SECRETWORD now": {"SECRETWORD, too": 1}}})),
    ]
}

#[tokio::test]
async fn a_text_filter_sees_the_errors_of_services() {
    const PATIENT: &str = "retry = { max_attempts = 1 }\nbreaker = { failure_threshold = 0 }";
    for guard in [GUARD, REFUSES] {
        let host = TestHost::new().filter("guard", guard).provider(PATIENT).start().await;
        for (status, error) in errors() {
            for path in ENDPOINTS {
                for (stream, is_inside) in [(false, false), (true, false), (true, true)] {
                    host.upstream.reply(match is_inside {
                        true => Reply::raw(
                            "text/event-stream",
                            format!("{}data: {error}\n\n", chunk(&json!({"content": "hi"}), None)),
                        ),
                        false => Reply::json(&error).status(status),
                    });
                    let answer = ask(&host, path, stream).await;
                    let (case, text) = (format!("{path} {stream} {is_inside} {error}"), answer.body());
                    assert!(!text.contains("SECRET"), "{case}: {text}");
                    assert!(text.contains("error"), "{case}: {text}");
                    if guard == GUARD && status == 400 && !is_inside {
                        assert_eq!(answer.status, 400, "{case}: {text}");
                    }
                    let keeps_code = error["error"]["code"] == "context_length_exceeded" && guard == GUARD;
                    if keeps_code && ["/v1/chat/completions", "/v1/responses"].contains(&path) {
                        assert!(
                            text.contains("context_length_exceeded") && text.contains("removed this text"),
                            "{case}: {text}"
                        );
                    }
                }
            }
        }
    }
    // Without such a filter, the error is passed on as the service sent it.
    let host = TestHost::new().provider(PATIENT).start().await;
    let (status, error) = &errors()[0];
    host.upstream.reply(Reply::json(error).status(*status));
    assert_eq!(&ask(&host, ENDPOINTS[0], false).await.json(), error);
}

/// Returns fields of a choice that have the word in unusual places.
fn fields() -> Vec<(&'static str, Value)> {
    let token = json!({"token": "SECRETWORD", "logprob": -1, "bytes": [120], "top_logprobs": []});
    vec![
        ("text", json!("SECRETWORD")),
        ("delta", json!("SECRETWORD")),
        ("error", json!("SECRETWORD")),
        ("error", json!({"code": "SECRETWORD", "type": "SECRETWORD", "message": "no"})),
        ("error", json!({"code": 500, "metadata": {"write to SECRETWORD now": 1}})),
        ("finish_reason", json!("SECRETWORD")),
        ("native_finish_reason", json!("SECRETWORD")),
        ("stop_reason", json!("SECRETWORD")),
        ("write to SECRETWORD now", json!(1)),
        ("other", json!({"write to SECRETWORD now": {"and SECRETWORD": [1]}})),
        ("end_turn", json!("SECRETWORD")),
        ("other", json!({"list": ["SECRETWORD"]})),
        ("logprobs", json!("SECRETWORD")),
        ("logprobs", json!({"x": "SECRETWORD"})),
        ("logprobs", json!({"tokens": ["SECRETWORD"], "token_logprobs": [-1]})),
        ("logprobs", json!({"content": [token], "refusal": null})),
    ]
}

#[tokio::test]
async fn no_field_of_a_choice_passes_a_text_filter() {
    let host = TestHost::new().filter("guard", GUARD).start().await;
    for (key, value) in fields() {
        let mut whole =
            json!({"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"});
        whole[key] = value.clone();
        let mut part =
            json!({"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": null});
        if key != "delta" {
            part[key] = value.clone();
        }
        let end = json!({"index": 0, "delta": {}, "finish_reason": "stop"});
        let event = |choice: &Value| {
            let event = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]});
            format!("data: {event}\n\n")
        };
        let answer =
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [whole]});
        let stream = format!("{}{}data: [DONE]\n\n", event(&part), event(&end));
        for streamed in [false, true] {
            for asked in [false, true] {
                host.upstream.reply(match streamed {
                    true => Reply::raw("text/event-stream", stream.clone()),
                    false => Reply::json(&answer),
                });
                for path in ["/v1/chat/completions", "/v1/responses"] {
                    let answer = ask(&host, path, asked).await;
                    let text = answer.body();
                    assert!(answer.status == 200 && text.contains("hi"), "{key} {path}: {text}");
                    assert!(!text.contains("SECRET"), "{key} {value} {path} {streamed} {asked}: {text}");
                }
            }
        }
    }
}

#[tokio::test]
async fn the_name_of_an_event_of_a_service_passes_no_filter() {
    for filter in [GUARD, "fn stream(event) { event }"] {
        let host = TestHost::new().filter("guard", filter).start().await;
        for path in ENDPOINTS {
            let event = chunk(&json!({"content": "hi"}), None);
            let end = chunk(&json!({}), Some("stop"));
            let stream = format!("event: SECRETWORD\n{event}event: SECRETWORD\n{end}data: [DONE]\n\n");
            host.upstream.reply(Reply::raw("text/event-stream", stream));
            let answer = ask(&host, path, true).await;
            assert!(answer.body().contains("hi") && !answer.body().contains("SECRET"), "{}", answer.body());
        }
    }
}
