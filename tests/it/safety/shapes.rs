//! Secret valves of every type and shape, revealed in every way that a script has: no response, log, trace,
//! collector, page, API or command line contains them.

use crate::cli::Project;
use crate::host::{TIMEOUT, client};
use crate::upstream::{Reply, Upstream, UpstreamRequest};
use base64::Engine as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const ADMIN: &str = "shapes-admin-key";
const CHAT: &str = "shapes-chat-key";

/// Returns the name, the declaration and the value of each secret.
fn secrets() -> Vec<(&'static str, &'static str, Value)> {
    let long = format!("long-{}-end", "0123456789abcdef".repeat(12));
    let pem =
        format!("-----BEGIN KEY-----\n{}\n{}\n-----END KEY-----", "MIIEpQ7x".repeat(8), "zK93hTqa".repeat(8));
    vec![
        ("whole", "#{ value: 0, secret: true }", json!(918_273_645)),
        ("broken", "#{ value: 0.0, secret: true }", json!(7364.918273)),
        (
            "many",
            "#{ value: [], items: \"string\", secret: true }",
            json!(["list-item-1a2b", "list item \"3c\" 4d"]),
        ),
        ("numbers", "#{ value: [], items: \"integer\", secret: true }", json!([55_443_322, 66_778_899])),
        ("escaped", "#{ value: \"\", secret: true }", json!("quo\"te\\back\nline\ttab é/&<>' +%?")),
        ("long", "#{ value: \"\", secret: true }", json!(long)),
        ("lines", "#{ value: \"\", secret: true, multiline: true }", json!(pem)),
        ("short", "#{ value: \"\", secret: true }", json!("Zq7#x!")),
    ]
}

/// Every way in which a script can output a value.
const WAYS: &[(&str, &str)] = &[
    ("prints", "print(`with ${s}`); log::error(`${s}`); log::warn([s, #{ s: s }]); debug(s);"),
    ("prints json", "print(json::stringify(#{ a: [s] })); print(json::stringify(json::stringify(s)));"),
    (
        "prints encoded",
        "print(base64::encode(`user:${s}`)); print(url::encode(`${s}`)); print(html::escape(`${s}`));",
    ),
    ("throws", "throw s;"),
    ("throws text", "throw `no ${s} here`;"),
    ("throws a list", "throw [s];"),
    ("throws a map", "throw #{ message: json::stringify(#{ a: s }), status: 418 };"),
    ("throws base64", "throw base64::encode(`user:${s}`);"),
    ("throws a url", "throw `https://x.example/?key=${url::encode(`${s}`)}`;"),
    ("denies", "deny(`it is ${s}`);"),
    ("returns an error", "return error(#{ message: `it is ${s}`, status: 409 });"),
    ("throws what it caught", "try { throw `caught ${s}`; } catch (e) { throw `again ${e.message}`; }"),
    ("a pattern", "regex::is_match(\"x\", `(${s}`);"),
    ("a url", "url::parse(`:${s}`);"),
    ("a time", "time::parse(`${s}`, \"%Y\");"),
    ("json", "json::parse(`${s}`);"),
    ("a number", "parse_int(`${s}`);"),
    ("an index", "body[`${s}`].x.y = 1;"),
    ("a property", "let m = #{}; m[`${s}`].len();"),
    ("a call", "call(Fn(`${s}`));"),
    ("very long", "let t = \"\"; t.pad(16_370, \".\"); throw t + s;"),
];

fn script() -> String {
    let declared: String =
        secrets().iter().map(|(name, declared, _)| format!("    {name}: {declared},\n")).collect();
    let ways: String =
        WAYS.iter().map(|(way, code)| format!("    if way == \"{way}\" {{ {code} }}\n")).collect();
    format!(
        "/*\ntitle: Teller\n*/\nconst Valves = #{{\n{declared}}};\nconst UserValves = #{{\n{declared}}};\n\
         fn inlet(body, valves, __user__) {{\n\
         let parts = body.messages[-1].text.split(\"/\");\n\
         let way = parts[2];\n\
         let s = if parts[0] == \"own\" {{ __user__.valves[parts[1]] }} else {{ valves[parts[1]] }};\n\
         {ways}    body\n}}\nfn outlet(body) {{ body }}\n"
    )
}

/// Returns the forms in which a value may be written; each of them reveals it.
fn forms(value: &Value) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    match value {
        Value::Array(items) => items.iter().for_each(|item| forms.extend(self::forms(item))),
        Value::String(text) => {
            let json = value.to_string();
            let twice = Value::String(json.clone()).to_string();
            forms.insert(text.clone());
            forms.insert(json[1..json.len() - 1].to_owned());
            forms.insert(twice[3..twice.len() - 3].to_owned());
            forms.insert(url::form_urlencoded::byte_serialize(text.as_bytes()).collect());
            let percent = percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
            forms.insert(percent.to_string());
            // Without the first and last characters, which depend on the surrounding text.
            let within = base64::engine::general_purpose::STANDARD_NO_PAD.encode(format!("user:{text}"));
            forms.insert(within[8..within.len() - 2].to_owned());
            // A part of a long secret reveals as much as the whole.
            if text.len() > 60 {
                let letters: Vec<char> = text.chars().filter(|letter| *letter != '\n').collect();
                forms.extend(
                    letters.chunks(24).filter(|part| part.len() == 24).map(|part| part.iter().collect()),
                );
            }
        }
        number => _ = forms.insert(number.to_string()),
    }
    forms.retain(|form| form.len() >= 5 && !form.starts_with("-----"));
    forms
}

fn upstream_says(request: &UpstreamRequest) -> Reply {
    if request.path.ends_with("/traces") {
        return Reply::json(&json!({}));
    }
    Reply::fitting(request, "hello")
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn secret_valves_of_every_type_are_redacted_everywhere() {
    let upstream = Upstream::start().await;
    upstream.script(upstream_says);
    let url = upstream.url();
    let toml = format!(
        "[server]\nkeys = [{{ key = \"{CHAT}\", user = {{ id = \"ann\" }} }}]\n[admin]\nkey = \"{ADMIN}\"\n\
         [[providers]]\nname = \"mock\"\nkind = \"openai\"\nbase_url = \"{url}\"\napi_key = \"sk-up\"\nmodels = \"*\"\n\
         [trace]\ncontents = [\"teller\"]\n[breaker]\nfailure_threshold = 0\n[otlp]\nendpoint = \"{}\"\n",
        url.trim_end_matches("/v1")
    );
    let project = Project::new()
        .with("valvehouse.toml", &toml)
        .filter("teller", &script())
        .variable("VALVEHOUSE_LOG", "trace");
    let server = project.serve("");
    let (client, url) = (client(), server.url());
    let post = |path: &str, body: &Value| {
        client.post(format!("{url}{path}")).timeout(TIMEOUT).body(body.to_string())
    };
    let values: Value = secrets().into_iter().map(|(name, _, value)| (name.to_owned(), value)).collect();
    for path in ["/valves/update", "/valves/user/update?user=ann"] {
        let set = post(&format!("/api/v1/functions/id/teller{path}"), &values).bearer_auth(ADMIN);
        let set = set.send().await.unwrap();
        assert_eq!(set.status(), 200, "{path}: {}", set.text().await.unwrap());
    }
    let mut seen: Vec<(String, String)> = Vec::new();
    let mut traces = Vec::new();
    let secrets = secrets();
    let all = WAYS.iter().flat_map(|(way, _)| {
        secrets.iter().flat_map(move |(name, ..)| ["theirs", "own"].map(|whose| (whose, name, way)))
    });
    // 16 of each way; a step that is prime to it reaches each secret of both.
    for (whose, name, way) in valvehouse_testkit::sampled(all, 11) {
        // Every third request is streamed, and every second one uses another protocol.
        let number = seen.len();
        let path = ["/v1/chat/completions", "/v1/messages"][number % 2];
        let prompt = format!("{whose}/{name}/{way}");
        let body = json!({"model": "mock/m", "stream": number.is_multiple_of(3), "max_tokens": 9,
                    "messages": [{"role": "user", "content": prompt}]});
        let request = post(path, &body).bearer_auth(CHAT).header("x-valvehouse-trace", "content");
        let answer = request.send().await.unwrap();
        let headers = format!("{:?}", answer.headers());
        traces.extend(
            answer.headers().get("x-valvehouse-trace").and_then(|id| id.to_str().ok()).map(str::to_owned),
        );
        seen.push((format!("the answer to {prompt}"), headers + answer.text().await.unwrap().as_str()));
    }
    assert!(!traces.is_empty());
    for trace in &traces {
        let path = format!("/api/v1/traces/{trace}");
        let response =
            client.get(format!("{url}{path}")).timeout(TIMEOUT).bearer_auth(ADMIN).send().await.unwrap();
        seen.push((path, response.text().await.unwrap()));
    }
    let id = "/api/v1/functions/id/teller";
    for path in [
        "/metrics",
        "/api/v1/overview",
        "/api/v1/models/mock%2Fm/chain?user=ann",
        "/api/v1/functions/",
        "/api/v1/functions/export?include_valves=true",
        "/api/v1/traces",
        "/readyz?verbose",
        "/teller/valves",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(
        [
            "",
            "/valves",
            "/valves/spec",
            "/valves/effective",
            "/valves/user?user=ann",
            "/history",
            "/history/1",
            "/history/2",
        ]
        .map(|of| format!("{id}{of}")),
    ) {
        let response =
            client.get(format!("{url}{path}")).timeout(TIMEOUT).bearer_auth(ADMIN).send().await.unwrap();
        seen.push((path, response.text().await.unwrap()));
    }
    for words in [
        "valves get teller",
        "valves get teller --format json",
        "valves get teller --user ann",
        "history teller",
        "history teller 2",
        "list",
        "explain --model mock/m --user ann",
        "chat --model mock/m theirs/escaped/throws",
    ] {
        let ran = project.run(words);
        seen.push((words.to_owned(), ran.out + ran.talk.as_str()));
    }
    let log = server.last_words();
    assert!(log.contains("with ***"), "it did print");
    seen.push(("the log".into(), log));
    let batches = upstream.requests();
    assert!(batches.iter().any(|request| request.path.ends_with("/traces")), "the collector got something");
    let batches = batches.iter().filter(|request| request.path.ends_with("/traces"));
    seen.extend(batches.map(|request| ("a batch for the collector".to_owned(), request.text())));

    let mut leaks = Vec::new();
    for (name, _, value) in secrets {
        for form in forms(&value) {
            for (what, text) in &seen {
                if let Some(at) = text.find(&form) {
                    let around: String =
                        text[..at].chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect();
                    leaks.push(format!("{name} as {form:?} in {what}: {around}…"));
                }
            }
        }
    }
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks[..leaks.len().min(40)].join("\n"));
}

#[test]
fn values_too_short_to_redact_are_not_secrets() {
    let script = "const Valves = #{ pin: #{ value: \"\", secret: true }, code: #{ value: 0, secret: true } };\nfn inlet(body) { body }";
    let project = Project::new().filter("teller", script);
    for value in ["pin=ab12", "code=4711"] {
        let ran =
            project.run(&format!("valves set teller {value}")).ends(65).stderr_has("at least 6 characters");
        assert!(!ran.talk.contains("ab12") && !ran.talk.contains("4711"), "{}", ran.talk);
    }
    project.run("valves set teller pin=ab12cd code=471147").ends(0);
    project.run("valves set teller pin= code=0").ends(0);
    for declared in ["#{ value: \"ab12\", secret: true }", "#{ value: true, secret: true }"] {
        project.write(
            "filters/other.rhai",
            &format!("const Valves = #{{ pin: {declared} }};\nfn inlet(body) {{ body }}"),
        );
        let ran = project.run("check").ends(1);
        assert!(format!("{}{}", ran.out, ran.talk).contains("secret"), "{declared}");
    }
}
