//! A conversation of many turns: the size of each turn's model requests, reads and writes stays constant, and
//! all messages are kept.

use crate::host::TestHost;
use crate::upstream::{MODEL, Reply, UpstreamRequest};
use serde_json::{Value, json};
use valvehouse::json::Json;
use valvehouse::tokens::Counter;

const TURNS: usize = 100;
/// The number of turns after which no size may grow.
const SETTLED: usize = 40;
const WINDOW: usize = 6;
const THRESHOLD: usize = 10;
const MAX_TOKENS: usize = 900;

const LOOK: &str = r#"
const parameters = #{ at: #{ type: "integer", required: true } };
fn handler(args) { `seen ${args.at}: ` + "much to see here ".repeat(3) }
"#;

fn config(summarize: bool) -> String {
    format!(
        "[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true\ntools = [\"look\"]\n\
         system_prompt = \"Be brief.\"\n\
         middleware = {{ summarization = {{ window_size = {WINDOW}, compress_threshold = {THRESHOLD}, \
         token_threshold = 700, max_tokens = {MAX_TOKENS}, summarize = {summarize} }} }}"
    )
}

/// Returns `true` for a model call that requests a summary.
fn is_for_summary(request: &UpstreamRequest) -> bool {
    request.text().contains("You keep the memory of a conversation")
}

/// Calls the tool on every third message and answers the others.
fn model_of_talk(request: &UpstreamRequest) -> Reply {
    let text = request.last_text();
    let number: usize = text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let calls = |number: usize| {
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": format!("call_{number}"),
            "type": "function", "function": {"name": "look", "arguments": json!({"at": number}).to_string()}}]})
    };
    let message = match () {
        () if is_for_summary(request) => {
            json!({"role": "assistant", "content": "They talk of numbers. ".repeat(20)})
        }
        () if text.starts_with("turn") && number.is_multiple_of(3) => calls(number),
        () => json!({"role": "assistant", "content": format!("answer to {text}")}),
    };
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
}

/// The size of one model request.
struct ModelCall {
    bytes: usize,
    messages: usize,
    tokens: usize,
}

fn sent(request: &UpstreamRequest) -> ModelCall {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    let counter = Counter::of(MODEL).with_media();
    let tokens =
        messages.iter().map(|message| counter.message(&Json::parse(message.to_string().as_bytes()).unwrap()));
    ModelCall { bytes: request.body.len(), messages: messages.len(), tokens: tokens.sum() }
}

/// The store's rows of the conversation: the number of checkpoints, the bytes of the largest new one, and the
/// agent's values.
struct StoreRows {
    checkpoints: usize,
    state: usize,
    lasting: usize,
}

async fn kept(host: &TestHost) -> StoreRows {
    let store = host.store();
    let all = store.checkpoints("long", 10_000).await.unwrap();
    let run = &store.runs(Some("long"), None, 1).await.unwrap()[0].id;
    let state = store.latest_checkpoint(run).await.unwrap().unwrap().state.to_string().len();
    let lasting = store.conversation("long").await.unwrap().unwrap().kept.to_string().len();
    StoreRows { checkpoints: all.len(), state, lasting }
}

async fn talk(summarize: bool) {
    let host = TestHost::new().config(&config(summarize)).tool("look", LOOK).start().await;
    host.upstream.script(model_of_talk);
    let mut message_count = 0;
    let mut by_turn = Vec::new();
    for turn in 1..=TURNS {
        let before = host.upstream.requests().len();
        let body = json!({"model": "assistant", "chat_id": "long",
            "messages": [{"role": "user", "content": format!("turn {turn} of a long talk")}]});
        let answer = host.chat(&body).await;
        assert_eq!(answer.status, 200, "{}", answer.body());
        message_count += if turn % 3 == 0 { 4 } else { 2 };
        let requests = host.upstream.requests().split_off(before);
        for request in requests.iter().filter(|request| !is_for_summary(request)) {
            let sent = sent(request);
            assert!(sent.messages <= THRESHOLD + 3, "turn {turn}: {} messages", sent.messages);
            assert!(sent.tokens <= MAX_TOKENS, "turn {turn}: {} tokens", sent.tokens);
            let text = request.text();
            assert!(text.contains(&format!("turn {turn} of")), "the newest is always there");
            assert!(text.contains("Be brief."), "what the operator says is, too");
        }
        let bytes = requests.iter().map(|request| sent(request).bytes).max().unwrap();
        by_turn.push((bytes, kept(&host).await));
    }
    let full = host.store().messages("long", 0, u64::MAX).await.unwrap();
    assert_eq!(full.len(), message_count, "every message is there");
    let texts: Vec<Value> =
        full.iter().map(|message| serde_json::from_str(&message.to_string()).unwrap()).collect();
    for turn in 1..=TURNS {
        let text = format!("turn {turn} of a long talk");
        assert_eq!(texts.iter().filter(|message| message["content"] == text.as_str()).count(), 1);
    }
    let (early, late) = by_turn.split_at(TURNS - SETTLED);
    let early = &early[early.len() - SETTLED..];
    type Measure = fn(&(usize, StoreRows)) -> usize;
    let measures: [(&str, Measure); 3] = [
        ("bytes the model is sent", |turn| turn.0),
        ("bytes of a checkpoint", |turn| turn.1.state),
        ("bytes the agent keeps", |turn| turn.1.lasting),
    ];
    for (what, measure) in measures {
        let (before, after) =
            (early.iter().map(measure).max().unwrap(), late.iter().map(measure).max().unwrap());
        // Numbers grow by a digit, and the last window differs from the previous one.
        assert!(
            after <= before + before / 4 + 64,
            "{what} grow, summarize = {summarize}: {before}, then {after}"
        );
    }
    let checkpoints = by_turn.last().unwrap().1.checkpoints;
    // The store keeps the last step of each run, all steps of five runs, and those since the last clean-up.
    assert!(checkpoints <= TURNS + 5 * 9 + 20 * 6, "old checkpoints go: {checkpoints}");
}

#[tokio::test]
async fn with_summaries_the_cost_of_a_turn_does_not_grow_with_the_conversation() {
    talk(true).await;
}

#[tokio::test]
async fn with_a_window_the_cost_of_a_turn_does_not_grow_with_the_conversation() {
    talk(false).await;
}

/// The messages of the first model call that a request causes.
async fn first_call(host: &TestHost, body: &Value) -> Value {
    let before = host.upstream.requests().len();
    let answer = host.chat(body).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    host.upstream.requests()[before].json()["messages"].clone()
}

async fn stored(host: &TestHost) -> Vec<Value> {
    let messages = host.store().messages("long", 0, u64::MAX).await.unwrap();
    messages.iter().map(|message| serde_json::from_str(&message.to_string()).unwrap()).collect()
}

fn is_system(message: &Value) -> bool {
    message["role"] == "system"
}

/// The system messages that a client sends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Systems {
    None,
    /// The same one with the first message.
    Once,
    /// Another one with each message.
    Clock,
}

/// The model of a stored conversation is sent what it would be sent if the whole history were in one request.
async fn is_shown_as_a_whole(options: &str, systems: Systems, sends_all: bool) {
    let model = |name: &str, memory: bool| {
        format!(
            "[[models]]\nname = \"{name}\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = {memory}\n\
             tools = [\"look\"]\nmiddleware = {{ summarization = {{ {options} }} }}\n"
        )
    };
    let config = [model("kept", true), model("whole", false)].concat();
    let host = TestHost::new().config(&config).tool("look", LOOK).start().await;
    host.upstream.script(model_of_talk);
    let (mut sent, mut is_shortened) = (Vec::<Value>::new(), false);
    for turn in 1..=18 {
        let system = match systems {
            Systems::Once if turn == 1 => Some("Be brief.".to_owned()),
            Systems::Clock => Some(format!("It is {turn} o'clock.")),
            _ => None,
        };
        let system = system.map(|text| json!({"role": "system", "content": text}));
        let user =
            json!({"role": "user", "content": format!("turn {turn} of a talk {}", "more ".repeat(turn % 5))});
        let mut whole = stored(&host).await;
        let messages: Vec<Value> = if sends_all {
            if system.is_some() {
                sent.retain(|message| !is_system(message));
                whole.retain(|message| !is_system(message));
            }
            whole.splice(0..0, system.clone());
            sent.splice(0..0, system);
            sent.push(user.clone());
            sent.clone()
        } else {
            whole.extend(system.clone());
            system.into_iter().chain([user.clone()]).collect()
        };
        whole.push(user);
        let expected = first_call(&host, &json!({"model": "whole", "messages": whole})).await;
        let seen =
            first_call(&host, &json!({"model": "kept", "chat_id": "long", "messages": messages})).await;
        assert_eq!(seen, expected, "{options}, {systems:?}, sends all: {sends_all}, turn {turn}");
        is_shortened |= seen.to_string().contains("left out");
        sent.extend(stored(&host).await.pop());
    }
    assert!(is_shortened, "{options}");
}

#[tokio::test]
async fn a_stored_conversation_is_shortened_like_its_whole_history() {
    let mut all = Vec::new();
    for options in [
        "window_size = 4, compress_threshold = 6",
        "window_size = 1, compress_threshold = 1",
        "window_size = 7, compress_threshold = 9, token_threshold = 120",
        "window_size = 12, compress_threshold = 30, token_threshold = 150, max_tokens = 170",
        "window_size = 5, compress_threshold = 20, preserve_system = false",
    ] {
        for systems in [Systems::None, Systems::Once, Systems::Clock] {
            all.extend([false, true].map(|sends_all| (options, systems, sends_all)));
        }
    }
    for (options, systems, sends_all) in valvehouse_testkit::sampled(all, 5) {
        is_shown_as_a_whole(options, systems, sends_all).await;
    }
}
