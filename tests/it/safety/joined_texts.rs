//! Texts that guards judge one by one: no endpoint and no service receives them as one text, and no value is left out
//! because of its key or its form.

use super::service_errors::{ENDPOINTS, ask};
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
