//! Services that fail, respond late or go away, and the results for the host's clients.

use crate::host::{Answer, TestHost, chat_body, streaming, until};
use crate::upstream::{Gate, MODEL, Reply, Upstream, UpstreamRequest};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use valvehouse::host::SharedStatus;

/// Retries without delay, for tests that are not about waiting.
const AT_ONCE: &str = "retry = { initial_delay_ms = 1, max_delay_ms = 2_000 }";

/// Makes the host read the response.
const LOOKS: &str = "fn stream(event) { event }\nfn outlet(body) { body }";

fn busy(status: u16) -> Reply {
    Reply::json(&json!({"error": {"message": "busy", "type": "server_error"}})).status(status)
}

/// Starts a host whose service fails `times` times and then responds, with or without a filter that reads the
/// response.
async fn fails(times: usize, failure: Reply, provider: &str, looks: bool) -> TestHost {
    let setup = TestHost::new().provider(provider);
    let host = if looks { setup.filter("looks", LOOKS) } else { setup }.start().await;
    let attempts = AtomicUsize::new(0);
    host.upstream.script(move |question| match attempts.fetch_add(1, Relaxed) {
        number if number < times => failure.clone(),
        _ => Reply::fitting(question, "here I am"),
    });
    host
}

/// Starts a raw server: on each connection it reads the request and sends the next of these answers,
/// repeating the last one. `None` closes the connection without an answer.
async fn raw(answers: &'static [Option<&'static str>]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        loop {
            let (mut caller, _) = listener.accept().await.unwrap();
            let number = counted.fetch_add(1, Relaxed);
            let answer = answers[number.min(answers.len() - 1)];
            tokio::spawn(async move {
                read_request(&mut caller).await;
                if let Some(answer) = answer {
                    caller.write_all(answer.as_bytes()).await.unwrap();
                    // Keeps the connection open and silent.
                    let _ = caller.read_u8().await;
                }
            });
        }
    });
    (url, count)
}

async fn read_request(caller: &mut TcpStream) {
    let mut request = Vec::new();
    while caller.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&request).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        if length.is_none_or(|length| body.len() >= length.parse().unwrap()) {
            return;
        }
    }
}

/// Starts a host with another provider `raw` and its model `raw-1`.
async fn host_of(url: &str, provider: &str) -> TestHost {
    let config = format!(
        "[[providers]]\nname = \"raw\"\nkind = \"openai\"\nbase_url = \"{url}\"\nmodels = [\"raw-1\"]\n{provider}"
    );
    TestHost::new().config(&config).start().await
}

#[tokio::test]
async fn a_service_that_recovers_during_retries_answers() {
    for looks in [false, true] {
        for failure in
            [busy(503), busy(500), busy(429), Reply::raw("text/html", "<h1>Bad gateway</h1>").status(502)]
        {
            let host = fails(2, failure.clone(), AT_ONCE, looks).await;
            assert_eq!(host.ask("hi").await.text(), "here I am");
            assert_eq!(host.upstream.requests().len(), 3);
            let host = fails(2, failure, AT_ONCE, looks).await;
            let answer = host.stream("hi").await;
            assert_eq!((answer.text().as_str(), answer.finishes()), ("here I am", vec!["stop".to_owned()]));
            let requests = host.upstream.requests();
            assert!(requests.len() == 3 && requests.iter().all(|question| question.body == requests[0].body));
        }
    }
}

#[tokio::test]
async fn a_server_error_is_tried_three_times_and_a_client_error_once() {
    for (status, times) in [(503, 3), (529, 3), (408, 3), (400, 1), (404, 1), (422, 1)] {
        let host = fails(9, busy(status), AT_ONCE, false).await;
        let answer = host.ask("hi").await;
        assert_eq!((answer.status, answer.message().as_str()), (status, "busy"));
        assert_eq!(host.upstream.requests().len(), times, "{status}");
    }
}

#[tokio::test]
async fn retry_after_of_a_service_is_respected() {
    for (header, value, least) in [("retry-after", "1", 950), ("retry-after-ms", "300", 290)] {
        let host = fails(1, busy(429).header(header, value), "retry = { max_delay_ms = 5_000 }", false).await;
        let begun = Instant::now();
        assert_eq!(host.ask("hi").await.text(), "here I am");
        let took = begun.elapsed().as_millis();
        assert!(took >= least, "{header}: {value}: {took} ms");
    }
    // Dates in headers have a resolution of one second.
    let after = Duration::from_secs(3);
    let (date, earliest) = (httpdate(after), SystemTime::now() + after - Duration::from_secs(1));
    let failure = busy(429).header("retry-after", &date);
    let host = fails(1, failure, "retry = { max_delay_ms = 5_000 }", false).await;
    assert_eq!(host.ask("hi").await.text(), "here I am");
    assert!(SystemTime::now() >= earliest, "{date}");
}

/// Returns a time in the format of headers.
fn httpdate(from_now: Duration) -> String {
    let moment = jiff::Timestamp::now() + from_now;
    moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

#[tokio::test]
async fn a_long_retry_after_is_passed_to_the_client() {
    let host = fails(9, busy(429).header("retry-after", "30"), AT_ONCE, false).await;
    let answer = host.ask("hi").await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("30")));
    assert_eq!(host.upstream.requests().len(), 1);
    let host = fails(9, busy(503).header("retry-after-ms", "2500"), AT_ONCE, true).await;
    assert_eq!(host.ask("hi").await.header("retry-after"), Some("3"));
}

#[tokio::test]
async fn a_stream_is_never_retried_after_its_first_chunk() {
    for looks in [false, true] {
        let host = fails(9, Reply::begun(["half a "]).then_cut(), AT_ONCE, looks).await;
        let answer = host.stream("hi").await;
        assert!(answer.message().contains("ended early"), "{}", answer.body());
        assert_eq!(host.upstream.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_connection_lost_after_sending_is_retried_only_with_after_send() {
    const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 60\r\n\r\n\
                         {\"choices\":[{\"message\":{\"content\":\"here\"},\"index\":0}],\"a\":1}";
    let (url, count) = raw(&[None, Some(WHOLE)]).await;
    let host = host_of(&url, AT_ONCE).await;
    let answer = host.chat(&chat_body("raw-1", "hi")).await;
    answer.refused(502, "provider raw did not answer");
    assert_eq!((answer.error()["code"].as_str(), count.load(Relaxed)), (Some("upstream_unreachable"), 1));

    let (url, count) = raw(&[None, Some(WHOLE)]).await;
    let host = host_of(&url, "retry = { initial_delay_ms = 1, after_send = true }").await;
    assert_eq!(host.chat(&chat_body("raw-1", "hi")).await.text(), "here");
    assert_eq!(count.load(Relaxed), 2);
}

#[tokio::test]
async fn an_unreachable_service_is_retried_and_named() {
    let down = refusing();
    let address = down.local_addr().unwrap();
    let host =
        host_of(&format!("http://{address}/v1"), "retry = { max_attempts = 21, initial_delay_ms = 30 }")
            .await;
    // The service starts between the attempts.
    let answer = tokio::spawn(Answer::tried(host.posting(chat_body("raw-1", "hi").to_string())));
    tokio::time::sleep(Duration::from_millis(60)).await;
    let router = axum::Router::new().fallback(|| async {
        ([("content-type", "application/json")], r#"{"choices":[{"index":0,"message":{"content":"up"}}]}"#)
    });
    let listener = down.listen(16).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    assert_eq!(answer.await.unwrap().unwrap().text(), "up");

    let down = refusing();
    let address = down.local_addr().unwrap();
    let host = host_of(&format!("http://{address}/v1"), AT_ONCE).await;
    host.chat(&chat_body("raw-1", "hi")).await.refused(502, "cannot reach provider raw");
}

#[tokio::test]
async fn a_disconnected_client_ends_the_wait_for_a_retry() {
    let host = fails(9, busy(503).header("retry-after-ms", "1500"), AT_ONCE, false).await;
    for stream in [true, false] {
        let body = if stream { streaming(MODEL, "hi") } else { chat_body(MODEL, "hi") };
        let before = host.upstream.requests().len();
        let leaving = tokio::spawn(host.posting(body.to_string()).send());
        host.upstream.wait_for_requests(before + 1).await;
        leaving.abort();
        tokio::time::sleep(Duration::from_millis(2_000)).await;
        assert_eq!(host.upstream.requests().len(), before + 1);
    }
}

/// Returns a bound port that refuses connections until something listens.
fn refusing() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}

/// Returns an address where connections hang: the backlog of the listener is full.
async fn crowded() -> (String, Vec<TcpStream>, TcpListener) {
    let listener = refusing().listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
    {
        waiting.push(stream);
    }
    (format!("http://{address}/v1"), waiting, listener)
}

#[tokio::test]
async fn each_timeout_error_names_its_setting() {
    let once = |timeouts: &str| format!("retry = {{ max_attempts = 1 }}\ntimeouts = {{ {timeouts} }}");
    let (url, _waiting, _listener) = crowded().await;
    let host = host_of(&url, &once("connect_ms = 80")).await;
    let answer = host.chat(&chat_body("raw-1", "hi")).await;
    answer.refused(504, "no connection within 0.08 s; raise timeouts.connect_ms of provider raw");
    assert_eq!(answer.error()["code"], "upstream_timeout");

    const HEAD: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let silent: [&[Option<&str>]; 2] = [&[Some("")], &[Some(HEAD)]];
    for answers in silent {
        // Headers alone are not a response yet, streamed or not.
        let (url, _) = raw(answers).await;
        let host = host_of(&url, &once("response_ms = 80")).await;
        for body in [chat_body("raw-1", "hi"), streaming("raw-1", "hi")] {
            let begun = Instant::now();
            let answer = host.chat(&body).await;
            answer.refused(504, "sent no response within 0.08 s; raise timeouts.response_ms of provider raw");
            assert!(begun.elapsed() < Duration::from_secs(20));
        }
    }

    for looks in [false, true] {
        let gate = Gate::closed();
        let setup = TestHost::new();
        let setup = if looks { setup.filter("looks", LOOKS) } else { setup };
        let host = setup.provider("timeouts = { idle_ms = 80 }").start().await;
        host.upstream.reply(Reply::begun(["one "]).then_gate(&gate));
        let answer = host.stream("hi").await;
        assert_eq!(answer.status, 200);
        let message = answer.message();
        let expected =
            "sent no further part of its response within 0.08 s; raise timeouts.idle_ms of provider mock";
        assert!(message.ends_with(expected), "{message}");
        assert_eq!(answer.text(), "one ");
        gate.open();
    }
}

#[tokio::test]
async fn a_complete_answer_has_a_configurable_time_limit() {
    for looks in [false, true] {
        let setup = TestHost::new().provider("timeouts = { total_ms = 300 }");
        let host = if looks { setup.filter("looks", LOOKS) } else { setup }.start().await;
        let expected = "within 0.3 s; raise timeouts.total_ms of provider mock";
        let gate = Gate::closed();
        host.upstream.reply(Reply::text("late").behind(&gate));
        host.ask("hi").await.refused(504, expected);
        // A response that is never silent for long, but never ends.
        let words = (0..200).fold(Reply::begun(["a "]), |reply, _| {
            reply
                .then_pause(Duration::from_millis(20))
                .then(crate::upstream::chunk(&json!({"content": "b "}), None))
        });
        host.upstream.reply(words);
        let begun = Instant::now();
        let answer = host.stream("hi").await;
        assert!(answer.message().ends_with(expected), "{}", answer.body());
        assert!(answer.text().starts_with("a b ") && begun.elapsed() < Duration::from_secs(20));
        gate.open();
        host.upstream.was_deserted(1).await;
    }
}

#[tokio::test]
async fn repeated_failures_open_the_breaker_of_a_service_until_a_probe() {
    for looks in [false, true] {
        let rest = "retry = { max_attempts = 1 }\nbreaker = { failure_threshold = 3, cool_down_ms = 3_000 }";
        let host = fails(3, busy(500), rest, looks).await;
        for prompt in ["one", "two", "three"] {
            assert_eq!(host.ask(prompt).await.status, 500);
        }
        for answer in [host.ask("hi").await, host.stream("hi").await] {
            answer.refused(
                503,
                "cannot call model mock-1 of provider mock: its circuit breaker is open after repeated failures; \
                 the next attempt is in ",
            );
            assert_eq!(answer.error()["code"], "upstream_breaker_open");
            let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=3).contains(&seconds), "{seconds}");
        }
        assert_eq!(host.upstream.requests().len(), 3, "it was left alone");
        until("it is tried again", || async { host.ask("hi").await.status == 200 }).await;
        assert_eq!(host.upstream.requests().len(), 4, "one call was enough");
        assert_eq!(host.ask("hi").await.text(), "here I am");
    }
}

#[tokio::test]
async fn client_errors_and_rate_limits_do_not_open_the_breaker_of_a_service() {
    let host = fails(99, busy(400), "breaker = { failure_threshold = 2 }", false).await;
    for _ in 0..4 {
        assert_eq!(host.ask("hi").await.status, 400);
    }
    host.upstream.reply(busy(429));
    for _ in 0..4 {
        assert_eq!(host.ask("hi").await.status, 429);
    }
}

/// Starts a host with a model `assistant` of `mock` and a fallback of another service.
async fn with_backup(backup: &Upstream, provider: &str, looks: bool) -> TestHost {
    let config = format!(
        "[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nfallbacks = [\"spare\"]\n\
         [[models]]\nname = \"spare\"\nprovider = \"backup\"\nmodel = \"small-1\"\nfallbacks = [\"demo/demo\"]\n\
         [[providers]]\nname = \"backup\"\nkind = \"openai\"\nbase_url = \"{}\"\nretry = {{ max_attempts = 1 }}",
        backup.url(),
    );
    let setup = TestHost::new().provider(provider).config(&config);
    if looks { setup.filter("looks", LOOKS) } else { setup }.start().await
}

#[tokio::test]
async fn a_fallback_model_answers_and_is_named() {
    let gate = Gate::closed();
    for (failure, provider) in [
        (busy(503), ""),
        (busy(429).header("retry-after", "60"), AT_ONCE),
        (busy(401), ""),
        (Reply::raw("text/html", "<h1>Sorry</h1>"), ""),
        (Reply::text("late").behind(&gate), "timeouts = { response_ms = 80 }"),
    ] {
        for looks in [false, true] {
            let backup = Upstream::start().await;
            let host = with_backup(&backup, provider, looks).await;
            host.upstream.reply(failure.clone());
            for body in [chat_body("assistant", "hi"), streaming("assistant", "hi")] {
                let answer = host.chat(&body).await;
                assert_eq!(answer.text(), "hello from upstream");
                assert_eq!(answer.header("x-valvehouse-model"), Some("backup/small-1"));
                let request = backup.last();
                assert_eq!(request.json()["model"], "small-1");
                assert_eq!(request.json()["messages"], body["messages"]);
                assert_eq!(request.headers.get("authorization"), None, "the key is the other service's");
            }
        }
    }
    gate.open();
}

#[tokio::test]
async fn fallbacks_are_not_used_for_successes_and_client_errors() {
    for looks in [false, true] {
        let backup = Upstream::start().await;
        let host = with_backup(&backup, "", looks).await;
        for body in [chat_body("assistant", "hi"), streaming("assistant", "hi")] {
            let answer = host.chat(&body).await;
            assert_eq!(answer.text(), "hello from upstream");
            assert_eq!(answer.header("x-valvehouse-model"), Some("mock/assistant"));
            assert_eq!(host.ask("hi").await.header("x-valvehouse-model"), None, "it has no fallbacks");
        }
        host.upstream.reply(busy(422));
        assert_eq!(host.chat(&chat_body("assistant", "hi")).await.status, 422);
        host.upstream.reply(Reply::begun(["half a "]).then_cut());
        let cut = host.chat(&streaming("assistant", "hi")).await;
        assert!(cut.text() == "half a " && cut.message().contains("ended early"), "{}", cut.body());
        assert!(backup.requests().is_empty());
    }
}

#[tokio::test]
async fn fallbacks_are_tried_in_order_and_the_first_error_is_returned() {
    for looks in [false, true] {
        let backup = Upstream::start().await;
        backup.reply(busy(500));
        let host = with_backup(&backup, "", looks).await;
        host.upstream.stop();
        for body in [chat_body("assistant", "good morning"), streaming("assistant", "good morning")] {
            let answer = host.chat(&body).await;
            assert!(answer.text().starts_with("You said: good morning"), "{}", answer.body());
            assert_eq!(answer.header("x-valvehouse-model"), Some("demo/demo"));
        }
    }
    let config = "[[models]]\nname = \"a\"\nprovider = \"mock\"\nfallbacks = [\"mock/b\"]";
    let host = TestHost::new().config(config).start().await;
    host.upstream.script(|request| busy(if request.json()["model"] == "a" { 503 } else { 500 }));
    assert_eq!(host.chat(&chat_body("a", "hi")).await.status, 503);
    assert_eq!(host.upstream.requests().len(), 2);
}

#[tokio::test]
async fn one_failing_prompt_opens_no_breaker_and_models_are_separate() {
    let host =
        TestHost::new().provider("breaker = { failure_threshold = 2, cool_down_ms = 60_000 }").start().await;
    host.upstream.script(|request| match (request.json()["model"] == "down", request.last_text().as_str()) {
        (true, _) | (_, "poison") => busy(500),
        _ => Reply::fitting(request, "here I am"),
    });
    for _ in 0..5 {
        assert_eq!(host.ask("poison").await.status, 500);
    }
    assert_eq!(host.ask("hi").await.text(), "here I am");
    for (prompt, status) in [("one", 500), ("two", 500), ("three", 503)] {
        assert_eq!(host.chat(&chat_body("down", prompt)).await.status, status, "{prompt}");
    }
    assert_eq!(host.ask("hi").await.text(), "here I am");
}

#[tokio::test]
async fn an_open_breaker_answers_without_waiting() {
    let backup = Upstream::start().await;
    let host =
        with_backup(&backup, "breaker = { failure_threshold = 2, cool_down_ms = 60_000 }", false).await;
    host.upstream.reply(busy(500));
    for prompt in ["one", "two", "three", "four", "five"] {
        assert_eq!(host.chat(&chat_body("assistant", prompt)).await.text(), "hello from upstream");
    }
    assert_eq!((host.upstream.requests().len(), backup.requests().len()), (2, 5));
}

#[tokio::test]
async fn a_host_reports_providers_with_an_open_breaker() {
    let host =
        fails(99, busy(500), "breaker = { failure_threshold = 2, cool_down_ms = 60_000 }", false).await;
    assert_eq!(host.ready().await["providers"], json!({"demo": "used", "mock": "used"}));
    for prompt in ["one", "two"] {
        assert_eq!(host.ask(prompt).await.status, 500);
    }
    assert_eq!(host.ready().await["providers"]["mock"], "breaker_open");
    let standing = || async { SharedStatus::from_hosts(&host.store().hosts().await.unwrap()) };
    until("the host tells", || async { !standing().await.provider("mock").is_empty() }).await;
    let standing = standing().await;
    let [open] = standing.provider("mock") else { panic!("{standing:?}") };
    assert_eq!((open.failures, open.cause.as_str()), (2, "model mock-1: provider mock answered 500"));
    assert!(open.next_try > Duration::from_secs(1) && standing.provider("demo").is_empty());
}

#[tokio::test]
async fn a_missing_provider_key_is_a_failure_of_the_service_with_a_fix() {
    let service = Upstream::start().await;
    service.reply(Reply::json(&json!({"error": {"message": "You didn't provide an API key."}})).status(401));
    let host = host_of(&service.url(), "").await;
    let answer = host.chat(&chat_body("raw-1", "hi")).await;
    answer.refused(
        502,
        "provider raw returned 401, and its key is not set: set api_key = \"env:NAME\" for provider raw (its message: You \
         didn't provide an API key.)",
    );
    assert_eq!(answer.error()["code"], "provider_key_missing");
}

#[tokio::test]
async fn a_changed_key_file_is_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "sk-first\n").unwrap();
    let service = Upstream::start().await;
    let host = host_of(&service.url(), &format!("api_key = \"file:{}\"", file.display())).await;
    let sent = || async {
        assert_eq!(host.chat(&chat_body("raw-1", "hi")).await.status, 200);
        service.last().headers["authorization"].to_str().unwrap().to_owned()
    };
    assert_eq!(sent().await, "Bearer sk-first");
    std::fs::write(&file, "sk-second\n").unwrap();
    until("the new key is used", || async { sent().await == "Bearer sk-second" }).await;
}

/// Records the log of this thread at the finest level.
#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn logs_errors_and_answers_never_contain_a_key() {
    const KEY: &str = "sk-upstream";
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _logs = valvehouse_testkit::subscriber::subscribe(subscriber);
    let backup = Upstream::start().await;
    backup.script(|request| Reply::fitting(request, "fine"));
    let breaker = "breaker = { failure_threshold = 3, cool_down_ms = 60_000 }";
    for looks in [false, true] {
        let host = with_backup(&backup, &format!("{AT_ONCE}\n{breaker}"), looks).await;
        // A service that repeats the key in every part of its response.
        for status in [401, 404, 429, 503, 302, 200] {
            host.upstream.script(move |request| {
                let key_echo = format!("{:?}", request.headers["authorization"]);
                Reply::json(
                    &json!({"error": {"message": key_echo.clone(), "code": key_echo, "param": key_echo}}),
                )
                .status(status)
                .header("retry-after-ms", "1")
                .header("location", "/elsewhere")
            });
            for body in [chat_body(MODEL, "hi"), streaming(MODEL, "hi"), chat_body("assistant", "hi")] {
                let answer = host.chat(&body).await;
                // Without a filter, a successful response is the service's own.
                if looks || status != 200 {
                    assert!(!answer.body().contains(KEY), "{status}: {}", answer.body());
                }
            }
        }
        host.upstream.stop();
        let answer = host.ask("is anybody there?").await;
        assert!(answer.status >= 500 && !answer.body().contains(KEY));
        let listed = format!("{:?}", host.app().config);
        assert!(listed.contains("api_key: Some(Literal(***))") && !listed.contains(KEY), "{listed}");
    }
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        logged.contains("retrying in") && logged.contains("the request falls back to this provider"),
        "{logged}"
    );
    assert!(logged.contains("circuit breaker opened"));
    if let Some(at) = logged.find(KEY) {
        panic!("…{}…", &logged[at.saturating_sub(300)..(at + 100).min(logged.len())]);
    }
}

#[tokio::test]
async fn ollama_is_called_over_its_own_api_and_answers_over_openais() {
    let service = Upstream::start().await;
    let lines = [
        json!({"model": "llama3", "message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": false}),
        json!({"model": "llama3", "message": {"role": "assistant", "content": "good "}, "done": false}),
        json!({"model": "llama3", "message": {"role": "assistant", "content": "morning"}, "done": false}),
        json!({"model": "llama3", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
               "prompt_eval_count": 3, "eval_count": 2}),
    ];
    service.script(move |request| {
        if request.json()["stream"] == json!(true) {
            let text: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
            Reply::raw("application/x-ndjson", text.concat())
        } else {
            Reply::json(&json!({"model": "llama3", "done": true, "done_reason": "stop", "prompt_eval_count": 3,
                "eval_count": 2, "message": {"role": "assistant", "content": "good morning", "thinking": "hm"}}))
        }
    });
    let config = format!(
        "[[providers]]\nname = \"home\"\nkind = \"ollama\"\nbase_url = \"{}\"\nmodels = [\"llama3\"]",
        service.url()
    );
    for shouts in [false, true] {
        let setup = TestHost::new().config(&config);
        let shout = "fn stream(event) { event.text = event.text.to_upper(); event }";
        let host = if shouts { setup.filter("shout", shout) } else { setup }.start().await;
        let expected = if shouts { "GOOD MORNING" } else { "good morning" };
        let mut body = chat_body("llama3", "hi");
        body["max_tokens"] = json!(9);
        let whole = host.chat(&body).await;
        assert_eq!((whole.text().as_str(), &whole.json()["usage"]["total_tokens"]), (expected, &json!(5)));
        assert_eq!(whole.json()["choices"][0]["message"]["reasoning_content"], "hm");
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
        let streamed = host.chat(&body).await;
        assert_eq!((streamed.text().as_str(), streamed.finishes()), (expected, vec!["stop".to_owned()]));
        assert_eq!(streamed.events().last().unwrap()["usage"]["completion_tokens"], 2);
        let request = service.last();
        assert_eq!(request.path, "/api/chat");
        assert_eq!(request.json()["options"], json!({"num_predict": 9}));
    }
    service.reply(Reply::json(&json!({"error": "model 'llama3' not found"})).status(404));
    let host = TestHost::new().config(&config).start().await;
    host.chat(&chat_body("llama3", "hi")).await.refused(404, "model 'llama3' not found");
}

/// Starts a service that counts its connections.
async fn counting(
    answer: impl Fn() -> axum::response::Response + Clone + Send + Sync + 'static,
) -> (String, Peers) {
    let peers = Peers::default();
    let seen = peers.clone();
    let handler = move |peer: axum::extract::ConnectInfo<std::net::SocketAddr>, _body: bytes::Bytes| {
        seen.0.lock().unwrap().push(peer.0.port());
        let answer = answer();
        // Long enough for concurrent requests to overlap.
        async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            answer
        }
    };
    let router = axum::Router::new().fallback(handler);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let service = router.into_make_service_with_connect_info::<std::net::SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    (url, peers)
}

#[derive(Clone, Default)]
struct Peers(Arc<std::sync::Mutex<Vec<u16>>>);

impl Peers {
    fn calls(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn connections(&self) -> usize {
        self.0.lock().unwrap().iter().collect::<std::collections::HashSet<_>>().len()
    }
}

#[tokio::test]
async fn connections_are_reused_after_answers_streams_and_errors() {
    use axum::response::IntoResponse;
    const WHOLE: &str =
        r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
    const EVENTS: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n\
                          data: [DONE]\n\n";
    type Answering = fn() -> axum::response::Response;
    let whole: Answering = || ([("content-type", "application/json")], WHOLE).into_response();
    let events: Answering = || {
        let chunks =
            EVENTS.split_inclusive("\n\n").map(|chunk| Ok::<_, std::io::Error>(bytes::Bytes::from(chunk)));
        let body = axum::body::Body::from_stream(futures::stream::iter(chunks));
        ([("content-type", "text/event-stream")], body).into_response()
    };
    let error: Answering = || {
        (
            axum::http::StatusCode::BAD_REQUEST,
            [("content-type", "application/json")],
            r#"{"error":{"message":"no"}}"#,
        )
            .into_response()
    };
    for looks in [false, true] {
        for (answering, body) in [
            (whole, chat_body("raw-1", "hi")),
            (events, streaming("raw-1", "hi")),
            (error, chat_body("raw-1", "hi")),
            (error, streaming("raw-1", "hi")),
        ] {
            let (url, peers) = counting(answering).await;
            let config = format!(
                "[[providers]]\nname = \"raw\"\nkind = \"openai\"\nbase_url = \"{url}\"\nmodels = [\"raw-1\"]"
            );
            let setup = TestHost::new().config(&config);
            let host = if looks { setup.filter("looks", LOOKS) } else { setup }.start().await;
            for _ in 0..6 {
                host.chat(&body).await;
            }
            assert_eq!((peers.calls(), peers.connections()), (6, 1), "one after the other: {body}");
            for _ in 0..3 {
                futures::future::join_all((0..4).map(|_| host.chat(&body))).await;
            }
            // Four concurrent requests need four connections, and later requests reuse them.
            assert_eq!(peers.calls(), 18);
            assert!(peers.connections() <= 5, "{} connections: {body}", peers.connections());
        }
    }
}

fn key_of(question: &UpstreamRequest) -> &str {
    question.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or("")
}

#[tokio::test]
async fn keys_take_turns_and_a_limited_one_rests() {
    let keys = "api_keys = [\"two\", \"three\"]";
    for (status, looks) in [(429, true), (429, false), (401, true), (403, false)] {
        let setup = TestHost::new().provider(keys);
        let host = if looks { setup.filter("looks", LOOKS) } else { setup }.start().await;
        host.upstream.script(move |question| match key_of(question) {
            "Bearer two" => busy(status).header("retry-after", "60"),
            _ => Reply::fitting(question, "here I am"),
        });
        for number in 0..6 {
            assert_eq!(
                host.ask(&format!("question {number}")).await.text(),
                "here I am",
                "{status} {number}"
            );
        }
        let sent = host.upstream.requests();
        let used = |key: &str| sent.iter().filter(|one| key_of(one) == key).count();
        assert_eq!(["Bearer sk-upstream", "Bearer two", "Bearer three"].map(used), [3, 1, 3], "{status}");
        let metrics = host.get("/metrics").await;
        for (state, count) in [("ready", 2), ("resting", 1)] {
            let line = format!("valvehouse_provider_keys{{provider=\"mock\",state=\"{state}\"}} {count}");
            assert!(metrics.body().contains(&line), "{line}\n{}", metrics.body());
        }
    }
}

#[tokio::test]
async fn a_request_ends_when_each_key_was_refused_once() {
    let keys = "api_keys = [\"two\"]";
    let host = TestHost::new().provider(keys).start().await;
    for wait in ["0", "60"] {
        host.upstream.script(move |_| busy(429).header("retry-after", wait));
        let before = host.upstream.requests().len();
        assert_eq!(host.ask(wait).await.status, 429, "retry-after: {wait}");
        assert_eq!(host.upstream.requests().len() - before, 2, "retry-after: {wait}");
    }
}
