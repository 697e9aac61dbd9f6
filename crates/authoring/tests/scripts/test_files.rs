use valvehouse_authoring::testing::{Suite, SuiteOptions, TestResult};
use valvehouse_script::{Kind, Settings, SourceFile};

fn suite(kind: Kind, script: &str, tests: &str) -> Suite {
    let script = SourceFile::new(kind, "x", "filters/x.rhai", script);
    let tests = SourceFile::new(kind, "x", "filters/x.test.rhai", tests);
    Suite::open(&script, &tests, &Settings::default()).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    })
}

async fn ran(kind: Kind, script: &str, test: &str) -> TestResult {
    let tests = format!("fn test_it() {{\n{test}\n}}");
    suite(kind, script, &tests).run("test_it", &SuiteOptions::default()).await
}

async fn passes(kind: Kind, script: &str, test: &str) {
    if let Some(failed) = ran(kind, script, test).await.failed {
        panic!("{}\n{:?}", failed.problem, failed.differences());
    }
}

async fn fails(script: &str, test: &str) -> String {
    let failed = ran(Kind::Filter, script, test).await.failed.expect("it fails");
    let changes: Vec<String> =
        failed.differences().iter().map(|change| change.to_json().to_string()).collect();
    format!("{}\n{}", failed.problem, changes.join("\n"))
}

const LIMIT: &str = r#"
const Valves = #{ max: #{ value: 2, minimum: 1 } };
const UserValves = #{ bonus: 0 };
fn inlet(body, valves, __user__, state, __metadata__) {
    state.seen = body.messages.len();
    __metadata__.chat = "kept";
    if body.messages.len() > valves.max + __user__.valves.bonus {
        throw #{ message: `more than ${valves.max}`, status: 429 };
    }
    body.messages.append_system("Be brief.");
}
fn outlet(body, state, __metadata__) {
    body.messages[-1].content += ` (${state.seen}, ${__metadata__.chat})`;
}
fn double(n) { n * 2 }
"#;

#[tokio::test]
async fn hooks_run_on_a_copy_and_share_their_turn() {
    let test = r#"
        let body = conversation(["hi", "hello"]);
        let after = inlet(body);
        assert_eq(after.messages.len(), 3);
        assert_eq(after.messages.system, "Be brief.");
        assert_eq(body.messages.len(), 2);
        assert_eq(outlet("yes").messages.last("assistant").text, "yes (2, kept)");
        assert_eq(run_function("double", [4]), 8);
        assert(!seen::skipped());
    "#;
    passes(Kind::Filter, LIMIT, test).await;
}

#[tokio::test]
async fn a_test_sets_valves_and_users() {
    let test = r#"
        let long = conversation(["a", "b", "c"]);
        let refused = throws(|| inlet(long));
        assert_eq(refused.status, 429);
        assert_eq(refused.message, "more than 2");
        valves(#{ max: "3" });
        inlet(long);
        valves(#{});
        turn(#{ user: #{ id: "ann", valves: #{ bonus: 1 } } });
        inlet(long);
        assert_contains(throws(|| valves(#{ max: 0 })).message, "max");
        assert_contains(throws(|| valves(#{ maxx: 3 })).message, "did you mean `max`");
        assert_contains(throws(|| turn(#{ usr: 1 })).message, "did you mean `user`");
    "#;
    passes(Kind::Filter, LIMIT, test).await;
}

#[tokio::test]
async fn a_failed_assertion_has_a_position_and_a_difference() {
    let report =
        fails(LIMIT, r#"assert_eq(inlet("hi").messages, [#{ role: "user", content: "hi" }]);"#).await;
    assert!(
        report.starts_with(
            "filters/x.test.rhai:2:1: error[V703]: the actual value differs from the expected value"
        ),
        "{report}"
    );
    assert!(report.contains(r#"{"op":"add","path":"/0""#), "{report}");
    let report = fails(LIMIT, "try { assert(1 > 2, \"no\"); } catch { }").await;
    assert!(report.contains("x.test.rhai:2:7: error[V703]: no"), "{report}");
    let report = fails(LIMIT, "throws(|| inlet(\"hi\"));").await;
    assert!(report.contains("did not throw an error"), "{report}");
    let report = fails(LIMIT, "let x = nothing_here();").await;
    assert!(report.contains("x.test.rhai:2:9") && report.contains("nothing_here"), "{report}");
    for (call, help) in [
        ("seen::models();", "did you mean `seen::model`?"),
        ("assert_equal(1, 1);", "did you mean `assert_eq`?"),
        ("double(2);", "call a function of the script with `run_function(\"double\", [arguments])`"),
    ] {
        let report = fails(LIMIT, call).await;
        assert!(report.contains(help), "{report}");
    }
    let report = fails("fn pipe(body) { \"hi\" }", "pipe(#{});").await;
    assert!(report.contains("run a whole turn with the pipe: `chat(request)`"), "{report}");
    let report = fails(LIMIT, "let n = 0;\nloop {\n n += 1;\n }").await;
    assert!(report.contains("x.test.rhai:4:"), "{report}");
    let report = fails(LIMIT, "inlet(conversation([\"a\", \"b\", \"c\"]));").await;
    assert!(report.contains("more than 2"), "{report}");
}

#[tokio::test]
async fn streams_in_tests_equal_those_of_an_endpoint() {
    let script = r#"
        fn stream(event, state) {
            stream::window(event, state, 30, |text| regex::replace(text, "sk-[a-z]{6,20}", "[key]"));
        }
        fn stream_end(state) { "!" }
    "#;
    let test = r#"
        let out = stream(["my sk-abc", "defghi", " key"]);
        assert_eq(out.text, "my [key] key!");
        assert_eq(out.finish_reason, "stop");
        let thought = stream([#{ reasoning_content: "hm" }, "yes", #{ finish_reason: "length" }]);
        assert_eq(thought.reasoning, "hm");
        assert_eq(thought.text, "yes!");
        assert_eq(thought.finish_reason, "length");
        let called = stream([#{ tool_calls: [#{ name: "f", arguments: #{ a: 1 } }] }]);
        assert_eq(called.tool_calls[0]["function"].name, "f");
    "#;
    passes(Kind::Filter, script, test).await;
}

#[tokio::test]
async fn a_test_mocks_models_hosts_answers_files_and_the_clock() {
    let script = r#"/*
requirements: http, llm, kv, files, env
allow_hosts: api.example.com
*/
fn inlet(body) {
    let answer = http::get("https://api.example.com/x", #{ query: #{ q: "1" } });
    emit(#{ type: "status", data: #{ description: "asking" } });
    let reply = llm::chat(#{ messages: [#{ role: "user", content: answer.json().word }] });
    kv::set("reply", reply.content, 60);
    let sure = ask(#{ type: "confirmation", data: #{} });
    body.out = [answer.status, reply.content, sure, env::get("NAME"), files::read("data/a.txt"), time::unix()];
    print("done");
}
"#;
    let test = r#"
        canned::http("https://api.example.com/*", #{ json: #{ word: "hi" } });
        canned::model("hello");
        canned::answer(true);
        canned::env("NAME", "value");
        canned::file("data/a.txt", "text");
        clock::set("2026-11-21T10:00:00Z");
        let now = time::unix();
        assert_eq(inlet("go").out, [200, "hello", true, "value", "text", now]);
        assert_eq(seen::http()[0].url, "https://api.example.com/x?q=1");
        assert_eq(seen::model()[0].messages[0].content, "hi");
        assert_eq(seen::events().map(|event| event.type), ["status", "confirmation"]);
        assert_eq(seen::log(), [#{ level: "info", text: "done" }]);
        assert_eq(kv::get("reply"), "hello");
        clock::advance(61);
        assert_eq(kv::get("reply"), ());
    "#;
    passes(Kind::Filter, script, test).await;
    let refused = fails(script, "inlet(\"go\");").await;
    assert!(refused.contains("missing canned answer for GET https://api.example.com/x"), "{refused}");
    let elsewhere = script.replace("https://api.example.com/x", "https://example.org/");
    let refused = fails(&elsewhere, "inlet(\"go\");").await;
    assert!(refused.contains("example.org` is not one of the hosts"), "{refused}");
    let unasked =
        fails(script, "canned::http(\"*\", #{ json: #{ word: \"hi\" } }); try { inlet(\"go\"); } catch {}")
            .await;
    assert!(unasked.contains("called 1 time and 0 answers canned"), "{unasked}");
}

#[tokio::test]
async fn a_chat_in_a_test_is_a_complete_turn() {
    let script = r#"
        fn inlet(body) { body.messages.append_system("S"); }
        fn stream(event) { event.text = event.text.to_upper(); }
        fn post_invocation(ctx) { ctx.result = `<${ctx.result}>`; }
        fn outlet(body) { body.messages[-1].content += "!"; }
    "#;
    let test = r#"
        canned::tool("clock", "noon");
        canned::model(#{ tool_calls: [#{ name: "clock" }] });
        canned::model(["it is ", "noon"]);
        let out = chat("when?", #{ stream: true });
        assert_eq(out.text, "IT IS NOON!");
        assert_eq(out.messages.filter(|message| message.role == "tool")[0].content, "<noon>");
        assert(out.events.len() > 2);
        canned::model(#{ error: "down", status: 503 });
        assert_contains(throws(|| chat("again")).message, "503");
    "#;
    passes(Kind::Filter, script, test).await;
    let pipe = "fn pipe(body) { `you said ${body.messages.last(\"user\").text}` }";
    passes(Kind::Filter, pipe, "assert_eq(chat(\"hi\").text, \"you said hi\");").await;
}

#[tokio::test]
async fn a_test_calls_tools_like_a_model() {
    let script = r#"
        const parameters = #{ n: #{ type: "integer", required: true, minimum: 1 } };
        fn handler(args, ctx) {
            ctx.set("calls", ctx.get("calls", 0) + 1);
            if args.n > 9 { return error("too much"); }
            #{ twice: args.n * 2, calls: ctx.get("calls") }
        }
    "#;
    let test = r#"
        assert_eq(invoke(#{ n: "2" }), #{ twice: 4, calls: 1 });
        assert_eq(invoke(#{ n: 3 }), #{ twice: 6, calls: 2 });
        assert_eq(throws(|| invoke(#{ n: 10 })).message, "too much");
        assert_contains(throws(|| invoke(#{})).message, "n");
    "#;
    passes(Kind::Tool, script, test).await;
    let ran = ran(Kind::Tool, script, "print(`n ${invoke(#{ n: 1 }).twice}`);").await;
    assert_eq!(ran.called, ["x"]);
    assert_eq!(ran.printed, [("info", "n 2".to_owned())]);
}

#[tokio::test]
async fn an_invalid_test_file_is_reported() {
    let script = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", "fn inlet(body) {}");
    for (tests, wrong) in [
        ("fn helper() {}", "no test"),
        ("fn test_a(x) {}", "must not have parameters"),
        ("fn test_a() { nope }", "undefined variable"),
        ("fn test_a( {}", "expecting"),
    ] {
        let tests = SourceFile::new(Kind::Filter, "x", "filters/x.test.rhai", tests);
        let problems = Suite::open(&script, &tests, &Settings::default()).err().expect("it is refused");
        assert!(problems[0].message.contains(wrong), "{}", problems[0]);
    }
}

const WRITES: &str = r#"
fn inlet(body) {
    body.metadata?.seen = 1;
    body.messages[0]?.extra?["a"] = 2;
    let own = #{ known: #{} };
    own.known?.a = 3;
    own?.known.b = 4;
    body.own = own;
    body.messages[0]?.content = "written";
}
fn outlet(body) {
    body.metadata.seen = 1;
}
fn add() {
    let own = #{};
    own.a.b = 1;
}
"#;

#[tokio::test]
async fn an_assignment_to_an_absent_value_names_it() {
    let test = r#"
        let after = inlet(conversation(["hi"]));
        assert_eq(after.own, #{ known: #{ a: 3, b: 4 } });
        assert_eq(after.messages[0].content, "written");
        assert(!("metadata" in after));
        assert_eq(seen::log().map(|line| line.level + " " + line.text), [
            "warn line 3: cannot assign through `?.`: `body.metadata` is (), and the value is dropped",
            "warn line 4: cannot assign through `?.`: `body.messages[0]?.extra` is (), and the value is dropped",
        ]);
    "#;
    passes(Kind::Filter, WRITES, test).await;
    let guard = format!("/*\nsecurity: true\n*/{WRITES}");
    let report = fails(&guard, r#"inlet(conversation(["hi"]));"#).await;
    assert!(report.contains("cannot assign through `?.`: `body.metadata` is ()"), "{report}");
    assert!(report.contains("a guard must not lose an assignment"), "{report}");
    for (call, wanted) in [
        (r#"outlet(conversation(["hi", "answer"]));"#, "`body.metadata` is ()"),
        (r#"run_function("add", []);"#, "`own.a` is ()"),
    ] {
        let report = fails(WRITES, call).await;
        assert!(report.contains(wanted), "{call}: {report}");
    }
}
