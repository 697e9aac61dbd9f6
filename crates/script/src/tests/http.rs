//! Tests of scripts' requests to other hosts, with real servers on the loopback interface.

use crate::run::script_call::CallEnd;
use crate::{Kind, Script, Settings, SourceFile};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::context::Turn;
use valvehouse_core::filter::Hook;
use valvehouse_dialect::value::{Shape, live};
use valvehouse_grants::{Grant, Grants};
use valvehouse_json::Json;
use valvehouse_testkit::loopback::{Server, ok, redirect};

fn script(code: &str, granted: &[&str]) -> Arc<Script> {
    let text = format!("/*\nrequirements: http\n*/\nfn inlet(body) {{ {code} }}");
    let file = SourceFile::new(Kind::Filter, "weather", "filters/weather.rhai", text);
    let http = Grant::Only(granted.iter().map(ToString::to_string).collect());
    let settings = Settings { grants: Grants { http, ..Grants::default() }, ..Settings::default() };
    let script = Script::compile(&file, &settings);
    Arc::new(script.unwrap_or_else(|problems| panic!("{code}: {problems:?}")))
}

/// Runs statements on a thread that may wait. Returns `body.out` or the failure.
async fn run(script: Arc<Script>, turn: &Turn) -> Result<String, String> {
    let turn = turn.clone();
    let call = move || {
        let body = Json::object();
        match script.call(Hook::Inlet, vec![live(&body, Shape::Body)], &turn).0 {
            Ok(_) => Ok(body.get("out").unwrap_or_default().to_string()),
            Err(CallEnd::Rejected(rejection)) => Err(rejection.message),
            Err(CallEnd::Broken { failure, .. }) => Err(failure.cause),
        }
    };
    valvehouse_executor::run(valvehouse_executor::Workload::Blocking, call).await.unwrap()
}

async fn try_out(code: &str) -> Result<String, String> {
    run(script(code, &["127.0.0.1"]), &Turn::default()).await
}

async fn gives(code: &str) -> String {
    try_out(code).await.unwrap_or_else(|error| panic!("{code}: {error}"))
}

async fn refuses(code: &str) -> String {
    match try_out(code).await {
        Ok(value) => panic!("{code} gives {value}"),
        Err(error) => error,
    }
}

/// Starts a server that answers with the request it received.
async fn echo() -> Server {
    Server::start(|request| ok(request)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_response_has_status_headers_text_and_json() {
    let server = Server::start(|request| {
        if request.starts_with("GET /missing") {
            return b"HTTP/1.1 404 Not Found\r\nX-Twice: a\r\nx-twice: b\r\ncontent-length: 2\r\n\r\nno"
                .to_vec();
        }
        ok(r#"{"current":{"temp":25.5},"days":[1,2]}"#)
    })
    .await;
    let (url, missing) = (server.url("/"), server.url("/missing"));
    for (code, expected) in [
        (format!(r#"let a = http::get("{url}"); body.out = a.json().current.temp;"#), "25.5"),
        (
            format!(r#"let a = http::get("{url}"); body.out = `${{a.json().days.len()}}/${{a.status}}`;"#),
            r#""2/200""#,
        ),
        (format!(r#"body.out = http::get("{url}").json().days.map(|day| day + 1);"#), "[2,3]"),
        (
            format!(
                r#"let a = http::get("{missing}"); body.out = [a.status, a.text, a.headers["x-twice"], a.headers.none];"#
            ),
            r#"[404,"no","a, b",null]"#,
        ),
        (format!(r#"body.out = http::get("{missing}").keys();"#), r#"["status","headers","text"]"#),
        (format!(r#"let a = http::head("{url}"); body.out = [a.status, a.text];"#), r#"[200,""]"#),
    ] {
        assert_eq!(gives(&code).await, expected, "{code}");
    }
    let code = format!(r#"try {{ http::get("{missing}").json(); }} catch (e) {{ body.out = e.message; }}"#);
    let output = gives(&code).await;
    assert!(
        output.contains("the answer with status 404 is not JSON") && output.contains("it is `no`"),
        "{output}"
    );
    let error = refuses("body.json();").await;
    assert!(error.contains("not an answer of `http::`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn http_options_set_what_is_sent() {
    let server = echo().await;
    let url = server.url("/x?a=1");
    for (call, words) in [
        (
            r#"get(U, #{ headers: #{ "X-Key": "k", n: 7, gone: () }, query: #{ q: "a b&c", l: [1, 2] } })"#,
            &["GET /x?a=1&q=a%20b%26c&l=1&l=2 HTTP/1.1", "x-key: k", "n: 7"] as &[_],
        ),
        (
            r#"post(U, #{ json: #{ a: [1, ()] } })"#,
            &["POST /x?a=1 ", "content-type: application/json", "\r\n\r\n{\"a\":[1,null]}"],
        ),
        (
            r#"post(U, #{ form: #{ a: "x y", b: 2 } })"#,
            &["content-type: application/x-www-form-urlencoded", "\r\n\r\na=x%20y&b=2"],
        ),
        (
            r#"put(U, #{ body: "text" })"#,
            &["PUT /x", "content-type: text/plain; charset=utf-8", "\r\n\r\ntext"],
        ),
        (
            r#"patch(U, #{ body: "<a/>", headers: #{ "content-type": "text/xml" } })"#,
            &["PATCH /x", "content-type: text/xml", "\r\n\r\n<a/>"],
        ),
        (r#"delete(U)"#, &["DELETE /x", "user-agent: valvehouse/"]),
        (r#"request("options", U, #{ timeout: 5000 })"#, &["OPTIONS /x"]),
        (r#"get(U, body.ensure("o", #{ query: #{ live: true } }))"#, &["GET /x?a=1&live=true "]),
    ] {
        let code = format!("body.out = http::{}.text;", call.replace('U', &format!("\"{url}\"")));
        let sent = gives(&code).await;
        let sent = Json::parse(sent.as_bytes()).unwrap().as_str().unwrap().to_owned();
        for word in words {
            assert!(sent.contains(word), "{call}: {word} is not in {sent}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsendable_http_requests_name_the_reason() {
    let server = echo().await;
    let url = server.url("/");
    for (call, words) in [
        (r#"get(U, [#{ header: #{} }][0])"#, "did you mean `headers`?"),
        (r#"get(U, 7)"#, "`options` must be a map, not"),
        (r#"get(U, #{ headers: [] })"#, "`headers` must be a map"),
        (r#"get(U, #{ headers: #{ host: "evil.test" } })"#, "`host` is set by the host"),
        (r#"get(U, #{ headers: #{ a: "b\r\nc: d" } })"#, "visible ASCII"),
        (r#"post(U, #{ json: 1, body: "2" })"#, "more than one of"),
        (r#"post(U, #{ body: 7 })"#, "`body` must be a text"),
        (r#"get(U, #{ timeout: 0 })"#, "above 0 and at most 300000"),
        (r#"get(U, #{ timeout: -1 })"#, "above 0 and at most 300000"),
        (r#"get(U, #{ timeout: 300_001 })"#, "above 0 and at most 300000"),
        (r#"get(U, #{ timeout: "x" })"#, "`timeout` must be a number, not"),
        (r#"request("TRACE", U)"#, "invalid method `TRACE`: expected one of GET"),
        (r#"get("/path")"#, "write it in full"),
    ] {
        let error = refuses(&format!("http::{};", call.replace('U', &format!("\"{url}\"")))).await;
        assert!(error.contains(words), "{call}: {error}");
    }
    assert_eq!(server.hits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_a_grant_is_rejected_with_the_command_that_grants_it() {
    let server = echo().await;
    let url = server.url("/");
    let code = |url: &str| format!(r#"try {{ http::get("{url}"); }} catch (e) {{ body.out = e.message; }}"#);
    let output = gives(&code("https://example.org/")).await;
    assert_eq!(
        output,
        "\"http::get: cannot request https://example.org/: the host `example.org` is not one of the hosts that this plugin may reach (127.0.0.1); grant it with: valvehouse grant weather http=example.org\""
    );
    let script = script(&code(&url), &["*.example.org"]);
    let output = run(script, &Turn::default()).await.unwrap();
    assert!(output.contains(&format!("valvehouse grant weather http=127.0.0.1:{}", server.port)), "{output}");
    let hop = Server::start(|_| redirect(302, "http://10.0.0.1/")).await;
    let output = gives(&code(&hop.url("/"))).await;
    assert!(
        output.contains("redirects to another address") && !output.contains("valvehouse grant"),
        "{output}"
    );
    assert_eq!(server.hits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_declares_public_hosts_and_no_private_ones() {
    let text = "/*\nrequirements: http\nallow_hosts: 127.0.0.1, api.example.com\n*/\nfn inlet(body) { try { http::get(\"http://127.0.0.1:1/\"); } catch (e) { body.out = e.message; } }";
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    let script = Script::compile(&file, &Settings::default()).unwrap();
    let output = run(Arc::new(script), &Turn::default()).await.unwrap();
    assert!(!output.contains("connection refused"), "{output}");
    assert!(output.contains("valvehouse grant x http=127.0.0.1:1"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_is_an_error_that_can_be_caught() {
    // A bound port without a listener.
    let down = tokio::net::TcpSocket::new_v4().unwrap();
    down.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = down.local_addr().unwrap();
    let silent = Server::silent().await;
    let url = silent.url("/");
    for (code, words) in [
        (format!(r#"http::get("http://{gone}/")"#), "connection refused"),
        (format!(r#"http::get("{url}", #{{ timeout: 2000 }})"#), "did not complete its response within 2 s"),
    ] {
        let output = gives(&format!("try {{ {code}; }} catch (e) {{ body.out = e.message; }}")).await;
        assert!(output.contains(words), "{output}");
    }
    assert_eq!(silent.hits(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_turn_ends_a_request() {
    let silent = Server::silent().await;
    let code = format!(r#"try {{ http::get("{}", #{{ timeout: 300_000 }}); }} catch {{ }}"#, silent.url("/"));
    let turn = Turn::default();
    let end = turn.until_dropped();
    let running = tokio::spawn({
        let (script, turn) = (script(&code, &["127.0.0.1"]), turn.clone());
        async move { run(script, &turn).await }
    });
    while silent.hits() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(end);
    // Well before the timeout of the request and the limit of the hook.
    let ended = tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
    assert!(ended.unwrap_err().contains("the request was canceled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_response_does_not_count_as_run_time() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(300));
        ok("late")
    })
    .await;
    assert_eq!(gives(&format!(r#"body.out = http::get("{}").text;"#, server.url("/"))).await, "\"late\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binary_body_is_read_as_bytes_only() {
    let server = Server::start(|_| {
        b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 6\r\n\r\n\x89PNG\xff\x00".to_vec()
    })
    .await;
    let url = server.url("/");
    let error = refuses(&format!(r#"body.out = http::get("{url}").text;"#)).await;
    assert!(
        error.contains("cannot read the answer (image/png, 6 bytes) as text: byte 0 is not UTF-8"),
        "{error}"
    );
    let error = refuses(&format!(r#"http::get("{url}").json();"#)).await;
    assert!(error.contains("its 6 bytes are not UTF-8"), "{error}");
    for (code, expected) in [
        (
            r#"let b = http::get(U).bytes; body.out = [b.len(), b[0], b.hex(), b.data_url()];"#,
            r#"[6,137,"89504e47ff00","data:image/png;base64,iVBORw==/"#,
        ),
        (r#"body.out = base64::encode(http::get(U).bytes);"#, r#""iVBOR/8A""#),
        (r#"body.out = http::get(U).bytes.text_lossy().len();"#, "6"),
        (r#"body.out = hash::sha256(http::get(U)["bytes"]).len();"#, "64"),
        (
            r#"let m = #{ role: "user", content: "look" }; body.messages = [m]; body.messages[0].add_image(http::get(U).bytes); body.out = body.messages[0].content;"#,
            r#"[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBOR/8A"}}]"#,
        ),
    ] {
        let output = gives(&code.replace('U', &format!("\"{url}\""))).await;
        let encoded = expected.replace("iVBORw==/", "iVBOR/8A\"]");
        assert_eq!(output, encoded, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_sent_as_a_body_and_as_form_parts() {
    let server = Server::start(|request| ok(request)).await;
    let url = server.url("/");
    for (options, words) in [
        (
            r#"body: base64::decode_bytes("/wA=")"#,
            &["content-type: application/octet-stream", "\r\n\r\n\u{fffd}\0"] as &[_],
        ),
        (
            r#"multipart: #{ n: 5, t: "a\"b", file: #{ data: base64::decode_bytes("/wA="), name: "x\r\n\".png", type: "image/png" }, raw: blob(1, 254), l: ["p", "q"] }"#,
            &[
                "content-type: multipart/form-data; boundary=valvehouse-",
                "name=\"n\"\r\n\r\n5\r\n",
                "name=\"t\"\r\n\r\na\"b\r\n",
                "name=\"file\"; filename=\"x%0D%0A%22.png\"\r\ncontent-type: image/png\r\n\r\n\u{fffd}\0\r\n",
                "name=\"raw\"; filename=\"raw\"\r\ncontent-type: application/octet-stream\r\n\r\n\u{fffd}\r\n",
                "name=\"l\"\r\n\r\np\r\n",
                "name=\"l\"\r\n\r\nq\r\n",
            ],
        ),
    ] {
        let code = format!(r#"body.out = http::post("{url}", #{{ {options} }}).text;"#);
        let sent = Json::parse(gives(&code).await.as_bytes()).unwrap().as_str().unwrap().to_owned();
        for word in words {
            assert!(sent.contains(word), "{word} in {sent}");
        }
    }
    for (options, why) in [
        (r#"multipart: #{ f: #{ name: "x" } }"#, "missing `data` of `multipart.f`"),
        (r#"multipart: #{ f: #{ data: "x", type: "png" } }"#, "invalid media type `png`"),
        (r#"multipart: #{ f: || 1 }"#, "`multipart.f` must be a text or bytes, not a function"),
        (r#"multipart: #{}, body: "x""#, "more than one of"),
        (r#"max_bytes: 9_000_000"#, "`max_bytes` must be from 1 to 8388608"),
    ] {
        let error = refuses(&format!(r#"http::post("{url}", #{{ {options} }});"#)).await;
        assert!(error.contains(why), "{error}");
    }
    let error = refuses(&format!(r#"http::get("{url}", #{{ max_bytes: 10 }});"#)).await;
    assert!(error.contains("exceeded its limit of 10 bytes"), "{error}");
}
