//! Features that work on every path a chat may take: with memory and without, at each endpoint, in the library and on the
//! command line.

use crate::cli::Project;
use crate::host::{Answer, TestHost, until};
use crate::upstream::{MODEL, Reply};
use serde_json::{Value, json};
use valvehouse::json::Json;

/// The endpoints of chats: path, and the body of one that says hi.
fn endpoints(stream: bool) -> [(&'static str, Value); 3] {
    let messages = json!([{"role": "user", "content": "hi"}]);
    [
        ("/v1/chat/completions", json!({"model": MODEL, "stream": stream, "messages": messages})),
        ("/v1/messages", json!({"model": MODEL, "stream": stream, "messages": messages, "max_tokens": 9})),
        ("/v1/responses", json!({"model": MODEL, "stream": stream, "input": "hi", "store": false})),
    ]
}

async fn post(host: &TestHost, path: &str, body: &Value) -> Answer {
    Answer::of(host.request("POST", path).header("content-type", "application/json").body(body.to_string()))
        .await
}

#[tokio::test]
async fn scripts_hear_of_turns_whose_model_has_no_memory() {
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
    until("all is heard", || async {
        (count("starts").await, count("answers").await, count("ends").await) == (turns, turns, turns)
    })
    .await;
    assert_eq!(count("errors").await, 0);
    host.ask("no").await.refused(400, "no");
    until("the refusal is heard", || async { count("errors").await == 1 }).await;
}

#[tokio::test]
async fn an_answer_has_the_form_that_is_asked_for_without_a_memory() {
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
            host.upstream.script(|asked| {
                let tries = asked.json()["messages"].as_array().map_or(0, Vec::len);
                Reply::fitting(asked, if tries == 1 { "three" } else { "{\"n\":3}" })
            });
            let before = host.upstream.asked().len();
            let answer = post(&host, path, &body).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body());
            assert!(answer.body().contains(r#"{\"n\":3}"#), "{path}: {}", answer.body());
            assert!(!answer.body().contains("three"), "{path}: {}", answer.body());
            assert_eq!(host.upstream.asked().len(), before + 2, "{path}: a misfit is asked for again");
        }
    }
}

#[tokio::test]
async fn files_of_a_chat_reach_a_pipe_that_asks_for_them() {
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
async fn a_guard_that_pipelines_cannot_ask_for_says_so() {
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
    project
        .run("check")
        .ends(0)
        .says("does not run its pre_chat where an Open WebUI asks for filters one by one");
    project.run("list").ends(0).says("does not run its pre_chat");
}
