//! Tests of model-written code that calls the tools of its turn as functions; filters see each inner call.

use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_core::context::Context;
use valvehouse_core::error::{Error, Rejection};
use valvehouse_core::filter::{self, Verdict};
use valvehouse_core::kernel::{Kernel, KernelBuilder, find_tools};
use valvehouse_core::tool::{Tool, ToolError};
use valvehouse_json::Json;

#[global_allocator]
static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();

fn tools() -> KernelBuilder {
    let plus = Tool::from_json_fn("shop_plus", |args| {
        let of = |key| args.get(key).and_then(|value| value.as_i64()).unwrap_or(0);
        Ok((of("a") + of("b")).into())
    });
    let fails = Tool::from_json_fn("shop_fails", |_| Err("out of stock".into()));
    let fatal = Tool::from_json_fn("shop_ends", |_| {
        Err(ToolError { fatal: true, ..ToolError::from("the turn has to end") })
    });
    let long = Tool::from_json_fn("with-dash", |_| Ok("dashed".into()));
    let print = Tool::from_json_fn("print", |_| Ok("printed".into()));
    Kernel::builder().tools([
        plus,
        fails,
        fatal,
        long,
        print,
        find_tools(true),
        valvehouse_script::run_script(),
    ])
}

async fn run(kernel: &Kernel, code: &str) -> Result<Json, Error> {
    let args = Json::from([("code", code.into())]);
    kernel.invoke("run_script", args, &Context::default()).await.map(|invoked| invoked.value)
}

async fn refused(kernel: &Kernel, code: &str) -> String {
    match run(kernel, code).await {
        Err(Error::Rejected(Rejection { message, .. })) => message,
        other => panic!("{code}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_functions_and_the_last_value_is_the_result() {
    let kernel = tools().build();
    for (code, expected) in [
        (
            "let sum = 0;\nfor a in 1..=3 { sum += shop_plus(#{ a: a, b: 10 }) }\n#{ sum: sum }",
            r#"{"sum":36}"#,
        ),
        ("let twice = |x| shop_plus(#{ a: x, b: x }); twice.call(4) // the last", "8"),
        (r#"tools::call("with-dash")"#, r#""dashed""#),
        (
            r#"tools::all([#{ name: "shop_plus", args: #{ a: 1 } }, #{ name: "with-dash" }])"#,
            r#"[1,"dashed"]"#,
        ),
        (
            r#"let reply = ""; try { shop_fails(); } catch (error) { reply = `no: ${error}`; } reply"#,
            r#""no: tools::call: shop_fails: out of stock""#,
        ),
        (r#"tools::call("find_tools", #{ query: "plus", limit: 1 }).tools[0].name"#, r#""shop_plus""#),
        // A tool does not shadow a built-in function.
        (r#"print("x"); tools::call("print")"#, r#""printed""#),
        ("let a = 1;", "null"),
    ] {
        assert_eq!(
            run(&kernel, code).await.unwrap_or_else(|error| panic!("{code}: {error}")).to_string(),
            expected,
            "{code}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_see_each_inner_call_and_may_reject_it() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = seen.clone();
    let guard = filter::pre_invocation("guard", move |ctx| {
        let name = ctx.tool_name();
        noted.lock().push(format!("{name} of {}", ctx.caller().unwrap_or_default()));
        if ctx.args().field("a").as_i64() == Some(2) {
            return Ok(Verdict::Reject(Rejection::new("two is not allowed")));
        }
        Ok(Verdict::Continue)
    });
    let kernel = tools().filter(guard).build();
    let code = "[1, 2].map(|a| { let r = (); try { r = shop_plus(#{ a: a }); } catch (error) { r = error.message; } r })";
    let value = run(&kernel, code).await.unwrap().to_string();
    assert_eq!(value, r#"[1,"tools::call: shop_plus: two is not allowed"]"#);
    assert_eq!(*seen.lock(), ["run_script of ", "shop_plus of run_script", "shop_plus of run_script"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn code_of_a_model_reaches_only_tools_and_passes_the_filters() {
    let kernel = tools().build();
    for (code, says) in [
        (r#"http::get("http://127.0.0.1:1")"#, "line 1: `http` is not allowed in code of a model"),
        (
            r#"let x = 1;
            files::read("/etc/passwd")"#,
            "line 2: `files` is not allowed in code of a model",
        ),
        (r#"kv::get("a")"#, "`kv` is not allowed in code of a model"),
        (r#"emit(#{ type: "message", data: #{ content: "secret" } })"#, "cannot send an event"),
        (r#"Fn("emit").call(#{ type: "message", data: #{ content: "secret" } })"#, "cannot send an event"),
        (r#"__event_emitter__(#{ type: "message" })"#, "cannot send an event"),
        (r#"ask(#{ type: "input", data: #{} })"#, "cannot ask"),
        ("after(|| 1)", "cannot run a function after the answer outside of a turn"),
        (r#"yield_text("x")"#, "outside of `fn pipe(body)`"),
        (r#"import "secrets" as s; s::x"#, ""),
        (r#"eval("1")"#, ""),
        ("hidden_tool(#{})", "hidden_tool"),
        (r#"tools::call("hidden")"#, "unknown tool `hidden`"),
        ("shop_plus(1)", "`arguments` must be a map"),
        ("let a = ;", "line 1: "),
        ("/* never closed", "cannot compile the code"),
    ] {
        let message = refused(&kernel, code).await;
        assert!(message.contains(says), "{code}: {message}");
        assert!(!message.contains("valvehouse grant"), "{code}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_code_ends_within_its_budget() {
    let kernel = tools().build();
    let long = format!("let a = \"{}\"; a", "x".repeat(1 << 20));
    let nested = "(".repeat(20_000);
    for (code, says) in [
        ("loop {}", "exceeded its limit of"),
        ("let a = \"x\"; loop { a += a; }", ""),
        ("let a = []; loop { a.push(a); }", ""),
        ("loop { shop_plus(#{}) }", "may call at most 256 tools"),
        (r#"tools::call("run_script", #{ code: "1/0" })"#, "division by zero"),
        (long.as_str(), "bytes and exceeded its limit"),
        (nested.as_str(), "cannot compile the code"),
    ] {
        let message = refused(&kernel, code).await;
        assert!(message.contains(says), "{}: {message}", &code[..code.len().min(40)]);
    }
    // A script that calls itself.
    let mut code = "1".to_owned();
    for _ in 0..5 {
        code = format!("tools::call(\"run_script\", #{{ code: {code:?} }})");
    }
    let message = refused(&kernel, &code).await;
    assert!(message.contains("nested more than 4 deep"), "{message}");
    // A query of megabytes.
    let query = Json::from([("query", "word ".repeat(1 << 20).into())]);
    let found = kernel.invoke("find_tools", query, &Context::default()).await;
    assert!(found.unwrap_err().to_string().contains("a query has at most 1000"));
}

/// Runs code on which a parser could take too long or exceed its stack.
#[tokio::test(flavor = "multi_thread")]
async fn random_code_returns_a_value_or_an_error() {
    let kernel = tools().build();
    let most = 32 << 10;
    for (before, part, after) in [
        ("", "1+", "1"),
        ("", "!", "true"),
        ("", "-", "1"),
        ("", "(", ""),
        ("", "[", ""),
        ("", "#{a:", ""),
        ("let a = #{}; a", ".a", ""),
        ("let a = []; a", "[0]", ""),
        ("let a = #{}; a", "?.a", ""),
        ("let a = 1; a", "=a", ""),
        ("", "if true {} else ", "{}"),
        ("", "if true {", ""),
        ("", "||", "1"),
        ("", "|a|", "1"),
        ("", "`${", ""),
        ("", "print(", ""),
        ("", "print(1);", "1"),
        ("", "1??", "1"),
        ("", "1&&", "1"),
        ("", "1 in ", "1"),
        ("", "switch 1 { _ => ", "1"),
        ("", "let a = 1;", "1"),
        ("", "} fn f() {", ""),
        ("", "try {", ""),
        ("", "do {", ""),
        ("", "\u{feff}", "1"),
        ("", "\0", ""),
        ("", "tools::", ""),
        ("", "\"a\"+", "\"\""),
        ("regex::is_match(\"a\", \"", "(a{1,99}", "\")"),
    ] {
        let count = (most - before.len() - after.len()) / part.len();
        for count in [count, count / 8, 100] {
            let code = format!("{before}{}{after}", part.repeat(count));
            // The run must end, and must not crash.
            drop(run(&kernel, &code).await);
        }
    }
    assert_eq!(run(&kernel, "1").await.unwrap().to_string(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_cannot_catch_errors_that_end_the_turn() {
    let kernel = tools().build();
    let code = "try { shop_ends() } catch { } try { shop_plus(#{}) } catch { } \"went on\"";
    match run(&kernel, code).await {
        Err(Error::Rejected(rejection)) => {
            assert!(rejection.fatal && rejection.message.contains("has to end"), "{rejection:?}");
        }
        other => panic!("{other:?}"),
    }
    // The code cannot end the turn by itself either.
    match run(&kernel, "throw #{ message: \"stop\", fatal: true }").await {
        Err(Error::Rejected(rejection)) => assert!(!rejection.fatal, "{rejection:?}"),
        other => panic!("{other:?}"),
    }
}
