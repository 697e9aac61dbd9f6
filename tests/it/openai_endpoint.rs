//! OpenAI's endpoint: the requests, what the model's service receives, and the responses.

use crate::host::{Answer, TIMEOUT, TestHost, chat_body, streaming, until};
use crate::upstream::{Gate, MODEL, Reply, chunk};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The example of the seed, unchanged.
const TURN_LIMIT: &str = r#"/*
title: Turn limit
author: Ann
version: 1.0.0
description: Refuses conversations that grow too long.
*/
const Valves = #{
    priority: 0,
    max_turns: #{ value: 4, minimum: 1, maximum: 500, description: "Messages allowed" },
};
const UserValves = #{ bonus_turns: 0 };
const file_handler = true;

fn inlet(body, __user__, valves) {
    let limit = valves.max_turns + __user__.valves.bonus_turns;
    if body.messages.len() > limit {
        throw `Conversation turn limit exceeded (${limit})`;
    }
    body
}

fn stream(event) {
    print(`token ${event.text}`);
    event
}
"#;

/// Reads everything and changes nothing.
const LOOKS_AT_ALL: &str = r#"
fn inlet(body) { body }
fn pre_chat(ctx) { ctx }
fn stream(event) { event }
fn post_chat(ctx) { ctx }
fn outlet(body) { body }
"#;

const REQUEST: &str = r#"{"zeta":1.0,"model":"mock-1","messages":[{"content":"grüß dich","role":"user","x_own":{"b":1e3,"a":0.10}}],"temperature":0.70,"seed":12345678901234567890123,"nothing":null,"last":-0.0}"#;

fn turns(user: &str, count: usize) -> Value {
    let messages = vec![json!({"role": "user", "content": "hi"}); count];
    json!({"model": MODEL, "messages": messages, "user": user})
}

#[tokio::test]
async fn the_documented_turn_limit_filter_works_unchanged() {
    let host = TestHost::new().filter("turn_limit", TURN_LIMIT).start().await;
    host.set_valves("turn_limit", Some("ann"), json!({"bonus_turns": 2})).await;

    assert_eq!(host.chat(&turns("bob", 4)).await.text(), "hello from upstream");
    assert_eq!(host.chat(&turns("ann", 6)).await.text(), "hello from upstream");

    let refused = host.chat(&turns("bob", 5)).await;
    refused.refused(400, "Conversation turn limit exceeded (4)");
    assert_eq!(refused.message(), "Conversation turn limit exceeded (4)");
    assert_eq!(refused.error()["code"], "turn_limit");
    host.chat(&turns("ann", 7)).await.refused(400, "Conversation turn limit exceeded (6)");

    let mut streamed = turns("bob", 5);
    streamed["stream"] = json!(true);
    host.chat(&streamed).await.refused(400, "Conversation turn limit exceeded (4)");
    streamed["messages"].as_array_mut().unwrap().pop();
    let answer = host.chat(&streamed).await;
    assert_eq!(answer.text(), "hello from upstream");
    assert_eq!(answer.finishes(), ["stop"]);
    assert_eq!(host.upstream.requests().len(), 3);
}

#[tokio::test]
async fn models_are_listed_while_a_service_is_down() {
    let host = TestHost::new()
        .config("[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"big-1\"")
        .start()
        .await;
    let names = |list: &Value| -> Vec<String> {
        assert_eq!(list["object"], "list");
        let data = list["data"].as_array().unwrap();
        data.iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect()
    };
    let list = host.get("/v1/models").await.json();
    assert_eq!(names(&list), ["demo", "assistant", MODEL]);
    assert_eq!(list["data"][2]["context_window"], 8192);
    let one = host.get("/v1/models/assistant").await.json();
    assert_eq!(
        (&one["id"], &one["object"], &one["owned_by"]),
        (&json!("assistant"), &json!("model"), &json!("mock"))
    );

    host.upstream.stop();
    assert_eq!(names(&host.get("/v1/models").await.json()), ["demo", "assistant", MODEL], "its last list");
}

#[tokio::test]
async fn the_demo_and_the_service_answer_complete_and_streamed() {
    let host = TestHost::new().start().await;
    let whole = host.chat(&chat_body("demo", "good morning")).await;
    assert!(whole.text().starts_with("You said: good morning"), "{}", whole.text());
    let streamed = host.chat(&streaming("demo", "good morning")).await;
    assert_eq!(streamed.text(), whole.text());
    assert_eq!(streamed.finishes(), ["stop"]);
    assert!(streamed.events().len() > 10, "word by word: {}", streamed.body());
    let ids: Vec<Value> = streamed.events().iter().map(|event| event["id"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && id.is_string()));

    assert_eq!(host.ask("hi").await.text(), "hello from upstream");
    let streamed = host.stream("hi").await;
    assert_eq!(streamed.text(), "hello from upstream");
    assert_eq!(streamed.finishes(), ["stop"]);
    let request = host.upstream.last();
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.headers["authorization"], "Bearer sk-upstream");
}

#[tokio::test]
async fn a_model_is_reachable_by_configured_provider_and_qualified_name() {
    let host = TestHost::new()
        .config("[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"big-1\"\nsystem_prompt = \"Be kind.\"")
        .start()
        .await;
    for (name, reached) in
        [("anything", "anything"), ("mock/some/thing", "some/thing"), ("assistant", "big-1")]
    {
        assert_eq!(host.chat(&chat_body(name, "hi")).await.text(), "hello from upstream");
        assert_eq!(host.upstream.last().json()["model"], reached);
    }
    let request = host.upstream.last().json();
    assert_eq!(request["messages"][0], json!({"role": "system", "content": "Be kind."}));
}

#[tokio::test]
async fn unchanged_messages_pass_byte_for_byte() {
    let whole = r#"{"id":"x","created":1.0e9,"object":"chat.completion","x_groq":{"t":0.10,"id":"r"},"choices":[{"index":0,"finish_reason":"stop","logprobs":null,"message":{"zz":1e2,"role":"assistant","content":"schön"}}],"usage":{"total_time":0.0010,"total_tokens":3}}"#;
    let events = [
        r#"{"id":"x","created":1.0e9,"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"object":"chat.completion.chunk","p":"ab"}"#,
        r#"{"choices":[{"delta":{"content":"schön"},"index":0,"logprobs":null}],"id":"x","created":1.0e9,"obfuscation":"q","t":0.10}"#,
        r#"{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"created":1.0e9}"#,
        r#"{"id":"x","choices":[],"usage":{"total_tokens":3,"queue":0.0010}}"#,
    ];
    let events: String = events.map(|event| format!("data: {event}\n\n")).concat() + "data: [DONE]\n\n";

    let only_inlet = "fn inlet(body) { body }";
    for (looking, source) in
        [("nobody", None), ("inlet", Some(only_inlet)), ("all hooks", Some(LOOKS_AT_ALL))]
    {
        let host = match source {
            Some(source) => TestHost::new().filter("looks", source).start().await,
            None => TestHost::new().start().await,
        };
        host.upstream.reply(Reply::raw("application/json", whole));
        let answer = host.post(REQUEST).await;
        assert_eq!(host.upstream.last().text(), REQUEST, "{looking}: request");
        assert_eq!(answer.body(), whole, "{looking}: answer");

        let request = REQUEST.replace("\"nothing\"", "\"stream\":true,\"nothing\"");
        host.upstream.reply(Reply::raw("text/event-stream", events.clone()));
        let answer = host.post(request.clone()).await;
        assert_eq!(host.upstream.last().text(), request, "{looking}: request for a stream");
        assert_eq!(answer.body(), events, "{looking}: stream");
    }
}

#[tokio::test]
async fn host_fields_never_reach_the_service() {
    for source in [None, Some(LOOKS_AT_ALL)] {
        let host = match source {
            Some(source) => TestHost::new().filter("looks", source).start().await,
            None => TestHost::new().start().await,
        };
        let mut body = chat_body(MODEL, "hi");
        for (key, value) in [
            ("metadata", json!({"chat_id": "c", "variables": {"a": 1}})),
            ("features", json!({"web_search": true})),
            ("files", json!([{"id": "f"}])),
            ("tool_ids", json!(["t"])),
            ("filter_ids", json!(source.map_or_else(Vec::new, |_| vec!["looks"]))),
            ("chat_id", json!("c")),
            ("session_id", json!("s")),
            ("id", json!("m")),
        ] {
            body[key] = value;
        }
        body["user"] = json!("ann");
        host.chat(&body).await.text();
        let request = host.upstream.last().json();
        let keys: Vec<&String> = request.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["model", "messages", "user"]);
    }
}

#[tokio::test]
async fn an_answer_changed_by_outlet_reaches_the_client() {
    let appends = r#"fn outlet(body) { body.messages[-1].text += " (checked)"; body }"#;
    let host = TestHost::new().filter("appends", appends).start().await;
    assert_eq!(host.ask("hi").await.text(), "hello from upstream (checked)");
    let streamed = host.stream("hi").await;
    assert_eq!(streamed.text(), "hello from upstream (checked)");
    assert_eq!(streamed.finishes(), ["stop"]);
    let last = streamed.events().pop().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "stop", "the end stays the end");

    let replaces = r#"fn outlet(body) { body.messages[-1].content = "all new"; body }"#;
    let host = TestHost::new().filter("replaces", replaces).start().await;
    assert_eq!(host.ask("hi").await.text(), "all new");
    assert_eq!(host.stream("hi").await.text(), "hello from upstream", "it was sent already");
}

#[tokio::test]
async fn a_held_stream_sends_nothing_before_its_end() {
    let holds = r#"/*
hold: true
*/
fn outlet(body) {
    if body.messages[-1].text.contains("secret") { throw #{ status: 451, message: "not for you" }; }
    body.messages[-1].content = body.messages[-1].text.to_upper();
    body
}"#;
    let host = TestHost::new().filter("holds", holds).start().await;
    let streamed = host.stream("hi").await;
    assert_eq!(streamed.text(), "HELLO FROM UPSTREAM");
    assert_eq!(streamed.finishes(), ["stop"]);

    host.upstream.script(|request| Reply::fitting(request, "a secret word"));
    host.stream("hi").await.refused(451, "not for you");
}

#[tokio::test]
async fn inlet_reroutes_to_another_model() {
    let reroutes = r#"fn inlet(body) { if body.messages[-1].text == "go" { body.model = "other"; } body }"#;
    let host = TestHost::new()
        .config("[[models]]\nname = \"one\"\nprovider = \"mock\"\nmodel = \"up-1\"")
        .config(
            "[[models]]\nname = \"other\"\nprovider = \"mock\"\nmodel = \"up-2\"\nsystem_prompt = \"Other.\"",
        )
        .filter("reroutes", reroutes)
        .start()
        .await;
    host.chat(&chat_body("one", "stay")).await.text();
    assert_eq!(host.upstream.last().json()["model"], "up-1");
    host.chat(&chat_body("one", "go")).await.text();
    assert_eq!(host.upstream.last().json()["model"], "up-2");
    assert_eq!(host.upstream.last().json()["messages"][0]["content"], "Other.");
    host.chat(&streaming("free", "go")).await.text();
    assert_eq!(host.upstream.last().json()["model"], "up-2");
}

#[tokio::test]
async fn inlet_reroutes_to_another_provider() {
    let reroutes = r#"fn inlet(body) { body.model = "demo"; body }"#;
    let host = TestHost::new().filter("reroutes", reroutes).start().await;
    for body in [chat_body(MODEL, "hi"), streaming(MODEL, "hi")] {
        let text = host.chat(&body).await.text();
        assert!(text.starts_with("You said: hi"), "{text}");
    }
    assert!(host.upstream.requests().is_empty());
}

#[tokio::test]
async fn a_fast_long_answer_passes_the_filters_completely() {
    let looks = "fn stream(event) { event } fn outlet(body) { body }";
    let host = TestHost::new().filter("looks", looks).start().await;
    let long: String = (0..3_000).map(|word| format!("word{word} ")).collect();
    let text = long.clone();
    host.upstream.script(move |request| Reply::fitting(request, &text));
    let streamed = host.stream("hi").await;
    assert_eq!(streamed.text(), long);
    assert_eq!(streamed.finishes(), ["stop"]);
}

#[tokio::test]
async fn a_stream_hook_also_filters_answers_that_are_not_streamed() {
    let masks = r#"
fn stream(event) { event.text = text::replace(event.text, "upstream", "***"); event }
fn stream_end(state) { #{ text: " end" } }
"#;
    let host = TestHost::new().filter("masks", masks).start().await;
    assert_eq!(host.ask("hi").await.text(), "hello from *** end");
    assert_eq!(host.stream("hi").await.text(), "hello from *** end");
}

#[tokio::test]
async fn errors_of_the_service_keep_their_status() {
    let error = |text: &str| json!({"error": {"message": text, "type": "t", "param": null, "code": "c"}});
    for source in [None, Some(LOOKS_AT_ALL), Some("fn inlet(body) { body }")] {
        let host = match source {
            Some(source) => TestHost::new().filter("looks", source).start().await,
            None => TestHost::new().start().await,
        };
        for streamed in [false, true] {
            let ask = || async { if streamed { host.stream("hi").await } else { host.ask("hi").await } };
            host.upstream.reply(Reply::json(&error("wrong key: sk-upstream")).status(401));
            let answer = ask().await;
            assert_eq!(
                (answer.status, &answer.error()["code"]),
                (502, &json!("upstream_auth")),
                "{source:?}"
            );
            assert!(!answer.body().contains("sk-upstream"), "our key is not the client's: {}", answer.body());

            host.upstream.reply(Reply::json(&error("slow down")).status(429).header("retry-after", "7"));
            let answer = ask().await;
            assert_eq!((answer.status, answer.message().as_str()), (429, "slow down"));
            assert_eq!(answer.header("retry-after"), Some("7"));

            host.upstream.reply(Reply::json(&error("oops")).status(500));
            assert_eq!(ask().await.status, 500);

            host.upstream.reply(Reply::raw("text/html", "<h1>Bad gateway</h1>").status(502));
            let answer = ask().await;
            assert_eq!(answer.status, 502);
            assert!(answer.message().contains("Bad gateway"), "{source:?}: {}", answer.body());

            host.upstream.reply(Reply::raw("application/json", "{ this is not json"));
            if source == Some(LOOKS_AT_ALL) {
                let answer = ask().await;
                assert_eq!(answer.status, 502);
                assert!(answer.message().contains("not valid JSON"), "{}", answer.body());
            }
        }
    }
}

#[tokio::test]
async fn a_service_that_is_down_is_a_502_that_names_it() {
    for source in [None, Some(LOOKS_AT_ALL)] {
        let host = match source {
            Some(source) => TestHost::new().filter("looks", source).start().await,
            None => TestHost::new().start().await,
        };
        host.upstream.stop();
        until("the port is closed", || async { reqwest_fails(&host.upstream.url()).await }).await;
        for answer in [host.ask("hi").await, host.stream("hi").await] {
            answer.refused(502, "cannot reach provider mock");
            assert_eq!(answer.error()["code"], "upstream_unreachable");
        }
        assert!(host.chat(&chat_body("demo", "hi")).await.text().starts_with("You said"));
    }
}

async fn reqwest_fails(url: &str) -> bool {
    crate::host::client().get(url).send().await.is_err()
}

#[tokio::test]
async fn a_timed_out_service_is_a_504() {
    for source in [None, Some(LOOKS_AT_ALL)] {
        let setup = TestHost::new().provider("timeouts = { response_ms = 1000, idle_ms = 1000 }");
        let setup = if let Some(source) = source { setup.filter("looks", source) } else { setup };
        let host = setup.start().await;
        host.upstream.script(|request| Reply::fitting(request, "late").after(Duration::from_secs(30)));
        for answer in [host.ask("hi").await, host.stream("hi").await] {
            answer.refused(504, "provider mock");
            assert_eq!(answer.error()["code"], "upstream_timeout");
        }
        // Silence in the middle of a stream ends it with an error.
        host.upstream.reply(Reply::begun(["one "]).then_pause(Duration::from_secs(30)));
        let answer = host.stream("hi").await;
        assert_eq!(answer.text(), "one ");
        assert_eq!(answer.error()["code"], "upstream_timeout");
        assert!(answer.finishes().is_empty(), "{}", answer.body());
    }
}

#[tokio::test]
async fn the_response_timeout_may_exceed_the_idle_timeout() {
    let host = TestHost::new().provider("timeouts = { response_ms = 10000, idle_ms = 100 }").start().await;
    host.upstream.script(|request| Reply::fitting(request, "worth it").after(Duration::from_millis(400)));
    assert_eq!(host.ask("hi").await.text(), "worth it");
    assert_eq!(host.stream("hi").await.text(), "worth it");
}

#[tokio::test]
async fn a_truncated_stream_ends_with_an_error_and_never_with_stop() {
    let half = r#"data: {"id":"x","choices":[{"index":0,"del"#;
    let crooked = r#"data: {"id":"chatcmpl-mock","choices":[{"index":0,"delta":{"content":"two"}}]}"#;
    let ways = [
        ("between two events", Reply::begun(["one "]).then_cut()),
        ("within an event", Reply::begun(["one "]).then(half).then_cut()),
        ("within an event's frame", Reply::begun(["one "]).then(format!("{crooked}\n")).then_cut()),
        ("politely, without an end", Reply::begun(["one "])),
        ("politely, within an event", Reply::begun(["one "]).then(half)),
    ];
    for source in [None, Some("fn inlet(body) { body }"), Some(LOOKS_AT_ALL)] {
        let host = match source {
            Some(source) => TestHost::new().filter("looks", source).start().await,
            None => TestHost::new().start().await,
        };
        for (how, reply) in &ways {
            host.upstream.reply(reply.clone());
            let answer = host.stream("hi").await;
            assert!(answer.text().starts_with("one "), "{how} {source:?}: {}", answer.body());
            assert!(answer.finishes().is_empty(), "{how} {source:?}: {}", answer.body());
            assert_eq!(answer.error()["type"], "upstream_error", "{how} {source:?}: {}", answer.body());
        }
        // A stream is complete even without its customary last line.
        host.upstream.reply(Reply::begun(["one"]).then(chunk(&json!({}), Some("stop"))));
        let answer = host.stream("hi").await;
        assert_eq!((answer.text().as_str(), answer.finishes()), ("one", vec!["stop".to_owned()]));
        // A whole response that breaks off is an error.
        host.upstream.reply(Reply::raw("application/json", "{\"id\":").then_cut());
        let answer = host.ask("hi").await;
        answer.refused(502, "ended early");
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_is_passed_on() {
    let error = "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n";
    for source in [None, Some(LOOKS_AT_ALL)] {
        let host = match source {
            Some(source) => TestHost::new().filter("looks", source).start().await,
            None => TestHost::new().start().await,
        };
        host.upstream.reply(Reply::begun(["one "]).then(error));
        let answer = host.stream("hi").await;
        assert_eq!(answer.text(), "one ");
        assert!(answer.finishes().is_empty());
        assert!(
            answer.events().iter().any(|event| event["error"]["message"] == "overloaded"),
            "{}",
            answer.body()
        );
    }
}

#[tokio::test]
async fn when_the_client_disconnects_the_request_to_the_service_ends_at_once() {
    for source in [None, Some("fn inlet(body) { body }"), Some(LOOKS_AT_ALL)] {
        let host = match source {
            Some(source) => TestHost::new().filter("looks", source).start().await,
            None => TestHost::new().start().await,
        };
        // In the middle of a stream.
        host.upstream.reply(Reply::begun(["one ", "two "]).then_gate(&Gate::closed()));
        let mut begun = host.begin("hi").await;
        begun.chunk().await.unwrap().expect("the first words");
        let left = Instant::now();
        drop(begun);
        host.upstream.was_deserted(1).await;
        let took = left.elapsed();
        assert!(took < Duration::from_secs(5), "{source:?}: {took:?}");

        // Before any response, streamed or not.
        for (times, body) in [(2, chat_body(MODEL, "hi")), (3, streaming(MODEL, "hi"))] {
            host.upstream.reply(Reply::text("never").behind(&Gate::closed()));
            let client = tokio::spawn(host.posting(body.to_string()).send());
            host.upstream.wait_for_requests(times).await;
            let left = Instant::now();
            client.abort();
            host.upstream.was_deserted(times).await;
            let took = left.elapsed();
            assert!(took < Duration::from_secs(5), "{source:?}: {took:?}");
        }
    }
}

#[tokio::test]
async fn a_slow_answer_comes_word_by_word() {
    for source in [None, Some(LOOKS_AT_ALL)] {
        let host = match source {
            Some(source) => TestHost::new().filter("looks", source).start().await,
            None => TestHost::new().start().await,
        };
        let gate = Gate::closed();
        let end = chunk(&json!({}), Some("stop")) + "data: [DONE]\n\n";
        host.upstream.reply(Reply::begun(["first "]).then_gate(&gate).then(end));
        let mut begun = host.begin("hi").await;
        let mut seen = String::new();
        while !seen.contains("first") {
            let bytes = begun.chunk().await.unwrap().expect("words before the end");
            seen.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        gate.open();
        while let Some(bytes) = begun.chunk().await.unwrap() {
            seen.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        assert!(seen.ends_with("data: [DONE]\n\n"));
    }
}

#[tokio::test]
async fn a_rejection_has_the_openai_shape_its_status_and_retry_after() {
    let refuses = r#"
fn inlet(body) {
    switch body.messages[-1].text {
        "text" => throw "plain words",
        "map" => throw #{ status: 429, message: "slow down", retry_after: 2.2 },
        "deny" => deny("not you", 403),
        "error" => return error("no way"),
        "odd" => throw #{ status: 200, message: "odd" },
        "bug" => { let x = [1]; x[9]; }
        _ => body
    }
}
"#;
    let host = TestHost::new().filter("refuses", refuses).start().await;
    for streamed in [false, true] {
        let ask = |text: &'static str| {
            let body = if streamed { streaming(MODEL, text) } else { chat_body(MODEL, text) };
            let host = &host;
            async move { host.chat(&body).await }
        };
        ask("text").await.refused(400, "plain words");
        let slow = ask("map").await;
        slow.refused(429, "slow down");
        assert_eq!(
            (slow.header("retry-after"), &slow.error()["type"]),
            (Some("3"), &json!("rate_limit_error"))
        );
        ask("deny").await.refused(403, "not you");
        ask("error").await.refused(400, "no way");
        ask("odd").await.refused(500, "odd");
        let bug = ask("bug").await;
        bug.refused(500, "the plugin `refuses` failed in its inlet");
        assert!(!bug.body().contains(".rhai"), "no stack trace for clients: {}", bug.body());
    }
    assert!(host.upstream.requests().is_empty());
    assert_eq!(host.ask("else").await.text(), "hello from upstream");
}

#[tokio::test]
async fn every_response_has_a_generation_header() {
    let host = TestHost::new().start().await;
    let generation = host.generation().await;
    let answers = [
        host.get("/").await,
        host.get("/livez").await,
        host.get("/readyz").await,
        host.get("/v1/models").await,
        host.get("/nowhere").await,
        host.get("/v1/chat/completions").await,
        host.post("no json").await,
        host.ask("hi").await,
        host.stream("hi").await,
        host.chat(&chat_body("demo", "hi")).await,
    ];
    for answer in answers {
        assert_eq!(answer.generation(), generation);
    }
    host.save("new", "fn inlet(body) { body }");
    host.stands("new", "live").await;
    assert!(host.stream("hi").await.generation() > generation);
}

const EMITS: &str = r#"
fn inlet(body, __event_emitter__) {
    emit(#{ type: "status", data: #{ description: "schön" } });
    __event_emitter__.call(#{ type: "status", data: #{ done: true } });
    if body.messages[-1].text == "no" { throw #{ status: 403, message: "no" }; }
    body
}
"#;

#[tokio::test]
async fn emitted_events_are_in_a_header_of_complete_answers() {
    let host = TestHost::new().filter("emits", EMITS).start().await;
    let expected = json!([
        {"type": "status", "data": {"description": "schön"}},
        {"type": "status", "data": {"done": true}},
    ]);
    for (text, status) in [("yes", 200), ("no", 403)] {
        let answer = host.ask(text).await;
        assert_eq!(answer.status, status);
        let events: Value = serde_json::from_str(answer.header("x-valvehouse-events").unwrap()).unwrap();
        assert_eq!(events, expected, "what was emitted stays emitted");
    }
    let floods =
        r#"fn inlet(body) { for i in 0..400 { emit(#{ type: "n", data: `number ${i} of many` }); } body }"#;
    host.update("emits", floods).await;
    let answer = host.ask("hi").await;
    let header = answer.header("x-valvehouse-events").unwrap();
    assert!(header.len() <= 8 * 1024, "{}", header.len());
    let events: Vec<Value> = serde_json::from_str(header).unwrap();
    assert_eq!(events.last().unwrap(), &json!({"type": "cut"}));
    assert!(events.len() > 100);
}

#[tokio::test]
async fn emitted_events_are_in_the_stream_on_request() {
    let host = TestHost::new().filter("emits", EMITS).start().await;
    let silent = host.stream("hi").await;
    assert!(silent.events().iter().all(|event| event.get("event").is_none()));

    for (name, value) in [("x-valvehouse-events", "1"), ("x-openwebui-chat-id", "c1")] {
        let asking = host.posting(streaming(MODEL, "hi").to_string()).header(name, value);
        let answer = Answer::of(asking).await;
        let events = answer.events();
        assert_eq!(events[0]["event"]["data"]["description"], "schön", "{}", answer.body());
        assert_eq!(events[1]["event"]["data"]["done"], true);
        assert_eq!(
            (answer.text().as_str(), answer.finishes()),
            ("hello from upstream", vec!["stop".to_owned()])
        );
    }
}

const ASKS: &str = r#"fn inlet(body) {
    body.messages[-1].content = ask(#{ type: "input", data: #{ title: "City" } }).city;
    body
}"#;

/// Returns the id of the question that a stream begins with.
async fn question(response: &mut reqwest::Response) -> String {
    let mut seen = String::new();
    while !seen.contains("\n\n") {
        let chunk = response.chunk().await.unwrap().expect("the question comes before the end");
        seen.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let event: Value =
        serde_json::from_str(seen.lines().next().unwrap().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(
        (&event["event"]["type"], &event["event"]["data"]["title"]),
        (&json!("input"), &json!("City"))
    );
    event["event"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_question_in_a_stream_is_answered_through_its_own_route() {
    let host = TestHost::new().filter("asks", ASKS).start().await;
    let asking = host.posting(streaming("demo", "hi").to_string()).header("x-valvehouse-events", "1");
    let mut response = asking.send().await.unwrap();
    let path = format!("/api/v1/questions/{}", question(&mut response).await);
    let answer = Answer::of(host.request("POST", &path).body(r#"{"city": "Oslo"}"#)).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"answered": true})));
    let rest = response.text().await.unwrap();
    assert!(rest.contains("Oslo") && rest.ends_with("data: [DONE]\n\n"), "{rest}");
    let again = Answer::of(host.request("POST", &path).body("1")).await;
    assert_eq!((again.status, again.error()["code"].as_str()), (404, Some("question_not_found")));
}

#[tokio::test]
async fn a_question_is_closed_when_its_client_disconnects() {
    let host = TestHost::new().filter("asks", ASKS).start().await;
    let asking = host.posting(streaming("demo", "hi").to_string()).header("x-valvehouse-events", "1");
    let mut response = asking.send().await.unwrap();
    let id = question(&mut response).await;
    let questions = &host.app().questions;
    assert!(questions.is_open(&id));
    drop(response);
    tokio::time::timeout(TIMEOUT, questions.until_closed(&id)).await.expect("nobody waits any more");
}

#[tokio::test]
async fn a_toggle_filter_runs_only_on_request() {
    let toggle = r#"const toggle = true; fn outlet(body) { body.messages[-1].text += " toggled"; body }"#;
    let always =
        r#"const Valves = #{ priority: 1 }; fn outlet(body) { body.messages[-1].text += " always"; body }"#;
    let local = "/*\nglobal: false\n*/\nfn outlet(body) { body.messages[-1].text += \" local\"; body }";
    let host = TestHost::new()
        .filter("toggled", toggle)
        .filter("always", always)
        .filter("local", local)
        .config("[[models]]\nname = \"listing\"\nprovider = \"mock\"\nfilters = [\"local\"]")
        .start()
        .await;
    host.upstream.script(|request| Reply::fitting(request, "hi"));
    assert_eq!(host.ask("x").await.text(), "hi always");
    assert_eq!(host.chat(&chat_body("listing", "x")).await.text(), "hi local always");
    for place in ["filter_ids", "metadata"] {
        let mut body = chat_body("listing", "x");
        let put = |ids: Value| if place == "metadata" { json!({"filter_ids": ids}) } else { ids };
        body[place] = put(json!(["toggled"]));
        assert_eq!(host.chat(&body).await.text(), "hi local toggled always");
        body[place] = put(json!(["toggled", "togled"]));
        let expected = "unknown filter `togled` in `filter_ids`; did you mean `toggled`?";
        host.chat(&body).await.refused(400, expected);
        for odd in [json!("toggled"), json!([1]), json!({"toggled": true})] {
            body[place] = put(odd);
            host.chat(&body).await.refused(400, "`filter_ids` must be a list of strings");
        }
        body[place] = put(json!(null));
        assert_eq!(host.chat(&body).await.text(), "hi local always");
    }
}

#[tokio::test]
async fn a_request_for_an_unknown_filter_is_rejected() {
    let host =
        TestHost::new().filter("toggled", "const toggle = true;\nfn inlet(body) { body }").start().await;
    let named = json!(["togled"]);
    let mut body = chat_body(MODEL, "x");
    body["filter_ids"] = named.clone();
    body["max_tokens"] = json!(9);
    for stream in [false, true] {
        body["stream"] = json!(stream);
        for path in ["/v1/chat/completions", "/v1/messages", "/api/v1/try"] {
            let answer = Answer::of(host.request("POST", path).body(body.to_string())).await;
            assert_eq!(answer.status, 400, "{path}: {}", answer.body());
            assert!(answer.body().contains("did you mean `toggled`?"), "{path}: {}", answer.body());
        }
    }
    // Open WebUI lists its own filters there, not those of this host.
    let inlet = json!({"body": {"model": "x", "messages": [], "filter_ids": named, "metadata": {"filter_ids": named}}});
    let answer = Answer::of(host.request("POST", "/toggled/filter/inlet").body(inlet.to_string())).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
}

#[tokio::test]
async fn a_path_that_is_not_utf_8_is_rejected_in_the_format_of_its_endpoint() {
    let host = TestHost::new().start().await;
    for (path, words) in [
        ("/v1/models/%ff", "openai"),
        ("/v1/models/a%C3", "openai"),
        ("/api/v1/questions/%fe", "openai"),
        ("/api/v1/models/%ff/chain", "openai"),
        ("/api/v1/agents/%ff/runs", "openai"),
        ("/api/v1/agents/runs/%ff", "openai"),
        ("/api/v1/traces/%ff", "openai"),
        ("/page/%ff", "openai"),
        ("/%ff", "openai"),
        ("/v1/messages/%ff", "anthropic"),
        ("/api/v1/functions/id/%ff", "detail"),
        ("/api/v1/functions/id/%ff/history/1", "detail"),
        ("/%ff/valves", "detail"),
        ("/v1/%ff/filter/inlet", "detail"),
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let answer = Answer::of(host.request(method, path)).await;
            assert_eq!(answer.status, 400, "{method} {path}: {}", answer.body());
            let body = answer.json();
            let message = match words {
                "detail" => &body["detail"],
                _ => &body["error"]["message"],
            };
            assert!(message.as_str().is_some_and(|text| text.contains("not UTF-8")), "{path}: {body}");
            assert_eq!(body["type"] == "error", words == "anthropic", "{path}: {body}");
        }
    }
    // A repeated name in a query, or a value that is not UTF-8.
    for query in ["user=a&user=b", "user=%ff", "filter_ids=%ff%fe"] {
        let answer = host.get(&format!("/api/v1/models/{MODEL}/chain?{query}")).await;
        assert!(answer.json().is_object(), "{query}: {}", answer.body());
    }
}

const TELLS: &str = r#"
fn inlet(body, __user__, __model__, __request__, __chat_id__, __message_id__, __id__, __features__, __files__, __metadata__) {
    skip(json::stringify(#{
        user: __user__, model: __model__, request: __request__, chat: __chat_id__, message: __message_id__,
        id: __id__, features: __features__, files: __files__, metadata: __metadata__,
    }))
}
"#;

async fn facts_seen(request: reqwest::RequestBuilder) -> Value {
    serde_json::from_str(&Answer::of(request).await.text()).unwrap()
}

#[tokio::test]
async fn keys_grant_access_and_name_their_user() {
    let host = TestHost::new()
        .filter("tells", TELLS)
        .config("[server]\nkeys = [\"sk-plain\", { key = \"sk-ann\", user = { id = \"ann\", role = \"admin\", timezone = \"Europe/Berlin\" } }]")
        .start()
        .await;
    let body = || {
        let mut body = chat_body(MODEL, "hi");
        body["user"] = json!("mallory");
        body.to_string()
    };
    for wrong in [None, Some("Bearer sk-wrong"), Some("Bearer"), Some("sk-plain"), Some("Bearer sk-plai")] {
        for path in ["/v1/models", "/v1/chat/completions"] {
            let request = if path == "/v1/models" { host.request("GET", path) } else { host.posting(body()) };
            let request = match wrong {
                Some(value) => request.header("authorization", value),
                None => request,
            };
            let answer = Answer::of(request).await;
            answer.refused(401, "API key");
            assert_eq!(answer.error()["code"], "invalid_api_key");
        }
    }
    let with = |value: &str| host.posting(body()).header("authorization", format!("Bearer {value}"));
    assert_eq!(facts_seen(with("sk-plain")).await["user"], json!({"id": "mallory", "valves": {}}));
    let ann = json!({"id": "ann", "role": "admin", "timezone": "Europe/Berlin", "valves": {}});
    assert_eq!(facts_seen(with("sk-ann")).await["user"], ann, "the key's user, whatever the body says");
    assert_eq!(facts_seen(host.posting(body()).header("x-api-key", "sk-ann")).await["user"], ann);
    let header = with("sk-ann").header("x-openwebui-user-id", "eve");
    assert_eq!(facts_seen(header).await["user"], ann);
    assert_eq!(host.get("/livez").await.status, 200, "who only asks whether we live needs no key");
}

#[tokio::test]
async fn headers_name_the_user_only_if_trusted() {
    for trusted in [true, false] {
        let host = TestHost::new()
            .filter("tells", TELLS)
            .config(&format!("[server]\ntrust_user_headers = {trusted}"))
            .start()
            .await;
        let mut body = chat_body(MODEL, "hi");
        body["user"] = json!("bob");
        let request = host
            .posting(body.to_string())
            .header("X-OpenWebUI-User-Id", "eve")
            .header("X-OpenWebUI-User-Name", "Eve%20Gr%C3%BCn")
            .header("X-OpenWebUI-User-Email", "eve@example.com")
            .header("X-OpenWebUI-User-Role", "user");
        let expected = if trusted {
            json!({"id": "eve", "name": "Eve Grün", "email": "eve@example.com", "role": "user", "valves": {}})
        } else {
            json!({"id": "bob", "valves": {}})
        };
        assert_eq!(facts_seen(request).await["user"], expected);
        let nobody = host.posting(chat_body(MODEL, "hi").to_string());
        assert_eq!(facts_seen(nobody).await["user"], json!({"valves": {}}));
    }
}

#[tokio::test]
async fn scripts_see_the_request_without_its_credentials() {
    let host = TestHost::new()
        .filter("tells", TELLS)
        .config("[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"big-1\"\nmax_tool_iterations = 3")
        .start()
        .await;
    let mut body = chat_body("assistant", "hi");
    body["features"] = json!({"web_search": true});
    body["files"] = json!([{"id": "f1"}]);
    body["chat_id"] = json!("c1");
    body["id"] = json!("m1");
    body["metadata"] = json!({"task": "title", "chat_id": "other"});
    let request = host
        .posting(body.to_string())
        .header("authorization", "Bearer sk-secret")
        .header("x-api-key", "sk-secret")
        .header("cookie", "token=sk-secret")
        .header("x-valvehouse-chat-id", "third")
        .header("x-own", "seen");
    let facts = facts_seen(request).await;
    assert!(!facts.to_string().contains("sk-secret"), "{facts}");
    let request = &facts["request"];
    assert_eq!((&request["method"], &request["path"]), (&json!("POST"), &json!("/v1/chat/completions")));
    assert_eq!(request["headers"]["x-own"], "seen");
    assert!(request["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{request}");
    let model = &facts["model"];
    assert_eq!(
        (&model["id"], &model["provider"], &model["model"]),
        (&json!("assistant"), &json!("mock"), &json!("big-1"))
    );
    assert_eq!(
        (&facts["chat"], &facts["message"], &facts["id"]),
        (&json!("c1"), &json!("m1"), &json!("tells"))
    );
    assert_eq!((&facts["features"], &facts["files"]), (&json!({"web_search": true}), &json!([{"id": "f1"}])));
    assert_eq!(facts["metadata"]["task"], "title");
}

#[tokio::test]
async fn the_chat_id_comes_from_body_metadata_or_header() {
    let host = TestHost::new().filter("tells", TELLS).start().await;
    let with = |key: &str, value: Value| {
        let mut body = chat_body(MODEL, "hi");
        body[key] = value;
        host.posting(body.to_string())
    };
    assert_eq!(facts_seen(with("chat_id", json!("a"))).await["chat"], "a");
    assert_eq!(facts_seen(with("metadata", json!({"chat_id": "b"}))).await["chat"], "b");
    assert_eq!(facts_seen(with("x", json!(1)).header("x-valvehouse-chat-id", "c")).await["chat"], "c");
    assert_eq!(facts_seen(with("x", json!(1))).await["chat"], "");
}
