//! Grants that plugins ask for, and that operators approve and revoke over HTTP.

use crate::host::{Answer, TestHost};
use serde_json::{Value, json};

/// Reads a file and a variable.
const READS: &str = "/*\nrequirements: files, env\n*/\nfn outlet(body) {\n    env::get(\"LANG\");\n    body.messages[-1].text = files::read(\"note.txt\");\n    body\n}\n";

/// Returns a host with a plugin that waits for its grants, and a file in the folder `data`.
async fn host() -> TestHost {
    let host = TestHost::new().filter("reads", READS).start().await;
    std::fs::create_dir(host.folder().join("data")).unwrap();
    std::fs::write(host.folder().join("data/note.txt"), "from the file").unwrap();
    host
}

/// Returns the report of a capability.
fn of<'a>(report: &'a Value, name: &str) -> &'a Value {
    let all = report["capabilities"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name} in {report}"))
}

fn approval(report: &Value, grants: &[&str]) -> Value {
    json!({"hash": report["hash"], "grants": grants})
}

#[tokio::test]
async fn a_plugin_is_live_with_what_an_operator_approved() {
    let host = host().await;
    host.stands("reads", "broken").await;
    let asked = host.api_get("/id/reads/grants").await;
    let files = of(&asked, "files");
    assert_eq!(
        (&files["state"], &files["version"], &files["names"]),
        (&json!("missing"), &json!(null), &json!("folders"))
    );
    assert!(files["since"].as_i64().unwrap() > 1_700_000_000, "{files}");
    assert_eq!(files["meaning"], "read and write the files in named folders");
    assert!(of(&asked, "env")["whole"].as_str().unwrap().contains("passwords"), "{asked}");
    // One of two is not enough.
    let one = host.api_post("/id/reads/grants/approve", &approval(&asked, &["files=data"])).await;
    assert_eq!(
        (&of(&one, "files")["state"], &of(&one, "env")["state"]),
        (&json!("granted"), &json!("missing"))
    );
    assert_eq!((&of(&one, "files")["stored"], &of(&one, "files")["version"]), (&json!(["data"]), &json!(1)));
    assert_eq!(host.api_get("/id/reads").await["state"], "broken");
    let request =
        host.request("POST", "/api/v1/functions/id/reads/grants/approve").header("x-valvehouse-by", "Ann");
    Answer::of(request.body(approval(&one, &["env=LANG"]).to_string())).await.ok();
    assert_eq!(host.api_get("/id/reads").await["state"], "live");
    assert_eq!(host.ask("hi").await.text(), "from the file");
    // The plugin never ran before, and the history still names the text that was approved and the operators.
    let history = host.api_history("reads").await;
    let history: Vec<(&str, &str)> = history.iter().map(|(_, by, act)| (by.as_str(), act.as_str())).collect();
    assert_eq!(history, [("local (Ann)", "grant"), ("local", "grant"), ("file", "file")]);
}

#[tokio::test]
async fn an_approval_does_not_cover_a_text_that_was_not_shown() {
    let host = host().await;
    let asked = host.api_get("/id/reads/grants").await;
    host.save("reads", READS.replace("files, env", "files, shell"));
    for grants in [&["files=data"][..], &["shell=sh"], &["env=LANG", "files=data"]] {
        let late = host.api("POST", "/id/reads/grants/approve", &approval(&asked, grants)).await;
        late.denied(409, "its script has changed since it was shown");
    }
    assert_eq!(host.store().grants().await.unwrap(), []);
    let now = host.api_get("/id/reads/grants").await;
    assert_eq!(of(&now, "shell")["state"], "missing");
    host.api_post("/id/reads/grants/approve", &approval(&now, &["files=data"])).await;
    // A page of another site cannot approve for an operator of this machine.
    let request = host.request("POST", "/api/v1/functions/id/reads/grants/approve");
    let request =
        request.header("origin", "https://evil.example").body(approval(&now, &["shell"]).to_string());
    assert_eq!(Answer::of(request).await.status, 403);
    assert_eq!(of(&host.api_get("/id/reads/grants").await, "shell")["state"], "missing");
}

#[tokio::test]
async fn an_approval_is_refused_in_the_words_of_the_command() {
    let host = host().await;
    let asked = host.api_get("/id/reads/grants").await;
    for (grants, why) in [
        (&["shell=git"][..], "`reads` does not use `shell`, only files and env"),
        (&["files=data", "memories"], "`reads` does not use `memories`"),
        (&["flies=data"], "did you mean `files`?"),
        (&["files"], "files needs a folder"),
        (&["files=~/data"], "`~` is not expanded here"),
        (&["env=*"], "write the capability alone"),
        (&[], "missing grants"),
    ] {
        host.api("POST", "/id/reads/grants/approve", &approval(&asked, grants)).await.denied(400, why);
    }
    for body in
        [json!({"grants": ["env"]}), json!({"hash": 1, "grants": []}), json!({"hash": "x", "grant": ["env"]})]
    {
        host.api("POST", "/id/reads/grants/approve", &body).await.denied(400, "");
    }
    host.api("POST", "/id/raeds/grants/approve", &approval(&asked, &["env"]))
        .await
        .denied(404, "did you mean `reads`?");
    host.api("GET", "/id/raeds/grants", &Value::Null).await.denied(404, "did you mean `reads`?");
    assert_eq!(host.store().grants().await.unwrap(), []);
}

#[tokio::test]
async fn revoked_grants_are_gone_at_the_response() {
    let settings = "[grants.reads]\nenv = [\"LANG\"]\n";
    let host = TestHost::new().config(settings).filter("reads", READS).start().await;
    let asked = host.api_get("/id/reads/grants").await;
    assert_eq!(
        (&of(&asked, "env")["configured"], &of(&asked, "env")["configured_by"]),
        (&json!(["LANG"]), &json!("valvehouse.toml"))
    );
    host.api_post("/id/reads/grants/approve", &approval(&asked, &["files=data,more", "env=HOME"])).await;
    let revoke =
        async |grants: &[&str]| host.api("POST", "/id/reads/grants/revoke", &json!({"grants": grants})).await;
    let left = revoke(&["files=more"]).await.ok();
    assert_eq!(of(&left, "files")["stored"], json!(["data"]));
    revoke(&["files=more"]).await.denied(409, "files=more is not granted");
    revoke(&["http"]).await.denied(409, "`http` is not granted to `reads`");
    revoke(&["env=HOME"]).await.ok();
    revoke(&["env"]).await.denied(409, "`env` is granted to `reads` by valvehouse.toml; remove it there");
    assert_eq!(host.api_get("/id/reads").await["state"], "live");
    let left = revoke(&[]).await.ok();
    assert_eq!(
        (&of(&left, "files")["state"], &of(&left, "env")["state"]),
        (&json!("missing"), &json!("granted"))
    );
    assert_eq!(host.api_get("/id/reads").await["state"], "broken");
    revoke(&[]).await.denied(409, "none are stored");
    assert_eq!(host.api_history("reads").await[0].2, "grant");
}

#[tokio::test]
async fn grants_of_a_guard_are_revoked_only_with_a_confirmation() {
    let guard = "/*\nsecurity: true\nrequirements: env\n*/\nfn inlet(body) { env::get(\"LANG\"); body }";
    let host = TestHost::new().filter("guard", guard).start().await;
    assert_eq!(host.ask("hi").await.status, 503);
    let asked = host.api_get("/id/guard/grants").await;
    host.api_post("/id/guard/grants/approve", &approval(&asked, &["env=LANG"])).await;
    assert_eq!(host.ask("hi").await.status, 200);
    let all = json!({"grants": []});
    host.api("POST", "/id/guard/grants/revoke", &all).await.denied(409, "add ?confirm=true");
    assert_eq!(host.ask("hi").await.status, 200);
    host.api("POST", "/id/guard/grants/revoke?confirm=true", &all).await.ok();
    assert_eq!(host.ask("hi").await.status, 503);
}

#[tokio::test]
async fn the_report_says_since_which_version_a_script_asks() {
    let asks = |what: &str| json!({"content": format!("/*\nrequirements: {what}\nallow_hosts: a.example\n*/\nfn inlet(body) {{ body }}")});
    let host = TestHost::new().filter("asks", asks("kv")["content"].as_str().unwrap()).start().await;
    for what in ["kv, vectors", "llm, kv", "kv, vectors, llm, http"] {
        host.api_post("/id/asks/update", &asks(what)).await;
    }
    host.api_post("/id/asks/toggle", &json!({})).await;
    let report = host.api_get("/id/asks/grants").await;
    let since = ["kv", "llm", "vectors", "http"].map(|name| of(&report, name)["version"].as_u64().unwrap());
    assert_eq!(since, [1, 3, 4, 4]);
    let http = of(&report, "http");
    assert_eq!((&http["state"], &http["declared"]), (&json!("declared"), &json!(["a.example"])));
}
