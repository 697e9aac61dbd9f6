//! One request to a service and back: its retries over all layers, the headers that are forwarded, and the
//! credential that pays for it.

use crate::generator::endpoints::asking;
use crate::host::{Answer, TestHost, chat_body};
use crate::upstream::{MODEL, Reply};
use serde_json::{Value, json};

const AT_ONCE: &str = "retry = { initial_delay_ms = 1, max_delay_ms = 2_000 }";
/// Makes the host read the response.
const LOOKS: &str = "fn stream(event) { event }\nfn outlet(body) { body }";
/// The chat endpoints.
const ENDPOINTS: [&str; 3] = ["/v1/chat/completions", "/v1/messages", "/v1/responses"];

fn busy(status: u16) -> Reply {
    Reply::json(&json!({"error": {"message": "busy", "type": "server_error"}})).status(status)
}

/// Returns a request in the format of the endpoint.
fn body(path: &str, stream: bool) -> Value {
    asking(path, MODEL, "hi", stream)
}

/// Sends a request as the SDKs do: they retry after a failure, unless the response tells them not to.
async fn as_an_sdk(host: &TestHost, path: &str, stream: bool) -> Answer {
    let mut retry = 0;
    loop {
        let request = host.request("POST", path).body(body(path, stream).to_string());
        let answer = Answer::of(request.header("x-stainless-retry-count", retry)).await;
        let may_retry = answer.header("x-should-retry") != Some("false");
        if answer.status == 200 || retry == 2 || !may_retry {
            return answer;
        }
        retry += 1;
    }
}

#[tokio::test]
async fn client_and_host_retries_do_not_multiply() {
    for path in ENDPOINTS {
        for (looks, stream) in [(false, false), (false, true), (true, false), (true, true)] {
            let setup = TestHost::new().provider(AT_ONCE);
            let host = if looks { setup.filter("looks", LOOKS) } else { setup }.start().await;
            host.upstream.reply(busy(409));
            let answer = as_an_sdk(&host, path, stream).await;
            assert_eq!((answer.status, answer.header("x-should-retry")), (409, Some("false")), "{path}");
            assert_eq!(host.upstream.requests().len(), 3, "{path}, looked at: {looks}, streamed: {stream}");
        }
    }
}

#[tokio::test]
async fn a_retry_by_the_client_is_sent_once() {
    let host = TestHost::new().provider(AT_ONCE).start().await;
    host.upstream.reply(busy(503));
    let request = host.request("POST", ENDPOINTS[0]).body(chat_body(MODEL, "hi").to_string());
    let answer = Answer::of(request.header("x-stainless-retry-count", 1)).await;
    assert_eq!((answer.status, host.upstream.requests().len()), (503, 1));
}

#[tokio::test]
async fn an_error_without_host_retries_may_be_retried_by_the_client() {
    let host = TestHost::new().start().await;
    host.upstream.reply(busy(503));
    let answer = as_an_sdk(&host, ENDPOINTS[0], false).await;
    assert_eq!((answer.status, answer.header("x-should-retry")), (503, None));
    assert_eq!(host.upstream.requests().len(), 3);
}

#[tokio::test]
async fn retries_of_agent_middleware_count_with_those_of_the_provider() {
    let agent = "[[models]]\nname = \"agent\"\nprovider = \"mock\"\nmodel = \"mock-1\"\n\
                 middleware = { model_retry = { max_retries = 4, initial_delay_ms = 1, max_delay_ms = 2 } }\n";
    let host = TestHost::new().provider(AT_ONCE).config(agent).start().await;
    host.upstream.reply(busy(503));
    assert_eq!(host.chat(&chat_body("agent", "hi")).await.status, 503);
    assert_eq!(host.upstream.requests().len(), 5);
}

#[tokio::test]
async fn configured_headers_pass_between_client_and_service() {
    let sent = [
        ("openai-organization", "org-1"),
        ("openai-project", "proj-1"),
        ("idempotency-key", "once"),
        ("http-referer", "https://app.example"),
        ("x-title", "App"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    let received = [
        ("x-request-id", "req_1"),
        ("x-ratelimit-remaining-requests", "59"),
        ("anthropic-ratelimit-tokens-limit", "80000"),
        ("openai-processing-ms", "12"),
    ];
    for path in ENDPOINTS {
        for (looks, stream, status) in [
            (false, false, 200),
            (false, true, 200),
            (true, false, 200),
            (true, true, 200),
            (false, false, 400),
        ] {
            let setup = TestHost::new();
            let host = if looks { setup.filter("looks", LOOKS) } else { setup }.start().await;
            host.upstream.script(move |service_request| {
                let reply = if status == 200 { Reply::fitting(service_request, "ok") } else { busy(status) };
                let reply = reply.header("set-cookie", "a=b").header("openai-organization", "ours");
                received.iter().fold(reply, |reply, (name, value)| reply.header(name, value))
            });
            let request =
                host.request("POST", path).body(body(path, stream).to_string()).header("x-mine", "private");
            let request = sent.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let answer = Answer::of(request.header("cookie", "c=d")).await;
            let what = format!("{path}, looked at: {looks}, streamed: {stream}");
            assert_eq!(answer.status, status, "{what}");
            let service_request = host.upstream.last();
            for (name, value) in sent {
                assert_eq!(
                    service_request.headers.get(name).map(|it| it.to_str().unwrap()),
                    Some(value),
                    "{what}"
                );
            }
            assert!(
                ["x-mine", "cookie"].iter().all(|name| !service_request.headers.contains_key(*name)),
                "{what}"
            );
            for (name, value) in received {
                assert_eq!(answer.header(name), Some(value), "{what}: {name}");
            }
            assert_eq!((answer.header("set-cookie"), answer.header("openai-organization")), (None, None));
        }
    }
}

#[tokio::test]
async fn forwarded_headers_are_configurable() {
    let config = "[server]\nrequest_headers = [\"X-Team-*\"]\nresponse_headers = []\n";
    let host = TestHost::new().config(config).start().await;
    host.upstream.script(|request| Reply::fitting(request, "ok").header("x-request-id", "req_1"));
    let request = host.request("POST", ENDPOINTS[0]).body(chat_body(MODEL, "hi").to_string());
    let answer = Answer::of(request.header("x-team-name", "red").header("x-title", "App")).await;
    assert_eq!(answer.header("x-request-id"), None);
    let headers = host.upstream.last().headers;
    assert_eq!((headers.contains_key("x-team-name"), headers.contains_key("x-title")), (true, false));
    for wrong in ["authorization", "cook*", "no name", "*"] {
        let mut host = TestHost::new().start().await;
        let toml = format!("{}\n[server]\nrequest_headers = [\"{wrong}\"]\n", host.settings());
        let refused = host.try_reconfigure(&toml).await.unwrap_err();
        assert!(refused.contains("request_headers"), "{refused}");
    }
}

#[tokio::test]
async fn only_the_first_model_call_of_a_turn_has_the_idempotency_key() {
    let tool = "/*\ndescription: Adds.\n*/\nfn handler(args) { \"3\" }";
    let agent = "[[models]]\nname = \"agent\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"add\"]\n";
    let host = TestHost::new().tool("add", tool).config(agent).start().await;
    host.upstream.script(|request| match request.json()["messages"].as_array().unwrap().len() {
        1 => Reply::json(&json!({"id": "c", "object": "chat.completion", "model": MODEL, "choices": [{
            "index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null,
            "tool_calls": [{"id": "t", "type": "function", "function": {"name": "add", "arguments": "{}"}}]}}]})),
        _ => Reply::text("3"),
    });
    let request = host.request("POST", ENDPOINTS[0]).body(chat_body("agent", "hi").to_string());
    assert_eq!(Answer::of(request.header("idempotency-key", "k")).await.text(), "3");
    let keys: Vec<bool> = host
        .upstream
        .requests()
        .iter()
        .map(|request| request.headers.contains_key("idempotency-key"))
        .collect();
    assert_eq!(keys, [true, false]);
}

/// Starts a host whose provider `own` is paid by callers, next to one with the operator's key.
async fn paid_by_callers(server: &str) -> TestHost {
    let host = TestHost::new().config(server).start().await;
    let toml = host.settings();
    let own = format!(
        "{toml}\n[[providers]]\nname = \"own\"\nkind = \"openai\"\nbase_url = \"{}\"\napi_key = \"client\"\n\
         models = [\"own-1\"]\n[[providers]]\nname = \"claude\"\nkind = \"anthropic\"\nbase_url = \"{}\"\n\
         api_key = \"client\"\nmodels = [\"claude-1\"]\n",
        host.upstream.url(),
        host.upstream.url()
    );
    let mut host = host;
    host.reconfigure(&own).await;
    host
}

fn authorization(host: &TestHost) -> Option<String> {
    let headers = host.upstream.last().headers;
    headers.get("authorization").map(|value| value.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn the_key_of_a_caller_reaches_only_the_configured_provider() {
    let host = paid_by_callers("").await;
    for model in ["own-1", MODEL] {
        for (path, looks) in [(ENDPOINTS[0], false), (ENDPOINTS[1], true), (ENDPOINTS[2], true)] {
            let mut sent = body(path, false);
            sent["model"] = json!(model);
            let request = host.request("POST", path).body(sent.to_string());
            assert_eq!(Answer::of(request.bearer_auth("sk-of-ann-and-nobody-else")).await.status, 200);
            let expected = if model == "own-1" { "sk-of-ann-and-nobody-else" } else { "sk-upstream" };
            assert_eq!(authorization(&host), Some(format!("Bearer {expected}")), "{path} {looks}");
        }
    }
    let refused = host.chat(&chat_body("own-1", "hi")).await;
    refused.refused(401, "send your own key as");
}

#[tokio::test]
async fn the_provider_receives_the_caller_key_and_never_the_host_key() {
    let host = paid_by_callers("[server]\nkeys = [\"host-key-1\"]\n").await;
    let ask = async |own: Option<&str>, key: Option<&str>| {
        let request = host.request("POST", ENDPOINTS[0]).body(chat_body("own-1", "hi").to_string());
        let request = own.into_iter().fold(request, |request, own| request.bearer_auth(own));
        Answer::of(key.into_iter().fold(request, |request, key| request.header("x-valvehouse-key", key)))
            .await
    };
    assert_eq!(ask(Some("sk-ann"), Some("host-key-1")).await.status, 200);
    assert_eq!(authorization(&host).as_deref(), Some("Bearer sk-ann"));
    ask(Some("host-key-1"), None).await.refused(401, "send your own key as");
    assert_eq!(ask(Some("sk-ann"), None).await.status, 401);
    assert_eq!(ask(Some("sk-ann"), Some("wrong")).await.status, 401);
    assert_eq!(host.upstream.requests().len(), 1);
}

#[tokio::test]
async fn an_anthropic_service_receives_the_caller_key_and_version_header() {
    let host = paid_by_callers("").await;
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "claude-1", "stop_reason":
        "end_turn", "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 1, "output_tokens": 1}});
    host.upstream.reply(Reply::json(&message));
    let ask = async |name: &str, value: &str| {
        let mut sent = body(ENDPOINTS[1], false);
        sent["model"] = json!("claude-1");
        let request = host.request("POST", ENDPOINTS[1]).body(sent.to_string()).header(name, value);
        let request = request.header("anthropic-version", "2026-10-21").header("anthropic-beta", "a-1,b-2");
        assert_eq!(Answer::of(request).await.status, 200);
        host.upstream.last().headers
    };
    let headers = ask("x-api-key", "sk-ant-ann").await;
    assert_eq!(headers["x-api-key"], "sk-ant-ann");
    assert_eq!(
        (&headers["anthropic-version"], &headers["anthropic-beta"]),
        (&"2026-10-21".parse().unwrap(), &"a-1,b-2".parse().unwrap())
    );
    let headers = ask("authorization", "Bearer sk-ant-oat").await;
    assert!(headers["authorization"] == "Bearer sk-ant-oat" && !headers.contains_key("x-api-key"));
}
