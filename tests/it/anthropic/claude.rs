//! A mock of Anthropic's service, whole or streamed, which refuses the same requests.

use crate::upstream::{Reply, Upstream, UpstreamRequest};
use serde_json::{Value, json};

/// The signature of the model's thinking before it calls the tool `get_weather`.
pub(crate) const SIGNATURE: &str = "c2lnbmF0dXJl";

/// Starts the service. Returns it with the configuration of a host: the model `claude-1`, and the same model
/// as `clerk` with all tools of the host.
pub(crate) async fn start() -> (Upstream, String) {
    let claude = Upstream::start().await;
    claude.script(answer);
    let config = format!(
        "[[providers]]\nname = \"claude\"\nkind = \"anthropic\"\nbase_url = \"{}\"\napi_key = \"sk-claude\"\n\
         models = [\"claude-1\"]\nretry = {{ max_attempts = 1 }}\nbreaker = {{ failure_threshold = 0 }}\n[[models]]\nname = \"clerk\"\nprovider = \"claude\"\nmodel = \"claude-1\"\n\
         tools = [\"*\"]\n",
        claude.url()
    );
    (claude, config)
}

fn answer(request: &UpstreamRequest) -> Reply {
    let body = request.json();
    let last = &body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    let blocks = last["content"].as_array().cloned().unwrap_or_default();
    let text: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    if let Some(why) = refusal(&body) {
        return error(400, "invalid_request_error", &why);
    }
    if let Some(result) = blocks.iter().find(|block| block["type"] == "tool_result") {
        let reply_text = format!("The tool said: {}", words_of(&result["content"]));
        return message(&body, &[json!({"type": "text", "text": reply_text})], "end_turn");
    }
    match text.as_str() {
        "busy" => error(529, "overloaded_error", "Overloaded").header("retry-after", "3"),
        "late" => Reply::raw("text/event-stream", events(&body, &[hello()], "end_turn").remove(0)).then(
            event(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})),
        ),
        "cut" => {
            Reply::raw("text/event-stream", events(&body, &[hello()], "end_turn")[..3].concat()).then_cut()
        }
        "search" => message(&body, &search(), "end_turn"),
        text if text.starts_with("call ") => {
            let name = &text["call ".len()..];
            let blocks = [
                json!({"type": "thinking", "thinking": "I need a tool.", "signature": SIGNATURE}),
                json!({"type": "text", "text": "I look. "}),
                json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": {"city": "Bonn"}}),
            ];
            message(&body, &blocks, "tool_use")
        }
        _ => message(&body, &[hello()], "end_turn"),
    }
}

fn hello() -> Value {
    json!({"type": "text", "text": "hello from claude"})
}

/// Returns a search that the service executes itself, with its result.
pub(crate) fn search() -> [Value; 4] {
    [
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "ruby"}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
               "content": [{"type": "web_search_result", "title": "Ruby", "url": "https://r.example", "encrypted_content": "x"}]}),
        json!({"type": "text", "text": "Ruby is at 4.",
               "citations": [{"type": "web_search_result_location", "url": "https://r.example", "title": "Ruby",
                              "cited_text": "4", "encrypted_index": "y"}]}),
        json!({"type": "text", "text": " That is new."}),
    ]
}

/// Returns the reason why Anthropic would refuse a conversation.
fn refusal(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array()?;
    if !body["max_tokens"].is_u64() {
        return Some("max_tokens: Field required".into());
    }
    let content = |at: usize| messages[at]["content"].as_array().cloned().unwrap_or_default();
    for at in 1..messages.len() {
        if messages[at]["role"] == messages[at - 1]["role"] {
            return Some("messages: roles must alternate".into());
        }
        let calls = content(at - 1).into_iter().filter(|block| block["type"] == "tool_use");
        for call in calls {
            if !content(at)
                .iter()
                .any(|block| block["type"] == "tool_result" && block["tool_use_id"] == call["id"])
            {
                return Some(format!(
                    "messages.{at}: `tool_use` ids were found without `tool_result` blocks"
                ));
            }
            let first = &content(at - 1)[0];
            if first["type"] != "thinking"
                || first["signature"] != SIGNATURE
                || first["thinking"] != "I need a tool."
            {
                return Some(format!(
                    "messages.{}: Expected `thinking`, but found `{}`",
                    at - 1,
                    first["type"]
                ));
            }
        }
    }
    None
}

fn words_of(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    content.as_str().map_or_else(|| parts.filter_map(|part| part["text"].as_str()).collect(), str::to_owned)
}

fn error(status: u16, kind: &str, message: &str) -> Reply {
    let body = json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"});
    Reply::json(&body).status(status)
}

fn message(body: &Value, blocks: &[Value], stop: &str) -> Reply {
    if body["stream"] == true {
        return Reply::raw("text/event-stream", events(body, blocks, stop).concat());
    }
    let mut message = head(body);
    message["content"] = json!(blocks);
    message["stop_reason"] = json!(stop);
    message["usage"]["output_tokens"] = json!(9);
    Reply::json(&message)
}

fn head(body: &Value) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": [],
           "stop_reason": null, "stop_sequence": null,
           "usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0, "output_tokens": 1}})
}

fn events(body: &Value, blocks: &[Value], stop: &str) -> Vec<String> {
    let mut out = vec![json!({"type": "message_start", "message": head(body)})];
    for (index, block) in blocks.iter().enumerate() {
        let (start, deltas) = pieces(block);
        out.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        out.push(json!({"type": "ping"}));
        out.extend(
            deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        out.push(json!({"type": "content_block_stop", "index": index}));
    }
    out.push(json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
                    "usage": {"output_tokens": 9}}));
    out.push(json!({"type": "message_stop"}));
    out.iter().map(event).collect()
}

fn pieces(block: &Value) -> (Value, Vec<Value>) {
    let mut start = block.clone();
    let words = |key: &str| -> Vec<String> {
        block[key].as_str().unwrap_or_default().split_inclusive(' ').map(str::to_owned).collect()
    };
    let mut deltas = Vec::new();
    match block["type"].as_str() {
        Some("text") => {
            start = json!({"type": "text", "text": ""});
            let citations = block["citations"].as_array().into_iter().flatten();
            deltas.extend(citations.map(|citation| json!({"type": "citations_delta", "citation": citation})));
            deltas.extend(words("text").iter().map(|word| json!({"type": "text_delta", "text": word})));
        }
        Some("thinking") => {
            start = json!({"type": "thinking", "thinking": "", "signature": ""});
            deltas.extend(
                words("thinking").iter().map(|word| json!({"type": "thinking_delta", "thinking": word})),
            );
            deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
        }
        Some("tool_use" | "server_tool_use") => {
            start["input"] = json!({});
            let input = block["input"].to_string();
            let (first, second) = input.split_at(input.len() / 2);
            let piece = |piece: &str| json!({"type": "input_json_delta", "partial_json": piece});
            deltas.extend([piece(""), piece(first), piece(second)]);
        }
        _ => {}
    }
    (start, deltas)
}

/// Returns an event with the padding that Anthropic uses.
fn event(event: &Value) -> String {
    format!("event: {}\ndata: {event}      \n\n", event["type"].as_str().unwrap_or_default())
}
