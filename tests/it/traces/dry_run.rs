use super::{step, steps};
use crate::host::{Answer, TestHost, until};
use crate::upstream::{Gate, MODEL, Reply};
use serde_json::{Value, json};

async fn attempt(host: &TestHost, body: Value) -> Answer {
    Answer::of(host.request("POST", "/api/v1/try").body(body.to_string())).await
}

#[tokio::test]
async fn a_dry_run_shows_the_answer_and_the_change_of_every_hook() {
    let system =
        r#"fn inlet(body) { body.messages.insert(0, #{ role: "system", content: "be kind" }); body }"#;
    let shouts = r#"const Valves = #{ priority: 1 }; fn stream(event) { event.text = event.text.to_upper(); event } fn outlet(body, __user__) { body.messages[-1].content += ` for ${__user__.name}`; body }"#;
    let host = TestHost::new().filter("system", system).filter("shouts", shouts).start().await;
    for stream in [false, true] {
        let body =
            json!({"model": MODEL, "text": "hi", "stream": stream, "user": {"id": "ann", "name": "Ann"}});
        let tried = attempt(&host, body).await.json();
        assert_eq!((&tried["status"], &tried["error"]), (&json!(200), &Value::Null), "{tried:#}");
        let text = &tried["answer"]["choices"][0]["message"]["content"];
        assert_eq!(text, "HELLO FROM UPSTREAM for Ann");
        let trace = &tried["trace"];
        assert_eq!(
            (&trace["endpoint"], &trace["user"], &trace["running"]),
            (&json!("try"), &json!("ann"), &json!(false))
        );
        let added =
            json!({"op": "add", "path": "/messages/0", "after": {"role": "system", "content": "be kind"}});
        assert_eq!(step(trace, "system", "inlet")["values"][0]["diff"], json!([added]));
        let outlet = &step(trace, "shouts", "outlet")["values"][0]["diff"];
        assert_eq!(outlet[0]["path"], "/messages/2/content", "{outlet}");
        let stored = host.get(&format!("/api/v1/traces/{}", trace["id"].as_str().unwrap())).await;
        assert_eq!(&stored.json(), trace);
    }
    assert_eq!(host.upstream.last().json()["user"], "ann", "the service gets an id, no more");
}

#[tokio::test]
async fn a_dry_run_is_streamed_to_a_client_that_follows_it() {
    let emits = r#"fn inlet(body) { if body.messages[-1].text == "no" { deny("never", 401); } emit(#{ type: "status", data: #{ description: "looking" } }); body }"#;
    let host = TestHost::new().filter("emits", emits).start().await;
    let follow = async |text: &str| {
        let body = json!({"model": MODEL, "text": text, "stream": true, "user": "ann"});
        let request = host.request("POST", "/api/v1/try").header("accept", "text/event-stream");
        Answer::of(request.body(body.to_string())).await
    };
    let answer = follow("hi").await;
    assert_eq!(
        (answer.status, answer.header("content-type").unwrap()),
        (200, "text/event-stream; charset=utf-8")
    );
    let lines: Vec<&str> = answer.body().lines().filter(|line| !line.is_empty()).collect();
    assert!(lines[0].starts_with(r#"data: {"event":{"type":"status""#), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(r#""content":"upstream""#)), "{lines:#?}");
    assert_eq!(lines.last(), Some(&"data: [DONE]"));
    let trace = super::trace_of(&host, &answer).await;
    assert_eq!((&trace["user"], &trace["contents"]), (&json!("ann"), &json!(true)));
    // What a plugin rejects is not an answer, and still has its trace.
    let rejected = follow("no").await;
    assert_eq!(super::trace_of(&host, &rejected).await["ended_by"], "emits");
    rejected.refused(401, "never");
}

#[tokio::test]
async fn a_failed_dry_run_shows_the_reason_and_the_steps_so_far() {
    let refuses = r#"fn inlet(body, __user__) { if __user__.id == "eve" { throw #{ status: 429, message: "slowly" } } body }"#;
    let host = TestHost::new().filter("refuses", refuses).start().await;
    let tried = attempt(&host, json!({"model": MODEL, "text": "hi", "user": "eve"})).await;
    assert_eq!(tried.status, 200);
    let tried = tried.json();
    assert_eq!((&tried["status"], &tried["answer"]), (&json!(429), &Value::Null));
    assert_eq!((&tried["error"]["message"], &tried["error"]["code"]), (&json!("slowly"), &json!("refuses")));
    assert_eq!(steps(&tried["trace"]), ["refuses inlet refused"]);
    assert_eq!(tried["trace"]["status"], 429);
    // In the middle of a stream.
    host.upstream.reply(Reply::begun(["a"]).then_cut());
    let tried = attempt(&host, json!({"model": MODEL, "text": "hi", "stream": true})).await.json();
    assert_eq!(
        (&tried["status"], tried["error"]["type"].as_str()),
        (&json!(502), Some("upstream_error")),
        "{tried:#}"
    );
    assert_eq!(steps(&tried["trace"])[1], "mock/mock-1 model failed");
}

#[tokio::test]
async fn a_dry_run_uses_toggles_and_is_stored_only_in_a_named_conversation() {
    let toggled = r#"const toggle = true; fn inlet(body) { skip("toggled") }"#;
    let host = TestHost::new()
        .filter("toggled", toggled)
        .config("[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true")
        .start()
        .await;
    let tried = attempt(&host, json!({"model": MODEL, "text": "hi", "filter_ids": ["toggled"]})).await.json();
    assert_eq!(tried["answer"]["choices"][0]["message"]["content"], "toggled");
    let kept =
        async || host.get("/api/v1/agents/conversations").await.json()["data"].as_array().unwrap().len();
    attempt(&host, json!({"model": "assistant", "text": "hi"})).await;
    assert_eq!(kept().await, 0);
    attempt(&host, json!({"model": "assistant", "text": "hi", "chat_id": "c"})).await;
    assert_eq!(kept().await, 1);
}

#[tokio::test]
async fn an_impossible_dry_run_is_rejected_with_a_reason() {
    let host = TestHost::new().start().await;
    for (body, status, why) in [
        (json!({"model": MODEL}), 400, "messages"),
        (json!({"model": MODEL, "text": 1}), 400, "`text` must be a string"),
        (json!({"model": MODEL, "text": "hi", "user": 7}), 400, "`user` must be"),
        (json!([]), 400, "object"),
    ] {
        attempt(&host, body).await.refused(status, why);
    }
    assert_eq!(host.get("/api/v1/traces").await.json()["past"], json!([]));
}

#[tokio::test]
async fn a_dry_run_ends_when_its_client_disconnects() {
    let host = TestHost::new().start().await;
    let gate = Gate::closed();
    host.upstream.reply(Reply::text("late").behind(&gate));
    let body = json!({"model": MODEL, "text": "hi"}).to_string();
    let asking = tokio::spawn(host.request("POST", "/api/v1/try").body(body).send());
    host.upstream.wait_for_requests(1).await;
    asking.abort();
    host.upstream.was_deserted(1).await;
    until("the try is over", || async {
        let past = host.get("/api/v1/traces").await.json()["past"].clone();
        past[0]["whole"] == false && past[0]["endpoint"] == "try"
    })
    .await;
}
