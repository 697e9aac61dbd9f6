//! The values that scripts keep, as their authors use them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use valvehouse_core::context::{Context, Events, Turn, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::filter::{Chain, ChainOutcome, Hook};
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, Kind, Script, Settings, SourceFile};
use valvehouse_store::{Kv, KvRow, StoreError, StoreErrorKind};

fn compile(text: &str, kv: &Arc<Kv>) -> Result<Script, Vec<Diagnostic>> {
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    Script::compile(&file, &Settings { kv: kv.clone(), ..Settings::default() })
}

fn keeping(code: &str, kv: &Arc<Kv>) -> Chain {
    let text = format!("/*\nrequirements: kv\n*/\nfn inlet(body) {{ {code} }}");
    let script = compile(&text, kv).unwrap_or_else(|problems| panic!("{problems:?}"));
    Chain::new(vec![Arc::new(script).into_filter(Arc::default())])
}

fn turn(user: &str, chat: &str) -> Turn {
    let user = Json::parse(user.as_bytes()).unwrap();
    let facts = TurnFacts { user, chat_id: chat.into(), ..TurnFacts::default() };
    Turn::new(facts, Context::default(), Events::default())
}

async fn run(chain: &Chain, turn: &Turn) -> Result<String, Error> {
    let body = Json::parse(br#"{"messages":[]}"#).unwrap();
    match chain.run(Hook::Inlet, body, turn).await? {
        ChainOutcome::Done(body) | ChainOutcome::Skipped(body) => {
            Ok(body.get("out").unwrap_or_default().to_string())
        }
    }
}

async fn gives(kv: &Arc<Kv>, code: &str) -> String {
    let result = run(&keeping(code, kv), &Turn::default()).await;
    result.unwrap_or_else(|error| panic!("{code}: {error}"))
}

#[tokio::test]
async fn a_script_reads_back_the_values_it_stored() {
    let kv = Arc::new(Kv::default());
    let cases = [
        (r#"body.out = [kv::get("none"), kv::get("none", 7)];"#, "[null,7]"),
        (
            r#"kv::set("a", #{ list: [1, 2.5, "x", ()] }); body.out = kv::get("a").list;"#,
            r#"[1,2.5,"x",null]"#,
        ),
        (r#"let a = kv::get("a"); a.list.push(3); body.out = kv::get("a").list.len();"#, "4"),
        (r#"body.out = [kv::delete("a"), kv::delete("a")];"#, "[true,false]"),
        (r#"kv::set("a", 1); kv::set("a", ()); body.out = kv::get("a", "gone");"#, r#""gone""#),
        (
            r#"kv::set("b/1", 1, 60); kv::set("b/2", 2, 0.5); body.out = [kv::keys(), kv::keys("b/2")];"#,
            r#"[["b/1","b/2"],["b/2"]]"#,
        ),
        (r#"body.out = [kv::incr("n"), kv::incr("n", 5), kv::incr("n", -0.5, 60)];"#, "[1,6,5.5]"),
        (r#"body.out = kv::update("u", |old| (old ?? []) + ["a"]);"#, r#"["a"]"#),
        (r#"let more = "b"; body.out = kv::update("u", |old| { old.push(more); old }, 60);"#, r#"["a","b"]"#),
        (r#"kv::update("u", |old| ()); body.out = kv::get("u");"#, "null"),
        (
            r#"kv::set("w", body.messages); body.messages.push(1); body.out = kv::get("w"); body.messages.clear();"#,
            "[]",
        ),
        (
            r#"body.out = [kv::window("win", 60, 1).allowed, kv::window("win", 60, 1)];"#,
            r#"[true,{"allowed":false,"count":1,"retry_after":60}]"#,
        ),
        (
            r#"kv::set("s", 1); kv::user::set("s", 2); kv::chat::set("s", 3); body.out = [kv::get("s"), kv::user::get("s"), kv::chat::get("s")];"#,
            "[1,2,3]",
        ),
    ];
    for (code, expected) in cases {
        assert_eq!(gives(&kv, code).await, expected, "{code}");
    }
}

#[tokio::test]
async fn values_that_cannot_be_stored_state_the_reason() {
    let kv = Arc::new(Kv::default());
    let cases = [
        (r#"kv::set("f", || 1);"#, "a function is not a JSON value"),
        (r#"kv::set("", 1);"#, "kv::set: a key must have 1 to 512 bytes, and this one has 0"),
        (r#"kv::user::set("t", 1, 0);"#, "kv::user::set: `ttl_seconds` must be above 0"),
        (r#"kv::set("t", 1, "soon");"#, "`ttl_seconds` must be a number, not string"),
        (r#"kv::set("t", "x"); kv::incr("t");"#, "kv::incr: cannot increase the value: it is of type string"),
        (r#"kv::window("t", 1, -1);"#, "`limit` must not be negative, not -1"),
        (r#"kv::update("t", |old| throw "no");"#, "no"),
        (r#"let s = "x"; s.pad(70_000, "x"); kv::set("t", s);"#, "a value exceeded its limit of 64 KiB"),
    ];
    for (code, words) in cases {
        let message = run(&keeping(code, &kv), &Turn::default()).await.unwrap_err().to_string();
        assert!(message.contains(words), "{code}: {message}");
    }
}

#[tokio::test]
async fn each_user_and_each_chat_has_its_own_map() {
    let kv = Arc::new(Kv::default());
    let user = keeping(r#"body.out = kv::user::incr("n");"#, &kv);
    let chat = keeping(r#"kv::chat::incr("n"); body.out = kv::chat::incr("n");"#, &kv);
    let (ann, bob) = (r#"{"id":"ann"}"#, r#"{"id":"bob"}"#);
    assert_eq!(run(&user, &turn(ann, "1")).await.unwrap(), "1");
    assert_eq!(run(&user, &turn(ann, "2")).await.unwrap(), "2");
    assert_eq!(run(&user, &turn(bob, "1")).await.unwrap(), "1");
    // Who has no id is the same nobody each time.
    assert_eq!(run(&user, &turn("null", "")).await.unwrap(), "1");
    assert_eq!(run(&user, &turn("{}", "")).await.unwrap(), "2");
    assert_eq!(run(&chat, &turn(ann, "1")).await.unwrap(), "2");
    assert_eq!(run(&chat, &turn(bob, "1")).await.unwrap(), "4");
    // Without a chat it is the turn.
    let one = turn(ann, "");
    assert_eq!(run(&chat, &one).await.unwrap(), "2");
    assert_eq!(run(&chat, &one).await.unwrap(), "4");
    assert_eq!(run(&chat, &turn(ann, "")).await.unwrap(), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_turns_lose_no_writes_and_versions_share_the_map() {
    let kv = Arc::new(Kv::default());
    let code = r#"for i in 0..5 { kv::incr("n"); kv::update("u", |old| (old ?? 0) + 1); }"#;
    let turns = (0..100).map(|_| {
        // Each with a newly compiled version, as after a save.
        let chain = keeping(code, &kv);
        tokio::spawn(async move { run(&chain, &Turn::default()).await.unwrap() })
    });
    futures::future::join_all(turns).await;
    assert_eq!(gives(&kv, r#"body.out = [kv::get("n"), kv::get("u")];"#).await, "[500,500]");
}

/// Maps whose writes are counted; they fail while the flag is set.
fn written() -> (Arc<Kv>, Arc<AtomicUsize>, Arc<AtomicBool>) {
    let (writes, fails): (Arc<AtomicUsize>, Arc<AtomicBool>) = Default::default();
    let (counted, failing) = (writes.clone(), fails.clone());
    let kv = Kv::default().written_by(move |changes| {
        let (counted, failing) = (counted.clone(), failing.clone());
        Box::pin(async move {
            tokio::task::yield_now().await;
            if failing.load(SeqCst) {
                return Err(StoreError {
                    doing: "write".into(),
                    place: "here".into(),
                    kind: StoreErrorKind::Full,
                    cause: "full".into(),
                    help: None,
                });
            }
            counted.fetch_add(changes.len(), SeqCst);
            Ok(())
        })
    });
    (Arc::new(kv), writes, fails)
}

#[tokio::test]
async fn a_turn_ends_when_its_durable_writes_are_on_disk() {
    for (code, changes) in [
        ("kv::set(\"a\", 1);", 1),
        ("kv::set(\"a\", 1, 60);", 1),
        ("kv::incr(\"a\"); kv::incr(\"b\", 2); kv::incr(\"c\", 1, 60);", 3),
        ("kv::update(\"a\", |old| 1); kv::update(\"b\", |old| 1, 60);", 2),
        ("kv::window(\"a\", 60, 5);", 1),
        ("kv::set(\"a\", 1); kv::delete(\"a\");", 1),
        ("kv::user::set(\"a\", 1); kv::chat::set(\"a\", 1);", 2),
        ("kv::set(\"a\", 1, #{ durable: true });", 1),
        ("kv::set(\"a\", 1, #{ durable: false });", 0),
        ("kv::set(\"a\", 1, 60, #{ durable: false });", 0),
        ("kv::incr(\"a\", #{ durable: false }); kv::incr(\"b\", 2, #{ durable: false });", 0),
        ("kv::incr(\"c\", 1, 60, #{ durable: false });", 0),
        (
            "kv::update(\"a\", |old| 1, #{ durable: false }); kv::update(\"b\", |old| 1, 60, #{ durable: false });",
            0,
        ),
        ("kv::window(\"a\", 60, 5, #{ durable: false }); kv::delete(\"a\", #{ durable: false });", 0),
        ("kv::get(\"a\"); kv::keys();", 0),
    ] {
        let (kv, writes, _) = written();
        let turn = turn(r#"{"id": "ann"}"#, "c1");
        run(&keeping(code, &kv), &turn).await.unwrap_or_else(|error| panic!("{code}: {error}"));
        assert_eq!(writes.load(SeqCst), 0, "nothing waits within a turn: {code}");
        turn.flush().await.unwrap();
        assert_eq!(writes.load(SeqCst), changes, "{code}");
    }
    // What belongs to the turn alone is written nowhere.
    let (kv, writes, _) = written();
    let alone = turn("{}", "");
    run(&keeping("kv::chat::set(\"a\", 1);", &kv), &alone).await.unwrap();
    alone.flush().await.unwrap();
    assert_eq!(writes.load(SeqCst), 0);
    for (code, why) in [
        ("kv::set(\"a\", 1, #{ durabel: false });", "kv::set: unknown option `durabel`"),
        ("kv::incr(\"a\", #{ durable: 1 });", "kv::incr: invalid option `durable`: expected true or false"),
    ] {
        let error = run(&keeping(code, &kv), &Turn::default()).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_turn_fails_if_its_durable_writes_fail_and_they_are_retried() {
    let (kv, writes, fails) = written();
    fails.store(true, SeqCst);
    let turn = turn("{}", "c1");
    run(&keeping("kv::set(\"a\", 1);", &kv), &turn).await.unwrap();
    let error = turn.flush().await.unwrap_err();
    assert!(matches!(error, Error::Unstored { code: "store_full", .. }), "{error}");
    assert!(kv.failure().is_some());
    fails.store(false, SeqCst);
    kv.flush_all().await.unwrap();
    assert_eq!((writes.load(SeqCst), kv.failure()), (1, None));
}

#[tokio::test]
async fn concurrent_turns_share_a_commit() {
    let commits = Arc::new(AtomicUsize::new(0));
    let counted = commits.clone();
    let kv = Arc::new(Kv::default().written_by(move |_| {
        let counted = counted.clone();
        Box::pin(async move {
            tokio::task::yield_now().await;
            counted.fetch_add(1, SeqCst);
            Ok(())
        })
    }));
    let turns = (0..100).map(|number| {
        let kv = kv.clone();
        async move {
            kv.map("x", "own").set(&number.to_string(), &1_i64.into(), None).unwrap();
            kv.flush_up_to(kv.want_flush().unwrap()).await.unwrap();
        }
    });
    futures::future::join_all(turns).await;
    assert!(commits.load(SeqCst) <= 3, "{} commits", commits.load(SeqCst));
    assert_eq!(kv.waiting(), 0);
}

#[tokio::test]
async fn an_update_overtaken_by_another_host_runs_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let kv = Kv::default().swapped_by(move |before, _| {
        let call = counted.fetch_add(1, SeqCst);
        Box::pin(async move {
            tokio::task::yield_now().await;
            match call {
                0 => Ok(Some(KvRow { value: 41_i64.into(), ..before })),
                1 | 2 => Ok(None),
                _ => Err(StoreError {
                    doing: "change what scripts keep".into(),
                    place: "there".into(),
                    kind: StoreErrorKind::Full,
                    cause: "the disk is full".into(),
                    help: None,
                }),
            }
        })
    });
    let kv = Arc::new(kv);
    let code = r#"
        let given = [];
        let new = kv::update("n", |old| { given.push(old); (old ?? 0) + 1 });
        body.out = [new, given, kv::get("n")];
    "#;
    assert_eq!(gives(&kv, code).await, "[42,[null,41],42]");
    assert_eq!(gives(&kv, r#"body.out = [kv::update("n", |old| ()), kv::get("n")];"#).await, "[null,null]");
    // What ends with the turn belongs to this host alone.
    assert_eq!(gives(&kv, r#"body.out = kv::chat::update("n", |old| 1);"#).await, "1");
    assert_eq!(calls.load(SeqCst), 3);
    let message = run(&keeping(r#"kv::update("n", |old| 1);"#, &kv), &Turn::default()).await.unwrap_err();
    assert!(
        message.to_string().contains("kv::update") && message.to_string().contains("the disk is full"),
        "{message}"
    );
}
