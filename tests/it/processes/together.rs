//! Two hosts on one store that write to the same conversation.

use super::serve::{Project, Server};
use crate::upstream::{MODEL, Reply, Upstream, UpstreamRequest};
use serde_json::json;
use std::time::Duration;

/// The number of messages that each user sends, one after the other.
const SAYS: usize = 12;

/// Repeats the last message.
fn echo(request: &UpstreamRequest) -> Reply {
    let message = json!({"role": "assistant", "content": format!("echo {}", request.last_text())});
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    .after(Duration::from_millis(5))
}

/// Sends all messages and retries each until it is accepted. Returns the number of refusals.
async fn send_all(server: &Server, name: &str) -> usize {
    let mut refused = 0;
    for number in 0..SAYS {
        let text = format!("{name} {number}");
        loop {
            let (status, answer) = server.tries("shared", &text).await;
            if status == 200 {
                assert_eq!(answer["choices"][0]["message"]["content"], format!("echo {text}"));
                break;
            }
            assert_eq!(status, 409, "{answer}");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains("`shared`") && message.contains("try again"), "{message}");
            refused += 1;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_share_a_conversation_without_losing_messages() {
    let upstream = Upstream::start().await;
    upstream.script(echo);
    let project = Project::new(&upstream.url());
    let (one, other) = tokio::join!(project.serve(), project.serve());
    let people =
        [send_all(&one, "ann"), send_all(&one, "bob"), send_all(&other, "cid"), send_all(&other, "dee")];
    let refused: usize = futures::future::join_all(people).await.into_iter().sum();
    let messages = project.messages_of("shared").await;
    let texts: Vec<&str> = messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
    for pair in texts.chunks(2) {
        assert_eq!(pair[1], format!("echo {}", pair[0]), "each is answered before the next one speaks");
    }
    for name in ["ann", "bob", "cid", "dee"] {
        let own: Vec<&str> = texts.iter().step_by(2).copied().filter(|text| text.starts_with(name)).collect();
        let all: Vec<String> = (0..SAYS).map(|number| format!("{name} {number}")).collect();
        assert_eq!(own, all, "in their order, none twice");
    }
    assert_eq!(texts.len(), 2 * 4 * SAYS);
    let grown: Vec<usize> = upstream
        .requests()
        .iter()
        .map(|request| request.json()["messages"].as_array().unwrap().len())
        .collect();
    let expected: Vec<usize> = (0..4 * SAYS).map(|turn| 2 * turn + 1).collect();
    assert_eq!(grown, expected, "every request had all messages before");
    println!("{} messages by two hosts, {refused} times one had to wait for the other", 4 * SAYS);
}
