//! Tools that wait: for a slow service, forever, or for a person. They block no other work, end with their
//! time limit, and end when their client disconnects.

use crate::host::{TestHost, chat_body};
use crate::upstream::{Gate, Reply, Upstream};
use futures::future::join_all;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use valvehouse::context::{Context, EmittedEvent, Events, Questions, Turn, TurnFacts};
use valvehouse::filter::{Chain, ChainOutcome, Hook};
use valvehouse::json::Json;
use valvehouse::script::{Kind, Script, Settings, SourceFile};

const HELPER: &str =
    "[[models]]\nname = \"helper\"\nprovider = \"demo\"\nmodel = \"demo\"\ntools = [\"look\"]\n";

/// Returns a tool that sends a request to a service, and its grant.
fn looks(service: &Upstream, timeout_ms: u64) -> (String, String) {
    let url = service.url();
    let host = url.trim_start_matches("http://").trim_end_matches("/v1");
    let tool = format!(
        "/*\nrequirements: http\ntimeout: {timeout_ms}\n*/\nfn handler(args) {{ http::get(\"{url}/x\", #{{ timeout: 60_000 }}).text }}"
    );
    (tool, format!("{HELPER}[grants.look]\nhttp = [\"{host}\"]\n"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_waiting_turns_do_not_block_another_request() {
    let service = Upstream::start().await;
    let gate = Gate::closed();
    service.reply(Reply::raw("text/plain", "seen").behind(&gate));
    let (tool, config) = looks(&service, 60_000);
    let host = TestHost::new()
        .config(&config)
        .tool("look", tool)
        .filter("idle", "fn inlet(body) { body }")
        .start()
        .await;
    let look = chat_body("helper", "/look");
    let turns = join_all((0..64).map(|_| host.chat(&look)));
    let meanwhile = async {
        // All requests are in progress before the first response.
        service.wait_for_requests(64).await;
        assert_eq!(host.chat(&chat_body("demo", "hello")).await.status, 200);
        gate.open();
    };
    let (answers, ()) = tokio::join!(turns, meanwhile);
    for answer in answers {
        assert!(answer.text().contains("look answered: seen"), "{}", answer.body());
    }
}

/// Returns the number of threads of this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_open_questions_use_few_threads() {
    let source = "fn inlet(body) { body.answer = ask(#{ type: \"input\", timeout: 300_000 }); body }";
    let file = SourceFile::new(Kind::Filter, "asks", "filters/asks.rhai", source);
    let script = Script::compile(&file, &Settings::default()).unwrap();
    let chain = Chain::new(vec![Arc::new(script).into_filter(Arc::default())]);
    let questions = Questions::default();
    let (tell, mut question_ids) = tokio::sync::mpsc::unbounded_channel();
    let before = threads();
    let turns: Vec<_> = (0..2_000)
        .map(|_| {
            let (chain, tell) = (chain.clone(), tell.clone());
            let listener =
                move |event: &EmittedEvent| drop(tell.send(event.0.text("id").unwrap().to_string()));
            let events = Events::listening(listener, Some(questions.clone()));
            let turn = Turn::new(TurnFacts::default(), Context::default(), events);
            let body = Json::parse(br#"{"messages":[]}"#).unwrap();
            tokio::spawn(async move { chain.run(Hook::Inlet, body, &turn).await })
        })
        .collect();
    let mut open = Vec::new();
    while open.len() < turns.len() {
        open.push(question_ids.recv().await.unwrap());
    }
    // Other tests run in parallel; the number must only be far below one thread each.
    assert!(threads() < before + 200, "{} threads, {before} before", threads());
    for id in &open {
        assert!(questions.answer(id, Json::from(id.as_str())));
    }
    for turn in turns {
        let ChainOutcome::Done(body) = turn.await.unwrap().unwrap() else { panic!("it was skipped") };
        assert!(body.text("answer").is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_waits_too_long_ends_with_its_request() {
    let service = Upstream::start().await;
    service.reply(Reply::raw("text/plain", "late").behind(&Gate::closed()));
    // Long enough for a slow machine to reach the call.
    let (tool, config) = looks(&service, 1_500);
    let host = TestHost::new().config(&config).tool("look", tool).start().await;
    let answer = host.chat(&chat_body("helper", "/look")).await;
    assert!(answer.text().contains("did not end within 1500 ms"), "{}", answer.body());
    service.was_deserted(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_client_ends_the_waiting_tool() {
    let service = Upstream::start().await;
    service.reply(Reply::raw("text/plain", "late").behind(&Gate::closed()));
    let (tool, config) = looks(&service, 60_000);
    let host = TestHost::new().config(&config).tool("look", tool).start().await;
    let asking = host.posting(chat_body("helper", "/look").to_string()).send();
    tokio::select! {
        answer = asking => panic!("answered: {answer:?}"),
        () = service.wait_for_requests(1) => {}
    }
    service.was_deserted(1).await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_outlives_its_tool_is_killed_with_all_its_children() {
    // The unusual duration identifies these sleeps among all processes.
    let script = r#"/*
requirements: shell
timeout: 50
*/
fn handler(args) { shell::run("sleep 61.7 & setsid sleep 61.7 & (sleep 61.7 &) ; wait; sleep 61.7") }"#;
    let config = format!("{HELPER}[grants.look]\nshell = [\"sh\"]\n");
    let host = TestHost::new().config(&config).tool("look", script).start().await;
    let answer = host.chat(&chat_body("helper", "/look")).await;
    assert!(answer.text().contains("did not end within 50 ms"), "{}", answer.body());
    crate::host::until("no sleep is left", || async { sleeping("61.7") == 0 }).await;
}

#[cfg(target_os = "linux")]
fn sleeping(length: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines
        .filter(|line| line.starts_with(b"sleep\0") && line.ends_with(format!("{length}\0").as_bytes()))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_asks_a_person_over_the_stream_and_uses_the_answer() {
    let tool = r#"fn handler(args) { let answer = ask(#{ type: "input", data: #{ title: "Which city?" } }); `you answered ${answer}` }"#;
    let host = TestHost::new().config(HELPER).tool("look", tool).start().await;
    let mut body = chat_body("helper", "/look");
    body["stream"] = true.into();
    let request = host.posting(body.to_string()).header("x-valvehouse-events", "1");
    let mut response = request.send().await.unwrap();
    let mut text = String::new();
    let mut answered = false;
    while let Some(bytes) =
        tokio::time::timeout(Duration::from_secs(20), response.chunk()).await.unwrap().unwrap()
    {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
        let question = text.lines().filter_map(|line| line.strip_prefix("data: ")).find_map(|data| {
            let event: Value = serde_json::from_str(data).ok()?;
            event["event"]["id"].as_str().map(str::to_owned)
        });
        if let Some(id) = question.filter(|_| !answered) {
            answered = true;
            let answer = host.request("POST", &format!("/api/v1/questions/{id}")).body("\"Oslo\"");
            assert!(answer.send().await.unwrap().status().is_success());
        }
    }
    let words: String = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert!(words.contains("you answered Oslo"), "{text}");
}
