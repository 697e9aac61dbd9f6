//! Tests of the memory alone.

use super::Extras;
use super::extra::{merged, signed};
use super::kept::{MAX_BYTES, MAX_ENTRY};
use std::sync::Arc;
use valvehouse_core::context::MemoryLimit;
use valvehouse_core::provider::Request;
use valvehouse_json::Json;
use valvehouse_wire::messages::answer;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn request(messages: &str) -> Request {
    Request::new(json(&format!(r#"{{"model":"m","messages":[{messages}]}}"#)), false)
}

fn question(text: &str) -> String {
    format!(r#"{{"role":"user","content":"{text}"}}"#)
}

fn call(id: &str, more: &str) -> String {
    format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{\"a\":1,\"b\":2}}"}}{more}}}]}}"#
    )
}

fn answer(message: &str) -> Json {
    json(&format!(r#"{{"choices":[{{"index":0,"message":{message}}}]}}"#))
}

fn record(extras: &Arc<Extras>, text: &str, message: &str) {
    extras.recorder("p", &request(&question(text)), false).whole(&answer(message));
}

/// Returns the thinking that a call gets back.
fn thinking(extras: &Extras, text: &str, id: &str) -> Json {
    let talk = format!("{},{}", question(text), call(id, ""));
    extras.restore("p", request(&talk)).body.at_path("messages.1.reasoning_content")
}

fn thought(text: &str, id: &str) -> String {
    call(id, "").replacen('{', &format!(r#"{{"reasoning_content":"{text}","#), 1)
}

#[test]
fn counted_ids_are_told_apart_by_their_conversations() {
    let extras = Arc::new(Extras::default());
    record(&extras, "one", &thought("first", "f:0"));
    // A filter changed the question meanwhile.
    assert_eq!(thinking(&extras, "one, at noon", "f:0"), Json::from("first"));
    record(&extras, "two", &thought("second", "f:0"));
    assert_eq!(thinking(&extras, "one", "f_0"), Json::from("first"), "the protocol replaced a character");
    assert_eq!(thinking(&extras, "two", ""), Json::from("second"), "the protocol has no ids");
    assert_eq!(thinking(&extras, "three", "f:0"), Json::Null, "it may be either");
}

#[test]
fn the_same_words_in_another_conversation_find_nothing() {
    let extras = Arc::new(Extras::default());
    let of = |system: &str| format!(r#"{{"role":"system","content":"{system}"}},{}"#, question("continue"));
    extras.recorder("p", &request(&of("A")), false).whole(&answer(&thought("of A", "a1")));
    let thinking = |system: &str, id: &str| {
        let talk = format!("{},{}", of(system), call(id, ""));
        extras.restore("p", request(&talk)).body.at_path("messages.2.reasoning_content")
    };
    assert_eq!(thinking("A", "other"), Json::from("of A"));
    assert_eq!(thinking("B", "b1"), Json::Null);
    assert_eq!(
        thinking("B", "a1"),
        Json::from("of A"),
        "a filter changes the instructions, and the id is of A"
    );
}

#[test]
fn what_the_client_returns_stays_and_another_model_gets_nothing() {
    let extras = Arc::new(Extras::default());
    let signed = call("c", r#","extra_content":{"google":{"thought_signature":"s"}}"#);
    record(&extras, "q", &signed);
    let talk = |message: &str| request(&format!("{},{message}", question("q")));
    let restored = extras.restore("p", talk(&call("c", "")));
    let call_now = restored.body.at_path("messages.1.tool_calls.0");
    assert_eq!(call_now, json(&signed).at_path("tool_calls.0"));
    let own = talk(&signed);
    assert!(extras.restore("p", own.clone()).body.ptr_eq(&own.body));
    let mut other = talk(&call("c", ""));
    assert!(extras.restore("other", other.clone()).body.ptr_eq(&other.body));
    other.body = json(&other.body.to_string().replace(r#""model":"m""#, r#""model":"n""#));
    assert!(extras.restore("p", other.clone()).body.ptr_eq(&other.body));
}

#[test]
fn signed_and_encrypted_thoughts_go_to_their_maker_only() {
    let extras = Arc::new(Extras::default());
    let blocks = r#"{"role":"assistant","content":"a","reasoning_content":"t","content_blocks":[
        {"type":"thinking","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","length":1},
        {"type":"response_item","item":{"type":"reasoning","encrypted_content":"e"}}]}"#;
    record(&extras, "q", blocks);
    let sent = |provider: &str, model: &str| {
        let mut talk = request(&format!("{},{blocks}", question("q")));
        talk.body = json(&talk.body.to_string().replace(r#""model":"m""#, &format!(r#""model":"{model}""#)));
        extras.restore(provider, talk).body.at_path("messages.1")
    };
    assert_eq!(sent("p", "other"), json(blocks));
    let foreign = sent("q", "m");
    assert_eq!(
        foreign.field("content_blocks").to_string(),
        r#"[{"type":"thinking"},{"type":"text","length":1}]"#
    );
    assert_eq!(foreign.field("reasoning_content"), Json::from("t"));
    // Services with Anthropic's models exchange them.
    let of = |provider: &str, model: &str| {
        let body = Json::from([("model", model.into())]);
        extras.maker(provider, &Request::new(body, false))
    };
    assert_eq!(of("anthropic", "claude-opus-4-6"), of("bedrock", "us.anthropic.claude-haiku-4-5"));
    assert_ne!(of("anthropic", "claude-opus-4-6"), of("kimi", "kimi-k3"));
}

#[test]
fn signed_thinking_replaces_changed_thinking_and_leaves_other_blocks() {
    let service = json(
        r#"{"content":[{"type":"thinking","thinking":"I think","signature":"s"},{"type":"text","text":"Hm."},
        {"type":"thinking","thinking":" again","signature":"t"},{"type":"tool_use","id":"c","name":"f","input":{"b":2,"a":1}}]}"#,
    );
    let sent = answer::completion(&service);
    let extras = Arc::new(Extras::default());
    extras.recorder("p", &request(&question("q")), false).whole(&sent);
    let message = sent.at_path("choices.0.message").deep_clone();
    message.set("reasoning_content", "I *****").unwrap();
    let talk = Json::from([("role", "user".into()), ("content", "q".into())]);
    let body = Json::from([("model", "m".into()), ("messages", vec![talk, message].into())]);
    let restored = extras.restore("p", Request::new(body, false)).body.at_path("messages.1");
    assert_eq!(signed(&restored), 2);
    assert_eq!(restored, sent.at_path("choices.0.message"));
    let own = vec![json(r#"{"type":"server_tool_use","id":"v"}"#), json(r#"{"type":"text","length":1}"#)];
    let all = merged(&json(r#"[{"type":"thinking","signature":"s"},{"type":"text"}]"#), own.clone());
    assert_eq!(all.items()[1..], own);
}

#[test]
fn answers_without_calls_are_found_by_their_text() {
    let extras = Arc::new(Extras::default());
    let mut recorder = extras.recorder("p", &request(&question("q")), false);
    for delta in [
        r#"{"content":"It is "}"#,
        r#"{"content":"mild."}"#,
        r#"{"content":"","extra_content":{"google":1}}"#,
    ] {
        recorder.see(&json(&format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)));
    }
    recorder.end();
    for (text, is_found) in [("It is mild.", true), ("It is cold.", false), ("It is", false)] {
        let talk = format!(r#"{},{{"role":"assistant","content":"{text}"}}"#, question("q"));
        let restored = extras.restore("p", request(&talk)).body;
        assert_eq!(restored.at_path("messages.1.extra_content.google").is_null(), !is_found, "{text}");
    }
    // Few services expect plain thinking without a call back.
    let plain = r#"{"role":"assistant","content":"a","reasoning_content":"b"}"#;
    record(&extras, "r", plain);
    assert_eq!(extras.kept.lock().entries.len(), 1);
    let with_tools = |talk: &str| {
        let asked = request(talk);
        asked.body.put("tools", vec![Json::object()]);
        asked
    };
    let without = json(plain);
    without.remove("reasoning_content");
    let talk = format!("{},{without}", question("r"));
    extras.recorder("p", &with_tools(&question("r")), true).whole(&answer(plain));
    assert_eq!(extras.restore("p", with_tools(&talk)).body.at_path("messages.1"), json(plain));
}

#[test]
fn each_choice_gets_its_own_thinking_back() {
    let choices = |kind: &str| {
        let choice = |(index, id)| format!(r#"{{"index":{index},"{kind}":{}}}"#, thought(id, id));
        [(0, "c0"), (1, "c1")].map(choice)
    };
    let event = |choices: &str| json(&format!(r#"{{"choices":[{choices}]}}"#));
    for is_streamed in [false, true] {
        let extras = Arc::new(Extras::default());
        let mut recorder = extras.recorder("p", &request(&question("q")), false);
        if is_streamed {
            choices("delta").iter().for_each(|choice| recorder.see(&event(choice)));
            recorder.end();
        } else {
            recorder.whole(&event(&choices("message").join(",")));
        }
        for id in ["c0", "c1"] {
            assert_eq!(thinking(&extras, "q", id), Json::from(id), "streamed: {is_streamed}");
        }
    }
}

#[test]
fn the_memory_is_bounded_and_counted() {
    let limit = MemoryLimit::new(64 << 20);
    let extras = Arc::new(Extras::new(limit.clone()));
    let long = "x".repeat(MAX_ENTRY / 2);
    for number in 0..100 {
        record(&extras, &format!("q{number}"), &thought(&long, "c"));
    }
    let kept = extras.kept.lock();
    assert!(kept.entries.size() <= MAX_BYTES && kept.entries.len() > 30, "{}", kept.entries.len());
    assert_eq!(limit.held(), kept.entries.size());
    assert!(kept.slots.len() <= 4 * kept.entries.len());
    drop(kept);
    assert_eq!(thinking(&extras, "q0", "c"), Json::Null);
    assert!(!thinking(&extras, "q99", "c").is_null());
    record(&extras, "huge", &thought(&"x".repeat(MAX_ENTRY + 1), "d"));
    assert_eq!(thinking(&extras, "huge", "d"), Json::Null);
}
