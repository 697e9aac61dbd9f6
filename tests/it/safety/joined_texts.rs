//! Texts that guards judge one by one: no endpoint and no service receives them as one text, and no value is left out
//! because of its key or its form.

use super::service_errors::ask;
use crate::generator::endpoints::ENDPOINTS;
use crate::host::{Answer, TestHost};
use crate::upstream::{MODEL, Reply, chunk};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Removes a word from all texts of requests and answers.
const GUARD: &str = "/*\nsecurity: true\n*/
fn clean(text) { regex::replace(text, `SECRETWORD`, \"###\") }
fn inlet(body) { for place in body.texts { place.text = clean(place.text); } body }
fn stream(event, state) { stream::window(event, state, 40, |text| clean(text)); }";

fn whole(choices: &Value) -> Reply {
    Reply::json(
        &json!({"id": "c", "object": "chat.completion", "created": 1, "model": MODEL, "choices": choices}),
    )
}

/// Returns the texts of an answer as its client joins them: those of one key at one place, in order.
fn joined(body: &str) -> String {
    fn walk(value: &Value, found: &mut BTreeMap<String, String>, key: &str) {
        match value {
            Value::String(text) => found.entry(key.to_owned()).or_default().push_str(text),
            Value::Array(items) => items.iter().for_each(|item| walk(item, found, key)),
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| walk(value, found, &format!("{key}.{name}")))
            }
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    for line in body.lines() {
        let line = line.strip_prefix("data: ").unwrap_or(line);
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let place = ["type", "index", "output_index", "content_index", "summary_index"]
            .map(|key| value[key].to_string());
        walk(&value, &mut found, &place.concat());
    }
    found.into_values().collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn an_answer_whose_choices_are_no_objects_is_an_error() {
    let host = TestHost::new().filter("guard", GUARD).start().await;
    for choices in [
        json!("a SECRETWORD"),
        json!({"message": {"content": "a SECRETWORD"}}),
        json!({"0": {"message": {"content": "a SECRETWORD"}}}),
        json!(["a SECRETWORD"]),
        json!([{"message": {"content": "ok"}, "finish_reason": "stop"}, "a SECRETWORD"]),
        json!([{"message": {"content": "ok"}, "finish_reason": "stop"}, ["a SECRETWORD"]]),
    ] {
        for path in ENDPOINTS {
            host.upstream.reply(whole(&choices));
            let answer = ask(&host, path, false).await;
            assert_eq!(answer.status, 502, "{path}: {choices}: {}", answer.body());
            assert!(!answer.body().contains("SECRETWORD"), "{path}: {choices}: {}", answer.body());
        }
    }
}

#[tokio::test]
async fn no_endpoint_joins_texts_that_were_judged_apart() {
    let host = TestHost::new().filter("guard", GUARD).start().await;
    let halves = [
        [json!({"content": "a SECRET"}), json!({"refusal": "WORD b"})],
        [json!({"refusal": "a SECRET"}), json!({"content": "WORD b"})],
        [json!({"reasoning_content": "a SECRET"}), json!({"reasoning": "WORD b"})],
        [json!({"reasoning": "a SECRET"}), json!({"thinking": "WORD b"})],
    ];
    for [first, second] in &halves {
        for path in ENDPOINTS {
            let stream = [chunk(first, None), chunk(second, None), chunk(&json!({}), Some("stop"))].concat();
            host.upstream.reply(Reply::raw("text/event-stream", format!("{stream}data: [DONE]\n\n")));
            let answer = ask(&host, path, true).await;
            assert!(
                !joined(answer.body()).contains("SECRETWORD"),
                "{path}: {first} {second}: {}",
                answer.body()
            );
        }
    }
    for path in ENDPOINTS {
        let message = json!({"role": "assistant", "content": "a SECRET", "refusal": "WORD b"});
        host.upstream.reply(whole(&json!([{"index": 0, "message": message, "finish_reason": "stop"}])));
        let answer = ask(&host, path, false).await;
        assert!(answer.status == 200 && !answer.body().contains("SECRETWORD"), "{path}: {}", answer.body());
    }
}

#[tokio::test]
async fn no_service_receives_parts_as_one_text() {
    let parts = json!([{"type": "text", "text": "a SECRET"}, {"type": "text", "text": "WORD b"}]);
    let messages = json!([
        {"role": "system", "content": parts}, {"role": "user", "content": parts},
        {"role": "assistant", "content": "a SECRET", "refusal": "WORD b"},
        {"role": "user", "content": "go on"},
    ]);
    for kind in ["openai", "anthropic", "ollama"] {
        let host = TestHost::new().filter("guard", GUARD).provider(&format!("kind = {kind:?}")).start().await;
        host.upstream.reply(Reply::json(&json!({})));
        let body = json!({"model": MODEL, "messages": messages, "max_tokens": 9}).to_string();
        let request = host.request("POST", "/v1/chat/completions").header("content-type", "application/json");
        Answer::of(request.body(body)).await;
        let sent = String::from_utf8_lossy(&host.upstream.last().body).into_owned();
        assert!(sent.contains("SECRET") && !sent.contains("SECRETWORD"), "{kind}: {sent}");
    }
}

#[tokio::test]
async fn a_sentence_in_place_of_a_name_is_a_text() {
    let host = TestHost::new().filter("guard", GUARD).start().await;
    let sentence = "write to SECRETWORD now";
    for key in ["system_fingerprint", "service_tier", "provider"] {
        for value in [json!(sentence), json!([sentence]), json!({"text": sentence})] {
            let mut event: Value =
                serde_json::from_str(&chunk(&json!({"content": "ok"}), Some("stop"))[6..]).unwrap();
            event[key] = value;
            host.upstream
                .reply(Reply::raw("text/event-stream", format!("data: {event}\n\ndata: [DONE]\n\n")));
            let answer = ask(&host, "/v1/chat/completions", true).await;
            assert!(!answer.body().contains("SECRETWORD"), "{event}: {}", answer.body());
        }
    }
    let body =
        |message: Value| json!({"model": MODEL, "messages": [message, {"role": "user", "content": "hi"}]});
    let data = |url: &str| json!({"role": "user", "content": [{"type": "file", "file": {"file_data": url}}]});
    let utf16: Vec<u8> = sentence.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let encode = |bytes: &[u8]| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
    let plain = encode(sentence.as_bytes());
    for message in [
        json!({"role": format!("user\n{sentence}"), "content": "x"}),
        json!({"role": "user", "name": sentence, "content": "x"}),
        data(sentence),
        data(&format!(" data:text/plain;base64,{plain}")),
        data(&format!("data:text/plain;a=\"b,c\";base64,{plain}")),
        data(&format!("data:text/plain;base64,{}", plain.replace('c', "%63"))),
        data(&format!("data:application/pdf;base64,{plain}")),
        data(&format!("data:image/png;base64,{plain}")),
        data(&format!("data:image/svg+xml;base64,{plain}")),
        data(&format!("data:image/svg+xml,{sentence}")),
        data(&format!("data:text/plain;charset=utf-16le;base64,{}", encode(&utf16))),
        data(&format!("data:text/plain;base64,{}", encode(&[&[0xff, 0xfe], &utf16[..]].concat()))),
    ] {
        host.upstream.reply(Reply::text("ok"));
        let before = host.upstream.requests().len();
        let request = host.request("POST", "/v1/chat/completions").header("content-type", "application/json");
        let answer = Answer::of(request.body(body(message.clone()).to_string())).await;
        let sent =
            host.upstream.requests().get(before).map(|it| String::from_utf8_lossy(&it.body).into_owned());
        let Some(sent) = sent else {
            assert_eq!(answer.status, 400, "{message}: {}", answer.body());
            continue;
        };
        let is_same = message["content"][0]["file"]["file_data"]
            .as_str()
            .is_some_and(|url| sent.contains(&json!(url).to_string()));
        assert!(!sent.contains("SECRETWORD") && !is_same, "{message}: {sent}");
    }
}

#[tokio::test]
async fn texts_in_log_probabilities_schemas_and_metadata_are_seen() {
    let host = TestHost::new().filter("guard", GUARD).start().await;
    let sentence = "write to SECRETWORD now";
    let text = json!({"text": sentence});
    let tools = |schema: Value| json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": schema}}}}]);
    let part = json!([{"role": "user", "content": [{"type": "text", "text": "hi", "logprobs": text}]}]);
    for (key, value) in [
        ("messages", json!([{"role": "user", "content": "hi", "logprobs": text}])),
        ("messages", part),
        ("logprobs", text.clone()),
        ("logprobs", json!({"content": [{"token": "a", "logprob": 0, "x": sentence}]})),
        ("foo", json!({"logprobs": text})),
        ("tool_choice", json!({"type": "auto", "logprobs": {"a": sentence}})),
        ("tools", tools(json!({"type": sentence}))),
        ("tools", tools(json!({"type": ["string", sentence]}))),
        ("tools", tools(json!({"type": "string", "format": sentence}))),
        ("tools", tools(json!({"$ref": text}))),
        ("tools", tools(json!({"$id": [text]}))),
        ("metadata", json!({"name": sentence, "data": sentence, "file_id": sentence})),
    ] {
        host.upstream.reply(Reply::text("ok"));
        let mut body =
            json!({"model": MODEL, "store": true, "messages": [{"role": "user", "content": "hi"}]});
        body[key] = value;
        let request = host.request("POST", "/v1/chat/completions").header("content-type", "application/json");
        Answer::of(request.body(body.to_string())).await;
        let sent = String::from_utf8_lossy(&host.upstream.last().body).into_owned();
        assert!(!sent.contains("SECRETWORD"), "{body}: {sent}");
    }
    for (way, value) in [
        ("/logprobs", json!(sentence)),
        ("/logprobs", json!({"content": [{"token": sentence}]})),
        ("/usage", json!({"prompt_tokens": 1, "logprobs": sentence})),
        ("/choices/0/delta", json!({"content": "ok", "logprobs": text})),
        ("/choices/0/delta", json!({"content": "ok", "foo": {"logprobs": text}})),
    ] {
        let mut event: Value =
            serde_json::from_str(&chunk(&json!({"content": "ok"}), Some("stop"))[6..]).unwrap();
        for key in ["logprobs", "usage"] {
            event[key] = Value::Null;
        }
        *event.pointer_mut(way).unwrap() = value;
        host.upstream.reply(Reply::raw("text/event-stream", format!("data: {event}\n\ndata: [DONE]\n\n")));
        let answer = ask(&host, "/v1/chat/completions", true).await;
        assert!(!answer.body().contains("SECRETWORD"), "{event}: {}", answer.body());
    }
}

#[tokio::test]
async fn sentences_in_the_head_of_an_answer_are_seen_at_every_endpoint() {
    let host = TestHost::new().filter("guard", GUARD).start().await;
    let text = "write to SECRETWORD now";
    let values =
        [json!(text), json!([text]), json!({"text": text}), json!({text: 1}), json!({"a": [{"b": text}]})];
    let choice =
        json!({"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"});
    let answer =
        json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]});
    let event: Value =
        serde_json::from_str(chunk(&json!({"content": "ok"}), None).strip_prefix("data: ").unwrap()).unwrap();
    for key in ["id", "object", "created", "model", "system_fingerprint", "service_tier", "provider", "x"] {
        for value in &values {
            let (mut whole, mut event) = (answer.clone(), event.clone());
            whole[key] = value.clone();
            event[key] = value.clone();
            let events = format!("data: {event}\n\n{}data: [DONE]\n\n", chunk(&json!({}), Some("stop")));
            for path in ENDPOINTS {
                for (sent, stream) in [(false, false), (false, true), (true, false), (true, true)] {
                    host.upstream.reply(match sent {
                        true => Reply::raw("text/event-stream", events.clone()),
                        false => Reply::json(&whole),
                    });
                    let seen = ask(&host, path, stream).await;
                    let case =
                        format!("{path} {key}: {value}, events {sent}, stream {stream}: {}", seen.body());
                    assert!(!seen.body().contains("SECRETWORD"), "{case}");
                    assert!(seen.body().contains("ok") || seen.status == 502, "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn sentences_in_headers_of_a_service_reach_no_client_of_a_guard() {
    for (guard, is_guarded) in [(GUARD, true), ("fn inlet(body) { body }", false)] {
        let host = TestHost::new().filter("guard", guard).start().await;
        for (name, value, is_name) in [
            ("x-request-id", "req_0123-AB", true),
            ("x-request-id", "write to SECRETWORD now", false),
            ("x-ratelimit-note", "write\tto SECRETWORD", false),
            ("x-ratelimit-reset", "6m0s", true),
            ("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", true),
            ("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT (write to SECRETWORD)", false),
        ] {
            for path in ENDPOINTS {
                for (stream, status) in [(false, 200), (true, 200), (false, 400)] {
                    let reply = if stream { Reply::words(["ok"]) } else { Reply::text("ok") };
                    host.upstream.reply(reply.status(status).header(name, value));
                    let answer = ask(&host, path, stream).await;
                    let passed = (is_name || !is_guarded).then_some(value);
                    assert_eq!(answer.header(name), passed, "{path} {stream} {status} {}", answer.body());
                }
            }
        }
    }
    // The same on other routes, where headers describe the body too.
    for (guard, is_guarded) in [("/*\nsecurity: true\n*/\n", true), ("", false)] {
        let guard = format!("{guard}const endpoints = [\"embeddings\"];\nfn inlet(body) {{ body }}");
        let host = TestHost::new().filter("guard", guard).start().await;
        for (name, value, is_name) in [
            ("x-request-id", "req_0123-AB", true),
            ("x-request-id", "write to SECRETWORD now", false),
            ("x-ratelimit-note", "write\tto SECRETWORD", false),
            ("content-disposition", "attachment; filename=\"a.json\"", true),
            ("content-disposition", "attachment; filename=\"write to SECRETWORD\"", false),
        ] {
            for status in [200, 400] {
                let reply = Reply::raw("application/json; charset=utf-8", "{}");
                host.upstream.reply(reply.status(status).header(name, value));
                let body = json!({"model": MODEL, "input": "hi"}).to_string();
                let request =
                    host.request("POST", "/v1/embeddings").header("content-type", "application/json");
                let answer = Answer::of(request.body(body)).await;
                let shown = answer.header(name).unwrap_or("");
                assert!(!(is_guarded && shown.contains("SECRETWORD")), "{status} {}", answer.body());
                if status == 200 {
                    assert_eq!(
                        answer.header(name),
                        (is_name || !is_guarded).then_some(value),
                        "{}",
                        answer.body()
                    );
                    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
                }
            }
        }
    }
}

/// A client may read another one of two values than filters.
#[tokio::test]
async fn an_event_with_a_repeated_key_is_written_anew() {
    const SEES: &str = "/*\nsecurity: true\n*/\nfn stream(event) { for place in event.texts { place.text = regex::replace(place.text, `SECRETWORD`, \"###\"); } }";
    let delta = |text: &str| format!(r#"{{"content":"{text}"}}"#);
    let choices = |delta: &str| format!(r#"[{{"index":0,"delta":{delta}}}]"#);
    let (bad, good) = (delta("SECRETWORD"), delta("ok"));
    let objects = [
        choices(r#"{"content":"SECRETWORD","content":"ok"}"#),
        choices(r#"{"cont\u0065nt":"SECRETWORD","content":"ok"}"#),
        choices(r#"{"content":"ok","x":{"y":"SECRETWORD","y":"z"}}"#),
        format!(r#"[{{"index":0,"delta":{bad},"delta":{good}}}]"#),
        format!(r#"{},"choices":{}"#, choices(&bad), choices(&good)),
        format!(r#"{},"choices":[]"#, choices(&bad)),
        format!(r#"{},"x":"SECRETWORD","x":1"#, choices(&good)),
    ];
    for guard in [GUARD, SEES] {
        let host = TestHost::new().filter("guard", guard).start().await;
        for choices in &objects {
            for path in ENDPOINTS {
                let first = chunk(&json!({"role": "assistant", "content": "well "}), None);
                let last = chunk(&json!({}), Some("stop"));
                let event = format!("data: {{\"id\":\"chatcmpl-mock\",\"choices\":{choices}}}\n\n");
                host.upstream.reply(Reply::raw(
                    "text/event-stream",
                    [first, event, last, "data: [DONE]\n\n".into()].concat(),
                ));
                let answer = ask(&host, path, true).await;
                assert!(!answer.body().contains("SECRETWORD"), "{guard} {path} {choices}: {}", answer.body());
                assert!(answer.body().contains("well"), "{path} {choices}: {}", answer.body());
            }
        }
    }
}

/// A delta with a text in an unknown field.
type Delta = fn(&str) -> Value;

#[tokio::test]
async fn no_client_joins_the_parts_of_an_unknown_field() {
    let host = TestHost::new().filter("guard", GUARD).start().await;
    let call = |x: &str, name: &str| {
        json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "x": x,
            "function": {"name": name, "arguments": "{}", "y": x}}]})
    };
    let more = |x: &str| json!({"tool_calls": [{"index": 0, "x": x, "function": {"arguments": "", "y": x}}]});
    let fields: [(Delta, bool); 7] = [
        (|x| json!({"x": x}), true),
        (|x| json!({"x": {"y": {"z": x}}}), true),
        (|x| json!({"x": [{"index": 0, "y": x}]}), false),
        (|x| json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "other": x}]}), false),
        (|x| json!({"audio": {"other": x}}), true),
        (|x| json!({"provider_specific_fields": {"text": x}}), true),
        (
            |x| json!({"annotations": [{"type": "url_citation", "index": 0, "url_citation": {"title": x}}]}),
            false,
        ),
    ];
    let mut streams: Vec<([Value; 2], bool)> =
        fields.iter().map(|(of, is_kept)| ([of("a SECRET"), of("WORD b")], *is_kept)).collect();
    streams.push(([call("a SECRET", "f"), more("WORD b")], false));
    for ([first, second], is_kept) in &streams {
        for between in [None, Some(json!({"content": "hi"})), Some(json!({"reasoning_content": "hm"}))] {
            let between = between.map_or(String::new(), |delta| chunk(&delta, None));
            let parts = [chunk(first, None), between, chunk(second, None), chunk(&json!({}), Some("stop"))];
            let stream = parts.concat() + "data: [DONE]\n\n";
            for path in ENDPOINTS {
                host.upstream.reply(Reply::raw("text/event-stream", stream.clone()));
                let answer = ask(&host, path, true).await;
                let text = joined(answer.body());
                assert!(answer.status == 200, "{path}: {stream}: {}", answer.body());
                assert!(!text.contains("SECRETWORD"), "{path}: {stream}: {}", answer.body());
                if *is_kept && path == ENDPOINTS[0] {
                    assert!(text.contains("a ### b"), "{path}: {stream}: {}", answer.body());
                }
            }
        }
    }
}

#[tokio::test]
async fn a_sentence_in_place_of_a_key_is_a_text() {
    let host = TestHost::new().filter("guard", GUARD).start().await;
    let schema = json!({"type": "object", "properties": {"write to SECRETWORD now": {"type": "string"}},
        "required": ["write to SECRETWORD now"]});
    let tool =
        |schema: &Value| json!([{"type": "function", "function": {"name": "f", "parameters": schema}}]);
    let format =
        |schema: &Value| json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
    let object = json!({"write to SECRETWORD now": {"and": {"to SECRETWORD, too": 1}}});
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": object}}]});
    let result = json!({"role": "tool", "tool_call_id": "call_1", "content": "ok"});
    let user = json!({"role": "user", "content": "hi"});
    for (key, value) in [
        ("tools", tool(&schema)),
        ("tools", tool(&json!({"type": "object", "$defs": {"a SECRETWORD b": schema}}))),
        ("tools", tool(&json!({"type": "object", "required": ["a SECRETWORD b"]}))),
        (
            "tools",
            tool(&json!({"type": "object", "dependentRequired": {"a SECRETWORD b": ["to SECRETWORD"]}})),
        ),
        ("tools", tool(&json!({"type": "object", "default": object}))),
        ("response_format", format(&schema)),
        ("x", object.clone()),
        ("chat_template_kwargs", object.clone()),
        ("extra_body", object.clone()),
        ("tool_choice", object.clone()),
        ("usage", object.clone()),
        ("stream_options", object.clone()),
        ("service_tier", json!([["to SECRETWORD now"]])),
        ("modalities", json!({"url": "to SECRETWORD now"})),
        ("tools", json!([{"type": "function", "url": "to SECRETWORD now", "function": {"name": "f"}}])),
        (
            "messages",
            json!([{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "to SECRETWORD now"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,to SECRETWORD now"}}]}]),
        ),
        ("to SECRETWORD now", json!(1)),
        ("messages", json!([user, call, result])),
        ("messages", json!([{"role": "user", "content": "hi", "to SECRETWORD now": 1}])),
        ("messages", json!([{"role": "user", "content": [{"type": "text", "text": "hi", "x": object}]}])),
    ] {
        host.upstream.reply(Reply::text("ok"));
        let before = host.upstream.requests().len();
        let mut body = json!({"model": MODEL, "messages": [user]});
        body[key] = value.clone();
        let request = host.request("POST", "/v1/chat/completions").header("content-type", "application/json");
        let answer = Answer::of(request.body(body.to_string())).await;
        let sent =
            host.upstream.requests().get(before).map(|it| String::from_utf8_lossy(&it.body).into_owned());
        match sent {
            Some(sent) => assert!(!sent.contains("SECRETWORD"), "{key}: {value}: {sent}"),
            None => assert_eq!(answer.status, 400, "{key}: {value}: {}", answer.body()),
        }
    }
    // In answers.
    for delta in [
        json!({"content": "hi", "x": object}),
        json!({"content": "hi", "to SECRETWORD now": 1}),
        json!({"content": "hi", "reasoning_details": [{"type": "x", "index": 0, "to SECRETWORD now": 1}]}),
    ] {
        for path in ENDPOINTS {
            for is_streamed in [true, false] {
                host.upstream.reply(match is_streamed {
                    true => {
                        let stream = [chunk(&delta, None), chunk(&json!({}), Some("stop"))].concat();
                        Reply::raw("text/event-stream", stream + "data: [DONE]\n\n")
                    }
                    false => whole(&json!([{"index": 0, "message": delta, "finish_reason": "stop"}])),
                });
                let answer = ask(&host, path, is_streamed).await;
                let body = answer.body();
                assert!(answer.status == 200 && body.contains("hi"), "{path}: {delta}: {body}");
                assert!(!body.contains("SECRETWORD"), "{path}: {delta}: {body}");
            }
        }
    }
}

#[tokio::test]
async fn two_blocks_of_thinking_are_two_paragraphs() {
    let host = TestHost::new().filter("guard", GUARD).provider("kind = \"anthropic\"").start().await;
    let thinking =
        |text: &str| json!({"type": "thinking", "thinking": text, "signature": format!("sig{}", text.len())});
    let content = json!([thinking("a SECRET"), thinking("WORD b"), {"type": "text", "text": "hi"}]);
    let head = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL,
        "usage": {"input_tokens": 1, "output_tokens": 1}});
    let mut answer_of_service = head.clone();
    answer_of_service["content"] = content.clone();
    answer_of_service["stop_reason"] = json!("end_turn");
    let mut events = vec![json!({"type": "message_start", "message": head})];
    for (index, block) in content.as_array().unwrap().iter().enumerate() {
        let kind = block["type"].as_str().unwrap();
        let start = json!({"type": kind, kind: ""});
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        let delta = json!({"type": format!("{kind}_delta"), kind: block[kind]});
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        if kind == "thinking" {
            let delta = json!({"type": "signature_delta", "signature": block["signature"]});
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}),
    );
    events.push(json!({"type": "message_stop"}));
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    for path in ENDPOINTS {
        for is_streamed in [true, false] {
            host.upstream.reply(match is_streamed {
                true => Reply::raw("text/event-stream", stream.clone()),
                false => Reply::json(&answer_of_service),
            });
            let answer = ask(&host, path, is_streamed).await;
            let body = answer.body();
            assert!(answer.status == 200 && body.contains("hi"), "{path}: {body}");
            let text = joined(body);
            assert!(text.contains("SECRET") && text.contains("WORD b"), "{path}: {body}");
            // The blocks of an Anthropic client stay as their service signed them.
            if path == "/v1/messages" {
                assert!(body.contains("sig8") && body.contains("sig6"), "{body}");
                assert!(!body.contains("\\n\\nWORD"), "{body}");
            } else {
                assert!(text.contains("a SECRET\n\nWORD b"), "{path} {is_streamed}: {body}");
            }
        }
    }
}

#[tokio::test]
async fn the_thinking_of_two_model_calls_is_not_joined() {
    let echo = "/*\ndescription: Echoes.\n*/\nconst parameters = #{};\nfn handler(args) { \"ok\" }";
    let model =
        format!("[[models]]\nname = {MODEL:?}\nprovider = \"mock\"\nmodel = {MODEL:?}\ntools = [\"echo\"]");
    let host = TestHost::new().filter("guard", GUARD).tool("echo", echo).config(&model).start().await;
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
        "function": {"name": "echo", "arguments": "{}"}}]});
    for key in ["reasoning_content", "reasoning"] {
        let rounds = [
            [
                chunk(&json!({key: "a SECRET"}), None),
                chunk(&call, None),
                chunk(&json!({}), Some("tool_calls")),
            ],
            [
                chunk(&json!({key: "WORD b"}), None),
                chunk(&json!({"content": "hi"}), None),
                chunk(&json!({}), Some("stop")),
            ],
        ];
        for path in ENDPOINTS {
            let rounds = rounds.clone().map(|round| round.concat() + "data: [DONE]\n\n");
            host.upstream.script(move |request| {
                let body = request.json();
                let is_second =
                    body["messages"].as_array().unwrap().iter().any(|message| message["role"] == "tool");
                Reply::raw("text/event-stream", rounds[usize::from(is_second)].clone())
            });
            let answer = ask(&host, path, true).await;
            let text = joined(answer.body());
            assert!(text.contains("SECRET") && text.contains("WORD b"), "{path}: {}", answer.body());
            assert!(!text.contains("SECRETWORD"), "{key} {path}: {}", answer.body());
        }
    }
}

/// Returns the texts in a JSON text, also those in texts that are JSON themselves.
fn decoded(text: &str) -> Vec<String> {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.extend([vec![text.clone()], decoded(text)].concat()),
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            Value::Object(fields) => fields.iter().for_each(|(key, value)| {
                found.push(key.clone());
                walk(value, found);
            }),
            _ => {}
        }
    }
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str::<Value>(text)
        && !value.is_string()
    {
        walk(&value, &mut found);
    }
    found
}

/// Returns arguments of a tool with the word in other spellings, and other arguments that stay as they are.
fn spellings() -> (Vec<String>, Vec<String>) {
    let escaped = r"SECRET\u0057ORD";
    let once = format!(r#"{{"a":"x {escaped} y"}}"#);
    let twice = json!({"b": once}).to_string();
    let thrice = json!({"c": [twice]}).to_string();
    let code = json!({"code": r#"print("\u0057ith \\u0057", '\n')"#}).to_string();
    (vec![once, twice, thrice], vec![code, json!({"code": r"\u00"}).to_string(), r#"{"a":"1\/2 \\"}"#.into()])
}

#[tokio::test]
async fn escapes_in_arguments_hide_no_text() {
    let host = TestHost::new().filter("guard", GUARD).start().await;
    let (hidden, plain) = spellings();
    let call = |arguments: &str| {
        json!([{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "f", "arguments": arguments}}])
    };
    for arguments in hidden.iter().chain(&plain) {
        let check = |text: &str, place: &str| {
            let found = decoded(text);
            assert!(!found.is_empty(), "{place}: {text}");
            assert!(!found.iter().any(|own| own.contains("SECRETWORD")), "{place}: {arguments}: {text}");
            if plain.contains(arguments) {
                assert_eq!(decoded(arguments), found, "{place}: {arguments}: {text}");
            }
        };
        // In a request.
        let result = json!({"role": "tool", "tool_call_id": "call_1", "content": "ok"});
        let messages = json!([{"role": "user", "content": "hi"},
            {"role": "assistant", "content": null, "tool_calls": call(arguments)}, result]);
        host.upstream.reply(Reply::text("ok"));
        let request = host.request("POST", "/v1/chat/completions").header("content-type", "application/json");
        let answer =
            Answer::of(request.body(json!({"model": MODEL, "messages": messages}).to_string())).await;
        assert_eq!(answer.status, 200, "{}", answer.body());
        let sent = host.upstream.last().json();
        check(sent["messages"][1]["tool_calls"][0]["function"]["arguments"].as_str().unwrap(), "request");
        // In an answer, whole and in parts.
        let message = json!({"role": "assistant", "content": null, "tool_calls": call(arguments)});
        host.upstream.reply(whole(&json!([{"index": 0, "message": message, "finish_reason": "tool_calls"}])));
        let answer = ask(&host, ENDPOINTS[0], false).await.json();
        let own = &answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"];
        check(own.as_str().unwrap(), "whole");
        for at in 0..=arguments.len() {
            let (first, second) = arguments.split_at(at);
            let more = json!([{"index": 0, "function": {"arguments": second}}]);
            let stream = [
                chunk(&json!({"tool_calls": call(first)}), None),
                chunk(&json!({"tool_calls": more}), None),
                chunk(&json!({}), Some("tool_calls")),
                "data: [DONE]\n\n".into(),
            ];
            host.upstream.reply(Reply::raw("text/event-stream", stream.concat()));
            let answer = ask(&host, ENDPOINTS[0], true).await;
            let parts = answer.events().into_iter().filter_map(|event| {
                let call = &event["choices"][0]["delta"]["tool_calls"][0];
                call["function"]["arguments"].as_str().map(str::to_owned)
            });
            check(&parts.collect::<String>(), &format!("cut at {at}"));
        }
    }
}
