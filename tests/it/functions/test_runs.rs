//! Tests of plugins that run over HTTP: on the saved script and on another text.

use crate::host::{Answer, TestHost};
use serde_json::{Value, json};
use std::time::Duration;

const SIGNS: &str = "fn outlet(body) {\n    body.messages[-1].text += \" -- signed\";\n    body\n}\n";
const TESTS: &str = "fn test_answers_are_signed() {\n    print(\"looking\");\n    assert_eq(outlet(\"hi\").messages[-1].text, \"hi -- signed\");\n}\n\nfn test_nothing_is_stored() {\n    kv::set(\"own\", 1);\n    assert(kv::get(\"own\") == 1);\n}\n";

/// Returns a host with a script and its tests.
async fn host() -> TestHost {
    let host =
        TestHost::new().filter("signs", SIGNS).filter("plain", "fn inlet(body) { body }").start().await;
    std::fs::write(host.folder().join("filters/signs.test.rhai"), TESTS).unwrap();
    host
}

fn results(report: &Value) -> Vec<(&str, bool)> {
    let tests = report["tests"].as_array().unwrap().iter();
    tests.map(|test| (test["name"].as_str().unwrap(), test["passed"].as_bool().unwrap())).collect()
}

#[tokio::test]
async fn tests_run_on_the_saved_script_and_on_another_text() {
    let host = host().await;
    let report = host.api_post("/id/signs/test", &json!({})).await;
    assert_eq!(
        results(&report),
        [("test_answers_are_signed", true), ("test_nothing_is_stored", true)],
        "{report}"
    );
    assert_eq!((&report["file"], &report["content"]), (&json!("filters/signs.test.rhai"), &json!(TESTS)));
    assert_eq!(
        (&report["not_run"], &report["problems"], &report["tests"][1]["line"]),
        (&json!(0), &json!([]), &json!(6))
    );
    assert!(report["took_ms"].as_f64() >= report["tests"][0]["took_ms"].as_f64(), "{report}");

    let draft = json!({"content": SIGNS.replace("signed\"", "resigned\"")});
    let report = host.api_post("/id/signs/test", &draft).await;
    assert_eq!(
        results(&report),
        [("test_answers_are_signed", false), ("test_nothing_is_stored", true)],
        "{report}"
    );
    let failed = &report["tests"][0];
    let problem = &failed["problems"][0];
    assert_eq!((&problem["file"], &problem["line"]), (&json!("tests"), &json!(3)), "{report}");
    assert_eq!(problem["place"], "filters/signs.test.rhai:3:5");
    assert_eq!(
        failed["differences"],
        json!([{"op": "replace", "path": "", "before": "hi -- signed", "after": "hi -- resigned"}])
    );
    assert!(failed["printed"][0].as_str().unwrap().ends_with("looking"), "{failed}");
    assert_eq!(std::fs::read_to_string(host.path_of("signs")).unwrap(), SIGNS, "nothing is saved");
    assert_eq!(host.api_history("signs").await.len(), 1);
}

#[tokio::test]
async fn a_failure_of_the_script_names_its_line_in_the_tested_text() {
    let host = host().await;
    let draft =
        json!({"content": SIGNS.replace("    body\n", "    let wrong = body.messages[7].text;\n    body\n")});
    let report = host.api_post("/id/signs/test", &draft).await;
    let problems = report["tests"][0]["problems"].as_array().unwrap();
    let places: Vec<_> =
        problems.iter().map(|one| (one["file"].as_str().unwrap(), one["line"].as_u64().unwrap())).collect();
    assert_eq!(places, [("script", 3), ("tests", 3)], "{report}");
    assert_eq!(problems[0]["excerpt"], "    let wrong = body.messages[7].text;");
    // A text or tests that do not compile are reported with their file.
    let report =
        host.api_post("/id/signs/test", &json!({"content": "fn outlet(body) {\n    let x = ;\n}"})).await;
    assert_eq!(
        (&report["problems"][0]["file"], &report["problems"][0]["line"]),
        (&json!("script"), &json!(2)),
        "{report}"
    );
    assert_eq!((&report["tests"], &report["content"]), (&json!([]), &json!(TESTS)));
    std::fs::write(host.folder().join("filters/signs.test.rhai"), "fn test_a() {\n    let = 1;\n}").unwrap();
    let report = host.api_post("/id/signs/test", &json!({})).await;
    assert_eq!(
        (&report["problems"][0]["file"], &report["problems"][0]["line"]),
        (&json!("tests"), &json!(2)),
        "{report}"
    );
}

#[tokio::test]
async fn a_plugin_without_tests_is_told_where_they_belong() {
    let host = host().await;
    let report = host.api_post("/id/plain/test", &json!({})).await;
    assert_eq!((&report["file"], &report["content"]), (&json!("filters/plain.test.rhai"), &Value::Null));
    assert_eq!((&report["tests"], &report["problems"]), (&json!([]), &json!([])));
    host.api("POST", "/id/sings/test", &json!({})).await.denied(404, "did you mean `signs`?");
    host.api("POST", "/id/signs/test", &json!({"text": ""})).await.denied(400, "text");
}

#[tokio::test]
async fn tests_reach_nothing_of_the_host() {
    let granted =
        "[grants.signs]\nenv = true\nfiles = [\"data\"]\nshell = [\"printenv\"]\nhttp = [\"127.0.0.1\"]\n";
    let host = TestHost::new().config(granted).filter("signs", SIGNS).start().await;
    std::fs::write(host.folder().join("filters/signs.test.rhai"), "fn test_all() { outlet(\"hi\"); }")
        .unwrap();
    std::fs::create_dir(host.folder().join("data")).unwrap();
    std::fs::write(host.folder().join("data/note.txt"), "canary-note").unwrap();
    let variable = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let web = format!("http::get(\"{}\").text", host.upstream.url());
    for what in [
        "env::get(\"CARGO_MANIFEST_DIR\")",
        "files::read(\"data/note.txt\")",
        "shell::run([\"printenv\", \"CARGO_MANIFEST_DIR\"]).stdout",
        "llm::chat(#{ messages: [#{ role: \"user\", content: \"hi\" }] })",
        &web,
    ] {
        let requirement = what.split(':').next().unwrap();
        let script =
            format!("/*\nrequirements: {requirement}\n*/\nfn outlet(body) {{ throw `got ${{{what}}}.`; }}");
        let report = host.api_post("/id/signs/test", &json!({"content": script})).await;
        let problem =
            report["tests"][0]["problems"][0]["message"].as_str().unwrap_or_else(|| panic!("{report}"));
        assert!(
            !problem.contains("canary") && !problem.contains(&format!("got {variable}")),
            "{what}: {problem}"
        );
    }
    assert!(host.upstream.requests().is_empty());
}

#[tokio::test]
async fn an_operator_has_one_run_at_a_time_which_ends_with_the_client() {
    let host = host().await;
    // More work than the time limit of a run allows.
    let slow: String = (0..400)
        .map(|number| format!("fn test_{number}() {{ let n = 0; while n < 10_000_000 {{ n += 1; }} }}\n"))
        .collect();
    std::fs::write(host.folder().join("filters/signs.test.rhai"), slow).unwrap();
    let (client, url) = (crate::host::client(), host.url("/api/v1/functions/id/signs/test"));
    let running = tokio::spawn(async move {
        loop {
            let answer =
                client.post(&url).header("content-type", "application/json").body("{}").send().await.unwrap();
            assert_eq!(answer.status().as_u16(), 409, "the run ended by itself");
        }
    });
    let until = async |status: u16| loop {
        let answer = host.api("POST", "/id/plain/test", &json!({})).await;
        if answer.status == status {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    until(409).await.denied(409, "a run of yours is in progress");
    // Another operator has a run of its own.
    let other =
        host.request("POST", "/api/v1/functions/id/plain/test").header("x-valvehouse-by", "Ann").body("{}");
    Answer::of(other).await.ok();
    running.abort();
    until(200).await;
}
