//! Filters in audit mode: they run, their verdicts are counted and traced, and nothing of them reaches the client or
//! the model.

use super::with;
use crate::cli::Project;
use crate::host::{Answer, TestHost, chat_body, streaming, until};
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

async fn switch(host: &TestHost, id: &str) -> Answer {
    with(host.request("POST", &format!("/api/v1/functions/id/{id}/toggle/audit")), &[]).await
}

#[tokio::test]
async fn operators_switch_the_audit_mode_on_all_hosts_of_the_store() {
    let refuses = "fn inlet(body) { deny(\"refused\", 403); }";
    let setup = TestHost::new().filter("refuses", refuses).tool("dice", "fn handler(args) { 4 }");
    let mut host = setup.start().await;
    let plain = host.settings();
    let other = host.another().await;
    host.ask("hi").await.refused(403, "refused");
    assert_eq!(switch(&host, "refuses").await.status, 200);
    assert_eq!(host.ask("hi").await.text(), "hello from upstream");
    until("the other host follows", || async { other.host.snapshot().plugins["refuses"].audited }).await;
    other.close().await;
    host.restart().await;
    assert_eq!(host.ask("hi").await.text(), "hello from upstream");
    let history = host.get("/api/v1/functions/id/refuses/history").await.json();
    assert_eq!((&history[0]["action"], &history[0]["audit"]), (&json!("toggle"), &json!(true)), "{history}");
    assert_ne!(history[0]["by"], json!("file"), "an operator did it");
    assert_eq!(switch(&host, "refuses").await.status, 200);
    host.ask("hi").await.refused(403, "refused");
    host.reconfigure(&format!("{plain}\n[filters.refuses]\nmode = \"audit\"\n")).await;
    host.ask("hi").await.refused(403, "refused");
    let rollback = host.request("POST", "/api/v1/functions/id/refuses/rollback");
    let version = json!({"version": history[0]["version"]});
    assert_eq!(Answer::of(rollback.body(version.to_string())).await.status, 200);
    assert_eq!(host.ask("hi").await.text(), "hello from upstream");
    let refused = switch(&host, "dice").await;
    assert_eq!((refused.status, refused.body().contains("only filters have one")), (409, true));
}

#[tokio::test]
async fn a_guard_is_audited_by_a_switch_of_an_operator_but_not_by_a_row_alone() {
    const GUARD: &str = "/*\nsecurity: true\n*/\nfn inlet(body) { deny(\"guarded\", 403); }";
    let mut host = TestHost::new().filter("guard", GUARD).start().await;
    host.ask("x").await.refused(403, "guarded");
    assert_eq!(switch(&host, "guard").await.status, 200);
    assert_eq!(host.ask("x").await.text(), "hello from upstream");
    host.restart().await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream");
    assert_eq!(switch(&host, "guard").await.status, 200);
    host.ask("x").await.refused(403, "guarded");
    let file = host.folder().join(".valvehouse/state.db");
    host.stop().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::query("UPDATE switches SET audit = TRUE").execute(&mut connection).await.unwrap();
    sqlx::Connection::close(connection).await.unwrap();
    host.restart().await;
    host.ask("x").await.refused(403, "guarded");
    let pending = host.problems("guard");
    assert!(pending.iter().any(|problem| problem.message.contains("no operator has set")), "{pending:?}");
}

#[test]
fn the_command_switches_the_audit_mode() {
    let project = Project::new()
        .filter("refuses", "fn inlet(body) { deny(\"refused\", 403); }")
        .filter("guard", "/*\nsecurity: true\n*/\nfn inlet(body) { body }");
    project.run("chat hello").ends(1).stderr_has("refused");
    project.run("audit refuses on").ends(0).prints("refuses is in audit mode");
    project.run("chat hello").ends(0);
    project.run("list").ends(0).prints("audit");
    project.run("audit refuses off").ends(0).prints("applies its verdicts");
    project.run("audit guard on").ends(0).stderr_has("protects nothing");
    project.run("audit refuse on").ends(2).stderr_has("did you mean `refuses`?");
    project.run("audit refuses").ends(2);
}
