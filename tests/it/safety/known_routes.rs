//! Below the routes that are passed through, only known ones reach a service: a chat under another name would pass the
//! guards of chats.

use crate::host::{Answer, TestHost};
use crate::upstream::{MODEL, Reply};
use serde_json::json;

const GUARD: &str = "/*\nsecurity: true\n*/\nconst endpoints = [\"chat\", \"embeddings\", \"images\", \"completions\"];\n\
    fn inlet(body) { deny(\"guarded\", 403); }";

/// The families of routes, below `/v1`, and the known ones of each.
const FAMILIES: [&str; 18] = [
    "embeddings",
    "completions",
    "moderations",
    "rerank",
    "audio",
    "audio/speech",
    "audio/transcriptions",
    "audio/translations",
    "images",
    "images/generations",
    "images/edits",
    "images/variations",
    "files",
    "files/file-1",
    "files/file-1/content",
    "batches",
    "batches/b-1",
    "messages/batches/b-1",
];

/// The routes of services for chats, in several spellings.
const TAILS: [&str; 16] = [
    "chat/completions",
    "chat%2fcompletions",
    "/chat/completions",
    "chat/completions/",
    "chat",
    "completions",
    "Completions",
    "responses",
    "messages",
    "v1/chat/completions",
    "v1/messages",
    "generate",
    "generateContent",
    "speech/chat/completions",
    "x/y/chat/completions",
    "threads/runs",
];

#[tokio::test]
async fn no_chat_reaches_a_service_below_another_route() {
    for kind in ["openai", "anthropic", "ollama"] {
        let host = TestHost::new().filter("guard", GUARD).provider(&format!("kind = {kind:?}")).start().await;
        host.upstream.reply(Reply::json(&json!({"id": "x"})));
        let chat = json!({"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}).to_string();
        let mut reached = Vec::new();
        let all = FAMILIES.iter().flat_map(|family| TAILS.map(|tail| (*family, tail)));
        for (family, tail) in valvehouse_testkit::sampled(all, 7) {
            let forms = [
                format!("/v1/{family}/{tail}"),
                format!("/openai/v1/{family}/{tail}"),
                format!("/openai/{family}/{tail}"),
                format!("/openai/deployments/{MODEL}/{family}/{tail}"),
            ];
            for path in forms {
                for method in ["POST", "GET", "DELETE"] {
                    let request = host.request(method, &path).header("content-type", "application/json");
                    let request = match path.contains("messages/") {
                        true => request.header("anthropic-version", "2023-06-01"),
                        false => request,
                    };
                    let answer = Answer::of(request.body(chat.clone())).await;
                    // A file or a batch may have any id.
                    let is_id = method != "POST"
                        && ["files", "batches"].contains(&family)
                        && !tail.contains(['/', '%']);
                    if answer.status < 400 && !is_id {
                        reached.push(format!("{kind}: {method} {path}: {}", answer.status));
                    }
                }
            }
        }
        assert!(reached.is_empty(), "{} requests: {:#?}", reached.len(), &reached[..reached.len().min(20)]);
    }
}

#[tokio::test]
async fn an_unknown_route_is_refused_with_the_known_ones() {
    let host = TestHost::new().start().await;
    let before = host.upstream.requests().len();
    let answer = Answer::of(host.request("POST", "/v1/audio/chat/completions").body("{}")).await;
    answer.refused(404, "unknown route POST /v1/audio/chat/completions; known below `audio`: ");
    assert!(answer.body().contains("audio/speech"), "{}", answer.body());
    assert_eq!(host.upstream.requests().len(), before);
}
