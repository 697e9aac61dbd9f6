//! Scripts as their authors meet them: what loads, what does not and why, what a call may spend.

use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_core::context::{Context, Events, Questions, Turn, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::filter::{Chain, ChainOutcome, Hook};
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, Kind, Script, Settings, SourceFile};

fn compile(text: &str) -> Result<Script, Vec<Diagnostic>> {
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    Script::compile(&file, &Settings::default())
}

fn report(text: &str) -> String {
    match compile(text) {
        Ok(script) => script.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

async fn run_in(text: &str, hook: Hook, value: Json, turn: &Turn) -> Result<Json, Error> {
    let script = compile(text).unwrap_or_else(|problems| panic!("{problems:?}"));
    let chain = Chain::new(vec![Arc::new(script).into_filter(Arc::default())]);
    match chain.run(hook, value, turn).await? {
        ChainOutcome::Done(value) | ChainOutcome::Skipped(value) => Ok(value),
    }
}

async fn run(text: &str) -> Result<Json, Error> {
    run_in(text, Hook::Inlet, Json::parse(br#"{"messages":[]}"#).unwrap(), &Turn::default()).await
}

#[test]
fn load_errors_have_position_reason_and_help() {
    let cases: [(&str, &[&str]); 26] = [
        ("fn inlet(body) {\n  let x = body.messages.len(;\n}", &["filters/x.rhai:2:29", "^"]),
        (
            "fn inlet(body, usr) { }",
            &["unknown parameter `usr`", "filters/x.rhai:1:16", "parameters of `inlet` are body, valves"],
        ),
        ("fn inlet(body, __usr__) { }", &["did you mean `__user__`?"]),
        ("fn stream(body) { }", &["unknown parameter `body`", "parameters of `stream` are event"]),
        ("fn inlet(body) { let x = try { 1 } catch { 2 }; }", &["`try` has no value"]),
        ("fn inlet(body, user) { }", &["did you mean `__user__`?"]),
        (
            "const Valves = #{ x: 1 };\nfn inlet(body) {\n  Valves.x = 2;\n}",
            &["the constant `Valves`", ":3:3"],
        ),
        ("fn inlet(body) { if body['model'] == 1 { } }", &["double quotes"]),
        ("fn inlet(body) { let m = null; }", &["write `()` for no value"]),
        ("fn inlet(body) { let y = true ? 1 : 2; }", &["if a { b } else { c }"]),
        ("fn inlet(body) { body.messages.push({\"role\": \"user\"}); }", &["write a map as `#{"]),
        ("fn inlet(body) { if body.a { } elif body.b { } }", &["write `else if`"]),
        (
            "/*\nrequirements: kw\n*/\nfn inlet(body) {}",
            &["unknown requirement `kw`", "did you mean `kv`?", ":2:"],
        ),
        ("/*\nrequired_host_version: 99.0.0\n*/\nfn inlet(body) {}", &["99.0.0", "this host has 0.1.0"]),
        ("/*\non_error: ignore\n*/\nfn inlet(body) {}", &["invalid `on_error`: ignore", "abort or continue"]),
        (
            "const Valves = make();\nfn make() { #{} }\nfn inlet(body) {}",
            &["cannot compute `Valves`", "literal values only"],
        ),
        ("const Valves = 5;\nfn inlet(body) {}", &["expected a map"]),
        ("fn inlet(body) { body.x = limit; }", &["limit", "declare `limit` as a parameter"]),
        ("def inlet(body):\n  return body", &["cannot read Python"]),
        ("fn inlet(body) { eval(\"1\") }", &["eval"]),
        ("fn inlett(body) { body }", &["`inlett` is not a hook; did you mean `inlet`?"]),
        (
            "fn inlet(body) {\n  kv::set(\"a\", 1);\n}",
            &["`kv` is used but not declared in `requirements`", ":2:", "requirements: kv"],
        ),
        ("fn inlet(body) { http::get(\"x\"); }", &["`http` is used but not declared in `requirements`"]),
        (
            "/*\nrequirements: http\n*/\nfn inlet(body) {}",
            &["the script is not allowed to use `http`", ":2:", "allow_hosts"],
        ),
        ("fn inlet(body) { regex::find(\"a\", \"(?=b)\"); }", &["filters/x.rhai:1:", "look"]),
        ("import \"../secret\" as s; fn inlet(body) { }", &["invalid module path `../secret`"]),
    ];
    for (text, words) in cases {
        let report = report(text);
        for word in words {
            assert!(report.contains(word), "{text}\n{report}\nlacks {word}");
        }
    }
}

#[tokio::test]
async fn the_overload_with_the_most_parameters_is_used() {
    let body = run("fn inlet(body) { body.n = 1; } fn inlet(body, valves) { body.n = 2; }").await.unwrap();
    assert_eq!(body.get("n"), Some(2_i64.into()));
}

#[tokio::test]
async fn no_call_spends_more_than_its_budget() {
    let cases = [
        "fn inlet(body) { loop { } }",
        "fn inlet(body) { let a = []; for i in 0..1000000 { a.push(i); a.map(|x| { let n = 0; while n < 1000 { n += 1; } }); } }",
        "fn inlet(body) { try { loop { } } catch (e) { loop { } } }",
        "fn f(n) { f(n + 1) } fn inlet(body) { f(0) }",
        "fn inlet(body) { let s = \"x\"; loop { s += s; } }",
        "fn inlet(body) { let a = [1]; loop { a += a; } }",
        "fn inlet(body) { let p = || 1; for i in 0..100000 { let q = p; p = || q; } }",
        "fn inlet(body) { let c = body; for i in 0..100000 { c.a = #{}; c = c.a; } }",
        "fn inlet(body) { sleep(60); }",
        "fn inlet(body) { loop { body.messages.push(#{ role: \"user\", content: \"x\" }); } }",
    ];
    for text in cases {
        let began = Instant::now();
        let ended = run(text).await;
        // A script that ends by itself within its budget may; another must be ended.
        assert!(ended.is_err() || text.contains("for i in 0..100000"), "{text}: {ended:?}");
        assert!(began.elapsed() < Duration::from_secs(3), "{text}: {:?}", began.elapsed());
    }
    let error = run("fn inlet(body) { loop { } }").await.unwrap_err();
    let Error::Broken(failure) = error else { panic!("{error:?}") };
    assert_eq!((failure.plugin.as_str(), failure.hook.as_str()), ("x", "inlet"));
    assert!(failure.cause.contains("exceeded its"), "{}", failure.cause);
}

#[tokio::test]
async fn time_of_other_calls_does_not_count_against_a_call() {
    let text = "fn inlet(body) { let n = 0; while n < 1000 { n += 1; } }";
    let settings = Settings { hook: Settings::default().stream, ..Settings::default() };
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    let script = Arc::new(Script::compile(&file, &settings).unwrap());
    let chain = Chain::new(vec![script.into_filter(Arc::default())]);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..4 * std::thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
        let began = Instant::now();
        let mut results = Vec::new();
        while began.elapsed() < Duration::from_millis(500) {
            let body = Json::parse(br#"{"messages":[]}"#).unwrap();
            results.push(futures::executor::block_on(chain.run(Hook::Inlet, body, &Turn::default())));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        let broken: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
        assert!(broken.is_empty(), "{} of {}: {}", broken.len(), results.len(), broken[0]);
    });
}

#[tokio::test]
async fn a_racing_script_does_not_sleep_through_its_budget() {
    let raced = "fn inlet(body) { let a = [1]; loop { try { a.map(|v| a.len()); } catch { } } }";
    let error = run(raced).await.unwrap_err();
    // Otherwise it would sleep until its limit of elapsed time.
    assert!(error.to_string().contains("exceeded its"), "{error}");
}

#[tokio::test]
async fn rejections_carry_the_fields_set_by_the_script() {
    let cases = [
        ("throw \"no\";", 400, "no", None),
        ("throw #{status: 429, message: \"slow\", retry_after: 3};", 429, "slow", Some(3.0)),
        ("deny(\"go\");", 400, "go", None),
        ("deny(\"go\", 403);", 403, "go", None),
        ("deny(\"odd\", 200);", 500, "odd", None),
        ("return error(\"why\");", 400, "why", None),
        ("return error(#{message: \"why\", status: 451});", 451, "why", None),
        ("try { deny(\"in\", 418); } catch (e) { throw e; }", 418, "in", None),
    ];
    for (code, status, message, retry_after) in cases {
        let error = run(&format!("fn inlet(body) {{ {code} }}")).await.unwrap_err();
        let Error::Rejected(rejection) = error else { panic!("{code}: {error:?}") };
        assert_eq!((rejection.status, rejection.message.as_str()), (status, message), "{code}");
        assert_eq!(rejection.retry_after, retry_after, "{code}");
        assert_eq!(rejection.plugin, "x");
    }
}

#[tokio::test]
async fn a_script_error_names_file_function_and_position() {
    let error = run("fn helper(b) {\n  b.nothing.deeper.still\n}\nfn inlet(body) {\n  helper(body);\n}")
        .await
        .unwrap_err();
    let Error::Broken(failure) = error else { panic!("{error:?}") };
    assert!(failure.cause.starts_with("filters/x.rhai:2:"), "{}", failure.cause);
    assert!(failure.cause.contains("helper called at filters/x.rhai:5:"), "{}", failure.cause);
    let error = run("fn inlet(body) { body.a.b = 1; }").await.unwrap_err();
    assert!(error.to_string().contains("is `()`; set it first"), "{error}");
    let error = run("fn inlet(body) { body.a.b }").await.unwrap_err();
    assert!(error.to_string().contains("write `?.`"), "{error}");
    let error = run("fn inlet(body) { 42 }").await.unwrap_err();
    assert!(error.to_string().contains("inlet returned a whole number"), "{error}");
    let error = run("fn inlet(body) { body.messages = 1; }").await.unwrap_err();
    assert!(error.to_string().contains("expected an array, got number"), "{error}");
    let error = run("fn inlet(body) { body.f = || 1; }").await.unwrap_err();
    assert!(error.to_string().contains("a function is not a JSON value"), "{error}");
    let error = run("fn inlet(body) { body.f = 0.0 / 0.0; }").await.unwrap_err();
    assert!(error.to_string().contains("is not a JSON number"), "{error}");
}

#[tokio::test]
async fn events_are_emitted_in_order_also_before_an_error() {
    let turn = Turn::default();
    let text = r#"fn inlet(body, __event_emitter__) {
        emit(#{ type: "status", data: #{ description: "one" } });
        __event_emitter__.call(#{ type: "status", data: #{ description: "two" } });
        throw "stop";
    }"#;
    let body = Json::parse(br#"{"messages":[]}"#).unwrap();
    run_in(text, Hook::Inlet, body.clone(), &turn).await.unwrap_err();
    let events = turn.events().take();
    let descriptions: Vec<String> =
        events.iter().map(|event| event.0.at_path("data.description").to_string()).collect();
    assert_eq!(descriptions, [r#""one""#, r#""two""#]);
    let error = run("fn inlet(body) { emit(#{ data: 1 }); }").await.unwrap_err();
    assert!(error.to_string().contains("a map with a `type`"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_an_answer_does_not_count_as_run_time() {
    let text = r#"fn inlet(body, __event_call__) {
        body.answer = ask(#{ type: "input", data: #{ title: "?" }, timeout: 5000 });
        try { __event_call__.call(#{ type: "input", data: (), timeout: 50 }); } catch (e) { body.late = e.message; }
    }"#;
    let questions = Questions::default();
    let answers = questions.clone();
    let first = std::sync::atomic::AtomicBool::new(true);
    let listener = move |event: &valvehouse_core::context::EmittedEvent| {
        let id = event.0.text("id").unwrap().to_string();
        if first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            let answers = answers.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                answers.answer(&id, "yes".into())
            });
        }
    };
    let turn =
        Turn::new(TurnFacts::default(), Context::default(), Events::listening(listener, Some(questions)));
    let body = Json::parse(br#"{"messages":[]}"#).unwrap();
    let body = run_in(text, Hook::Inlet, body, &turn).await.unwrap();
    assert_eq!(body.text("answer").unwrap(), "yes");
    assert_eq!(body.text("late").unwrap(), "no answer within 50 ms");
    // Without anybody listening a question fails at once.
    let error = run("fn inlet(body) { ask(#{ type: \"input\" }) }").await.unwrap_err();
    assert!(error.to_string().contains("nobody can answer"), "{error}");
}

#[tokio::test]
async fn valves_are_layered_from_script_configuration_and_store() {
    let text = "const Valves = #{ a: 1, b: 1, c: #{ value: 1, maximum: 5 } };\nfn inlet(body, valves) { body.out = [Valves.a, valves.b, Valves.c]; }";
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    let settings = Settings {
        configured: Json::parse(br#"{"a":2,"b":2}"#).unwrap(),
        stored: Json::parse(br#"{"b":"3","c":9}"#).unwrap(),
        ..Settings::default()
    };
    let script = Script::compile(&file, &settings).unwrap();
    let warnings: Vec<String> = script.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("`c`"), "{warnings:?}");
    let chain = Chain::new(vec![Arc::new(script).into_filter(Arc::default())]);
    let body = Json::parse(br#"{"messages":[]}"#).unwrap();
    let ChainOutcome::Done(body) = chain.run(Hook::Inlet, body, &Turn::default()).await.unwrap() else {
        panic!()
    };
    assert_eq!(body.get("out").unwrap().to_string(), "[2,3,1]");
}

#[test]
fn valves_keep_the_order_in_which_they_were_written() {
    let script = compile("const Valves = #{ zeta: 60 * 60, alpha: #{ value: 1, minimum: 0 }, mid: [2, 1] };\nfn inlet(body) {}").unwrap();
    assert_eq!(script.valves.to_string(), r#"{"zeta":3600,"alpha":1,"mid":[2,1]}"#);
}

#[tokio::test]
async fn the_map_of_a_script_outlives_a_turn_and_is_private() {
    let text = r#"/*
    requirements: kv
    */
    fn inlet(body, __user__) {
        kv::incr("turns");
        kv::user::set("name", __user__.name, 60);
        kv::chat::set("last", body.say);
        let list = kv::update("list", |old| (old ?? []) + [body.say]);
        body.out = [kv::get("turns"), kv::user::get("name"), kv::chat::get("last"), list.len(), kv::keys("l"), kv::get("none", 7)];
        body.window = kv::window("w", 60, 2);
        kv::set("gone", 1);
        kv::set("gone", ());
        body.gone = kv::delete("gone");
    }"#;
    let script = Arc::new(compile(text).unwrap_or_else(|problems| panic!("{problems:?}")));
    let chain = Chain::new(vec![script.into_filter(Arc::default())]);
    let mut out = Vec::new();
    for (user, chat) in [("ann", "1"), ("bob", "2"), ("ann", "")] {
        let facts = TurnFacts {
            user: Json::from([("id", user.into()), ("name", user.to_uppercase().into())]),
            chat_id: chat.into(),
            ..TurnFacts::default()
        };
        let turn = Turn::new(facts, Context::default(), Events::default());
        let body = Json::from([("messages", Json::array()), ("say", user.into())]);
        let ChainOutcome::Done(body) = chain.run(Hook::Inlet, body, &turn).await.unwrap() else { panic!() };
        assert_eq!(body.get("gone"), Some(false.into()));
        out.push(format!("{} {}", body.get("out").unwrap(), body.at_path("window.allowed")));
    }
    assert_eq!(
        out,
        [
            r#"[1,"ANN","ann",1,["list"],7] true"#,
            r#"[2,"BOB","bob",2,["list"],7] true"#,
            r#"[3,"ANN","ann",3,["list"],7] false"#,
        ]
    );
}

#[test]
fn suspicious_but_legal_code_is_a_warning() {
    let cases = [
        (
            "fn inlet(body) { let l = [1]; body.x = l.push(2); }",
            "changes the value before the dot in place",
            ":1:",
        ),
        ("fn inlet(body) {\n  let a = `one\\ntwo ${body.model} \\t`;\n}", "is not an escape", ":2:15"),
        (
            "fn inlet(body) { let n = 0; for m in body.messages { if m.role == \"user\" { n += 1; } } }",
            ".count(role)",
            ":1:",
        ),
    ];
    for (text, words, place) in cases {
        let report = report(text);
        assert!(
            report.contains("warning") && report.contains(words) && report.contains(place),
            "{text}\n{report}"
        );
    }
    let fine = [
        "fn inlet(body) { body.model.trim(); let s = \"a\\n\"; s.replace(\"a\", \"b\"); }",
        "// `\\n`\nfn inlet(body) { let a = `x ${\"\\n\" + `y`} z`; let b = text::trim(a); }",
        "fn inlet(body) { for m in body.messages { if m.role == \"user\" { m.content += \"x\"; } } }",
    ];
    for text in fine {
        assert_eq!(report(text), "", "{text}");
    }
}

#[test]
fn a_function_that_shadows_one_of_the_host_is_reported() {
    let cases = [
        (
            "fn inlet(body) { deny(1) }\nfn deny(a) { }",
            "x.rhai:2:4: error[V506]: `deny` replaces the host's function `deny(_)`",
        ),
        ("fn skip(a) { a } fn inlet(body) { }", "1:4: error[V506]: `skip`"),
        ("fn ask(a) { a } fn inlet(body) { }", "error[V506]: `ask`"),
        ("fn emit(a) { a } fn inlet(body) { }", "error[V506]: `emit`"),
        (
            "fn push(a, b) { } fn inlet(body) { }",
            "warning[V506]: `push` replaces the host's function `push(_, _)`",
        ),
        ("fn inlet(body) { }\nprivate fn  len(x) { 1 }", ":2:13: warning[V506]: `len`"),
        ("fn print(x) { } fn inlet(body) { }", "1:4: error[V105]: 'print' is a reserved keyword"),
        ("fn count(role) { } fn inlet(body) { body.n = body.messages.count(1); }", "`value.count(_)`"),
    ];
    for (text, words) in cases {
        let report = report(text);
        assert!(report.contains(words) && report.contains("rename it"), "{text}\n{report}");
    }
    for text in [
        "fn deny_it(a) { } fn inlet(body) { }",
        "fn count(role) { } fn inlet(body) { }",
        "fn push(a, b, c, d, e) { } fn inlet(body) { }",
    ] {
        assert_eq!(report(text), "", "{text}");
    }
}

#[test]
fn a_parameter_may_be_called_like_a_constant_or_function() {
    let text = "const LIMIT = 7; fn helper() { LIMIT } fn all() { [1].map(helper) }\nfn f(LIMIT, helper) { LIMIT + helper }\nfn inlet(body) { let g = |LIMIT| LIMIT; throw `${f(1, 2)} ${g.call(5)} ${LIMIT}`; }";
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    let filter = Arc::new(Script::compile(&file, &Settings::default()).unwrap()).into_filter(Arc::default());
    let turn = Turn::new(TurnFacts::default(), Context::default(), Events::default());
    let body = Json::from([("messages", Json::array())]);
    let ran = futures::executor::block_on(Chain::new(vec![filter]).run(Hook::Inlet, body, &turn));
    assert_eq!(ran.err().map(|error| error.to_string()).as_deref(), Some("3 5 7"));
}

#[test]
fn source_that_exceeds_parser_limits_is_rejected_at_its_position() {
    let many = |part: &str, count: usize, between: &str| vec![part; count].join(between);
    let numbered = |count: usize, part: &dyn Fn(usize) -> String| (0..count).map(part).collect::<String>();
    let key = |n: usize| format!("k{n}: 1,");
    let cases = [
        (
            format!("fn inlet(body) {{\n  f({}) }}", many("1", 50_000, ",")),
            ":2:132: error[V109]: more than 64 arguments",
        ),
        (
            format!("fn inlet(body) {{ body.f({}) }}", many("1", 65, ",")),
            "more than 64 arguments of one call",
        ),
        (format!("fn f({}) {{ }}", numbered(40, &|n| format!("a{n},"))), "more than 32 parameters"),
        (
            format!("fn inlet(body) {{ |{}z| 1 }}", numbered(70, &|n| format!("a{n},"))),
            "parameters of one closure",
        ),
        (format!("fn inlet(body) {{ #{{ {} }} }}", numbered(3_000, &key)), "more than 2000 keys"),
        (
            format!("fn inlet(body) {{ [{}] }}", many(&format!("#{{{}}}", numbered(999, &key)), 20, ",")),
            "take too long",
        ),
        (
            format!("fn inlet(body) {{ switch body {{ {} }} }}", numbered(20_000, &|n| format!("{n}=>1,"))),
            "more than 2000 cases",
        ),
        (
            format!("fn inlet(body) {{ {} }}", numbered(300, &|n| format!("let a{n}=1;"))),
            "more than 256 variables",
        ),
        (
            format!("{} fn inlet(body) {{ }}", numbered(1_100, &|n| format!("const A{n}=1;"))),
            "more than 1000",
        ),
        (format!("fn inlet(body) {{ }}\n{}", "\n".repeat(60_000)), "limit of 60000 lines"),
    ];
    for (text, words) in cases {
        let began = Instant::now();
        let report = report(&text);
        assert!(report.contains(words), "{}: {}", &text[..60], &report[..report.len().min(300)]);
        assert!(began.elapsed() < Duration::from_secs(5), "{}: {:?}", &text[..60], began.elapsed());
    }
    let fine = [
        format!("fn inlet(body) {{ body.max({}) }}", many("1", 64, ",")),
        format!("fn inlet(body) {{ [{}]; #{{ {} }}; }}", many("1", 5_000, ","), numbered(1_900, &key)),
        format!("fn inlet(body) {{ {} }}", "{ let a = 1; let b = a; }".repeat(500)),
        format!(
            "{} fn inlet(body) {{ }}",
            numbered(100, &|n| format!("fn f{n}() {{ {} }}", "let a=1; ".repeat(9)))
        ),
    ];
    for text in fine {
        assert_eq!(report(&text), "", "{}", &text[..60]);
    }
}

#[tokio::test]
async fn the_return_value_of_a_hook_is_bounded() {
    let big = "let s = \"x\"; s.pad(4000000, 'x');";
    let cases = [
        (
            Hook::Inlet,
            format!("{big} #{{ messages: [], a: [s, s, s, s, s] }}"),
            "the text of a value exceeded its limit of 4 MB",
        ),
        (
            Hook::Inlet,
            format!("{big} skip([s, s, s, s, s])"),
            "the text of a value exceeded its limit of 4 MB",
        ),
        (
            Hook::Inlet,
            format!("{big} body.a = [s, s, s, s, s]; body"),
            "the text of a value exceeded its limit of 4 MB",
        ),
        (Hook::Inlet, format!("{big} error(#{{ message: \"no\", a: [s, s, s, s, s] }})"), ""),
        (
            Hook::Inlet,
            "let a = []; for i in 0..200 { a = [a]; } #{ messages: [], a: a }".into(),
            "limit of 128 nested levels",
        ),
        (
            Hook::Inlet,
            "let a = [1]; let f = || a; for i in 0..40 { a = [a, a]; } body.a = a; body".into(),
            "",
        ),
        (
            Hook::Stream,
            "let all = []; for i in 0..1001 { all.push(event); } all".into(),
            "returned 1001 events",
        ),
    ];
    for (hook, code, words) in cases {
        let name = if hook == Hook::Stream { "event" } else { "body" };
        let text = format!("fn {}({name}) {{ {code} }}", hook.name());
        let began = Instant::now();
        let body = Json::from([("messages", Json::array())]);
        let failed = run_in(&text, hook, body, &Turn::default()).await.expect_err(&text);
        let report = format!("{failed:?}");
        assert!(
            report.contains(words) && report.contains("\"x\""),
            "{text}: {}",
            &report[..report.len().min(400)]
        );
        assert!(began.elapsed() < Duration::from_secs(5), "{text}: {:?}", began.elapsed());
    }
    // A body of twenty megabytes goes through, whatever is built around what is in it.
    let image = "x".repeat(20 << 20);
    for code in
        ["body", "#{ messages: body.messages }", "body.messages = body.messages.filter(|m| true); body"]
    {
        let message = Json::from([("role", "user".into()), ("content", image.as_str().into())]);
        let body = Json::from([("messages", Json::from(vec![message]))]);
        let text = format!("fn inlet(body) {{ {code} }}");
        let body = run_in(&text, Hook::Inlet, body, &Turn::default()).await.unwrap();
        assert_eq!(body.at_path("messages.0.content").as_str().map(str::len), Some(20 << 20), "{code}");
    }
}

#[tokio::test]
async fn a_hook_returns_its_last_value_only_without_a_semicolon() {
    let text =
        "fn inlet(body) { body.messages.keep_last(1); } fn outlet(body) { if true { body.remove(\"x\"); } }";
    let body = |text: &str| Json::parse(text.as_bytes()).unwrap();
    let two = r#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],"x":{}}"#;
    let kept = run_in(text, Hook::Inlet, body(two), &Turn::default()).await.unwrap();
    assert_eq!(kept.get("messages").unwrap().items().len(), 1);
    let left = run_in(text, Hook::Outlet, body(two), &Turn::default()).await.unwrap();
    assert!(left.get("x").is_none() && left.get("messages").unwrap().items().len() == 2, "{left}");
    let wrong =
        run_in("fn inlet(body) { body.messages.keep_last(1) }", Hook::Inlet, body(two), &Turn::default())
            .await
            .unwrap_err();
    assert!(wrong.to_string().contains("even with a `;`, unless"), "{wrong}");
}

#[test]
fn a_closure_variable_shadowed_by_a_function_is_reported() {
    let hidden = "fn words() { 1 }\nfn use_it(words) {\n    let f = |x| words.a + x;\n    f.call(1)\n}";
    let problem = compile(hidden).unwrap().warnings.remove(0).to_string();
    assert!(
        problem.contains("x.rhai:3:17: warning[V108]: this closure uses the function `words`"),
        "{problem}"
    );
    for fine in [
        "fn words(x) { x }\nfn use_it(list) { list.map(|x| words(x)) }\nfn other(words) { words }",
        "fn words(x) { x }\nfn use_it(list) { [1].map(|x| list.map(words)) }\nfn other(words) { words }",
        "fn use_it(words) { let f = |x| words.a + x; f.call(1) }",
    ] {
        assert!(compile(fine).unwrap().warnings.is_empty(), "{fine}");
    }
}

#[test]
fn a_secret_valve_can_come_from_an_environment_variable() {
    let text = "const Valves = #{ key: #{ value: \"nothing\", secret: true }, note: \"\" };\nfn inlet(body, valves) { body.x = valves.key + valves.note; }";
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    let with = |configured: &str| {
        let configured = Json::parse(configured.as_bytes()).unwrap();
        Script::compile(&file, &Settings { configured, ..Settings::default() }).unwrap()
    };
    let set = with(r#"{"key": "env:PATH", "note": "env:PATH"}"#);
    assert_eq!(set.valves.text("key").map(String::from), std::env::var("PATH").ok());
    assert_eq!(set.valves.text("note").unwrap(), "env:PATH", "only secrets are looked up");
    let unset = with(r#"{"key": "env:VALVEHOUSE_NOT_SET"}"#);
    assert_eq!(unset.valves.text("key").unwrap(), "nothing");
    assert!(
        unset.warnings[0].to_string().contains("`VALVEHOUSE_NOT_SET` is not set"),
        "{}",
        unset.warnings[0]
    );
    // A guard without its secret may accept everything; a stored value overrides the variable.
    let guard =
        SourceFile::new(Kind::Filter, "x", "filters/x.rhai", format!("/*\nsecurity: true\n*/\n{text}"));
    let settings = |stored: &str| Settings {
        configured: Json::from([("key", "env:VALVEHOUSE_NOT_SET".into())]),
        stored: Json::parse(stored.as_bytes()).unwrap(),
        is_served: true,
        ..Settings::default()
    };
    let problems = Script::compile(&guard, &settings("{}")).unwrap_err();
    assert!(problems[0].to_string().contains("`VALVEHOUSE_NOT_SET` is not set"), "{}", problems[0]);
    assert!(Script::compile(&guard, &settings(r#"{"key": "short"}"#)).is_err());
    let stored = Script::compile(&guard, &settings(r#"{"key": "another"}"#)).unwrap();
    assert_eq!((stored.valves.text("key").unwrap().as_str(), stored.warnings.len()), ("another", 0));
    // A priority that the script does not declare would have no effect.
    let placed = |file: &SourceFile| {
        let configured = Json::from([("priority", 5i64.into())]);
        Script::compile(file, &Settings { configured, ..Settings::default() })
    };
    let problem = placed(&file).unwrap().warnings[0].to_string();
    assert!(problem.contains("unknown valve `priority`") && problem.contains("`priority: 0`"), "{problem}");
    assert!(placed(&guard).is_err());
    // A slip in the spelling is not the secret.
    for slip in ["ENV:PATH", "$PATH", "${PATH}", "env :PATH"] {
        let missed = with(&format!(r#"{{"key": "{slip}", "note": "{slip}"}}"#));
        assert_eq!(missed.valves.text("key").unwrap(), "nothing", "{slip}");
        assert_eq!(missed.valves.text("note").unwrap(), slip, "only secrets are looked up");
        assert!(missed.warnings[0].to_string().contains("write \"env:PATH\""), "{}", missed.warnings[0]);
        let configured = Json::from([("key", slip.into())]);
        let guard =
            SourceFile::new(Kind::Filter, "x", "filters/x.rhai", format!("/*\nsecurity: true\n*/\n{text}"));
        assert!(Script::compile(&guard, &Settings { configured, ..Settings::default() }).is_err(), "{slip}");
    }
}

#[test]
fn values_of_the_environment_are_converted_and_those_of_the_file_are_not() {
    let text = "/*\nsecurity: true\n*/\nconst Valves = #{ on: true, most: 3, pin: #{ value: 12345678, secret: true } };\nfn inlet(body, valves) { body }";
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    let with = |configured: &str, untyped: &[&str]| {
        let configured = Json::parse(configured.as_bytes()).unwrap();
        let untyped_valves = untyped.iter().map(ToString::to_string).collect();
        Script::compile(&file, &Settings { configured, untyped_valves, ..Settings::default() })
    };
    let given = r#"{"on": "no", "most": "7"}"#;
    let loaded = with(given, &["on", "most"]).unwrap();
    assert_eq!(loaded.valves.to_string(), r#"{"on":false,"most":7,"pin":12345678}"#);
    let told = |refused: Result<Script, Vec<Diagnostic>>| -> String {
        refused.map(|_| ()).unwrap_err().iter().map(ToString::to_string).collect()
    };
    let refused = told(with(given, &["most"]));
    assert!(refused.contains("valve `on` must be true or false, not \"no\""), "{refused}");
    assert!(refused.contains("correct it in `[filters.x] valves` of valvehouse.toml"), "{refused}");
    assert!(!refused.contains("`most`"), "{refused}");
    let refused = told(with(r#"{"most": "many"}"#, &["most"]));
    assert!(refused.contains("correct it in the environment variable"), "{refused}");
}

#[test]
fn python_idioms_are_reported_with_their_rhai_equivalent() {
    for (text, words) in [
        ("fn inlet(body) { report(|x| x); } fn report(sink) { sink(1); }", "with `sink.call(…)`"),
        ("fn inlet(body) { let x = 1 if body.a else 2; }", "let x = if condition { a } else { b };"),
        ("fn inlet(body) { body.messages.sort(key=lambda m: m.x); }", "error"),
        ("fn inlet(body) { let f = lambda m: m; }", "write a closure as `|x| x * 2`"),
        ("fn inlet(body) { for i, m in body.messages { } }", "for (key, value) in map"),
        ("fn inlet(body) { if \"x\" { } }", "error"),
        ("fn inlet(body) { lte x = 1; }", "write `let name = value;`"),
        ("fn inlet(body) { lat x = 1; }", "write `let name = value;`"),
        ("fn inlet(body) {\n let found = 1;\n body.x = fuond;\n}", "did you mean `found`?"),
        ("fn inlet(body, valves) {\n body.x = valvse.a;\n}", "did you mean `valves`?"),
        ("fn inlet(self, body) { }", "remove `self`"),
        ("fn inlet(body) { let x = f\"a {b}\"; }", "use backticks"),
        ("const Valves = #{ n: #{ value: 1, ge: 1 } };\nfn inlet(body) { }", "here it is `minimum`"),
        ("const Valves = #{ n: #{ value: 1, le: 1 } };\nfn inlet(body) { }", "here it is `maximum`"),
    ] {
        let report = report(text);
        assert!(report.contains(words) || words == "error", "{text}\n{report}");
        assert!(!report.contains("unknown prefix `f`") || text.contains("f\""), "{text}\n{report}");
    }
}

#[tokio::test]
async fn runtime_errors_use_script_terms() {
    for (code, words) in [
        (
            "body.messages.keep_last(\"3\");",
            &["keep_last (array, string)", "keep_last(count: integer)"] as &[_],
        ),
        ("body.metadata.seen = true;", &["`body.metadata` is ()"]),
        ("let x = 1; x.y = 2;", &["cannot set the property `y` of an integer"]),
        ("let x = 1; body.x = x.y;", &["unknown property `y` of an integer"]),
        ("let s = \"x\"; for i in 0..40 { s += s; }", &["the text of a value exceeded its limit of 4 MB"]),
        ("let l = []; l.pad(200_000, 1);", &["an array or blob exceeded its limit of 100000 elements"]),
        ("let x = 1; body.x = x[\"a\"];", &["string (expecting integer)"]),
        ("let x = body.nope; x.y = 1;", &["`x` is ()"]),
        ("let l = [#{}]; l[0].nope[\"a\"] = 3;", &["`l[0].nope` is ()", "before `[`"]),
        ("body.x = body.nope.len() + 3;", &["`body.nope` is ()"]),
        ("body.x = len(body.nope);", &["`body.nope` is ()"]),
        ("body.x = body.nope + 3;", &["`body.nope` is ()", "default with `??`"]),
        ("body.x = 3 + body.nope;", &["`body.nope` is ()"]),
        ("if body.nope > 2 { body.x = 1; }", &["cannot compare () with a number", "`body.nope` is ()"]),
        ("if 2 < body.nope { body.x = 1; }", &["`body.nope` is ()"]),
        ("for x in body.nope { body.x = x; }", &["`for x in list ?? []`"]),
        ("let x = body.a; x.get(\"b\");", &["get ((), string)", "write `?.` to call only on a value"]),
        ("1.5.pad(3, 'a');", &["pad (float, integer, char)"]),
        ("body.x = [1] + 2;", &["`+` cannot be applied to an array and an integer", "`list.push(value)`"]),
        ("body.x = #{} + 3;", &["`+` cannot be applied to a map and an integer"]),
        ("body.x = true + 1;", &["a bool and an integer", "`if value { 1 } else { 0 }`"]),
        ("body.x = \"a\" - 1;", &["`-` cannot be applied to a string and an integer", "`parse_int(text)`"]),
    ] {
        let error = run(&format!("fn inlet(body) {{ {code} }}")).await.expect_err(code);
        let report = format!("{error:?}");
        assert!(words.iter().all(|word| report.contains(word)), "{code}: {report}");
    }
}

#[tokio::test]
async fn events_are_sent_and_lines_printed_as_in_open_webui() {
    let code = r#"fn inlet(body, __event_emitter__) {
        __event_emitter__(#{ type: "status", data: #{ description: "x" } });
        __event_emitter__.call(#{ type: "status", data: #{ description: "y" } });
        print("tokens", 5, [1, #{ a: 2 }]);
        print();
        print(1, 2, 3, 4, 5, 6, 7, 8);
        let n = 1;
        let next = || n + 1;
        print(n, next.call(), body.messages);
        debug("a", "b");
        body.ok = true;
        body
    }"#;
    assert_eq!(run(code).await.unwrap().get("ok"), Some(true.into()));
    let none =
        run("fn inlet(body, __event_call__) { __event_call__(#{ type: \"input\", data: #{} }); }").await;
    assert!(format!("{none:?}").contains("nobody"), "{none:?}");
}

#[test]
fn backtick_patterns_keep_escapes_and_list_mutators_return_nothing() {
    let doubts = |code: &str| report(&format!("fn inlet(body) {{ {code} }}"));
    let fine = doubts(r"body.x = regex::replace(body.y, `\n\s*\n`, `a`); let l = []; l.push(1); body.l = l;");
    assert_eq!(fine, "");
    let held = doubts(r"let blank = `\n\s*\n`; body.x = regex::replace(body.y, blank, `a`);");
    assert_eq!(held, "");
    assert!(doubts(r"body.x = regex::replace(body.y, `a`, `b`) + `\n`;").contains("V602"));
    for code in ["let l = []; body.x = l.push(1);", "let s = \"a\"; body.x = s.pad(4, \"*\");"] {
        let report = doubts(code);
        assert!(report.contains("V601") && report.contains("in a separate statement"), "{code}\n{report}");
    }
}

#[tokio::test]
async fn methods_shared_with_bytes_work_on_live_lists() {
    let code = "fn inlet(body) { body.l = [1, 2, 3]; body.out = [body.l.extract(0, 2), body.l.extract(1), body.l + [4]]; body }";
    assert_eq!(run(code).await.unwrap().get("out").unwrap().to_string(), "[[1,2],[2,3],[1,2,3,4]]");
}
