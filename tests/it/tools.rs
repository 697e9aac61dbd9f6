//! Tool scripts from the file to the model: saved, offered, called in the loop, and limited in time.

use crate::host::{TestHost, chat_body, streaming, until};
use crate::upstream::{MODEL, Reply};
use serde_json::{Value, json};
use valvehouse::json::Json;

/// A model of the demo provider that is offered every tool.
pub(crate) const HELPER: &str =
    "[[models]]\nname = \"helper\"\nprovider = \"demo\"\nmodel = \"demo\"\ntools = [\"*\"]\n";
/// The same model `busy` with the upstream as its provider.
const BUSY: &str = "[[models]]\nname = \"busy\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"*\"]\nmax_tool_iterations = 4\n";

const ECHO: &str = r#"/*
description: Says a text again.
*/
const parameters = #{ text: #{ type: "string", required: true } };
fn handler(args) { args.text }
"#;

pub(crate) const COUNTERS: &str = r#"
fn tools() {
    [
        #{ name: "count_apples", description: "Counts.", handler: Fn("count").curry("apples") },
        #{ name: "count_pears", description: "Counts.", handler: Fn("count").curry("pears") },
        #{ name: "count_plums", description: "Counts.", handler: |args, ctx| count("plums", args, ctx) },
    ]
}
fn count(what, args, ctx) {
    let n = ctx.get("counter", 0) + 1;
    ctx.set("counter", n);
    ok(`${what} ${n}`, ctx)
}
"#;

/// Returns a reply with tool calls, given as names and arguments.
fn calls(calls: &[(&str, &str)]) -> Reply {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(at, (name, arguments))| {
            json!({"id": format!("call_{at}"), "type": "function",
                   "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    Reply::json(&json!({"id": "c", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [
        {"index": 0, "finish_reason": "tool_calls",
         "message": {"role": "assistant", "content": "let me see", "tool_calls": calls}}]}))
}

/// Makes the upstream call these tools once, then reply "done".
pub(crate) fn calls_once(host: &TestHost, wanted: &'static [(&'static str, &'static str)]) {
    host.upstream.script(move |request| {
        let messages = request.json()["messages"].clone();
        let has_results = messages.as_array().is_some_and(|all| all.iter().any(|one| one["role"] == "tool"));
        if has_results { Reply::text("done") } else { calls(wanted) }
    });
}

/// Returns the tool results that the model received.
fn results(host: &TestHost) -> Vec<String> {
    let messages = host.upstream.last().json()["messages"].clone();
    let messages = messages.as_array().cloned().unwrap_or_default();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns the names of the offered script tools; `*` also offers the host's own tools.
fn offered(host: &TestHost) -> Vec<String> {
    let tools = host.upstream.last().json()["tools"].clone();
    let names = tools.as_array().into_iter().flatten().filter_map(|tool| tool["function"]["name"].as_str());
    let own = |name: &&str| !name.starts_with("todo_") && !name.starts_with("human_");
    names.filter(own).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_tool_file_is_offered_from_the_next_request_until_it_is_deleted() {
    let host = TestHost::new().config(BUSY).start().await;
    assert_eq!(host.chat(&chat_body("busy", "hi")).await.status, 200);
    assert!(offered(&host).is_empty());

    host.save_tool("echo", ECHO);
    host.stands("echo", "live").await;
    calls_once(&host, &[("echo", r#"{"text":"hello"}"#)]);
    let answer = host.chat(&chat_body("busy", "hi")).await;
    assert_eq!(
        (answer.text(), offered(&host), results(&host)),
        ("let me see\n\ndone".into(), vec!["echo".into()], vec!["hello".into()])
    );

    host.save_tool("echo", &ECHO.replace("{ args.text }", "{ args.text + \"!\" }"));
    until("the new version answers", || async {
        host.chat(&chat_body("busy", "hi")).await;
        results(&host) == ["hello!"]
    })
    .await;

    std::fs::remove_file(host.folder().join("tools/echo.rhai")).unwrap();
    host.stands("echo", "gone").await;
    host.chat(&chat_body("busy", "hi")).await;
    assert!(offered(&host).is_empty());
}

#[tokio::test]
async fn tools_of_several_rounds_share_the_context() {
    let log = r#"
        fn pre_invocation(ctx) { emit(#{ type: "called", data: ctx.tool.name }); }
        fn post_invocation(ctx) { emit(#{ type: "answered", data: ctx.result }); }
        fn outlet(body) { emit(#{ type: "counted", data: 3 }); }
    "#;
    let host = TestHost::new().config(HELPER).tool("counters", COUNTERS).filter("log", log).start().await;
    let question = "/count_apples\n/count_pears\n\n/count_plums";
    for body in [chat_body("helper", question), streaming("helper", question)] {
        let answer = host.chat(&body).await;
        let text = answer.text();
        for counted in ["apples 1", "pears 2", "plums 3"] {
            assert!(text.contains(counted), "{text}");
        }
    }
    let answer = host.chat(&chat_body("helper", question)).await;
    let events: Value = serde_json::from_str(answer.header("x-valvehouse-events").unwrap()).unwrap();
    let results: Vec<String> =
        events.as_array().unwrap().iter().map(|event| event["data"].to_string().replace('"', "")).collect();
    let expected = ["count_apples", "apples 1", "count_pears", "pears 2", "count_plums", "plums 3", "3"]
        .map(str::to_owned);
    assert_eq!(results, expected);
}

#[tokio::test]
async fn the_model_receives_a_tool_error_and_the_loop_continues() {
    let wrong = r#"
        fn tools() { [
            #{ name: "throws", handler: |args| { throw "out of paper" } },
            #{ name: "errs", handler: |args| error(#{ message: "no ink" }) },
            #{ name: "bug", handler: |args| args.x.y.z() },
            #{ name: "function", handler: |args| #{ f: |x| x } },
            #{ name: "not_a_number", handler: |args| 0.0 / 0.0 },
            #{ name: "deep", handler: |args| { let a = []; for i in 0..200 { a = [a]; } a } },
            #{ name: "large", handler: |args| { let a = []; let s = "x"; s.pad(90_000, "x"); for i in 0..30 { a.push(s); } a } },
        ] }
    "#;
    let host = TestHost::new().config(BUSY).tool("wrong", wrong).tool("echo", ECHO).start().await;
    let cases: &'static [(&str, &str, &str)] = &[
        ("throws", "{}", "out of paper"),
        ("errs", "{}", "no ink"),
        ("bug", "{}", "the tool `bug` failed"),
        ("function", "{}", "not valid JSON"),
        ("not_a_number", "{}", "not valid JSON"),
        ("deep", "{}", "nested"),
        ("large", "{}", "KB"),
        ("ehco", "{}", "did you mean `echo`?"),
        ("echo", "{\"text\":", "JSON"),
        ("echo", "[1]", "object"),
        ("echo", "{}", "`text` is required"),
    ];
    static WANTED: std::sync::OnceLock<Vec<(&str, &str)>> = std::sync::OnceLock::new();
    calls_once(&host, WANTED.get_or_init(|| cases.iter().map(|(name, args, _)| (*name, *args)).collect()));
    assert_eq!(host.chat(&chat_body("busy", "hi")).await.text(), "let me see\n\ndone");
    let results = results(&host);
    assert_eq!(results.len(), cases.len());
    for ((name, args, expected), result) in cases.iter().zip(results) {
        let error: Value = serde_json::from_str(&result).unwrap_or_else(|_| panic!("{name}: {result}"));
        let message = error["error"].as_str().unwrap_or_else(|| panic!("{name}: {result}"));
        assert!(message.contains(expected), "{name}({args}): {message}");
        assert!(!message.contains("wrong.rhai"), "no path for the model: {message}");
    }
}

#[tokio::test]
async fn a_fatal_error_or_the_round_limit_ends_the_turn_with_a_transcript() {
    let tool = r#"fn handler(args) { throw #{ message: "the vault is open", fatal: true, status: 423 } }"#;
    let host = TestHost::new().config(BUSY).tool("vault", tool).tool("echo", ECHO).start().await;
    host.upstream.reply(calls(&[("vault", "{}")]));
    let answer = host.chat(&chat_body("busy", "hi")).await;
    answer.refused(423, "the vault is open");

    host.upstream.reply(calls(&[("echo", r#"{"text":"again"}"#)]));
    let before = host.upstream.requests().len();
    let answer = host.chat(&chat_body("busy", "hi")).await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.error()["code"], "max_tool_iterations");
    assert_eq!(host.upstream.requests().len() - before, 4, "exactly as many model calls as allowed");
}

#[tokio::test]
async fn text_beside_calls_is_kept_and_results_follow_the_order_of_calls() {
    let host = TestHost::new().config(BUSY).tool("echo", ECHO).start().await;
    calls_once(
        &host,
        &[("echo", r#"{"text":"1"}"#), ("echo", r#"{"text":"2"}"#), ("echo", r#"{"text":"3"}"#)],
    );
    host.chat(&chat_body("busy", "hi")).await;
    let messages = host.upstream.last().json()["messages"].clone();
    assert_eq!(messages[1]["content"], "let me see");
    assert_eq!(results(&host), ["1", "2", "3"]);
    let ids: Vec<_> = (2..5).map(|at| messages[at]["tool_call_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["call_0", "call_1", "call_2"]);
}

#[tokio::test]
async fn tools_of_a_model_are_selected_by_name_module_tag_and_request() {
    let config = "[[models]]\nname = \"by_name\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"echo\"]\n\
        [[models]]\nname = \"by_module\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"counters\"]\n\
        [[models]]\nname = \"by_tag\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"tag:talk\", \"eccho\"]\n";
    let tagged = ECHO.replace("description", "tag: talk, noise\ndescription");
    let host = TestHost::new().config(config).tool("echo", &tagged).tool("counters", COUNTERS).start().await;
    let all = ["count_apples", "count_pears", "count_plums"].map(str::to_owned).to_vec();
    for (model, expected) in
        [("by_name", vec!["echo".to_owned()]), ("by_module", all), ("by_tag", vec!["echo".to_owned()])]
    {
        assert_eq!(host.chat(&chat_body(model, "hi")).await.status, 200);
        assert_eq!(offered(&host), expected, "{model}");
    }
    // The call is passed through, because the host has no tools.
    host.ask("hi").await;
    assert!(offered(&host).is_empty());
    // A request can narrow the list of tools and never widen it.
    for (ids, expected) in [(json!(["count_pears", "echo"]), vec!["count_pears"]), (json!([]), vec![])] {
        let mut body = chat_body("by_module", "hi");
        body["tool_ids"] = ids;
        host.chat(&body).await;
        assert_eq!(offered(&host), expected);
        assert!(host.upstream.last().json().get("tool_ids").is_none());
    }
    let problems: Vec<String> =
        host.snapshot().problems.iter().map(|problem| problem.message.clone()).collect();
    assert!(
        problems.iter().any(|what| what.contains("`eccho`") && what.contains("did you mean `echo`")),
        "{problems:?}"
    );
}

#[tokio::test]
async fn client_tools_pass_through_and_a_mixed_answer_calls_them_alone() {
    let host = TestHost::new().config(BUSY).tool("echo", ECHO).start().await;
    let own =
        json!([{"type": "function", "function": {"name": "open_door", "parameters": {"type": "object"}}}]);
    let mut body = chat_body("busy", "hi");
    body["tools"] = own;
    host.upstream.reply(calls(&[("open_door", r#"{"slowly":true}"#)]));
    let answer = host.chat(&body).await.json();
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "open_door");
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");

    calls_once(&host, &[("open_door", "{}"), ("echo", r#"{"text":"hello"}"#)]);
    assert_eq!(host.chat(&body).await.text(), "let me see\n\ndone");
    let results = results(&host);
    assert!(results[0].contains("runs at the client"), "{results:?}");
    assert_eq!(results[1], "hello");
}

#[tokio::test]
async fn a_tool_whose_own_filter_is_missing_is_not_offered() {
    let tool = r#"
        const tool = #{ filters: ["stamp"], metadata: #{ owner: "ann" } };
        fn handler(args) { "plain" }
    "#;
    let stamp = "/*\nglobal: false\n*/\nfn post_invocation(ctx) { ctx.result = `${ctx.result} by ${ctx.tool.metadata.owner}`; }";
    let host = TestHost::new()
        .config(BUSY)
        .tool("stamped", tool)
        .tool("echo", ECHO)
        .filter("stamp", stamp)
        .start()
        .await;
    calls_once(&host, &[("stamped", "{}"), ("echo", r#"{"text":"hello"}"#)]);
    host.chat(&chat_body("busy", "hi")).await;
    assert_eq!(results(&host), ["plain by ann", "hello"]);

    host.delete("stamp");
    host.stands("stamp", "gone").await;
    host.chat(&chat_body("busy", "hi")).await;
    assert_eq!(offered(&host), ["echo"]);
    let problems = host.problems("stamped");
    assert!(
        problems.iter().any(|problem| problem.message.contains("names the filter `stamp`")),
        "{problems:?}"
    );
}

#[tokio::test]
async fn a_tool_never_replaces_a_filter_with_its_name() {
    let guard = "/*\nsecurity: true\n*/\nfn inlet(body) { if body.messages[-1].content == \"bad\" { deny(\"no\", 403) } }";
    let host = TestHost::new().config(BUSY).filter("guard", guard).tool("echo", ECHO).start().await;
    host.save_tool("guard", ECHO);
    host.save_tool("other", ECHO);
    host.stands("other", "live").await;
    assert_eq!(host.chat(&chat_body("busy", "bad")).await.status, 403);
    let is_reported =
        host.snapshot().problems.iter().any(|problem| problem.message.contains("the id of a filter"));
    assert!(is_reported, "{:?}", host.snapshot().problems);
    // Neither does a file that cannot be read.
    std::fs::write(host.folder().join("tools/guard.rhai"), b"\xff\xfe").unwrap();
    host.save_tool("third", ECHO);
    host.stands("third", "live").await;
    host.delete("guard");
    until("the guard is missed", || async { host.chat(&chat_body("busy", "hi")).await.status == 503 }).await;
}

#[tokio::test]
async fn one_invalid_tool_does_not_block_its_module_and_duplicates_are_reported() {
    let module = r#"
        fn tool_info() { #{ description: "mixed", tags: ["mixed"] } }
        fn tools() { [
            #{ name: "good", handler: |args| "good" },
            #{ name: "no_handler" },
            #{ name: "bad name!", handler: |args| 1 },
            #{ name: "bad_type", handler: |args| 1, parameters: #{ n: #{ type: "strnig" } } },
            #{ name: "bad_default", handler: |args| 1, parameters: #{ n: #{ type: "integer", default: "x" } } },
            #{ name: "unknown", handler: Fn("nothing_here") },
            #{ name: "echo", tag: "own", handler: |args| "second" },
        ] }
    "#;
    let host = TestHost::new().config(BUSY).tool("echo", ECHO).tool("mixed", module).start().await;
    host.chat(&chat_body("busy", "hi")).await;
    assert_eq!(offered(&host), ["echo", "good"]);
    let messages = host.problems("mixed");
    let messages: Vec<&str> = messages.iter().map(|problem| problem.message.as_str()).collect();
    for expected in [
        "`no_handler` is left out",
        "bad name!",
        "strnig",
        "`bad_default`",
        "nothing_here",
        "two tools are called `echo`: this file is used",
    ] {
        assert!(messages.iter().any(|message| message.contains(expected)), "{expected}: {messages:#?}");
    }
    let other = host.problems("echo");
    assert!(other.iter().any(|problem| problem.message.contains("this file is not used")), "{other:?}");
    let tags = |name: &str| {
        let snapshot = host.snapshot();
        snapshot.tools.iter().find(|tool| tool.name() == name).unwrap().spec.tags.clone()
    };
    assert_eq!((tags("good"), tags("echo")), (vec!["mixed".to_owned()], vec!["own".to_owned()]));
}

#[tokio::test]
async fn valves_and_user_valves_reach_a_tool_and_its_schema() {
    let tool = r#"
        const Valves = #{ unit: "celsius" };
        const UserValves = #{ name: "friend" };
        fn tools() { [ #{
            name: "weather", description: `Temperature in ${Valves.unit}.`,
            parameters: #{ zone: #{ type: "string" }, city: #{ type: "string", required: true }, at: #{ type: "integer" } },
            handler: weather,
        } ] }
        fn weather(args, ctx, valves, __user__) { `${args.city}: 20 ${valves.unit} for ${__user__.valves.name}` }
    "#;
    let host = TestHost::new().config(BUSY).tool("weather", tool).start().await;
    calls_once(&host, &[("weather", r#"{"city":"Oslo"}"#)]);
    let mut body = chat_body("busy", "hi");
    body["user"] = json!("ann");
    host.set_valves("weather", Some("ann"), json!({"name": "Ann"})).await;
    host.set_valves("weather", None, json!({"unit": "kelvin"})).await;
    host.chat(&body).await;
    assert_eq!(results(&host), ["Oslo: 20 kelvin for Ann"]);
    let tools = host.upstream.last().json()["tools"].clone();
    let mut tools = tools.as_array().unwrap().iter().map(|tool| &tool["function"]);
    let function = tools.find(|function| function["name"] == "weather").unwrap();
    assert_eq!(function["description"], "Temperature in kelvin.");
    let text = host.upstream.last().text();
    let at =
        |key: &str| text.find(&format!("\"{key}\":{{\"type\"")).unwrap_or_else(|| panic!("{key}: {text}"));
    assert!(at("zone") < at("city") && at("city") < at("at"), "declared order: {text}");
}

#[tokio::test]
async fn an_endless_tool_ends_at_its_timeout_and_is_retried_as_declared() {
    let slow = "/*\ntimeout: 50\n*/\nfn handler(args) { loop {} }";
    let shaky = "/*\nrequirements: kv\nretry: 3, 10\n*/\nfn handler(args) { let n = kv::incr(\"tries\"); if n < 3 { throw `try ${n}` } `done after ${n}` }";
    let host = TestHost::new().config(BUSY).tool("slow", slow).tool("shaky", shaky).start().await;
    calls_once(&host, &[("slow", "{}"), ("shaky", "{}")]);
    host.chat(&chat_body("busy", "hi")).await;
    let results = results(&host);
    assert!(results[0].contains("did not end within 50 ms"), "{results:?}");
    assert_eq!(results[1], "done after 3");
}

#[tokio::test]
async fn the_memory_of_a_tool_is_bounded() {
    let hungry = r#"
        fn tools() { [
            #{ name: "closures", handler: |args| { let cur = || 0; loop { let p = cur; cur = || p; } } },
            #{ name: "captured", handler: |args| { let f = |x| x; loop { f = f.curry("x".repeat(100_000)); } } },
            #{ name: "map", handler: |args| { let m = #{}; let s = ""; s.pad(100_000, "x"); for i in 0..1_000_000 { m[`${i}`] = s + i; } } },
            #{ name: "live", handler: |args| { let s = ""; s.pad(100_000, "x"); args.all = []; loop { args.all.push(s + args.all.len()); } } },
        ] }
    "#;
    let host = TestHost::new().config(BUSY).tool("hungry", hungry).tool("echo", ECHO).start().await;
    calls_once(
        &host,
        &[
            ("closures", "{}"),
            ("captured", "{}"),
            ("map", "{}"),
            ("live", "{}"),
            ("echo", r#"{"text":"fine"}"#),
        ],
    );
    assert_eq!(host.chat(&chat_body("busy", "hi")).await.text(), "let me see\n\ndone");
    let results = results(&host);
    assert!(results[..4].iter().all(|result| result.starts_with("{\"error\"")), "{results:?}");
    assert!(results[0].contains("exceeded its memory limit of 64 MB"), "{results:?}");
    assert_eq!(results[4], "fine");
}

#[tokio::test]
async fn a_script_is_held_back_until_its_requirements_are_granted() {
    let wants = "/*\nrequirements: files\n*/\nfn handler(args) { files::read(\"list.txt\") }";
    let host =
        TestHost::new().config(BUSY).tool("lists", "fn handler(args) { \"nothing yet\" }").start().await;
    std::fs::create_dir(host.folder().join("data")).unwrap();
    std::fs::write(host.folder().join("data/list.txt"), "milk").unwrap();
    calls_once(&host, &[("lists", "{}")]);
    host.save_tool("lists", wants);
    host.stands("lists", "stale").await;
    let problems = host.problems("lists");
    let help = problems[0].help.clone().unwrap();
    assert!(problems[0].message.contains("not allowed to use `files`"), "{problems:?}");
    assert!(help.contains("valvehouse grant lists files=FOLDER"), "{help}");
    host.chat(&chat_body("busy", "hi")).await;
    assert_eq!(results(&host), ["nothing yet"], "the last good version runs on");

    let granted = Json::parse(br#"{"files": ["data"]}"#).unwrap();
    let stored = host.store().set_grants("lists", Some(&granted), None, "test").await.unwrap().unwrap();
    host.obeys(stored).await;
    host.stands("lists", "live").await;
    host.chat(&chat_body("busy", "hi")).await;
    assert_eq!(results(&host), ["milk"]);

    let stored = host.store().set_grants("lists", None, None, "test").await.unwrap().unwrap();
    host.obeys(stored).await;
    host.chat(&chat_body("busy", "hi")).await;
    let results = results(&host);
    assert!(!results.contains(&"milk".to_owned()), "taken back is taken back: {results:?}");
}

#[tokio::test]
async fn a_native_tool_is_offered_while_it_is_granted() {
    let host = TestHost::new().config(BUSY.replace("\"*\"", "\"file_read\"").as_str()).start().await;
    std::fs::write(host.folder().join("note.txt"), "first\nsecond\n").unwrap();
    let problem = &host.snapshot().problems[0];
    assert!(problem.message.contains("`file_read`, which is not granted"), "{problem}");
    assert!(problem.help.as_ref().unwrap().contains("valvehouse grant file_read files=FOLDER"), "{problem}");
    let granted = Json::parse(br#"{"files": ["."]}"#).unwrap();
    let stored = host.store().set_grants("file_read", Some(&granted), None, "test").await.unwrap().unwrap();
    host.obeys(stored).await;
    calls_once(
        &host,
        &[("file_read", r#"{"path":"note.txt","first_line":2}"#), ("file_read", r#"{"path":"../x"}"#)],
    );
    assert_eq!(host.chat(&chat_body("busy", "hi")).await.text(), "let me see\n\ndone");
    let results = results(&host);
    assert!(results[0].contains("second") && !results[0].contains("first\\n"), "{results:?}");
    assert!(results[1].contains("error"), "{results:?}");
}

#[tokio::test]
async fn a_script_calls_a_model_through_all_filters_except_itself() {
    let ask = r#"/*
requirements: llm
*/
fn outlet(body) {
    let other = llm::chat(#{ model: "demo", messages: [#{ role: "user", content: "translate this" }] });
    body.messages[-1].content += ` [${other.content}]`;
}"#;
    let mark = "fn inlet(body) { body.messages[-1].content += \" (marked)\"; }";
    let tool = r#"/*
requirements: llm
*/
fn handler(args) { llm::chat(#{ messages: [#{ role: "user", content: "deeper" }] }).content }"#;
    let host = TestHost::new()
        .config(BUSY)
        .filter("ask", ask)
        .filter("mark", mark)
        .tool("deeper", tool)
        .start()
        .await;
    let text = host.ask("hi").await.text();
    assert!(text.contains("translate this (marked)"), "{text}");
    assert_eq!(text.matches("translate this").count(), 1, "its own outlet does not run within: {text}");
    // A model request inside a tool does not offer that tool.
    calls_once(&host, &[("deeper", "{}")]);
    host.chat(&chat_body("busy", "hi")).await;
    assert!(host.upstream.requests().iter().any(|request| request.last_text().starts_with("deeper")));
}
