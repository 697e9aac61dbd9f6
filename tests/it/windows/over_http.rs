//! The same random answers as in [`super::final_text`], through a host, at each endpoint for chats.

use super::final_text::Case;
use super::texts_by_path;
use crate::host::{Answer, TestHost};
use crate::kernel::json;
use crate::upstream::{MODEL, Reply, UpstreamRequest, chunk};
use serde_json::{Value, json};
use std::sync::Arc;
use valvehouse::chat::Fold;

/// The number of cases unless `VALVEHOUSE_CASES` sets another one.
const CASES: usize = 40;
/// The number of cases that share a host.
const GROUP: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_changed_text_is_sent_in_its_old_form_at_any_endpoint() {
    let cases = valvehouse_testkit::cases(CASES);
    let all: Vec<Case> = (0..).map(Case::new).filter(Case::is_plain).take(cases).collect();
    let mut wrong = Vec::new();
    let mut all = all.into_iter().map(Case::ended).peekable();
    while all.peek().is_some() {
        check(all.by_ref().take(GROUP).collect(), &mut wrong).await;
    }
    let shown = wrong.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(wrong.is_empty(), "{} of {cases} cases went wrong:\n\n{shown}", wrong.len());
}

async fn check(cases: Vec<Case>, wrong: &mut Vec<String>) {
    let mut setup = TestHost::new()
        .tool("echo", "/*\ndescription: Echoes.\n*/\nconst parameters = #{};\nfn handler(args) { \"ok\" }");
    for (at, case) in cases.iter().enumerate() {
        let head = format!("/*\nglobal: false\nhold: {}\n*/\n", case.hold);
        setup = setup.filter(&format!("f{at}"), head + case.hook().as_str()).config(&format!(
            "[[models]]\nname = \"m{at}\"\nprovider = \"mock\"\nmodel = \"up{at}\"\nfilters = [\"f{at}\"]\n\
             tools = [\"echo\"]\n[filters.f{at}.budget]\nms = 10000\n"
        ));
    }
    let host = setup.start().await;
    let cases = Arc::new(cases);
    let known = cases.clone();
    host.upstream.script(move |request| answer(&known, request));
    for (at, case) in cases.iter().enumerate() {
        for (path, content) in ENDPOINTS {
            let body = json!({
                "model": format!("m{at}"), "stream": case.is_streamed, "max_tokens": 1000,
                "messages": [{"role": "user", "content": "hi"}],
            });
            let body = match path {
                "/v1/responses" => json!({"model": body["model"], "stream": body["stream"], "input": "hi"}),
                _ => body,
            };
            let request = host.request("POST", path).header("content-type", "application/json");
            let answer = Answer::of(request.body(body.to_string())).await;
            let events = events_of(answer.body());
            // The nanoseconds of a time may have the digits of a removed number.
            let untimed = events.iter().cloned().map(|mut event| {
                event.as_object_mut().map(|event| event.remove("created_at"));
                json(&event.to_string())
            });
            let seen = texts_by_path(untimed);
            let expected = case.expected();
            let text: String = events.iter().map(content).collect();
            let is_same = case.has_refusal() || text == expected.content();
            let mut outcome = expected.is_all(&seen);
            if answer.status != 200 || !is_same {
                outcome = Err(format!("expected {:?}, got {text:?}", expected.content()));
            }
            if let Err(why) = outcome {
                wrong.push(format!("{path}: {why}\n{}\n{case:?}\n{}", case.hook(), answer.body()));
            }
        }
    }
}

/// Returns the service's answer to the next model call of a case.
fn answer(cases: &[Case], request: &UpstreamRequest) -> Reply {
    let body = request.json();
    let at: usize = body["model"].as_str().unwrap().trim_start_matches("up").parse().unwrap();
    let messages = body["messages"].as_array().unwrap();
    let round = messages.iter().filter(|message| message["role"] == "assistant").count();
    let events = cases[at].events(round);
    if body["stream"] != true {
        return Reply::json(&serde_json::from_str(&Case::whole(&events).to_string()).unwrap());
    }
    let lines: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    Reply::raw("text/event-stream", lines + "data: [DONE]\n\n")
}

/// Returns the text of an answer.
type TextOf = fn(&Value) -> String;

/// Each endpoint, and the content of an event or of a whole answer.
const ENDPOINTS: [(&str, TextOf); 4] = [
    ("/v1/chat/completions", |event| {
        let choice = &event["choices"][0];
        let text = choice["delta"]["content"].as_str().or_else(|| choice["message"]["content"].as_str());
        text.unwrap_or_default().to_owned()
    }),
    ("/v1/messages", |event| match event["content"].as_array() {
        Some(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        None => event["delta"]["text"].as_str().unwrap_or_default().to_owned(),
    }),
    ("/v1/responses", |event| match event["output"].as_array() {
        Some(items) => {
            let parts = items.iter().filter_map(|item| item["content"].as_array()).flatten();
            parts
                .filter(|part| part["type"] == "output_text")
                .filter_map(|part| part["text"].as_str())
                .collect()
        }
        None if event["type"] == "response.output_text.delta" => event["delta"].as_str().unwrap().to_owned(),
        None => String::new(),
    }),
    ("/api/chat", |line| line["message"]["content"].as_str().unwrap_or_default().to_owned()),
];

/// Returns the events of a stream, or a whole answer as the only one.
fn events_of(body: &str) -> Vec<Value> {
    if let Ok(whole) = serde_json::from_str(body) {
        return vec![whole];
    }
    body.lines().filter_map(|line| serde_json::from_str(line.trim_start_matches("data:")).ok()).collect()
}

#[tokio::test]
async fn a_call_of_the_first_version_is_a_tool_call_for_windows_and_clients() {
    let guard = "/*\nsecurity: true\n*/\nfn stream(event, state) { stream::window(event, state, 60, |t| text::replace(t, \"SECRET\", \"[x]\")); }";
    let host = TestHost::new().filter("guard", guard).start().await;
    let escape = r"\u0045";
    for cut in 0..=escape.len() {
        let parts = [format!(r#"{{"a":"S{}"#, &escape[..cut]), format!(r#"{}CRET y"}}"#, &escape[cut..])];
        let [first, second] =
            parts.each_ref().map(|part| chunk(&json!({"function_call": {"arguments": part}}), None));
        let begin =
            chunk(&json!({"role": "assistant", "function_call": {"name": "f", "arguments": ""}}), None);
        let stream =
            [begin, first, second, chunk(&json!({}), Some("function_call"))].concat() + "data: [DONE]\n\n";
        let message = json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": parts.concat()}});
        let whole = json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [
            {"index": 0, "message": message, "finish_reason": "function_call"}]});
        host.upstream.script(move |request| match request.json()["stream"] == true {
            true => Reply::raw("text/event-stream", stream.as_str()),
            false => Reply::json(&whole),
        });
        for is_streamed in [true, false] {
            for (path, _) in ENDPOINTS {
                let messages = json!([{"role": "user", "content": "hi"}]);
                let body = match path {
                    "/v1/responses" => json!({"model": MODEL, "stream": is_streamed, "input": "hi"}),
                    _ => {
                        json!({"model": MODEL, "stream": is_streamed, "max_tokens": 1000, "messages": messages})
                    }
                };
                let request = host.request("POST", path).header("content-type", "application/json");
                let answer = Answer::of(request.body(body.to_string())).await;
                let text = answer.body();
                assert!(text.contains("[x]") && !text.contains("CRET"), "{path} {is_streamed} {cut}: {text}");
                if path == "/v1/chat/completions" {
                    assert!(text.contains("tool_calls") && !text.contains("function_call"), "{text}");
                }
            }
            // A client of the first version receives its own form.
            let answer = host
                .chat(&json!({"model": MODEL, "stream": is_streamed, "functions": [{"name": "f", "parameters": {}}],
                    "messages": [{"role": "user", "content": "hi"}]}))
                .await;
            let mut fold = Fold::default();
            events_of(answer.body()).iter().for_each(|event| fold.push(&json(&event.to_string())));
            let choice = match is_streamed {
                true => fold.finish(),
                false => json(answer.body()),
            };
            let choice = choice.at_path("choices.0");
            assert!(choice.is_text("finish_reason", "function_call"), "{choice}");
            let call = choice.at_path("message.function_call");
            assert!(call.is_text("name", "f") && call.is_text("arguments", r#"{"a":"[x] y"}"#), "{choice}");
            assert!(choice.at_path("message.tool_calls").is_null(), "{choice}");
        }
    }
}
