//! Decisions for one request, one call or one model: the filters that run, the variables, the delay of a stream, and
//! the calls in the trace.

use crate::cli::Project;
use crate::host::{TestHost, chat_body, streaming};
use crate::upstream::{MODEL, Reply, UpstreamRequest};
use serde_json::json;

const FOOTER: &str = "fn outlet(body) { body.messages[-1].text += \" [footer]\"; body }";
const GUARD: &str =
    "/*\nsecurity: true\n*/\nfn outlet(body) { body.messages[-1].text += \" [guarded]\"; body }";

fn model(name: &str, more: &str) -> String {
    format!("[[models]]\nname = \"{name}\"\nprovider = \"mock\"\nmodel = \"{MODEL}\"\n{more}\n")
}

#[tokio::test]
async fn a_model_leaves_out_a_global_filter_but_never_a_guard() {
    let config = [model("all", ""), model("plain", "without = [\"footer\", \"guard\", \"foter\"]")].concat();
    let host = TestHost::new().config(&config).filter("footer", FOOTER).filter("guard", GUARD).start().await;
    assert_eq!(host.chat(&chat_body("all", "hi")).await.text(), "hello from upstream [footer] [guarded]");
    assert_eq!(host.chat(&chat_body("plain", "hi")).await.text(), "hello from upstream [guarded]");
    let problems: Vec<String> =
        host.snapshot().problems.iter().map(|problem| problem.message.clone()).collect();
    assert!(problems.iter().any(|text| text.contains("did you mean `footer`?")), "{problems:?}");
    assert!(problems.iter().any(|text| text.contains("guards always run")), "{problems:?}");
}

#[tokio::test]
async fn a_model_call_of_a_script_may_leave_out_filters_but_not_guards() {
    let pipe = |options: &str| {
        format!(
            "/*\nrequirements: llm\n*/\nfn pipe(body) {{ `<${{llm::chat(#{{ model: \"{MODEL}\", messages: body.messages }}{options}).content}}>` }}"
        )
    };
    let host = TestHost::new()
        .filter("footer", FOOTER)
        .filter("guard", GUARD)
        .filter("asks", pipe(""))
        .filter("merges", pipe(", #{ filters: false }"))
        .start()
        .await;
    let text = async |model: &str| host.chat(&chat_body(model, "hi")).await.text();
    assert_eq!(text("asks").await, "<hello from upstream [footer] [guarded]> [footer] [guarded]");
    assert_eq!(text("merges").await, "<hello from upstream [guarded]> [footer] [guarded]");
}

#[tokio::test]
async fn the_answer_of_a_pipe_has_a_usage() {
    let host = TestHost::new().filter("echo", "fn pipe(body) { \"one two three\" }").start().await;
    let usage = host.chat(&chat_body("echo", "hi")).await.json()["usage"].clone();
    assert!(usage["completion_tokens"].as_u64() > Some(0), "{usage}");
    let mut body = streaming("echo", "hi");
    body["stream_options"] = json!({"include_usage": true});
    let answer = host.chat(&body).await;
    let last = answer.events().pop().unwrap();
    assert_eq!(last["usage"], usage, "{}", answer.body());
    let own = "fn pipe(body) { #{ choices: [#{ index: 0, finish_reason: \"stop\", message: #{ role: \"assistant\", content: \"x\" } }], usage: #{ prompt_tokens: 7, completion_tokens: 8, total_tokens: 15 } } }";
    host.update("echo", own).await;
    assert_eq!(host.chat(&chat_body("echo", "hi")).await.json()["usage"]["total_tokens"], 15);
}

#[tokio::test]
async fn a_filter_holds_the_stream_of_some_requests() {
    let filter = "fn inlet(body) { if body.messages[-1].text == \"json\" { hold_answer(); } body }\n\
                  fn outlet(body) { body.messages[-1].text = \"rewritten\"; body }";
    let host = TestHost::new().filter("repairs", filter).start().await;
    assert_eq!(host.stream("json").await.text(), "rewritten");
    assert_eq!(host.stream("hi").await.text(), "hello from upstream");
}

#[tokio::test]
async fn calls_that_a_tool_makes_are_in_the_trace_of_the_turn() {
    let outer = "/*\nrequirements: tools\n*/\nfn handler(args, ctx) { tools::call(\"inner\", #{ n: 1 }) + ctx.kernel.invoke(\"inner\", #{ n: 2 }) }";
    let shows = "fn outlet(body, __metadata__) { body }\n\
                 fn post_chat(ctx) { if ctx.context.trace.len() > 0 { ctx.result.text = ctx.context.trace.map(|call| `${call.name} ${call.args.n ?? \"\"}`).reduce(|all, one| if all == () { one } else { `${all}, ${one}` }); } ctx }";
    let host = TestHost::new()
        .config(&model("m", "tools = [\"outer\", \"inner\"]"))
        .tool("inner", "const parameters = #{ n: #{ type: \"integer\" } };\nfn handler(args) { args.n }")
        .tool("outer", outer)
        .filter("shows", shows)
        .start()
        .await;
    host.upstream.script(|request: &UpstreamRequest| {
        let is_first = !request.text().contains("\"tool\"");
        let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
            "function": {"name": "outer", "arguments": "{}"}}]});
        let message = if is_first { call } else { json!({"role": "assistant", "content": "done"}) };
        Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    });
    assert_eq!(host.chat(&chat_body("m", "go")).await.text(), "inner 1, inner 2, outer ");
}

#[test]
fn variables_of_the_command_line_are_json_and_those_of_the_model_take_precedence() {
    let tool = "fn handler(args, ctx) { `${type_of(ctx.get(\"n\"))} ${ctx.get(\"plan\")}` }";
    let config = "[[models]]\nname = \"m\"\nprovider = \"demo\"\nmodel = \"demo\"\ntools = [\"look\"]\nvariables = { plan = \"free\" }\n";
    let project = Project::new().with("tools/look.rhai", tool).with("valvehouse.toml", config);
    let ran =
        project.run_with(&["invoke", "look", "-m", "m", "--context", r#"{"n": 1, "plan": "paid"}"#], "");
    assert_eq!(ran.out.trim(), "i64 free", "{}", ran.talk);
    let shows = "fn inlet(body, __metadata__) { skip(`${type_of(__metadata__.variables?.n)}`) }\n\
                 fn pre_chat(ctx) { skip(`${ctx.context.get(\"n\").a} ${ctx.context.get(\"t\")}`) }";
    let shows = shows.lines().last().unwrap();
    let project = Project::new().filter("shows", shows);
    let ran =
        project.run_with(&["chat", "--variable", r#"n={"a": 5}"#, "--variable", "t=plain text", "hi"], "");
    assert_eq!(ran.out.trim(), "5 plain text", "{}", ran.talk);
}

#[test]
fn the_built_in_tools_are_listed_in_an_empty_project() {
    let ran = Project::new().run("list");
    assert!(ran.out.contains("todo_add") && ran.talk.contains("no plugins yet"), "{}{}", ran.out, ran.talk);
}

#[test]
fn quiet_tests_show_failures_only() {
    let project = Project::new()
        .filter("good", "fn inlet(body) { body }")
        .with("filters/good.test.rhai", "fn test_good() { assert(true); }")
        .filter("bad", "fn inlet(body) { body }")
        .with("filters/bad.test.rhai", "fn test_bad() { assert(false); }\nfn test_other() { assert(true); }");
    let ran = project.run("test -q");
    assert!(
        ran.out.contains("FAIL") && !ran.out.contains(" ok ") && !ran.out.contains("good"),
        "{}",
        ran.out
    );
    assert!(project.run("test").out.contains("good"));
}
