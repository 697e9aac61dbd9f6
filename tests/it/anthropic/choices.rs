//! Responses with several choices for clients whose protocol has only one: they receive choice 0 completely,
//! and filters receive all choices.

use super::{content, question, streamed};
use crate::host::{Answer, TestHost};
use crate::upstream::{MODEL, Reply};
use serde_json::{Value, json};

/// The orders and numberings of a service's events.
const ORDERS: [&str; 5] =
    ["in turns", "in one event", "without numbers", "the other first", "the other later"];

/// Filters of every kind that receives responses, and one that also requests the other choice.
const FILTERS: [(&str, &str); 6] = [
    ("none", ""),
    ("identity", "fn stream(event) { event }\nfn outlet(body) { body }"),
    ("window", "fn stream(event, state) { stream::window(event, state, 12, |text| text); }"),
    (
        "redact",
        "fn stream(event, state) { stream::window(event, state, 9, |text| text::replace(text, \"secret-42\", \"[x]\")); }",
    ),
    ("held", "/*\nhold: true\n*/\nfn outlet(body) { body }"),
    (
        "nosy",
        "fn stream(event) { if event.text.contains(\"forbidden\") { deny(\"seen in another choice\", 403) } }\nfn outlet(body) { if body.messages[-1].text.contains(\"forbidden\") { deny(\"seen in another choice\", 403) } }",
    ),
];

fn choice(index: u64, delta: Value, finish: Option<&str>) -> Value {
    json!({"index": index, "delta": delta, "finish_reason": finish})
}

fn call(arguments: &str, is_first: bool) -> Value {
    let mut call = json!({"index": 0, "function": {"arguments": arguments}});
    if is_first {
        call["id"] = json!("call_1");
        call["type"] = json!("function");
        call["function"]["name"] = json!("open_door");
    }
    json!({"tool_calls": [call]})
}

fn usage() -> Value {
    json!({"prompt_tokens": 3, "completion_tokens": 11, "total_tokens": 14})
}

/// Returns a stream of two choices in the given order.
fn stream_of(order: &str, other: &str) -> Reply {
    let first = [
        choice(0, json!({"role": "assistant", "content": ""}), None),
        choice(0, json!({"content": "nought sec"}), None),
        choice(0, json!({"content": "ret-42 and "}), None),
        choice(0, json!({"content": "more"}), None),
        choice(0, json!({}), Some("length")),
    ];
    let second = [
        choice(1, json!({"role": "assistant", "content": ""}), None),
        choice(1, json!({"content": other}), None),
        choice(1, call("{\"a\":", true), None),
        choice(1, call("\"secret-42\"}", false), None),
        choice(1, json!({}), Some("tool_calls")),
    ];
    let pairs = first.iter().cloned().zip(second.iter().cloned());
    let both: Vec<Vec<Value>> = match order {
        "in turns" => pairs.flat_map(|(first, second)| [vec![first], vec![second]]).collect(),
        "in one event" => pairs.map(|(first, second)| vec![first, second]).collect(),
        "the other first" => pairs.map(|(first, second)| vec![second, first]).collect(),
        "the other later" => first.iter().chain(&second).map(|choice| vec![choice.clone()]).collect(),
        _ => pairs
            .map(|(mut first, mut second)| {
                for choice in [&mut first, &mut second] {
                    choice.as_object_mut().unwrap().remove("index");
                }
                vec![first, second]
            })
            .collect(),
    };
    let head = |choices: &[Value]| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices});
    let mut last = head(&[]);
    last["usage"] = usage();
    let events: String = both.iter().map(|choices| format!("data: {}\n\n", head(choices))).collect();
    Reply::raw("text/event-stream", format!("{events}data: {last}\n\ndata: [DONE]\n\n"))
}

/// Returns the same two choices as one response.
fn answer_of(order: &str, other: &str) -> Reply {
    let function = json!({"name": "open_door", "arguments": "{\"a\":\"secret-42\"}"});
    let calls = json!([{"id": "call_1", "type": "function", "function": function}]);
    let mut choices = vec![
        json!({"index": 0, "message": {"role": "assistant", "content": "nought secret-42 and more"}, "finish_reason": "length"}),
        json!({"index": 1, "message": {"role": "assistant", "content": other, "tool_calls": calls}, "finish_reason": "tool_calls"}),
    ];
    match order {
        "the other first" => choices.reverse(),
        "without numbers" => {
            choices.iter_mut().for_each(|choice| drop(choice.as_object_mut().unwrap().remove("index")))
        }
        _ => {}
    }
    Reply::json(
        &json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage()}),
    )
}

/// Starts a host with a model for each filter. The question names the order and the text of the other choice.
async fn host() -> TestHost {
    let mut setup = TestHost::new();
    for (name, text) in FILTERS {
        let text = match text.strip_prefix("/*\n") {
            Some(rest) => format!("/*\nglobal: false\n{rest}"),
            None => format!("/*\nglobal: false\n*/\n{text}"),
        };
        let filters = if name == "none" { json!([]) } else { json!([name]) };
        if name != "none" {
            setup = setup.filter(name, text);
        }
        setup = setup.config(&format!(
            "[[models]]\nname = \"m-{name}\"\nprovider = \"mock\"\nmodel = \"{MODEL}\"\nfilters = {filters}"
        ));
    }
    let host = setup.start().await;
    host.upstream.script(|request| {
        let body = request.json();
        let prompt = body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
        let (order, other) = prompt.split_once(": ").unwrap();
        match (order, body["stream"] == json!(true)) {
            ("only another", true) => {
                let event = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                    "choices": [choice(1, json!({"role": "assistant", "content": other}), Some("stop"))]});
                Reply::raw("text/event-stream", format!("data: {event}\n\ndata: [DONE]\n\n"))
            }
            ("only another", false) => {
                let message = json!({"role": "assistant", "content": other});
                Reply::json(&json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
                    "choices": [{"index": 1, "message": message, "finish_reason": "stop"}]}))
            }
            (order, true) => stream_of(order, other),
            (order, false) => answer_of(order, other),
        }
    });
    host
}

async fn respond(host: &TestHost, model: &str, text: &str, stream: bool) -> Answer {
    let body = json!({"model": model, "input": text, "stream": stream});
    let request = host.request("POST", "/v1/responses").header("content-type", "application/json");
    Answer::of(request.body(body.to_string())).await
}

/// Returns the last event of a streamed response, or the whole response.
fn response_of(answer: &Answer) -> Value {
    if !answer.is_stream() {
        return answer.json();
    }
    let last = answer.body().trim_end().rsplit("\n\n").next().unwrap();
    serde_json::from_str(last.split_once("data: ").unwrap().1).unwrap()
}

#[tokio::test]
async fn messages_and_responses_contain_only_the_first_choice() {
    let host = host().await;
    for (order, (filter, _)) in ORDERS.iter().flat_map(|order| FILTERS.map(|filter| (order, filter))) {
        let text = if filter == "redact" { "nought [x] and more" } else { "nought secret-42 and more" };
        let (model, prompt) = (format!("m-{filter}"), format!("{order}: one secret-42"));
        for stream in [false, true] {
            let what = format!("{order}, {filter}, stream: {stream}");
            let body = question(&model, &prompt);
            let answer = host.message(&if stream { streamed(body) } else { body }).await;
            assert_eq!(answer.status, 200, "{what}: {}", answer.body());
            let (blocks, stop, spent) = if stream {
                let events = answer.typed_events();
                let delta = events.iter().find(|event| event["type"] == "message_delta").unwrap().clone();
                (content(&answer), delta["delta"]["stop_reason"].clone(), delta["usage"].clone())
            } else {
                let message = answer.json();
                (message["content"].clone(), message["stop_reason"].clone(), message["usage"].clone())
            };
            assert_eq!(blocks, json!([{"type": "text", "text": text}]), "{what}");
            assert_eq!(stop, "max_tokens", "{what}");
            // The service counts all output tokens, including those of the choice that no client receives.
            assert_eq!(spent["output_tokens"], 11, "{what}");
            let answer = respond(&host, &model, &prompt, stream).await;
            assert_eq!(answer.status, 200, "{what}: {}", answer.body());
            let last = response_of(&answer);
            let response = if stream { &last["response"] } else { &last };
            assert_eq!(response["status"], "incomplete", "{what}");
            let output = response["output"].as_array().unwrap();
            assert_eq!(output.len(), 1, "{what}: {response}");
            assert_eq!(output[0]["content"][0]["text"], text, "{what}");
            assert!(!answer.body().contains("one "), "{what}: {}", answer.body());
        }
    }
}

#[tokio::test]
async fn a_filter_sees_choices_that_the_client_does_not_receive() {
    let host = host().await;
    for order in ORDERS {
        let prompt = format!("{order}: it is forbidden");
        for stream in [false, true] {
            let body = question("m-nosy", &prompt);
            let answer = host.message(&if stream { streamed(body) } else { body }).await;
            assert!(answer.body().contains("seen in another choice"), "{order}: {}", answer.body());
            assert!(!answer.body().contains("message_stop"), "{order}: {}", answer.body());
            let answer = respond(&host, "m-nosy", &prompt, stream).await;
            assert!(answer.body().contains("seen in another choice"), "{order}: {}", answer.body());
            assert!(!answer.body().contains("response.completed"), "{order}: {}", answer.body());
        }
    }
}

#[tokio::test]
async fn an_answer_without_the_first_choice_is_a_provider_error() {
    let host = host().await;
    let words = "has no choice with index 0";
    for filter in ["none", "window", "held"] {
        let (model, prompt) = (format!("m-{filter}"), "only another: lost");
        let answer = host.message(&question(&model, prompt)).await;
        assert!(answer.status == 502 && answer.body().contains(words), "{filter}: {}", answer.body());
        respond(&host, &model, prompt, false).await.refused(502, words);
        let answer = host.message(&streamed(question(&model, prompt))).await;
        let last = answer.typed_events().pop().unwrap();
        assert_eq!(last["type"], "error", "{filter}: {}", answer.body());
        assert!(last["error"]["message"].as_str().unwrap().contains(words), "{filter}: {last}");
        let answer = respond(&host, &model, prompt, true).await;
        assert_eq!(response_of(&answer)["type"], "response.failed", "{filter}: {}", answer.body());
        assert!(answer.body().contains(words), "{filter}: {}", answer.body());
    }
}

/// Returns the lines of a response at Ollama's route.
async fn lines(host: &TestHost, model: &str, text: &str, stream: bool) -> (u16, Vec<Value>) {
    let body = json!({"model": model, "messages": [{"role": "user", "content": text}], "stream": stream});
    let request = host.request("POST", "/api/chat").header("content-type", "application/json");
    let answer = Answer::of(request.body(body.to_string())).await;
    (answer.status, answer.body().lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[tokio::test]
async fn ollama_clients_receive_the_first_choice_or_the_provider_error() {
    let host = host().await;
    for (order, (filter, _)) in ORDERS.iter().flat_map(|order| FILTERS.map(|filter| (order, filter))) {
        let text = if filter == "redact" { "nought [x] and more" } else { "nought secret-42 and more" };
        for stream in [false, true] {
            let what = format!("{order}, {filter}, stream: {stream}");
            let prompt = format!("{order}: one secret-42");
            let (status, lines) = lines(&host, &format!("m-{filter}"), &prompt, stream).await;
            let actual: String =
                lines.iter().filter_map(|line| line["message"]["content"].as_str()).collect();
            assert_eq!((status, actual.as_str()), (200, text), "{what}: {lines:?}");
            assert_eq!(lines.last().unwrap()["done_reason"], "length", "{what}");
            assert!(lines.iter().all(|line| line["message"]["tool_calls"].is_null()), "{what}: {lines:?}");
        }
    }
    for (filter, stream) in ["none", "window", "held"].into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let (status, lines) = lines(&host, &format!("m-{filter}"), "only another: lost", stream).await;
        let error = lines.last().unwrap()["error"].as_str().unwrap_or_default();
        assert!(error.contains("has no choice with index 0"), "{filter}, {stream}: {lines:?}");
        assert_eq!(status, if stream { 200 } else { 502 }, "{filter}");
    }
}
