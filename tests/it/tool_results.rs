//! Results of tools with content blocks: for models, for filters, and for MCP clients.

use crate::host::{TestHost, chat_body, streaming};
use crate::tools::calls_once;
use serde_json::{Value, json};

const BUSY: &str = "[[models]]\nname = \"busy\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"*\"]\n";

/// Returns a tool with two results in one round: an image with a text, and a text in base64.
fn tool(name: &str, result: &str) -> String {
    format!("/*\ndescription: {name}\n*/\nconst parameters = #{{}};\nfn handler(args) {{ {result} }}\n")
}

const PICTURE: &str = r#"#{ content: [#{ type: "text", text: "a red square" }, #{ type: "image", data: "aGk=", mimeType: "image/png" }], structuredContent: #{ width: 1 } }"#;
const NOTE: &str =
    r#"#{ type: "resource", resource: #{ uri: "mem://a", mimeType: "text/plain", blob: "c2VjcmV0" } }"#;
const FAILED: &str = r#"#{ isError: true, content: [#{ type: "text", text: "no such page" }, #{ type: "image", data: "aGk=", mimeType: "image/png" }] }"#;

/// Starts a host with both tools, which the model calls once, and returns the messages of the second model call.
async fn second(filter: Option<&str>, stream: bool) -> (TestHost, Vec<Value>) {
    let mut setup = TestHost::new().config(BUSY);
    for (name, result) in [("look", PICTURE), ("note", NOTE), ("fail", FAILED)] {
        setup = setup.tool(name, tool(name, result));
    }
    if let Some(filter) = filter {
        setup = setup.filter("guard", filter);
    }
    let host = setup.start().await;
    calls_once(&host, &[("look", "{}"), ("note", "{}"), ("fail", "{}")]);
    let body = if stream { streaming("busy", "hi") } else { chat_body("busy", "hi") };
    assert!(host.chat(&body).await.text().ends_with("done"));
    let sent = host.upstream.last().json();
    let messages = sent["messages"].as_array().unwrap().clone();
    (host, messages)
}

#[tokio::test]
async fn a_model_receives_texts_in_results_and_images_after_them() {
    for stream in [false, true] {
        let (_host, messages) = second(None, stream).await;
        let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "tool", "tool", "user"]);
        assert_eq!(messages[2]["content"], "a red square\n{\"width\":1}");
        assert_eq!(messages[3]["content"], "secret");
        assert_eq!(messages[4]["content"], r#"{"error":"no such page"}"#);
        let images = messages[5]["content"].to_string();
        assert_eq!(images.matches("data:image/png;base64,aGk=").count(), 2, "{images}");
        assert!(images.contains("`look`") && images.contains("`fail`"), "{images}");
    }
}

#[tokio::test]
async fn filters_read_every_text_of_a_result_and_their_changes_are_sent() {
    let redacts = r#"/*
security: true
*/
fn post_invocation(ctx) {
    let text = json::stringify(ctx.result);
    if text.contains("secret") { ctx.result = "[redacted]"; }
    if text.contains("red square") { ctx.result.content[0].text = "a square"; }
    if text.contains("no such page") { ctx.result.content.remove(1); }
}
"#;
    let (_host, messages) = second(Some(redacts), false).await;
    assert_eq!(messages[2]["content"], "a square\n{\"width\":1}");
    assert_eq!(messages[3]["content"], "[redacted]");
    let all = json!(messages).to_string();
    assert!(!all.contains("c2VjcmV0") && !all.contains("red square"), "{all}");
    assert_eq!(all.matches("data:image/png").count(), 1, "{all}");
}
