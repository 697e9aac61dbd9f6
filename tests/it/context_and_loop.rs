//! Context and state: the values that filters and tools share in a turn, and the tool loop.

use crate::kernel::*;
use serde_json::json as value;
use valvehouse::ChatRequest;
use valvehouse::chat::message;
use valvehouse::context::{Context, Turn};
use valvehouse::error::{Error, RequestErrorKind};
use valvehouse::filter::{self, Verdict::Continue, Verdict::Reject, Verdict::Respond};
use valvehouse::json::Json;
use valvehouse::kernel::{ChatOptions, Kernel, ModelDefaults, RunOptions, TurnAnswer};
use valvehouse::provider::Reply;
use valvehouse::tool::{Retry, Tool, ToolError, ToolResult};

fn with_context(variables: &str) -> ChatOptions {
    ChatOptions { context: Context::new(json(variables)), ..ChatOptions::default() }
}

async fn chat_with(kernel: &Kernel, options: ChatOptions) -> Result<TurnAnswer, Error> {
    kernel.chat_with_tools(vec![message::user("hi")], options).await
}

/// Returns the results of tool calls that the model receives.
async fn tool_results(tools: impl IntoIterator<Item = Tool>, calls_to_make: &[(&str, &str)]) -> Vec<String> {
    let (builder, model) = asking([calls("", calls_to_make), "done".into()]);
    chat(&builder.tools(tools).build(), "hi").await.unwrap();
    texts_by_role(&model.requests()[1], "tool")
}

#[tokio::test]
async fn a_variable_passes_from_filter_to_tool_to_filter_to_caller() {
    let append = |context: &Context, word: &str| {
        let so_far = context.get_or("path", "").as_str().unwrap().to_owned();
        context.set("path", format!("{so_far}{word} "))
    };
    let tool = Tool::from_json_fn_with_context("walk", move |_, context| {
        Ok(ToolResult { context: Some(append(&context, "tool")), .."ok".into() })
    });
    let closures = vec![
        filter::pre_invocation("pre", move |ctx| {
            append(ctx.context(), "pre");
            Ok(Continue)
        }),
        filter::post_invocation("post", move |ctx| {
            append(ctx.context(), "post");
            Ok(Continue)
        }),
        filter::pre_chat("round", move |ctx| {
            append(ctx.context(), "round");
            Ok(Continue)
        }),
    ];
    let script = script(
        "all",
        r#"
        fn append(context, word) { context.set("path", context.get("path", "") + word + " "); }
        fn pre_invocation(ctx) { append(ctx.context, "pre"); }
        fn post_invocation(ctx) { append(ctx.context, "post"); ctx }
        fn pre_chat(ctx) { append(ctx.context, "round"); }
        "#,
    );
    for filters in [closures, vec![script]] {
        let (builder, _) = asking([calls("", &[("walk", "{}"), ("walk", "{}")]), "done".into()]);
        let kernel = builder.tool(tool.clone()).filters(filters).build();
        let chat = chat_with(&kernel, with_context(r#"{"path":"caller "}"#)).await.unwrap();
        let expected = "caller round pre tool post pre tool post round ";
        assert_eq!(chat.context.get("path"), Some(expected.into()));
    }
}

#[tokio::test]
async fn a_counter_counts_over_calls_and_rounds() {
    let (builder, model) = asking([
        calls("", &[("count", "{}"), ("count", "{}")]),
        calls("", &[("count", "{}")]),
        "done".into(),
    ]);
    let chat = chat(&builder.tool(counter()).build(), "hi").await.unwrap();
    assert_eq!(texts_by_role(&model.requests()[2], "tool"), ["1", "2", "3"]);
    assert_eq!(chat.context.get("counter"), Some(3_i64.into()));
}

#[tokio::test]
async fn the_context_of_the_caller_is_not_changed() {
    let (builder, _) = asking([calls("", &[("count", "{}")]), "done".into()]);
    let set = script(
        "set",
        r#"fn inlet(body, __metadata__) { __metadata__.x = 1; } fn pre_chat(ctx) { ctx.context.get("list").push(1); }"#,
    );
    let kernel = builder.tool(counter()).filter(set).build();
    let own = Context::new(json(r#"{"counter":5,"list":[]}"#));
    let invoked = kernel.invoke("count", Json::object(), &own).await.unwrap();
    let options = ChatOptions { context: own.clone(), ..ChatOptions::default() };
    let chat = chat_with(&kernel, options).await.unwrap();
    assert_eq!(invoked.context.get("counter"), Some(6_i64.into()));
    assert_eq!(chat.context.variables().to_string(), r#"{"counter":6,"list":[1,1]}"#);
    assert_eq!(own.variables().to_string(), r#"{"counter":5,"list":[]}"#);
    assert!(own.metadata().is_empty() && own.trace().is_empty());
}

#[tokio::test]
async fn a_context_can_be_passed_to_the_next_turn() {
    let (builder, _) =
        asking([calls("", &[("count", "{}")]), "done".into(), calls("", &[("count", "{}")]), "done".into()]);
    let kernel = builder.tool(counter()).build();
    let first = chat(&kernel, "hi").await.unwrap();
    let options = ChatOptions { context: first.context, ..ChatOptions::default() };
    assert_eq!(chat_with(&kernel, options).await.unwrap().context.get("counter"), Some(2_i64.into()));
}

#[tokio::test]
async fn a_filter_rejects_a_caller_without_the_chat_permission() {
    let closure = filter::pre_chat("auth", |ctx| {
        let may = ctx.context().get_or("permissions", Json::array()).items().contains(&"chat".into());
        if may { Ok(Continue) } else { Ok(Reject("unauthorized".into())) }
    });
    let text = r#"fn pre_chat(ctx) {
        if "chat" in ctx.context.get("permissions", []) { ctx } else { error("unauthorized") }
    }"#;
    for filter in both(closure, text) {
        let kernel = answering("hello", [filter]);
        let chat = chat_with(&kernel, with_context(r#"{"permissions":["read","chat"]}"#)).await.unwrap();
        assert_eq!(chat.text(), "hello");
        let refused = chat_with(&kernel, with_context(r#"{"permissions":["read"]}"#)).await;
        assert_eq!(rejection(refused).1, "unauthorized");
    }
}

#[tokio::test]
async fn a_tool_reads_the_caller() {
    let tool = Tool::from_json_fn_with_context("get_user_info", |_, context| {
        Ok(Json::from([("user_id", context.get_or("user_id", Json::Null))]).into())
    });
    let kernel = Kernel::builder().tool(tool).build();
    let context = Context::new(json(r#"{"user_id":"u123"}"#));
    let invoked = kernel.invoke("get_user_info", Json::object(), &context).await.unwrap();
    assert_eq!(invoked.value.to_string(), r#"{"user_id":"u123"}"#);
}

#[tokio::test]
async fn a_failing_tool_leaves_no_trace_in_the_context() {
    let tool = Tool::from_json_fn_with_context("spoil", |_, context| {
        context.set("spoilt", true);
        context.get("list").unwrap().as_array().unwrap().push(1_i64.into()).unwrap();
        Err("went wrong".into())
    });
    let (builder, model) = asking([calls("", &[("spoil", "{}"), ("count", "{}")]), "done".into()]);
    let kernel = builder.tool(tool).tool(counter()).build();
    let chat = chat_with(&kernel, with_context(r#"{"list":[]}"#)).await.unwrap();
    assert_eq!(texts_by_role(&model.requests()[1], "tool"), [r#"{"error":"went wrong"}"#, "1"]);
    assert_eq!(chat.context.variables().to_string(), r#"{"list":[],"counter":1}"#);
}

#[tokio::test]
async fn a_retry_starts_with_the_original_context() {
    let tries = std::sync::atomic::AtomicUsize::new(0);
    let tool = Tool::from_json_fn_with_context("shaky", move |_, context| {
        let next = context.get_or("n", 0_i64).as_i64().unwrap() + 1;
        let context = context.set("n", next);
        match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 | 1 => Err("not yet".into()),
            _ => Ok(ToolResult { context: Some(context), ..next.into() }),
        }
    });
    let tool = tool.with_spec(|spec| spec.retry = Retry { max: 2, ..Retry::default() });
    let kernel = Kernel::builder().tool(tool).filter(recorder()).build();
    let invoked = kernel.invoke("shaky", Json::object(), &Context::default()).await.unwrap();
    assert_eq!(invoked.value.as_i64(), Some(1));
    assert_eq!(
        notes(&invoked.context),
        "pre_invocation post_invocation",
        "filters run once around all tries"
    );
}

#[tokio::test]
async fn invoke_returns_value_and_context_or_an_error() {
    let kernel = Kernel::builder().tools([counter(), echo()]).build();
    let invoked = kernel.invoke("count", Json::object(), &Context::default()).await.unwrap();
    assert_eq!((invoked.value.as_i64(), invoked.context.get("counter")), (Some(1), Some(1_i64.into())));
    assert_eq!(invoked.context.trace().at(0).unwrap().text("name").unwrap(), "count");
    let unknown = kernel.invoke("coutn", Json::object(), &Context::default()).await;
    let Err(Error::Request { message, code, kind, .. }) = unknown else { panic!("{unknown:?}") };
    assert_eq!(message, "unknown tool `coutn`; did you mean `count`?");
    assert_eq!((code, kind), (Some("tool_not_found"), RequestErrorKind::NotFound));
}

#[tokio::test]
async fn invoke_chat_is_one_model_call_and_leaves_tool_calls_to_the_caller() {
    let (builder, model) = asking([calls("let me see", &[("echo", "{}")])]);
    let kernel = builder.tool(echo()).filter(recorder()).build();
    let chat = kernel.invoke_chat(vec![message::user("hi")], ChatOptions::default()).await.unwrap();
    assert_eq!(chat.text(), "let me see");
    assert_eq!(chat.response.at_path("choices.0.message.tool_calls.0.function.name"), "echo".into());
    assert_eq!(model.requests()[0].at_path("tools.0.function.name"), "echo".into());
    assert!(!notes(&chat.context).contains("invocation") && model.requests().len() == 1);
}

#[tokio::test]
async fn the_loop_calls_tools_until_the_model_calls_none_and_keeps_the_transcript() {
    let (builder, model) = asking([calls("let me see", &[("echo", r#"{"a":1}"#)]), "it is 1".into()]);
    let chat = chat(&builder.tool(echo()).build(), "hi").await.unwrap();
    assert_eq!(chat.text(), "it is 1");
    let transcript_lines: Vec<String> = chat
        .messages
        .iter()
        .map(|one| format!("{}: {}", message::role_of(one), message::text_of(one)))
        .collect();
    assert_eq!(
        transcript_lines,
        ["user: hi", "assistant: let me see", r#"tool: {"a":1}"#, "assistant: it is 1"]
    );
    let sent = model.requests()[1].get("messages").unwrap();
    assert_eq!(sent.at_path("1.tool_calls.0.id"), sent.at_path("2.tool_call_id"));
    assert_eq!(sent.at_path("1.content"), "let me see".into());
}

#[tokio::test]
async fn an_endless_loop_fails_at_the_model_call_limit() {
    for (set, in_options, limit) in [(10, None, 10), (3, None, 3), (10, Some(2), 2), (10, Some(1), 1)] {
        let (builder, model) = asking([calls("again", &[("echo", "{}")])]);
        let settings = ModelDefaults { max_tool_iterations: set, ..ModelDefaults::default() };
        let kernel = builder.tool(echo()).settings(settings).build();
        let options = ChatOptions { max_tool_iterations: in_options, ..ChatOptions::default() };
        let Err(Error::ToolLoop { limit: actual, transcript }) = chat_with(&kernel, options).await else {
            panic!("it ended")
        };
        assert_eq!((actual, model.requests().len()), (limit, limit));
        assert_eq!(transcript.items().len(), 2 * limit, "the user, each answer, each result but the last");
        assert_eq!(message::text_of(&transcript.at(-1).unwrap()), "again");
    }
}

#[tokio::test]
async fn the_model_receives_a_tool_error_and_the_loop_continues() {
    let fail = Tool::from_json_fn("fail", |_| Err("no such city".into()));
    let panics = Tool::from_json_fn("panics", |_| panic!("at the disco"));
    let cut = r#"{"city":"Bo"#;
    let results = tool_results(
        [fail, panics],
        &[("fail", "{}"), ("fial", "{}"), ("fail", cut), ("fail", "[1]"), ("panics", "{}")],
    )
    .await;
    let errors = results.iter().map(|result| json(result).text("error").unwrap().to_string());
    for (error, expected) in errors.zip([
        "no such city",
        "unknown tool `fial`; did you mean `fail`?",
        "invalid arguments for fail: expected one complete JSON object",
        "invalid arguments for fail: expected a JSON object with a key for each argument, got array",
        "tool panics panicked",
    ]) {
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(results.len(), 5);
}

#[tokio::test]
async fn the_model_receives_a_rejection_of_its_call() {
    let closure = filter::pre_invocation("auth", |_| Ok(Reject("not for you".into())));
    for filter in both(closure, r#"fn pre_invocation(ctx) { deny("not for you", 403); }"#) {
        let (builder, model) = asking([calls("", &[("echo", "{}")]), "sorry".into()]);
        let chat = chat(&builder.tool(echo()).filter(filter).build(), "hi").await.unwrap();
        assert_eq!(texts_by_role(&model.requests()[1], "tool"), [r#"{"error":"not for you"}"#]);
        assert_eq!(chat.text(), "sorry");
    }
}

#[tokio::test]
async fn a_fatal_error_ends_the_turn() {
    let stop = Tool::from_json_fn("stop", |_| Err(ToolError::from("over").fatal()));
    let (builder, model) = asking([calls("", &[("stop", "{}")])]);
    let ended = chat(&builder.tool(stop).build(), "hi").await;
    assert_eq!(rejection(ended), ("stop".into(), "over".into(), 500));
    assert_eq!(model.requests().len(), 1);

    let filter = script(
        "guard",
        r#"fn pre_invocation(ctx) { throw #{ message: "over", status: 451, fatal: true }; }"#,
    );
    let (builder, _) = asking([calls("", &[("echo", "{}")])]);
    let ended = chat(&builder.tool(echo()).filter(filter).build(), "hi").await;
    assert_eq!(rejection(ended), ("guard".into(), "over".into(), 451));
}

#[tokio::test]
async fn a_filter_failure_during_a_call_ends_the_turn() {
    let filter = script("broken", "fn post_invocation(ctx) { ctx.result.a.b.c }");
    let (builder, _) = asking([calls("", &[("echo", "{}")])]);
    let (plugin, hook, _) = failure(chat(&builder.tool(echo()).filter(filter).build(), "hi").await);
    assert_eq!((plugin.as_str(), hook.as_str()), ("broken", "post_invocation"));
}

#[tokio::test]
async fn tool_results_reach_the_model_as_text_or_json() {
    let tool = |name: &str, value: Json| Tool::from_json_fn(name, move |_| Ok(value.deep_clone().into()));
    let tools =
        [tool("text", "21 °C".into()), tool("map", json(r#"{"b":1,"a":1.0}"#)), tool("none", Json::Null)];
    let results = tool_results(tools, &[("text", ""), ("map", "{}"), ("none", "{}")]).await;
    assert_eq!(results, ["21 °C", r#"{"b":1,"a":1.0}"#, "null"]);
}

#[tokio::test]
async fn calls_of_client_tools_pass_through() {
    let request = r#"{"tools":[{"type":"function","function":{"name":"open_door"}}]}"#;
    let options = || ChatOptions { request: Some(json(request)), ..ChatOptions::default() };
    let (builder, model) = asking([calls("", &[("open_door", "{}")])]);
    let chat = chat_with(&builder.tool(echo()).build(), options()).await.unwrap();
    assert_eq!(chat.response.at_path("choices.0.message.tool_calls.0.function.name"), "open_door".into());
    assert_eq!(chat.response.at_path("choices.0.finish_reason"), "tool_calls".into());
    let offered = model.requests()[0].get("tools").unwrap().items();
    let names: Vec<_> = offered.iter().map(|tool| tool.at_path("function.name").to_string()).collect();
    assert_eq!(names, [r#""open_door""#, r#""echo""#]);

    // Calls of the client's tools cannot run in the turn if they are mixed with the host's; the model is told
    // so.
    let (builder, model) = asking([calls("", &[("open_door", "{}"), ("echo", "{}")]), "done".into()]);
    chat_with(&builder.tool(echo()).build(), options()).await.unwrap();
    let results = texts_by_role(&model.requests()[1], "tool");
    assert!(results[0].contains("runs at the client") && results[1] == "{}", "{results:?}");

    // Without tools of the host, every call is for the client.
    let (builder, model) = asking([calls("", &[("anything", "{}")])]);
    chat_with(&builder.build(), ChatOptions::default()).await.unwrap();
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn the_system_prompt_is_sent_each_round_and_never_stored() {
    for filters in [vec![], vec![recorder()]] {
        let (builder, model) = asking([calls("", &[("echo", "{}")]), "done".into()]);
        let settings = ModelDefaults { system_prompt: Some("be brief".into()), ..ModelDefaults::default() };
        let kernel = builder.tool(echo()).filters(filters).settings(settings).build();
        let chat = chat(&kernel, "hi").await.unwrap();
        for request in model.requests() {
            assert_eq!(texts_by_role(&request, "system"), ["be brief"]);
            assert_eq!(message::role_of(&request.at_path("messages.0")), "system");
        }
        assert!(chat.messages.iter().all(|message| message::role_of(message) != "system"));
    }
}

#[tokio::test]
async fn calls_without_an_id_get_one() {
    let message = json(
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"","function":{"name":"echo","arguments":"{}"}}]}"#,
    );
    let (builder, model) = asking([Reply::message(message), "done".into()]);
    chat(&builder.tool(echo()).build(), "hi").await.unwrap();
    let sent = model.requests()[1].get("messages").unwrap();
    assert_eq!(sent.at_path("1.tool_calls.0.id"), sent.at_path("2.tool_call_id"));
    assert!(!sent.at_path("2.tool_call_id").is_empty());
}

#[tokio::test]
async fn a_provider_failure_fails_the_turn() {
    let gone = Error::Provider { message: "gone".into(), timeout: false };
    let (builder, _) = asking([calls("", &[("echo", "{}")]), gone.into()]);
    let ended = chat(&builder.tool(echo()).build(), "hi").await;
    assert!(matches!(ended, Err(Error::Provider { timeout: false, .. })));
    let nobody = chat(&Kernel::builder().build(), "hi").await;
    assert!(matches!(nobody, Err(Error::Host(message)) if message.contains(".provider(")));
}

#[tokio::test]
async fn a_trace_has_the_outcome_of_every_call() {
    let fail = Tool::from_json_fn("fail", |_| Err("no".into()));
    let long = Tool::from_json_fn("long", |_| Ok("x".repeat(5_000).into()));
    let guard = filter::pre_invocation("guard", |ctx| match ctx.args().text("do").as_deref() {
        Some("skip") => Ok(Respond("from the cache".into())),
        Some("refuse") => Ok(Reject("not allowed".into())),
        Some("break") => Err("a secret".into()),
        _ => Ok(Continue),
    });
    let (builder, _) = asking([
        calls("", &[("echo", r#"{"a":1}"#), ("fail", "{}"), ("long", "{}")]),
        calls("", &[("echo", r#"{"do":"skip"}"#), ("echo", r#"{"do":"refuse"}"#)]),
        "done".into(),
    ]);
    let kernel = builder.tools([echo(), fail, long]).filter(guard.clone()).build();
    let chat = chat(&kernel, "hi").await.unwrap();
    let long = format!("{}… (5000 bytes)", "x".repeat(2_000));
    let expected = value!([
        {"type": "tool_call", "name": "echo", "args": {"a": 1}, "ok": true, "result": {"a": 1}},
        {"type": "tool_call", "name": "fail", "args": {}, "ok": false, "error": "no"},
        {"type": "tool_call", "name": "long", "args": {}, "ok": true, "result": long},
        {"type": "tool_call", "name": "echo", "args": {"do": "skip"}, "ok": true, "skipped": true,
            "result": "from the cache"},
        {"type": "tool_call", "name": "echo", "args": {"do": "refuse"}, "ok": false, "error": "not allowed"},
    ]);
    assert_eq!(chat.context.trace().to_string(), expected.to_string());
    let (builder, _) = asking([calls("", &[("echo", r#"{"do":"break"}"#)])]);
    let kernel = builder.tool(echo()).filter(guard).build();
    let turn = Turn::default();
    let body = value!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let request = ChatRequest::new(body).unwrap();
    kernel.run(request, RunOptions::new(turn.clone())).answer().await.unwrap_err();
    assert_eq!(turn.context().trace().at_path("0.error"), "the plugin `guard` failed".into());
}

#[tokio::test]
async fn concurrent_turns_share_no_state() {
    let (builder, _) = asking(["hello"]);
    let own = script(
        "own",
        r#"
        fn inlet(body, state) { state.who = body.messages[0].content; }
        fn outlet(body, state) { body.messages[-1].content = state.who; }"#,
    );
    let kernel = builder.filter(own).build();
    let names: Vec<String> = (0..20).map(|n| format!("user {n}")).collect();
    let answers = futures::future::join_all(names.iter().map(|name| chat(&kernel, name))).await;
    let answers: Vec<String> = answers.into_iter().map(|chat| chat.unwrap().text()).collect();
    assert_eq!(answers, names);
}

#[tokio::test]
async fn a_filter_can_replace_a_failure_with_a_result() {
    let failing = || Tool::from_json_fn("lookup", |_| Err("no connection".into()));
    let blind = script("blind", "fn post_invocation(ctx) { ctx.result = \"never\"; }");
    let seeing = script(
        "seeing",
        "const on_tool_error = true;\nfn post_invocation(ctx) { ctx.result = `instead of: ${ctx.error}`; }",
    );
    let (builder, model) = asking([calls("", &[("lookup", "{}")]), "done".into()]);
    chat(&builder.tool(failing()).filter(blind.clone()).build(), "hi").await.unwrap();
    assert_eq!(texts_by_role(&model.requests()[1], "tool"), [r#"{"error":"no connection"}"#]);
    let (builder, model) = asking([calls("", &[("lookup", "{}")]), "done".into()]);
    chat(&builder.tool(failing()).filters([blind, seeing]).build(), "hi").await.unwrap();
    assert_eq!(texts_by_role(&model.requests()[1], "tool"), ["instead of: no connection"]);
}

#[tokio::test]
async fn history_has_the_messages_up_to_the_model_call() {
    let look = script("look", "fn post_chat(ctx) { ctx.context.set(\"seen\", ctx.context.history.len()); }");
    let (builder, _) = asking([calls("", &[("lookup", "{}")]), "done".into()]);
    let tool = Tool::from_json_fn("lookup", |_| Ok("x".into()));
    let chatted = chat(&builder.tool(tool).filter(look).build(), "hi").await.unwrap();
    // The question, the call and its result.
    assert_eq!(chatted.context.get("seen").unwrap(), Json::from(3_i64));
}
