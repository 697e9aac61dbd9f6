//! Features that work on every path of a chat: with and without a memory, at each endpoint, in the library
//! and on the command line.

use crate::cli::Project;
use crate::generator::endpoints::{asking, post};
use crate::host::{Answer, TestHost, until};
use crate::upstream::{MODEL, Reply, UpstreamRequest};
use serde_json::{Value, json};
use valvehouse::json::Json;

/// Returns the chat endpoints: the path and the body of a request that says hi.
fn endpoints(stream: bool) -> [(&'static str, Value); 3] {
    ["/v1/chat/completions", "/v1/messages", "/v1/responses"]
        .map(|path| (path, asking(path, MODEL, "hi", stream)))
}

#[tokio::test]
async fn scripts_receive_callbacks_for_models_without_memory() {
    let listens = r#"/*
requirements: kv
*/
        const callbacks = true;
        fn on_turn_start(event) { kv::incr("starts"); }
        fn on_llm_end(event) { kv::incr("answers"); }
        fn on_turn_end(event) { kv::incr("ends"); }
        fn on_turn_error(event) { kv::incr("errors"); }"#;
    let host = TestHost::new()
        .filter("listens", listens)
        .filter("shows", "fn outlet(body) { body }")
        .filter("refuses", "fn inlet(body) { if body.messages[-1].text == \"no\" { throw \"no\"; } body }")
        .start()
        .await;
    let mut turns = 0;
    for stream in [false, true] {
        for (path, body) in endpoints(stream) {
            assert_eq!(post(&host, path, &body).await.status, 200, "{path}");
            turns += 1;
        }
    }
    let count = async |name: &str| {
        let rows = host.store().kv_all().await.unwrap();
        rows.iter().find(|row| row.key == name).and_then(|row| row.value.as_i64()).unwrap_or_default()
    };
    until("all events are there", || async {
        (count("starts").await, count("answers").await, count("ends").await) == (turns, turns, turns)
    })
    .await;
    assert_eq!(count("errors").await, 0);
    host.ask("no").await.refused(400, "no");
    until("the rejection is counted", || async { count("errors").await == 1 }).await;
}

#[tokio::test]
async fn a_requested_format_changes_neither_the_request_nor_the_answer() {
    let host = TestHost::new().start().await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let of_chat = json!({"type": "json_schema", "json_schema": {"name": "count", "schema": schema}});
    let of_response = json!({"format": {"type": "json_schema", "name": "count", "schema": schema}});
    for stream in [false, true] {
        for (path, mut body) in endpoints(stream) {
            match path {
                "/v1/responses" => body["text"] = of_response.clone(),
                "/v1/messages" => {
                    body["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}})
                }
                _ => body["response_format"] = of_chat.clone(),
            }
            host.upstream.script(|request| Reply::fitting(request, "three"));
            let before = host.upstream.requests().len();
            let answer = post(&host, path, &body).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body());
            assert!(answer.body().contains("three"), "{path}: {}", answer.body());
            let sent = host.upstream.requests()[before..].to_vec();
            assert_eq!(sent.len(), 1, "{path}: a misfit is not requested again");
            assert_eq!(sent[0].json()["stream"].as_bool().unwrap_or(false), stream, "{path}");
        }
    }
}

#[tokio::test]
async fn files_of_a_chat_reach_a_pipe_that_requests_them() {
    let pipe = "fn pipe(body, __files__) { `${__files__.len()} ${__files__[0].name}` }";
    let host = TestHost::new().filter("reads", pipe).start().await;
    let files = json!([{"type": "file", "name": "a.txt"}]);
    for stream in [false, true] {
        for (path, mut body) in endpoints(stream) {
            body["model"] = json!("reads");
            body["metadata"] = json!({"files": files});
            let answer = post(&host, path, &body).await;
            assert!(
                answer.body().contains("1 a.txt") || answer.body().contains("a.txt"),
                "{path}: {}",
                answer.body()
            );
            if path == "/v1/messages" {
                continue;
            }
            body.as_object_mut().unwrap().remove("metadata");
            body["files"] = files.clone();
            let answer = post(&host, path, &body).await;
            assert!(answer.body().contains("a.txt"), "{path}: {}", answer.body());
        }
    }
}

#[test]
fn variables_of_the_configuration_and_of_the_command_line_reach_scripts_in_a_chat() {
    let project = Project::new();
    project.write(
        "valvehouse.toml",
        "[[providers]]\nname = \"demo\"\nkind = \"demo\"\n\
         [[models]]\nname = \"demo\"\nprovider = \"demo\"\nvariables = { city = \"Oslo\" }\n",
    );
    project.write(
        "filters/tells.rhai",
        "fn pre_chat(ctx) { skip(`${ctx.context.get(\"city\", \"?\")} ${ctx.context.get(\"day\", \"?\")}`) }",
    );
    project.run("chat hello --variable day=Monday --variable city=Rome").ends(0).prints("Oslo Monday");
}

#[test]
fn a_tool_is_invoked_through_the_middleware_of_a_model() {
    let project = Project::new();
    project.write(
        "valvehouse.toml",
        "[[providers]]\nname = \"demo\"\nkind = \"demo\"\n\
         [[models]]\nname = \"careful\"\nprovider = \"demo\"\ntools = [\"mail\"]\n\
         middleware = { human_approval = { mode = \"selective\", tools = [\"mail\"] } }\n",
    );
    project.write("tools/mail.rhai", "/*\ndescription: Mails.\n*/\nfn handler(args) { \"mailed\" }");
    project.run("invoke mail").ends(0).prints("mailed");
    let approved = project.run_with(&["invoke", "mail", "--model", "careful"], "y\n").ends(0);
    assert!(approved.out.contains("mailed") && approved.talk.contains("mail"), "{approved:?}");
    let alone = project.run("invoke mail --model careful");
    assert!(!alone.out.contains("mailed"), "nobody approved: {alone:?}");
}

#[tokio::test]
async fn tools_are_listed_with_their_schemas_tags_and_models() {
    let tool = r#"fn tool_info() { #{ description: "Looks", tags: ["web", "retriever"] } }
        fn tools() {
            let parameters = #{ city: #{ type: "string", required: true } };
            [#{ name: "look", description: "Looks.", parameters: parameters, handler: look }]
        }
        fn look(args) { 1 }"#;
    let config =
        "[[models]]\nname = \"helper\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"tag:web\"]";
    let host = TestHost::new()
        .tool("look", tool)
        .tool("plain", "fn handler(args) { 1 }")
        .config(config)
        .start()
        .await;
    let all = host.get("/api/v1/tools").await.json();
    let names: Vec<&str> =
        all["data"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"look") && names.contains(&"plain"), "{names:?}");
    let tagged = host.get("/api/v1/tools?tag=web").await.json();
    let look = &tagged["data"][0];
    assert_eq!(tagged["data"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&look["name"], &look["plugin"], &look["models"]),
        (&json!("look"), &json!("look"), &json!(["helper"]))
    );
    assert_eq!(look["parameters"]["required"], json!(["city"]));
    let plugin = host.get("/api/v1/functions/id/look").await.json();
    assert_eq!(plugin["meta"]["description"], "Looks");

    let project = Project::new();
    project.write("tools/look.rhai", tool);
    project.run("list --tools").ends(0).prints("city");
    let listed = project.run("list --tools --format json").ends(0).json();
    let tagged = |tool: &Json| {
        tool.get("tags").is_some_and(|tags| tags == ["web", "retriever"].map(Json::from).to_vec().into())
    };
    assert!(listed.get("tools").unwrap().items().iter().any(tagged), "{listed}");
}

#[tokio::test]
async fn a_guard_that_pipelines_cannot_request_is_reported() {
    let guard = "/*\ntitle: Watch\nsecurity: true\n*/\nfn pre_chat(ctx) { }";
    let host = TestHost::new().filter("watch", guard).start().await;
    let listed = host.get("/models").await.json();
    let entry =
        listed["data"].as_array().unwrap().iter().find(|model| model["id"] == "watch").expect("it is listed");
    assert_eq!(entry["name"], "Watch (guard: pre_chat in chats of this host only)");
    let overview = host.get("/api/v1/overview").await.json();
    let plugin =
        overview["plugins"].as_array().unwrap().iter().find(|plugin| plugin["id"] == "watch").unwrap();
    assert_eq!(plugin["chats_only"], json!(["pre_chat"]));

    let project = Project::new();
    project.write("filters/watch.rhai", guard);
    assert!(!project.run("check").talk.contains("one by one"), "only where Open WebUI calls filters");
    project.write("valvehouse.toml", "[server]\npipelines = true\n");
    project
        .run("check")
        .ends(0)
        .stderr_has("does not run its pre_chat if Open WebUI calls filters one by one");
    project.run("list").ends(0).stderr_has("does not run its pre_chat");
}

/// Calls the payment tool on request, then returns its result.
pub(crate) fn pays(request: &UpstreamRequest) -> Reply {
    let last = request.json()["messages"].as_array().unwrap().last().unwrap().clone();
    if last["role"] == "tool" {
        return Reply::fitting(request, last["content"].as_str().unwrap());
    }
    let calls = json!([{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "pay", "arguments": "{\"amount\":5}"}}]);
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))
}

/// Waits for an approval and returns it.
pub(crate) async fn held(host: &TestHost) -> Value {
    let list = || async { host.get("/api/v1/questions").await.json()["data"].as_array().unwrap().clone() };
    until("an approval waits", || async { list().await.len() == 1 }).await;
    list().await.remove(0)
}

#[tokio::test]
async fn an_approval_waits_for_an_operator_if_the_client_cannot_show_questions() {
    let config = "[[models]]\nname = \"mock-1\"\nprovider = \"mock\"\ntools = [\"*\"]\n\
        middleware = { human_approval = { mode = \"selective\", tools = [\"pay\"], timeout_ms = 60_000 } }";
    let tool =
        "const parameters = #{ amount: #{ type: \"integer\" } };\nfn handler(args) { `paid ${args.amount}` }";
    let host = TestHost::new().tool("pay", tool).config(config).start().await;
    host.upstream.script(pays);
    let messages = json!([{"role": "user", "content": "hi"}]);
    for stream in [false, true] {
        let ollama = ("/api/chat", json!({"model": MODEL, "stream": stream, "messages": messages}));
        let azure =
            ("/openai/deployments/mock-1/chat/completions", json!({"stream": stream, "messages": messages}));
        for (path, body) in endpoints(stream).into_iter().chain([ollama, azure]) {
            for (decision, expected) in [
                (json!(true), "paid 5"),
                (json!({"approved": true, "arguments": {"amount": 7}}), "paid 7"),
                (json!({"approved": false, "reason": "too dear"}), "too dear"),
            ] {
                let decide = async {
                    let question = held(&host).await;
                    let data = json!({"tool": "pay", "arguments": {"amount": 5}, "description": question["data"]["description"]});
                    assert_eq!(
                        (&question["data"], &question["model"]),
                        (&data, &json!("mock-1")),
                        "{question}"
                    );
                    assert!(question["left_ms"].as_u64().unwrap() <= 60_000, "{question}");
                    let path = format!("/api/v1/questions/{}", question["id"].as_str().unwrap());
                    assert_eq!(post(&host, &path, &decision).await.status, 200);
                };
                let (answer, ()) = tokio::join!(post(&host, path, &body), decide);
                // A stream may split the text anywhere.
                let body = answer.body().replace("paid \"", "paid ");
                assert!(
                    answer.status == 200 && expected.split(' ').all(|word| body.contains(word)),
                    "{path}: {body}"
                );
                assert_eq!(host.get("/api/v1/questions").await.json()["data"], json!([]));
            }
        }
    }
    // The question of a client that disconnects is withdrawn.
    let asking = host.posting(json!({"model": MODEL, "messages": messages}).to_string()).send();
    tokio::select! {
        answer = asking => panic!("answered: {answer:?}"),
        _ = held(&host) => {}
    }
    until("no approval waits", || async { host.get("/api/v1/questions").await.json()["data"] == json!([]) })
        .await;
}

#[tokio::test]
async fn a_held_approval_can_be_answered_only_by_operators() {
    let config = "[server]\nkeys = [\"sk-one-00000001\", \"sk-two-00000002\"]\n[admin]\nkey = \"sk-admin-00000003\"\n\
        [[models]]\nname = \"mock-1\"\nprovider = \"mock\"\ntools = [\"*\"]\n\
        middleware = { human_approval = { timeout_ms = 60_000 } }";
    let host = TestHost::new().tool("pay", "fn handler(args) { \"paid\" }").config(config).start().await;
    host.upstream.script(pays);
    let with = |key: &str, method: &str, path: &str, body: &Value| {
        let request = host.request(method, path).header("authorization", format!("Bearer {key}"));
        Answer::of(request.header("content-type", "application/json").body(body.to_string()))
    };
    let ask = json!({"model": MODEL, "messages": [{"role": "user", "content": "hi"}]});
    let asking = with("sk-one-00000001", "POST", "/v1/chat/completions", &ask);
    let deciding = async {
        let list =
            || async { with("sk-admin-00000003", "GET", "/api/v1/questions", &Value::Null).await.json() };
        until("an approval waits", || async { list().await["data"][0].is_object() }).await;
        let question = list().await["data"][0].clone();
        let path = format!("/api/v1/questions/{}", question["id"].as_str().unwrap());
        with("sk-one-00000001", "GET", "/api/v1/questions", &Value::Null).await.refused(401, "[admin]");
        for caller in ["sk-one-00000001", "sk-two-00000002"] {
            with(caller, "POST", &path, &json!(true)).await.refused(404, "unknown question");
        }
        assert_eq!(with("sk-admin-00000003", "POST", &path, &json!(true)).await.status, 200);
    };
    let (answer, ()) = tokio::join!(asking, deciding);
    assert_eq!(answer.text(), "paid", "{}", answer.body());
}
