//! Rollbacks: the file, the valves and the switches are restored exactly, in one step.

use crate::functions::{BROKEN, SHOUTS, filter_with_answer, new};
use crate::host::TestHost;
use serde_json::{Value, json};

#[tokio::test]
async fn a_rollback_restores_every_byte_and_the_valves() {
    let odd = format!("\u{feff}{}  \t\r\n\r\n", SHOUTS.replace('\n', "\r\n"));
    let host = TestHost::new().filter("shouts", &odd).start().await;
    host.api_post("/id/shouts/valves/update", &json!({"times": 2, "token": "canary-8"})).await;
    host.api_post("/id/shouts/toggle/global", &Value::Null).await;
    host.api_post("/id/shouts/toggle/global", &Value::Null).await;
    host.api_post("/id/shouts/update", &json!({"content": SHOUTS})).await;
    host.api_post("/id/shouts/valves/update", &json!({"word": "ho"})).await;
    host.api_post("/id/shouts/toggle", &Value::Null).await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream");

    let function = host.back_to("shouts", 2).await;
    assert_eq!(std::fs::read(host.path_of("shouts")).unwrap(), odd.as_bytes());
    assert_eq!(host.ask("x").await.text(), "hello from upstream hi hi");
    assert_eq!(
        (&function["is_active"], &function["is_global"], &function["content"]),
        (&json!(true), &json!(true), &json!(odd))
    );
    let stored = host.store().valves("shouts", None).await.unwrap();
    assert_eq!(stored.to_string(), r#"{"times":2,"token":"canary-8","$secret:token":true}"#);
    assert_eq!(host.store().settings().await.unwrap().switches, [], "no switch was stored then");
    assert_eq!(host.api_history("shouts").await[0], (8, "local".into(), "rollback".into()));

    host.back_to("shouts", 7).await;
    assert_eq!(std::fs::read(host.path_of("shouts")).unwrap(), SHOUTS.as_bytes());
    assert_eq!(host.api_get("/id/shouts/valves").await, json!({"word": "ho"}));
    assert_eq!(host.api_get("/id/shouts").await["is_active"], false, "a step back can be taken back");
}

#[tokio::test]
async fn a_rollback_fixes_a_stale_function_and_keeps_the_broken_version() {
    let host = TestHost::new().filter("shouts", filter_with_answer("one")).start().await;
    host.save("shouts", BROKEN);
    host.stands("shouts", "stale").await;
    assert_eq!(host.back_to("shouts", 1).await["state"], "live");
    assert_eq!(std::fs::read_to_string(host.path_of("shouts")).unwrap(), filter_with_answer("one"));
    assert_eq!(host.problems("shouts"), []);
    assert_eq!(host.api_get("/id/shouts/history/2").await["content"], BROKEN);
}

#[tokio::test]
async fn a_rollback_restores_a_deleted_function_in_place() {
    let host = TestHost::new().start().await;
    let deep = host.folder().join("filters/team/shouts.rhai");
    std::fs::create_dir_all(deep.parent().unwrap()).unwrap();
    std::fs::write(&deep, SHOUTS).unwrap();
    host.stands("shouts", "live").await;
    host.api_post("/id/shouts/valves/update", &json!({"times": 3})).await;
    host.api("DELETE", "/id/shouts/delete", &Value::Null).await.ok();
    let gone = host.api_get("/deleted").await;
    assert_eq!((&gone[0]["id"], &gone[0]["version"]), (&json!("shouts"), &json!(3)));
    host.api("POST", "/id/shouts/rollback", &json!({"version": 3}))
        .await
        .denied(409, "it is the deletion of the file");
    host.back_to("shouts", 2).await;
    assert_eq!(std::fs::read_to_string(&deep).unwrap(), SHOUTS);
    assert_eq!(host.ask("x").await.text(), "hello from upstream hi hi hi");
    assert_eq!(host.api_get("/deleted").await, json!([]));

    host.api_post("/create", &new("other", &filter_with_answer("other"))).await;
    host.delete("other");
    host.stands("other", "gone").await;
    assert_eq!(host.api_history("other").await[0], (2, "file".into(), "delete".into()));
    host.back_to("other", 1).await;
    assert!(host.path_of("other").exists(), "also what was deleted by hand");
}

#[tokio::test]
async fn a_rollback_restores_a_missing_guard() {
    let guard = "/*\nsecurity: true\n*/\nfn inlet(body) { body }";
    let host = TestHost::new().filter("guard", guard).start().await;
    host.delete("guard");
    host.stands("guard", "missing").await;
    assert_eq!(host.ask("x").await.status, 503);
    assert_eq!(host.back_to("guard", 1).await["state"], "live");
    assert_eq!(host.ask("x").await.status, 200);
}

#[tokio::test]
async fn a_rollback_to_an_unloadable_version_is_rejected() {
    let lists = "/*\nrequirements: env\n*/\nfn inlet(body) { env::get(\"HOME\"); body }";
    let host = TestHost::new().filter("lists", filter_with_answer("one")).start().await;
    let grants = valvehouse::json::Json::parse(br#"{"env": ["HOME"]}"#).unwrap();
    let granted = host.store().set_grants("lists", Some(&grants), None, "test").await.unwrap().unwrap();
    host.obeys(granted).await;
    host.api_post("/id/lists/update", &json!({"content": lists})).await;
    host.api_post("/id/lists/update", &json!({"content": filter_with_answer("three")})).await;
    host.obeys(host.store().set_grants("lists", None, None, "test").await.unwrap().unwrap()).await;
    let refused = host.api("POST", "/id/lists/rollback", &json!({"version": 3})).await;
    let refusal = refused.denied(422, "valvehouse grant lists");
    assert_eq!(refusal["problems"].as_array().unwrap().len(), 1);
    assert_eq!(host.ask("x").await.text(), "three");
    assert_eq!(host.api_history("lists").await.len(), 5);
}

#[tokio::test]
async fn a_rollback_to_a_missing_version_is_rejected() {
    let host = TestHost::new()
        .filter("shouts", filter_with_answer("one"))
        .tool("counts", "fn handler(args) { 1 }")
        .start()
        .await;
    host.api("POST", "/id/shouts/rollback", &json!({"version": 7}))
        .await
        .denied(404, "stored versions: 1 to 1");
    host.api("POST", "/id/shouts/rollback", &json!({})).await.denied(400, "missing `version`");
    host.api("POST", "/id/shouts/rollback", &json!({"version": "one"})).await.denied(400, "whole number");
    host.delete("shouts");
    host.stands("shouts", "gone").await;
    host.api_post("/create", &json!({"id": "shouts", "type": "tool", "content": "fn handler(args) { 1 }"}))
        .await;
    host.api("POST", "/id/shouts/rollback", &json!({"version": 1})).await.denied(409, "share one set of ids");
}
