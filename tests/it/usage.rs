//! The usage of clients: by key, user, model and time, from the API, as CSV and by the command, also after a restart.

use crate::host::{Answer, TestHost, chat_body, streaming};
use crate::upstream::{MODEL, Reply};
use serde_json::{Value, json};
use valvehouse::store::{Counts, Dimension, UsageCount, UsageQuery, UsageRow};
use valvehouse_testkit::postgres::Postgres;

const CONFIG: &str = r#"
[[models]]
name = "fast"
provider = "mock"
model = "mock-1"
price = { input = 1_000_000, output = 2_000_000 }
"#;
const REFUSES: &str =
    "fn inlet(body) { if body.messages[0].content == \"no\" { throw \"not allowed\" } body }";

async fn report(host: &TestHost, query: &str) -> Vec<Value> {
    let answer = host.get(&format!("/api/v1/usage?{query}")).await.json();
    answer["data"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

#[tokio::test]
async fn requests_of_every_kind_are_counted_and_stay_after_a_restart() {
    let mut host = TestHost::new().config(CONFIG).filter("refuses", REFUSES).start().await;
    assert_eq!(host.chat(&chat_body("fast", "hi")).await.status, 200);
    host.chat(&chat_body("fast", "no")).await.refused(400, "not allowed");
    let mut named = chat_body("fast", "hi");
    named["user"] = "ann".into();
    assert_eq!(host.chat(&named).await.status, 200);
    host.upstream.reply(Reply::json(&json!({"error": {"message": "no"}})).status(400));
    assert_eq!(host.chat(&chat_body(MODEL, "hi")).await.status, 400);
    host.upstream.script(|_| Reply::words(["a", "b"]));
    host.chat(&streaming(MODEL, "hi")).await;
    let message = json!({"model": "fast", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    host.upstream.script(|request| Reply::fitting(request, "hi"));
    assert_eq!(host.message(&message).await.status, 200);

    let usage = json!({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 8});
    let message = json!({"role": "assistant", "content": "hi"});
    host.upstream
        .reply(Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})));
    assert_eq!(host.chat(&chat_body(MODEL, "hi")).await.status, 200);

    let all = report(&host, "").await;
    let number = |entry: &Value, name: &str| entry[name].as_f64().unwrap_or_else(|| panic!("{entry}"));
    assert_eq!(all.len(), 1, "{all:?}");
    let counts =
        ["requests", "client_errors", "server_errors", "refusals", "cost"].map(|name| number(&all[0], name));
    assert_eq!(counts, [7.0, 2.0, 0.0, 1.0, 49.0], "{}", all[0]);
    assert!(number(&all[0], "p50_ms") <= number(&all[0], "p99_ms") && number(&all[0], "first_ms") >= 0.0);
    assert_eq!(
        ["cached_tokens", "reasoning_tokens"].map(|name| number(&all[0], name)),
        [4.0, 2.0],
        "{}",
        all[0]
    );
    assert!(number(&all[0], "plugin_ms") > 0.0 && number(&all[0], "model_ms") >= 0.0, "{}", all[0]);
    host.restart().await;
    let by = report(&host, "by=model,endpoint,provider,user&step=1m&from=1h").await;
    let mut sums: Vec<(String, u64)> = Vec::new();
    for entry in &by {
        let group = ["model", "endpoint", "provider", "user"].map(|name| entry["by"][name].as_str().unwrap());
        sums.push((group.join(" "), entry["requests"].as_u64().unwrap()));
    }
    sums.sort();
    let expected =
        ["fast chat  ", "fast chat mock ", "fast chat mock ann", "fast messages mock ", "mock-1 chat mock "];
    assert_eq!(sums.iter().map(|(group, _)| group.as_str()).collect::<Vec<_>>(), expected, "{by:?}");
    for (query, requests) in
        [("model=fast", 4), ("model=fast&provider=mock", 3), ("provider=mock&step=1m", 6)]
    {
        let found = report(&host, query).await;
        assert_eq!(
            found.iter().filter_map(|entry| entry["requests"].as_u64()).sum::<u64>(),
            requests,
            "{query}"
        );
    }
    assert_eq!(report(&host, "model=none").await, Vec::<Value>::new());
    for query in ["by=plugin", "by=plugin&step=1h"] {
        let refused = report(&host, query).await;
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!((&refused[0]["by"], &refused[0]["refusals"]), (&json!({"plugin": "refuses"}), &json!(1)));
    }
    assert_eq!(report(&host, "from=2001-01-01").await[0]["at"], "2001-01-01T00:00:00Z");
    let csv = Answer::of(host.request("GET", "/api/v1/usage?by=user&format=csv")).await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(csv.body().starts_with("at,user,requests,client_errors"), "{}", csv.body());
    assert!(csv.body().contains("Z,\"ann\",1,0,0,0,1,1,0,0,3,"), "{}", csv.body());
    for (query, why) in [
        ("from=7w", "expected a length such as 7d"),
        ("by=keys", "did you mean `key`?"),
        ("by=key,plugin", "stands alone"),
        ("by=plugin&model=fast", "by the filter alone"),
        ("step=1s", "at least 1m"),
        ("from=1000d&step=1m", "10000 periods"),
        ("from=1h&to=2h", "must be before"),
        ("format=xml", "`json` or `csv`"),
    ] {
        Answer::of(host.request("GET", &format!("/api/v1/usage?{query}"))).await.refused(400, why);
    }
}

#[tokio::test]
async fn names_of_clients_that_no_database_takes_do_not_end_the_usage() {
    let Some(server) = Postgres::start() else { return };
    let settings =
        format!("[store]\nurl = \"{}\"\nkey = \"the key of this test, which is long\"\n", server.database());
    // With a filter, the user of a body is read.
    let host = TestHost::new().config(&settings).filter("refuses", REFUSES).start().await;
    for user in [&"x".repeat(5_000), "a\0b", "ann"] {
        let mut body = chat_body(MODEL, "hi");
        body["user"] = user.into();
        assert_eq!(host.chat(&body).await.status, 200, "{user}");
    }
    let entries = report(&host, "by=user").await;
    let users: Vec<&str> = entries.iter().map(|entry| entry["by"]["user"].as_str().unwrap()).collect();
    assert_eq!(users, ["ab", "ann", &"x".repeat(200)]);
}

fn rows(at: i64, users: std::ops::Range<usize>) -> Vec<UsageRow> {
    let row = |user: usize| {
        let mut counts = Counts::default();
        counts[UsageCount::Requests] = 1;
        counts.add_latency(90);
        let by = ["ci".into(), format!("u{user}"), "m".into(), "p".into(), "chat".into()].to_vec();
        UsageRow { at, by, counts }
    };
    users.map(row).collect()
}

fn refusal(at: i64, plugin: &str) -> UsageRow {
    let mut counts = Counts::default();
    counts[UsageCount::Refusals] = 1;
    UsageRow { at, by: vec![plugin.to_owned()], counts }
}

#[tokio::test]
async fn old_minutes_become_hours_and_days_without_losing_a_request() {
    let Some(server) = Postgres::start() else { return };
    let host = TestHost::new().start().await;
    let key = valvehouse::config::SecretSource::Literal(valvehouse::config::Secret::new(
        "the key of this test, which is long",
    ));
    let shared = valvehouse::store::Store::postgres(&server.database(), Some(&key)).await.unwrap();
    let now = valvehouse::store::now() / 1000;
    for store in [host.store(), &shared] {
        let day = 24 * 60 * 60;
        for age in [0, 2 * day, 2 * day + 60, 40 * day, 40 * day + 3_600] {
            store.add_usage(&rows(now - age, 0..150)).await.unwrap();
            store.add_usage(&rows(now - age, 100..200)).await.unwrap();
            let refused = ["redact", "words", "redact"].map(|plugin| refusal(now - age, plugin));
            store.add_usage(&refused[..1]).await.unwrap();
            store.add_usage(&refused[1..]).await.unwrap();
        }
        let all = async || {
            let asked = UsageQuery { to: now + 60, ..UsageQuery::default() };
            store.usage(&asked).await.unwrap()[0].counts
        };
        let before = all().await;
        assert_eq!((before[UsageCount::Requests], before.latencies()[3]), (1_250, 1_250));
        for _ in 0..2 {
            store.compact_usage().await.unwrap();
            assert_eq!(all().await, before);
        }
        let asked = UsageQuery { to: now - 35 * day, step: 60, ..UsageQuery::default() };
        let old = store.usage(&asked).await.unwrap();
        assert!(old.len() <= 2 && old.iter().all(|row| row.at % day == 0), "{old:?}");
        let by_plugin = UsageQuery { to: now + 60, by: vec![Dimension::Plugin], ..UsageQuery::default() };
        let refused = store.usage(&by_plugin).await.unwrap();
        let refused: Vec<_> =
            refused.iter().map(|row| (row.by.concat(), row.counts[UsageCount::Refusals])).collect();
        assert_eq!(refused, [("redact".to_owned(), 10), ("words".to_owned(), 5)]);
    }
}
