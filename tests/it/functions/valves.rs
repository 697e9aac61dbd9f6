//! Valves set over HTTP: what is stored, what is refused, and what is never shown.

use super::SHOUTS;
use crate::host::{Answer, TestHost};
use serde_json::{Value, json};

const VALVES: &str = "/id/shouts/valves";
const UPDATE: &str = "/id/shouts/valves/update";

#[tokio::test]
async fn updated_values_are_coerced_and_live_at_the_response() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    assert_eq!(host.api_get(VALVES).await, json!({}), "what is stored, not what is in force");
    let saved = host.api_post(UPDATE, &json!({"times": "2", "word": "ho"})).await;
    assert_eq!(saved, json!({"times": 2, "word": "ho"}));
    assert_eq!(host.ask("x").await.text(), "hello from upstream ho ho");
    assert_eq!(host.api_post(UPDATE, &json!({"times": 3, "word": null})).await, json!({"times": 3}));
    assert_eq!(host.api_get(VALVES).await, json!({"times": 3}));
    assert_eq!(host.ask("x").await.text(), "hello from upstream hi hi hi", "what is left out is back");
    assert_eq!(host.api_post(UPDATE, &json!({})).await, json!({}));
    assert_eq!(host.ask("x").await.text(), "hello from upstream hi");
}

#[tokio::test]
async fn invalid_values_are_rejected_by_field_and_rule_and_change_nothing() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    host.api_post(UPDATE, &json!({"times": 2})).await;
    for (sent, expected) in [
        (json!({"times": 9}), "`times` must be 3 or less, not 9"),
        (json!({"times": "many"}), "`times` must be a whole number"),
        (json!({"word": "ha"}), "`word`"),
        (json!({"word": "hu", "times": 0}), "`times` must be 1 or more"),
        (json!([1]), "must be a JSON object, not an array"),
        (json!("x"), "must be a JSON object, not a string"),
    ] {
        host.api("POST", UPDATE, &sent).await.denied(400, expected);
        assert_eq!(host.api_get(VALVES).await, json!({"times": 2}), "{sent}");
    }
    assert_eq!(host.ask("x").await.text(), "hello from upstream hi hi");
    assert_eq!(host.api_history("shouts").await.len(), 2);
}

#[tokio::test]
async fn a_misspelled_valve_is_rejected_at_every_endpoint_and_changes_nothing() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    host.api_post(UPDATE, &json!({"times": 2})).await;
    let of_user = "/id/shouts/valves/user/update?user=ann";
    host.api_post(of_user, &json!({"loud": true})).await;
    let sent = json!({"word": "ho", "time": 3});
    for path in
        ["/shouts/valves/update", "/v1/shouts/valves/update", "/api/v1/functions/id/shouts/valves/update"]
    {
        let answer = Answer::of(host.request("POST", path).body(sent.to_string())).await;
        answer.denied(400, "unknown valve `time`; did you mean `times`?; nothing was changed");
        assert_eq!(host.api_get(VALVES).await, json!({"times": 2}), "{path}");
    }
    host.api("POST", of_user, &json!({"lood": true})).await.denied(400, "did you mean `loud`?");
    assert_eq!(host.api_get("/id/shouts/valves/user?user=ann").await, json!({"loud": true}));
    // What an earlier version of the script had declared comes back as it was shown.
    host.update("shouts", &SHOUTS.replace("times", "often")).await;
    let shown = host.api_get(VALVES).await;
    assert_eq!(shown, json!({"times": "********"}));
    assert_eq!(host.api_post(UPDATE, &shown).await, json!({}));
}

#[tokio::test]
async fn a_secret_is_write_only_and_survives_a_masked_form() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    let saved = host.api_post(UPDATE, &json!({"token": "canary-3", "times": 2})).await;
    assert_eq!(saved, json!({"token": "********", "times": 2}));
    host.api_post(UPDATE, &json!({"token": "********", "times": 3})).await;
    let stored = host.store().valves("shouts", None).await.unwrap();
    assert_eq!(stored.text("token").as_deref(), Some("canary-3"));
    // A script version that no longer declares the valve must not reveal it.
    host.update("shouts", &SHOUTS.replace("token:", "other:")).await;
    assert_eq!(host.api_get(VALVES).await["token"], "********");
    for path in [
        "",
        "/export?include_valves=true",
        "/id/shouts",
        VALVES,
        "/id/shouts/valves/effective",
        "/id/shouts/history",
        "/id/shouts/history/2",
        "/id/shouts/history/3?against=current",
        "/id/shouts/history/4?against=current",
    ] {
        let answer = host.api("GET", path, &Value::Null).await;
        answer.ok();
        assert!(!answer.body().contains("canary-3"), "{path}: {}", answer.body());
    }
    // Neither must a version in which the valve was not a secret yet.
    host.update("shouts", &SHOUTS.replace(", secret: true", "")).await;
    host.update("shouts", SHOUTS).await;
    for version in 1..=6 {
        let answer = host.api("GET", &format!("/id/shouts/history/{version}"), &Value::Null).await;
        answer.ok();
        assert!(!answer.body().contains("canary-3"), "{version}: {}", answer.body());
    }
    let wrong = host.api("POST", UPDATE, &json!({"token": ["canary-4"]})).await;
    wrong.denied(400, "`token`");
    assert!(!wrong.body().contains("canary-4"), "{}", wrong.body());
}

#[tokio::test]
async fn a_value_stored_as_a_secret_is_dropped_when_the_valve_stops_being_secret() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    host.api_post(UPDATE, &json!({"token": "canary-9", "times": 2})).await;
    host.api_post("/id/shouts/valves/user/update?user=ann", &json!({"pin": "canary-9"})).await;
    let open = SHOUTS.replace(", secret: true", "").replace(
        "let word =",
        "if body.messages[-1].text == \"\" { throw `${valves.token}${__user__.valves.pin}`; } let word =",
    );
    host.update("shouts", &open).await;
    for path in [
        "",
        "/export?include_valves=true",
        "/id/shouts",
        VALVES,
        "/id/shouts/valves/effective",
        "/id/shouts/valves/user?user=ann",
        "/id/shouts/history",
        "/id/shouts/history/2",
        "/id/shouts/history/3?against=current",
    ] {
        let answer = host.api("GET", path, &Value::Null).await;
        answer.ok();
        assert!(!answer.body().contains("canary-9"), "{path}: {}", answer.body());
        assert!(!answer.body().contains("$secret"), "{path}: {}", answer.body());
    }
    let in_force = host.api_get("/id/shouts/valves/effective").await;
    assert_eq!(in_force["token"], json!({"value": "", "source": "default"}));
    assert_eq!(in_force["times"], json!({"value": 2, "source": "stored"}));
    assert_eq!(host.api_get(VALVES).await, json!({"token": "********", "times": 2}));
    // A form that sends back the mask does not store it.
    host.api_post(UPDATE, &json!({"token": "********", "times": 3})).await;
    assert_eq!(host.api_get(VALVES).await, json!({"times": 3}));
    // A new value is stored as usual.
    host.api_post(UPDATE, &json!({"token": "plain"})).await;
    assert_eq!(host.api_get("/id/shouts/valves/effective").await["token"]["value"], "plain");
}

#[tokio::test]
async fn effective_values_name_their_source() {
    let host = TestHost::new()
        .filter("shouts", SHOUTS)
        .config("[filters.shouts]\nvalves = { times = 2, word = \"ho\" }")
        .start()
        .await;
    host.api_post(UPDATE, &json!({"word": "hu", "token": "canary-5"})).await;
    let expected = json!({
        "word": {"value": "hu", "source": "stored"},
        "times": {"value": 2, "source": "configuration"},
        "token": {"value": "********", "source": "stored"},
    });
    assert_eq!(host.api_get("/id/shouts/valves/effective").await, expected);
    host.api_post(UPDATE, &json!({})).await;
    assert_eq!(
        host.api_get("/id/shouts/valves/effective").await["token"],
        json!({"value": "", "source": "default"})
    );
}

#[tokio::test]
async fn forms_come_from_the_schema_of_the_valves() {
    let host =
        TestHost::new().filter("shouts", SHOUTS).filter("plain", "fn inlet(body) { body }").start().await;
    let spec = host.api_get("/id/shouts/valves/spec").await;
    assert_eq!(spec["title"], "Valves");
    assert_eq!(spec["properties"]["times"]["maximum"], 3);
    assert_eq!(spec["properties"]["token"]["writeOnly"], true);
    assert_eq!(host.api_get("/id/plain/valves/spec").await, Value::Null);
    assert_eq!(host.api_get("/id/plain/valves").await, json!({}));
    assert_eq!(host.api_get("/id/plain/valves/user/spec").await, Value::Null);
    host.api("POST", "/id/plain/valves/user/update?user=ann", &json!({})).await.denied(404, "no user valves");
    host.api("GET", "/id/plain/valves/user?user=ann", &Value::Null).await.denied(404, "no user valves");
}
