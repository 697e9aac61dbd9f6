//! The ends of answers: every word of a service for a failure is an error at every endpoint, every natural one is a
//! complete answer, and tools run only after an ending that allows it. Every combination is generated.

use crate::generator::endpoints::{ENDPOINTS, asking, post};
use crate::host::{Answer, TestHost, chat_body};
use crate::upstream::{MODEL, Reply, Upstream, chunk};
use serde_json::{Value, json};

const FAILURES: [&str; 8] = [
    "error",
    "failed",
    "cancelled",
    "abort",
    "insufficient_system_resource",
    "network_error",
    "MALFORMED_FUNCTION_CALL",
    "function_call_filter: MALFORMED_FUNCTION_CALL",
];

const NATURAL: [&str; 6] = ["stop", "STOP", "eos_token", "COMPLETE", "end_turn", "a word of next year"];

/// Returns an answer that ends with this word, as the request wants it.
fn ending_with(is_streamed: bool, delta: &Value, finish: &str) -> Reply {
    if is_streamed {
        return Reply::raw(
            "text/event-stream",
            [chunk(delta, None), chunk(&json!({}), Some(finish)), "data: [DONE]\n\n".into()].concat(),
        );
    }
    let choice = json!({"index": 0, "message": delta, "finish_reason": finish});
    Reply::json(
        &json!({"id": "c", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}),
    )
}

/// Lets the service end every answer with the text of the question.
fn end_as_asked(upstream: &Upstream) {
    upstream.script(|request| {
        let delta = json!({"role": "assistant", "content": "all of it"});
        ending_with(request.json()["stream"] == true, &delta, &request.last_text())
    });
}

async fn ask(host: &TestHost, endpoint: &str, finish: &str, is_streamed: bool) -> Answer {
    post(host, endpoint, &asking(endpoint, MODEL, finish, is_streamed)).await
}

/// Returns `true` if the endpoint calls the answer complete.
fn is_complete(answer: &Answer) -> bool {
    let body = answer.body();
    let ends = [
        r#""finish_reason":"stop""#,
        r#""stop_reason":"end_turn""#,
        r#""status":"completed","error":null"#,
        r#""done_reason":"stop""#,
    ];
    let is_error = answer.status >= 400 || body.contains(r#""error":{"#) || body.contains(r#"{"error":""#);
    !is_error && ends.iter().any(|end| body.contains(end))
}

#[tokio::test]
async fn a_failure_is_complete_at_no_endpoint_and_a_natural_end_at_each() {
    let reader = "fn stream(event) { event }\nfn outlet(body) { body }";
    for host in [TestHost::new().start().await, TestHost::new().filter("reader", reader).start().await] {
        end_as_asked(&host.upstream);
        for endpoint in ENDPOINTS {
            for is_streamed in [false, true] {
                for finish in FAILURES {
                    let answer = ask(&host, endpoint, finish, is_streamed).await;
                    assert!(!is_complete(&answer), "{finish} at {endpoint}: {}", answer.body());
                }
                // Chat clients receive the word itself.
                let words = if endpoint == ENDPOINTS[0] { &NATURAL[..1] } else { &NATURAL };
                for finish in words {
                    let answer = ask(&host, endpoint, finish, is_streamed).await;
                    assert!(is_complete(&answer), "{finish} at {endpoint}: {}", answer.body());
                    assert!(answer.body().contains("all of it"), "{}", answer.body());
                }
            }
        }
    }
}

#[tokio::test]
async fn a_tool_of_the_host_runs_only_after_an_ending_that_allows_it() {
    let host = TestHost::new()
        .config(&format!(
            "[[models]]\nname = \"helper\"\nprovider = \"mock\"\nmodel = \"{MODEL}\"\ntools = [\"door\"]"
        ))
        .tool(
            "door",
            "/*\ndescription: Opens a door.\n*/\nconst parameters = #{};\nfn handler(args) { \"opened\" }",
        )
        .start()
        .await;
    host.upstream.script(|request| {
        let body = request.json();
        let is_streamed = body["stream"] == true;
        let messages = body["messages"].as_array().unwrap();
        if messages.iter().any(|message| message["role"] == "tool") {
            return ending_with(is_streamed, &json!({"role": "assistant", "content": "done"}), "stop");
        }
        let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "door", "arguments": "{}"}});
        let delta = json!({"role": "assistant", "content": "wait", "tool_calls": [call]});
        ending_with(is_streamed, &delta, &request.last_text())
    });
    for is_streamed in [false, true] {
        for (finish, runs) in [
            ("tool_calls", true),
            ("stop", true),
            ("a word of next year", true),
            ("length", false),
            ("content_filter", false),
            ("error", false),
            ("abort", false),
        ] {
            let before = host.upstream.requests().len();
            let mut body = chat_body("helper", finish);
            body["stream"] = json!(is_streamed);
            let answer = host.chat(&body).await;
            assert_eq!(host.upstream.requests().len() - before, if runs { 2 } else { 1 }, "{finish}");
            assert_eq!(answer.body().contains("done"), runs, "{finish}: {}", answer.body());
            assert!(!answer.body().contains("tool_calls\":"), "{finish}: {}", answer.body());
        }
    }
}

#[tokio::test]
async fn text_after_an_end_belongs_to_the_same_answer() {
    let window = "fn stream(event, state) {
        stream::window(event, state, 20, |text| regex::replace(text, `SECRET`, \"###\"));
    }";
    let host = TestHost::new().filter("window", window).start().await;
    let text = |text: &str| chunk(&json!({"content": text}), None);
    let end = chunk(&json!({}), Some("stop"));
    let with_text = chunk(&json!({"content": "EC"}), Some("stop"));
    let streams = [
        vec![text("my SEC"), end.clone(), text("RET is"), end.clone()],
        vec![text("my SEC"), end.repeat(200), text("RET is"), end.clone()],
        vec![text("my S"), with_text.clone(), text("RET is")],
        vec![text("my S"), with_text, end.clone(), text("RET"), end.clone(), text(" is")],
    ];
    for stream in streams {
        let stream = stream.concat() + "data: [DONE]\n\n";
        host.upstream.reply(Reply::raw("text/event-stream", stream.clone()));
        for endpoint in ENDPOINTS {
            let answer = ask(&host, endpoint, "hi", true).await;
            let body = answer.body();
            assert!(is_complete(&answer), "{endpoint}: {body}");
            assert!(!body.contains("SEC") && !body.contains("RET"), "{endpoint}: {stream}\n{body}");
            assert!(body.contains("my") && body.contains("###") && body.contains("is"), "{endpoint}: {body}");
        }
    }
}

/// Returns `true` if the endpoint gives a call to run: one that no word of its protocol calls cut.
fn has_call_to_run(endpoint: &str, answer: &Answer) -> bool {
    let body = answer.body();
    let (call, cut) = match endpoint {
        "/v1/chat/completions" => {
            (r#""name":"door""#, vec![r#""finish_reason":"length""#, r#""finish_reason":"content_filter""#])
        }
        "/v1/messages" => {
            (r#""name":"door""#, vec![r#""stop_reason":"max_tokens""#, r#""stop_reason":"refusal""#])
        }
        "/v1/responses" => (r#""type":"function_call","status":"completed""#, vec![]),
        _ => ("tool_calls", vec![]),
    };
    body.contains(call) && !cut.iter().any(|word| body.contains(word))
}

#[tokio::test]
async fn a_cut_call_is_a_call_to_run_at_no_endpoint() {
    let reader = "fn stream(event) { event }\nfn outlet(body) { body }";
    for host in [TestHost::new().start().await, TestHost::new().filter("reader", reader).start().await] {
        for arguments in ["{\"a\": 1}", "{\"a\": 1", ""] {
            host.upstream.script(move |request| {
                let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "door", "arguments": arguments}});
                let delta = json!({"role": "assistant", "content": "wait", "tool_calls": [call]});
                ending_with(request.json()["stream"] == true, &delta, &request.last_text())
            });
            for endpoint in ENDPOINTS {
                for is_streamed in [false, true] {
                    for (finish, runs) in
                        [("tool_calls", true), ("stop", true), ("length", false), ("content_filter", false)]
                    {
                        let answer = ask(&host, endpoint, finish, is_streamed).await;
                        let body = answer.body();
                        assert_eq!(has_call_to_run(endpoint, &answer), runs, "{endpoint} {finish}: {body}");
                        assert!(body.contains("wait"), "{endpoint} {finish}: {body}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_matched_stop_text_is_the_stop_sequence_of_a_message() {
    let host = TestHost::new().start().await;
    for key in ["stop_reason", "matched_stop"] {
        for (value, expected) in [
            (json!("three"), json!(["stop_sequence", "three"])),
            (json!(128_009), json!(["end_turn", null])),
            (json!(null), json!(["end_turn", null])),
        ] {
            let value_sent = value.clone();
            host.upstream.script(move |request| {
                let is_streamed = request.json()["stream"] == true;
                let message = json!({"role": "assistant", "content": "one, two, "});
                let part = if is_streamed { "delta" } else { "message" };
                let choice = json!({"index": 0, part: message, "finish_reason": "stop", key: value_sent});
                let body = json!({"id": "c", "created": 1, "model": MODEL, "choices": [choice]});
                match is_streamed {
                    true => Reply::raw("text/event-stream", format!("data: {body}\n\ndata: [DONE]\n\n")),
                    false => Reply::json(&body),
                }
            });
            for is_streamed in [false, true] {
                let answer = ask(&host, "/v1/messages", "count", is_streamed).await;
                let last = match is_streamed {
                    false => answer.json(),
                    true => {
                        let mut events = answer.typed_events().into_iter();
                        events.find(|event| event["type"] == "message_delta").unwrap()["delta"].clone()
                    }
                };
                let ending = json!([last["stop_reason"], last["stop_sequence"]]);
                assert_eq!(ending, expected, "{key}: {value}, streamed: {is_streamed}");
            }
        }
    }
}

/// Some services send the last text together with the end of its choice.
#[tokio::test]
async fn a_text_with_the_end_of_its_choice_survives_a_break_right_after_it() {
    let window = "fn stream(event, state) { stream::window(event, state, 8, |text| text); }";
    for filter in ["fn stream(event) { event }", window, "fn inlet(body) { body }"] {
        let host = TestHost::new().filter("looks", filter).start().await;
        for (broken, more) in [
            (true, String::new()),
            (true, chunk(&json!({}), Some("stop"))),
            (false, "data: {\"error\":{\"message\":\"no\"}}\n\n".to_owned()),
            (false, "data: [1]\n\n".to_owned()),
        ] {
            for endpoint in ENDPOINTS {
                let events = [
                    chunk(&json!({"content": "all "}), None),
                    chunk(&json!({"content": "of it"}), Some("stop")),
                    more.clone(),
                ];
                let reply = Reply::raw("text/event-stream", events.concat());
                host.upstream.reply(if broken { reply.then_cut() } else { reply });
                let answer = ask(&host, endpoint, "hi", true).await;
                let text = answer.body();
                assert!(text.contains("of it"), "{filter} {endpoint} {more}: {text}");
            }
        }
    }
}
