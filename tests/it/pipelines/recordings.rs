//! Requests of a real Open WebUI, recorded by `tests/open_webui/run --record` and sent again.

use crate::host::{Answer, TestHost};
use serde_json::Value;

const KEY: &str = "sk-recorded";

async fn host() -> TestHost {
    TestHost::new()
        .filter("marks", include_str!("../../open_webui/filters/marks.rhai"))
        .filter("refuses", include_str!("../../open_webui/filters/refuses.rhai"))
        .filter("tells", include_str!("../../open_webui/filters/tells.rhai"))
        .config(&format!("[server]\nkeys = [\"{KEY}\"]\n[admin]\nkey = \"{KEY}\""))
        .start()
        .await
}

fn recorded(name: &str) -> Value {
    let file = format!("{}/tests/fixtures/open_webui/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}")))
        .unwrap()
}

/// Sends a recorded request again, without its key and its connection headers.
async fn again(host: &TestHost, recorded_request: &Value) -> Answer {
    let text = |name: &str| recorded_request[name].as_str().unwrap();
    let mut request = host.request(text("method"), text("path")).bearer_auth(KEY);
    for (name, value) in recorded_request["headers"].as_object().unwrap() {
        if name != "accept-encoding" {
            request = request.header(name, value.as_str().unwrap());
        }
    }
    if !recorded_request["body"].is_null() {
        request = request.body(recorded_request["body"].to_string());
    }
    let answer = Answer::of(request).await;
    assert_eq!(answer.status, recorded_request["status"], "{} {}", text("path"), answer.body());
    answer
}

fn last(body: &Value) -> &str {
    body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap()
}

#[tokio::test]
async fn the_pipelines_page_of_open_webui_finds_filters_and_valves() {
    let host = host().await;
    let models = again(&host, &recorded("models")).await.json();
    assert_eq!(models["pipelines"], true);
    let filters = again(&host, &recorded("pipelines")).await.json();
    assert_eq!(filters["data"].as_array().unwrap().len(), 3);
    let valves = again(&host, &recorded("marks.valves")).await.json();
    assert_eq!(valves["mark"], "[in]");
    let spec = again(&host, &recorded("marks.valves.spec")).await.json();
    assert_eq!(spec["properties"]["mark"]["default"], "[in]");
    let saved = again(&host, &recorded("marks.valves.update")).await.json();
    assert_eq!(
        (&saved["mark"], &saved["ending"], &saved["priority"]),
        (&"(((edited)))".into(), &"[out]".into(), &1.into())
    );
}

#[tokio::test]
async fn an_open_webui_chat_passes_each_filter_once() {
    let host = host().await;
    for task in ["", ".task"] {
        // Each response is the body of the next request.
        let mut body = recorded(&format!("refuses.filter.inlet{task}"))["body"]["body"].clone();
        for of in ["body.id", "body.chat_id"] {
            // The original body of the page: this host assigns the ids of the turn.
            body.as_object_mut().unwrap().remove(of.trim_start_matches("body."));
        }
        for name in ["refuses", "marks", "demo"] {
            let mut recorded_request = recorded(&format!("{name}.filter.inlet{task}"));
            recorded_request["body"]["body"] = body;
            body = again(&host, &recorded_request).await.json();
        }
        assert_eq!(last(&body).matches("[in]").count(), 1, "{body}");
        let metadata = body.as_object_mut().unwrap().remove("metadata").unwrap();
        assert_eq!(
            body["chat_id"] == metadata["chat_id"],
            task.is_empty(),
            "titles are stored in no chat: {body}"
        );

        let mut chat = recorded("chat.completions.whole");
        body["user"] = recorded("marks.filter.inlet")["body"]["user"].clone();
        body["stream"] = false.into();
        chat["body"] = body;
        let text = again(&host, &chat).await.text();
        assert_eq!(text.matches("[in]").count(), 1, "{text}");
        let marked = text.matches("[out] 1").count();
        assert_eq!(
            marked,
            usize::from(task.is_empty()),
            "an answer has its ending once, a title none: {text}"
        );
    }
}

#[tokio::test]
async fn a_streamed_open_webui_chat_has_events_and_runs_outlets_afterwards() {
    let host = host().await;
    let stream = again(&host, &recorded("chat.completions.stream")).await;
    let events = stream.events();
    assert!(
        events.iter().any(|event| event["event"]["data"]["description"] == "Thinking about it"),
        "{events:?}"
    );
    let outlet = again(&host, &recorded("marks.filter.outlet")).await.json();
    assert!(last(&outlet).contains("[out]"), "{outlet}");
    let own = recorded("demo.filter.outlet");
    assert_eq!(again(&host, &own).await.json(), own["body"]["body"], "a model has no hooks");
}
