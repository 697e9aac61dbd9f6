//! Filters and the prompt cache of services: measured on live requests for each filter.

use crate::cli::Project;
use crate::host::{Answer, TestHost};
use serde_json::{Value, json};

const FRONT: &str = "/*\nglobal: false\n*/\n";
/// Filters that keep the prompt cache of a service, and filters that do not.
const FILTERS: [(&str, bool, &str); 7] = [
    ("same", true, "fn inlet(body) { body }"),
    ("constant", true, "fn inlet(body) { body.messages.append_system(\"Be brief.\"); body }"),
    ("last", true, "fn pre_chat(ctx) { ctx.messages[-1].text += ` (message ${ctx.messages.len()})`; ctx }"),
    (
        "behind",
        true,
        "fn inlet(body) { body.messages.push(#{ role: \"system\", content: `${body.messages.len()}` }); body.messages.push(#{ role: \"system\", content: \"!\" }); body }",
    ),
    (
        "counter",
        false,
        "fn inlet(body) { body.messages.append_system(`message ${body.messages.len()}`); body }",
    ),
    ("early", false, "fn pre_chat(ctx) { ctx.messages[0].text += ` of ${ctx.messages.len()}`; ctx }"),
    (
        "tools",
        false,
        "fn inlet(body) { body.tools[0].function.description = `${body.messages.len()}`; body }",
    ),
];

fn tools() -> Value {
    let function = json!({"name": "weather", "description": "d", "parameters": {"type": "object"}});
    json!([{"type": "function", "function": function}])
}

/// Returns the measurement of a model's filter from its chain.
async fn measured(host: &TestHost, model: &str) -> Value {
    host.get(&format!("/api/v1/models/{model}/chain")).await.json()["filters"]
        .as_array()
        .unwrap()
        .iter()
        .find(|filter| filter["id"] == model)
        .unwrap_or_else(|| panic!("no filter {model}"))["prompt_cache"]
        .clone()
}

async fn host() -> TestHost {
    let mut setup = TestHost::new();
    for (name, _, source) in FILTERS {
        let model = format!(
            "[[models]]\nname = \"{name}\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nfilters = [\"{name}\"]"
        );
        setup = setup.config(&model).filter(name, [FRONT, source].concat());
    }
    setup.start().await
}

#[tokio::test]
async fn requests_record_which_filters_keep_the_prompt_cache() {
    let host = host().await;
    for (name, keeps, _) in FILTERS {
        let mut messages = vec![json!({"role": "user", "content": "one"})];
        assert_eq!(measured(&host, name).await, Value::Null, "{name}: nothing was measured");
        for text in ["two", "three"] {
            let body = json!({"model": name, "tools": tools(), "messages": messages});
            let content = host.chat(&body).await.ok()["choices"][0]["message"]["content"].clone();
            messages.push(json!({"role": "assistant", "content": content}));
            messages.push(json!({"role": "user", "content": text}));
        }
        host.chat(&json!({"model": name, "tools": tools(), "messages": messages})).await.ok();
        let found = measured(&host, name).await;
        let (requests, lost) = (found["requests"].as_u64().unwrap(), found["lost"].as_u64().unwrap());
        // If the first request had only one message, the second found nothing in the cache.
        assert!(matches!(requests, 1 | 2), "{name}: {found}");
        assert_eq!((&found["keeps"], lost > 0), (&json!(keeps), !keeps), "{name}: {found}");
    }
    // A request of another conversation continues no earlier one.
    let before = measured(&host, "counter").await;
    host.chat(&json!({"model": "counter", "messages": [{"role": "user", "content": "other"}]})).await.ok();
    assert_eq!(measured(&host, "counter").await, before);
    // A changed filter is measured from the start.
    host.update("counter", &[FRONT, FILTERS[0].2].concat()).await;
    assert_eq!(measured(&host, "counter").await, Value::Null);
}

#[tokio::test]
async fn only_messages_after_the_last_cache_mark_may_change() {
    let host = host().await;
    let mark = json!({"type": "ephemeral"});
    for (name, keeps) in [("same", true), ("constant", true), ("behind", true), ("last", false)] {
        let user = |text: &str, marked: bool| {
            let mut part = json!({"type": "text", "text": text});
            if marked {
                part["cache_control"] = mark.clone();
            }
            json!({"role": "user", "content": [part]})
        };
        let system = json!([{"type": "text", "text": "Be kind.", "cache_control": mark}]);
        let ask = async |messages: Value| {
            let body = json!({"model": name, "max_tokens": 9, "system": system, "messages": messages});
            let request = host.request("POST", "/v1/messages").header("content-type", "application/json");
            Answer::of(request.body(body.to_string())).await.ok()
        };
        ask(json!([user("one", true)])).await;
        // Clients move the mark to the newest message.
        let answer = json!({"role": "assistant", "content": "hello"});
        ask(json!([user("one", false), answer, user("two", true)])).await;
        let found = measured(&host, name).await;
        assert_eq!((&found["requests"], &found["keeps"]), (&json!(1), &json!(keeps)), "{name}: {found}");
    }
}

#[test]
fn the_command_shows_which_filters_keep_the_prompt_cache() {
    let project = Project::new().filter("counter", &FILTERS[4].2.replace(".len()", ".len() + uuid()"));
    assert!(!project.run("explain --model demo").ends(0).out.contains("prompt cache"));
    let host = project.serve("");
    assert_eq!((host.send("hi").0, host.send("hi").0), (200, 200));
    // A host reports its plugins every second.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !project.run("explain --model demo").ends(0).out.contains("keeps prompt cache: no (lost in 1 of 1")
    {
        assert!(std::time::Instant::now() < end, "the host does not tell of its filters");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let json = project.run("explain --model demo --format json").ends(0).json();
    assert_eq!(json.at_path("filters.0.prompt_cache.keeps").as_bool(), Some(false));
}
