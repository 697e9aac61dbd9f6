//! Answers that are read as they come, in pipes as the host runs them.

use futures::StreamExt;
use futures::future::{self, BoxFuture, FutureExt};
use futures::stream::{self, BoxStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use valvehouse_core::chat::{Head, event};
use valvehouse_core::context::Turn;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, Provider, Request};
use valvehouse_dialect::call::resources::{Models, Question};
use valvehouse_grants::{Grant, Grants};
use valvehouse_json::Json;
use valvehouse_script::{Kind, Pipes, Script, Settings, SourceFile};

/// A model that says two words, the second when it is let.
#[derive(Debug, Default)]
struct Slow {
    more: Arc<Notify>,
    dropped: Arc<AtomicBool>,
}

struct DropMark(Arc<AtomicBool>);

impl Drop for DropMark {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

impl Models for Slow {
    fn chat(&self, question: Question) -> BoxFuture<'static, Result<Json, Error>> {
        let text =
            format!("re: {}", question.request.at_path("messages.0.content").as_str().unwrap_or_default());
        future::ready(Ok(Json::from([("content", text.into())]))).boxed()
    }

    fn stream(&self, _: Question) -> BoxStream<'static, Result<Json, Error>> {
        let head = Head::with_id("chatcmpl-upstream", "slow");
        let word = |text: &str| Ok(head.chunk(Json::from([("content", text.into())]), None));
        let (first, second, end) =
            (word("one"), word(" two"), Ok(head.chunk(Json::object(), Some("length"))));
        let (more, held) = (self.more.clone(), DropMark(self.dropped.clone()));
        let later = stream::once(async move {
            more.notified().await;
            drop(held);
            second
        });
        stream::iter([first]).chain(later).chain(stream::iter([end])).boxed()
    }
}

fn pipes(code: &str, settings: Settings) -> Pipes {
    let text = format!("/*\nrequirements: http, llm\n*/\nfn pipe(body) {{ {code} }}");
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    let grants = Grants { http: Grant::Only(vec!["127.0.0.1".into()]), ..Grants::default() };
    let script = Script::compile(&file, &Settings { grants, ..settings });
    let script = script.unwrap_or_else(|problems| panic!("{code}: {problems:?}"));
    Pipes::new(vec![Arc::new(script).into_pipe(Arc::default()).unwrap()])
}

async fn ask(pipes: &Pipes, stream: bool) -> Result<Answer, Error> {
    let body = Json::parse(br#"{"model":"x","messages":[{"role":"user","content":"hi"}]}"#).unwrap();
    pipes.chat(Request { turn: Some(Turn::default()), ..Request::new(body, stream) }).await
}

async fn text(code: &str, settings: Settings) -> String {
    match ask(&pipes(code, settings), false).await {
        Ok(Answer::Whole(whole)) => {
            let choice = whole.at_path("choices.0");
            format!(
                "{}/{}",
                choice.at_path("message.content").as_str().unwrap_or("-"),
                choice.text("finish_reason").unwrap_or_default()
            )
        }
        Ok(Answer::Stream(_)) => "a stream".into(),
        Err(error) => format!("{error:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_chunk_is_sent_before_the_second_arrives() {
    for code in [
        "for event in llm::stream(#{ messages: body.messages }) { yield_text(event.text); }",
        "for event in llm::stream(#{ messages: body.messages }) { yield_piece(event); }",
        "llm::stream(#{ messages: body.messages })",
        "let answer = llm::stream(#{ messages: body.messages }); || answer.next()",
    ] {
        let model = Slow::default();
        let more = model.more.clone();
        let pipes = pipes(code, Settings { models: Some(Arc::new(model)), ..Settings::default() });
        let Ok(Answer::Stream(mut pieces)) = ask(&pipes, true).await else { panic!("{code}: no stream") };
        let mut output = String::new();
        let mut ids = Vec::new();
        while output != "one" {
            let piece = pieces.next().await.unwrap().unwrap().event;
            ids.push(piece.text("id").unwrap());
            output += &event::text(&piece);
        }
        more.notify_one();
        while let Some(piece) = pieces.next().await {
            let piece = piece.unwrap().event;
            ids.push(piece.text("id").unwrap());
            output += &event::text(&piece);
        }
        ids.dedup();
        assert_eq!((output.as_str(), ids.len()), ("one two", 1), "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_return_value_of_a_pipe_follows_its_yielded_chunks() {
    let model = || {
        let model = Slow::default();
        model.more.notify_one();
        Settings { models: Some(Arc::new(model)), ..Settings::default() }
    };
    for (code, wanted) in [
        (r#"yield_text("a"); yield_text(""); yield_text("b");"#, "ab/stop"),
        (r#"yield_text("a"); "b""#, "ab/stop"),
        (r#"yield_text("a"); #{ role: "assistant", content: "b" }"#, "ab/stop"),
        (r#"yield_text("a"); llm::stream(#{ messages: body.messages })"#, "aone two/length"),
        (r#"let n = 0; for event in llm::stream(#{}) { n += 1; if n == 1 { break; } } `${n}`"#, "1/stop"),
        (
            r#"text::join(llm::all([#{ messages: [#{ content: "a" }] }, #{ messages: [#{ content: "b" }] }]).map(|it| it.content), ",")"#,
            "re: a,re: b/stop",
        ),
        (r#"yield_text("a"); throw "broken""#, "broken"),
        (r#"parallel([|| yield_text("a"), || yield_text("a")]); ()"#, "aa/stop"),
    ] {
        let output = text(code, model()).await;
        assert!(output.contains(wanted), "{code}: {output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_client_ends_the_model_call_and_the_script() {
    let model = Slow::default();
    let dropped = model.dropped.clone();
    let pipes = pipes("llm::stream(#{})", Settings { models: Some(Arc::new(model)), ..Settings::default() });
    let Ok(Answer::Stream(mut pieces)) = ask(&pipes, true).await else { panic!("no stream") };
    assert!(pieces.next().await.is_some());
    drop(pieces);
    for _ in 0..2_000 {
        if dropped.load(SeqCst) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the model is still called");
}

/// A host that sends these parts, the second and those behind it when it is let.
async fn host(parts: &'static [&'static [u8]]) -> (String, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, more) = (format!("http://{}/", listener.local_addr().unwrap()), Arc::new(Notify::new()));
    let let_on = more.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4_096]).await;
            let _ = stream.write_all(b"HTTP/1.1 201 Made\r\nx-a: b\r\nconnection: close\r\n\r\n").await;
            for (index, part) in parts.iter().enumerate() {
                if index == 1 {
                    let_on.notified().await;
                }
                let _ = stream.write_all(part).await;
            }
        }
    });
    (url, more)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_stream_is_read_by_lines_events_and_chunks() {
    const PARTS: &[&[u8]] = &[b"event: a\r\ndata: {\"t\":\"\xc3", b"\xa4\"}\n\ndata: [DONE]\n\n"];
    for (code, wanted) in [
        (
            "for line in http::stream(U) { yield_text(`<${line}>`); }",
            r#"<event: a><data: {"t":"ä"}><><data: [DONE]><>/stop"#,
        ),
        (
            "for e in http::stream(U, #{ read: \"sse\" }) { yield_text(`${e.event}=${e.data};`); }",
            r#"a={"t":"ä"};message=[DONE];/stop"#,
        ),
        (
            "let all = (); for part in http::stream(U, #{ read: \"chunks\" }) { all = if all == () { part } else { all + part }; } all.text().lines().len().to_string()",
            "function not found",
        ),
        (
            "let n = 0; for part in http::stream(U, #{ read: \"chunks\" }) { n += part.len(); } `${n}`",
            "42/stop",
        ),
        ("let s = http::stream(U); `${s.status} ${s.headers[\"x-a\"]} ${s.next()}`", "201 b event: a/stop"),
        ("http::stream(U, #{ read: \"words\" })", "unknown `read`"),
        ("let how = #{ methd: \"GET\" }; http::stream(U, how)", "unknown option `methd`"),
    ] {
        let (url, more) = host(PARTS).await;
        more.notify_one();
        let output = text(&code.replace('U', &format!("\"{url}\"")), Settings::default()).await;
        assert!(output.contains(wanted), "{code}: {output}");
    }
    let (url, more) = host(&[b"\xff\n", b""]).await;
    more.notify_one();
    let output =
        text(&format!("for line in http::stream(\"{url}\") {{ yield_text(line); }}"), Settings::default())
            .await;
    assert!(output.contains("byte 0 is not UTF-8; read `chunks`"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_of_an_http_stream_is_sent_before_the_second_arrives() {
    let (url, more) = host(&[b"one\n", b"two\n"]).await;
    let code = format!("for line in http::stream(\"{url}\") {{ yield_text(line); }}");
    let Ok(Answer::Stream(mut pieces)) = ask(&pipes(&code, Settings::default()), true).await else {
        panic!("no stream")
    };
    let mut output = String::new();
    while output != "one" {
        output += &event::text(&pieces.next().await.unwrap().unwrap().event);
    }
    more.notify_one();
    while let Some(piece) = pieces.next().await {
        output += &event::text(&piece.unwrap().event);
    }
    assert_eq!(output, "onetwo");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_hosts_are_requested_in_parallel() {
    let server = valvehouse_testkit::loopback::Server::start(|request| {
        valvehouse_testkit::loopback::ok(request.split(' ').take(2).collect::<Vec<_>>().join(" "))
    })
    .await;
    let (a, b) = (server.url("/a"), server.url("/b"));
    let code = format!(
        r#"text::join(http::all(["{a}", #{{ url: "{b}", method: "POST", json: 1 }}]).map(|it| it.text), ", ")"#
    );
    assert_eq!(text(&code, Settings::default()).await, "GET /a, POST /b/stop");
    let wrong = text(r#"http::all([#{ method: "GET" }]); 1"#, Settings::default()).await;
    assert!(wrong.contains("a map with a `url`"), "{wrong}");
}
