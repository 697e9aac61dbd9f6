//! Models that a request names: in fields beside `model`, and with characters that nobody sees.

use crate::host::{Answer, TestHost, chat_body};
use crate::upstream::Reply;
use serde_json::{Value, json};

const GUARD: &str = "/*\nsecurity: true\nglobal: false\n*/\nconst endpoints = [\"chat\", \"embeddings\", \"images\"];\n\
    fn inlet(body) { if body.messages[-1].text == \"bad\" { deny(\"guarded\", 403); } body }";
const MODELS: &str = "[[models]]\nname = \"safe\"\nprovider = \"mock\"\nmodel = \"big-1\"\nfilters = [\"guard\"]\n\
    [[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"small-1\"";

async fn host(provider: &str) -> TestHost {
    let host = TestHost::new().filter("guard", GUARD).config(MODELS).provider(provider).start().await;
    host.upstream.script(|request| Reply::fitting(request, "hi"));
    host
}

/// The ways to select the guarded model beside `model`.
fn selections() -> Vec<(&'static str, Value)> {
    let name = "big-1";
    let mut all = vec![
        ("models", json!([name])),
        ("models", json!(["other", "MOCK/Big-1:latest"])),
        ("Models", json!([name])),
        ("route", json!({"models": [name]})),
        ("fallbacks", json!([{"plain": [name]}])),
        ("fallbacks", json!([{"model": name}])),
        ("context_window_fallbacks", json!([{"plain": [name]}])),
        ("model_fallbacks", json!([name])),
        ("fallback_model", json!(name)),
        ("extra_body", json!({"models": [name]})),
        ("extra_body", json!({"extra_body": {"models": [name]}})),
        ("session", json!({"model": name})),
        ("reasoning", json!({"model": name})),
        ("tools", json!([{"type": "image_generation", "model": name}])),
        ("tools", json!({"x": name})),
        ("tools", json!([{"type": "openrouter:x", "parameters": {"model": name}}])),
        ("plugins", json!([{"id": "auto-router", "allowed_models": [name]}])),
        ("plugins", json!([{"id": "fusion", "analysisModels": [name], "model": "x"}])),
        ("providerOptions", json!({"gateway": {"models": [name]}})),
        ("models", json!({name: 1})),
        ("model_list", json!([name])),
        ("model[]", json!([name])),
        ("route", json!(name)),
        ("provider", json!({"order": [name]})),
        ("engine", json!(name)),
        ("properties", json!({"model": name})),
        ("x", json!({"messages": [{"y": [[name]]}]})),
        ("models", json!(["~acme/big-latest"])),
        ("models", json!(["openrouter/auto"])),
        ("x", json!((0..1_500).map(|n| n.to_string()).chain([name.to_owned()]).collect::<Vec<_>>())),
        ("adapter_id", json!(name)),
        ("lora_path", json!(name)),
    ];
    for key in ["preset", "presetId", "preset_slug"] {
        all.extend([(key, json!("any")), ("plugins", json!([{"id": "x", key: "any"}]))]);
    }
    all
}

fn requests(model: &str, text: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("/v1/chat/completions", chat_body(model, text)),
        ("/v1/chat/completions", crate::host::streaming(model, text)),
        (
            "/v1/messages",
            json!({"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": text}]}),
        ),
        ("/v1/responses", json!({"model": model, "input": text})),
        (
            "/api/chat",
            json!({"model": model, "stream": false, "messages": [{"role": "user", "content": text}]}),
        ),
        ("/v1/embeddings", json!({"model": model, "input": text})),
        ("/v1/images/generations", json!({"model": model, "prompt": text})),
    ]
}

async fn post(host: &TestHost, path: &str, body: impl ToString) -> Answer {
    let request = host.request("POST", path).header("content-type", "application/json");
    Answer::of(request.header("anthropic-version", "2023-06-01").body(body.to_string())).await
}

#[tokio::test]
async fn guards_run_for_each_model_that_a_request_selects() {
    let host = host("").await;
    for model in ["plain", "mock/other"] {
        for (field, value) in valvehouse_testkit::sampled(selections(), 3) {
            for text in ["bad", "good"] {
                for (path, mut body) in requests(model, text) {
                    // Requests of Responses have these fields with other meanings.
                    if matches!(field, "reasoning") && path == "/v1/responses" {
                        continue;
                    }
                    body[field] = value.clone();
                    let before = host.upstream.requests().len();
                    let answer = post(&host, path, &body).await;
                    let sent: String =
                        host.upstream.requests()[before..].iter().map(|request| request.text()).collect();
                    match text {
                        "bad" => {
                            // A field that an endpoint leaves out selects nothing.
                            let selects =
                                ["big-", "\"any\"", "auto\""].iter().any(|name| sent.contains(name));
                            assert!(!selects, "{path} {model} {field} {value}: {sent}");
                            assert!(
                                matches!(answer.status, 200 | 400 | 403),
                                "{path} {field}: {}",
                                answer.body()
                            );
                        }
                        _ => assert_ne!(answer.status, 403, "{path} {model} {field} {value}"),
                    }
                }
            }
            // At the endpoint of chats every field is forwarded.
            let mut body = chat_body(model, "bad");
            body[field] = value.clone();
            host.chat(&body).await.refused(403, "guarded");
            body["messages"][0]["content"] = json!("good");
            assert_eq!(host.chat(&body).await.status, 200, "{model} {field} {value}");
        }
        // Some services read fields from the query.
        for path in [
            "/v1/embeddings?model=big-1",
            "/v1/embeddings?x=1&models%5B%5D=big%2D1",
            "/v1/images/generations?route=big-1",
        ] {
            let body = json!({"model": model, "input": "bad", "prompt": "bad"});
            let body = match path.contains("embeddings") {
                true => json!({"model": model, "input": "bad"}),
                false => json!({"model": model, "prompt": body["prompt"]}),
            };
            assert_eq!(post(&host, path, body).await.status, 403, "{path}");
        }
        // Repeated keys.
        let body = chat_body(model, "bad").to_string();
        for more in [r#""models":["big-1"],"models":["other"]"#, r#""models":["other"],"models":["big-1"]"#] {
            let answer =
                post(&host, "/v1/chat/completions", body.replacen('{', &format!("{{{more},"), 1)).await;
            let sent = host.upstream.last().text();
            assert!(
                answer.status == 403 || !sent.contains("big-1"),
                "{model} {more}: {} {sent}",
                answer.status
            );
        }
    }
    // Other names have no guard.
    let mut body = chat_body("plain", "bad");
    body["models"] = json!(["mock/other", "small-1"]);
    assert_eq!(host.chat(&body).await.status, 200);
    assert_eq!(host.upstream.last().json()["models"], body["models"]);
}

#[tokio::test]
async fn a_provider_with_certain_names_refuses_others_in_any_field() {
    // A list of names, too: there is a guard.
    for (refuses, models) in [(true, "models = \"*\""), (false, "models = [\"small-1\"]")] {
        let mut host = host(if refuses { "unlisted = \"refuse\"" } else { "" }).await;
        host.reconfigure(&host.settings().replacen("models = \"*\"", models, 1)).await;
        for (field, value) in [
            ("models", json!(["other"])),
            ("models", json!(["small-1", "other"])),
            ("fallbacks", json!([{"model": "BIG-1"}])),
            ("preset", json!("any")),
        ] {
            for (path, mut body) in requests("plain", "good") {
                body[field] = value.clone();
                let before = host.upstream.requests().len();
                let answer = post(&host, path, &body).await;
                let sent: String =
                    host.upstream.requests()[before..].iter().map(|request| request.text()).collect();
                assert!(!sent.contains(field), "{path} {field} {value}: {sent}");
                if path.starts_with("/v1/chat") || path.starts_with("/v1/emb") || path.starts_with("/v1/im") {
                    assert_eq!(answer.status, 400, "{path}: {}", answer.body());
                    assert!(answer.body().contains("serves only configured models"), "{}", answer.body());
                }
            }
        }
        let mut body = chat_body("plain", "good");
        body["models"] = json!(["small-1", "big-1"]);
        assert_eq!(host.chat(&body).await.status, 200);
        body["messages"][0]["content"] = json!("bad");
        host.chat(&body).await.refused(403, "guarded");
    }
}

#[tokio::test]
async fn forms_select_models_like_other_requests() {
    let host = host("").await;
    host.upstream.reply(Reply::json(&json!({})));
    for fields in [
        &[("models", "big-1")][..],
        &[("models[]", "big-1"), ("models[]", "other")],
        &[("models[0][id]", "big-1")],
        &[("models", "[\"big-1\"]")],
        &[("route", "big-1")],
        &[("extra_body", "{\"models\":[\"big-1\"]}")],
        &[("preset", "any")],
        &[],
    ] {
        for text in ["bad", "good"] {
            let part = |(name, value): (&str, &str)| {
                format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
            };
            let all =
                [("model", "plain")].into_iter().chain(fields.iter().copied()).chain([("prompt", text)]);
            let form = all.map(part).collect::<String>() + "--x--\r\n";
            let request = host
                .request("POST", "/v1/images/edits")
                .header("content-type", "multipart/form-data; boundary=x");
            let status = Answer::of(request.body(form)).await.status;
            assert_eq!(
                status,
                if text == "bad" && !fields.is_empty() { 403 } else { 200 },
                "{fields:?} {text}"
            );
        }
    }
}

#[tokio::test]
async fn names_with_invisible_characters_are_refused_where_models_have_guards() {
    let host = host("").await;
    let letters = [
        '\0',
        '\t',
        '\n',
        '\x7f',
        '\u{85}',
        '\u{ad}',
        '\u{34f}',
        '\u{61c}',
        '\u{115f}',
        '\u{180e}',
        '\u{200b}',
        '\u{200d}',
        '\u{202e}',
        '\u{2028}',
        '\u{2064}',
        '\u{2066}',
        '\u{3164}',
        '\u{fe0f}',
        '\u{feff}',
        '\u{ffa0}',
        '\u{fff9}',
        '\u{1d173}',
        '\u{e0041}',
        '\u{e0100}',
    ];
    for letter in letters {
        for name in [format!("mock/{letter}big-1"), format!("mock/big{letter}-1"), format!("big-1{letter}a")]
        {
            for (path, body) in requests(&name, "bad") {
                let answer = post(&host, path, &body).await;
                assert_eq!(answer.status, 400, "{path} {name:?}: {}", answer.body());
                assert!(answer.body().contains("invalid model name"), "{path} {name:?}: {}", answer.body());
            }
        }
    }
    for name in ["openrouter/auto", "mock/openrouter/free", "mock/other@preset/mine", "@preset/mine"] {
        host.chat(&chat_body(name, "bad")).await.refused(403, "guarded");
    }
}

/// A filter that sends each chat to the model in `user`.
const ROUTER: &str = "fn inlet(body) { if body.user != () { body.model = body.user; } }";

#[tokio::test]
async fn a_model_that_a_filter_chooses_brings_its_guards() {
    let guards = [
        ("inlet", "fn inlet(body) { if body.messages[-1].text == \"bad\" { deny(\"guarded\", 403); } }"),
        ("pre_chat", "fn pre_chat(ctx) { if ctx.messages[-1].text == \"bad\" { deny(\"guarded\", 403); } }"),
        ("stream", "fn stream(event) { if event.text.contains(\"wrong\") { deny(\"guarded\", 403); } }"),
        (
            "post_chat",
            "fn post_chat(ctx) { if ctx.result.text.contains(\"wrong\") { deny(\"guarded\", 403); } }",
        ),
        (
            "outlet",
            "fn outlet(body) { if body.messages[-1].text.contains(\"wrong\") { deny(\"guarded\", 403); } }",
        ),
    ];
    for (hook, script) in guards {
        let guard = format!("/*\nsecurity: true\nglobal: false\n*/\n{script}");
        let host =
            TestHost::new().filter("guard", &guard).filter("router", ROUTER).config(MODELS).start().await;
        host.upstream.script(|request| {
            Reply::fitting(request, if request.last_text() == "bad" { "all wrong" } else { "fine" })
        });
        // By its name, and by that at its provider.
        for to in ["safe", "big-1", "mock/big-1"] {
            let streamed = crate::host::streaming("plain", "bad");
            // The text of a stream is sent before these hooks run.
            let streamed = (!matches!(hook, "post_chat" | "outlet")).then_some(streamed);
            for mut body in [chat_body("plain", "bad")].into_iter().chain(streamed) {
                body["user"] = to.into();
                let answer = host.chat(&body).await;
                assert!(!answer.body().contains("wrong"), "{hook} {to}: {}", answer.body());
                assert!(answer.body().contains("guarded"), "{hook} {to}: {}", answer.body());
                body["messages"][0]["content"] = "good".into();
                assert!(host.chat(&body).await.body().contains("fine"), "{hook} {to}");
                assert!(host.upstream.last().json()["model"].as_str().is_some_and(|model| model == "big-1"));
            }
        }
        assert!(host.chat(&chat_body("plain", "bad")).await.body().contains("wrong"), "{hook}");
    }
    // A guard that cannot run refuses there as well.
    let broken = "/*\nsecurity: true\nglobal: false\n*/\nfn inlet(body) { nothing_of_that_name(1) }";
    let host = TestHost::new().filter("guard", broken).filter("router", ROUTER).config(MODELS).start().await;
    let mut body = chat_body("plain", "good");
    body["user"] = "safe".into();
    assert_eq!(host.chat(&body).await.status, 503);
    assert!(host.upstream.requests().is_empty());
}

#[tokio::test]
async fn an_answer_that_a_filter_gives_passes_the_guards() {
    let guards = [
        ("stream", "fn stream(event) { if event.text.contains(\"wrong\") { deny(\"guarded\", 403); } }"),
        (
            "post_chat",
            "fn post_chat(ctx) { if ctx.result.text.contains(\"wrong\") { deny(\"guarded\", 403); } }",
        ),
        (
            "outlet",
            "fn outlet(body) { if body.messages[-1].text.contains(\"wrong\") { deny(\"guarded\", 403); } }",
        ),
    ];
    let gives = |hook: &str| {
        let value = if hook == "inlet" { "body" } else { "ctx" };
        format!("fn {hook}({value}) {{ return skip(\"all \" + {value}.messages[-1].text); }}")
    };
    for (hook, script) in guards {
        for giver in ["inlet", "pre_chat"] {
            let guard = format!("/*\nsecurity: true\n*/\n{script}");
            let host = TestHost::new().filter("guard", &guard).filter("gives", gives(giver)).start().await;
            for body in [chat_body("mock-1", "wrong"), crate::host::streaming("mock-1", "wrong")] {
                let answer = host.chat(&body).await;
                assert!(answer.body().contains("guarded"), "{hook} {giver}: {}", answer.body());
            }
            let fine = host.chat(&chat_body("mock-1", "fine")).await;
            assert!(fine.body().contains("all fine"), "{hook} {giver}: {}", fine.body());
        }
    }
    // A guard does not judge its own words, and other filters do not see the answer of a filter in `inlet`.
    let own = "/*\nsecurity: true\n*/\nfn inlet(body) { return skip(\"wrong, I think\"); }\n\
        fn outlet(body) { if body.messages[-1].text.contains(\"wrong\") { deny(\"guarded\", 403); } }";
    let host = TestHost::new()
        .filter("guard", own)
        .filter("other", "fn outlet(body) { deny(\"seen\") }")
        .start()
        .await;
    assert!(host.chat(&chat_body("mock-1", "hi")).await.body().contains("wrong, I think"));
}
