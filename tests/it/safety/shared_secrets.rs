//! Secrets that one plugin passes to others through everything that plugins share: no other plugin reveals
//! them.

use crate::cli::Project;
use crate::host::{TIMEOUT, client};
use crate::upstream::{Reply, Upstream};
use serde_json::{Value, json};

const ADMIN: &str = "shared-admin-key";
const CHAT: &str = "shared-chat-key";
const TOKEN: &str = "canary-passed-on-51d0";
const NUMBER: i64 = 660_011_223_344;
const OWN: &str = "canary-own-passed-on-9b7e";
const OWN_NUMBER: i64 = 770_022_334_455;
/// The key of another user with a secret.
const OTHER: &str = "shared-other-key";
const OTHERS: &str = "canary-of-another-user-3c1d";

/// Passes on its own secrets and those of the user.
const KEEPER: &str = r#"
const Valves = #{ priority: 1, token: #{ value: "", secret: true }, number: #{ value: 0, secret: true } };
const UserValves = #{ own: #{ value: "", secret: true }, number: #{ value: 0, secret: true } };
fn inlet(body, valves, __metadata__, __user__) {
    __metadata__.users = [__user__.valves.own, __user__.valves.number];
    __metadata__.shared = #{ token: valves.token, number: valves.number, own: __user__.valves.own };
    let metadata = body.ensure("metadata", #{});
    metadata.passed = [valves.token, valves.number, __user__.valves.own];
    body
}
fn pre_chat(ctx, valves, __user__) {
    ctx.context.set("shared", [valves.token, valves.number, __user__.valves.own]);
    ctx
}
"#;

/// Outputs everything that it can read.
const READER: &str = r#"/*
requirements: kv
*/
const Valves = #{ priority: 2 };
fn shows(way, found) {
    print(`found ${found}`);
    log::error(json::stringify(found));
    debug(#{ found: found });
    print(base64::encode(`${found}`));
    if way == "throws" { throw `no ${found}`; }
    if way == "denies" { deny(json::stringify(#{ found: found }), 409); }
    if way == "breaks" { parse_int(`${found}`); }
    if way == "indexes" { let map = #{}; map[`${found}`].x.y = 1; }
}
fn inlet(body, __metadata__, __user__) {
    let parts = body.messages[-1].text.split("/");
    if parts[0] == "metadata" { shows(parts[1], __metadata__.shared); }
    if parts[0] == "body" { shows(parts[1], body.metadata.passed); }
    if parts[0] == "user" { shows(parts[1], [__user__, __metadata__.shared.own]); }
    if parts[0] == "kv" {
        shows(parts[1], kv::get("found", "nothing yet"));
        shows(parts[1], kv::user::get("found", "nothing yet"));
    }
    // A script may do what it should not: what one user keeps secret is found in the turns of all.
    if parts[0] == "others" { shows(parts[1], kv::get("users", #{})); }
    kv::update("users", |users| { let users = users ?? #{}; users[__user__.id] = __metadata__.users; users });
    // The values of a user go where that user's turns alone find them.
    kv::set("found", [__metadata__.shared.token, __metadata__.shared.number]);
    kv::user::set("found", body.metadata.passed);
    body
}
fn pre_chat(ctx) {
    let parts = ctx.messages[-1].text.split("/");
    if parts[0] == "context" { shows(parts[1], ctx.context.get("shared")); }
    ctx
}
"#;

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn secrets_passed_between_plugins_are_redacted() {
    let upstream = Upstream::start().await;
    upstream.script(|request| Reply::fitting(request, "hello"));
    let toml = format!(
        "[server]\nkeys = [{{ key = \"{CHAT}\", user = {{ id = \"ann\" }} }}, {{ key = \"{OTHER}\", user = {{ id = \"bob\" }} }}]\n[admin]\nkey = \"{ADMIN}\"\n\
         [[providers]]\nname = \"mock\"\nkind = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk-up\"\nmodels = \"*\"\n\
         [breaker]\nfailure_threshold = 0\n",
        upstream.url()
    );
    let project = Project::new()
        .with("valvehouse.toml", &toml)
        .filter("keeper", KEEPER)
        .filter("reader", READER)
        .variable("VALVEHOUSE_LOG", "trace");
    let server = project.serve("");
    let (client, url) = (client(), server.url());
    let post = |path: &str, body: &Value| {
        client.post(format!("{url}{path}")).timeout(TIMEOUT).body(body.to_string())
    };
    let id = "/api/v1/functions/id/keeper";
    for (path, values) in [
        ("/valves/update", json!({"token": TOKEN, "number": NUMBER})),
        ("/valves/user/update?user=ann", json!({"own": OWN, "number": OWN_NUMBER})),
        ("/valves/user/update?user=bob", json!({"own": OTHERS})),
    ] {
        let set = post(&format!("{id}{path}"), &values).bearer_auth(ADMIN).send().await.unwrap();
        assert_eq!(set.status(), 200, "{}", set.text().await.unwrap());
    }
    let mut seen: Vec<(String, String)> = Vec::new();
    let mut traces = Vec::new();
    let places = ["metadata", "body", "context", "user", "kv", "others"].map(|place| (place, CHAT));
    let places = places.into_iter().chain([("others", OTHER)]);
    let ways = ["prints", "throws", "denies", "breaks", "indexes"];
    let paths = ["/v1/chat/completions", "/v1/messages", "/v1/responses"];
    for ((place, key), path) in places.flat_map(|place| paths.map(|path| (place, path))) {
        for way in ways {
            let prompt = format!("{place}/{way}");
            let messages = json!([{"role": "user", "content": prompt}]);
            let body = match path {
                "/v1/responses" => json!({"model": "mock/m", "input": prompt}),
                _ => json!({"model": "mock/m", "max_tokens": 9, "messages": messages}),
            };
            let request = post(path, &body).bearer_auth(key).header("x-valvehouse-trace", "on");
            let answer = request.send().await.unwrap();
            let status = answer.status();
            traces.extend(
                answer.headers().get("x-valvehouse-trace").and_then(|id| id.to_str().ok()).map(str::to_owned),
            );
            let headers = format!("{:?}", answer.headers());
            let text = answer.text().await.unwrap();
            assert_eq!(status == 200, way == "prints", "{prompt}: {text}");
            seen.push((format!("the answer to {prompt}"), headers + text.as_str()));
        }
    }
    let paths = traces.iter().map(|trace| format!("/api/v1/traces/{trace}"));
    for path in paths.chain(["/api/v1/traces", "/api/v1/overview", "/metrics"].map(str::to_owned)) {
        let shown =
            client.get(format!("{url}{path}")).timeout(TIMEOUT).bearer_auth(ADMIN).send().await.unwrap();
        seen.push((path, shown.text().await.unwrap()));
    }
    for words in [
        "list --stats",
        "trace",
        "chat --model mock/m metadata/throws",
        "chat --model mock/m kv/prints -v -v",
    ] {
        let ran = project.run(words);
        seen.push((words.to_owned(), ran.out + ran.talk.as_str()));
    }
    let log = server.last_words();
    assert!(log.matches("***").count() > 20, "it did print");
    seen.push(("the log".into(), log));
    let mut leaks = Vec::new();
    let (number, own_number) = (NUMBER.to_string(), OWN_NUMBER.to_string());
    for secret in [TOKEN, &number, OWN, &own_number, OTHERS] {
        for (what, text) in seen.iter().filter(|(_, text)| text.contains(secret)) {
            let at = text.find(secret).unwrap();
            let from = text[..at].char_indices().rev().nth(80).map_or(0, |(from, _)| from);
            leaks.push(format!("{secret} in {what}: {}…", &text[from..at]));
        }
    }
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
}
