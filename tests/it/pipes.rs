//! Scripts that act as models: `fn pipe(body)`.

use crate::host::{TestHost, chat_body, streaming, until};
use serde_json::{Value, json};

/// Repeats the message in capitals; the host's filters run around it.
const ECHO: &str = r#"/*
title: Echo
*/
const Valves = #{ mark: "!" };

fn pipe(body, valves, __user__) {
    `${__user__.id}: ${body.messages.last("user").text}${valves.mark}`
}
"#;

const LOUD: &str = "fn inlet(body) { let last = body.messages.last(); last.content += \" please\"; }\nfn stream(event) { event.text = event.text.to_upper(); }";

fn asking(model: &str) -> Value {
    let mut body = chat_body(model, "hi");
    body["user"] = json!("ann");
    body
}

async fn both_ways(host: &TestHost, body: &Value) -> (String, String) {
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let (whole, streamed) = (host.chat(body).await, host.chat(&streamed).await);
    assert!(streamed.is_stream(), "{}", streamed.body());
    assert_eq!(streamed.finishes().len(), 1, "{}", streamed.body());
    assert!(streamed.body().ends_with("data: [DONE]\n\n"), "{}", streamed.body());
    let ids: Vec<Value> = streamed.events().iter().map(|event| event["id"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && id.is_string()), "{ids:?}");
    (whole.text(), streamed.text())
}

#[tokio::test]
async fn a_script_is_a_model_and_every_filter_runs_around_it() {
    let host = TestHost::new().filter("echo", ECHO).start().await;
    let same = |(whole, streamed): (String, String)| {
        assert_eq!(whole, streamed);
        whole
    };
    assert_eq!(same(both_ways(&host, &asking("echo")).await), "ann: hi!");
    assert_eq!(host.chat(&asking("echo")).await.json()["model"], "echo");
    host.set_valves("echo", None, json!({"mark": "?"})).await;
    host.update("loud", LOUD).await;
    assert_eq!(same(both_ways(&host, &asking("echo")).await), "ANN: HI PLEASE?");

    let list = host.get("/v1/models").await.json();
    let entry = list["data"].as_array().unwrap().iter().find(|model| model["id"] == "echo").unwrap();
    assert_eq!((&entry["name"], &entry["owned_by"]), (&json!("Echo"), &json!("pipes")));
    assert_eq!(host.chat(&asking("pipes/echo")).await.text(), "ANN: HI PLEASE?");

    host.update("echo", "fn pipe(body) { \"another one\" }").await;
    assert_eq!(host.chat(&asking("echo")).await.text(), "ANOTHER ONE");
    // A script that does not load keeps the last good version.
    host.save("echo", "fn pipe(body) { ");
    host.stands("echo", "stale").await;
    assert_eq!(host.chat(&asking("echo")).await.text(), "ANOTHER ONE");
    host.delete("echo");
    until("the model is gone", async || host.get("/v1/models/echo").await.json()["owned_by"] != "pipes")
        .await;
}

#[tokio::test]
async fn one_script_may_offer_several_models() {
    let host = TestHost::new()
        .tool(
            "many",
            r#"
            fn pipes() { [#{ id: "small", name: "Small one" }, "org/large"] }
            fn pipe(body, __model__) { `I am ${body.model}, called ${__model__.name}` }
            "#,
        )
        .config("[[models]]\nname = \"mine\"\nprovider = \"pipes\"\nmodel = \"many.small\"\nsystem_prompt = \"Be kind.\"")
        .start()
        .await;
    assert_eq!(host.chat(&asking("many.small")).await.text(), "I am many.small, called Small one");
    assert_eq!(host.chat(&asking("many.org/large")).await.text(), "I am many.org/large, called org/large");
    assert_eq!(host.chat(&asking("mine")).await.text(), "I am many.small, called mine");
    let list = host.get("/v1/models").await.json();
    let ids: Vec<&str> =
        list["data"].as_array().unwrap().iter().filter_map(|model| model["id"].as_str()).collect();
    assert!(
        ids.contains(&"many.small") && ids.contains(&"many.org/large") && !ids.contains(&"many"),
        "{ids:?}"
    );
    host.chat(&asking("pipes/many.smal")).await.refused(404, "many.smal");
}

#[tokio::test]
async fn answers_may_be_texts_messages_lists_and_functions() {
    let answers = [
        (r#""text""#, "text"),
        (r#"#{ content: "a message" }"#, "a message"),
        (
            r#"#{ choices: [#{ index: 0, message: #{ role: "assistant", content: "whole" }, finish_reason: "length" }] }"#,
            "whole",
        ),
        (
            r#"["a ", #{ text: "list" }, #{ reasoning_content: "hm" }, #{ content: " of deltas" }]"#,
            "a list of deltas",
        ),
        (r#"let n = 0; || { n += 1; if n < 4 { `${n} ` } }"#, "1 2 3 "),
        (r#"[]"#, ""),
        (r#"skip("skipped")"#, "skipped"),
    ];
    for (code, expected) in answers {
        let host = TestHost::new().filter("p", format!("fn pipe(body) {{ {code} }}")).start().await;
        assert_eq!(both_ways(&host, &asking("p")).await, (expected.into(), expected.into()), "{code}");
    }
}

/// A tool that the host must not run.
const UNWANTED: &str = "/*\ndescription: x\n*/\nconst parameters = #{};\nfn handler(args) { \"UNWANTED\" }\n";
const WITH_TOOLS: &str = "[[models]]\nname = \"m\"\nprovider = \"pipes\"\nmodel = \"p\"\ntools = [\"*\"]\n";

#[tokio::test]
async fn a_pipe_shows_calls_that_it_made_itself() {
    let call = r#"[#{ id: "c", type: "function", "function": #{ name: "look", arguments: "{}" } }]"#;
    let shown = [
        // Text follows the call.
        format!(r##"["It is 22. ", #{{ tool_calls: {call} }}, "Done."]"##),
        format!(r##"[#{{ content: "It is 22. ", tool_calls: {call} }}, "Done."]"##),
        format!(r##"["It is 22. ", "Done.", #{{ tool_calls: {call}, display: true }}]"##),
        format!(r##"#{{ content: "It is 22. Done.", tool_calls: {call}, display: true }}"##),
    ];
    for code in shown {
        let source = format!("fn pipe(body) {{ {code} }}");
        let host =
            TestHost::new().filter("p", source).tool("look", UNWANTED).config(WITH_TOOLS).start().await;
        for model in ["m", "p"] {
            let expected = ("It is 22. Done.".to_owned(), "It is 22. Done.".to_owned());
            assert_eq!(both_ways(&host, &asking(model)).await, expected, "{model}: {code}");
        }
        let streamed = host.chat(&streaming("m", "hi")).await;
        assert_eq!(streamed.finishes(), ["stop"], "{code}");
        assert!(!streamed.body().contains("UNWANTED"), "{}", streamed.body());
    }
}

#[tokio::test]
async fn a_pipe_that_repeats_answered_calls_ends_with_an_error() {
    let call = r#"[#{ id: "c", type: "function", "function": #{ name: "look", arguments: "{}" } }]"#;
    for code in [format!("[#{{ tool_calls: {call} }}]"), format!("#{{ content: \"x\", tool_calls: {call} }}")]
    {
        let source = format!("fn pipe(body) {{ {code} }}");
        let tool = "/*\ndescription: x\n*/\nconst parameters = #{};\nfn handler(args) { 1 }\n";
        let host = TestHost::new().filter("p", source).tool("look", tool).config(WITH_TOOLS).start().await;
        let answer = host.chat(&asking("m")).await;
        assert!(answer.status >= 500 && answer.body().contains("pipe"), "{code}: {}", answer.body());
        assert!(!answer.body().contains("max_tool_iterations"), "{}", answer.body());
    }
}

#[tokio::test]
async fn a_pipe_calls_tools_of_the_host() {
    let host = TestHost::new()
        .filter(
            "p",
            r#"fn pipe(body) {
                let last = body.messages.last();
                if last.role == "tool" { return `it says ${last.content}`; }
                [#{ tool_calls: [#{ "function": #{ name: "double", arguments: `{"n": 21}` } }] }]
            }"#,
        )
        .tool("double", "const parameters = #{ n: \"integer\" };\nfn handler(args) { args.n * 2 }")
        .config("[[models]]\nname = \"mine\"\nprovider = \"pipes\"\nmodel = \"p\"\ntools = [\"double\"]")
        .start()
        .await;
    assert_eq!(both_ways(&host, &asking("mine")).await, ("it says 42".into(), "it says 42".into()));
    // Without such a tool in the host, the call is for the client.
    let mut streamed = asking("p");
    streamed["stream"] = json!(true);
    let answer = host.chat(&streamed).await;
    assert_eq!(answer.finishes(), ["tool_calls"]);
    let call = &answer
        .events()
        .iter()
        .find_map(|event| event["choices"][0]["delta"]["tool_calls"].as_array().cloned())
        .unwrap()[0];
    assert_eq!(
        (&call["index"], &call["type"], &call["function"]["name"]),
        (&json!(0), &json!("function"), &json!("double"))
    );
    assert!(call["id"].as_str().unwrap().starts_with("call_"));
}

#[tokio::test]
async fn chunks_of_a_pipe_are_sent_at_once_and_the_script_ends_with_its_reader() {
    let host = TestHost::new()
        .filter(
            "p",
            r#"/*
            requirements: kv
            */
            fn pipe(body, __event_call__) {
                let n = 0;
                || {
                    n += 1;
                    if n > 1 { try { __event_call__.call(#{ type: "confirmation", data: #{}, timeout: 20_000 }); } catch { } }
                    kv::set("n", n);
                    `${n} `
                }
            }"#,
        )
        .start()
        .await;
    let request = host.posting(streaming("p", "hi").to_string()).header("x-valvehouse-events", "1");
    let mut response = request.send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("confirmation") || !seen.contains(r#""content":"1 ""#) {
        seen.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
    }
    drop(response);
    // The script would run forever; it ends with its client.
    until("the script has ended", async || {
        host.get("/readyz?verbose").await;
        host.snapshot().plugins["p"].script.as_ref().unwrap().metrics().of("pipe").sum().calls == 1
    })
    .await;
}

#[tokio::test]
async fn a_pipe_error_is_reported_and_ends_the_answer_once() {
    let cases = [
        ("throw #{ status: 429, message: \"later\" }", 429, "later"),
        ("error(\"no\")", 400, "no"),
        ("7", 500, "`p`"),
        ("let x = 1 / 0;", 500, "`p`"),
        ("loop {}", 500, "`p`"),
        ("[\"a\", 7]", 500, "`p`"),
        ("let s = \"\"; s.pad(1_000_000, \"x\"); || s", 500, "`p`"),
    ];
    for (code, status, words) in cases {
        let host = TestHost::new().filter("p", format!("fn pipe(body) {{ {code} }}")).start().await;
        host.chat(&asking("p")).await.refused(status, words);
    }
    let late = "fn pipe(body) { let n = 0; || { n += 1; if n == 3 { throw \"enough\" } \"x\" } }";
    let host = TestHost::new().filter("p", late).start().await;
    host.chat(&asking("p")).await.refused(400, "enough");
    let streamed = host.chat(&streaming("p", "hi")).await;
    assert!(streamed.is_stream());
    assert_eq!(streamed.text(), "xx");
    assert_eq!(streamed.message(), "enough");
    assert!(streamed.finishes().is_empty() && streamed.body().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn a_pipe_may_call_other_models_but_not_itself() {
    let host = TestHost::new()
        .filter(
            "p",
            r#"/*
            requirements: llm
            */
            fn pipe(body) {
                let model = body.messages.last().text;
                llm::chat(#{ model: model, messages: [#{ role: "user", content: "good day" }] }).content
            }"#,
        )
        .start()
        .await;
    let text = host.chat(&chat_body("p", "demo")).await.text();
    assert!(text.starts_with("You said: good day"), "{text}");
    host.chat(&chat_body("p", "p")).await.refused(500, "`p`");
}

#[tokio::test]
async fn an_error_in_a_pipe_is_reported_when_it_is_saved() {
    let host = TestHost::new().start().await;
    let cases = [
        ("fn pipe(boddy) { }", "unknown parameter `boddy` of `pipe`"),
        ("fn pipes() { 7 } fn pipe(body) { }", "must return a list"),
        ("fn pipes() { [7] } fn pipe(body) { }", "which is not a text"),
        ("fn pipes() { [\"a b\"] } fn pipe(body) { }", "without white space"),
        ("fn pipes() { [\"a\", \"a\"] } fn pipe(body) { }", "twice"),
        ("fn pipes() { throw \"no\" } fn pipe(body) { }", "`pipes()` failed: no"),
        ("/*\ntimeout: soon\n*/\nfn pipe(body) { }", "`timeout`"),
    ];
    for (nth, (source, words)) in cases.into_iter().enumerate() {
        let id = format!("p{nth}");
        host.save(&id, source);
        host.stands(&id, "broken").await;
        let problems = host.problems(&id);
        assert!(problems.iter().any(|problem| problem.message.contains(words)), "{source}: {problems:?}");
    }
}
