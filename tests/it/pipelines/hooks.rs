//! Inlets and outlets of single filters.

use super::{MARKS, call, detail, post};
use crate::host::TestHost;
use crate::upstream::MODEL;
use serde_json::{Value, json};

fn new_chat(text: &str) -> Value {
    json!({"body": {"model": MODEL, "messages": [{"role": "user", "content": text}]}, "user": {"id": "ann"}})
}

#[tokio::test]
async fn a_hook_runs_on_the_body_and_the_answer_is_the_body() {
    let host =
        TestHost::new().filter("marks", MARKS).filter("never", "fn inlet(body) { throw `no` }").start().await;
    let user = json!({"id": "u1", "email": "ann@example.com", "name": "Ann", "role": "user"});
    let inlet = json!({
        "body": {
            "stream": true, "model": "somebody-elses", "z": 1.50, "features": {"web": true},
            "messages": [{"role": "user", "content": "hi"}],
            "metadata": {"chat_id": "c1", "message_id": "m1", "session_id": "s1", "task": null},
        },
        "user": user,
    });
    let outlet = json!({
        "body": {
            "model": "somebody-elses", "filter_ids": [], "chat_id": "c1", "session_id": "s1", "id": "m1",
            "messages": [
                {"id": "m0", "role": "user", "content": "hi", "timestamp": 1},
                {"id": "m1", "role": "assistant", "content": "hello", "usage": {"total_tokens": 3}},
            ],
        },
        "user": user,
    });
    for id in ["marks", "v1/marks", "prefix.marks", "v1/two.dots.marks"] {
        let answer = post(&host, &format!("/{id}/filter/inlet"), &inlet).await;
        let mut expected = inlet["body"].clone();
        expected["messages"][0]["content"] = json!("hi!");
        assert_eq!((answer.status, answer.json()), (200, expected), "{id}");
        assert!(answer.generation() > 0);

        let answer = post(&host, &format!("/{id}/filter/outlet"), &outlet).await;
        let mut expected = outlet["body"].clone();
        expected["messages"][1]["content"] = json!("hello!");
        assert_eq!((answer.status, answer.json()), (200, expected), "{id}");
    }
    assert_eq!(host.upstream.requests().len(), 0, "no model is called");
}

#[tokio::test]
async fn a_filter_sees_user_model_and_chat() {
    let tells = r#"const UserValves = #{ bonus: 1 };
        fn inlet(body, __user__, __metadata__, __model__, __chat_id__, __message_id__, __request__) {
            body.seen = #{ user: __user__.id, email: __user__.email, bonus: __user__.valves.bonus,
                task: __metadata__.task, model: __model__.id, chat: __chat_id__, message: __message_id__,
                path: __request__.path };
            body
        }"#;
    let host = TestHost::new().filter("tells", tells).start().await;
    host.set_valves("tells", Some("u1"), json!({"bonus": 3})).await;
    let mut chat = new_chat("hi");
    chat["user"] = json!({"id": "u1", "email": "ann@example.com", "name": "Ann", "role": "user"});
    chat["body"]["metadata"] = json!({"chat_id": "c1", "message_id": "m1", "task": "title_generation"});
    chat["body"]["model"] = json!("prefix.demo");
    let facts = post(&host, "/prefix.tells/filter/inlet", &chat).await.json()["seen"].clone();
    assert_eq!(
        facts,
        json!({
            "user": "u1", "email": "ann@example.com", "bonus": 3, "task": "title_generation",
            "model": "demo", "chat": "c1", "message": "m1",
            "path": "/prefix.tells/filter/inlet",
        })
    );
}

#[tokio::test]
async fn rejections_and_failures_have_a_status_and_a_detail() {
    let host = TestHost::new()
        .filter("throws", "fn inlet(body) { throw `Too long` }")
        .filter("later", "fn inlet(body) { emit(#{type: `status`, data: #{done: true}}); throw #{status: 429, message: `Slow down`, retry_after: 3} }")
        .filter("breaks", "fn inlet(body) { body.nothing.there = 1; body } fn outlet(body) { 1 + `a`; [1][9] }")
        .filter("kind", "/*\non_error: continue\n*/\nfn outlet(body) { throw `no` }")
        .filter("answers", "fn inlet(body) { skip(`Forty-two`) } fn outlet(body) { skip(`Final`) }")
        .start()
        .await;
    let inlet = async |id: &str| post(&host, &format!("/{id}/filter/inlet"), &new_chat("hi")).await;
    let outlet = async |id: &str| post(&host, &format!("/{id}/filter/outlet"), &new_chat("hi")).await;
    detail(&inlet("throws").await, 400, "Too long");
    let later = inlet("later").await;
    detail(&later, 429, "Slow down");
    assert_eq!(later.header("retry-after"), Some("3"));
    let events: Value = serde_json::from_str(later.header("x-valvehouse-events").unwrap()).unwrap();
    assert_eq!(events, json!([{"type": "status", "data": {"done": true}}]), "what was emitted is delivered");
    detail(&inlet("breaks").await, 500, "the plugin `breaks` failed in its inlet");
    assert_eq!(outlet("kind").await.json(), new_chat("hi")["body"], "forgiven");
    detail(&inlet("answers").await, 400, "Forty-two");
    assert_eq!(outlet("answers").await.json()["messages"][0]["content"], "Final");

    for wrong in [json!({}), json!({"body": {"model": "m"}}), json!({"body": []}), json!(7)] {
        detail(&post(&host, "/throws/filter/inlet", &wrong).await, 400, "messages");
    }
    let no_json = host.request("POST", "/throws/filter/inlet").body("{");
    detail(&crate::host::Answer::of(no_json).await, 400, "not valid JSON");
    detail(&inlet("nobody").await, 404, "nobody");
}

#[tokio::test]
async fn a_filter_that_cannot_run_is_skipped_unless_it_is_a_guard() {
    let host = TestHost::new()
        .filter("off", "fn inlet(body) { throw `off` }")
        .filter("broken", "fn inlet(body) {")
        .filter("guard", "/*\nsecurity: true\n*/\nfn inlet(body) {")
        .filter("chosen", "const toggle = true;\nfn inlet(body) { throw `chosen` }")
        .config("[filters.off]\nenabled = false")
        .start()
        .await;
    for id in ["off", "broken", "chosen"] {
        let answer = post(&host, &format!("/{id}/filter/inlet"), &new_chat("hi")).await;
        assert_eq!((answer.status, answer.json()), (200, new_chat("hi")["body"].clone()), "{id}");
    }
    let mut chat = new_chat("hi");
    chat["body"]["filter_ids"] = json!(["chosen"]);
    detail(&post(&host, "/chosen/filter/inlet", &chat).await, 400, "chosen");

    for hook in ["inlet", "outlet"] {
        detail(&post(&host, &format!("/guard/filter/{hook}"), &new_chat("hi")).await, 503, "guard `guard`");
    }
    let list = host.get("/models").await.json();
    let filters: Vec<&Value> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|model| model["pipeline"]["type"] == "filter")
        .map(|model| &model["id"])
        .collect();
    assert_eq!(filters, ["guard"], "Open WebUI must go on asking a guard that cannot run");
}

#[tokio::test]
async fn a_filter_that_handles_files_removes_them() {
    let host = TestHost::new()
        .filter("files", "const file_handler = true;\nfn inlet(body) { body.seen = body.files.len(); body }")
        .start()
        .await;
    let mut chat = new_chat("hi");
    chat["body"]["files"] = json!([{"id": "f"}]);
    chat["body"]["metadata"] = json!({"files": [{"id": "f"}], "chat_id": "c"});
    let body = post(&host, "/files/filter/inlet", &chat).await.json();
    assert_eq!((&body["seen"], &body["metadata"]), (&json!(1), &json!({"chat_id": "c"})));
    assert!(body.get("files").is_none());
}

#[tokio::test]
async fn the_key_names_the_user_whatever_the_request_says() {
    let host = TestHost::new()
        .filter("tells", "fn inlet(body, __user__) { body.seen = __user__.id; body }")
        .config("[server]\nkeys = [{ key = \"sk-bob\", user = { id = \"bob\" } }]")
        .start()
        .await;
    let mut chat = new_chat("hi");
    for user in [json!({"id": "ann"}), Value::Null] {
        chat["user"] = user;
        let answer = call(&host, "POST", "/tells/filter/inlet", Some("sk-bob"), Some(&chat)).await;
        assert_eq!(answer.json()["seen"], "bob");
    }
}

#[tokio::test]
async fn each_hook_call_has_a_trace() {
    let host = TestHost::new().filter("marks", MARKS).start().await;
    let answer = post(&host, "/marks/filter/inlet", &new_chat("hi")).await;
    let trace = host.app().traces.find(answer.header("x-valvehouse-trace").unwrap()).unwrap();
    assert_eq!((trace.request.endpoint, trace.request.user.as_str()), ("inlet", "ann"));
    let steps: Vec<String> = trace.records().iter().map(|step| step.name.to_string()).collect();
    assert_eq!(steps, ["marks"]);
}
