//! Unusual requests of clients and unusual responses of services, with the behavior that clients expect.

use crate::cli::Project;
use crate::host::{Answer, TestHost, chat_body, streaming};
use crate::kernel::{asking, chat, invoke, script};
use crate::upstream::{MODEL, Reply, chunk};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const LOOKS: &str = "fn inlet(body) { for m in body.messages { m.text; } }\nfn stream(event) { event }";

#[tokio::test]
async fn client_metadata_and_id_reach_the_service_but_host_metadata_does_not() {
    let host = TestHost::new().filter("looks", LOOKS).start().await;
    let mut body = chat_body(MODEL, "hi");
    body["store"] = true.into();
    body["id"] = "req_1".into();
    body["metadata"] = json!({"team": "blue", "variables": {"a": 1}, "chat_id": "c"});
    assert_eq!(host.chat(&body).await.status, 200);
    let sent = host.upstream.last().json();
    assert_eq!(sent["metadata"], json!({"team": "blue"}));
    assert_eq!(sent.get("id"), None, "the metadata names a chat: it is the message's");
    body["metadata"] = json!({"variables": {"a": 1}});
    host.chat(&body).await;
    let sent = host.upstream.last().json();
    assert_eq!((sent.get("metadata"), &sent["id"]), (None, &json!("req_1")));
    body["store"] = false.into();
    body["metadata"] = json!({"team": "blue"});
    host.chat(&body).await;
    assert_eq!(host.upstream.last().json().get("metadata"), None, "services refuse it without store");
}

#[tokio::test]
async fn unusual_bodies_are_accepted_or_rejected_with_a_clear_reason() {
    for filter in [None, Some(LOOKS)] {
        let setup = TestHost::new();
        let host = filter.into_iter().fold(setup, |setup, text| setup.filter("looks", text)).start().await;
        let mut body = chat_body(MODEL, "hi");
        let marked = format!("\u{feff}{body}");
        assert_eq!(Answer::of(host.posting(marked)).await.text(), "hello from upstream");
        let packed = host.posting(body.to_string()).header("content-encoding", "gzip");
        Answer::of(packed).await.refused(400, "content-encoding gzip is not supported");
        body["stream"] = "true".into();
        host.chat(&body).await.refused(400, "invalid stream: expected true or false, got a string");
        body["stream"] = false.into();
        body["messages"] = "hi".into();
        host.chat(&body).await.refused(400, "invalid messages: expected an array of messages, got a string");
    }
}

/// Returns a zstd body: the text, followed by `blocks` blocks of zeros of the maximum size.
pub fn zstd(text: &str, blocks: usize) -> Vec<u8> {
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    let block = |kind: u32, size: usize, is_last: bool| {
        (u32::from(is_last) | kind << 1 | u32::try_from(size).unwrap() << 3).to_le_bytes()[..3].to_vec()
    };
    out.extend(block(0, text.len(), blocks == 0));
    out.extend(text.as_bytes());
    for left in (0..blocks).rev() {
        out.extend(block(1, 128 << 10, left == 0));
        out.push(b' ');
    }
    out
}

#[tokio::test]
async fn zstd_bodies_of_codex_are_read_at_every_endpoint() {
    let config = "[server]\nmax_body_mb = 1\n[[models]]\nname = \"mock-1\"\nprovider = \"mock\"";
    let host = TestHost::new().config(config).start().await;
    let messages = json!([{"role": "user", "content": "hi"}]);
    let bodies = [
        ("/v1/chat/completions", json!({"model": "mock-1", "messages": messages})),
        ("/v1/responses", json!({"model": "mock-1", "input": "hi"})),
        ("/v1/messages", json!({"model": "mock-1", "messages": messages, "max_tokens": 9})),
        ("/v1/messages/count_tokens", json!({"model": "mock-1", "messages": messages})),
        ("/v1/responses/input_tokens", json!({"model": "mock-1", "input": "hi"})),
        ("/openai/deployments/mock-1/chat/completions", json!({"messages": messages})),
        ("/api/chat", json!({"model": "mock-1", "messages": messages, "stream": false})),
    ];
    for (path, body) in bodies {
        let post = |body: Vec<u8>| {
            let request = host.request("POST", path).header("content-encoding", "zstd");
            Answer::of(request.header("content-type", "application/json").body(body))
        };
        let body = body.to_string();
        let (one, other) = body.split_at(7);
        // Frames follow each other, and white space unpacks to a much larger size.
        let answer = post([zstd(one, 0), zstd(other, 3)].concat()).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body());
        let bomb = post(zstd(&body, 16)).await;
        assert_eq!(bomb.status, 413, "{path}: {}", bomb.body());
        for torn in [zstd(&body, 0)[..20].to_vec(), body.clone().into_bytes()] {
            let answer = post(torn).await;
            assert!(answer.status == 400 && answer.body().contains("zstd"), "{path}: {}", answer.body());
        }
    }
}

#[tokio::test]
async fn unknown_routes_answer_in_the_protocol_of_the_caller() {
    let host = TestHost::new().start().await;
    let answer = host.get("/v1/vector_stores").await;
    assert_eq!(answer.status, 404);
    assert!(!answer.body().contains("chats go to"), "{}", answer.body());
    assert_eq!(answer.error()["code"], "not_found");
    let request = host.request("POST", "/v1/organizations").header("anthropic-version", "2023-06-01");
    let answer = Answer::of(request.body("{}")).await;
    assert_eq!((answer.status, &answer.json()["type"]), (404, &json!("error")));
    assert_eq!(answer.json()["error"]["type"], "not_found_error");
    // The path names the protocol as well.
    assert_eq!(host.get("/v1/messages/nothing").await.json()["type"], "error");
}

#[tokio::test]
async fn an_invalid_provider_response_is_a_clear_502() {
    for filter in [None, Some(LOOKS)] {
        let setup =
            TestHost::new().provider("retry = { max_attempts = 1 }\nbreaker = { failure_threshold = 0 }");
        let host = filter.into_iter().fold(setup, |setup, text| setup.filter("looks", text)).start().await;
        for body in ["null", "[]"] {
            host.upstream.reply(Reply::raw("application/json", body));
            host.chat(&chat_body(MODEL, "hi")).await.refused(502, "without `choices`");
        }
        host.upstream.reply(Reply::raw("application/json", r#"{"choices":[]}"#));
        host.chat(&streaming(MODEL, "hi")).await.refused(502, "it has no choices");
        host.upstream.reply(Reply::text("odd").status(304));
        assert_eq!(host.chat(&chat_body(MODEL, "hi")).await.status, 502);
    }
}

#[tokio::test]
async fn a_text_too_long_for_scripts_is_a_413_that_names_the_limit() {
    let long = "x".repeat((4 << 20) + 1);
    let host = TestHost::new().filter("looks", LOOKS).start().await;
    host.chat(&chat_body(MODEL, &long)).await.refused(413, "max_text_mb");
    assert_eq!(host.ask("hi").await.text(), "hello from upstream");
    // No filter reads it.
    let host = TestHost::new().filter("idle", "fn outlet(body) { }").start().await;
    assert_eq!(host.chat(&chat_body(MODEL, &long)).await.text(), "hello from upstream");
    // A script that creates such a text itself fails.
    let grows = "fn inlet(body) { let t = \"0123456789\"; loop { t += t; } }";
    let host = TestHost::new().filter("grows", grows).start().await;
    assert_eq!(host.ask("hi").await.status, 500);
}

#[tokio::test]
async fn a_filter_with_a_missing_required_valve_is_in_no_chain() {
    let needy = "/*\nneeds: word\n*/\nconst Valves = #{ word: \"\" };\nfn outlet(body, valves) { body.messages[-1].text += valves.word; }";
    let host = TestHost::new().filter("needy", needy).start().await;
    let chain = |host: &TestHost| host.snapshot().ready(MODEL, &[]).unwrap().kernel.chain().filters().len();
    assert_eq!((chain(&host), host.ask("hi").await.text()), (0, "hello from upstream".into()));
    host.set_valves("needy", None, json!({"word": "!"})).await;
    assert_eq!((host.ask("hi").await.text(), chain(&host)), ("hello from upstream!".into(), 1));
    let wrong = TestHost::new().filter("wrong", needy.replace("needs: word", "needs: wrd")).start().await;
    let problem_text: String = wrong.problems("wrong").iter().map(ToString::to_string).collect();
    assert!(
        problem_text.contains("unknown valve `wrd`") && problem_text.contains("did you mean `word`?"),
        "{problem_text}"
    );
}

#[test]
fn the_shipped_collection_has_no_idle_filter_in_its_chain() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/filters");
    let project = Project::new().with("valvehouse.toml", &format!("[folders]\nfilters = {folder:?}\n"));
    let explained = project.run("explain --model demo --format json").ends(0).out;
    for id in ["rate_limit", "turn_limit", "word_filter", "webhook_log", "context_clip", "model_router"] {
        let at = explained.find(&format!("\"{id}\"")).unwrap_or_else(|| panic!("{id} is not in {explained}"));
        let rest = &explained[at..];
        assert!(rest[..rest.find('}').unwrap()].contains("idle"), "{id}: {rest}");
    }
}

#[tokio::test]
async fn a_tool_error_is_not_retried_and_a_failure_is() {
    let tool = |id: &str, text: &str| {
        use valvehouse::script::{Kind, Script, Settings, SourceFile, UserValves};
        let text =
            format!("/*\nrequirements: kv\nretry: 3, 1\n*/\nfn handler(args) {{ kv::incr(\"n\"); {text} }}");
        let file = SourceFile::new(Kind::Tool, id, format!("tools/{id}.rhai"), text);
        let script = Arc::new(Script::compile(&file, &Settings::default()).unwrap());
        script.tools(&Arc::new(UserValves::default())).remove(0).tool
    };
    let answers = tool("answers", "if kv::get(\"n\") > 1 { \"again\" } else { error(\"no such city\") }");
    let fails = tool("fails", "if kv::get(\"n\") > 1 { \"again\" } else { throw \"it broke\" }");
    let kernel = asking(["x"]).0.tool(answers).tool(fails).build();
    assert!(invoke(&kernel, "answers", "{}").await.unwrap_err().to_string().contains("no such city"));
    assert_eq!(invoke(&kernel, "fails", "{}").await.unwrap(), "again".into());
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let native = valvehouse::tool::Tool::from_json_fn("native", move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Err(valvehouse::tool::ToolError::from("no").answer())
    });
    let native = native.retry(3, std::time::Duration::from_millis(1));
    let kernel = asking(["x"]).0.tool(native).build();
    assert!(invoke(&kernel, "native", "{}").await.is_err());
    assert_eq!(tries.load(Ordering::Relaxed), 1);
}

#[test]
fn check_reports_two_tools_with_one_name() {
    let module = "fn tools() { [#{ name: \"look\", description: \"Looks.\", handler: Fn(\"look\") }] }\nfn look(args) { 1 }";
    let project = Project::new().with("tools/one.rhai", module).with("tools/two.rhai", module);
    project
        .run("check")
        .prints("two tools are called `look`: this file is used")
        .prints("this file is not used");
    let project = Project::new().with("tools/one.rhai", module);
    project.run("check").ends(0).prints("0 problems");
}

#[tokio::test]
async fn live_and_plain_values_are_joined_the_same_way() {
    for (code, expected) in [
        ("let m = #{ a: 1 }; m += body.messages[0]; m.role", "user"),
        ("let m = #{ role: \"x\" } + body.messages[0]; m.role", "user"),
        ("let m = body.messages[0] + #{ role: \"x\" }; m.role", "x"),
        ("let m = #{ a: 1 }; m.mixin(body.messages[0]); `${m.a} ${m.role}`", "1 user"),
        ("let m = #{ role: \"x\" }; m.fill_with(body.messages[0]); `${m.role} ${m.content}`", "x hi"),
        ("let l = [1]; l.append(body.messages); `${l.len()}`", "2"),
        ("let l = [1] + body.messages; `${l.len()}`", "2"),
        ("let l = body.messages + [1]; `${l.len()}`", "2"),
        ("body.list = [1]; body.list += [2, 3]; `${body.list.len()}`", "3"),
        ("body.list = [1]; body.list += body.messages; `${body.list.len()}`", "2"),
        ("body.messages[0].images = 5; \"unreachable\"", "cannot"),
    ] {
        let filter = script("joins", &format!("fn inlet(body) {{ skip({{ {code} }}) }}"));
        let kernel = asking(["x"]).0.filter(filter).build();
        match chat(&kernel, "hi").await {
            Ok(answer) => assert_eq!(answer.text(), expected, "{code}"),
            Err(error) => assert_eq!(expected, "cannot", "{code}: {error}"),
        }
    }
    // A field of the message takes precedence over the host's property of the same name.
    let filter = script(
        "own",
        "fn outlet(body) { let m = body.messages[-1]; m.content = `${m.images.len()} ${m.images[0]}`; }",
    );
    let message = valvehouse::chat::message::assistant("x");
    message.set("images", valvehouse::json::Json::from(vec!["drawn"])).unwrap();
    let kernel = asking([valvehouse::provider::Reply::message(message)]).0.filter(filter).build();
    assert_eq!(chat(&kernel, "hi").await.unwrap().text(), "1 drawn");
}

/// Returns the requests to the service over ten rounds of an agent that runs its own tools.
async fn ten_rounds(config: &str, streams: bool, patches: bool) -> Vec<serde_json::Value> {
    let host = TestHost::new().config(config).start().await;
    let rounds = AtomicUsize::new(0);
    host.upstream.script(move |request| {
        let round = rounds.fetch_add(1, Ordering::Relaxed);
        let arguments = format!("{{\"command\":\"ls -la src/{round} | head -n 4\"}}");
        let patch = format!("*** Begin Patch\n*** Update File: src/{round}.rs\n-old\n+new\n*** End Patch");
        let call = match patches && round % 2 == 1 {
            true => json!({"index": 0, "id": format!("call_{round}"), "type": "custom",
                "custom": {"name": "apply_patch", "input": patch}}),
            false => json!({"index": 0, "id": format!("call_{round}"), "type": "function",
                "function": {"name": "bash", "arguments": arguments}}),
        };
        let delta = if round < 10 {
            json!({"role": "assistant", "content": format!("Step {round}: let me look. "), "reasoning_content": "a thought <b>",
                "tool_calls": [call]})
        } else {
            json!({"role": "assistant", "content": "All done."})
        };
        let why = if round < 10 { "tool_calls" } else { "stop" };
        if request.json()["stream"] == json!(true) {
            let events = [crate::upstream::chunk(&delta, None), crate::upstream::chunk(&json!({}), Some(why))];
            return Reply::raw("text/event-stream", events.concat() + "data: [DONE]\n\n");
        }
        Reply::json(&json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": delta, "finish_reason": why}]}))
    });
    let mut body = chat_body(MODEL, "please tidy up the folder");
    body["stream"] = streams.into();
    body["tools"] = json!([
        {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "apply_patch", "description": "Applies a patch.",
            "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /.+/"}}}},
    ]);
    for round in 0..=10 {
        let answer = host.chat(&body).await;
        assert_eq!(answer.status, 200, "round {round}: {}", answer.body());
        let answer_message = if streams {
            let mut fold = valvehouse::chat::Fold::default();
            for event in answer.events() {
                fold.push(&crate::kernel::json(&event.to_string()));
            }
            crate::kernel::value(&fold.finish().at_path("choices.0.message"))
        } else {
            answer.json()["choices"][0]["message"].clone()
        };
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(answer_message);
        messages.push(json!({"role": "tool", "tool_call_id": format!("call_{round}"), "content": "total 8\nfile_one\n"}));
    }
    host.upstream.requests().iter().map(crate::upstream::UpstreamRequest::json).collect()
}

#[tokio::test]
async fn an_agents_loop_of_ten_rounds_is_the_same_with_the_shipped_collection_as_without() {
    let shipped = shipped();
    for (streams, patches) in [(false, false), (true, false), (false, true), (true, true)] {
        let with = ten_rounds(&shipped, streams, patches).await;
        let without = ten_rounds("", streams, patches).await;
        assert_eq!(with.len(), 11);
        for (round, (with, without)) in with.iter().zip(&without).enumerate() {
            assert_eq!(with["messages"], without["messages"], "round {round}, streams: {streams}, {patches}");
            assert_eq!(with["tools"], without["tools"], "round {round}");
        }
    }
}

/// Returns the blocks of a round's response: signed thinking, text, parallel calls and sometimes a search.
fn blocks_of_round(round: usize) -> Vec<serde_json::Value> {
    if round == 10 {
        return vec![json!({"type": "text", "text": "All done."})];
    }
    let thinking = json!({"type": "thinking", "thinking": format!("Round {round}: <think> where is `a_key`?"),
        "signature": format!("c2lnbmF0dXJl{round}")});
    let text = json!({"type": "text", "text": format!("Step {round}: let me look. ")});
    let call = |n: usize, name: &str, input: serde_json::Value| json!({"type": "tool_use", "id": format!("toolu_{round}_{n}"), "name": name, "input": input});
    let bash = call(0, "Bash", json!({"command": format!("ls -la src/{round} | head -n 4")}));
    let read = call(1, "Read", json!({"file_path": format!("/src/{round}.rs"), "limit": 20}));
    let search = json!({"type": "server_tool_use", "id": format!("srvtoolu_{round}"), "name": "web_search",
        "input": {"query": "latest stable Ruby"}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": format!("srvtoolu_{round}"), "content":
        [{"type": "web_search_result", "title": "Ruby", "url": "https://r.example", "encrypted_content": "ZW5j"}]});
    match round % 3 {
        0 => vec![thinking, text, bash, read],
        1 => vec![thinking, search, found, text, bash],
        _ => vec![thinking, bash, read],
    }
}

/// Returns the requests to an Anthropic service over ten rounds of an agent that uses Anthropic's protocol.
async fn ten_rounds_of_messages(config: &str, streams: bool) -> Vec<serde_json::Value> {
    use crate::generator::services::named;
    use crate::lanes::{blocks, raw};
    let claude = crate::upstream::Upstream::start().await;
    let provider = format!(
        "[[providers]]\nname = \"claude\"\nkind = \"anthropic\"\nbase_url = \"{}\"\napi_key = \"sk-claude\"\nmodels = [\"claude-1\"]\n",
        claude.url()
    );
    let host = TestHost::new().config(&provider).config(config).start().await;
    let rounds = AtomicUsize::new(0);
    claude.script(move |request| {
        let blocks = blocks_of_round(rounds.fetch_add(1, Ordering::Relaxed));
        if request.json()["stream"] == json!(true) {
            return Reply::raw("text/event-stream", named(&blocks::events(&blocks, 5)));
        }
        Reply::json(&json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1", "content": blocks,
            "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": 3, "output_tokens": 4}}))
    });
    let cached = json!({"type": "ephemeral"});
    let tool =
        |name: &str| json!({"name": name, "description": "Works.", "input_schema": {"type": "object"}});
    let mut body = json!({"model": "claude-1", "max_tokens": 32000, "stream": streams,
        "thinking": {"type": "enabled", "budget_tokens": 4000},
        "metadata": {"user_id": "user_1_account__session_2"},
        "system": [{"type": "text", "text": "You are an agent for the command line."},
            {"type": "text", "text": "Be exact.\n\n<env>\nplatform: linux\n</env>", "cache_control": cached}],
        "tools": [tool("Bash"), tool("Read"), {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "<system-reminder>\nToday is a day.\n</system-reminder>"},
            {"type": "text", "text": "please tidy up the folder", "cache_control": cached}]}]});
    for round in 0..=10 {
        let request = host.request("POST", "/v1/messages").header("anthropic-version", "2023-06-01");
        let request = request.header("anthropic-beta", "interleaved-thinking-2025-05-14");
        let answer =
            Answer::of(request.header("content-type", "application/json").body(body.to_string())).await;
        assert_eq!(answer.status, 200, "round {round}: {}", answer.body());
        let answer_blocks = if streams {
            raw::blocks_read(&answer)
        } else {
            answer.json()["content"].as_array().unwrap().clone()
        };
        assert_eq!(
            raw::full(&answer_blocks),
            raw::full(&blocks_of_round(round)),
            "round {round}: {}",
            answer.body()
        );
        let results: Vec<_> = answer_blocks.iter().filter(|block| block["type"] == "tool_use").collect();
        let last = results.len().saturating_sub(1);
        let results = results.iter().enumerate().map(|(n, call)| {
            let mut result = json!({"type": "tool_result", "tool_use_id": call["id"], "is_error": n == 1,
                "content": [{"type": "text", "text": "total 8\nfile_one\n"}]});
            if n == last {
                result["cache_control"] = cached.clone();
            }
            result
        });
        let results: Vec<_> = results.collect();
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": answer_blocks}));
        messages.push(json!({"role": "user", "content": results}));
    }
    claude.requests().iter().map(crate::upstream::UpstreamRequest::json).collect()
}

#[tokio::test]
async fn an_agents_loop_over_messages_is_the_same_with_the_shipped_collection_as_without() {
    let shipped = shipped();
    for streams in [false, true] {
        let with = ten_rounds_of_messages(&shipped, streams).await;
        let without = ten_rounds_of_messages("", streams).await;
        assert_eq!(with.len(), 11);
        for (round, (with, without)) in with.iter().zip(&without).enumerate() {
            assert_eq!(with, without, "round {round}, streams: {streams}");
        }
    }
}

/// Returns the configuration of the shipped filters, with budgets that a busy machine does not exhaust.
fn shipped() -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let files = std::fs::read_dir(format!("{root}/filters")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let names = names
        .filter_map(|name| Some(name.strip_suffix(".rhai")?.to_owned()))
        .filter(|name| !name.starts_with('_') && !name.contains("test"));
    let budgets: String =
        names.map(|name| format!("[filters.{name}]\nbudget = {{ ms = 5_000 }}\n")).collect();
    format!("[folders]\nfilters = \"{root}/filters\"\ntools = \"{root}/tools\"\n{budgets}")
}

/// Starts a service that answers every connection with these bytes and closes it. Returns its address.
async fn service_of(bytes: &'static str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 16 * 1024];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(bytes.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

#[tokio::test]
async fn an_invalid_provider_response_is_a_502_at_each_endpoint() {
    let whole = |body: &str| {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    let answers = [
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n".to_owned(),
        whole("null"),
        whole("[]"),
        whole("\"text\""),
        whole("{\"choices\":[]}"),
        whole("{}"),
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"choices\":[{\"index\":0".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"choices\":[{\"index\":0".to_owned(),
    ];
    for answer in answers {
        let address = service_of(answer.clone().leak()).await;
        let config = format!(
            "[[providers]]\nname = \"odd\"\nkind = \"openai\"\nbase_url = \"http://{address}/v1\"\nmodels = [\"odd-1\"]\nretry = {{ max_attempts = 1 }}\nbreaker = {{ failure_threshold = 0 }}\n"
        );
        for filter in [None, Some(LOOKS)] {
            let setup = TestHost::new().config(&config);
            let host =
                filter.into_iter().fold(setup, |setup, text| setup.filter("looks", text)).start().await;
            for (path, streams) in [
                ("/v1/chat/completions", false),
                ("/v1/chat/completions", true),
                ("/v1/messages", false),
                ("/v1/messages", true),
            ] {
                let body = json!({"model": "odd-1", "max_tokens": 9, "stream": streams,
                    "messages": [{"role": "user", "content": "hi"}]});
                let request = host.request("POST", path).header("content-type", "application/json");
                let got = Answer::of(request.body(body.to_string())).await;
                let is_object = answer.ends_with("{\"choices\":[]}") || answer.ends_with("\n{}");
                if is_object && !streams && path != "/v1/messages" {
                    // A response that is an object may be valid in OpenAI's format; without filters, the host
                    // does not check its choices.
                    continue;
                }
                let what = format!("{answer:?} {path} streams: {streams}, {filter:?}: {}", got.body());
                assert_eq!(got.status, 502, "{what}");
                let error = got.json();
                assert!(error["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{what}");
                assert_eq!(error["type"] == "error", path == "/v1/messages", "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413_that_node_reads() {
    let Some(mut node) = crate::generator::clients::javascript("tests/javascript/too_large.cjs") else {
        return;
    };
    let host = TestHost::new().start().await;
    node.arg(host.url("/v1/chat/completions"));
    crate::python::passes(node).await;
    assert_eq!(host.ask("hi").await.text(), "hello from upstream");
}

#[tokio::test]
async fn a_two_megabyte_answer_passes_a_window() {
    let window = "fn stream(event, state) { stream::window(event, state, 40, |text| regex::replace(text, \"sk-[a-z0-9]{16,40}\", \"[key]\")); }";
    let host = TestHost::new().filter("key", window).start().await;
    let text = "some words of an answer, 12 of them, go on and on. ".repeat(42_000);
    host.upstream.reply(Reply::text(&text));
    assert_eq!(host.ask("hi").await.text(), text);
}

#[tokio::test]
async fn text_that_a_filter_appends_precedes_the_tool_calls() {
    let host =
        TestHost::new().filter("signs", "fn outlet(body) { body.messages[-1].text += \" [signed]\"; body }");
    let host = host.start().await;
    let call = |index: usize, delta: Value| {
        let mut call = delta;
        call["index"] = json!(index);
        chunk(&json!({"tool_calls": [call]}), None)
    };
    for text in ["", "let me see"] {
        let mut sent = chunk(&json!({"role": "assistant", "content": text}), None);
        for index in 0..2 {
            let function = json!({"name": "add", "arguments": "{\"a\":"});
            sent += &call(
                index,
                json!({"id": format!("call_{index}"), "type": "function", "function": function}),
            );
            sent += &call(index, json!({"function": {"arguments": "1}"}}));
        }
        sent += &chunk(&json!({}), Some("tool_calls"));
        host.upstream.reply(Reply::raw("text/event-stream", sent + "data: [DONE]\n\n"));
        let mut body = streaming(MODEL, "hi");
        body["tools"] =
            json!([{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]);
        let answer = host.chat(&body).await;
        assert_eq!(answer.text(), format!("{text} [signed]"));
        let deltas: Vec<Value> =
            answer.events().iter().map(|event| event["choices"][0]["delta"].clone()).collect();
        let is_text = |delta: &Value| delta["content"].as_str().is_some_and(|text| !text.is_empty());
        let last_text = deltas.iter().rposition(is_text).unwrap();
        let first_call = deltas.iter().position(|delta| delta["tool_calls"].is_array()).unwrap();
        assert!(last_text < first_call, "{}", answer.body());
        let calls: Vec<(u64, String, String)> = deltas
            .iter()
            .flat_map(|delta| delta["tool_calls"].as_array().cloned().unwrap_or_default())
            .map(|call| {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                (call["index"].as_u64().unwrap(), text(&call["id"]), text(&call["function"]["arguments"]))
            })
            .collect();
        let expected = [0_u64, 1].map(|index| (index, format!("call_{index}"), "{\"a\":1}".to_owned()));
        assert_eq!(calls, expected);
        assert_eq!(answer.finishes(), ["tool_calls"]);
    }
}

#[tokio::test]
async fn an_answer_that_a_client_split_after_its_calls_reaches_the_service_as_one_message() {
    let host = TestHost::new().filter("reads", "fn inlet(body) { body }").start().await;
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}});
    let messages = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "assistant", "content": " [signed]"},
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
    ]);
    host.chat(&json!({"model": MODEL, "messages": messages})).await;
    let joined = json!({"role": "assistant", "content": " [signed]", "tool_calls": [call]});
    let sent = host.upstream.last().json();
    assert_eq!(sent["messages"], json!([messages[0], joined, messages[3]]));
}
