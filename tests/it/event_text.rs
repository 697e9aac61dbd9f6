//! Events of plugins as text of the response, for clients that take no events, if a setting enables it; the
//! language and the time zone of a user.

use crate::host::{Answer, Setup, TestHost, chat_body, streaming};
use crate::upstream::{Gate, Reply};
use serde_json::{Value, json};

const EMITS: &str = "fn inlet(body) {
    emit(#{ type: \"status\", data: #{ description: \"Searching\", done: false } });
    emit(#{ type: \"status\", data: #{ description: \"secret\", hidden: true } });
    emit(#{ type: \"message\", data: #{ content: \"Found: \" } });
    emit(#{ type: \"citation\", data: #{ source: #{ name: \"A [page]\", url: \"https://a.example/\" } } });
    emit(#{ type: \"notification\", data: #{ content: \"not text\" } });
    body
}
fn outlet(body) {
    emit(#{ type: \"files\", data: #{ files: [#{ type: \"image\", name: \"cat\", url: \"https://a.example/cat.png\" }] } });
}";

fn emitting(kinds: &str) -> Setup {
    TestHost::new().filter("emits", EMITS).config(&format!("[server]\nrender_events = {kinds}"))
}

async fn host(kinds: &str) -> TestHost {
    emitting(kinds).start().await
}

const ALL: &str = "[\"message\", \"replace\", \"status\", \"files\", \"citation\"]";
const SOURCES: &str = "Sources:\n- [A  page](https://a.example/)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_client_receives_events_as_text_of_the_answer() {
    let host = host(ALL).await;
    let whole = host.chat(&chat_body("demo", "hi")).await;
    let text = whole.text();
    assert!(text.starts_with("> Searching\n\nFound: "), "{text}");
    assert!(text.contains("You said: hi") && text.ends_with(SOURCES), "{text}");
    assert!(text.contains("![cat](https://a.example/cat.png)") && !text.contains("secret"), "{text}");
    // Programs still receive them in the header.
    assert!(whole.header("x-valvehouse-events").unwrap().contains("notification"));
    let streamed = host.chat(&streaming("demo", "hi")).await;
    let text = streamed.text();
    assert!(text.starts_with("> Searching\n\nFound: "), "{text}");
    assert!(text.contains("You said: hi") && text.contains("![cat](") && text.contains(SOURCES), "{text}");
    assert_eq!(streamed.finishes(), ["stop"]);
    assert!(streamed.events().iter().all(|event| event.get("event").is_none()));
    let ids: Vec<Value> = streamed.events().iter().map(|event| event["id"].clone()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_configured_event_kinds_become_text() {
    let text = host("[\"status\"]").await.chat(&chat_body("demo", "hi")).await.text();
    assert!(text.starts_with("> Searching\n\nYou said") || text.starts_with("> Searching\n\n"), "{text}");
    assert!(!text.contains("Found") && !text.contains("Sources"), "{text}");
    let host = host("[]").await;
    assert!(!host.chat(&chat_body("demo", "hi")).await.text().contains("Searching"));
    assert!(!host.chat(&streaming("demo", "hi")).await.text().contains("Searching"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_accepts_events_receives_no_event_text() {
    let host = host(ALL).await;
    let request = host.posting(streaming("demo", "hi").to_string()).header("x-valvehouse-events", "1");
    let answer = Answer::of(request).await;
    assert!(!answer.text().contains("Searching"));
    let kinds: Vec<Value> = answer.events().iter().map(|event| event["event"]["type"].clone()).collect();
    assert!(kinds.contains(&json!("status")) && kinds.contains(&json!("citation")), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_protocols_receive_the_same_event_text() {
    let host = host(ALL).await;
    let messages = json!([{"role": "user", "content": "hi"}]);
    let whole = host.message(&json!({"model": "demo", "max_tokens": 100, "messages": messages})).await.ok();
    let text = whole["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("> Searching\n\nFound: "), "{text}");
    let streamed = host
        .message(&json!({"model": "demo", "max_tokens": 100, "messages": messages, "stream": true}))
        .await;
    assert!(
        streamed.body().contains("Searching") && streamed.body().contains("Sources:"),
        "{}",
        streamed.body()
    );
    let response = host.respond(&json!({"model": "demo", "input": "hi"})).await.ok();
    assert!(response["output"].to_string().contains("Searching"), "{response}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replace_event_replaces_a_complete_answer() {
    let replaces = "fn outlet(body) { emit(#{ type: \"replace\", data: #{ content: \"other words\" } }); }";
    let host = TestHost::new().filter("replaces", replaces).config("[server]\nrender_events = [\"replace\"]");
    let host = host.start().await;
    assert_eq!(host.chat(&chat_body("demo", "hi")).await.text(), "other words");
    let streamed = host.chat(&streaming("demo", "hi")).await;
    assert!(streamed.text().ends_with("\n\nother words"), "{}", streamed.body());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replace_event_in_a_stream_becomes_a_separate_paragraph() {
    let replaces =
        "fn inlet(body) { emit(#{ type: \"replace\", data: #{ content: \"other words\" } }); body }";
    let host = TestHost::new().filter("replaces", replaces).config("[server]\nrender_events = [\"replace\"]");
    let host = host.start().await;
    let text = host.chat(&streaming("demo", "hi")).await.text();
    assert!(text.starts_with("other words\n\nYou said"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejection_of_a_held_answer_keeps_its_status_despite_event_text() {
    let guard = "/*\nsecurity: true\nhold: true\n*/\nfn post_chat(ctx) { deny(\"not this\", 403); }";
    let host = emitting(ALL).filter("guard", guard).start().await;
    host.chat(&streaming("demo", "hi")).await.refused(403, "not this");
    host.chat(&chat_body("demo", "hi")).await.refused(403, "not this");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_before_the_model_call_has_its_status_although_events_became_text() {
    for hook in ["inlet(body)", "pre_chat(ctx)"] {
        let guard = format!(
            "/*\nsecurity: true\n*/\nconst Valves = #{{ priority: 5 }};\nfn {hook} {{ deny(\"not this\", 403); }}"
        );
        let host = emitting(ALL).filter("guard", guard).start().await;
        host.chat(&streaming("demo", "hi")).await.refused(403, "not this");
        host.respond(&json!({"model": "demo", "input": "hi", "stream": true})).await.refused(403, "not this");
        // A client that reads events has received them by then.
        let request = host.posting(streaming("demo", "hi").to_string()).header("x-valvehouse-events", "1");
        let answer = Answer::of(request).await;
        assert!(answer.status == 200 && answer.body().contains("Searching"), "{}", answer.body());
        assert!(answer.body().contains("not this"), "{}", answer.body());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_text_of_events_is_sent_before_the_model_answers() {
    let host = host(ALL).await;
    let gate = Gate::closed();
    host.upstream.reply(Reply::words(["late"]).behind(&gate));
    let mut response = host.begin("hi").await;
    let mut seen = String::new();
    while !seen.contains("Found: ") {
        seen.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
    }
    assert!(!seen.contains("late"), "{seen}");
    gate.open();
    while let Some(bytes) = response.chunk().await.unwrap() {
        seen.push_str(&String::from_utf8_lossy(&bytes));
    }
    assert!(seen.contains("late") && seen.ends_with("data: [DONE]\n\n"), "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_text_links_only_to_web_addresses() {
    let emits = r#"fn inlet(body) {
        let sources = [
            ["run", "javascript:alert(1)"], ["tab", "java\tscript:alert(1)"], ["page", "data:text/html,<b>"],
            ["end", "https://a.example/x) ![](https://evil.example/"], ["good", "https://a.example/b?c=1"],
        ];
        for source in sources {
            emit(#{ type: "citation", data: #{ source: #{ name: source[0], url: source[1] } } });
        }
        emit(#{ type: "files", data: #{ files: [
            #{ type: "image", name: "pixel", url: "data:image/png;base64,AAAA" },
            #{ type: "file", name: "script", url: "vbscript:x" },
            #{ type: "file", name: "local", url: "/api/v1/files/1" },
            #{ type: "file", name: "far", url: "//evil.example/" },
        ] } });
        body
    }"#;
    let host = TestHost::new().filter("emits", emits).config(&format!("[server]\nrender_events = {ALL}"));
    let host = host.start().await;
    for body in [chat_body("demo", "hi"), streaming("demo", "hi")] {
        let text = host.chat(&body).await.text();
        let names =
            ["- run\n", "- tab\n", "- page\n", "[end](https://a.example/x%29%20![]%28https://evil.example/)"];
        for part in names {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("- [good](https://a.example/b?c=1)"), "{text}");
        assert!(
            text.contains("![pixel](data:image/png;base64,AAAA)\nscript\n[local](/api/v1/files/1)\nfar"),
            "{text}"
        );
        assert!(!text.contains("javascript") && !text.contains("vbscript"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_responses_have_no_event_text() {
    let host = host(ALL).await;
    let replaces = "fn outlet(body) { emit(#{ type: \"replace\", data: #{ content: \"other words\" } }); }";
    let replacing =
        TestHost::new().filter("replaces", replaces).config(&format!("[server]\nrender_events = {ALL}"));
    let replacing = replacing.start().await;
    let stored = async |host: &TestHost, id: &str| host.get(&format!("/v1/responses/{id}")).await.ok();
    let text = |response: &Value| response["output"].to_string();
    let whole = host.respond(&json!({"model": "demo", "input": "hi"})).await.ok();
    assert!(text(&whole).contains("Searching") && text(&whole).contains("Sources:"), "{whole}");
    let streamed = host.respond(&json!({"model": "demo", "input": "hi", "stream": true})).await;
    let last = crate::well_formed::data_of(streamed.body()).pop().unwrap();
    let last = serde_json::from_str::<Value>(&last).unwrap()["response"].clone();
    assert!(text(&last).contains("Searching") && text(&last).contains("Sources:"), "{last}");
    for sent in [whole, last] {
        let kept = stored(&host, sent["id"].as_str().unwrap()).await;
        let said = kept["output"][0]["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(said.starts_with("You said: hi"), "{kept}");
        assert!(!text(&kept).contains("Searching") && !text(&kept).contains("Sources"), "{kept}");
        assert_eq!(kept["output"][0]["id"], sent["output"][0]["id"]);
    }
    let replaced = replacing.respond(&json!({"model": "demo", "input": "hi"})).await.ok();
    assert!(text(&replaced).contains("other words") && !text(&replaced).contains("You said"), "{replaced}");
    let kept = stored(&replacing, replaced["id"].as_str().unwrap()).await;
    assert!(text(&kept).contains("You said: hi") && !text(&kept).contains("other words"), "{kept}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_webui_receives_html_in_a_form_it_can_show() {
    let emits = "fn inlet(body) { emit(#{ type: \"html\", data: #{ content: \"<b>hi</b>\" } }); body }";
    let host = TestHost::new().filter("emits", emits).start().await;
    let request =
        |header: &str, value: &str| host.posting(streaming("demo", "hi").to_string()).header(header, value);
    let events = Answer::of(request("x-openwebui-chat-id", "c1")).await.events();
    let found = events.iter().find(|event| event.get("event").is_some()).unwrap();
    assert_eq!(found["event"], json!({"type": "embeds", "data": {"embeds": ["<b>hi</b>"]}}));
    let events = Answer::of(request("x-valvehouse-events", "1")).await.events();
    let found = events.iter().find(|event| event.get("event").is_some()).unwrap();
    assert_eq!(found["event"]["type"], "html");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_reads_the_language_and_the_time_zone_of_a_user() {
    let tells = "fn inlet(body, __user__) { skip(`${__user__.locale} ${__user__.timezone}`) }";
    let host = TestHost::new().filter("tells", tells).start().await;
    let mut body = chat_body("demo", "hi");
    assert_eq!(host.chat(&body).await.text(), " ");
    let request = host.posting(body.to_string()).header("accept-language", "de-AT,de;q=0.9,en;q=0.5");
    let request = request.header("x-valvehouse-timezone", "Europe/Vienna");
    assert_eq!(Answer::of(request).await.text(), "de-AT Europe/Vienna");
    body["metadata"] =
        json!({"variables": {"{{USER_LANGUAGE}}": "it", "{{CURRENT_TIMEZONE}}": "Europe/Rome"}});
    let request = host.posting(body.to_string()).header("accept-language", "de");
    assert_eq!(Answer::of(request).await.text(), "it Europe/Rome");
    body["user"] = json!({"id": "ann", "locale": "fr"});
    assert_eq!(host.chat(&body).await.text(), "fr Europe/Rome");
    body = chat_body("demo", "hi");
    let request = host.posting(body.to_string()).header("accept-language", "<script>");
    assert_eq!(Answer::of(request).await.text(), " ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_kind_without_text_is_an_error_in_the_settings() {
    let mut host = TestHost::new().start().await;
    let toml = format!("{}\n[server]\nrender_events = [\"statsu\"]\n", host.settings());
    let wrong = host.try_reconfigure(&toml).await.unwrap_err();
    assert!(wrong.contains("render_events") && wrong.contains("did you mean `status`?"), "{wrong}");
}
