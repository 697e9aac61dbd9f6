//! The records of users: only their verified user can read them, whatever a request claims.

use crate::host::{Answer, Setup, TestHost};
use crate::upstream::{Reply, UpstreamRequest};
use serde_json::{Value, json};

const CONFIG: &str = r#"
[server]
keys = [
    { key = "sk-ann", user = { id = "ann" } },
    { key = "sk-bob", user = { id = "bob" } },
    "sk-anybody",
]
[admin]
key = "sk-operator"
[breaker]
failure_threshold = 0
[[models]]
name = "assistant"
provider = "mock"
model = "mock-1"
memory = true
description = "Remembers."
abilities = ["vision"]
context_length = 8000
price = { input = 0.5, output = 1.5 }
[grants.probe]
memories = true
chats = true
"#;

/// Runs the command in a message and responds with its result.
const PROBE: &str = r#"
/*
requirements: memories, chats, vectors, llm
*/
fn inlet(body) {
    let prompt = body.messages.last("user").text;
    let word = prompt.split(" ")[0];
    let rest = text::strip_prefix(prompt, word + " ");
    let result = switch word {
        "remember" => memories::user::add(rest),
        "recall" => memories::user::search(rest, 3).map(|one| one.text),
        "memories" => memories::list().map(|one| one.text),
        "forget" => memories::delete(rest),
        "chats" => chats::list().map(|one| one.title),
        "read" => chats::read(rest).map(|one| one.text),
        "search" => chats::search(rest).map(|one| one.id + ": " + one.text),
        "keep" => { vectors::user::add("note", [1.0, 2.0], rest); vectors::add("shared", [1.0, 2.0], rest); "kept" },
        "kept" => [vectors::user::get("note"), vectors::user::count(), vectors::get("shared")],
        "embed" => llm::embed(rest, #{ model: "assistant" }),
        "models" => models::get("assistant"),
        "uploads" => uploads::list().map(|file| #{ name: file.name, type: file.type, text: if file.has_content { uploads::text(file.name) } else { () } }),
        _ => return,
    };
    skip(json::stringify(result))
}
"#;

fn setup() -> Setup {
    TestHost::new().config(CONFIG).filter("probe", PROBE)
}

/// Sends a request with a key and additional fields in the body.
async fn ask(host: &TestHost, key: &str, text: &str, more: Value) -> Answer {
    let mut body = json!({"model": "assistant", "messages": [{"role": "user", "content": text}]});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let request = host.posting(body.to_string()).header("authorization", format!("Bearer {key}"));
    // Headers of an Open WebUI that this host does not trust.
    Answer::of(request.header("x-openwebui-user-id", "ann").header("x-openwebui-user-role", "admin")).await
}

async fn reply(host: &TestHost, key: &str, text: &str) -> Value {
    let answer = ask(host, key, text, json!({})).await;
    assert_eq!(answer.status, 200, "{text}: {}", answer.body());
    serde_json::from_str(&answer.text()).unwrap_or_else(|_| answer.text().into())
}

#[tokio::test]
async fn a_user_finds_only_their_own_memories() {
    let host = setup().start().await;
    let id = reply(&host, "sk-ann", "remember my sister lives in Lisbon").await;
    reply(&host, "sk-ann", "remember my dog is called Rex").await;
    assert_eq!(
        reply(&host, "sk-ann", "remember my sister lives in Lisbon").await,
        id,
        "the same is stored once"
    );
    // The id does not reveal the text, not even to a guess.
    assert_ne!(id, "230ba87cac4c8a785ee00432", "the beginning of the text's SHA-256");
    let recalled = reply(&host, "sk-ann", "recall where does my sister live").await;
    assert_eq!(recalled[0], "my sister lives in Lisbon");
    assert_eq!(reply(&host, "sk-bob", "memories").await, json!([]));
    assert_eq!(reply(&host, "sk-bob", "recall where does my sister live").await, json!([]));
    assert_eq!(reply(&host, "sk-bob", &format!("forget {}", id.as_str().unwrap())).await, json!(false));
    assert_eq!(reply(&host, "sk-ann", "memories").await.as_array().unwrap().len(), 2);
    assert_eq!(reply(&host, "sk-ann", &format!("forget {}", id.as_str().unwrap())).await, json!(true));
    assert_eq!(reply(&host, "sk-ann", "memories").await, json!(["my dog is called Rex"]));
}

#[tokio::test]
async fn a_forged_user_finds_nothing() {
    let host = setup().start().await;
    reply(&host, "sk-ann", "remember my sister lives in Lisbon").await;
    reply(&host, "sk-ann", "keep secret").await;
    let forged = json!({
        "user": {"id": "ann", "role": "admin", "verified": true, "verified_user": "ann"},
        "verified_user": "ann",
        "metadata": {"user_id": "ann", "verified_user": "ann", "variables": {"verified_user": "ann"}},
    });
    for text in ["memories", "recall sister", "chats", "read trip", "search Lisbon", "kept"] {
        let answer = ask(&host, "sk-anybody", text, forged.clone()).await;
        answer.refused(500, "`probe` failed");
        let bob = ask(&host, "sk-bob", text, forged.clone()).await;
        assert!(!bob.body().contains("Lisbon"), "{text}: {}", bob.body());
    }
    assert_eq!(reply(&host, "sk-bob", "kept").await, json!([null, 0, "secret"]));
    assert_eq!(reply(&host, "sk-ann", "kept").await, json!(["secret", 1, "secret"]));
}

#[tokio::test]
async fn open_webui_headers_name_the_user_if_trusted() {
    let trusting = CONFIG.replacen("[server]", "[server]\ntrust_user_headers = true", 1);
    let host = TestHost::new().config(&trusting).filter("probe", PROBE).start().await;
    reply(&host, "sk-anybody", "remember my sister lives in Lisbon").await;
    assert_eq!(reply(&host, "sk-ann", "memories").await.as_array().unwrap().len(), 1, "it is ann's");
    assert_eq!(reply(&host, "sk-bob", "memories").await, json!([]), "a key with a user says who it is");
}

#[tokio::test]
async fn a_user_finds_only_their_own_conversations() {
    let host = setup().start().await;
    host.upstream.script(|_: &UpstreamRequest| answer("to Lisbon, then"));
    let chat = |id: &str| json!({"chat_id": id});
    ask(&host, "sk-ann", "We fly on Monday", chat("trip")).await;
    ask(&host, "sk-bob", "We stay in Rome", chat("home")).await;
    // A conversation without a user, and one that was started in the name of another user.
    ask(&host, "sk-anybody", "Lisbon is nice", chat("free")).await;
    ask(&host, "sk-anybody", "planted in Lisbon", json!({"chat_id": "planted", "user": "ann"})).await;

    assert_eq!(reply(&host, "sk-ann", "chats").await, json!(["We fly on Monday"]));
    assert_eq!(reply(&host, "sk-ann", "read trip").await, json!(["We fly on Monday", "to Lisbon, then"]));
    assert_eq!(reply(&host, "sk-ann", "search lisbon").await, json!(["trip: to Lisbon, then"]));
    assert_eq!(reply(&host, "sk-bob", "chats").await, json!(["We stay in Rome"]));
    assert_eq!(reply(&host, "sk-bob", "search fly").await, json!([]));
    for id in ["trip", "free", "planted", "none"] {
        ask(&host, "sk-bob", &format!("read {id}"), json!({})).await.refused(500, "`probe` failed");
    }
}

#[tokio::test]
async fn a_model_of_the_host_embeds_texts_through_its_filters() {
    let host = setup()
        .filter("mask", "const endpoints = [\"embeddings\"]; fn inlet(body) { for message in body.messages { message.text = message.text.to_upper(); } }")
        .start()
        .await;
    host.upstream.script(|request: &UpstreamRequest| {
        let body = request.json();
        assert_eq!(body["model"], "mock-1");
        let input = body["input"].as_array().unwrap();
        // Out of order, as a service may respond.
        let data: Vec<Value> = input.iter().enumerate().rev().map(|(index, text)| {
            json!({"index": index, "embedding": [text.as_str().unwrap().len(), u8::from(text == "HELLO")]})
        }).collect();
        Reply::json(&json!({"object": "list", "data": data, "model": "mock-1"}))
    });
    assert_eq!(reply(&host, "sk-ann", "embed hello").await, json!([5.0, 1.0]));
}

#[tokio::test]
async fn memories_are_embedded_again_when_the_model_changes() {
    let mut host = setup().start().await;
    reply(&host, "sk-ann", "remember my sister lives in Lisbon").await;
    reply(&host, "sk-ann", "remember my dog is called Rex").await;
    host.upstream.script(|request: &UpstreamRequest| {
        let body = request.json();
        let input = body["input"].as_array().unwrap();
        let data: Vec<Value> = input
            .iter()
            .map(|text| {
                let is_of_animals = ["dog", "pet"].iter().any(|word| text.as_str().unwrap().contains(word));
                json!({"embedding": if is_of_animals { [1.0, 0.1] } else { [0.1, 1.0] }})
            })
            .collect();
        Reply::json(&json!({"object": "list", "data": data}))
    });
    let settings = format!("{}\n[embeddings]\nmodel = \"assistant\"\n", host.settings());
    host.reconfigure(&settings).await;
    assert_eq!(reply(&host, "sk-ann", "recall which pet").await[0], "my dog is called Rex");
    assert_eq!(reply(&host, "sk-ann", "memories").await.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn scripts_read_the_configured_facts_of_a_model() {
    let host = setup().start().await;
    let model = reply(&host, "sk-ann", "models").await;
    assert_eq!(model["description"], "Remembers.");
    assert_eq!(model["abilities"], json!(["vision"]));
    assert_eq!((&model["context_length"], &model["price"]["output"]), (&json!(8000), &json!(1.5)));
}

#[tokio::test]
async fn files_of_a_request_are_read_in_every_client_format() {
    let host = setup().start().await;
    let pdf = "data:application/pdf,%25PDF-1.4 1 0 obj <</Pages 2 0 R>> endobj 2 0 obj <</Kids[3 0 R]>> endobj \
        3 0 obj <</Contents 4 0 R/Resources<</Font<</F<</Subtype/Type1>>>>>>>> endobj \
        4 0 obj <<>> stream\nBT /F 1 Tf (a %26 b) Tj ET\nendstream endobj trailer <</Root 1 0 R>>";
    let files = json!({"files": [
        {"type": "file", "id": "1", "name": "notes.md", "file": {"id": "1", "meta": {"size": 5}, "data": {"content": "extracted"}}},
        {"type": "file", "name": "page.html", "url": "data:text/html;base64,PHA+YSAmYW1wOyBiPC9wPg=="},
        {"type": "file", "file": {"filename": "table.csv", "file_data": "data:text/csv,a%2Cb"}},
        {"type": "file", "id": "4", "name": "far.pdf", "url": "https://files.example.com/4"},
        {"type": "file", "file": {"filename": "near.pdf", "file_data": pdf}},
    ]});
    let read = ask(&host, "sk-ann", "uploads", files).await;
    let read: Value = serde_json::from_str(&read.text()).unwrap();
    assert_eq!(
        read,
        json!([
            {"name": "notes.md", "type": "text/markdown", "text": "extracted"},
            {"name": "page.html", "type": "text/html", "text": "a & b"},
            {"name": "table.csv", "type": "text/csv", "text": "a,b"},
            {"name": "far.pdf", "type": "application/pdf", "text": null},
            {"name": "near.pdf", "type": "application/pdf", "text": "a & b"},
        ])
    );
}

fn answer(text: &str) -> Reply {
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": "mock-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}))
}

#[tokio::test]
async fn an_unverified_request_cannot_continue_the_conversation_of_a_verified_user() {
    let host = setup().start().await;
    host.upstream.script(|_: &UpstreamRequest| answer("noted"));
    let forged = json!({"chat_id": "trip", "user": "ann"});
    assert_eq!(ask(&host, "sk-ann", "my PIN is 4711", json!({"chat_id": "trip"})).await.status, 200);
    for key in ["sk-anybody", "sk-operator"] {
        let answer = ask(&host, key, "what is my PIN?", forged.clone()).await;
        assert!(!answer.body().contains("4711"), "{}", answer.body());
        answer.refused(403, "belongs to another user");
    }
    assert_eq!(ask(&host, "sk-ann", "thanks", json!({"chat_id": "trip"})).await.status, 200);
    assert_eq!(reply(&host, "sk-ann", "read trip").await.as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_body_names_the_user_only_if_trusted() {
    const KEEPS: &str = "/*\nrequirements: kv\n*/\nfn inlet(body, __user__) {
        let before = kv::user::get(\"seen\");
        kv::user::set(\"seen\", body.messages[0].content);
        skip(json::stringify([__user__?.id, before]));
    }";
    const KEYS: &str =
        "keys = [\"sk-anybody\", { key = \"sk-bob\", user = { id = \"bob\" } }]\n[admin]\nkey = \"ops\"";
    let start = async |trust: &str| {
        TestHost::new().config(&format!("[server]\n{trust}\n{KEYS}")).filter("keeps", KEEPS).start().await
    };
    let ask = async |host: &TestHost, key: &str, text: &str| -> Value {
        let body = json!({"model": "demo", "messages": [{"role": "user", "content": text}], "user": "ann"});
        let request = host.posting(body.to_string()).header("authorization", format!("Bearer {key}"));
        serde_json::from_str(&Answer::of(request).await.text()).unwrap()
    };
    // As Open WebUI calls an inlet.
    let inlet = async |host: &TestHost, key: &str| -> Value {
        let body = json!({"model": "demo", "messages": [{"role": "user", "content": "x"}]});
        let call = json!({"body": body, "user": {"id": "ann", "role": "user"}});
        let request = host.request("POST", "/keeps/filter/inlet").body(call.to_string());
        let answer = Answer::of(request.header("authorization", format!("Bearer {key}"))).await;
        serde_json::from_str(answer.body()).unwrap()
    };
    let open = start("").await;
    assert_eq!(ask(&open, "sk-anybody", "first").await, json!(["ann", null]));
    assert_eq!(ask(&open, "sk-anybody", "second").await, json!(["ann", "first"]));
    assert_eq!(ask(&open, "sk-bob", "third").await, json!(["bob", null]), "a key with a user says who it is");
    let strict = start("trust_body_user = false").await;
    assert_eq!(ask(&strict, "ops", "first").await, json!(["ann", null]));
    assert_eq!(ask(&strict, "sk-anybody", "second").await, json!([null, null]));
    assert_eq!(ask(&strict, "sk-bob", "third").await, json!(["bob", null]));
    let named = [
        (&open, "sk-anybody", "ann"),
        (&strict, "sk-anybody", ""),
        (&strict, "sk-bob", "bob"),
        (&strict, "ops", "ann"),
    ];
    for (host, key, id) in named {
        let answer_text = inlet(host, key).await.to_string();
        let expected = if id.is_empty() { "[null,".to_owned() } else { format!("[\\\"{id}\\\",") };
        assert!(answer_text.contains(&expected), "{key}: {answer_text}");
    }
}

#[tokio::test]
async fn an_operator_deletes_all_data_of_a_user() {
    let host = setup().start().await;
    for key in ["sk-ann", "sk-bob"] {
        reply(&host, key, "remember my sister lives in Lisbon").await;
        reply(&host, key, "keep secret").await;
        host.upstream.script(|_: &UpstreamRequest| answer("to Lisbon, then"));
        ask(&host, key, "We fly on Monday", json!({"chat_id": format!("trip of {key}")})).await;
    }
    let path = "/api/v1/users/ann/records";
    let as_operator = |method: &str| host.request(method, path).header("authorization", "Bearer sk-operator");
    let denied = Answer::of(host.request("DELETE", path).header("authorization", "Bearer sk-ann")).await;
    assert_eq!(denied.status, 401, "{}", denied.body());
    let counted = Answer::of(as_operator("GET")).await.ok();
    assert!(counted["memories"] == 1 && counted["conversations"].as_u64() > Some(0), "{counted}");
    assert!(counted["vectors"].as_u64() > Some(0), "{counted}");
    assert_eq!(Answer::of(as_operator("DELETE")).await.ok(), counted);
    let none = Answer::of(as_operator("GET")).await.ok();
    assert!(none.as_object().unwrap().values().all(|count| *count == 0), "{none}");
    for text in ["chats", "memories", "recall sister"] {
        assert_eq!(reply(&host, "sk-ann", text).await, json!([]), "{text}");
        assert_ne!(reply(&host, "sk-bob", text).await, json!([]), "{text} of another user");
    }
    // The entries that requests without a user share belong to no user.
    for method in ["GET", "DELETE"] {
        let nameless = host.request(method, "/api/v1/users//records");
        let answer = Answer::of(nameless.header("authorization", "Bearer sk-operator")).await;
        assert_eq!(answer.status, 400, "{method}: {}", answer.body());
    }
    // Later entries are stored as usual.
    reply(&host, "sk-ann", "remember my dog is called Rex").await;
    assert_eq!(reply(&host, "sk-ann", "recall dog").await, json!(["my dog is called Rex"]));
}

#[test]
fn user_forget_counts_and_deletes_only_on_confirmation() {
    let project = crate::cli::Project::new();
    project.run("user show ann").ends(0).prints("memories");
    project
        .run("user forget ann")
        .ends(2)
        .stderr_has("nothing was deleted")
        .stderr_has("valvehouse user forget --yes ann");
    // The command of the message can be run as it is.
    for (user, argument) in [("a b", "'a b'"), ("it's", r"'it'\''s'"), ("-x", "-- -x")] {
        let ran = project.run_with(&["user", "forget", "--", user], "").ends(2);
        ran.stderr_has(&format!("valvehouse user forget --yes {argument}"));
    }
    let report = project.run("user forget ann --yes --format json").ends(0).json();
    assert_eq!(report.get("deleted").unwrap().to_string(), "true");
}
