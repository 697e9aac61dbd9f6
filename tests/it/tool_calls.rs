//! Scripts that call tools: through the filters of their turn, within their grants, and with limits.

use crate::host::{Answer, Setup, TestHost, chat_body};
use crate::tools::HELPER;
use crate::traces::{steps, trace_of};
use crate::upstream::{MODEL, Reply};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const WEATHER: &str = r#"/*
description: The weather of a city.
tag: outside
*/
const parameters = #{ city: #{ type: "string", required: true } };
fn handler(args, ctx) {
    if args.city == "Atlantis" { return error("no such city"); }
    ctx.set("calls", ctx.get("calls", 0) + 1);
    #{ city: args.city, sun: true }
}
"#;

/// Returns a tool that runs this code and returns the error that it throws.
fn calling(code: &str) -> String {
    format!(
        "/*\ndescription: Calls others.\nrequirements: tools\n*/\nfn calls(ctx) {{ {code} }}\nfn handler(args, ctx) {{\n    try {{ return calls(ctx); }} catch (e) {{ return e.message; }}\n}}\n"
    )
}

/// Returns the result of a tool that the demo model calls.
async fn result(host: &TestHost, tool: &str) -> String {
    let answer = host.chat(&chat_body("helper", &format!("/{tool}"))).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    let text = answer.text();
    text.strip_prefix(&format!("{tool} answered: ")).unwrap_or(&text).to_owned()
}

#[tokio::test]
async fn a_tool_calls_another_tool_and_reads_its_result_or_error() {
    let host = TestHost::new()
        .config(HELPER)
        .tool("weather", WEATHER)
        .tool("trip", calling(r#"let rome = tools::call("weather", #{ city: "Rome" }); `${rome.city} ${rome.sun} ${ctx.get("calls")}`"#))
        .tool("fails", calling(r#"tools::call("weather", #{ city: "Atlantis" })"#))
        .tool("misfit", calling(r#"tools::call("weather", #{ city: 5.5, more: 1 }); tools::call("weather")"#))
        .tool("unknown", calling(r#"tools::call("wether", #{})"#))
        .tool("list", calling(r#"let all = tools::list(); `${all.map(|one| one.name).contains("weather")} ${all.filter(|one| one.name == "weather")[0].parameters.required}`"#))
        .start()
        .await;
    assert_eq!(result(&host, "trip").await, "Rome true 1");
    assert_eq!(result(&host, "fails").await, "tools::call: weather: no such city");
    let misfit = result(&host, "misfit").await;
    assert!(
        misfit.starts_with("tools::call: weather: cannot run weather:") && misfit.contains("city"),
        "{misfit}"
    );
    let unknown = result(&host, "unknown").await;
    assert!(unknown.contains("unknown tool `wether`; did you mean `weather`?"), "{unknown}");
    assert_eq!(result(&host, "list").await, r#"true ["city"]"#);
    let answer = host.chat(&chat_body("helper", "/trip")).await;
    let steps = steps(&trace_of(&host, &answer).await);
    assert!(steps.iter().any(|step| step.contains("weather")), "{steps:?}");
}

/// A guard that refuses calls for one city and changes results.
const GUARD: &str = r#"/*
security: true
*/
fn pre_invocation(ctx) {
    if ctx.tool.name == "weather" {
        if ctx.args.city == "Rome" { return error("Rome is closed"); }
        ctx.args.city = `${ctx.args.city} (${ctx.caller})`;
    }
    ctx
}
fn post_invocation(ctx) {
    if ctx.tool.name == "weather" { ctx.result = `seen ${ctx.result.city}`; }
    ctx
}
"#;

#[tokio::test]
async fn calls_of_a_script_pass_all_filters_and_stop_at_a_broken_guard() {
    let inlet = r#"/*
requirements: tools
*/
fn inlet(body) {
    if body.messages[-1].content == "look" {
        body.messages[-1].content = `it is ${tools::call("weather", #{ city: "Kiel" })}`;
    }
}
"#;
    let pipe = r#"/*
requirements: tools
*/
fn pipe(body) { tools::call("weather", #{ city: "Bonn" }) }
"#;
    let models = format!(
        "{HELPER}[[models]]\nname = \"asks\"\nprovider = \"pipes\"\nmodel = \"pipe\"\ntools = [\"weather\"]\n"
    );
    let host = TestHost::new()
        .config(&models)
        .filter("guard", GUARD)
        .filter("inlet", inlet)
        .filter("pipe", pipe)
        .tool("weather", WEATHER)
        .tool("rome", calling(r#"tools::call("weather", #{ city: "Rome" })"#))
        .tool("oslo", calling(r#"tools::call("weather", #{ city: "Oslo" })"#))
        .tool("both", calling(r#"let all = tools::all([#{ name: "weather", args: #{ city: "Rome" } }, #{ name: "weather", args: #{ city: "Oslo" } }], #{ settle: true }); all[0].error + "; " + all[1].value"#))
        .start()
        .await;
    assert_eq!(result(&host, "rome").await, "tools::call: weather: Rome is closed");
    assert_eq!(result(&host, "oslo").await, "seen Oslo (oslo)");
    assert_eq!(result(&host, "both").await, "tools::all: weather: Rome is closed; seen Oslo (both)");
    let answer = host.chat(&chat_body("helper", "look")).await;
    assert!(answer.text().contains("it is seen Kiel (inlet)"), "{}", answer.body());
    assert_eq!(host.chat(&chat_body("asks", "hello")).await.text(), "seen Bonn (pipe)");
    let broken = GUARD.replace("ctx.tool.name == \"weather\"", "ctx.tool.nme.x == \"weather\"");
    host.update("guard", &broken).await;
    let answer = host.chat(&chat_body("helper", "look")).await;
    assert_eq!(answer.status, 500, "{}", answer.body());
}

#[tokio::test]
async fn calling_a_tool_that_the_turn_does_not_offer_requires_a_grant() {
    let models = "[[models]]\nname = \"helper\"\nprovider = \"demo\"\nmodel = \"demo\"\ntools = [\"oslo\", \"names\"]\n";
    let setup = |grant: &str| {
        TestHost::new()
            .config(&format!("{models}{grant}"))
            .filter("guard", GUARD)
            .tool("weather", WEATHER)
            .tool("other", "fn handler(args) { 1 }")
            .tool("oslo", calling(r#"tools::call("weather", #{ city: "Oslo" })"#))
            .tool("names", calling(r#"text::join(tools::list().map(|tool| tool.name), " ")"#))
    };
    let host = setup("").start().await;
    let refused = result(&host, "oslo").await;
    assert!(
        refused.contains("unknown tool `weather`") && refused.contains("valvehouse grant oslo tools=weather"),
        "{refused}"
    );
    assert_eq!(result(&host, "names").await, "names oslo");
    for granted in ["[\"weather\"]", "[\"tag:outside\"]", "true"] {
        let host = setup(&format!("[grants.oslo]\ntools = {granted}\n[grants.names]\ntools = {granted}\n"))
            .start()
            .await;
        assert_eq!(result(&host, "oslo").await, "seen Oslo (oslo)", "{granted}");
        let names = result(&host, "names").await;
        assert!(names.contains(" weather"), "{names}");
        assert_eq!(names.contains(" other"), granted == "true", "{names}");
    }
    let host = setup("[grants.oslo]\ntools = [\"other\"]\n").start().await;
    assert!(result(&host, "oslo").await.contains("unknown tool `weather`"));
}

#[tokio::test]
async fn a_script_that_calls_tools_without_declaring_them_is_reported() {
    let host = TestHost::new()
        .config(HELPER)
        .tool("trip", "fn handler(args) { tools::call(\"weather\") }")
        .start()
        .await;
    let problems = host.problems("trip");
    assert!(
        problems[0].message.contains("`tools` is used but not declared in `requirements`"),
        "{problems:?}"
    );
}

#[tokio::test]
async fn recursive_or_excessive_tool_calls_end_with_an_error_that_names_them() {
    let host = TestHost::new()
        .config(HELPER)
        .tool("ping", "/*\nrequirements: tools\n*/\nfn handler(args) { tools::call(\"pong\") }")
        .tool("pong", "/*\nrequirements: tools\n*/\nfn handler(args) { tools::call(\"ping\") }")
        .tool("start", calling("tools::call(\"ping\")"))
        .tool("one", "fn handler(args) { 1 }")
        .tool("many", calling(r#"let n = 0; try { loop { n += tools::call("one"); } } catch (e) { return `${n}: ${e.message}`; }"#))
        .tool("fans", "/*\nrequirements: tools\ntimeout: 60000\n*/\nfn handler(args) { let all = []; for i in 0..64 { all.push(#{ name: \"fans\" }); } tools::all(all, #{ limit: 64, settle: true }).len() }")
        .start()
        .await;
    let ended = result(&host, "start").await;
    assert!(ended.contains("nested more than 4 deep (ping -> pong -> ping -> pong -> ping)"), "{ended}");
    let ended = result(&host, "many").await;
    assert!(
        ended.starts_with("256: ") && ended.contains("the scripts of one request may call at most 256 tools"),
        "{ended}"
    );
    assert_eq!(result(&host, "fans").await, "64");
    assert_eq!(result(&host, "one").await, "1", "nothing is left behind");
}

fn clerk(more: &str) -> Setup {
    TestHost::new().config(&format!(
        "[[models]]\nname = \"clerk\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true\ntools = [\"*\"]\n{more}"
    ))
}

/// Starts a service that counts its requests.
async fn counting() -> (String, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let pay = move |body: String| {
        counted.fetch_add(1, SeqCst);
        async move { format!("paid {body}") }
    };
    let router = axum::Router::new().route("/pay", axum::routing::post(pay));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, count)
}

async fn send(host: &TestHost, path: &str, body: Value) -> Value {
    let answer = Answer::of(host.request("POST", path).body(body.to_string())).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    answer.json()
}

#[tokio::test]
async fn script_tool_calls_need_approval_and_earlier_effects_run_once() {
    let (address, posts) = counting().await;
    let config = format!(
        "middleware = {{ human_approval = {{ mode = \"selective\", tools = [\"pay\"] }}, call_limit = {{ max_tool_calls = 6 }} }}\n\
         [grants.pay]\nhttp = [\"{address}\"]\n[grants.look]\nhttp = [\"{address}\"]\n"
    );
    let pay = format!(
        "/*\nrequirements: http\n*/\nconst parameters = #{{ sum: #{{ type: \"integer\" }} }};\nfn handler(args) {{ http::post(\"http://{address}/pay\", #{{ body: `${{args.sum}}` }}).text }}"
    );
    let look = format!(
        "/*\nrequirements: http\n*/\nfn handler(args) {{ http::post(\"http://{address}/pay\", #{{ body: \"look\" }}).text }}"
    );
    let order = r#"/*
requirements: tools
timeout: 60000
*/
fn handler(args) {
    let seen = tools::call("look");
    let both = tools::all([#{ name: "pay", args: #{ sum: 1 } }, #{ name: "look" }, #{ name: "pay", args: #{ sum: 1 } }]);
    seen + ", " + text::join(both, ", ") + ", " + tools::call("pay", #{ sum: 1 })
}
"#;
    let mut host = clerk(&config).tool("pay", pay).tool("look", look).tool("order", order).start().await;
    host.upstream.script(|request| {
        let body = request.json();
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        let message = match last["role"].as_str() {
            Some("user") => json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_1",
                "type": "function", "function": {"name": "order", "arguments": "{}"}}]}),
            _ => json!({"role": "assistant", "content": last["content"]}),
        };
        let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
        Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}]}))
    });
    let body = json!({"input": "order", "chat_id": "c", "user": "ann"});
    let mut run = send(&host, "/api/v1/agents/clerk/runs", body).await;
    // Each of the three calls asks a separate question with the same text.
    for round in 0..3 {
        assert_eq!(run["status"], "paused", "{round}: {run}");
        let pending = &run["pending_action"];
        assert_eq!(
            (&pending["question"]["data"]["tool"], &pending["call"]),
            (&json!("pay"), &Value::Null),
            "{run}"
        );
        if round == 1 {
            host.restart().await;
        }
        let path = format!("/api/v1/agents/runs/{}/resume", run["run_id"].as_str().unwrap());
        let changed = json!({"decision": "approve", "arguments": {"sum": 9}});
        let refused = Answer::of(host.request("POST", &path).body(changed.to_string())).await;
        assert_eq!(refused.status, 409, "{}", refused.body());
        run = send(&host, &path, json!({"decision": "approve"})).await;
    }
    assert_eq!(run["answer"], "paid look, paid 1, paid look, paid 1, paid 1", "{run}");
    assert_eq!(posts.load(SeqCst), 5, "each ran once");
}

#[tokio::test]
async fn a_call_without_timely_approval_does_not_run() {
    let models = HELPER.trim_end().to_owned()
        + "\nmiddleware = { human_approval = { mode = \"selective\", tools = [\"weather\"], timeout_ms = 100 } }\n";
    let host = TestHost::new()
        .config(&models)
        .tool("weather", WEATHER)
        .tool("oslo", calling(r#"tools::call("weather", #{ city: "Oslo" })"#))
        .start()
        .await;
    let answer = result(&host, "oslo").await;
    assert!(answer.contains("rejected") && answer.contains("no answer within 100 ms"), "{answer}");
}

#[tokio::test]
async fn a_tool_reads_the_conversation_without_a_schema_parameter() {
    let recap = r#"/*
description: Recalls.
*/
const parameters = #{ words: #{ type: "integer", "default": 2 } };
fn handler(args, __messages__, __user__) {
    let last = __messages__.last("user");
    last.content += " (mine)";
    `${__messages__.len()} ${args.words} ${__messages__.last("user").text}`
}
"#;
    let models = "[[models]]\nname = \"clerk\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"*\"]\n";
    let host = TestHost::new().config(models).tool("recap", recap).start().await;
    host.upstream.script(|request| {
        let body = request.json();
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        let message = match last["role"].as_str() {
            Some("user") => json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_1",
                "type": "function", "function": {"name": "recap", "arguments": "{}"}}]}),
            _ => json!({"role": "assistant", "content": last["content"]}),
        };
        let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
        Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}]}))
    });
    let body = json!({"model": "clerk", "messages": [{"role": "system", "content": "s"},
        {"role": "user", "content": "what was it?"}]});
    assert_eq!(host.chat(&body).await.text(), "2 2 what was it? (mine)");
    let request = host.upstream.last().json();
    assert_eq!(request["messages"][1]["content"], "what was it?", "the tool has a copy");
    let tools = request["tools"].as_array().unwrap();
    let recap = tools.iter().find(|tool| tool["function"]["name"] == "recap").unwrap();
    let parameters = &recap["function"]["parameters"]["properties"];
    assert_eq!(parameters.as_object().unwrap().keys().collect::<Vec<_>>(), ["words"]);
    let (kernel, context) = (host.snapshot().invoking(), valvehouse::context::Context::default());
    let invoked = kernel.invoke("recap", valvehouse::json::Json::object(), &context).await;
    assert!(invoked.is_err(), "no conversation has no last message");
}

#[tokio::test]
async fn a_pipe_calls_its_tools_and_misplaced_parameters_are_reported() {
    let pipe = r#"/*
requirements: tools
*/
fn pipe(body, __tools__) {
    let weather = __tools__["weather"];
    let seen = weather.callable.call(#{ city: "Oslo" });
    `${__tools__.keys()} ${weather.spec.name} ${weather.spec.parameters.required} ${seen}`
}
"#;
    let models =
        "[[models]]\nname = \"asks\"\nprovider = \"pipes\"\nmodel = \"pipe\"\ntools = [\"weather\"]\n";
    let host = TestHost::new()
        .config(models)
        .filter("guard", GUARD)
        .filter("pipe", pipe)
        .filter("undeclared", "fn pipe(body, __tools__) { \"x\" }")
        .filter("inlets", "fn inlet(body, __tools__, __messages__) { body }")
        .tool("weather", WEATHER)
        .tool("other", "fn handler(args, __tools__) { 1 }")
        .start()
        .await;
    let answer = host.chat(&chat_body("asks", "hello")).await;
    assert_eq!(answer.text(), r#"["weather"] weather ["city"] seen Oslo (pipe)"#, "{}", answer.body());
    let problem_text = |id: &str| host.problems(id).iter().map(ToString::to_string).collect::<String>();
    assert!(
        problem_text("undeclared")
            .contains("the parameter `__tools__` is used, but `tools` is not declared in `requirements`"),
        "{}",
        problem_text("undeclared")
    );
    assert!(
        problem_text("inlets").contains("only pipes have the parameter `__tools__`"),
        "{}",
        problem_text("inlets")
    );
    assert!(
        problem_text("other").contains("only pipes have the parameter `__tools__`"),
        "{}",
        problem_text("other")
    );
    assert!(problem_text("pipe").is_empty(), "{}", problem_text("pipe"));
}
