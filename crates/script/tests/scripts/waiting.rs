//! Pauses, tries and calls beside each other, in hooks as the host runs them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Barrier;
use valvehouse_core::context::{Pauses, Turn};
use valvehouse_core::filter::{Chain, ChainOutcome, Hook};
use valvehouse_dialect::budget::Budget;
use valvehouse_grants::{Grant, Grants};
use valvehouse_json::Json;
use valvehouse_script::{Kind, Script, Settings, SourceFile};
use valvehouse_testkit::loopback::{Server, ok};

fn chain(code: &str, settings: Settings) -> Chain {
    let text = format!("/*\nrequirements: http, kv\n*/\nfn inlet(body, __metadata__) {{ {code} }}");
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    let grants = Grants { http: Grant::Only(vec!["127.0.0.1".into()]), ..Grants::default() };
    let script = Script::compile(&file, &Settings { grants, ..settings });
    let script = script.unwrap_or_else(|problems| panic!("{code}: {problems:?}"));
    Chain::new(vec![Arc::new(script).into_filter(Arc::default())])
}

async fn run_with(code: &str, settings: Settings, turn: &Turn) -> String {
    let body = Json::parse(br#"{"messages":[]}"#).unwrap();
    match chain(code, settings).run(Hook::Inlet, body, turn).await {
        Ok(ChainOutcome::Done(body) | ChainOutcome::Skipped(body)) => {
            body.get("out").unwrap_or_default().to_string()
        }
        Err(error) => format!("{error:?}"),
    }
}

async fn run(code: &str) -> String {
    run_with(code, Settings::default(), &Turn::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_may_sleep_up_to_a_limit() {
    assert_eq!(run("time::sleep(2); body.out = 1; body").await, "1");
    let long = run("time::sleep(600_001);").await;
    assert!(long.contains("the pause must be from 0 to 600 000 ms"), "{long}");
    let hook = Budget { wall: Duration::from_millis(50), ..Settings::default().hook };
    let settings = Settings { hook, ..Settings::default() };
    let ended = run_with("try { time::sleep(600_000); } catch { }", settings, &Turn::default()).await;
    assert!(ended.contains("did not end within 50 ms"), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleep_ends_with_its_turn() {
    for code in ["time::sleep(600_000);", "parallel([|| time::sleep(600_000), || time::sleep(600_000)]);"] {
        let turn = Turn::default();
        let end = turn.until_dropped();
        let (ended, ()) = tokio::join!(run_with(code, Settings::default(), &turn), async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            drop(end);
        });
        assert!(ended.contains("the request was canceled"), "{code}: {ended}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_repeats_a_failing_function_and_throws_the_last_error() {
    let code = "let n = 0; body.out = retry(#{ times: 4, delay: 1 }, || { n += 1; if n < 3 { throw `no ${n}` } n }); body";
    assert_eq!(run(code).await, "3");
    let last = run("let n = 0; retry(#{ times: 2, delay: 1 }, || { n += 1; throw `no ${n}` });").await;
    assert!(last.contains("no 2"), "{last}");
    let unknown = run("let how = #{ time: 2 }; retry(how, || 1);").await;
    assert!(unknown.contains("unknown option `time`; did you mean `times`?"), "{unknown}");
    let budget = run("retry(#{ delay: 0 }, || { loop { } });").await;
    assert!(budget.contains("exceeded its"), "{budget}");
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_ends_with_a_result_or_a_timeout() {
    let code = "let n = 0; body.out = poll(#{ every: 1 }, || { n += 1; if n > 3 { n } }); body";
    assert_eq!(run(code).await, "4");
    let late = run("poll(#{ every: 5, timeout: 12 }, || false);").await;
    assert!(late.contains("exceeded its limit of 12 ms without a result"), "{late}");
}

/// Answers when so many ask at once.
async fn meeting(of: usize) -> Server {
    let barrier = Arc::new(Barrier::new(of));
    let (handle, count) = (tokio::runtime::Handle::current(), Arc::new(AtomicUsize::new(0)));
    Server::start(move |_| {
        let number = count.fetch_add(1, SeqCst);
        let barrier = barrier.clone();
        tokio::task::block_in_place(|| handle.block_on(async move { barrier.wait().await }));
        ok(number.to_string())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn parallel_calls_wait_concurrently_and_return_results_in_order() {
    let server = meeting(3).await;
    let url = server.url("/");
    let code = format!(
        r#"let u = "{url}"; let seen = [];
        let out = parallel([|| {{ http::get(u); seen.push(1); "a" }}, || {{ http::get(u); "b" }}, || {{ http::get(u); "c" }}]);
        body.out = [out, seen]; body"#
    );
    assert_eq!(run(&code).await, r#"[["a","b","c"],[1]]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throwing_parallel_call_ends_the_others_unless_settle_is_set() {
    let thrown = run(r#"parallel([|| time::sleep(600_000), || { time::sleep(1); throw "broken" }]);"#).await;
    assert!(thrown.contains("broken"), "{thrown}");
    let code = r#"body.out = parallel([|| 1, || { throw "broken" }, || { time::sleep(1); 3 }], #{ settle: true, limit: 2 }); body"#;
    assert_eq!(run(code).await, r#"[{"value":1},{"error":"broken"},{"value":3}]"#);
    let wrong = run("parallel([1]);").await;
    assert!(wrong.contains("`functions` must be an array of functions"), "{wrong}");
    let error = run(r#"parallel([|| ask(#{ type: "input", data: #{} })]);"#).await;
    assert!(error.contains("call `ask` before or after it"), "{error}");
    assert_eq!(run("body.out = parallel([]); body").await, "[]");
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_calls_share_one_budget() {
    let code = "let work = || { for i in 0..200_000 { let a = i; } time::sleep(1); 1 }; parallel([work, work, work, work, work, work]);";
    let ended = run(code).await;
    assert!(
        ended.contains("exceeded its limit of 1000000 operations")
            || ended.contains("exceeded its computing time"),
        "{ended}"
    );
    let nested = "let f = |f, n| { if n > 0 { parallel([|| f.call(f, n - 1), || f.call(f, n - 1)]) } }; f.call(f, 40);";
    let ended = run(nested).await;
    assert!(ended.contains("Broken"), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_step_does_not_wait_or_ask_again() {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    let server = Server::start(move |_| {
        count.fetch_add(1, SeqCst);
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\xff\x00".to_vec()
    })
    .await;
    let code = format!(
        r#"let u = "{}"; time::sleep(1);
        let both = parallel([|| http::get(u), || http::get(u).bytes, || time::unix_ms()]);
        let read = [];
        for part in http::stream(u, #{{ read: "chunks" }}) {{ read.push(part.hex()); }}
        body.out = [both[0].bytes.hex(), both[1].hex(), both[2], http::all([u])[0].bytes.len(), read,
            retry(#{{ delay: 0 }}, || http::get(u).status)];
        body"#,
        server.url("/")
    );
    let turn = Turn::default().pausing(Pauses::default());
    let pauses = turn.pauses().unwrap();
    pauses.begin(Json::Null);
    let first = run_with(&code, Settings::default(), &turn).await;
    assert!(first.starts_with(r#"["ff00","ff00","#), "{first}");
    assert_eq!(requests.load(SeqCst), 5);
    let recorded = pauses.host_calls();
    let again = Turn::default().pausing(Pauses::default());
    again.pauses().unwrap().restore_host_calls(&recorded);
    again.pauses().unwrap().begin(Json::Null);
    assert_eq!(run_with(&code, Settings::default(), &again).await, first);
    assert_eq!(requests.load(SeqCst), 5);
}
