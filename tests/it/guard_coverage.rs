//! The coverage table: the guards that ran in the requests of the last hour, and the cells without a guard.

use crate::cli::Project;
use crate::host::{Answer, TestHost, chat_body, until};
use crate::upstream::{Reply, chunk};
use serde_json::{Value, json};

const GUARD: &str = "/*\nsecurity: true\nglobal: false\n*/\n\
    fn inlet(body) { if body.messages[-1].text == \"bad\" { deny(\"guarded\", 403); } body }\n\
    fn stream(event) { event }\nfn pre_invocation(ctx) { ctx }";
const TOOL: &str = "/*\ndescription: Adds.\n*/\nfn handler(args) { \"3\" }";

/// Returns the states of a row's cells with their hooks.
fn states(table: &Value, endpoint: &str, model: &str) -> Vec<String> {
    let rows = table["data"].as_array().unwrap();
    let row = rows.iter().find(|row| row["endpoint"] == endpoint && row["model"] == model);
    let row = row.unwrap_or_else(|| panic!("{endpoint} {model}: {table}"));
    let cells = row["hooks"].as_array().unwrap().iter().map(|cell| {
        format!("{} {} {}", cell["hook"].as_str().unwrap(), cell["requests"], cell["state"].as_str().unwrap())
    });
    cells.collect()
}

#[tokio::test]
async fn the_table_shows_which_guards_ran_where_and_where_none_did() {
    let models = "[[models]]\nname = \"a\"\nprovider = \"mock\"\nmodel = \"mock-a\"\nfilters = [\"guard\"]\ntools = [\"add\"]\n\
                  [[models]]\nname = \"b\"\nprovider = \"mock\"\nmodel = \"mock-b\"";
    let host =
        TestHost::new().config(models).filter("guard", GUARD).filter("other", "fn inlet(body) { body }");
    let host = host.tool("add", TOOL).start().await;
    host.upstream.script(|request| match request.last_text().as_str() {
        "add" => {
            let function = json!({"name": "add", "arguments": "{}"});
            let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
            let last = chunk(&json!({}), Some("tool_calls"));
            let call = chunk(&json!({"tool_calls": [call]}), None);
            Reply::raw("text/event-stream", format!("{call}{last}data: [DONE]\n\n"))
        }
        _ => Reply::fitting(request, "hello"),
    });
    let table = async || host.get("/api/v1/coverage").await.json();
    assert_eq!(table().await, json!({"guards": ["guard"], "data": []}));
    for (model, text) in [("a", "hi"), ("a", "hi"), ("a", "bad"), ("b", "hi")] {
        host.chat(&chat_body(model, text)).await;
    }
    let mut streamed = chat_body("a", "add");
    streamed["stream"] = json!(true);
    assert!(host.chat(&streamed).await.is_stream());
    let respond = json!({"model": "b", "input": "hi", "stream": true});
    let request = host.request("POST", "/v1/responses").header("content-type", "application/json");
    Answer::of(request.body(respond.to_string())).await;
    until("all are counted", async || {
        let rows = table().await["data"].as_array().unwrap().clone();
        rows.iter().map(|row| row["requests"].as_u64().unwrap()).sum::<u64>() == 6
    })
    .await;
    let table = table().await;
    let a = ["inlet 3 covered", "stream 1 covered", "pre_invocation 1 covered"];
    assert_eq!(states(&table, "chat", "a"), a);
    assert_eq!(states(&table, "chat", "b"), ["inlet 1 uncovered"]);
    assert_eq!(states(&table, "responses", "b"), ["inlet 1 uncovered", "stream 1 uncovered"]);
    let first = &table["data"][0];
    assert_eq!((&first["requests"], &first["answered"], &first["user"]), (&json!(4), &json!(3), &json!("")));
    assert_eq!(first["hooks"][0]["guards"], json!([{"id": "guard", "requests": 3}]));
    // A guard that was added later ran in only some of the requests.
    host.save("late", "/*\nsecurity: true\n*/\nfn outlet(body) { body }");
    host.stands("late", "live").await;
    host.chat(&chat_body("b", "hi")).await;
    until("the late guard is counted", async || {
        let table = host.get("/api/v1/coverage").await.json();
        states(&table, "chat", "b") == ["inlet 2 uncovered", "outlet 2 partly"]
    })
    .await;
}

#[tokio::test]
async fn the_table_is_for_operators() {
    let host = TestHost::new().config("[admin]\nkey = \"sesame\"").start().await;
    host.get("/api/v1/coverage").await.refused(401, "operators");
}

#[test]
fn the_guards_command_shows_the_table_of_running_hosts() {
    let project = Project::new().filter("guard", &GUARD.replace("global: false\n", ""));
    project.run("explain --coverage").ends(0).stderr_has("no host is running on this store");
    let host = project.serve("");
    assert_eq!(host.send("hi").0, 200);
    // A host reports its requests every second.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !project.run("explain --coverage").ends(0).out.contains("inlet") {
        assert!(std::time::Instant::now() < end, "the host does not tell of its requests");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    project.run("explain --coverage").ends(0).prints("chat").prints("demo").prints("guard");
    let json = project.run("explain --coverage --format json").ends(0).json();
    assert_eq!(json.at_path("data.0.hooks.0.state").as_str(), Some("covered"));
    project.run("explain --coverage --model nobody").ends(0).stderr_has("no requests in the last hour");
}
