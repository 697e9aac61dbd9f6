//! Requests in the store: over restarts, of all hosts, by every filter and in pages, and sealed.

use super::{CANARY, step, trace_of};
use crate::host::{Answer, TestHost, chat_body, until};
use crate::upstream::MODEL;
use serde_json::{Value, json};
use valvehouse_testkit::postgres::Postgres;

const STORED: &str = "[trace]\nstore = \"7d\"\nturns = 2\n";
const REFUSES: &str = r#"fn inlet(body) { if body.messages[-1].content == "no" { deny("no", 403) } body }"#;
const MARKS: &str = r#"fn inlet(body) { body.messages[-1].content += " (seen)"; print("saw it"); body }"#;

async fn list(host: &TestHost, query: &str) -> Value {
    let list = host.get(&format!("/api/v1/traces?{query}")).await.json();
    assert_eq!((&list["stored"], &list["problem"]), (&json!(true), &Value::Null), "{list}");
    list
}

fn users(list: &Value) -> Vec<&str> {
    list["past"].as_array().unwrap().iter().map(|trace| trace["user"].as_str().unwrap()).collect()
}

async fn ask(host: &TestHost, user: &str, model: &str, text: &str) -> Answer {
    let mut body = chat_body(model, text);
    body["user"] = json!(user);
    host.chat(&body).await
}

#[tokio::test]
async fn requests_are_listed_selected_and_opened_after_a_restart() {
    let setup = TestHost::new().filter("a_refuses", REFUSES).filter("marks", MARKS).config(STORED);
    let mut host = setup.config("contents = [\"marks\"]").start().await;
    let from = valvehouse::store::now() / 1000;
    ask(&host, "ann", MODEL, "hi").await;
    ask(&host, "bob", MODEL, "no").await;
    let answer = ask(&host, "bob", "demo", CANARY).await;
    let fresh = trace_of(&host, &answer).await;
    for number in 0..3 {
        ask(&host, &format!("more{number}"), MODEL, "hi").await;
    }
    host.restart().await;

    let all = list(&host, "").await;
    assert_eq!(users(&all), ["more2", "more1", "more0", "bob", "bob", "ann"], "beyond [trace] turns");
    assert_eq!((&all["live"], &all["next"]), (&json!([]), &Value::Null));
    let later = valvehouse::store::now() / 1000 + 60;
    let moment = |seconds: i64| jiff::Timestamp::from_second(seconds).unwrap().to_string();
    for (query, expected) in [
        ("user=bob", vec!["bob", "bob"]),
        ("user=bob&model=demo", vec!["bob"]),
        ("failed=true", vec!["bob"]),
        ("outcome=refused&status=4xx", vec!["bob"]),
        ("status=403", vec!["bob"]),
        ("status=5xx", vec![]),
        ("plugin=marks&user=bob", vec!["bob"]),
        ("key=ci", vec![]),
        ("min_ms=600000", vec![]),
        (&format!("from={}&user=ann", moment(from)), vec!["ann"]),
        (&format!("from={}", moment(later)), vec![]),
        (&format!("to={}", moment(from)), vec![]),
    ] {
        assert_eq!(users(&list(&host, query).await), expected, "{query}");
    }
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(&host, &format!("limit=4{cursor}")).await;
        paged.extend(users(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, users(&all));
    for (query, why) in [
        ("cursor=x", "expected the `next`"),
        ("status=40x", "a class such as 4xx"),
        ("from=x", "expected a length such as 7d"),
    ] {
        host.get(&format!("/api/v1/traces?{query}")).await.refused(400, why);
    }

    let id = fresh["id"].as_str().unwrap();
    let stored = host.get(&format!("/api/v1/traces/{id}")).await.json();
    assert_eq!(stored, fresh);
    let text = step(&stored, "marks", "inlet")["values"][0]["after"]["messages"][0]["content"].clone();
    assert_eq!(text, json!(format!("{CANARY} (seen)")));
    host.get("/api/v1/traces/none").await.refused(404, "[trace] store");
    let replay = host.request("POST", &format!("/api/v1/traces/{id}/replay"));
    Answer::of(replay.body(json!({"plugin": "marks"}).to_string())).await.refused(404, "since its start");
    host.stop().await;
    for name in ["state.db", "state.db-wal"] {
        let bytes = std::fs::read(host.folder().join(".valvehouse").join(name)).unwrap_or_default();
        let is_in = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        for secret in [CANARY, "took_us", "ended_by"] {
            assert!(!is_in(secret), "{secret} in {name}");
        }
        assert!(name != "state.db" || is_in("a_refuses"), "the names that are selected by");
    }
}

#[tokio::test]
async fn values_that_a_client_wants_to_be_recorded_are_not_stored() {
    let setup = TestHost::new().filter("marks", MARKS).filter("other", MARKS).config(STORED);
    let mut host = setup.config("contents = [\"marks\"]").start().await;
    let request = host.posting(chat_body("demo", CANARY).to_string());
    let answer = Answer::of(request.header("x-valvehouse-trace", "content")).await;
    let fresh = trace_of(&host, &answer).await;
    let values =
        |trace: &Value, plugin: &str| step(trace, plugin, "inlet")["values"].as_array().unwrap().len();
    assert_eq!((values(&fresh, "marks"), values(&fresh, "other")), (1, 1));
    host.restart().await;
    let stored = host.get(&format!("/api/v1/traces/{}", fresh["id"].as_str().unwrap())).await.json();
    assert_eq!((values(&stored, "marks"), values(&stored, "other")), (1, 0));
    assert_eq!(step(&stored, "other", "inlet")["contents"], false);
    let texts = |trace: &Value| {
        let lines = trace["lines"].as_array().unwrap().iter();
        lines.map(|line| json!([line["plugin"], line["text"]])).collect::<Vec<_>>()
    };
    assert!(texts(&fresh).contains(&json!(["other", "saw it"])), "{fresh}");
    assert_eq!(texts(&stored), [json!(["marks", "saw it"]), json!(["other", null])]);
}

#[tokio::test]
async fn the_oldest_requests_are_deleted_beyond_the_size() {
    let setup = TestHost::new()
        .filter("marks", MARKS)
        .config(STORED)
        .config("contents = [\"marks\"]\nstore_max_mb = 1");
    let host = setup.start().await;
    for number in 0..20 {
        ask(&host, &format!("u{number}"), "demo", &"x".repeat(50_000)).await;
    }
    until("the oldest are deleted", || async {
        let list = list(&host, "").await;
        let users = users(&list);
        users.first() == Some(&"u19") && users.len() < 20
    })
    .await;
    let metrics = host.get("/metrics").await;
    assert!(metrics.body().contains("valvehouse_traces_dropped_total 0"), "{}", metrics.body());
}

#[tokio::test]
async fn hosts_of_one_database_list_the_requests_of_all() {
    let Some(mut server) = Postgres::start() else { return };
    let store = format!(
        "{STORED}[store]\nurl = \"{}\"\nkey = \"a key that is long enough for all hosts\"\n",
        server.database()
    );
    let setup = || TestHost::new().filter("marks", MARKS).config(&store);
    let (here, there) = (setup().start().await, setup().start().await);
    let answer = ask(&here, "ann", MODEL, "hi").await;
    ask(&there, "bob", MODEL, "hi").await;
    until("both are listed", || async { users(&list(&here, "").await).len() == 2 }).await;
    let all = list(&there, "").await;
    assert_eq!(users(&all), ["bob", "ann"]);
    let hosts = ["0", "1"].map(|place| all["past"][place.parse::<usize>().unwrap()]["host"].clone());
    assert_eq!(hosts, [there.app().host.id(), here.app().host.id()].map(|id| json!(id)));
    let id = answer.header("x-valvehouse-trace").unwrap();
    assert_eq!(there.get(&format!("/api/v1/traces/{id}")).await.json()["user"], "ann");
    server.kill();
    let own = there.get("/api/v1/traces").await.json();
    assert_eq!((&own["stored"], users(&own)), (&json!(false), vec!["bob"]), "{own}");
    assert!(own["problem"].as_str().unwrap().contains("cannot"), "{own}");
}
