//! Progress and questions of a mounted server, and the answers to it, in a turn with guards.

use super::mounts::{offered, until};
use crate::host::{TIMEOUT, TestHost};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use valvehouse::context::{EmittedEvent, Events, Questions, Turn, TurnFacts};
use valvehouse::json::Json;

/// Reports its progress, and asks for a word.
const ASKS: &str = r#"/*
description: Asks for a word.
*/
fn handler(args) {
    emit(#{ type: "status", data: #{ description: "plain step" } });
    emit(#{ type: "status", data: #{ description: "step SECRETOUT" } });
    let schema = #{ type: "object", properties: #{ word: #{ type: "string", title: "SECRETOUT title" } } };
    let answer = ask(#{ type: "elicitation", data: #{ message: "SECRETOUT?", requestedSchema: schema } });
    `got ${answer.content.word}`
}
"#;

const INVOCATIONS: &str = r#"
fn pre_invocation(ctx) { if json::stringify(ctx.args).contains("BADWORD") { deny("walled", 403); } }
fn post_invocation(ctx) {
    ctx.result = json::parse(text::replace(json::stringify(ctx.result), "SECRETOUT", "[x]"));
}
"#;
const STREAM: &str = r#"fn stream(event, state) { stream::window(event, state, 60, |t| text::replace(t, "SECRETOUT", "[x]")); }"#;
const OUTLET: &str = "fn outlet(body) { }";

/// Calls the tool for a client that answers with a word. Returns the events, as texts, and the result.
async fn called(host: &TestHost, word: &'static str) -> (String, Result<String, String>) {
    let (questions, seen) = (Questions::default(), Arc::new(Mutex::new(String::new())));
    let (board, log) = (questions.clone(), seen.clone());
    let listener = move |event: &EmittedEvent| {
        log.lock().unwrap().push_str(&event.0.to_string());
        let Some(id) = event.0.text("id").filter(|_| event.0.is_text("type", "elicitation")) else { return };
        let board = board.clone();
        tokio::spawn(async move {
            let answer = json!({ "action": "accept", "content": { "word": word } });
            while !board.answer(&id, Json::from(answer.clone())) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    };
    let turn =
        Turn::new(TurnFacts::default(), Default::default(), Events::listening(listener, Some(questions)));
    let result = host.snapshot().invoking().invoke_in("far_asks", Json::object(), &turn).await;
    let result = result.map(|invoked| invoked.value.to_string()).map_err(|error| error.to_string());
    (std::mem::take(&mut *seen.lock().unwrap()), result)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_judge_the_progress_and_the_questions_of_a_server_and_the_answers_to_it() {
    let far = TestHost::new().tool("asks", ASKS).start().await;
    let mount = format!(
        "[[mcp]]\nname = \"far\"\nurl = \"{}\"\ntrust = \"always\"\ntools = [\"asks\"]\n",
        far.url("/mcp")
    );
    for (guard, passes) in
        [(None, true), (Some(INVOCATIONS), true), (Some(STREAM), true), (Some(OUTLET), false)]
    {
        let mut setup = TestHost::new().config(&mount);
        if let Some(guard) = guard {
            setup = setup.filter("guard", format!("/*\nsecurity: true\n*/\n{guard}"));
        }
        let host = setup.start().await;
        until("its tool is offered", || offered(&host) == ["far_asks"]).await;
        let end = Instant::now() + TIMEOUT;
        // A message of progress is lost if the call ends before it is read.
        let (events, result) = loop {
            let (events, result) = called(&host, "tea").await;
            let is_away = result.as_ref().is_err_and(|why| why.contains("not available"));
            let is_seen = !passes || (events.contains("plain step") && events.contains("elicitation"));
            if !is_away && is_seen {
                break (events, result);
            }
            assert!(Instant::now() < end, "{guard:?}: {events} {result:?}");
        };
        assert_eq!(events.contains("SECRETOUT"), guard.is_none(), "{guard:?}: {events}");
        match passes {
            true => assert_eq!(result.as_deref(), Ok("\"got tea\""), "{guard:?}"),
            false => {
                let why = result.unwrap_err();
                assert!(why.contains("the guard `guard` cannot judge it"), "{why}");
                assert!(!events.contains("plain step"), "{events}");
            }
        }
        if guard == Some(INVOCATIONS) {
            let why = called(&host, "BADWORD").await.1.unwrap_err();
            assert!(why.contains("walled"), "{why}");
        }
    }
}
