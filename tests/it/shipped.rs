//! Tests of the shipped filters.

use crate::kernel::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use valvehouse::chat::{event, message};
use valvehouse::context::{Context, Events, Turn, TurnFacts};
use valvehouse::error::Error;
use valvehouse::filter::{Chain, ChainOutcome, FilterEntry, Hook};
use valvehouse::json::Json;
use valvehouse::kernel::{Kernel, RunOptions};
use valvehouse::llm::Demo;
use valvehouse::provider::{CannedProvider, Provider, Reply};
use valvehouse::script::{Kind, Script, Settings, UserValves, read_file};
use valvehouse::store::Kv;
use valvehouse::valve::Layer;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("filters")
}

/// Returns the ids of all shipped filters.
fn all() -> Vec<String> {
    let names = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap()).filter(|name| !name.ends_with(".test.rhai"));
    let mut ids: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".rhai").map(str::to_owned)).collect();
    ids.sort();
    ids
}

fn compiled(id: &str, settings: &Settings) -> Script {
    let read = read_file(Kind::Filter, &folder(), &folder().join(format!("{id}.rhai"))).unwrap();
    let script = Script::compile(&read.file, settings).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(ToString::to_string).collect::<String>())
    });
    assert!(script.warnings.is_empty(), "{:?}", script.warnings);
    script
}

/// Returns a shipped filter with these valves.
fn shipped(id: &str, valves: &str) -> FilterEntry {
    with_users(id, &Settings { configured: json(valves), ..Settings::default() }, &[])
}

fn with_users(id: &str, settings: &Settings, users: &[(&str, &str)]) -> FilterEntry {
    let script = compiled(id, settings);
    let effective = |values: Json| {
        script
            .manifest
            .user_valves
            .as_ref()
            .map(|schema| schema.effective(&[Layer::lenient(&values)]).0.freeze())
    };
    let users = UserValves {
        by_user: users
            .iter()
            .filter_map(|(user, values)| Some(((*user).to_owned(), effective(json(values))?)))
            .collect(),
        default: effective(Json::Null).unwrap_or_default(),
    };
    Arc::new(script).into_filter(Arc::new(users))
}

fn turn_of(user: &str) -> Turn {
    let facts = TurnFacts {
        user: json(user),
        model: json(r#"{"id":"m","name":"Model M","provider":"canned"}"#),
        ..TurnFacts::default()
    };
    Turn::new(facts, Context::default(), Events::default())
}

async fn inlet(filter: &FilterEntry, turn: &Turn, body: &Json) -> Result<Json, Error> {
    match Chain::new(vec![filter.clone()]).run(Hook::Inlet, body.clone(), turn).await? {
        ChainOutcome::Done(body) | ChainOutcome::Skipped(body) => Ok(body),
    }
}

async fn outlet(filter: &FilterEntry, body: &Json) -> Json {
    match Chain::new(vec![filter.clone()]).run(Hook::Outlet, body.clone(), &Turn::default()).await.unwrap() {
        ChainOutcome::Done(body) | ChainOutcome::Skipped(body) => body,
    }
}

fn body(messages: &str) -> Json {
    json(&format!(r#"{{"model":"m","messages":{messages}}}"#))
}

fn body_with(text: &str) -> Json {
    let body = body("[]");
    body.set("messages", vec![message::user(text)]).unwrap();
    body
}

/// Returns the response for a streaming client and for one that does not stream.
async fn both_ways(filter: &FilterEntry, pieces: &[&str]) -> (String, String) {
    let reply = || Reply::chunks(pieces.iter().copied());
    let kernel = asking([reply()]).0.filter(filter.clone()).build();
    let streamed = stream(&kernel).await;
    streamed.answer.as_ref().unwrap();
    let text = streamed.text();
    let text = text.strip_suffix("|stop").unwrap_or_else(|| panic!("{text}")).to_owned();
    assert_eq!(streamed.answer(), text, "what is kept is what was sent");
    (text, whole(filter, &pieces.concat()).await)
}

async fn whole(filter: &FilterEntry, text: &str) -> String {
    let kernel = asking([Reply::text(text)]).0.filter(filter.clone()).build();
    chat(&kernel, "hi").await.unwrap().text()
}

/// Returns a text cut in two at every place, in three at many, and into single characters.
fn cuts(text: &str) -> Vec<Vec<&str>> {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).collect();
    let mut all: Vec<Vec<&str>> = vec![vec![text]];
    all.extend(places.iter().map(|&at| vec![&text[..at], &text[at..]]));
    for (nth, &a) in places.iter().enumerate().step_by(3) {
        all.extend(places[nth + 1..].iter().step_by(7).map(|&b| vec![&text[..a], &text[a..b], &text[b..]]));
    }
    all.push(text.char_indices().map(|(at, letter)| &text[at..at + letter.len_utf8()]).collect());
    all
}

#[test]
fn shipped_filters_have_metadata_valve_descriptions_and_tests() {
    let ids = all();
    assert!(ids.len() >= 18, "{ids:?}");
    for id in ids {
        assert!(folder().join(format!("{id}.test.rhai")).exists(), "{id} has no tests");
        let script = compiled(&id, &Settings::default());
        for key in ["title", "author", "version", "description", "license"] {
            assert!(script.manifest.get(key).is_some_and(|value| !value.is_empty()), "{id} lacks {key}");
        }
        let schema = script.manifest.valves.json_schema();
        for (name, field) in schema.get("properties").unwrap().as_object().unwrap().entries() {
            assert!(field.text("description").is_some(), "{id}: {name} has no description");
        }
    }
}

#[tokio::test]
async fn all_shipped_filters_together_leave_a_plain_chat_unchanged() {
    let runs_by_default = |id: &str| {
        let script = compiled(id, &Settings::default());
        script.manifest.global && !script.manifest.toggle
    };
    let filters: Vec<FilterEntry> =
        all().iter().filter(|id| runs_by_default(id.as_str())).map(|id| shipped(id, "{}")).collect();
    let text = "Hello there! What is 2 + 2, and who wrote \"Faust\"? Grüße, 再见.";
    for provider in [Arc::new(Demo::default()) as Arc<dyn Provider>, Arc::new(CannedProvider::new([text]))] {
        let plain = Kernel::builder().provider(provider.clone()).build();
        let filtered = Kernel::builder().provider(provider).filters(filters.clone()).build();
        let expected = chat(&plain, text).await.unwrap();
        let answer = chat(&filtered, text).await.unwrap();
        assert!(!answer.text().is_empty());
        assert_eq!(answer.text(), expected.text());
        let request = body_with(text).to_string();
        assert_eq!(stream_body(&filtered, &request).await.text(), stream_body(&plain, &request).await.text());
    }
}

// ---- turn_limit

#[tokio::test]
async fn a_conversation_beyond_the_limit_is_refused() {
    let settings = Settings { configured: json(r#"{"max_turns":4}"#), ..Settings::default() };
    let filter = with_users("turn_limit", &settings, &[("ann", r#"{"bonus_turns":2}"#)]);
    let messages = |count: usize| {
        let body = body("[]");
        body.set("messages", (0..count).map(|_| message::user("x")).collect::<Vec<_>>()).unwrap();
        body
    };
    for (user, count, refused) in [
        (r#"{"id":"bob"}"#, 4, None),
        (r#"{"id":"bob"}"#, 5, Some("Conversation turn limit exceeded (4)")),
        (r#"{"id":"ann"}"#, 6, None),
        (r#"{"id":"ann"}"#, 7, Some("Conversation turn limit exceeded (6)")),
        ("{}", 5, Some("Conversation turn limit exceeded (4)")),
    ] {
        let result = inlet(&filter, &turn_of(user), &messages(count)).await;
        match refused {
            None => assert_eq!(result.unwrap(), messages(count)),
            Some(text) => assert_eq!(rejection(result), ("turn_limit".into(), text.into(), 400)),
        }
    }
    let default = shipped("turn_limit", "{}");
    assert!(inlet(&default, &turn_of("{}"), &messages(1_000)).await.is_ok());
}

// ---- rate_limit

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_respect_the_rate_limit_of_each_user() {
    let filter = shipped("rate_limit", r#"{"limit":30,"seconds":3600}"#);
    let requests = (0..100).map(|number| {
        let filter = filter.clone();
        tokio::spawn(async move {
            let user = if number % 2 == 0 { r#"{"id":"ann"}"# } else { r#"{"id":"bob"}"# };
            (number % 2, inlet(&filter, &turn_of(user), &body_with("hi")).await)
        })
    });
    let results = futures::future::join_all(requests).await;
    let mut allowed = [0, 0];
    for result in results {
        match result.unwrap() {
            (user, Ok(_)) => allowed[user] += 1,
            (_, Err(Error::Rejected(rejection))) => {
                assert_eq!(rejection.status, 429);
                assert!((3_590.0..=3_600.0).contains(&rejection.retry_after.unwrap()));
                assert!(
                    rejection.message.starts_with("Too many requests: 30 within 3600 seconds"),
                    "{rejection:?}"
                );
            }
            (_, Err(other)) => panic!("{other}"),
        }
    }
    assert_eq!(allowed, [30, 30]);
}

#[tokio::test]
async fn a_user_is_admitted_again_after_retry_after() {
    let now = Arc::new(AtomicI64::new(1_000_000));
    let clock = now.clone();
    let kv = Arc::new(Kv::with_clock(move || clock.load(Ordering::SeqCst)));
    let settings =
        |valves: &str| Settings { configured: json(valves), kv: kv.clone(), ..Settings::default() };
    let filter = with_users("rate_limit", &settings(r#"{"limit":1,"seconds":10}"#), &[]);
    let nobody = turn_of("{}");
    assert!(inlet(&filter, &nobody, &body_with("a")).await.is_ok());
    now.fetch_add(3_000, Ordering::SeqCst);
    let Err(Error::Rejected(rejection)) = inlet(&filter, &nobody, &body_with("b")).await else { panic!() };
    assert_eq!(rejection.retry_after, Some(7.0));
    // A newer version of the script keeps the counts.
    let filter =
        with_users("rate_limit", &settings(r#"{"limit":1,"seconds":10,"exempt_admins":false}"#), &[]);
    assert!(inlet(&filter, &nobody, &body_with("c")).await.is_err());
    now.fetch_add(7_000, Ordering::SeqCst);
    assert!(inlet(&filter, &nobody, &body_with("d")).await.is_ok());
    let admin = turn_of(r#"{"id":"root","role":"admin"}"#);
    assert!(inlet(&filter, &admin, &body_with("e")).await.is_ok());
    assert!(inlet(&filter, &admin, &body_with("f")).await.is_err());
    let filter = with_users("rate_limit", &settings(r#"{"limit":1,"seconds":10}"#), &[]);
    assert!(inlet(&filter, &admin, &body_with("g")).await.is_ok());
}

// ---- system_prompt

#[tokio::test]
async fn a_system_prompt_is_inserted_at_the_configured_position() {
    let request = || body(r#"[{"role":"system","content":"Old."},{"role":"user","content":"hi"}]"#);
    for (position, expected) in
        [("prepend", vec!["New.\n\nOld."]), ("append", vec!["Old.\n\nNew."]), ("replace", vec!["New."])]
    {
        let filter = shipped("system_prompt", &format!(r#"{{"prompt":"New.","position":"{position}"}}"#));
        let changed = inlet(&filter, &turn_of("{}"), &request()).await.unwrap();
        assert_eq!(texts_by_role(&changed, "system"), expected, "{position}");
        assert_eq!(texts_by_role(&changed, "user"), ["hi"]);
        let changed = inlet(&filter, &turn_of("{}"), &body_with("hi")).await.unwrap();
        assert_eq!(changed.at_path("messages.0").to_string(), r#"{"role":"system","content":"New."}"#);
    }
    let filter = shipped("system_prompt", "{}");
    assert_eq!(inlet(&filter, &turn_of("{}"), &request()).await.unwrap(), request());
    let many = body(
        r#"[{"role":"system","content":"a"},{"role":"user","content":"hi"},{"role":"developer","content":"b"}]"#,
    );
    let filter = shipped("system_prompt", r#"{"prompt":"New.","position":"replace"}"#);
    let changed = inlet(&filter, &turn_of("{}"), &many).await.unwrap();
    assert_eq!(changed.get("messages").unwrap().items().len(), 2);
}

#[tokio::test]
async fn placeholders_in_braces_are_filled_in() {
    let prompt =
        "You help {user} ({role}, {email}) with {model}; today is {weekday} {date}. {unknown} {User}";
    let filter = shipped("system_prompt", &format!(r#"{{"prompt":"{prompt}"}}"#));
    let filled = async |user: &str| {
        let changed = inlet(&filter, &turn_of(user), &body_with("hi")).await.unwrap();
        texts_by_role(&changed, "system").concat()
    };
    let text =
        filled(r#"{"id":"1","name":"{date}","email":"a@b","role":"admin","timezone":"Asia/Tokyo"}"#).await;
    assert!(text.starts_with("You help {date} (admin, a@b) with Model M; today is "), "{text}");
    assert!(text.ends_with(". {unknown} {User}"), "{text}");
    let day = text.split("today is ").nth(1).unwrap().split('.').next().unwrap();
    let (weekday, date) = day.split_once(' ').unwrap();
    assert!(weekday.ends_with("day") && date.len() == 10 && date.starts_with("20"), "{day}");
    assert!(filled("{}").await.starts_with("You help the user (user, ) with"));
}

// ---- think_tags

#[tokio::test]
async fn thinking_is_stripped_across_chunks() {
    let filter = shipped("think_tags", "{}");
    for (text, expected) in [
        ("<think>\nHm, é < 3.\n</think>\n\nHello <b>you</b>", "Hello <b>you</b>"),
        ("Hello <think>hm</think>you</think>, a<thin b", "Hello you</think>, a<thin b"),
        ("<think>a</think> <think>b</think>c", "c"),
        ("<think>cut off </thin", ""),
        ("The tag `<think>` is never </thin closed", "The tag `<think>` is never </thin closed"),
        ("  indented <", "  indented <"),
    ] {
        for cut in cuts(text) {
            let (streamed, whole) = both_ways(&filter, &cut).await;
            assert_eq!((streamed.as_str(), whole.as_str()), (expected, expected), "{cut:?}");
        }
    }
}

#[tokio::test]
async fn thinking_is_folded_or_kept_if_configured() {
    let text = "<think>hm</think>\nHello";
    for cut in cuts(text) {
        let (streamed, whole) = both_ways(&shipped("think_tags", r#"{"mode":"fold"}"#), &cut).await;
        let expected = "<details>\n<summary>Thinking</summary>\n\nhm\n\n</details>\n\n\nHello";
        assert_eq!((streamed.as_str(), whole.as_str()), (expected, expected), "{cut:?}");
        let (streamed, whole) = both_ways(&shipped("think_tags", r#"{"mode":"keep"}"#), &cut).await;
        assert_eq!((streamed.as_str(), whole.as_str()), (text, text));
    }
    let other = shipped("think_tags", r#"{"tag":"reason"}"#);
    assert_eq!(whole(&other, "<reason>x</reason>a <think>b</think>").await, "a <think>b</think>");
    let open = shipped("think_tags", r#"{"mode":"fold","summary":"Hm"}"#);
    assert_eq!(whole(&open, "<think>hm").await, "<details>\n<summary>Hm</summary>\n\nhm\n\n</details>\n\n");
}

fn piece(index: usize, delta: &str, finish: &str) -> Json {
    json(&format!(r#"{{"id":"c","choices":[{{"index":{index},"delta":{delta},"finish_reason":{finish}}}]}}"#))
}

#[tokio::test]
async fn thinking_in_separate_fields_is_dropped() {
    let pieces = || {
        Reply::chunks([
            piece(0, r#"{"role":"assistant","content":"","reasoning_content":"first"}"#, "null"),
            piece(
                0,
                r#"{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}"#,
                "null",
            ),
            piece(0, r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#, "null"),
            piece(0, r#"{"content":"Hello"}"#, "null"),
            piece(0, "{}", r#""stop""#),
        ])
    };
    let kernel = asking([pieces()]).0.filter(shipped("think_tags", "{}")).build();
    let streamed = stream(&kernel).await;
    assert_eq!(streamed.text(), "Hello|stop");
    assert_eq!(streamed.pieces.len(), 5, "{:?}", streamed.pieces);
    let wire = streamed.pieces.iter().map(|piece| piece.event.to_string()).collect::<String>();
    assert!(wire.matches("hm").count() == 3 && wire.contains("first"), "{wire}");
    let kernel = asking([pieces()]).0.filter(shipped("think_tags", r#"{"mode":"keep"}"#)).build();
    assert_eq!(stream(&kernel).await.pieces.len(), 5);

    let answer = json(
        r#"{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"<think>x</think>A","reasoning_content":"r"}]}"#,
    );
    let after = outlet(&shipped("think_tags", "{}"), &answer).await;
    assert_eq!(
        after.at_path("messages.1").to_string(),
        r#"{"role":"assistant","content":"A","reasoning_content":"r"}"#
    );
}

#[tokio::test]
async fn each_choice_is_stripped_separately() {
    let pieces = [
        piece(0, r#"{"content":"<think>a"}"#, "null"),
        piece(1, r#"{"content":"B <thi"}"#, "null"),
        piece(0, r#"{"content":"</think>A"}"#, "null"),
        piece(1, r#"{"content":"nk>b</think>C"}"#, r#""length""#),
        piece(0, "{}", r#""stop""#),
    ];
    let kernel = asking([Reply::chunks(pieces)]).0.filter(shipped("think_tags", "{}")).build();
    let streamed = stream(&kernel).await;
    assert_eq!((streamed.text_of(0).as_str(), streamed.text_of(1).as_str()), ("A|stop", "B C|length"));
}

// ---- redact

const PEM: &str =
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow IBAAKCAQEA7\n+/x9==\n-----END RSA PRIVATE KEY-----";
const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";

fn secrets() -> Vec<String> {
    let letters = |count: usize| "aB3dE6gH9j".chars().cycle().take(count).collect::<String>();
    vec![
        format!("sk-proj-{}", letters(40)),
        format!("sk-ant-api03-{}-{}AA", letters(30), letters(20)),
        format!("sk_live_{}", letters(24)),
        format!("ghp_{}", letters(36)),
        format!("github_pat_{}_{}", letters(22), letters(59)),
        format!("glpat-{}", letters(20)),
        "AKIAIOSFODNN7EXAMPLE".into(),
        format!("AIza{}", letters(35)),
        format!("xoxb-123456789012-{}", letters(24)),
        format!("hf_{}", letters(34)),
        format!("npm_{}", letters(36)),
        JWT.into(),
        PEM.into(),
        "ann.o'x+y@mail.example.co.uk".replace("o'x", "o_x"),
        "192.168.17.254".into(),
        "2001:db8:85a3::8a2e:370:7334".into(),
        "fe80:0:0:0:1:2:3:4".into(),
        "4111 1111 1111 1111".into(),
        "5500-0000-0000-0004".into(),
        "378282246310005".into(),
        "DE89 3704 0044 0532 0130 00".into(),
        "GB29NWBK60161331926819".into(),
    ]
}

#[tokio::test]
async fn a_secret_is_redacted_across_chunks() {
    let filter = shipped("redact", "{}");
    for secret in secrets() {
        for (before, after) in
            [("Sure: ", " and so on."), ("(", "), 再见 12 34 x"), ("密", ""), ("a 12 \n", "\nb")]
        {
            let text = format!("{before}{secret}{after}");
            let expected = format!("{before}[redacted]{after}");
            assert_eq!(whole(&filter, &text).await, expected);
            // Cuts shortly before, inside and directly after the secret.
            let from = before.len().saturating_sub(3);
            let places = text.char_indices().map(|(at, _)| at).filter(|at| *at > from);
            for at in valvehouse_testkit::sampled(places, 3) {
                let kernel =
                    asking([Reply::chunks([&text[..at], &text[at..]])]).0.filter(filter.clone()).build();
                assert_eq!(stream(&kernel).await.text(), format!("{expected}|stop"), "{text:?} cut at {at}");
            }
        }
    }
}

#[tokio::test]
async fn a_text_in_single_characters_is_redacted_the_same_way() {
    let filter = shipped("redact", "{}");
    let secrets = secrets();
    let text =
        secrets.iter().map(|secret| format!("{secret} – ok, 3 of 4 at 12:30:45;\n")).collect::<String>();
    let expected = "[redacted] – ok, 3 of 4 at 12:30:45;\n".repeat(secrets.len());
    let letters: Vec<String> = text.chars().map(String::from).collect();
    let (streamed, whole) = both_ways(&filter, &letters.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!((streamed.as_str(), whole.as_str()), (expected.as_str(), expected.as_str()));
}

#[tokio::test]
async fn text_that_only_resembles_a_secret_is_kept() {
    let text = "At 12:30:45 on 2024-01-02 std::vec::Vec 1.2.3 cost 1234 5678 9012 3456 for task-management-of-many-things, \
        AB12 THIS CODE IS LONG, dead::beef, 127.0.0.1, aa:bb:cc:dd:ee:ff, user@localhost, 4111 1111 1111 1112, \
        -----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----, 0.1 + 0.2 = 0.3, 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18\n\n| a | 1 |";
    let filter = shipped("redact", "{}");
    let letters: Vec<String> = text.chars().map(String::from).collect();
    let (streamed, whole) = both_ways(&filter, &letters.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!((streamed.as_str(), whole.as_str()), (text, text));
}

#[tokio::test]
async fn requests_to_the_model_are_redacted() {
    let filter = shipped("redact", r#"{"replacement":"***"}"#);
    let request = body(
        r#"[{"role":"system","content":"Mail a@b.example"},
            {"role":"user","content":[{"type":"text","text":"AKIAIOSFODNN7EXAMPLE!"},{"type":"image_url","image_url":{"url":"https://x.example/1.2.3.4"}}]},
            {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"to\":\"a@b.example\"}"}}]},
            {"role":"tool","tool_call_id":"1","content":"10.0.0.7"}]"#,
    );
    let changed = inlet(&filter, &turn_of("{}"), &request).await.unwrap();
    let expected = request.to_string().replace("a@b.example", "***").replace("AKIAIOSFODNN7EXAMPLE", "***");
    assert_eq!(changed.to_string(), expected.replace("10.0.0.7", "***"));

    // The result of a tool between two rounds.
    let (builder, model) = asking([calls("", &[("echo", r#"{"mail":"a@b.example"}"#)]), "done".into()]);
    let kernel = builder.tool(echo()).filter(filter).build();
    chat(&kernel, "hi").await.unwrap();
    assert_eq!(texts_by_role(&model.requests()[1], "tool"), [r#"{"mail":"***"}"#]);
}

#[tokio::test]
async fn every_kind_of_secret_can_be_disabled_and_patterns_added() {
    let off = r#"{"api_keys":false,"private_keys":false,"emails":false,"ip_addresses":false,"cards":false,"ibans":false}"#;
    let text = secrets().join("\n");
    assert_eq!(whole(&shipped("redact", off), &text).await, text);
    let filter = shipped("redact", r#"{"patterns":["(?i)project \\w+", "X-\\d+"],"phrase":20}"#);
    let text = "About Project  X: the PROJECT Phoenix and X-17 are\nsecret words of 5 letters.";
    let expected = text.replace("PROJECT Phoenix", "[redacted]").replace("X-17", "[redacted]");
    for cut in cuts(text) {
        let (streamed, whole) = both_ways(&filter, &cut).await;
        assert_eq!((&streamed, &whole), (&expected, &expected), "{cut:?}");
    }
    // A guard with an invalid pattern refuses everything.
    let broken = shipped("redact", r#"{"patterns":["("]}"#);
    let (plugin, _, cause) = failure(inlet(&broken, &turn_of("{}"), &body_with("hi")).await);
    assert!(plugin == "redact" && cause.contains("unclosed group"), "{cause}");
}

#[tokio::test]
async fn every_text_of_every_choice_is_redacted() {
    let pieces = [
        piece(0, r#"{"role":"assistant","reasoning":"mail a@b.ex"}"#, "null"),
        piece(1, r#"{"role":"assistant","content":"ip 10.0."}"#, "null"),
        piece(0, r#"{"reasoning":"ample or not"}"#, "null"),
        piece(1, r#"{"content":"0.7 or"}"#, "null"),
        piece(0, r#"{"content":"AKIAIOSF"}"#, "null"),
        piece(0, r#"{"content":"ODNN7EXAMPLE"}"#, "null"),
        piece(
            0,
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"m\":\"c@d."}}]}"#,
            "null",
        ),
        piece(
            0,
            r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{\"n\":"}}]}"#,
            "null",
        ),
        piece(0, r#"{"tool_calls":[{"index":0,"function":{"arguments":"example\"}"}}]}"#, "null"),
        piece(0, r#"{"tool_calls":[{"index":1,"function":{"arguments":"1}"}}]}"#, "null"),
        piece(1, "{}", r#""stop""#),
        piece(0, "{}", r#""tool_calls""#),
    ];
    let kernel = asking([Reply::chunks(pieces)]).0.filter(shipped("redact", "{}")).build();
    let streamed = stream(&kernel).await;
    assert_eq!(streamed.text_of(0), "[redacted]|tool_calls");
    assert_eq!(streamed.text_of(1), "ip [redacted] or|stop");
    let answer = streamed.answer.as_ref().unwrap();
    assert_eq!(answer.at_path("choices.0.message.reasoning"), "mail [redacted] or not".into());
    let arguments =
        |call: usize| answer.at_path(&format!("choices.0.message.tool_calls.{call}.function.arguments"));
    assert_eq!(arguments(0), r#"{"m":"[redacted]"}"#.into());
    assert_eq!(arguments(1), r#"{"n":1}"#.into());
    let wire: Vec<String> = streamed.pieces.iter().map(|piece| event::text(&piece.event).into()).collect();
    assert!(!wire.concat().contains("AKIA"), "{wire:?}");
    let order = streamed.pieces.iter().map(|piece| piece.event.to_string()).collect::<String>();
    assert!(order.find("or not") < order.find("tool_calls"), "{order}");
}

#[tokio::test]
async fn a_private_key_of_any_size_is_redacted_across_chunks() {
    let body = "MIIEowIBAAKCAQEA7x9kQ2/+\n".repeat(700);
    let kind = "RSA PRIVATE KEY-----";
    let text = format!("Here: -----BEGIN {kind}\n{body}-----END {kind}\nand 10.1.2.3, that is all.");
    let pieces: Vec<&str> =
        text.as_bytes().chunks(397).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
    let (streamed, whole) = both_ways(&shipped("redact", "{}"), &pieces).await;
    assert_eq!(whole, "Here: [redacted]\nand [redacted], that is all.");
    assert_eq!(streamed, whole);
}

#[tokio::test]
async fn fields_beside_the_text_are_redacted() {
    let event = json(
        r#"{"id":"c","citations":["https://x.example/?mail=a@b.example"],"search_results":[{"title":"by a@b.example","url":"u"}],"choices":[{"index":0,"delta":{"content":"Mail a@b.example","annotations":[{"type":"url_citation","url_citation":{"title":"a@b.example","url":"u"}}]},"message":{"role":"assistant","content":"Mail a@b.example"},"logprobs":{"content":[{"token":"Mail a@b.example","top_logprobs":[{"token":"Mail a@b.example"}]}]},"finish_reason":"stop"}]}"#,
    );
    let kernel = asking([Reply::chunks([event])]).0.filter(shipped("redact", "{}")).build();
    let streamed = stream(&kernel).await;
    let wire = streamed.pieces.iter().map(|piece| piece.event.to_string()).collect::<String>();
    assert!(!wire.contains("b.example"), "{wire}");
    assert!(wire.contains(r#""content":"Mail [redacted]""#), "{wire}");
}

#[tokio::test]
async fn log_probabilities_of_changed_text_are_removed() {
    let with_probabilities = |text: &str| {
        json(&format!(
            r#"{{"id":"c","choices":[{{"index":0,"delta":{{"content":"{text}"}},"logprobs":{{"content":[{{"token":"{text}","logprob":-1}}]}},"finish_reason":null}}]}}"#
        ))
    };
    let pieces = [
        with_probabilities("Mail a@"),
        with_probabilities("b.example "),
        with_probabilities("or so "),
        piece(0, "{}", r#""stop""#),
    ];
    let kernel = asking([Reply::chunks(pieces)]).0.filter(shipped("redact", "{}")).build();
    let streamed = stream(&kernel).await;
    assert_eq!(streamed.text(), "Mail [redacted] or so |stop");
    let wire = streamed.pieces.iter().map(|piece| piece.event.to_string()).collect::<String>();
    assert!(!wire.contains("a@") && !wire.contains("b.ex"), "{wire}");
    assert!(wire.contains(r#""token":"or so ""#), "{wire}");
}

#[tokio::test]
async fn an_unfinished_stream_releases_its_buffered_text() {
    let pieces =
        [piece(0, r#"{"content":"the end is ne"}"#, "null"), piece(0, r#"{"content":"ar"}"#, "null")];
    for id in ["redact", "think_tags"] {
        let kernel = asking([Reply::chunks(pieces.clone())]).0.filter(shipped(id, "{}")).build();
        let streamed = stream(&kernel).await;
        assert_eq!(streamed.texts().concat(), "the end is near", "{id}");
    }
}

#[tokio::test]
async fn long_texts_stay_within_the_budgets() {
    let words = "Lorem ipsum dolor sit amet, 12 of 34 at 56.7% – consectetur_adipiscing elit. ".repeat(400);
    let run = "q7Zx9".repeat(3_000);
    for text in [&words, &run] {
        assert_eq!(&whole(&shipped("redact", "{}"), text).await, text);
        let pieces: Vec<&str> =
            text.as_bytes().chunks(50).filter_map(|piece| std::str::from_utf8(piece).ok()).collect();
        let kernel =
            asking([Reply::chunks(pieces.iter().copied())]).0.filter(shipped("redact", "{}")).build();
        assert_eq!(stream(&kernel).await.text(), format!("{}|stop", pieces.concat()));
    }
    let thought = format!("<think>{words}</think>{words}");
    assert_eq!(whole(&shipped("think_tags", "{}"), &thought).await, words);
}

// ---- chat_log

#[tokio::test]
async fn the_chat_log_has_one_line_per_turn() {
    use std::io::Write;
    #[derive(Clone, Default)]
    struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for (valves, content) in [("{}", false), (r#"{"content":true,"max_characters":6}"#, true)] {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let guard = valvehouse_testkit::subscriber::subscribe(subscriber);
        let two = json(
            r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hello you"},"finish_reason":"stop"},
                {"index":1,"message":{"role":"assistant","content":"bye"},"finish_reason":"stop"}],
                "usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#,
        );
        let kernel = asking([Reply::whole(two)]).0.filter(shipped("chat_log", valves)).build();
        let turn = turn_of(r#"{"id":"ann","email":"ann@example.com"}"#);
        let request = crate::kernel::request(body_with("how are you"));
        kernel.run(request, RunOptions::new(turn)).answer().await.unwrap();
        drop(guard);
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(" script: ")).collect();
        assert_eq!(lines.len(), 1, "{text}");
        let line = lines[0].split_once(" script: ").unwrap().1;
        let line = json(&line[..=line.rfind('}').unwrap()]);
        for (key, expected) in [
            ("user", r#""ann""#),
            ("model", r#""m""#),
            ("messages", "2"),
            ("characters", "20"),
            ("answer_characters", "9"),
            ("tokens", "7"),
        ] {
            assert_eq!(line.get(key).unwrap().to_string(), expected, "{key}");
        }
        assert!(line.get("milliseconds").unwrap().as_i64().unwrap() >= 0);
        assert_eq!(line.text("question").is_some(), content);
        assert_eq!(text.contains("hello"), content);
        assert!(!text.contains("hello you") && !text.contains("example.com"), "{text}");
    }
}

#[tokio::test]
async fn fields_outside_the_choices_are_redacted_as_in_a_stream() {
    let whole = json(
        r#"{"id":"c","object":"chat.completion","created":1,"model":"m","citations":["https://example.org/?mail=ann@example.org"],
            "search_results":[{"title":"mail ann@example.org"}],
            "choices":[{"index":0,"message":{"role":"assistant","content":"see [1]"},"finish_reason":"stop"}]}"#,
    );
    let kernel = asking([Reply::whole(whole)]).0.filter(shipped("redact", "{}")).build();
    let body = body_with("hello");
    let answer = kernel.run(crate::kernel::request(body), RunOptions::default()).answer().await;
    let answer = answer.unwrap().reply;
    let text = answer.to_string();
    assert!(!text.contains("ann@example.org"), "{text}");
    assert!(answer.at_path("citations.0").as_str().unwrap().starts_with("https://example.org/"), "{text}");
    assert_eq!(answer.at_path("choices.0.message.content").as_str(), Some("see [1]"));
}

/// Contents of messages that no client should send, and some that many send.
const ODD_CONTENTS: &[&str] = &[
    "null",
    "\"\"",
    "\" \\n \"",
    "7",
    "true",
    "{}",
    r#"{"type":"text","text":"a"}"#,
    "[]",
    "[null]",
    "[7,true]",
    r#"["a","b"]"#,
    r#"[["a",["b"]]]"#,
    "[{}]",
    r#"[{"type":"text"}]"#,
    r#"[{"type":"text","text":null}]"#,
    r#"[{"type":"text","text":7}]"#,
    r#"[{"type":"text","text":["a"]}]"#,
    r#"[{"type":7,"text":"a"}]"#,
    r#"[{"text":"a"}]"#,
    r#"[{"type":"image_url","image_url":"data:image/png;base64,AAAA"}]"#,
    r#"[{"type":"image_url","image_url":{}}]"#,
    r#"[{"type":"image_url"}]"#,
    r#"[{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]"#,
    r#"[{"type":"file","file":{"file_id":"file-1"}},{"type":"unknown","content":[{"text":"x"}]}]"#,
];

/// Returns conversations with an odd content in each place, and with odd messages.
fn odd_bodies(content: &str) -> Vec<Json> {
    let user = r#"{"role":"user","content":"hello there"}"#;
    let answer = r#"{"role":"assistant","content":"good day"}"#;
    let of = |role: &str| format!(r#"{{"role":"{role}","content":{content}}}"#);
    let tool = format!(r#"{{"role":"tool","tool_call_id":"c1","content":{content}}}"#);
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    [
        format!("[{}]", of("user")),
        format!("[{},{}]", of("user"), of("assistant")),
        format!("[{},{user},{answer},{}]", of("system"), of("user")),
        format!("[{user},{call},{tool},{}]", of("assistant")),
        format!(r#"[{{"content":{content}}},{{"role":null,"content":{content}}},{user}]"#),
        format!(r#"[{{"role":"user"}},{{"role":"assistant","tool_calls":{content}}},{user}]"#),
    ]
    .iter()
    .map(|messages| body(messages))
    .collect()
}

#[tokio::test]
async fn no_shipped_filter_fails_at_an_odd_content() {
    let settings = || Settings { kv: Arc::new(Kv::default()), ..Settings::default() };
    let mut failures = Vec::new();
    for (nth, id) in all().into_iter().enumerate() {
        let filter = with_users(&id, &settings(), &[]);
        // By default, each filter sees others of the contents, each in all places.
        for content in
            valvehouse_testkit::sampled(ODD_CONTENTS.iter().cycle().skip(nth).take(ODD_CONTENTS.len()), 4)
        {
            for body in odd_bodies(content) {
                for hook in [Hook::Inlet, Hook::PreChat, Hook::Outlet] {
                    let turn = turn_of(r#"{"id":"u","role":"user","name":"U","email":"u@example.org"}"#);
                    let ended = Chain::new(vec![filter.clone()]).run(hook, body.deep_clone(), &turn).await;
                    // A guard refuses, and a filter without its grant cannot run; neither is a bug.
                    match ended {
                        Err(Error::Broken(failure)) if !failure.to_string().contains("grant") => {
                            failures.push(format!("{id} {hook}: {body}: {failure}"));
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures[..failures.len().min(20)].join("\n")
    );
}

#[tokio::test]
async fn a_number_that_is_replaced_in_a_json_text_becomes_a_string() {
    let text = r#"{"card":4111111111111111,"list":[1, 4711],"note":"4711 x"}"#;
    let expected = |card: &str, word: &str| {
        let word = |number: &str| if word.is_empty() { number.to_owned() } else { format!("\"{word}\"") };
        let note = if word("4711").starts_with('"') { "*** x" } else { "4711 x" };
        format!(r#"{{"card":{card},"list":[1, {}],"note":"{note}"}}"#, word("4711"))
    };
    for (id, valves, expected) in [
        ("redact", "{}", expected("\"[redacted]\"", "")),
        ("word_filter", r#"{"words":["4711"]}"#, expected("4111111111111111", "***")),
    ] {
        let filter = shipped(id, valves);
        let call = Json::from([("name", "f".into()), ("arguments", text.into())]);
        let call = Json::from([("id", "c".into()), ("type", "function".into()), ("function", call)]);
        let asked = body(&format!(
            r#"[{{"role":"assistant","content":null,"tool_calls":[{call}]}},{{"role":"user","content":"hi"}}]"#
        ));
        let sent = inlet(&filter, &turn_of("{}"), &asked).await.unwrap();
        let place = "tool_calls.0.function.arguments";
        assert_eq!(
            sent.at_path("messages.0").at_path(place).to_string(),
            Json::from(&*expected).to_string(),
            "{id}"
        );
        for at in valvehouse_testkit::sampled(1..text.len(), 12) {
            let part = |key: &str, text: &str| match key {
                "content" => Json::from([("content", text.into())]),
                _ => {
                    let function = Json::from([("name", "f".into()), ("arguments", text.into())]);
                    let call =
                        Json::from([("index", 0_i64.into()), ("id", "c".into()), ("function", function)]);
                    Json::from([("tool_calls", vec![call].into())])
                }
            };
            for key in ["content", "arguments"] {
                let event = |text: &str| event::with_delta(&Json::Null, part(key, text));
                let reply = Reply::chunks([event(&text[..at]), event(&text[at..])]);
                let kernel = asking([reply]).0.filter(filter.clone()).build();
                let streamed = stream(&kernel).await;
                let answer = streamed.answer.as_ref().unwrap();
                let message = answer.at_path("choices.0.message");
                let found = if key == "content" {
                    message.text_or_empty(key)
                } else {
                    message.at_path(place).as_str().unwrap_or_default().into()
                };
                assert_eq!(found, expected, "{id} {key} cut at {at}");
            }
        }
    }
}
