use super::trace_of;
use crate::host::{Answer, TestHost, chat_body, streaming};
use crate::upstream::MODEL;
use serde_json::{Value, json};

const COUNTS: &str = r#"/*
requirements: kv
*/
const Valves = #{ mark: "!" };
fn inlet(body, state, valves) { kv::incr("requests"); state.seen = 0; body.messages[-1].content += valves.mark; body }
fn stream(event, state) { state.seen += 1; event.text = event.text.to_upper(); event }
fn outlet(body, state, __user__) { body.messages[-1].content += ` ${state.seen > 1} ${__user__.id}`; body }
"#;

/// Sends a chat with recorded contents and returns the id of its trace.
async fn kept(host: &TestHost, body: &Value) -> String {
    let request = host.posting(body.to_string()).header("x-valvehouse-trace", "content");
    trace_of(host, &Answer::of(request).await).await["id"].as_str().unwrap().to_owned()
}

async fn replay(host: &TestHost, id: &str, body: Value) -> Answer {
    Answer::of(host.request("POST", &format!("/api/v1/traces/{id}/replay")).body(body.to_string())).await
}

#[tokio::test]
async fn a_replay_repeats_the_result_and_stores_nothing() {
    let host = TestHost::new().filter("counts", COUNTS).start().await;
    host.set_valves("counts", None, json!({"mark": "?"})).await;
    let mut body = streaming(MODEL, "hi");
    body["user"] = json!("ann");
    let id = kept(&host, &body).await;
    let replayed = replay(&host, &id, json!({"plugin": "counts"})).await.json();
    let steps = replayed["steps"].as_array().unwrap();
    assert!(steps.len() > 4, "{replayed:#}");
    for step in steps {
        assert_eq!(step["same"], true, "{step:#}");
        assert_eq!((&step["diff"], &step["replayed"]["outcome"]), (&json!([]), &json!("continue")));
    }
    assert!(steps[0]["replayed"]["operations"].as_u64() > Some(0));
    let last = &steps[steps.len() - 1]["replayed"]["after"]["messages"];
    let text = last.as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    assert!(text.ends_with("true ann"), "{text}");
    let counted = r#"/*
requirements: kv
*/
fn inlet(body) { skip(`${kv::get("requests")}`) }"#;
    host.update("counts", counted).await;
    assert_eq!(host.ask("how often").await.text(), "1");
}

#[tokio::test]
async fn a_replay_of_an_edited_script_shows_the_new_result() {
    let host = TestHost::new().filter("counts", COUNTS).start().await;
    let id = kept(&host, &chat_body(MODEL, "hi")).await;
    let source = COUNTS.replace("+= valves.mark", "= `<${valves.mark}>`").replace("fn outlet", "fn own");
    let replayed = replay(&host, &id, json!({"plugin": "counts", "source": source})).await.json();
    let inlet = &replayed["steps"][0];
    assert_eq!((&inlet["hook"], &inlet["same"]), (&json!("inlet"), &json!(false)));
    let change = json!({"op": "replace", "path": "/messages/0/content", "before": "hi!", "after": "<!>"});
    assert_eq!(inlet["diff"], json!([change]));
    let outlet = replayed["steps"].as_array().unwrap().last().unwrap();
    assert_eq!((&outlet["hook"], &outlet["replayed"]["outcome"]), (&json!("outlet"), &json!("no_hook")));
    let throws = "fn inlet(body) { throw \"never\" }";
    let replayed = replay(&host, &id, json!({"plugin": "counts", "source": throws})).await.json();
    let inlet = &replayed["steps"][0]["replayed"];
    assert_eq!((&inlet["outcome"], &inlet["cause"]), (&json!("refused"), &json!("never")));
    // The running version is unchanged.
    assert_eq!(host.ask("hi").await.status, 200);
}

#[tokio::test]
async fn a_replay_sends_no_requests() {
    let asks = r#"/*
requirements: llm, http
allow_hosts: 127.0.0.1:*
*/
fn inlet(body) { if body.messages[-1].content == "ask" { llm::chat(#{ model: "mock-1", messages: [#{ role: "user", content: "x" }] }); } body }"#;
    let host =
        TestHost::new().filter("asks", asks.replace(", http\nallow_hosts: 127.0.0.1:*", "")).start().await;
    let id = kept(&host, &chat_body(MODEL, "ask")).await;
    let request_count = host.upstream.requests().len();
    let replayed = replay(&host, &id, json!({"plugin": "asks"})).await.json();
    let inlet = &replayed["steps"][0];
    assert_eq!(
        (&inlet["same"], &inlet["recorded"]["outcome"]),
        (&json!(false), &json!("continue")),
        "{inlet:#}"
    );
    assert!(inlet["replayed"]["cause"].as_str().unwrap().contains("cannot call a model"), "{inlet:#}");
    assert_eq!(host.upstream.requests().len(), request_count);
    let fetches = format!(
        "/*\nrequirements: http\nallow_hosts: {0}\n*/\nfn inlet(body) {{ http::get(\"{0}\"); body }}",
        host.upstream.url().trim_end_matches("/v1")
    );
    let replayed = replay(&host, &id, json!({"plugin": "asks", "source": fetches})).await;
    let replayed = replayed.json();
    assert_eq!(replayed["steps"][0]["replayed"]["outcome"], "failed", "{replayed:#}");
    assert!(!replayed["note"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn tools_are_replayed_too() {
    let tool = r#"const tool = #{ description: "Weather" };
const parameters = #{ city: "string" };
fn handler(args) { `sunny in ${args.city}` }"#;
    let host = TestHost::new()
        .tool("weather", tool)
        .config(
            "[[models]]\nname = \"assistant\"\nprovider = \"demo\"\nmodel = \"demo\"\ntools = [\"weather\"]",
        )
        .start()
        .await;
    let id = kept(&host, &chat_body("assistant", r#"/weather {"city": "Oslo"}"#)).await;
    let replayed = replay(&host, &id, json!({"plugin": "weather"})).await.json();
    assert_eq!(replayed["steps"][0]["same"], true, "{replayed:#}");
    let source = tool.replace("sunny", "rainy");
    let replayed = replay(&host, &id, json!({"plugin": "weather", "source": source})).await.json();
    let step = &replayed["steps"][0];
    assert_eq!((&step["same"], &step["diff"][0]["op"]), (&json!(false), &json!("replace")), "{step:#}");
    assert!(step["replayed"]["after"].as_str().unwrap().starts_with("rainy"));
}

#[tokio::test]
async fn an_impossible_replay_is_rejected_with_a_reason() {
    let host =
        TestHost::new().filter("counts", COUNTS).filter("other", "fn inlet(body) { body }").start().await;
    let bare = trace_of(&host, &host.ask("hi").await).await["id"].as_str().unwrap().to_owned();
    replay(&host, &bare, json!({"plugin": "counts"})).await.refused(422, "were not recorded");
    let id = kept(&host, &chat_body(MODEL, "hi")).await;
    replay(&host, &id, json!({})).await.refused(400, "missing `plugin`");
    replay(&host, &id, json!({"plugin": "count"})).await.refused(404, "did you mean `counts`?");
    replay(&host, "none", json!({"plugin": "counts"})).await.refused(404, "unknown trace");
    let wrong = json!({"plugin": "counts", "source": "fn inlet(body) { body.x = ; }"});
    replay(&host, &id, wrong).await.refused(422, "counts.rhai");
    let endless = json!({"plugin": "counts", "source": "fn inlet(body) { loop { } }"});
    let replayed = replay(&host, &id, endless).await.json();
    assert_eq!(replayed["steps"][0]["replayed"]["outcome"], "failed");
}
