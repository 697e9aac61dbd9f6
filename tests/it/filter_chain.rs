//! The filter system: four types, three verdicts, one ascending order. Scripts can do everything that
//! closures can, so every test runs with both.

use crate::host::TIMEOUT;
use crate::kernel::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use valvehouse::Error;
use valvehouse::chat::message;
use valvehouse::context::Context;
use valvehouse::context::Turn;
use valvehouse::filter::{
    self, Filter, FilterEntry, Hook, HookResult, Inlet, Outlet, PostChat, PreChat, Verdict::Continue,
    Verdict::Reject, Verdict::Respond,
};
use valvehouse::json::Json;
use valvehouse::kernel::{ChatOptions, Kernel};
use valvehouse::provider::Reply;
use valvehouse::tool::Tool;

fn tooled(tool: Tool, filters: impl IntoIterator<Item = FilterEntry>) -> Kernel {
    Kernel::builder().tool(tool).filters(filters).build()
}

/// A tool that must not be called.
fn forbidden() -> Tool {
    Tool::from_json_fn("echo", |_| panic!("the tool ran"))
}

#[tokio::test]
async fn a_pre_chat_filter_changes_what_the_model_reads() {
    let closure = filter::pre_chat("system_prompt", |ctx| {
        let messages = [vec![message::system("You are helpful.")], ctx.messages().items()].concat();
        ctx.set_messages(messages);
        Ok(Continue)
    });
    let text = r#"fn pre_chat(ctx) {
        ctx.messages = [#{ role: "system", content: "You are helpful." }] + ctx.messages;
        ctx
    }"#;
    for filter in both(closure, text) {
        let (builder, model) = asking(["hello"]);
        let chat = chat(&builder.filter(filter).build(), "hi").await.unwrap();
        assert_eq!(texts_by_role(&model.requests()[0], "system"), ["You are helpful."]);
        assert_eq!(texts_by_role(&model.requests()[0], "user"), ["hi"]);
        assert_eq!(chat.messages.len(), 2, "an injected prompt is sent and not kept");
    }
}

#[tokio::test]
async fn a_post_chat_filter_changes_the_answer() {
    let closure = filter::post_chat("polite", |ctx| {
        assert_eq!(message::text_of(&ctx.messages().at(-1).unwrap()), "hi");
        ctx.result().set("content", "hello, Ann").unwrap();
        Ok(Continue)
    });
    let text = r#"fn post_chat(ctx) {
        if ctx.messages[-1].content != "hi" || ctx.result.finish_reason != "stop" { throw "wrong ctx"; }
        ctx.result.content += ", Ann";
        ctx
    }"#;
    for filter in both(closure, text) {
        let chat = chat(&answering("hello", [filter]), "hi").await.unwrap();
        assert_eq!(chat.text(), "hello, Ann");
    }
}

#[tokio::test]
async fn a_pre_invocation_filter_changes_the_arguments() {
    let closure = filter::pre_invocation("metric", |ctx| {
        assert_eq!(ctx.tool().text("name").unwrap(), "echo");
        let args = ctx.args().deep_clone();
        args.set("unit", "celsius").unwrap();
        ctx.set_args(args);
        Ok(Continue)
    });
    let text = r#"fn pre_invocation(ctx) {
        if ctx.tool.name != "echo" { throw "wrong tool"; }
        ctx.args.unit = "celsius";
    }"#;
    for filter in both(closure, text) {
        let value = invoke(&tooled(echo(), [filter]), "echo", r#"{"city":"Bonn"}"#).await.unwrap();
        assert_eq!(value.to_string(), r#"{"city":"Bonn","unit":"celsius"}"#);
    }
}

#[tokio::test]
async fn a_post_invocation_filter_changes_the_result_and_sees_the_arguments_that_were_used() {
    let change = filter::pre_invocation("change", |ctx| {
        ctx.set_args(json(r#"{"n":2}"#));
        Ok(Continue)
    });
    let closure = filter::post_invocation("double", |ctx| {
        let sum = ctx.args().get("n").unwrap().as_i64().unwrap() + ctx.result().as_i64().unwrap();
        ctx.set_result(sum);
        Ok(Continue)
    });
    let text = "fn post_invocation(ctx) { ctx.result += ctx.args.n; ctx }";
    for filter in both(closure, text) {
        let tool = Tool::from_json_fn("n", |args| Ok(args.get("n").unwrap().into()));
        let value = invoke(&tooled(tool, [filter, change.clone()]), "n", r#"{"n":1}"#).await.unwrap();
        assert_eq!(value.as_i64(), Some(4));
    }
}

#[tokio::test]
async fn filters_may_wait_concurrently_at_every_hook() {
    async fn wait(context: &Context, hook: &str) -> HookResult {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let seen = context.get_or("seen", "");
        context.set("seen", format!("{} {hook}", seen.as_str().unwrap()));
        Ok(Continue)
    }
    struct Waits;
    impl Filter for Waits {
        async fn inlet(&self, request: &mut Inlet) -> HookResult {
            wait(request.context(), "inlet").await
        }

        async fn outlet(&self, conversation: &mut Outlet) -> HookResult {
            wait(conversation.context(), "outlet").await
        }
    }
    let pre = filter::from_fn("pre", async |chat: &mut PreChat| wait(chat.context(), "pre_chat").await);
    let post = filter::from_fn("post", async |chat: &mut PostChat| wait(chat.context(), "post_chat").await);
    let (builder, _) = asking(["hello"]);
    let kernel = Arc::new(builder.filter(Waits).filters([pre, post]).build());
    let began = Instant::now();
    let all = (0..500).map(|_| {
        let kernel = kernel.clone();
        tokio::spawn(async move { chat(&kernel, "hi").await })
    });
    for waiting in all.collect::<Vec<_>>() {
        let chat = waiting.await.unwrap().unwrap();
        assert_eq!(chat.context.get_or("seen", "").to_string(), "\" inlet pre_chat post_chat outlet\"");
    }
    // One after the other, they would take ten minutes.
    assert!(began.elapsed() < TIMEOUT);
}

#[tokio::test]
async fn any_error_of_a_closure_is_a_plugin_error_with_its_causes() {
    let sync = filter::pre_chat("counts", |ctx| {
        ctx.messages().field("0").as_str().unwrap_or("x").parse::<i64>()?;
        Ok(Continue)
    });
    let on_its_stack = filter::from_fn("counts", async |_: &mut PreChat| {
        tokio::task::yield_now().await;
        Err(std::io::Error::other("the disk is full"))?
    });
    struct Counts;
    impl Filter for Counts {
        fn name(&self) -> &str {
            "counts"
        }

        async fn pre_chat(&self, _: &mut PreChat) -> HookResult {
            tokio::task::yield_now().await;
            Err(std::io::Error::other("the disk is full"))?
        }
    }
    let full = "the disk is full";
    for (filter, cause) in
        [(sync, "invalid digit found in string"), (on_its_stack, full), (Counts.into(), full)]
    {
        let (builder, model) = asking(["never"]);
        let kernel = builder.filters([filter]).build();
        let Error::Broken(failure) = chat(&kernel, "hi").await.unwrap_err() else {
            panic!("it did not break")
        };
        assert_eq!((failure.plugin.as_str(), failure.hook.as_str()), ("counts", "pre_chat"));
        assert_eq!(failure.cause, cause);
        assert_eq!(std::error::Error::source(&Error::Broken(failure)).unwrap().to_string(), cause);
        assert!(model.requests().is_empty());
    }
}

#[tokio::test]
async fn an_async_filter_is_dropped_with_its_turn() {
    let (began, mut beginnings) = tokio::sync::mpsc::unbounded_channel();
    let (ended, mut endings) = tokio::sync::mpsc::unbounded_channel::<()>();
    let filter = filter::from_fn("hangs", async move |_: &mut PreChat| {
        let _ended = ended.clone();
        began.send(()).unwrap();
        std::future::pending::<()>().await;
        Err("never".into())
    });
    let (builder, _) = asking(["never"]);
    let kernel = builder.filters([filter]).build();
    let turn = tokio::spawn(async move { chat(&kernel, "hi").await.is_ok() });
    beginnings.recv().await.unwrap();
    turn.abort();
    // The channel closes once the filter is dropped with its kernel.
    assert_eq!(tokio::time::timeout(TIMEOUT, endings.recv()).await, Ok(None));
}

#[tokio::test]
async fn skip_in_inlet_answers_without_running_anything_else() {
    let closure = filter::inlet("shut", |_| Ok(Respond("closed".into())));
    for filter in both(closure, r#"fn inlet(body) { skip("closed") }"#) {
        let (builder, model) = asking(["never"]);
        let kernel = builder.filters([filter, recorder().priority(1.0)]).build();
        let chat = chat(&kernel, "hi").await.unwrap();
        assert_eq!((chat.text().as_str(), notes(&chat.context).as_str()), ("closed", ""));
        let texts: Vec<_> = chat.messages.iter().map(message::text_of).collect();
        assert_eq!(texts, ["hi", "closed"]);
        assert!(model.requests().is_empty());
    }
}

#[tokio::test]
async fn skip_in_pre_chat_replaces_the_model_call_and_still_runs_outlet() {
    let closure = filter::pre_chat("cached", |ctx| {
        ctx.context().set("hit", true);
        Ok(Respond(json(r#"{"role":"assistant","content":"from the cache"}"#)))
    });
    let text = r#"fn pre_chat(ctx) {
        ctx.context.set("hit", true);
        skip(#{ role: "assistant", content: "from the cache" })
    }"#;
    for filter in both(closure, text) {
        let (builder, model) = asking(["never"]);
        let kernel = builder.filters([filter, recorder().priority(1.0)]).build();
        let chat = chat(&kernel, "hi").await.unwrap();
        assert_eq!((chat.text().as_str(), notes(&chat.context).as_str()), ("from the cache", "inlet outlet"));
        assert_eq!(chat.response.at_path("choices.0.finish_reason"), "stop".into());
        assert_eq!(chat.context.get("hit"), Some(true.into()), "edits of the context stay");
        assert!(model.requests().is_empty());
    }
}

#[tokio::test]
async fn skip_in_pre_invocation_replaces_the_tool_call_and_skips_post_filters() {
    let closure = filter::pre_invocation("cached", |_| Ok(Respond(json(r#"{"cached":true}"#))));
    for filter in both(closure, "fn pre_invocation(ctx) { skip(#{ cached: true }) }") {
        let kernel = tooled(forbidden(), [filter, recorder().priority(1.0)]);
        let invoked = kernel.invoke("echo", Json::object(), &Context::default()).await.unwrap();
        assert_eq!(invoked.value.to_string(), r#"{"cached":true}"#);
        assert_eq!(notes(&invoked.context), "");
    }
}

#[tokio::test]
async fn skip_in_post_hooks_is_the_final_value() {
    let closure = filter::post_invocation("final", |_| Ok(Respond("final".into())));
    for filter in both(closure, r#"fn post_invocation(ctx) { skip("final") }"#) {
        let later = filter::post_invocation("later", |ctx| {
            ctx.set_result("later");
            Ok(Continue)
        });
        assert_eq!(invoke(&tooled(echo(), [filter, later]), "echo", "{}").await.unwrap(), "final".into());
    }
    for (hook, name) in [(Hook::PostChat, "post_chat(ctx)"), (Hook::Outlet, "outlet(body)")] {
        let closure = FilterEntry::closure("final", hook, |_| Ok(Respond("final".into())));
        for filter in both(closure, &format!("fn {name} {{ skip(\"final\") }}")) {
            let later = FilterEntry::closure("later", hook, |_| Ok(Respond("later".into())));
            let chat = chat(&answering("hello", [filter, later]), "hi").await.unwrap();
            assert_eq!(chat.text(), "final");
        }
    }
}

#[tokio::test]
async fn an_error_of_a_chat_filter_fails_the_request_and_names_the_filter() {
    let hooks = [
        (Hook::Inlet, "inlet(body)"),
        (Hook::PreChat, "pre_chat(ctx)"),
        (Hook::Stream, "stream(event)"),
        (Hook::StreamEnd, "stream_end(state)"),
        (Hook::PostChat, "post_chat(ctx)"),
        (Hook::Outlet, "outlet(body)"),
    ];
    for (hook, name) in hooks {
        let closure = FilterEntry::closure("limit", hook, |_| Ok(Reject("too long".into())));
        let [closure, returned] = both(closure, &format!("fn {name} {{ error(\"too long\") }}"));
        let thrown = script("limit", &format!("fn {name} {{ throw \"too long\"; }}"));
        for filter in [closure, returned, thrown] {
            let later = FilterEntry::closure("later", hook, |_| panic!("the chain went on"));
            let answer = chat(&answering("hello", [filter, later]), "hi").await;
            assert_eq!(rejection(answer), ("limit".into(), "too long".into(), 400), "{hook}");
        }
    }
}

#[tokio::test]
async fn an_error_of_an_invocation_filter_fails_the_call_and_names_the_filter() {
    let closure = filter::pre_invocation("limit", |_| Ok(Reject("too often".into())));
    for filter in both(closure, r#"fn pre_invocation(ctx) { error("too often") }"#) {
        let called = invoke(&tooled(forbidden(), [filter]), "echo", "{}").await;
        assert_eq!(rejection(called), ("limit".into(), "too often".into(), 400));
    }
    let closure = filter::post_invocation("limit", |_| Ok(Reject("too much".into())));
    for filter in both(closure, r#"fn post_invocation(ctx) { throw "too much"; }"#) {
        let called = invoke(&tooled(echo(), [filter]), "echo", "{}").await;
        assert_eq!(rejection(called), ("limit".into(), "too much".into(), 400));
    }
}

#[tokio::test]
async fn filters_run_in_ascending_priority_and_ties_keep_their_order() {
    let places = [("d", 7.0), ("b", 0.0), ("a", -1.0), ("c", 0.0)];
    let closures = places.map(|(name, priority)| {
        filter::pre_chat(name, move |ctx| {
            note(ctx.turn(), name);
            Ok(Continue)
        })
        .priority(priority)
    });
    let scripts = places.map(|(name, priority)| {
        let note = format!("ctx.metadata.ensure(\"notes\", []).push(\"{name}\");");
        script(name, &format!("const Valves = #{{ priority: {priority} }};\nfn pre_chat(ctx) {{ {note} }}"))
    });
    for filters in [closures, scripts] {
        let chat = chat(&answering("hello", filters), "hi").await.unwrap();
        assert_eq!(notes(&chat.context), "a b c d");
    }
}

#[tokio::test]
async fn post_hooks_run_in_the_same_ascending_order() {
    let add = |name: &'static str| {
        filter::post_chat(name, move |ctx| {
            ctx.result().set("content", format!("{}{name}", message::text_of(&ctx.result()))).unwrap();
            Ok(Continue)
        })
    };
    let kernel = answering("", [add("2").priority(2.0), add("1").priority(1.0)]);
    assert_eq!(chat(&kernel, "hi").await.unwrap().text(), "12");
}

#[tokio::test]
async fn a_failing_filter_fails_the_request_and_is_named() {
    let err = filter::pre_chat("broken", |_| Err("no such key".into()));
    let panic = filter::pre_chat("broken", |_| panic!("no such key"));
    let script = script("broken", "fn pre_chat(ctx) { ctx.messages[9].content }");
    for (filter, why) in
        [(err, "no such key"), (panic, "panicked: no such key"), (script, "index 9 is out of range")]
    {
        let (plugin, hook, cause) = failure(chat(&answering("hello", [filter]), "hi").await);
        assert_eq!((plugin.as_str(), hook.as_str()), ("broken", "pre_chat"));
        assert!(cause.contains(why), "{cause}");
    }
}

#[tokio::test]
async fn an_invalid_return_value_is_reported_with_the_valid_ones() {
    for hook in ["inlet(body)", "pre_chat(ctx)", "stream(event)", "post_chat(ctx)", "outlet(body)"] {
        let filter = script("odd", &format!("fn {hook} {{ 42 }}"));
        let (plugin, _, cause) = failure(chat(&answering("hello", [filter]), "hi").await);
        assert!(plugin == "odd" && cause.contains("returned a whole number; it returns `"), "{cause}");
    }
}

#[tokio::test]
async fn arguments_are_validated_before_the_tool_runs() {
    let closure = filter::pre_invocation("validate", |ctx| match ctx.args().get("required_field") {
        Some(_) => Ok(Continue),
        None => Ok(Reject("missing_required_field".into())),
    });
    let text = r#"fn pre_invocation(ctx) {
        if "required_field" in ctx.args { ctx } else { error("missing_required_field") }
    }"#;
    for filter in both(closure, text) {
        let kernel = tooled(echo(), [filter]);
        assert!(invoke(&kernel, "echo", r#"{"required_field":1}"#).await.is_ok());
        assert_eq!(rejection(invoke(&kernel, "echo", "{}").await).1, "missing_required_field");
    }
}

#[tokio::test]
async fn a_result_is_cached_and_the_tool_runs_once() {
    let runs = Arc::new(AtomicUsize::new(0));
    let slow = |runs: &Arc<AtomicUsize>| {
        let runs = runs.clone();
        Tool::from_json_fn("slow", move |_| Ok((runs.fetch_add(1, Ordering::Relaxed) as i64 + 1).into()))
    };
    let cache = |turn: &Turn| turn.metadata().ensure_path("cache", Json::object()).unwrap();
    let closures = [
        filter::pre_invocation("cache", move |ctx| match cache(ctx.turn()).get(&ctx.args().to_string()) {
            Some(kept) => Ok(Respond(kept)),
            None => Ok(Continue),
        }),
        filter::post_invocation("cache", move |ctx| {
            cache(ctx.turn()).set(&ctx.args().to_string(), ctx.result()).unwrap();
            Ok(Continue)
        }),
    ];
    let scripts = script(
        "cache",
        r#"
        fn pre_invocation(ctx, state) {
            let key = json::stringify(ctx.args);
            if key in state { skip(state[key]) } else { ctx }
        }
        fn post_invocation(ctx, state) { state[json::stringify(ctx.args)] = ctx.result; ctx }
        "#,
    );
    for filters in [Vec::from(closures), vec![scripts]] {
        runs.store(0, Ordering::Relaxed);
        let ask = calls("", &[("slow", r#"{"a":1}"#), ("slow", r#"{"a":1}"#), ("slow", r#"{"a":2}"#)]);
        let (builder, model) = asking([ask, "done".into()]);
        chat(&builder.tool(slow(&runs)).filters(filters).build(), "hi").await.unwrap();
        assert_eq!(texts_by_role(&model.requests()[1], "tool"), ["1", "1", "2"]);
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    }
}

#[tokio::test]
async fn permissions_are_checked_before_filters_of_a_higher_number() {
    let closure = filter::pre_invocation("auth", |ctx| {
        let name = ctx.tool().text("name").unwrap();
        let allowed = ctx.context().get_or("permissions", Json::array());
        match allowed.items().contains(&Json::from(name.clone())) {
            true => Ok(Continue),
            false => Ok(Reject(format!("unauthorized: {name}").into())),
        }
    })
    .priority(10.0);
    let text = r#"
        const Valves = #{ priority: 10 };
        fn pre_invocation(ctx) {
            let allowed = ctx.context.get("permissions", []);
            if ctx.tool.name in allowed { ctx } else { error(`unauthorized: ${ctx.tool.name}`) }
        }"#;
    for filter in both(closure, text) {
        let kernel = tooled(echo(), [recorder().priority(11.0), filter]);
        let anns = Context::new(json(r#"{"permissions":["echo"]}"#));
        assert!(kernel.invoke("echo", Json::object(), &anns).await.is_ok());
        let refused = kernel.invoke("echo", Json::object(), &Context::default()).await;
        assert_eq!(rejection(refused), ("auth".into(), "unauthorized: echo".into(), 400));
    }
}

#[tokio::test]
async fn a_call_is_logged_before_and_after() {
    let log =
        |turn: &Turn, when: &str, tool: String, what: Json| note(turn, &format!("{when}:{tool}:{what}"));
    let closures = vec![
        filter::pre_invocation("log_start", move |call| {
            log(call.turn(), "start", call.tool_name(), call.args());
            Ok(Continue)
        }),
        filter::post_invocation("log_end", move |call| {
            log(call.turn(), "end", call.tool_name(), call.result());
            Ok(Continue)
        }),
    ];
    let scripts = vec![
        script(
            "log_start",
            "fn pre_invocation(ctx) { ctx.metadata.ensure(\"notes\", []).push(`start:${ctx.tool.name}:${ctx.args}`); }",
        ),
        script(
            "log_end",
            "fn post_invocation(ctx) { ctx.metadata.ensure(\"notes\", []).push(`end:${ctx.tool.name}:${ctx.result}`); }",
        ),
    ];
    for filters in [closures, scripts] {
        let kernel = tooled(echo(), filters);
        let invoked = kernel.invoke("echo", json(r#"{"a":1}"#), &Context::default()).await.unwrap();
        assert_eq!(notes(&invoked.context), r#"start:echo:{"a":1} end:echo:{"a":1}"#);
    }
}

#[tokio::test]
async fn hooks_run_in_the_order_of_a_turn() {
    for filter in [recorder(), recording_script()] {
        let ask = calls("", &[("echo", "{}"), ("echo", "{}")]);
        let (builder, _) = asking([ask.clone(), "done".into(), ask, "done".into()]);
        let kernel = builder.tool(echo()).filter(filter).build();
        let whole = chat(&kernel, "hi").await.unwrap();
        let (round, call) = ("pre_chat stream stream_end post_chat", "pre_invocation post_invocation");
        assert_eq!(notes(&whole.context), format!("inlet {round} {call} {call} {round} outlet"));

        let streamed = stream(&kernel).await;
        let mut notes: Vec<String> = notes(streamed.turn.context()).split(' ').map(str::to_owned).collect();
        notes.dedup_by(|a, b| a == b && a == "stream");
        assert_eq!(notes.join(" "), format!("inlet {round} {call} {call} {round} outlet"));
    }
}

#[tokio::test]
async fn outlet_reads_metadata_written_by_inlet() {
    let closures = vec![
        filter::inlet("in", |ctx| {
            ctx.metadata().set("question", ctx.messages().at(0).unwrap().text("content")).unwrap();
            Ok(Continue)
        }),
        filter::outlet("out", |ctx| {
            let answer = ctx.messages().at(-1).unwrap();
            answer.set("content", ctx.metadata().get("question")).unwrap();
            Ok(Continue)
        }),
    ];
    let scripts = vec![
        script("in", "fn inlet(body, __metadata__) { __metadata__.question = body.messages[0].content; }"),
        script(
            "out",
            "fn outlet(body, __metadata__) { body.messages[-1].content = __metadata__.question; body }",
        ),
    ];
    for filters in [closures, scripts] {
        assert_eq!(chat(&answering("hello", filters), "what?").await.unwrap().text(), "what?");
    }
}

#[tokio::test]
async fn metadata_is_shared_within_a_turn_and_new_in_the_next() {
    let script = script(
        "seen",
        "fn inlet(body, __metadata__) { if \"seen\" in __metadata__ { throw \"old\"; } __metadata__.seen = 1; }
         fn post_invocation(ctx) { ctx.metadata.seen += 1; }
         fn outlet(body, __metadata__) { body.messages[-1].content = `seen ${__metadata__.seen}`; }",
    );
    let ask = calls("", &[("echo", "{}")]);
    let (builder, _) = asking([ask.clone(), Reply::text("done"), ask, Reply::text("done")]);
    let kernel = builder.tool(echo()).filter(script).build();
    for _ in 0..2 {
        assert_eq!(chat(&kernel, "hi").await.unwrap().text(), "seen 2");
    }
}

#[tokio::test]
async fn a_closure_and_a_script_change_the_same_answer() {
    let closure = filter::post_chat("one", |ctx| {
        ctx.result().set("content", "one").unwrap();
        Ok(Continue)
    });
    let script = script("two", "fn post_chat(ctx) { ctx.result.content += \" two\"; }");
    let kernel = answering("", [script.priority(1.0), closure]);
    assert_eq!(chat(&kernel, "hi").await.unwrap().text(), "one two");
}

#[tokio::test]
async fn filters_of_a_tool_run_for_that_tool_alone() {
    let mark = |name: &'static str| {
        filter::pre_invocation(name, move |ctx| {
            note(ctx.turn(), name);
            Ok(Continue)
        })
    };
    let mut own = echo();
    own.filters = vec![mark("own")];
    let other = Tool::from_json_fn("other", |args| Ok(args.into()));
    let filters = [mark("after").priority(1.0), mark("before").priority(-1.0)];
    let kernel = Kernel::builder().tools([own, other]).filters(filters).build();
    let call = async |name| kernel.invoke(name, Json::object(), &Context::default()).await.unwrap().context;
    assert_eq!(notes(&call("echo").await), "before own after");
    assert_eq!(notes(&call("other").await), "before after");
}

#[tokio::test]
async fn on_error_continue_ignores_a_failure_and_keeps_the_value() {
    let text = r#"/*
        on_error: continue
        */
        fn inlet(body) { body.messages[0].content = "spoilt"; body.messages[9]; }
        fn pre_chat(ctx) { ctx.messages.clear(); ctx.messages[9]; }
        fn post_chat(ctx) { ctx.result.content = "spoilt"; throw "a decision after the fact"; }
        fn pre_invocation(ctx) { ctx.args.a = 0; ctx.args.b.c.d; }
        fn outlet(body) { body.messages[-1].content = "spoilt"; 42 }"#;
    let after = script(
        "after",
        r#"fn pre_chat(ctx) { ctx.context.set("after", "live"); ctx.metadata.after = "live"; }"#,
    );
    let (builder, model) = asking([calls("", &[("echo", r#"{"a":1}"#)]), "hello".into()]);
    let kernel = builder.tool(echo()).filters([script("shaky", text), after]).build();
    let chat = chat(&kernel, "hi").await.unwrap();
    assert_eq!(chat.text(), "hello");
    assert_eq!(texts_by_role(&model.requests()[1], "user"), ["hi"]);
    assert_eq!(texts_by_role(&model.requests()[1], "tool"), [r#"{"a":1}"#]);
    assert_eq!(chat.context.get("after"), Some("live".into()), "the context stays the turn's");
    assert_eq!(chat.context.metadata().get("after"), Some("live".into()));
}

#[tokio::test]
async fn on_error_continue_still_lets_a_filter_reject() {
    let text = "/*\non_error: continue\n*/\nfn inlet(body) { deny(\"not today\", 403); }";
    let refused = chat(&answering("hello", [script("guard", text)]), "hi").await;
    assert_eq!(rejection(refused), ("guard".into(), "not today".into(), 403));
}

#[tokio::test]
async fn a_thrown_map_chooses_its_status() {
    let thrown = |map: &str| answering("x", [script("limit", &format!("fn inlet(body) {{ throw {map}; }}"))]);
    let refused = chat(&thrown(r#"#{ status: 429, message: "slow down", retry_after: 3 }"#), "hi").await;
    let Err(valvehouse::error::Error::Rejected(refused)) = refused else { panic!("{refused:?}") };
    assert_eq!(
        (refused.status, refused.message.as_str(), refused.retry_after),
        (429, "slow down", Some(3.0))
    );
    let odd = chat(&thrown(r#"#{ status: 200, message: "odd" }"#), "hi").await;
    assert_eq!(rejection(odd).2, 500, "what is not an error status becomes 500");
}

#[tokio::test]
async fn inlet_reroutes_and_host_fields_are_not_sent() {
    let filter = script(
        "route",
        r#"fn inlet(body) { body.model = "other"; body.metadata = #{ a: 1 }; body.seed = 7; }"#,
    );
    let (builder, model) = asking(["hello"]);
    let request =
        json(r#"{"temperature":0.5,"chat_id":"c","files":[],"features":{},"tool_ids":[],"filter_ids":[]}"#);
    let options = ChatOptions { request: Some(request), model: Some("m".into()), ..ChatOptions::default() };
    builder.filter(filter).build().chat_with_tools(vec![message::user("hi")], options).await.unwrap();
    let keys = model.requests()[0].as_object().unwrap().keys();
    assert_eq!(keys, ["temperature", "model", "messages", "seed"]);
    assert_eq!(model.requests()[0].text("model").unwrap(), "other");
}
