//! Filters in audit mode: they run, their verdicts are counted and traced, and nothing of them reaches the client or
//! the model.

use super::with;
use crate::host::{Answer, TestHost, chat_body, streaming};
use crate::upstream::MODEL;
use serde_json::{Value, json};

/// Whole scripts, and the word of what each would do.
const FILTERS: [(&str, &str); 12] = [
    ("fn inlet(body) { body.messages[-1].text = \"changed\"; body.extra = 1; }", "would_change"),
    ("fn inlet(body) { deny(\"no\", 403); }", "would_refuse"),
    ("fn inlet(body) { return skip(\"instead\"); }", "would_skip"),
    ("fn inlet(body) { let lost = [1][9]; }", "would_fail"),
    (
        "fn inlet(body, __metadata__) { __metadata__.flag = true; emit(#{ type: \"status\", data: #{ description: \"seen\" } }); ask(#{ type: \"input\", data: #{} }); }",
        "would_fail",
    ),
    (
        "fn pre_chat(ctx) { ctx.messages[-1].text = \"changed\"; ctx.metadata.flag = true; ctx }",
        "would_change",
    ),
    ("fn pre_chat(ctx) { return error(\"no\"); }", "would_refuse"),
    ("fn stream(event) { event.text = \"changed\"; event }", "would_change"),
    ("fn stream(event) { [] }", "would_change"),
    ("fn post_chat(ctx) { return skip(\"instead\"); }", "would_skip"),
    ("fn outlet(body) { body.messages[-1].text = \"changed\"; }", "would_change"),
    ("/*\nhold: true\n*/\nfn outlet(body) { return error(\"late\"); }", "would_refuse"),
];

/// Refuses whatever another filter left behind.
const WATCH: &str =
    "fn outlet(body, __metadata__) { if __metadata__?.flag == true { deny(\"left behind\", 418); } }";

fn audited(source: &str) -> String {
    match source.strip_prefix("/*\n") {
        Some(rest) => format!("/*\nmode: audit\n{rest}"),
        None => format!("/*\nmode: audit\n*/\n{source}"),
    }
}

/// Returns what a client saw, without what differs from request to request.
fn seen(answer: &Answer) -> (u16, String) {
    let stable = |line: &str| !line.contains("\"id\"");
    let text = if answer.status == 200 { answer.text() } else { answer.body().to_owned() };
    (answer.status, text.lines().filter(|line| stable(line)).collect())
}

async fn traced(host: &TestHost, answer: &Answer) -> Value {
    host.get(&format!("/api/v1/traces/{}", answer.header("x-valvehouse-trace").unwrap())).await.json()
}

#[tokio::test]
async fn nothing_of_an_audited_filter_reaches_the_client_or_the_model() {
    for (source, word) in FILTERS {
        let plain = TestHost::new().filter("watch", WATCH).start().await;
        let host = TestHost::new().filter("audited", audited(source)).filter("watch", WATCH).start().await;
        assert!(host.problems("audited").is_empty() && host.problems("watch").is_empty(), "{source}");
        for body in [chat_body(MODEL, "hi"), streaming(MODEL, "hi")] {
            let (answer, expected) = (host.chat(&body).await, plain.chat(&body).await);
            assert_eq!(seen(&answer), seen(&expected), "{source}");
            if expected.is_stream() {
                assert_eq!(answer.events().len(), expected.events().len(), "{source}");
            }
            let sent = |host: &TestHost| host.upstream.requests().last().unwrap().body.clone();
            assert_eq!(sent(&host), sent(&plain), "{source}");
            let steps = traced(&host, &answer).await["steps"].clone();
            let steps = steps.as_array().unwrap().iter().filter(|step| step["plugin"] == "audited");
            let words: Vec<&str> = steps.map(|step| step["outcome"].as_str().unwrap()).collect();
            assert!(words.contains(&word), "{source}: {words:?}");
        }
        if word != "would_change" {
            let metrics = host.get("/metrics").await;
            let counted = metrics.body().lines().any(|line| {
                line.starts_with("valvehouse_plugin_calls_total")
                    && line.contains("plugin=\"audited\"")
                    && line.contains(&format!("outcome=\"{word}\""))
            });
            assert!(counted, "{source}: {word}");
        }
        // The same script does something when its verdicts apply.
        let host = TestHost::new().filter("enforced", source).start().await;
        let (answer, expected) = (host.ask("hi").await, plain.ask("hi").await);
        let changed = host.upstream.requests().last().map(|one| one.body.clone())
            != plain.upstream.requests().last().map(|one| one.body.clone());
        assert!(changed || seen(&answer) != seen(&expected), "{source}");
    }
}

#[tokio::test]
async fn the_metadata_of_an_audited_filter_stays_its_own() {
    let source = "fn inlet(body, __metadata__, state) { __metadata__.mine = 1; state.mine = 2; }\n\
        fn outlet(body, __metadata__, state) { if __metadata__.mine != 1 || state.mine != 2 { throw \"lost\"; } body.kept = 1; }";
    let host = TestHost::new().filter("audited", audited(source)).start().await;
    let answer = host.ask("hi").await;
    let trace = traced(&host, &answer).await;
    let text = trace.to_string();
    assert!(
        text.contains("would_change") && !text.contains("would_fail") && !text.contains("would_refuse"),
        "{trace}"
    );
}

#[tokio::test]
async fn a_guard_goes_into_audit_mode_only_on_confirmation() {
    const GUARD: &str = "/*\nsecurity: true\n*/\nfn inlet(body) { if body.messages[-1].text == \"bad\" { deny(\"guarded\", 403); } }";
    let mut host = TestHost::new().filter("guard", GUARD).start().await;
    let plain = host.settings();
    host.reconfigure(&format!("{plain}\n[filters.guard]\nmode = \"audit\"\n")).await;
    host.ask("bad").await.refused(403, "guarded");
    assert!(host.problems("guard").iter().any(|problem| problem.message.contains("audit mode")));
    let confirm = host.request("POST", "/api/v1/functions/id/guard/confirm");
    assert_eq!(with(confirm, &[]).await.status, 200);
    assert_eq!(host.ask("bad").await.text(), "hello from upstream");
    host.restart().await;
    assert_eq!(host.ask("bad").await.text(), "hello from upstream");
    host.reconfigure(&plain).await;
    host.ask("bad").await.refused(403, "guarded");
    // The confirmation was for that time only.
    host.reconfigure(&format!("{plain}\n[filters.guard]\nmode = \"audit\"\n")).await;
    host.ask("bad").await.refused(403, "guarded");
}

#[tokio::test]
async fn a_guard_that_starts_in_audit_mode_needs_no_confirmation() {
    const GUARD: &str = "/*\nsecurity: true\n*/\nfn inlet(body) { deny(\"guarded\", 403); }";
    let mut host =
        TestHost::new().config("[filters.guard]\nmode = \"audit\"\n").filter("guard", GUARD).start().await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream");
    host.restart().await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream");
    let listed = host.get("/api/v1/overview").await.json();
    let row = listed["plugins"].as_array().unwrap().iter().find(|row| row["id"] == "guard").cloned();
    assert_eq!(row.map(|row| row["mode"].clone()), Some(json!("audit")));
}
